"""The normal form of a GNN: layers, activations, rules of coefficients; its pass, and the pass anew after a change."""
