"""AxiomPath: why did the GNN change its mind?

model + before + after
  -> Network        the model in a normal form that every later step understands   readers/, network.py
  -> Change         what differs between the snapshots, coefficient by coefficient  change.py
  -> PathSet        the altered paths, counted and walked                           paths.py
  -> Attribution    every path's exact share of every logit's change                attribution.py
"""

from .attribution import Attribution
from .explainer import Explainer
from .readers import UnreadableModel, check, register_reader
from .states import KINDS

__all__ = ["KINDS", "Attribution", "Explainer", "UnreadableModel", "check", "register_reader"]
