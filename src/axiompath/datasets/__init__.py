"""Names -> data: published graphs, sequences of timed ones, and graphs made here."""

from .catalogue import NAMES, TIMED, evolve, load, load_sequence

__all__ = ["NAMES", "TIMED", "evolve", "load", "load_sequence"]
