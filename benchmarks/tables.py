"""Rows of a benchmark -> a table on the terminal and, with `--docs`, in the page that tells of it.

A page marks the place of a table with `<!-- benchmark: name -->` and `<!-- end of name -->`; what is between the two is
replaced, and nothing else. Every benchmark takes the same three options:

    --tiny          a size that takes seconds: does it still run? Its figures mean nothing.
    --docs FOLDER   write the tables into the pages there
    --keep FOLDER   keep every row there, so that a run that is stopped goes on with the next one
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from axiompath.native.threads import num_cores
from axiompath.storage.origin import RELEASE
from axiompath.storage.writing import write_text

# What every benchmark asks that explains: figures of different releases can then be compared, whatever the defaults.
QUESTION: dict[str, Any] = {"budget": 10, "method": "convex"}


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--docs", type=Path, help="the folder of pages to write the tables into")
    parser.add_argument("--keep", type=Path, help="a folder for single rows, so that a run that is stopped goes on")
    return parser


def kept(folder: Path | None, what: Any, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A row, measured now or by an earlier run of this release that kept it; `what` says which one it is."""
    if folder is None:
        return measure()
    told = json.dumps([RELEASE, what])
    file = folder / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
    if file.exists():
        return dict(json.loads(file.read_text())["row"])
    row = measure()
    folder.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"what": what, "row": row}))
    return row


def best_time(run: Callable[[], Any], budget: float = 0.5) -> float:
    """The least of many runs, in seconds: what the work costs when nothing else interferes."""
    run()
    least, spent, runs = math.inf, 0.0, 0
    while runs < 3 or spent < budget:
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        least, spent, runs = min(least, seconds), spent + seconds, runs + 1
    return least


def to_markdown(rows: Iterable[Mapping[str, str]]) -> str:
    """A table with the keys of the first row as its head; columns of numbers are set right."""
    listed = list(rows)
    heads = list(listed[0])
    right = {head: all(re.match(r"[-><]?\s?[\d.]", row.get(head) or "0") for row in listed) for head in heads}
    lines = [heads, ["---:" if right[head] else "---" for head in heads]]
    lines += [[row.get(head, "") for head in heads] for row in listed]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def publish(docs: Path | None, page: str, name: str, text: str) -> None:
    """Print the text and, where there is a folder of pages, put it into its place on its page."""
    conditions = f"*axiompath {RELEASE}, {num_cores()} cores.*"
    print(f"\n{name}\n{text}\n", flush=True)
    if docs is None:
        return
    file, begin, end = docs / page, f"<!-- benchmark: {name} -->", f"<!-- end of {name} -->"
    held = file.read_text(encoding="utf-8")
    if held.count(begin) != 1 or held.count(end) != 1 or held.index(begin) > held.index(end):
        raise SystemExit(f"Expected {begin} and after it {end}, once each, in {file}; put them where the table goes.")
    head, tail = held[: held.index(begin)], held[held.index(end) :]
    write_text(file, f"{head}{begin}\n\n{text}\n\n{conditions}\n\n{tail}")
