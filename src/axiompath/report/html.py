"""Explainer + targets -> one self-contained HTML file, and the same for a single Explanation.

Everything is inlined: style, script and the numbers, each target's in a block of its own that is read only when
that target is looked at. Numbers and names travel as JSON in which no character can end a script block, and the script
writes them as text, never as markup. The page forbids itself everything else: it runs this script and no other,
evaluates no text, and reaches no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup
from rich.console import Console
from rich.progress import track

from ..arrays import FloatArray
from ..blame.blame import Blame
from ..blame.happened import Happened
from ..explain.explanation import Explanation
from ..explain.targets import find_rows
from ..explain.timeline import LEGS
from ..explainer import Explainer
from ..graphs.changes import TIME_PASSED, add_row, count_changes
from ..graphs.names import Asked
from ..graphs.places import NODE_UNIT, Target
from ..outputs import BINARY, CLASSES, NO_YES, VALUE
from ..selection import DEFAULT_METHOD
from ..windows import WindowSession
from .causes import describe_happened, describe_lead
from .graph_plot import describe_neighbourhood
from .moves import list_units, moves_of_blames, name_nodes
from .page import describe_moved, describe_target, named_headline
from .statements import causes_for_page, describe_coverage_of, find_causes
from .strip import describe_timeline

BUDGETS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
NUM_TARGETS = 20
SCRIPTS = (
    "dom",
    "theme",
    "words",
    "tables",
    "flow",
    "neighbourhood",
    "charts",
    "happened",
    "strip",
    "statements",
    "report",
)  # of every page
ALL_SECONDS = 20.0  # for what happened, of all targets together
FOLDER = Path(__file__).parent
Item = TypeVar("Item")


def build_explainer_report(
    explainer: Explainer,
    targets: Iterable[Asked] | None = None,
    budgets: Sequence[int] = BUDGETS,
    *,
    method: str = DEFAULT_METHOD,
    objective: str = "sufficiency",
    depth: int | str | None = None,
    title: str = "Why the predictions changed",
    progress: Console | None = None,
    blame: bool = True,
) -> str:
    """HTML text: an overview of all nodes whose prediction moved, and a page for each target.

    Without targets, the twenty whose distribution moved most. A target too large for the memory budget is listed on the
    page and left out. A rich Console as `progress` shows a bar. Each page begins with blame and undo, for at most a
    second per target, less if there are more than twenty; blame=False skips them.
    """
    moved = explainer.session.moved_rows().drop(columns="row")
    asked = moved.target.head(NUM_TARGETS).tolist() if targets is None else map(explainer.session.index.target, targets)
    wanted = list(dict.fromkeys(asked))
    seconds = min(1.0, ALL_SECONDS / max(len(wanted), 1))
    pages, left_out = [], []
    blames: list[Blame | None] = []
    changes = explainer.changes(open_nodes=True)
    shown: list[Target] = []
    for target in _watched(wanted, "Explaining", len(wanted), progress):
        try:
            useful = _useful(explainer, target, budgets)
            frontier = explainer.frontier(target, useful, method, objective, depth=depth)
        except MemoryError as error:
            left_out.append(str(error))
            continue
        page = describe_target(frontier)
        _add_window(page, explainer, target)
        if blame:
            happened = explainer.happened(target, seconds=seconds)
            blames.append(happened.blame)
            page["happened"] = describe_happened(happened, page["paths"])
            if happened.headline:  # of a window, from before time passed on
                page["headline"] = named_headline(happened.headline, frontier[0])
        around = explainer.session.neighbourhood(frontier[-1], changes)
        page["around"] = describe_neighbourhood(around)
        pages.append(page)
        shown.append(target)
    names = explainer.class_names
    if explainer.change.output.kind == BINARY and not names:
        names = NO_YES
    overview = {
        "unit": explainer.change.unit,
        "values": explainer.change.output.kind == VALUE,
        "moved": describe_moved(moved, shown, names, _moved_by(explainer, moved)),
        "changes": count_changes(changes),
        "lead": describe_lead(pages),
        **_describe_causes(explainer, blames, pages),
        "num_units": explainer.num_shared,
        "left_out": left_out,
        "retrained": len(explainer.session.models) > 1,
    }
    return render(title, pages, overview)


def _add_window(page: dict[str, Any], explainer: Explainer, target: Target) -> None:
    """Of a window: its legs and the strip, if one model made both predictions."""
    if isinstance(explainer.session, WindowSession) and len(explainer.session.models) == 1:
        page["window"] = describe_timeline(explainer.timeline(target))


def _describe_causes(
    explainer: Explainer, blames: Sequence[Blame | None], pages: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """What did it, summed from the blame of the targets that have a page."""
    changes, found = explainer.changes(), [blame for blame in blames if blame is not None]
    if isinstance(explainer.session, WindowSession):
        changes = add_row(changes, TIME_PASSED)
    if not found:
        return {"coverage": "", "statements": [], "spread": [], "kinds": []}
    classes = pd.Series([], dtype=np.int64)
    if explainer.unit == NODE_UNIT and explainer.change.output.kind in (CLASSES, BINARY):
        change = explainer.change
        before = change.output.decide(change.logits_before)
        classes = pd.Series(before, index=change.root_ids.reshape(-1))
        classes = classes[~classes.index.duplicated()]
    moves = moves_of_blames(found, list_units(changes, classes, None), name_nodes(changes))
    causes = find_causes(moves, dict(enumerate(explainer.class_names)))
    place_of = [place for place, blame in enumerate(blames) if blame is not None]
    links = [(str(pages[place]["name"]), place) for place in place_of]
    what = "value" if explainer.change.output.kind == VALUE else "probability"
    whose = f"{len(found):,} prediction{'s' * (len(found) != 1)} explained here"
    exact = "Exact." if all(blame.exact for blame in found) else "Estimated where a page says so."
    coverage = f"{describe_coverage_of(causes, len(changes), f'of the {what} that the {whose} moved by')} {exact}"
    return {"coverage": coverage, **causes_for_page(causes, links)}


def _moved_by(explainer: Explainer, moved: pd.DataFrame) -> FloatArray:
    """By how much the probability of what is predicted now changed, or the value, for each row of `moved`."""
    if isinstance(explainer.session, WindowSession):
        return np.asarray(moved[[leg for leg in (*LEGS, "model") if leg in moved]].sum(axis=1), dtype=np.float64)
    change, rows = explainer.change, find_rows(explainer.session.paths, moved.target.tolist())
    labels = next(moved[key].to_numpy() for key in ("class_after", "label", "column") if key in moved)
    before, after = change.logits_before[rows], change.logits_after[rows]
    sign = np.where(labels == 1, 1.0, -1.0) if change.output.kind == BINARY else 1.0  # one logit: that of yes
    return np.asarray(sign * (change.output.slopes(labels, before, after) * (after - before)).sum(axis=1))


def render_frontier(frontier: Sequence[Explanation], happened: Happened | None = None) -> str:
    """HTML text of one target: one Explanation, or one for each budget; first what happened, where that is given."""
    page = describe_target(frontier)
    if happened is not None:
        page["happened"] = describe_happened(happened, page["paths"])
    return render(f"Why the prediction of {page['name']} changed", [page], None)


def render(title: str, pages: Sequence[dict[str, Any]], overview: dict[str, Any] | None) -> str:
    """HTML text of pages of targets, and of an overview where there is one."""
    index = {
        "title": title,
        "targets": [{"target": page["target"], "name": page["name"], "note": describe_change(page)} for page in pages],
        "overview": overview,
    }
    blocks = {f"page-{i}": page for i, page in enumerate(pages)}
    return fill_template("template.html", ["overview"], index, blocks)


def describe_change(page: dict[str, Any]) -> str:
    """The two classes of a target that changed its class, for the list of all."""
    old, new = (page["classes"][page[end]] for end in ("class_before", "class_after"))
    return "" if page["class_before"] == page["class_after"] else f"{old} → {new}"


def fill_template(
    template: str, scripts: Sequence[str], index: dict[str, Any], blocks: dict[str, Any], *, served: bool = False
) -> str:
    """A kind of report: its template, its scripts after those that all share, and its numbers by the block's name."""
    return render_template(
        template,
        (*SCRIPTS, *scripts),
        index["title"],
        connect="'self'" if served else "'none'",
        index=to_script_json(index),
        blocks={name: to_script_json(block) for name, block in blocks.items()},
    )


