"""Names -> data: published graphs, sequences of timed ones, sets of many graphs, and graphs made here."""

from .catalogue import NAMES, TIMED, evolve, load, load_sequence
from .drift import drifting_communities, drifting_events
from .graph_sets import load_molecules, load_trees

__all__ = [
    "NAMES",
    "TIMED",
    "drifting_communities",
    "drifting_events",
    "evolve",
    "load",
    "load_molecules",
    "load_sequence",
    "load_trees",
]
