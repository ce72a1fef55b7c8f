"""Change -> altered paths: counted, walked, attributed. The compiled loops lie beside the code that calls them."""
