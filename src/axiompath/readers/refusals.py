"""Why a model has no exact reading, or could not be run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import InputError

WITHOUT_PATHS = "Without paths, Explainer(..., paths=False) runs the model as it is: blame, undo and what_if work so."


class UnreadableModel(InputError):
    """The model has a part that the normal form cannot express, or that was read wrongly."""

    lines: tuple[Any, ...] = ()  # how the lines before were read

    def __str__(self) -> str:
        """What cannot be read, and what can be asked all the same."""
        return f"{super().__str__()} {WITHOUT_PATHS}"


class FailingModel(UnreadableModel):
    """The model itself could not be run, so that it cannot be asked without paths either."""

    def __str__(self) -> str:
        """Only what went wrong."""
        return InputError.__str__(self)


def quoted(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(f"`{name}`" for name in sorted(names))
