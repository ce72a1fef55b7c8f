"""Names -> data: published graphs, sequences of timed ones, sets of many graphs; and planted causes of change."""

from axiompath.datasets import evolve

from .catalogue import NAMES, TIMED, load, load_sequence
from .graph_sets import load_molecules, load_trees

__all__ = ["NAMES", "TIMED", "evolve", "load", "load_molecules", "load_sequence", "load_trees"]
