"""InputError: something the user gave is amiss. Its message says what was expected, what came, and what to do.

MatchedByRow: a warning, where what was given can be used but may mean something else.
"""

from __future__ import annotations


class InputError(ValueError):
    """A file, an argument or a combination of them that cannot be used as it is."""


class MatchedByRow(UserWarning):
    """Two graphs of different sizes whose nodes nothing but their position tells apart."""
