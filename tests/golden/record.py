"""Records every answer to the golden cases in one file, and checks a later version against it: see README.md."""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import CASES, Case, Sequence

import axiompath
from axiompath.selection import select

METHODS = ("exact", "convex", "linear", "topk", "deeplift", "gnnlrp", "grad")
OBJECTIVES = ("sufficiency", "necessity")
UNITS: tuple[dict[str, Any], ...] = (
    {"budget": 5},
    {},  # the fewest that explain 0.9
    {"budget": 4, "at_most": True},
    {"by": "edge", "budget": 3},
    {"by": "edge"},
    {"by": "layer_edge", "budget": 3},
    {"by": "layer_edge", "until": 0.7},
    {"depth": 1},
    {"depth": 2, "budget": 3},
    {"depth": "auto", "budget": 4},
)
SAMPLE = 16  # questions of a case that is not asked all of them
MOST_ROWS = 150  # of a long table that are kept; all rows count in the projections
MOST_PATHS = 20_000  # of a target
SECONDS = 600.0  # never reached: what a search finds must not depend on the machine
TOLERANCE = 1e-12
LOOSE = {"weights": 1e-8}  # a relaxation is solved to 1e-10 of the change, which leaves its weights some room
SOFT = {"num_evaluations", "iterations"}  # effort, not an answer: differences are listed and do not count
FILE = Path(__file__).resolve().parent / "answers.golden"

# Attributes of each record, by what they are: floats, whole numbers, texts.
EXPLANATION = {
    "floats": "prob_before prob_after logits_before logits_after kl kl_residual kl_bound gap fidelity_minus "
    "fidelity_plus completeness explained network_share model_share data_share interaction",
    "ints": "budget class_before class_after num_paths",
    "texts": "method objective status unit headline verdict relations hops until",
}
EDGES = {
    "floats": "logits_before logits_after kl kl_residual kl_bound gap logits_added logits_undone fidelity_minus "
    "fidelity_plus completeness explained network_share model_share",
    "ints": "budget class_before class_after num_units",
    "texts": "by method objective status fewest unit relations until",
}
BLAME = {
    "floats": "logits_before logits_after residual",
    "ints": "class_before class_after num_changes num_evaluations",
    "texts": "exact open_nodes unit headline",
}
UNDO = {
    "floats": "logits logits_before logits_after cost",
    "ints": "class_before class_after num_in_sight num_evaluations excluded",
    "texts": "goal changes kinds ends restored proved how alternatives",
}
ENOUGH = {
    "floats": "logits logits_before logits_after explained",
    "ints": "class_before class_after num_in_sight num_evaluations",
    "texts": "until changes kinds ends proved how",
}


