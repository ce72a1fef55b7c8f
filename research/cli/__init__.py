"""Commands: `python -m research reproduce ...` and `python -m research benchmark ...`."""
