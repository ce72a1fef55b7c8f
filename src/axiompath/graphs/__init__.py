"""One snapshot of a graph, in memory or mapped from disk; two of them numbered alike; what happened between them."""