class Notes:
    """What a case answers: key -> array or text, where a key is "question:details/field"."""

    def __init__(self, name: str) -> None:
        self.name, self.found, self.scale = name, dict[str, Any](), 1.0

    def add(self, key: str, value: Any) -> None:
        if not isinstance(value, str | np.ndarray):
            value = np.asarray(value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biu":
            value = value.astype(np.int64)
        elif isinstance(value, np.ndarray):
            value = value.astype(np.float64)
        assert key not in self.found, key
        self.found[key] = value

    def fields(self, key: str, record: Any, wanted: dict[str, str]) -> None:
        for name in wanted["floats"].split():
            self.add(f"{key}/{name}", np.asarray(getattr(record, name), dtype=np.float64))
        for name in wanted["ints"].split():
            self.add(f"{key}/{name}", np.asarray(getattr(record, name), dtype=np.int64))
        for name in wanted["texts"].split():
            self.add(f"{key}/{name}", as_text(getattr(record, name)))
        logits = np.abs([record.logits_before, record.logits_after])
        self.scale = max(self.scale, float(np.nanmax(logits, initial=0.0)))

    def table(self, key: str, keys: Any, **columns: Any) -> None:
        """Rows in the order of `keys`: the first of them, a digest of all keys and texts, projections of all values."""
        keys = np.asarray(keys, dtype=np.int64)
        keys = keys.reshape(len(keys), -1 if keys.size else 0)
        order = np.lexsort(keys.T[::-1]) if keys.shape[1] else np.arange(len(keys))
        self.add(f"{key}/rows", keys[order][:MOST_ROWS])
        self.add(f"{key}/rows_digest", f"{keys.shape} {digest(np.ascontiguousarray(keys[order]).tobytes())}")
        for name, column in columns.items():
            if len(column) and isinstance(column[0], str):
                texts = [column[i] for i in order]
                self.add(f"{key}/{name}", "\n".join(texts[:MOST_ROWS]) + f"\n{digest(json.dumps(texts).encode())}")
                continue
            numbers = np.asarray(column, dtype=np.float64)[order]
            self.add(f"{key}/{name}", numbers[:MOST_ROWS])
            if len(numbers) > MOST_ROWS:
                # Signs and sizes by the row: two values that change places, or one that is lost, show.
                weights = np.cos(np.outer(np.arange(1, 5), np.arange(len(numbers)) + 0.5))
                self.add(f"{key}/{name}_projected", weights @ np.nan_to_num(numbers))

    def frame(self, key: str, frame: pd.DataFrame, by: Iterable[str] = ()) -> None:
        """A table with its columns, sorted where rows may have equal ranks."""
        by = [name for name in by if name in frame.columns]
        if by:
            ranks = frame[by[0]].map(str) if frame[by[0]].dtype == object else frame[by[0]]
            frame = frame.assign(_rank=ranks).sort_values("_rank", kind="stable").drop(columns="_rank")
        self.add(f"{key}/columns", " ".join(map(str, frame.columns)))
        self.add(f"{key}/length", len(frame))
        for name in frame.columns:
            column = frame[name]
            if pd.api.types.is_numeric_dtype(column):
                self.add(f"{key}/{name}", column.to_numpy()[: 2 * MOST_ROWS])
            else:
                self.add(f"{key}/{name}", "\n".join(map(as_text, column)))

    def ask(self, key: str, question: Callable[[], Any], write: Callable[[str, Any], None]) -> Any:
        """The answer, written down; that it is refused is an answer, whatever the words."""
        try:
            answer = question()
        except (axiompath.InputError, axiompath.readers.UnreadableModel):
            self.add(f"{key}/refused", "refused")
            return None
        except Exception as error:
            self.add(f"{key}/refused", f"raised {type(error).__name__}")
            return None
        write(key, answer)
        return answer


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def as_text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(as_text, value)) + ")"
    return str(value)


def in_words(options: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())


# ---- one record of each kind ----------------------------------------------------------------------------------------
def write_attribution(notes: Notes, key: str, found: Any) -> None:
    frame = found.to_frame()
    notes.table(
        f"{key}/paths", found.paths, contributions=found.contributions, kinds=[str(kind) for kind in frame["kind"]]
    )
    notes.add(f"{key}/frame_columns", " ".join(map(str, frame.columns)))
    for name, values in sorted(found.causes.items()):
        notes.add(f"{key}/cause_{name}", values)
    for name in ("logits_before", "logits_after", "residual"):
        notes.add(f"{key}/{name}", getattr(found, name))
    notes.scale = max(notes.scale, float(np.abs([found.logits_before, found.logits_after]).max(initial=0.0)))


def write_explanation(notes: Notes, key: str, found: Any) -> None:
    if found.by != "path":
        notes.fields(key, found, EDGES)
        rows = np.column_stack([np.asarray(found.edges).reshape(len(found.kinds), -1), found.layers])
    else:
        notes.fields(key, found, EXPLANATION)
        rows = np.column_stack([found.paths, found.sizes]) if len(found.paths) else np.zeros((0, 1))
        for name, values in sorted(found.causes.items()):
            notes.add(f"{key}/cause_{name}", values)
    notes.table(
        f"{key}/chosen", rows, contributions=found.contributions, weights=found.weights, kinds=list(found.kinds)
    )
    notes.add(f"{key}/summary", found.summary())


