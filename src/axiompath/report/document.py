"""Blocks of plain values -> one self-contained HTML page in the dress of all pages, whole without script.

    page = render_document("What moved, March to June", [
        Prose(["In the largest step 14 predictions flipped: ..."], lead=True),
        Facts([Fact("flips", "14", "of 5,881 nodes")]),
        Strips("Step by step", ["March", "April"], [Strip("flips", [14, 2]), Strip("expired", [9, 0], tone="lost")]),
        Answers("March to April", [Answer("Node 7 went from 0 to 1", ["Because ...", "Undo ..."], "steps/1.html")]),
        Table("Steps", [Column("Step"), Column("Flips", number=True)], [[Cell("March", href="steps/1.html"), 14]]),
        Details("The model", [Prose([...])]),
    ])

Text is escaped; a number in a table is shown with its thousands and sorted by its value. The page searches its answers
and rows by name, follows the reader's light or dark, prints, and asks no host for anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from .html import render_template

SEARCHABLE = 12  # answers and rows from which on a search is offered


@dataclass(frozen=True)
class Prose:
    """Sentences, a paragraph each; those that lead the page are larger and stand in no box."""

    sentences: Sequence[str]
    title: str = ""
    lead: bool = False
    kind: ClassVar[str] = "prose"


@dataclass(frozen=True)
class Fact:
    """One figure, with what it is and a note."""

    what: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """A row of figures."""

    facts: Sequence[Fact]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Strip:
    """One row of columns over time, on a scale of its own; `tone` is a colour of the style sheet."""

    name: str
    values: Sequence[float]
    tone: str = "bar"


@dataclass(frozen=True)
class Strips:
    """Rows of columns over the same steps."""

    title: str
    labels: Sequence[str]
    strips: Sequence[Strip]
    note: str = ""
    kind: ClassVar[str] = "strips"


@dataclass(frozen=True)
class Answer:
    """What happened to one prediction, in a sentence; then what did it, what would undo it and how sure that is."""

    headline: str
    sentences: Sequence[str] = ()
    href: str = ""


@dataclass(frozen=True)
class Answers:
    """Predictions worth a look, in order."""

    title: str
    answers: Sequence[Answer]
    note: str = ""
    href: str = ""
    kind: ClassVar[str] = "answers"


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    label: str
    number: bool = False


@dataclass(frozen=True)
class Cell:
    """What stands in a table: text, perhaps a link, a bar as a part of 1, a note below; `value` is what sorts it."""

    text: str
    href: str = ""
    strong: bool = False
    note: str = ""
    bar: float | None = None
    value: float | None = None


Row: TypeAlias = Sequence[Cell | str | float | None]


@dataclass(frozen=True)
class Table:
    """Rows that sort by every column."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Details:
    """Blocks that open on request."""

    title: str
    blocks: Sequence[Block]
    kind: ClassVar[str] = "details"


Block: TypeAlias = Prose | Facts | Strips | Answers | Table | Details


def render_document(title: str, blocks: Sequence[Block]) -> str:
    """HTML text of these blocks, in order."""
    listed = [place for place, block in enumerate(blocks) if isinstance(block, Table | Answers)]
    entries = sum(len(block.rows if isinstance(block, Table) else block.answers)
                  for block in blocks if isinstance(block, Table | Answers))  # fmt: skip
    return render_template(
        "document.html", ["dom", "theme", "document"], title, blocks=blocks, as_cell=_as_cell, show_number=_show,
        search_at=listed[0] if entries >= SEARCHABLE else None,
    )  # fmt: skip


def _as_cell(held: Cell | str | float | None) -> Cell:
    if isinstance(held, Cell):
        return held
    if held is None:
        return Cell("–")
    return Cell(held) if isinstance(held, str) else Cell(_show(held), value=float(held))


def _show(value: float) -> str:
    """A whole number with its thousands, others with three digits."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"
