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

A name is imported when it is first asked for: `import axiompath` alone loads no torch and compiles nothing.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import InputError
    from .explain.explanation import Explanation
    from .explainer import Explainer
    from .files import convert_graph, load_model, match_graphs, read_graph, save_graph, save_model
    from .graphs.stored import StoredGraph, open_graph
    from .origin import Origin
    from .paths.attribution import Attribution
    from .pyg import PyGAlgorithm
    from .readers import UnreadableModel, check, register_reader
    from .report import build_report, build_story_report, save_report, save_story_report
    from .scan.scan import Scan, read_scan
    from .selection import Selection, select
    from .stories.chronicle import Stories, tell_stories
    from .stories.sequence import scan_sequence
    from .stories.story import Story

# Where each public name lives, as above; a test holds the two lists equal.
_HOMES = {
    "errors": "InputError",
    "explain.explanation": "Explanation",
    "explainer": "Explainer",
    "files": "convert_graph load_model match_graphs read_graph save_graph save_model",
    "graphs.stored": "StoredGraph open_graph",
    "origin": "Origin",
    "paths.attribution": "Attribution",
    "pyg": "PyGAlgorithm",
    "readers": "UnreadableModel check register_reader",
    "report": "build_report build_story_report save_report save_story_report",
    "scan.scan": "Scan read_scan",
    "selection": "Selection select",
    "stories.chronicle": "Stories tell_stories",
    "stories.sequence": "scan_sequence",
    "stories.story": "Story",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__version__: str  # found when it is asked for, as every other name

__all__ = [
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
        return import_module(".origin", __name__).RELEASE
    if name not in _HOME_OF:
        raise AttributeError(f"module 'axiompath' has no attribute {name!r}")
    with _left_as_it_was():
        value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
