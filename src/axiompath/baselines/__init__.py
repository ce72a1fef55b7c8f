"""Rankings that look only at `after`: what explainers of static predictions would choose.

They rank all paths of `after`, old and new, of which there can be billions; both find the best n exactly without
holding the others.
"""

from .gnnlrp import best_by_relevance
from .gradient import best_by_edges, best_by_gradient

BASELINES = {"gnnlrp": best_by_relevance, "grad": best_by_gradient}

__all__ = ["BASELINES", "best_by_edges", "best_by_gradient", "best_by_relevance"]
