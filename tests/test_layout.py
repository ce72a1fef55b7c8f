"""The data's way through the program can be read off one list: a file imports only from files above its own."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "axiompath"

ORDER = [
    "errors",
    "writing",
    "trust",
    "pages",
    "activations",
    "threads",
    "states",
    "rows",
    "snapshot",
    "coefficients",
    "attention",
    "network",
    "rerun",
    "sweeps",
    "stored",
    "pair",
    "region",
    "sample",
    "readers.recording",
    "readers.running",
    "readers.forms",
    "readers.bases",
    "readers.calls",
    "readers.convolutions",
    "readers.propagation",
    "readers.attention",
    "readers.norms",
    "readers.elementwise",
    "readers.functions",
    "readers.refusals",
    "readers.layout",
    "readers.assembly",
    "readers.reading",
    "readers.checking",
    "readers",
    "kernels",
    "change",
    "paths",
    "attribution",
    "batches",
    "rivals.gnnlrp",
    "rivals.gradient",
    "rivals",
    "replay",
    "selection.objective",
    "selection.ranking",
    "selection.interior",
    "selection.basic",
    "selection.convex",
    "selection.enumeration",
    "selection.exact",
    "selection.linear",
    "selection.topk",
    "selection.deeplift",
    "selection.batch",
    "selection.problem",
    "selection.selection",
    "selection",
    "metrics",
    "explanation",
    "choice",
    "streaming",
    "edges",
    "moved",
    "scan.plan",
    "scan.parts",
    "scan.work",
    "scan.engines",
    "scan.cluster",
    "scan.folder",
    "scan.scanning",
    "scan",
    "explainer",
    "sequence",
    "pyg",
    "difference",
    "narration",
    "story",
    "telling",
    "report.movers",
    "report.page",
    "report.html",
    "report.stories",
    "report.terminal",
    "report.plots",
    "report",
    "archives",
    "datasets",
    "experiments.models",
    "experiments.training",
    "experiments.gnnexplainer",
    "experiments.fidelity",
    "experiments.figures",
    "experiments.parts",
    "experiments.record",
    "experiments.running",
    "experiments.preservation",
    "experiments.runtime",
    "experiments.timed",
    "experiments.claims",
    "experiments.commands",
    "experiments",
    "files.arrays",
    "files.tensors",
    "files.tables",
    "files.graphs",
    "files.nodelists",
    "files.edgelists",
    "files.sorting",
    "files.conversion",
    "files.models",
    "files",
    "drift",
    "demo",
    "warmup",
    "opening",
    "cli",
    "",
]

# A record draws itself when asked to: the one place where a file imports, inside a method, from files below its own.
LATE = {"explanation": {"report.html", "report.plots"}}


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


FILES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def imported(path):
    """Modules of the package that a file imports, as names relative to it."""
    package = list(path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level or node.module.split(".")[0] == "axiompath"):
            module = node.module.split(".") if node.module else []
            base = package[: len(package) - node.level + 1] + module if node.level else module[1:]
            for alias in node.names:
                longer = ".".join([*base, alias.name])
                yield longer if longer in FILES else ".".join(base)


def test_every_file_has_its_place():
    assert sorted(FILES) == sorted(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_point_upwards(name):
    allowed = set(ORDER[: ORDER.index(name)])
    assert set(imported(FILES[name])) <= allowed | LATE.get(name, set())


@pytest.mark.parametrize("name", ORDER)
def test_every_file_says_what_it_is(name):
    assert ast.get_docstring(ast.parse(FILES[name].read_text()))
