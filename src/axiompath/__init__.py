"""AxiomPath: why did the GNN change its mind?

model + before + after
  -> Network        the model in a normal form that every later step understands    readers/, network.py
  -> Change         what differs between the snapshots, coefficient by coefficient  change.py
  -> PathSet        the altered paths, counted and walked                           paths.py
  -> Attribution    every path's exact share of every logit's change                attribution.py
  -> Selection      the few paths that best approximate the change, certified       selection/
  -> Explanation    a frozen record: numbers, paths, fidelity                       explanation.py
"""

from .attribution import Attribution
from .explainer import Explainer
from .explanation import Explanation
from .pyg import PyGAlgorithm
from .readers import UnreadableModel, check, register_reader
from .selection import Selection, select
from .states import KINDS

__all__ = [
    "KINDS",
    "Attribution",
    "Explainer",
    "Explanation",
    "PyGAlgorithm",
    "Selection",
    "UnreadableModel",
    "check",
    "register_reader",
    "select",
]
