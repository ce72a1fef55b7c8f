"""The paper's protocol, one file per experiment."""
