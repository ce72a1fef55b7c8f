"""`--fail-if`: a figure, a comparison and a number -> at which steps it holds; the program then ends with status 3."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import typer

from ..errors import InputError
from .output import Terminal

if TYPE_CHECKING:
    from ..scan.scan import Scan

HOLDS = 3  # the status
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
FORM = re.compile(r"\s*([a-z_]+)\s*(<=|>=|==|!=|<|>)\s*([+-]?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*")


class Condition(NamedTuple):
    """A figure of a step, and what it is compared with."""

    figure: str
    sign: str
    number: float

    def holds(self, figures: Mapping[str, float]) -> bool:
        """Whether it does of these figures."""
        return COMPARISONS[self.sign](figures[self.figure], self.number)


def read_conditions(texts: Iterable[str] | None) -> list[Condition]:
    """Conditions such as flips>50."""
    from ..scan.flips import FIGURES

    found = []
    for text in texts or ():
        parts = FORM.fullmatch(text)
        if parts is None or parts[1] not in FIGURES:
            raise InputError(
                f"Expected a figure, a comparison and a number after --fail-if, such as 'flips>50' (got {text!r}); the "
                f"figures are {', '.join(FIGURES)}."
            )
        found.append(Condition(parts[1], parts[2], float(parts[3])))
    return found


def end_if(conditions: list[Condition], steps: Iterable[tuple[str, Scan]]) -> None:
    """End with status 3 where a condition holds at one of these steps; which one, and where, is printed to stderr."""
    failed = False
    for name, scan in steps if conditions else ():
        figures = scan.figures()
        for condition in conditions:
            if condition.holds(figures):
                value = figures[condition.figure]
                line = f"{condition.figure}{condition.sign}{condition.number:g} holds at {name}: {value:g}."
                Terminal(stderr=True).complain("--fail-if", line)
                failed = True
    if failed:
        raise typer.Exit(HOLDS)
