"""A slice of every table of docs/results.md and docs/field.md, run again -> figures beside the page's, with bounds.

What is drawn from seeds and computed alike must come out alike (bounds of rounding); what depends on the machine, on
time limits or on weights that were trained elsewhere has a wide bound, stated beside it. A table is a CSV file in
docs/tables, named by the figure's heading, or stands on the page below that heading; a row is found by the cells that
it begins with.
"""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from axiompath.errors import InputError, MissingFile

from .. import datasets
from .claims import check_claims
from .contenders import OUR_METHODS, SIMPLE_RIVALS
from .fidelity import COMPARED, OPTIONAL_METHODS, mean_by_level
from .fidelity_page import mean_of_targets
from .league import LeagueSettings, run_league, summarise_league
from .levels import LevelSettings, run_levels, summarise_levels
from .preservation import run_preservation, summarise
from .pyg_rivals import pyg_contenders
from .runtime import can_compare, run_runtime
from .stability import StabilitySettings, run_stability, summarise_stability
from .steps import run_steps, summarise_steps
from .study import Comparison, run_comparison
from .timed import Slide, run_timed

PRINTED_NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
QUICK_METHODS = ("edges", "leave one out", "put in alone", "random")  # neither slow nor bound to a time limit
RESULTS_PAGE, FIELD_PAGE = "results.md", "field.md"


@dataclass(frozen=True)
class Figure:
    """One number of a page: under which heading, in which row and column, and how far off it may be found."""

    page: str
    heading: str  # "" for the first table of the page that has such a row and column
    row: tuple[str, ...]  # the cells that its row begins with
    column: str
    bound: float
    factor: bool = False  # whether the bound is a factor, up or down; else a difference


FoundFigures = Iterator[tuple[Figure, float]]


