"""A sequence of snapshots -> what happened to a node, step by step; scans of every step."""
