"""The paper's protocol, one file an experiment."""