def read_figure(text: str, figure: Figure) -> float:
    """The first number of a cell."""
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    part = sections.get(figure.heading, "") if figure.heading else "\n".join(parts[2::2])
    columns: list[str] = []
    for line in part.splitlines():
        cells = [re.sub("[*`]", "", cell).strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            columns = []
        elif not columns:
            columns = cells
        elif figure.column in columns and tuple(cells[: len(figure.row)]) == figure.row:
            return _first_number(cells[columns.index(figure.column)], figure)
    return _first_number("", figure)


def _as_section(file: Path) -> str:
    """A table that the page links to, as a section with the file's name for a heading."""
    with file.open(encoding="utf-8", newline="") as text:
        rows = [f"| {' | '.join(cells)} |" for cells in csv.reader(text)]
    return "\n".join([f"## {file.stem}", *rows])


def _first_number(cell: str, figure: Figure) -> float:
    if number := PRINTED_NUMBER.search(cell):
        return float(number[0].replace(",", ""))
    place = f"{figure.page}, {figure.heading or 'top'}, {' '.join(figure.row)}"
    raise InputError(f"Expected a number in column {figure.column!r} of {place} (found none).")


def run_slices(
    docs: Path, out: Path, root: str | Path | None = None, *, report: Callable[[int, int, str], None]
) -> pd.DataFrame:
    """A row a figure: what the page says, what was found, the bound, whether it is within; seconds of its slice."""
    texts: dict[str, str] = {}
    for page in (RESULTS_PAGE, FIELD_PAGE):
        if not (docs / page).is_file():
            raise MissingFile(f"Expected the page {page} in {docs} (found none); name the folder of pages with --docs.")
        texts[page] = "\n".join(
            [(docs / page).read_text(encoding="utf-8"), *map(_as_section, (docs / "tables").glob("*.csv"))]
        )
    rows = []
    for done, (name, run) in enumerate(SLICES.items()):
        report(done, len(SLICES), name)
        start = time.perf_counter()
        found = list(run(out / name, root))
        seconds = time.perf_counter() - start
        for figure, value in found:
            said = read_figure(texts[figure.page], figure)
            off = max(value / said, said / value) if figure.factor else abs(value - said)
            description = f"{figure.heading or 'top'}: {', '.join(figure.row)}: {figure.column}"
            kind = "times" if figure.factor else "±"
            rows.append(
                {
                    "slice": name,
                    "page": figure.page,
                    "figure": description,
                    "said": said,
                    "found": value,
                    "bound": f"{kind} {figure.bound:g}",
                    "within": off <= figure.bound + 1e-12,
                    "seconds": seconds,
                }
            )
    return pd.DataFrame(rows)


def _fidelity(out: Path, root: str | Path | None) -> FoundFigures:
    """Cora, two layers, ten repeats, edges added."""
    table = run_comparison(Comparison(("cora",), (2,), 10, "added", methods=COMPARED), out, root=root)
    means = _means(table)
    row = ("cora", "2")
    for method in ("grad", "gnnlrp", "topk", "linear", "deeplift", "convex", "exact"):
        yield Figure(RESULTS_PAGE, MEAN_HEADING, row, method, 0.002), means[method]
    explained = table.groupby(["repeat", "target"]).ngroups
    held = json.loads((out / "fidelity.json").read_text(encoding="utf-8"))
    accuracy = float(held["accuracies"][0]["test"])
    yield Figure(RESULTS_PAGE, "the-networks-and-their-targets", row, "test accuracy", 0.001), accuracy
    yield Figure(RESULTS_PAGE, "the-networks-and-their-targets", row, "explained", 0), float(explained)
    verdicts = {verdict.claim: verdict for verdict in check_claims(table)}
    # Held in so many of these ten cases, beside the page's of 70 and 140: one case of ten may fall otherwise.
    for claim, sentence, cases in CLAIMS_RUN:
        share = verdicts[claim].held / verdicts[claim].cases
        yield Figure(RESULTS_PAGE, "claim-by-claim", (sentence,), "measured", cases / 10), cases * share


def _variants(out: Path, root: str | Path | None) -> FoundFigures:
    """Cora, two layers: averaged, by the maximum, and by GNNExplainer; as many targets as on the page."""
    for heading, variant in VARIANTS_RUN.items():
        means = _means(run_comparison(variant, out / heading, root=root))
        for method in ("deeplift", "convex", *(name for name in means if name == "gnnexplainer")):
            bound = 0.05 if method == "gnnexplainer" else 0.002  # torch trains its masks, on whatever processor
            yield Figure(RESULTS_PAGE, heading, ("cora", "2"), method, bound), means[method]


def _trainings(out: Path, root: str | Path | None) -> FoundFigures:
    """Ten networks of Cora, two layers: the mean over networks of what each has over its targets."""
    table = run_comparison(Comparison(("cora",), (2,), 1, trainings=10, max_targets=20), out, root=root)
    networks = mean_of_targets(table).groupby("training").mean()
    for method in ("deeplift", "convex"):
        yield Figure(RESULTS_PAGE, "other-trainings", ("cora", "2"), method, 0.002), float(networks[method].mean())


def _steps(out: Path, root: str | Path | None) -> FoundFigures:
    """Cora, two layers."""
    job = Comparison(("cora",), (2,), 1).jobs[0]
    (record,) = summarise_steps(run_steps(job, max_targets=20, root=root, cache=out / "weights")).to_dict("records")
    for column, key, scale in (
        ("several edges, of these", "several_edges", 1.0),
        ("difference: mean", "difference_mean", 100.0),
        ("least rank correlation", "least_rank_correlation", 1.0),
    ):
        figure = Figure(RESULTS_PAGE, "all-at-once-or-edge-by-edge", ("cora", "2"), column, 0.006)
        yield figure, scale * float(record[key])


def _removed(out: Path, root: str | Path | None) -> FoundFigures:
    """Cora, two layers, ten repeats, edges removed."""
    table = run_comparison(Comparison(("cora",), (2,), 10, "removed", methods=COMPARED), out, root=root)
    for method in ("topk", "deeplift", "convex"):
        figure = Figure(RESULTS_PAGE, "edges-removed-and-both-at-once", ("removed", "cora", "2"), method, 0.002)
        yield figure, _means(table)[method]


def _counts(out: Path, root: str | Path | None) -> FoundFigures:
    """Nodes, entries and pairs of Cora."""
    data, row = datasets.load("cora", root), ("Cora",)
    heading = "How it was run"
    yield Figure(RESULTS_PAGE, heading, row, "here, entries in both directions", 0), float(data.num_edges)
    yield Figure(RESULTS_PAGE, heading, row, "pairs", 0), data.num_edges / 2


def _preservation(out: Path, root: str | Path | None) -> FoundFigures:
    """Cora, two layers: numbers of targets and paths are exact, rounding is of its size."""
    frame = summarise(list(run_preservation(("cora",), (2,), 1, root=root)))
    for record in frame.to_dict("records"):
        row = ("cora", "2", str(record["evolution"]))
        for column, key in (("targets", "targets"), ("paths", "paths")):
            yield Figure(RESULTS_PAGE, "preservation", row, column, 0), float(record[key])
        yield Figure(RESULTS_PAGE, "preservation", row, "largest error", 30, True), float(record["largest_error"])


def _runtime(out: Path, root: str | Path | None) -> FoundFigures:
    """Targets of Cora with 11 to 30 paths, against SCS; a ratio of two times on whatever machine."""
    if not can_compare():
        return
    job = Comparison(("cora",), (2,), 1).jobs[0]
    frame = run_runtime(job, sample=8, root=root, cache=out / "weights")
    ratio = float((frame.scs_seconds / frame.convex_seconds).median())
    yield Figure(RESULTS_PAGE, "running-time", ("11 to 30",), "SCS / convex", 8, True), ratio


def _timed(out: Path, root: str | Path | None) -> FoundFigures:
    """The high school."""
    frame = run_timed(Slide("highschool_2013"), root=root, cache=out / "weights")
    heading = "graphs-that-changed-in-reality"
    row = ("highschool_2013 (contacts in five days, one-hot nodes)",)
    yield Figure(RESULTS_PAGE, heading, row, "test accuracy", 0.001), float(frame.attrs["accuracy"])
    own = frame[(frame.method == "convex") & (frame.level == 1)]
    column = "convex: mean fidelity at levels 1, 5, 10"
    yield Figure(RESULTS_PAGE, heading, row, column, 0.002), float(own.fidelity_minus.mean())


def _rivals(out: Path, root: str | Path | None) -> FoundFigures:
    """The quick methods and Saliency on hubs and on the pairs of Bitcoin-Alpha, as many puzzles as on the page."""
    every = {**OUR_METHODS, **SIMPLE_RIVALS}
    contenders = {name: every[name] for name in QUICK_METHODS}
    contenders["Saliency, difference"] = pyg_contenders()["Saliency, difference"]
    for setting in ("hub", "bitcoinalpha"):
        summary = summarise_league(run_league(contenders, LeagueSettings((setting,), 10), root=root), ("setting",))
        for method, left in zip(summary.method, summary.left, strict=True):
            bound = 0.05 if "Saliency" in method else 0.005  # float32 of whatever processor
            yield Figure(FIELD_PAGE, f"{setting}", (method,), "left", bound), float(left)


def _levels(out: Path, root: str | Path | None) -> FoundFigures:
    """The molecules; of chosen changes the search may be stopped earlier on a slow machine, so theirs are left out."""
    summary = summarise_levels(run_levels(LevelSettings(("mutag",), 20, 0.5), out, root=root))
    for row in summary.to_dict("records"):
        if row["method"] in ("layer edges", "edges", "paths", "real edges"):
            figure = Figure(FIELD_PAGE, LEVELS_HEADING, ("mutag", str(row["method"])), "1", 1.1, True)
            yield figure, float(row["level_1"])


def _stability(out: Path, root: str | Path | None) -> FoundFigures:
    """What draws nothing, on the pairs of Bitcoin-Alpha."""
    every = {**OUR_METHODS, **SIMPLE_RIVALS}
    contenders = {name: every[name] for name in ("edges", "leave one out")}
    table = run_stability(StabilitySettings(("bitcoinalpha",), 4), contenders, root=root)
    for row in summarise_stability(table).to_dict("records"):
        figure = Figure(FIELD_PAGE, STABLE_HEADING, ("bitcoinalpha", str(row["method"])), str(row["shake"]), 0.02)
        yield figure, float(row["spearman"])


def _means(table: pd.DataFrame) -> Mapping[str, float]:
    """Mean over levels of each method, for sufficiency."""
    means = mean_by_level(table).mean(axis=1).reset_index()
    own = means[means.objective == "sufficiency"]
    return dict(zip(own.method, own[0].astype(float), strict=True))


CLAIMS_RUN = (
    (
        "convex has the smallest mean fidelity of the paper's six",
        "Convex has the smallest fidelity over all levels and all data sets (two layers)",
        70,
    ),
    ("deeplift is the runner-up: below the other four", "DeepLIFT is the runner-up", 140),
)
ASKED_WITH_GNNEXPLAINER = (("grad", "sufficiency"), ("deeplift", "sufficiency"), ("convex", "sufficiency"))
VARIANTS_RUN = {
    "the-mean-of-neighbours": Comparison(("cora",), (2,), 1, aggregation="mean", max_targets=20),
    "the-maximum-of-neighbours": Comparison(("cora",), (2,), 1, aggregation="max", max_targets=20),
    "gnnexplainer": Comparison(
        ("cora",), (2,), 1, methods=(*ASKED_WITH_GNNEXPLAINER, *OPTIONAL_METHODS), max_targets=10
    ),
}
MEAN_HEADING = "mean-fidelity"
LEVELS_HEADING = "the-authors-later-tasks"
STABLE_HEADING = "stability"
SLICES: dict[str, Callable[[Path, str | Path | None], FoundFigures]] = {
    "counts": _counts,
    "fidelity": _fidelity,
    "variants": _variants,
    "trainings": _trainings,
    "steps": _steps,
    "removed": _removed,
    "preservation": _preservation,
    "runtime": _runtime,
    "timed": _timed,
    "rivals": _rivals,
    "levels": _levels,
    "stability": _stability,
}
