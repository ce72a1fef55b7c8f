"""Limits, methods and signatures that the pages state are those of the program."""
# ruff: noqa: E501 (a sentence is one piece)

import ast
import inspect
import re
from functools import cache

import axiompath
from axiompath.blame.blame import ALWAYS_EXACT
from axiompath.explain import question, walks
from axiompath.explain.explanation import DISAGREEMENT
from axiompath.graphs import sample, windows
from axiompath.graphs.labels import ABSENT, ANY
from axiompath.scan import facts, plan, work
from axiompath.selection import METHODS
from axiompath.sequences import training, watch
from axiompath.storage import safe
from axiompath.storage.parquet_pages import MAX_COLUMNS
from support.repository import ROOT

# What the pages say of limits, with the program's own numbers in it.
NUMBERS = [
    ("SECURITY.md", f"{safe.SMALL / 1e6:.0f} MB, or {safe.GROWTH:,} times its size where that is more, and never more "
     f"than {safe.MAX_BYTES / 1e9:.0f} GB"),
    ("docs/how-to-your-own-data.md", f"more than {safe.MAX_BYTES / 1e9:.0f} GB would be made in memory (its numbers as "
     f"they are, and as float64), or more than {safe.SMALL / 1e6:.0f} MB and more than {safe.GROWTH:,} times its size"),
    ("docs/how-to-your-own-data.md", f"A table has at most {MAX_COLUMNS:,} columns."),
    ("docs/how-to-events.md", f"At most {windows.MAX_SNAPSHOTS:,} snapshots are made, of fewer events than that "
     f"{windows.FEW_SNAPSHOTS:,} or one an event"),
    ("docs/how-to-events.md", f"of which at most {training.MOST_LEARNT:,} are told apart"),
    ("docs/how-to-events.md", f"the pairs that came or went, at most {watch.MOST_LINKS} a step"),
    ("docs/how-to-events.md", f"tells kinds of events apart, {({10: 'ten'})[watch.MOST_RELATIONS]} and *other*"),
    ("docs/how-to-events.md", f"whose KL is at least `--min-kl` ({watch.Pace().min_kl})"),
    ("docs/how-to-scan.md", f"at least `min_kl` nats ({plan.Thresholds().min_kl} if you do not say; 0 for all)"),
    ("docs/how-to-scan.md", f"A worker counts with {work.PROCESS_BYTES / 1e6:.0f} MB before it has explained anything."),
    ("docs/how-to-scan.md", f"A node with {walks.PRICED_PATHS:,} altered paths or more is **searched**"),
    ("docs/how-to-scan.md", f"up to {({1000: 'a thousand'})[plan.PART_TARGETS]} explanations each, one a row"),
    ("docs/attribution.md", f"From {walks.PRICED_PATHS:,} altered paths on"),
    ("docs/how-to-large-graphs.md", f"of up to {sample.MAX_EDGES:,} edges"),
    ("docs/how-to-large-graphs.md",
     f"Where one has more than {({2_000_000: 'two million'})[sample.WHOLE_EDGES]} edges"),
    ("README.md", f"(on samples of more than {({2_000_000: 'two million'})[sample.WHOLE_EDGES]} edges)"),
    ("docs/selection.md", f"the fewest paths, {question.MOST_PATHS} at most, that explain nine tenths of the change "
     f"(`until={question.ENOUGH}`"),
    ("docs/how-to-blame.md", f"All subsets are tried for up to {ALWAYS_EXACT} changes in sight"),
    ("docs/how-to-blame.md", f"more than {facts.MOST_ROWS // 10**6} million pairs of a change and a prediction are refused"),
    ("docs/reading-the-numbers.md", f"warn where that is more than {100 * DISAGREEMENT:.0f} percentage points less"),
    ("docs/how-to-data-or-model.md", f"with −{-ABSENT} before its leaf"),
    ("docs/replay.md", f"is written with {ANY} before its end"),
]  # fmt: skip


@cache
def words_of(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_limits_in_the_pages_are_those_of_the_program():
    assert [(page, text) for page, text in NUMBERS if " ".join(text.split()) not in words_of(page)] == []


def test_every_method_is_in_the_python_interface():
    assert all(f"`{method}`" in words_of("docs/api.md") for method in METHODS)


OPTIONS = re.compile(r"^\| `(\.?\w+)\((.*?)\)`", re.MULTILINE)


def test_signatures_in_the_python_interface_are_those_of_the_program():
    """Every call in docs/api.md whose arguments are all written out has these arguments and defaults."""
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    wrong, held = [], 0
    for name, arguments in OPTIONS.findall(page):
        if "..." in arguments:
            continue
        home = axiompath.Explainer if name.startswith(".") else axiompath
        thing = getattr(home, name.removeprefix("."), None)
        if thing is None:  # of another record: Explanation, Scan, Story
            continue
        parameters = [p for p in inspect.signature(thing).parameters.values() if p.name != "self"]
        parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        told = ast.parse(f"def f({arguments}): pass").body[0].args
        names = [argument.arg for argument in (*told.args, *told.kwonlyargs)]
        known = {p.name: p.default for p in parameters}
        defaults = dict(
            zip(names[len(names) - len(told.defaults) :], map(ast.literal_eval, told.defaults), strict=True)
        )
        held += 1
        given = {key: value for key, value in known.items() if value is not inspect.Parameter.empty}
        bare = [key for key in known if key not in given]
        if names[: len(bare)] != bare or any(given.get(key, ...) != value for key, value in defaults.items()):
            wrong.append((name, arguments, inspect.signature(thing)))
    assert wrong == []
    assert held > 20
