"""What is the user's to mend, by type: InputError and its kinds; each says what was expected, what came, what to do.

Each kind is also the built-in error that one would look for, so that `except FileNotFoundError` finds a missing file.
Whatever else is raised is a fault of this program's.

Warnings: MatchedByRow, where what was given can be used but may mean something else; Notice.
"""

from __future__ import annotations

import re
import warnings
from typing import Any


class InputError(ValueError):
    """A file, an argument or a combination of them that cannot be used as it is."""

    def __init__(self, sentence: str = "") -> None:
        """A sentence may quote a file: what would command a terminal is shown as Python writes it."""
        super().__init__(re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], sentence))


class WrongKind(InputError, TypeError):
    """A value of the wrong type."""


class TooLarge(InputError, MemoryError):
    """A question whose answer does not fit into the memory budget."""


class MissingFile(InputError, FileNotFoundError):
    """A file or folder that does not exist."""


class MatchedByRow(UserWarning):
    """Two graphs of different sizes whose nodes only their position identifies."""


class Notice(UserWarning):
    """Something that runs in another way than usual and gives the same answer."""


def renamed(old: str, new: str) -> Any:
    """An attribute under its name in the previous release: the value of the new one, with a warning."""

    def read(record: Any) -> Any:
        warnings.warn(
            f"`{old}` is now `{new}`; the old name goes with the next release.", DeprecationWarning, stacklevel=2
        )
        return getattr(record, new)

    return property(read, doc=f"The former name of `{new}`.")
