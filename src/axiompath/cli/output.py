"""Answers -> what the terminal shows: JSON, or a table; and a place to write to, or a sentence why not."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..errors import InputError

if TYPE_CHECKING:
    from typer.core import TyperOption

    from ..blame.happened import Happened
    from ..explain.explanation import Explanation

# Control characters, but for the end of a line and a tab, and those that turn the direction of what follows.
COMMANDS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")


WORTH = r"""=("[^"]*"|'[^']*'|[A-Za-z0-9_.]*[A-Za-z0-9_])?"""  # what an argument is set to
# An argument as sentences name it; neither within a call, nor a part of a file's name.
ARGUMENT = re.compile(rf"`([a-z_]+)(?:{WORTH})?`|(?<![\w`.('\"/=-])([a-z_]+){WORTH}(?![\w/])")
TABLE_COLUMNS = ("target",)  # which sentences about tables name, and never as an argument


class Terminal(Console):
    """A console that names cannot control: no text is markup, and control characters are shown as �."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Text, of which rich makes everything that it shows."""
        return super().render_str(COMMANDS.sub("�", text), **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print these; a message that cannot be printed to stderr is lost, and changes neither the work nor the exit
        code."""
        with suppress(OSError) if self.stderr else nullcontext():
            super().print(*objects, **options)

    def complain(self, head: str, words: str, style: str = "bold red") -> None:
        """A sentence after a word of warning, on one line."""
        self.print(Text.assemble((f"{head}:", style), " ", COMMANDS.sub("�", words)), soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """The same, where whoever read it has gone."""
        if not self.stderr:
            super().on_broken_pipe()


def aside() -> Console:
    """Progress goes to stderr, so that pipes carry only the answer; and only to a terminal."""
    console = Terminal(stderr=True)
    console.quiet = not console.is_terminal
    return console


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """A place that cannot be written to is the user's to change."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"Expected a place that can be written to (got {path}: {reason}).") from error


def name_options(words: str, options: Mapping[str, TyperOption]) -> str:
    """A sentence about arguments of Python (`name`, `name=` or name="value") with the options that set them instead."""

    def name_one(found: re.Match[str]) -> str:
        name, value = found[1] or found[3], found[2] or found[4] or ""
        option = options.get(name)
        if option is None or name in TABLE_COLUMNS or (option.is_flag and value not in ("True", "False")):
            return found[0]
        if option.is_flag:
            return (option.opts if value == "True" else option.secondary_opts or [f"no {option.opts[0]}"])[0]
        return max(option.opts, key=len) + (f" {value if ' ' in value else value.strip(chr(34))}" if value else "")

    return ARGUMENT.sub(name_one, words).replace("`changes()`", "axiompath diff").replace(" to Explainer,", ",")


def print_json(value: Any) -> None:
    """For machines."""
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a table as plain values, None if there is none."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [{key: _plain(value) for key, value in row.items()} for row in plain.to_dict("records")]


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's, a moment as text."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


def numbers(*heads: str) -> list[Column]:
    """Heads of columns of numbers, which end alike."""
    return [Column(head, justify="right") for head in heads]


def changes_table(changes: Any, limit: int) -> Table:
    """What happened to the graph."""
    from ..graphs.changes import name_kinds

    title = f"First {min(limit, len(changes)):,} of {len(changes):,} changes"
    table = Table("id", "change", "of", *numbers("weight before", "after"), title=title)
    shown = changes.head(limit)
    for row, kind in zip(records(shown), name_kinds(shown), strict=True):
        if row["dst"] is None:
            carried = f", with {row['num_edges']:,} edges" if row["num_edges"] else ""
            of, weights = f"{row['src_name']}{carried}", ["", ""]
        else:
            of = f"{row['src_name']} {'→' if row['directed'] else '–'} {row['dst_name']}"
            weights = ["" if row[key] is None else f"{row[key]:g}" for key in ("weight_before", "weight_after")]
        table.add_row(str(row["id"]), kind, of, *weights)
    return table


def moved_table(moved: Any, limit: int) -> Table:
    """The predictions that moved."""
    from ..outputs import show_apart

    about = next(key for key in ("class_before", "label", "column") if key in moved)
    ends = {"class_before": "class", "label": "prob", "column": "value"}[about]
    apart = "distance" if ends == "value" else "KL"
    sides = (f"{ends} before", "after")
    heads: list[Column | str] = [*sides] if ends == "class" else [about, *numbers(*sides)]
    table = Table("target", *heads, *numbers(apart, *(["altered paths"] if "num_paths" in moved else [])))
    for row in records(moved.head(limit)):
        cells = [] if ends == "class" else [str(row.get(f"{about}_name", row[about]))]
        pair = [row.get(f"{key}_name", row.get(key, "")) for key in (f"{ends}_before", f"{ends}_after")]
        cells += show_apart(pair, 4, "g") if ends != "class" else [str(value) for value in pair]
        counts = [f"{row['num_paths']:,}"] if "num_paths" in moved else []
        table.add_row(row["name"], *cells, f"{row['kl']:.4f}", *counts)
    return table


WIDE = 70  # characters that the steps of a watch take with room between the columns
LARGEST_FLIPS = 3  # that a scan names on the terminal


def steps_table(steps: Any) -> Table:
    """The steps of a watch."""
    rows = records(steps)
    judged = any(row["score"] is not None for row in rows)  # links, and a model of the user's, are not
    heads = numbers("edges added", "removed", "expired", "flips", "moved", *["right"] * judged)
    gap = int(shutil.get_terminal_size().columns >= WIDE)  # a narrow terminal would cut off the dates
    table = Table(Column("step up to", no_wrap=True), *heads, box=SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False)
    for row in rows:
        counts = [row[key] for key in ("edges_added", "edges_removed", "edges_expired", "num_flipped", "num_moved")]
        right = "–" if row["score"] is None else f"{row['score']:.1%}"
        table.add_row(str(row["after"]), *(f"{count:,}" for count in counts), *[right] * judged)
    return table


def networks_table(tried: Any) -> Table:
    """What was tried on the first window, beside naive rules."""
    table = Table("network or rule", *numbers("chosen by", "judged by"), box=SIMPLE_HEAD, pad_edge=False)
    for name, chosen, score in tried:
        table.add_row(name, "" if chosen is None else f"{chosen:.1%}", f"{score:.1%}")
    return table


def list_flips(found: Any) -> Iterator[str]:
    """The largest flips of a scan: what happened, what did it, what would undo it."""
    if found is None:
        return
    for brief in found.flips[:LARGEST_FLIPS]:
        yield brief.summary()
    if found.num_reached < found.num_flipped:
        left = found.num_flipped - found.num_reached
        yield f"{left:,} flips have no cause: the {found.seconds:g} seconds were over (--flip-seconds)."


def path_table(explanation: Explanation) -> Table:
    """The chosen paths: nodes, kind, and share of what the explanation is about."""
    about, weights = explanation.view
    table = Table("path, leaf to root", "kind", *numbers(f"share of {about}"))
    for row, (kind, share) in enumerate(zip(explanation.kinds, explanation.contributions @ weights, strict=True)):
        table.add_row(explanation.unit_name(row), kind, f"{share:+.3f}")
    return table


def print_happened(console: Console, happened: Happened) -> None:
    """Which changes did it and the least to undo, and a line between that and what follows."""
    console.print(happened.summary() + "\n")


def print_explanation(console: Console, explanation: Explanation, *, after_blame: bool = False) -> None:
    """A verdict, the chosen paths, what they leave, and what no choice could; blame may stand above it already."""
    first = explanation.of_paths if after_blame else explanation.verdict
    console.print(f"{first} {explanation.replayed}".rstrip())
    if len(explanation.paths):
        console.print(path_table(explanation))
        console.print(
            f"{_missed(explanation)}They leave {explanation.kl_residual:.4g} of {explanation.kl:.4g} nats, "
            f"and no choice of as many {'of these units ' * bool(explanation.groups)}leaves less than "
            f"{explanation.kl_bound:.4g}. "
            f"Fidelity−: {explanation.fidelity_minus:.3f}, fidelity+: {explanation.fidelity_plus:.3f}.\n"
        )


def _missed(explanation: Explanation) -> str:
    """A sentence where the paths are not enough, with a blank after it."""
    if explanation.until is None or explanation.explained >= explanation.until:
        return ""
    return f"{explanation.status.rsplit('. ', 1)[-1]} "
