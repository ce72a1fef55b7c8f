"""A sequence of snapshots -> what happened to a node, step by step."""
