"""Names -> data: published graphs, sequences of timed ones, sets of many graphs, and graphs made here."""

from .catalogue import NAMES, TIMED, evolve, load, load_sequence
from .graph_sets import load_molecules, load_trees

__all__ = ["NAMES", "TIMED", "evolve", "load", "load_molecules", "load_sequence", "load_trees"]
