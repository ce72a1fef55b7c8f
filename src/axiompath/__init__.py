"""AxiomPath: why did the GNN change its mind?

model + before + after
  -> Network        the model in a normal form that every later step understands    readers/, network.py
  -> Change         what differs between the snapshots, coefficient by coefficient  change.py
  -> PathSet        the altered paths, counted and walked                           paths.py
  -> Attribution    every path's exact share of every logit's change                attribution.py
  -> Selection      the few paths that best approximate the change, certified       selection/
  -> Explanation    a frozen record: numbers, paths, fidelity                       explanation.py
  -> Story          the explanations of a sequence of snapshots, step by step       story.py, telling.py
  -> Scan           every moved node, explained on all cores or a cluster           scan/
  -> report         pictures and pages to look at                                   report/
"""

from .attribution import Attribution
from .errors import InputError
from .explainer import Explainer
from .explanation import Explanation
from .files import convert_graph, load_model, match_graphs, read_graph, save_graph, save_model
from .origin import RELEASE, Origin
from .pyg import PyGAlgorithm
from .readers import UnreadableModel, check, register_reader
from .report import build_report, build_story_report, save_report, save_story_report
from .scan import Scan, read_scan
from .selection import Selection, select
from .sequence import scan_sequence
from .states import KINDS
from .stored import StoredGraph, open_graph
from .story import Story
from .telling import Stories, tell_stories

__version__ = RELEASE

__all__ = [
    "KINDS",
    "Attribution",
    "Explainer",
    "Explanation",
    "InputError",
    "Origin",
    "PyGAlgorithm",
    "Scan",
    "Selection",
    "StoredGraph",
    "Stories",
    "Story",
    "UnreadableModel",
    "build_report",
    "build_story_report",
    "check",
    "convert_graph",
    "load_model",
    "match_graphs",
    "open_graph",
    "read_graph",
    "read_scan",
    "register_reader",
    "save_graph",
    "save_model",
    "save_report",
    "save_story_report",
    "scan_sequence",
    "select",
    "tell_stories",
]