def write_blame(notes: Notes, key: str, found: Any) -> None:
    notes.fields(key, found, BLAME)
    order = sorted(range(len(found.changes)), key=lambda row: (found.changes[row], as_text(found.groups)))
    for name in ("shares", "errors", "prob_shares", "prob_errors"):
        notes.add(f"{key}/{name}", np.asarray(getattr(found, name))[order])
    for name in ("changes", "kinds", "ends", "groups"):
        values = getattr(found, name)
        notes.add(f"{key}/{name}", as_text([values[i] for i in order] if len(values) == len(order) else values))
    if found.interactions is not None:
        notes.add(f"{key}/interactions", found.interactions[np.ix_(order, order)])
    notes.add(f"{key}/summary", found.summary())


def write_summarised(wanted: dict[str, str]) -> Callable[[Notes, str, Any], None]:
    def write(notes: Notes, key: str, found: Any) -> None:
        notes.fields(key, found, wanted)
        notes.add(f"{key}/summary", found.summary())

    return write


def write_scan(notes: Notes, key: str, scan: Any, folder: Path) -> None:
    notes.frame(f"{key}/frame", scan.to_frame(), by=["target"])
    notes.add(f"{key}/summary", as_text(scan.summary))
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        notes.add(f"{key}/bytes of {path.relative_to(folder)}", digest(path.read_bytes()))


# ---- the questions --------------------------------------------------------------------------------------------------
def questions(number: int, every: bool) -> list[dict[str, Any]]:
    """Keywords of `explain`: all, or a sample in which case after case every value comes up."""
    found = [
        {"method": method, "objective": objective, **unit}
        for unit, objective, method in itertools.product(UNITS, OBJECTIVES, METHODS)
        if not ("depth" in unit and method in METHODS[4:]) and not ("at_most" in unit and method in METHODS[2:])
    ]
    if every:
        return found
    order = np.random.default_rng(number).permutation(len(found))
    return [found[i] for i in order[:SAMPLE]]


