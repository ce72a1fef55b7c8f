"""AxiomPath: why did the GNN change its mind?

model + before + after
  -> Snapshot       one graph at one moment, in memory or on disk; two numbered alike   graphs/, files/
  -> Network        the model in a normal form that every later step understands        network/, readers/
  -> Change         what differs between the snapshots, coefficient by coefficient      change/
  -> Attribution    every altered path and its exact share of every logit's change      paths/
  -> Selection      the few paths that best approximate the change, certified           selection/, rivals/
  -> Explanation    a frozen record: numbers, paths, fidelity                           explain/
  -> Scan           every moved node, explained on all cores or a cluster               scan/
  -> Story          the explanations of a sequence of snapshots, step by step           stories/
  -> report         pictures and pages to look at                                       report/
"""

from .change.states import KINDS
from .errors import InputError
from .explain.explanation import Explanation
from .explainer import Explainer
from .files import convert_graph, load_model, match_graphs, read_graph, save_graph, save_model
from .graphs.stored import StoredGraph, open_graph
from .origin import RELEASE, Origin
from .paths.attribution import Attribution
from .pyg import PyGAlgorithm
from .readers import UnreadableModel, check, register_reader
from .report import build_report, build_story_report, save_report, save_story_report
from .scan import Scan, read_scan
from .selection import Selection, select
from .stories.chronicle import Stories, tell_stories
from .stories.sequence import scan_sequence
from .stories.story import Story

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
