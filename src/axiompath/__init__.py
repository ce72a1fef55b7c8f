"""AxiomPath."""
