"""InputError: something the user gave is amiss. Its message says what was expected, what came, and what to do."""

from __future__ import annotations


class InputError(ValueError):
    """A file, an argument or a combination of them that cannot be used as it is."""
