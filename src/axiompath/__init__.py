"""AxiomPath: why did the GNN change its mind?

model + before + after
  -> Snapshot       one graph at one moment, in memory or on disk; two numbered alike   graphs/, files/
  -> Network        the model in a normal form that every later step understands        network/, readers/
  -> Change         what differs between the snapshots, coefficient by coefficient      change/
  -> Attribution    every altered path and its exact share of every logit's change      paths/
  -> Selection      the few paths that best approximate the change, certified           selection/, baselines/
  -> Explanation    a frozen record: numbers, paths, fidelity                           explain/
  -> Blame, Undo    which changes did it, and the fewest to undo                        blame/
  -> Scan           every moved node, explained on all cores or a cluster               scan/
  -> Story, Watch   a sequence of snapshots, step by step; from a list of events        sequences/
  -> report         pictures and pages to look at                                       report/

A name is imported when it is first asked for: `import axiompath` by itself loads no torch and compiles nothing.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `as` marks a name as exported, for type checkers
    from .blame.blame import Blame as Blame
    from .blame.enough import Enough as Enough
    from .blame.happened import Happened as Happened
    from .blame.undo import Undo as Undo
    from .errors import InputError as InputError
    from .explain.explanation import Explanation as Explanation
    from .explain.neighbourhood import Neighbourhood as Neighbourhood
    from .explain.timeline import Timeline as Timeline
    from .explainer import Explainer as Explainer
    from .files import GraphFile as GraphFile
    from .files import convert_graph as convert_graph
    from .files import load_model as load_model
    from .files import read_graph as read_graph
    from .files import save_graph as save_graph
    from .files import save_model as save_model
    from .files.snapshots import save_snapshots as save_snapshots
    from .files.snapshots import snapshots as snapshots
    from .graphs.sequence import Snapshots as Snapshots
    from .graphs.stored import StoredGraph as StoredGraph
    from .graphs.stored import open_graph as open_graph
    from .paths.attribution import Attribution as Attribution
    from .readers import check as check
    from .readers import register_reader as register_reader
    from .readers.model_check import ModelCheck as ModelCheck
    from .readers.unrolled import unroll as unroll
    from .report import build_report as build_report
    from .report import save_report as save_report
    from .scan.flips import StepSummary as StepSummary
    from .scan.parts import Failure as Failure
    from .scan.scan import Scan as Scan
    from .scan.scan import read_scan as read_scan
    from .scan.scan import read_scans as read_scans
    from .scan.scan_blame import ScanBlame as ScanBlame
    from .sequences.scans import scan_sequence as scan_sequence
    from .sequences.stories import Stories as Stories
    from .sequences.stories import build_stories as build_stories
    from .sequences.story import Story as Story
    from .sequences.watch import watch_events as watch_events
    from .sequences.watch_folder import Watch as Watch
    from .sequences.watch_folder import read_watch as read_watch

# Where each public name lives, as above; a test holds the two equal.
_HOMES = {
    "blame.blame": "Blame",
    "blame.enough": "Enough",
    "blame.happened": "Happened",
    "blame.undo": "Undo",
    "errors": "InputError",
    "explain.explanation": "Explanation",
    "explain.neighbourhood": "Neighbourhood",
    "explain.timeline": "Timeline",
    "explainer": "Explainer",
    "files": "GraphFile convert_graph load_model read_graph save_graph save_model",
    "files.snapshots": "save_snapshots snapshots",
    "graphs.sequence": "Snapshots",
    "graphs.stored": "StoredGraph open_graph",
    "paths.attribution": "Attribution",
    "readers": "check register_reader",
    "readers.unrolled": "unroll",
    "readers.model_check": "ModelCheck",
    "report": "build_report save_report",
    "scan.flips": "StepSummary",
    "scan.parts": "Failure",
    "scan.scan": "Scan read_scan read_scans",
    "scan.scan_blame": "ScanBlame",
    "sequences.scans": "scan_sequence",
    "sequences.stories": "Stories build_stories",
    "sequences.story": "Story",
    "sequences.watch": "watch_events",
    "sequences.watch_folder": "Watch read_watch",
}
# Names of the release before -> what serves now, or where else they are.
_FORMER = {
    "EdgeExplanation": "Explanation",
    "PyGAlgorithm": "pyg.PyGAlgorithm",
    "UnreadableModel": "readers.UnreadableModel",
    "Origin": "storage.origin.Origin",
    "Tally": "ScanBlame",
    "Selection": "selection.Selection",
    "build_scan_report": "build_report",
    "build_story_report": "build_report",
    "match_graphs": "files.match_graphs",
    "read_snapshots": "files.snapshots.read_snapshots",
    "save_scan_report": "save_report",
    "save_story_report": "save_report",
    "select": "selection.select",
    "tell_stories": "build_stories",
}
_PARTS = {"datasets", "errors", "files", "metrics", "pyg", "readers", "selection"}  # that people name: axiompath.pyg
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__version__: str  # found when it is asked for, as every other name

__all__ = sorted(_HOME_OF)


@contextmanager
def _left_as_it_was() -> Iterator[None]:
    """What others change as they are imported (warning filters, variables, Python's random numbers) is the user's."""
    held, state = dict(os.environ), random.getstate()
    with warnings.catch_warnings():
        try:
            yield
        finally:
            random.setstate(state)
            for key in [key for key in os.environ if key not in held]:
                del os.environ[key]
            os.environ.update(held)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module(".storage.origin", __name__).RELEASE
    if name in _FORMER:
        now = _FORMER[name]
        warnings.warn(
            f"axiompath.{name} is now axiompath.{now}; the old name goes with the next release.",
            DeprecationWarning,
            stacklevel=2,
        )
        module, _, last = now.rpartition(".")
        return getattr(import_module(f".{module}", __name__), last) if module else __getattr__(now)
    if name not in _HOME_OF and name not in _PARTS:
        raise AttributeError(f"module 'axiompath' has no attribute {name!r}")
    with _left_as_it_was():
        home = import_module(f".{_HOME_OF.get(name, name)}", __name__)
        value = home if name in _PARTS else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
