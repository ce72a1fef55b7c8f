"""Limits, methods and signatures that the pages state are those of the program."""
# ruff: noqa: E501 (a sentence is one piece)

import re
from functools import cache
from importlib import import_module

import axiompath
from axiompath.blame.blame import ALWAYS_EXACT
from axiompath.explain import question, walks
from axiompath.explain.explanation import DISAGREEMENT
from axiompath.graphs import sample, windows
from axiompath.graphs.labels import ABSENT, ANY
from axiompath.scan import effects, plan, work
from axiompath.selection import METHODS
from axiompath.sequences import training, watch
from axiompath.storage import safe
from axiompath.storage.parquet_pages import MAX_COLUMNS
from support.repository import ROOT

# What the pages say of limits, with the program's own numbers in it.
NUMBERS = [
    ("SECURITY.md", f"{safe.SMALL / 1e6:.0f} MB, or {safe.GROWTH:,} times the file's size if that is more, and never "
     f"more than {safe.MAX_BYTES / 1e9:.0f} GB"),
    ("docs/command-line.md", f"more than {safe.MAX_BYTES / 1e9:.0f} GB would be made in memory (its numbers as "
     f"they are, and as float64), or more than {safe.SMALL / 1e6:.0f} MB and more than {safe.GROWTH:,} times its size"),
    ("docs/command-line.md", f"A table has at most {MAX_COLUMNS:,} columns."),
    ("docs/how-to-events.md", f"At most {windows.MAX_SNAPSHOTS:,} snapshots are made, and at most "
     f"{windows.FEW_SNAPSHOTS:,} or one per event, whichever is more"),
    ("docs/how-to-events.md", f"with at most {training.MOST_LEARNT:,} different labels"),
    ("docs/how-to-events.md", f"the pairs that came or went, at most {watch.NUM_PAIRS} per step"),
    ("docs/how-to-events.md", f"the model separates the {({10: 'ten'})[watch.MOST_RELATIONS]} most frequent kinds and *other*"),
    ("docs/how-to-events.md", f"explain predictions whose KL is at least {watch.Pace().min_kl}"),
    ("docs/how-to-scan.md", f"at least `min_kl` nats ({plan.Thresholds().min_kl} if you do not say; 0 for all)"),
    ("docs/how-to-scan.md", f"A worker counts with {work.PROCESS_BYTES / 1e6:.0f} MB before it has explained anything."),
    ("docs/how-to-scan.md", f"A node with {walks.PRICED_PATHS:,} altered paths or more is **searched**"),
    ("docs/how-to-scan.md", f"up to {({1000: 'a thousand'})[plan.PART_TARGETS]} explanations each, one per row"),
    ("docs/selection.md", f"From {walks.PRICED_PATHS:,} altered paths on"),
    ("docs/how-to-scan.md", f"of up to {sample.MAX_EDGES:,} edges"),
    ("docs/how-to-scan.md",
     f"Where one has more than {({2_000_000: 'two million'})[sample.WHOLE_EDGES]} edges"),
    ("docs/selection.md", f"the fewest paths, {question.MOST_PATHS} at most, that explain nine tenths of the change "
     f"(`until={question.ENOUGH}`"),
    ("docs/how-to-blame.md", f"All subsets are tried for up to {ALWAYS_EXACT} changes within the receptive field"),
    ("docs/how-to-blame.md", f"more than {effects.MOST_ROWS // 10**6} million pairs of a change and a prediction"),
    ("docs/reading-the-numbers.md", f"warn where that is more than {100 * DISAGREEMENT:.0f} percentage points less"),
    ("docs/how-to-data-or-model.md", f"with −{-ABSENT} before its leaf"),
    ("docs/reading-the-numbers.md", f"is written with {ANY} before its end"),
]  # fmt: skip


@cache
def words_of(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_limits_in_the_pages_are_those_of_the_program():
    assert [(page, text) for page, text in NUMBERS if " ".join(text.split()) not in words_of(page)] == []


def test_every_method_is_in_the_python_interface():
    assert all(f"`{method}`" in words_of("docs/api.md") for method in METHODS)


def test_the_python_reference_has_every_public_name():
    """Each from where it lives; its arguments and defaults are those of the program, which mkdocstrings reads."""
    listed = re.findall(r"^::: (axiompath[\w.]+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    things = []
    for path in listed:
        module, _, name = path.rpartition(".")
        things.append(getattr(import_module(module), name))
        assert (things[-1].__module__, things[-1].__doc__ is not None) == (module, True), path
    missing = {name for name in axiompath.__all__ if not any(getattr(axiompath, name) is thing for thing in things)}
    assert missing == set()