def choose_targets(moved: pd.DataFrame) -> list[Any]:
    """One that changed its class, the one that moved the most, the one with most paths, and one from the middle."""
    most = []
    if "num_paths" in moved:
        moved = moved[moved.num_paths <= MOST_PATHS]
        most = moved.sort_values("num_paths", ascending=False, kind="stable").target.tolist()[:1]
    targets = moved.target.tolist()
    flips = moved[moved.class_before != moved.class_after].target.tolist() if "class_before" in moved else []
    wanted = [*flips[:1], *targets[:1], *most, *targets[len(targets) // 2 :][:1]]
    return list(dict.fromkeys(tuple(t) if isinstance(t, list) else t for t in wanted))[:3]


def ask_explainer(notes: Notes, explainer: Any, case: Case, number: int, folder: Path) -> None:
    moved = explainer.moved()
    notes.frame("moved", moved, by=["target"])
    notes.add("moved/descending", str(bool((np.diff(moved.kl) <= 0).all())))
    notes.frame("changes", explainer.changes())
    notes.ask("changes:opened", lambda: explainer.changes(directed=True, open_nodes=True), notes.frame)
    targets = choose_targets(moved)
    if case.reads:
        notes.add("repr/text", repr(explainer))
        notes.frame("unmatched", explainer.unmatched())
        ask_paths(notes, explainer, targets, questions(number, case.every))
        where = folder / "scan"
        options = {"budget": 3 + number % 4, "method": METHODS[number % 4], "objective": OBJECTIVES[number % 2]}
        options |= {"blame": number % 3 == 0, "min_kl": 1e-4, "workers": 1, "progress": False}
        scan = notes.ask("scan", lambda: explainer.scan(where, **options), lambda k, s: write_scan(notes, k, s, where))
        if options["blame"] and scan is not None:
            notes.frame("scan_blame", scan.blame().to_frame(), by=["id", "change", "changes"])
    for place, target in enumerate(targets[:2]):
        ask_changes(notes, explainer, place, target, number)


def ask_paths(notes: Notes, explainer: Any, targets: list[Any], asked: list[dict[str, Any]]) -> None:
    write = lambda key, found: write_explanation(notes, key, found)  # noqa: E731
    for place, target in enumerate(targets):
        key = f"attribute:{place}"
        found = notes.ask(key, lambda t=target: explainer.attribute(t), lambda k, a: write_attribution(notes, k, a))
        if found is None:
            continue
        order = np.lexsort(found.paths.T[::-1])
        some = found.paths[order[:: max(1, len(order) // 7)]]
        for add in (False, True):
            for name, paths in (("some", some), ("all", found.paths)):
                way = f"{'add' if add else 'undo'},{name}"
                ask_array(notes, f"replay:{place},{way}", explainer.replay, target, paths, add=add)
                ask_array(notes, f"replay_edges:{place},{way}", explainer.replay_edges, target, paths, add=add)
        notes.ask(f"features:{place}", lambda t=target: explainer.features(t), notes.frame)
        notes.ask(f"features:{place},paths", lambda t=target, p=some: explainer.features(t, p), notes.frame)
        given = found.contributions, found.logits_before, found.logits_after, 4, METHODS[place % 4]
        meaning = {"output": found.output.kind, "scales": found.output.scales}
        notes.ask(
            f"select:{place}",
            lambda given=given, meaning=meaning: select(*given, **meaning),
            lambda k, s, f=found: notes.table(f"{k}/chosen", f.paths[s.chosen], weights=s.weights[: len(s.chosen)]),
        )
    if not targets:
        return
    target, budgets = targets[0], [1, 3, 6]
    for options in asked:
        key = f"explain:{in_words(options)}"
        notes.ask(key, lambda options=options: explainer.explain(target, **options), write)
    notes.ask("explain:default", lambda: explainer.explain(target), write)
    several = notes.ask("frontier", lambda: explainer.frontier(target, budgets), lambda *_: None)
    for budget, found in zip(budgets, several or (), strict=False):
        write(f"frontier:{budget}", found)
    many = notes.ask("explain_many", lambda: list(explainer.explain_many(targets, 3, progress=False)), lambda *_: None)
    for place, found in enumerate(many or ()):
        write(f"explain_many:{place}", found)


def ask_changes(notes: Notes, explainer: Any, place: int, target: Any, number: int) -> None:
    blame, last = lambda key, found: write_blame(notes, key, found), len(explainer.changes()) - 1
    limits = {"seconds": SECONDS, "tolerance": 0.05, "seed": 3}
    ways = [{}, {"by": "kind"}, {"by": "kind", "opened": True}, {"by": "node"}, {"open_nodes": True}]
    ways = [*ways, {"interactions": True}] if last < 12 else ways
    found = [
        notes.ask(f"blame:{place},{in_words(way)}", lambda way=way: explainer.blame(target, **way, **limits), blame)
        for way in (ways if place == 0 else ways[:1])
    ]
    write_undo, write_enough = write_summarised(UNDO), write_summarised(ENOUGH)
    undos = [{}, {"every": True}, {"keep": [0]}, {"costs": {0: 2.5}}] if last < 20 else []
    if (
        undos and found[0] is not None and len(found[0].logits_after) > 1
    ):  # where the class stayed, half of the way back
        odds = np.exp([found[0].logits_before, found[0].logits_after])
        likely = (odds / odds.sum(axis=1, keepdims=True))[:, found[0].class_after]
        undos[1:1] = [
            {"below": round(float(likely.mean()), 6)},
            {"below": round(float(likely.mean()), 6), "every": True},
        ]
    for way in undos if place == 0 else undos[:2]:
        notes.ask(
            f"undo:{place},{in_words(way)}",
            lambda way=way: explainer.undo(target, seconds=SECONDS, **way),
            lambda k, found: write_undo(notes, k, found),
        )
    for way in ({}, {"until": 0.5}, {"budget": 2}) if last < 20 else ():
        notes.ask(
            f"enough:{place},{in_words(way)}",
            lambda way=way: explainer.enough(target, seconds=SECONDS, **way),
            lambda k, found: write_enough(notes, k, found),
        )
    for name, way in {
        "undo one": {"undo": [0]},
        "undo two": {"undo": [0, last]},
        "apply": {"apply": [last]},
        "several": {"undo": [[0], [last]]},
    }.items():
        ask_array(notes, f"what_if:{place},{name}", explainer.what_if, target, **way)


def ask_array(notes: Notes, key: str, question: Callable[..., Any], *given: Any, **options: Any) -> None:
    notes.ask(key, lambda: question(*given, **options), lambda k, found: notes.add(f"{k}/logits", found))


def ask_sequence(notes: Notes, given: Sequence, folder: Path) -> None:
    stories = axiompath.build_stories(given.model, given.snapshots, budget=4, top=4, **given.options)
    notes.frame("stories", stories.to_frame())
    for place, story in enumerate(stories):
        key = f"story:{place}"
        notes.add(f"{key}/target", as_text(story.target))
        notes.add(f"{key}/logits", story.logits)
        notes.scale = max(notes.scale, float(np.nanmax(np.abs(story.logits), initial=0.0)))
        notes.add(f"{key}/summary", story.summary())
        notes.frame(f"{key}/frame", story.to_frame())
        for step, found in enumerate(story.explanations):
            if found is not None:
                write_explanation(notes, f"story_explanation:{place},{step}", found)
    options = {**given.options, "budget": 4, "min_kl": 1e-4, "workers": 1, "progress": False, "blame": True}
    for step, scan in enumerate(axiompath.scan_sequence(given.model, given.snapshots, folder / "scans", **options)):
        write_scan(notes, f"sequence_scan:{step}", scan, Path(scan.folder))
        notes.frame(f"sequence_blame:{step}", scan.blame().to_frame(), by=["id", "change", "changes"])
    scans = axiompath.read_scans(folder / "scans")
    notes.add("read_scans/number", len(list(scans)))


def answer(case: Case, number: int) -> tuple[Notes, float]:
    """All answers of a case, and the seconds of processor time they took."""
    began, notes = time.process_time(), Notes(case.name)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = case.make(Path(folder))
        if isinstance(made, Sequence):
            ask_sequence(notes, made, Path(folder))
        else:
            ask_explainer(notes, made, case, number, Path(folder))
    return notes, time.process_time() - began


# ---- the file -------------------------------------------------------------------------------------------------------
def save(path: Path, results: list[tuple[Notes, float]]) -> None:
    """A zip of an index and two arrays: texts in the index, numbers one behind the other in the order of it."""
    index, floats, ints = [], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    for notes, seconds in results:
        entries = {}
        for key, value in notes.found.items():
            if isinstance(value, str):
                entries[key] = value
                continue
            (floats if value.dtype == np.float64 else ints).append(value.ravel())
            entries[key] = [value.dtype.kind, *value.shape]
        index.append({"name": notes.name, "scale": notes.scale, "seconds": round(seconds, 2), "entries": entries})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(zipfile.ZipInfo("index.json"), json.dumps(index), zipfile.ZIP_LZMA)
        for name, parts in (("floats.npy", floats), ("ints.npy", ints)):
            content = io.BytesIO()
            np.save(content, np.concatenate(parts), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(name), content.getvalue(), zipfile.ZIP_LZMA)


def load(path: Path) -> dict[str, tuple[Notes, float]]:
    """Name -> what was recorded, and the seconds it took."""
    with zipfile.ZipFile(path) as archive:
        index = json.loads(archive.read("index.json"))
        numbers = {
            kind: np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            for kind, name in (("f", "floats.npy"), ("i", "ints.npy"))
        }
    place, found = {"f": 0, "i": 0}, {}
    for held in index:
        notes = Notes(held["name"])
        notes.scale = held["scale"]
        for key, value in held["entries"].items():
            if not isinstance(value, str):
                kind, *shape = value
                size = int(np.prod(shape))
                value = numbers[kind][place[kind] : place[kind] + size].reshape(shape)
                place[kind] += size
            notes.found[key] = value
        found[held["name"]] = (notes, held["seconds"])
    return found


def difference(old: Any, new: Any, scale: float) -> float:
    """0 where two answers are equal, infinity where they cannot be compared, else their distance by the scale."""
    if isinstance(old, str) or isinstance(new, str):
        # Lines in any order: which of two equals is named first is no answer.
        alike = isinstance(old, str) and isinstance(new, str) and sorted(old.split("\n")) == sorted(new.split("\n"))
        return 0.0 if alike else np.inf
    if old.shape != new.shape or old.dtype != new.dtype:
        return np.inf
    if old.dtype != np.float64:
        return 0.0 if np.array_equal(old, new) else np.inf
    usual = np.isfinite(old) & np.isfinite(new)
    if not np.array_equal(old[~usual], new[~usual], equal_nan=True):
        return np.inf
    room = np.maximum(scale, np.abs(old[usual]))
    return float((np.abs(old[usual] - new[usual]) / room).max(initial=0.0))


def check(held: dict[str, tuple[Notes, float]], cases: list[tuple[int, Case]], args: argparse.Namespace) -> int:
    """Compare, print a row for each column that differs, and say whether any does."""
    rows: dict[str, list[tuple[float, str, Any, Any]]] = {}
    compared: dict[str, int] = {}
    then = now = 0.0
    for number, case in cases:
        old, seconds = held.get(case.name, (None, 0.0))
        notes, took = answer(case, number)
        then, now = then + seconds, now + took
        old = old or Notes(case.name)
        for key in {**old.found, **notes.found}:
            question, _, name = key.partition("/")
            column = f"{question.split(':')[0]}.{name.split(' of ')[0]}"
            compared[column] = compared.get(column, 0) + 1
            pair = old.found.get(key, "nothing"), notes.found.get(key, "nothing")
            far = difference(*pair, old.scale)
            if far > LOOSE.get(column.rsplit("/", 1)[-1], args.tolerance):
                rows.setdefault(column, []).append((far, f"{case.name} {key}", *pair))
        print(f"{case.name:28} {len(notes.found):6} answers  {took:6.2f} s, recorded in {seconds:.2f} s", flush=True)
    is_bytes = {column: column.endswith(".bytes") for column in compared}
    hard = [column for column in rows if not is_bytes[column] and column.rsplit(".", 1)[-1] not in SOFT]
    print(f"\n{'column':44} {'compared':>8} {'differ':>7} {'largest':>9}  first")
    for column in sorted(rows, key=lambda column: (column not in hard, column)):
        worst = max(far for far, *_ in rows[column])
        note = " (bytes)" if is_bytes[column] else "" if column in hard else " (effort)"
        print(f"{column + note:44} {compared[column]:8} {len(rows[column]):7} {worst:9.2g}  {rows[column][0][1]}")
        for far, where, old_value, new_value in rows[column][: args.show]:
            print(f"    {where} ({far:.2g})\n      recorded {shown(old_value)}\n      now      {shown(new_value)}")
    failed = bool(hard) or (args.bytes and any(is_bytes[column] for column in rows))
    equal = len(compared) - len(rows)
    print(f"\n{sum(compared.values())} answers of {len(cases)} cases: {equal} of {len(compared)} columns are equal")
    print(f"{now:.1f} s, recorded in {then:.1f} s; {'DIFFERENT' if failed else 'the same answers'}")
    return int(failed)


def shown(value: Any) -> str:
    text = value if isinstance(value, str) else np.array2string(value, precision=15, threshold=20)
    return text if len(text) < 400 else text[:400] + " ..."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="record all answers into this file")
    parser.add_argument("--check", type=Path, nargs="?", const=FILE, help="compare with this file")
    parser.add_argument("--quick", action="store_true", help="15 cases alone")
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--bytes", action="store_true", help="other bytes of scan folders count as a difference, too")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="of numbers, by the scale of the case")
    parser.add_argument("--show", type=int, default=0, help="print so many differences of each column")
    args = parser.parse_args()
    torch.set_num_threads(1)
    only = set(filter(None, args.only.split(",")))
    cases = [(i, case) for i, case in enumerate(CASES) if (case.quick or not args.quick)]
    cases = [(i, case) for i, case in cases if not only or case.name in only]
    if args.check:
        return check(load(args.check), cases, args)
    if not args.out:
        parser.error("give --out FILE or --check FILE")
    results = []
    for number, case in cases:
        notes, seconds = answer(case, number)
        results.append((notes, seconds))
        print(f"{case.name:28} {len(notes.found):6} answers  {seconds:6.2f} s", flush=True)
        for key, value in notes.found.items():
            if key.endswith("/refused") and value != "refused":
                print(f"    {key.removesuffix('/refused')} {value}: a fault, recorded as it is")
    save(args.out, results)
    whole = sum(seconds for _, seconds in results)
    print(f"{len(results)} cases in {whole:.1f} s: {args.out}, {args.out.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