def render_template(
    template: str,
    scripts: Sequence[str],
    title: str,
    *,
    connect: str = "'none'",
    **values: Any,
) -> str:
    """Any page: a template within base.html, these scripts as one, and what the template asks for."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    parts = [(FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in scripts]
    program = "\n".join(['"use strict";', "(() => {", *parts, "})();"])
    return environment.get_template(template).render(
        policy=_policy(program, connect),
        title=title,
        style=Markup((FOLDER / "report.css").read_text(encoding="utf-8")),
        script=Markup(program),
        **values,
    )


def pack(data: bytes, level: int = 6) -> str:
    """Deflated, as base64."""
    return base64.b64encode(zlib.compress(data, level)).decode("ascii")


def _policy(script: str, connect: str) -> str:
    """What a browser lets the page do; its script is known by its digest, and only the local server is asked."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def to_script_json(value: Any) -> Markup:
    """JSON that is safe inside a script block: no `<`, `>`, `&` or line separator is left as it is."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _useful(explainer: Explainer, target: Target, budgets: Sequence[int]) -> list[int]:
    """Budgets in order, none beyond the number of altered paths."""
    engine, rows = explainer.session.locate([target])
    total = int(sum(engine.num_paths[rows], 0))
    return sorted({min(budget, total) for budget in budgets}) or [total]


def _watched(items: Iterable[Item], what: str, total: int, console: Console | None) -> Iterable[Item]:
    return items if console is None else track(items, what, total, console=console, transient=True)
