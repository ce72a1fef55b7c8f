"""Events + a folder -> Watch: snapshots, a model trained on the first, every new step scanned, a page.

folder/snapshots     the graphs, which every command takes
folder/model         what was trained
folder/steps/0001    the scan of each step, and its page
folder/watch.json    what is done; written after every step, so that a watch that was stopped goes on
folder/report.html   the page that leads to everything
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from torch import nn
from torch_geometric.data import Data

from ..errors import InputError
from ..files.event_tables import read_node_table
from ..files.folder import ResumableFolder
from ..files.model_folder import load_model, read_model, save_model
from ..files.snapshots import save_snapshots
from ..files.snapshots import snapshots as make_sequence
from ..graphs.clock import is_same_moment, is_same_period, show_period, show_time
from ..graphs.sequence import KnownNodes, Snapshots
from ..graphs.snapshot import find_numbers, read_snapshot
from ..graphs.windows import pair_keys, split_keys
from ..network.digests import digest_graph
from ..scan.flips import FLIP_SECONDS, StepSummary, check_flip_seconds
from ..scan.folder import is_intact
from ..scan.scan import Scan
from ..scan.signals import stoppable
from ..storage.safe import read_lines
from .label_features import LabelFeatures
from .steps import Step, steps
from .training import LINKS_TASK, NODES, check_classes, right_share, train_classifier, train_linker
from .watch_folder import (
    MODEL_FOLDER,
    PAGE,
    SNAPSHOT_FOLDER,
    WATCH,
    Watch,
    WatchedStep,
    WatchProgress,
    check_place,
    read_progress,
    step_folder,
)

LINK_FEATURES = ("constant", "codes")  # which never change: what moves a prediction is edges
LINK_ANSWERS = ("not linked", "linked")
WEIGHTED_GCN = "GCN, weights"  # which divides by roots of sums of weights
ASKED = ("pairs", "answers")  # of links
GIVEN = "given"
MOST_RELATIONS = 10  # kinds of events that become relations of their own, by default
LEAST_FLIPS = 3  # of which more is said than of each by itself
NUM_PAIRS = 500  # links predicted per step, by default


class Pace(NamedTuple):
    """How much is explained, and by how many processes."""

    budget: int = 10
    min_kl: float = 0.01
    top: int = 50  # targets with a page, per step
    workers: int | None = None
    flip_seconds: float = FLIP_SECONDS


def watch_events(
    events: Any,
    out: str | Path,
    labels: Any = None,
    *,
    task: str | None = None,
    model: Any = None,
    nodes: Any = None,
    features: Any = None,
    budget: int = 10,
    min_kl: float = 0.01,
    top: int = 50,
    workers: int | None = None,
    flip_seconds: float = FLIP_SECONDS,
    pairs: int | None = None,
    answers: Sequence[str] | None = None,
    important: Any = None,
    progress: Console | None = None,
    **columns: Any,
) -> Watch:
    """From a list of events to a report: make snapshots, train or take a model, explain every prediction that moved.

    events and columns (every, window, src, dst, time, weight, relation, most_relations, rule, directed, keep, start,
    until) are those of `snapshots`; labels is a table of `id` and `label`, or a dict; without labels, or with
    task="links", links are predicted. `model` is your own (a module, or a model as on the command line); by default,
    the best of a few small networks is trained on the first snapshot. features are those of `nodes`; by default, half
    of the labels (nodes), or a constant and codes of the names (links). At each step, predictions whose KL is at least
    `min_kl` are explained, and the `top` that moved most have a page. The causes and the undo of each flip are found,
    largest first, in at most `flip_seconds` per step. For links, `pairs` of those that came or went are predicted, and
    `answers` names no and yes. `important` names nodes (a list, a file with one per line, or a dict of weights) that
    the page lists first. A second run into the same folder, with more events, computes only new or damaged steps.
    """
    from ..report.watch_page import save_page

    folder, pace = Path(out), Pace(budget, min_kl, top, workers, flip_seconds)
    check_flip_seconds(flip_seconds)
    asked = _read_asked(pairs, answers)
    favoured = read_important(important)
    if columns.get("relation") is not None and columns.get("most_relations") is None:
        columns["most_relations"] = MOST_RELATIONS
    wanted = task or (LINKS_TASK if labels is None and model is None and not _has_labels(nodes) else NODES)
    if wanted not in (NODES, LINKS_TASK):
        raise InputError(f"Expected a task among {NODES} and {LINKS_TASK} (got {task!r}).")
    if wanted == LINKS_TASK and model is None and columns.get("relation") is not None:
        raise InputError(
            "Expected no `relation` where links are learnt (got one: the network that is trained for them looks at no "
            "types); leave it out, or give labels, or a model of your own."
        )
    if model is None and columns.get("relation") is not None:
        _refuse_weights(columns)
    place = ResumableFolder(folder, "watch")
    check_place(place, read_progress(folder))
    table = _join(nodes, labels)
    if wanted == NODES and model is None and table is not None and table.y is not None:
        check_classes(int(table.y.max(initial=-1)) + 1)
    clues = wanted == NODES and features is None and table is not None and table.x is None and table.y is not None
    if features is None and (table is None or table.x is None):
        features = [LabelFeatures(table)] if clues and table is not None else list(LINK_FEATURES)
    console = progress or Console(quiet=True)
    with stoppable(), place.locked(WATCH, PAGE):
        held = read_progress(folder)
        check_place(place, held)  # again, now that nobody else writes there
        if held is not None:
            columns = _as_before({**columns, "task": task, **asked}, held.settings)
        with console.status("Making snapshots"):
            made = make_sequence(events, nodes=table, features=features, **columns)
        if len(made) < 2:
            raise InputError(
                f"Expected events for two snapshots or more (got one, {made.names[0]}); give a shorter `window`."
            )
        if held is not None and (held.steps or _has_model(folder, held)):
            network = _known_model(folder, held, model)
        else:  # none yet, or stopped before it had one
            held, network = _begin(folder, made, wanted, model, clues, asked, console)
        made = _as_read(made, held)
        digests = tuple(digest_graph(read_snapshot(data, "snapshot")) for data in made)
        _check_same(folder, held, digests)
        save_snapshots(made, folder / SNAPSHOT_FOLDER, kept=_num_there(folder, held))
        held = replace(held, digests=digests)
        held.save(folder)
        some = partial(_changed_pairs, held.settings.get("pairs", NUM_PAIRS))
        links_of = some if held.settings["task"] == LINKS_TASK else None
        fresh = []
        for step in steps(network, made, names=made.names, only=_missing_steps(folder, held), links_of=links_of):
            line = f"Step {step.number} of {len(made) - 1}: {step.before} → {step.after}"
            console.print(line, highlight=False)
            found = _do_step(folder, step, made, held, pace)
            fresh.append(step.number)
            if step.number > len(held.steps):
                held = replace(held, steps=(*held.steps, found))
                held.save(folder)
        done = Watch(folder, held, tuple(fresh))
        save_page(done, favoured)
    return done


def read_important(given: Any) -> dict[str, float]:
    """Names of nodes and how much each counts: a list, a dict, or a file of lines `name` or `name,weight`."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        lines = read_lines(Path(given)) if isinstance(given, (str, os.PathLike)) else [str(name) for name in given]
        cut = [line.rpartition(",") for line in lines if line.strip()]
        pairs = [(name.strip(), weight) if comma else (weight.strip(), 2.0) for name, comma, weight in cut]
    found = {}
    for name, weight in pairs:
        try:
            found[str(name)] = float(weight)
        except ValueError as error:
            raise InputError(f"Expected a number as the weight of {name!r} in `important` (got {weight!r}).") from error
    return found


def _begin(
    folder: Path, made: Snapshots, task: str, model: Any, clues: bool, asked: dict[str, Any], console: Console
) -> tuple[WatchProgress, nn.Module]:
    """Train, or take the model that is given; and write down with what."""
    step = made.bounds[1][0] - made.bounds[0][0] or made.bounds[1][1] - made.bounds[0][1]
    start, end = made.bounds[0]
    length = None if made.bounds[1][0] == start else end - start
    settings: dict[str, Any] = {
        "every": show_period(step, made.dated), "window": "all" if length is None else show_period(length, made.dated),
        "start": show_time(start, made.dated), "first": f"{show_time(start, made.dated)} to {made.names[0]}",
        "rule": made.rule, "task": task,
    }  # fmt: skip
    if task == LINKS_TASK:
        given = {key: value for key, value in asked.items() if value is not None}
        settings |= {"answers": list(LINK_ANSWERS), "pairs": NUM_PAIRS, **given}
    if model is not None:
        network = model if isinstance(model, nn.Module) else read_model(str(model))
        begun = WatchProgress({**settings, "model": GIVEN}, {"task": GIVEN}, (), ())
        begun.save(folder)
        return begun, network
    with console.status("Training a few small networks"):
        found = (
            train_linker(made[0]) if task == LINKS_TASK else train_classifier(made[0], made.class_names, clues=clues)
        )
    begun = WatchProgress(settings, found.facts, tuple(found.seen.tolist()), ())
    begun.save(folder)  # first: from now on the folder is a watch's, whatever happens
    save_model(found.model, folder / MODEL_FOLDER, found.arguments)
    return begun, found.model


def _as_read(made: Snapshots, held: WatchProgress) -> Snapshots:
    """The graphs as the model reads them: with the names of the answers, and weights only where it looks at them."""
    names = held.settings.get("answers")
    network = held.facts.get("network")
    for name, data in zip(made.names, made, strict=True):
        if names:
            data.class_names = list(names)
        if network is None or data.get("edge_weight") is None:
            continue
        if not network.endswith("weights"):
            del data.edge_weight
        elif network == WEIGHTED_GCN and float(data.edge_weight.min()) < 0:
            raise InputError(
                f"Expected weights of 0 or more, as in the first window, where a GCN was trained (got "
                f"{float(data.edge_weight.min()):g} in the snapshot {name}); choose another folder, or set `rule` to "
                "count."
            )
    return made


def _refuse_weights(columns: dict[str, Any]) -> None:
    """The network that is trained for edges with relations looks at no weights."""
    rule = columns.get("rule")
    for name, given in (("weight", columns.get("weight")), ("rule", None if rule == "once" else rule)):
        if given is not None:
            raise InputError(
                f"Expected no `{name}` where relations are learnt (got {given!r}: the network that is trained for them "
                "looks at no weights); leave it out, or give a `model` of your own that takes them."
            )


def _has_model(folder: Path, held: WatchProgress) -> bool:
    return held.settings.get("model") == GIVEN or (folder / MODEL_FOLDER / "model.json").is_file()


def _known_model(folder: Path, held: WatchProgress, model: Any) -> nn.Module:
    """The model of the steps that are done."""
    if (model is not None) != (held.settings.get("model") == GIVEN):
        raise InputError(f"Expected the model of the steps that are done in {folder}; leave it out, or give it again.")
    if model is None:
        return load_model(folder / MODEL_FOLDER)
    return model if isinstance(model, nn.Module) else read_model(str(model))


def _check_same(folder: Path, held: WatchProgress, digests: tuple[str, ...]) -> None:
    """Refuse events by which the graphs of the steps that are done are others now."""
    for place, (old, new) in enumerate(zip(held.digests, digests, strict=False)):
        if old != new:
            raise InputError(
                f"Expected the events that were there before, and new ones after them (snapshot {place} is another one "
                "now); give all events, with the columns, the rule, the labels and the features of before, or another "
                f"folder than {folder}."
            )
    if len(digests) < len(held.digests):
        raise InputError(f"Expected as many snapshots as before, {len(held.digests)}, or more (got {len(digests)}).")


def _missing_steps(folder: Path, held: WatchProgress) -> list[int]:
    """Steps that are not done, or whose scan is damaged."""
    numbers = range(1, len(held.digests))
    return [number for number in numbers if number > len(held.steps) or not is_intact(step_folder(folder, number))]


def _do_step(folder: Path, step: Step, made: Snapshots, held: WatchProgress, pace: Pace) -> WatchedStep:
    """Scan one step, and write its page."""
    explainer, after = step.explainer, made[step.number]
    scan = explainer.scan(
        step_folder(folder, step.number), pace.budget, min_kl=pace.min_kl, workers=pace.workers, progress=False,
        flip_seconds=pace.flip_seconds,
    )  # fmt: skip
    title = f"What moved: {step.before} → {step.after}"
    scan.report(scan.folder.with_suffix(".html"), title=title, num_pages=pace.top)
    counts, score, change = made[step.number - 1 : step.number + 1].to_frame().iloc[1], None, explainer.change
    if held.facts["task"] == NODES and after.get("y") is not None:
        logits = change.logits_after[find_numbers(change.after.node_ids, after.n_id.numpy())[0]]
        score = right_share(after, logits, np.array(held.seen, dtype=np.int64), clues=held.facts["clues"])
    numbers, found = scan.manifest, scan.flips()
    return WatchedStep(
        step.before, step.after, int(counts.edges_added), int(counts.edges_removed), explainer.num_shared,
        int(numbers["num_moved"]), int(numbers["num_flipped"]), int(numbers["num_explained"]), score,
        edges_expired=int(counts.edges_expired),
        moved_by=float(change.output.apart(change.logits_before, change.logits_after).sum()),
        **({} if found is None else _describe_flips(scan, found)),
    )  # fmt: skip


def _describe_flips(scan: Scan, found: StepSummary) -> dict[str, Any]:
    """What a step says of its flips: how many were looked at, the largest, and what did them together."""
    from ..report.survey import causes_of_flips

    first = next(iter(found.flips + found.others), None)
    causes = causes_of_flips(scan) if found.num_reached >= LEAST_FLIPS else None
    whole = found.num_reached == found.num_flipped
    which = "all flips" if whole else f"the {found.num_reached:,} of {found.num_flipped:,} flips that were examined"
    return {
        "num_reached": found.num_reached, "by_time": found.share_by_time,
        "answer": "" if first is None else first.summary(), "is_tie": first is not None and first.is_tie,
        "causes": "" if causes is None else causes.summary(f"the change of {which}"),
        "num_causes": 0 if causes is None else causes.num_enough,
    }  # fmt: skip


def _changed_pairs(most: int, step: int, before: Data, after: Data) -> Any:
    """Pairs that are linked in only one of two snapshots and have both ends in both; of many, a random few."""
    known = np.intersect1d(before.n_id.numpy(), after.n_id.numpy())
    keys = []
    for data in (before, after):
        ends = np.sort(data.n_id.numpy()[data.edge_index.numpy()], axis=0)
        keys.append(np.unique(pair_keys(*ends)[np.isin(ends, known).all(axis=0)]))
    changed = np.setxor1d(keys[0], keys[1])
    if not len(changed):
        changed = keys[0]
    if len(changed) > most:
        changed = np.sort(np.random.default_rng(step).choice(changed, most, replace=False))
    return np.stack(split_keys(changed), axis=1)


def _as_before(columns: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The periods of the steps that are done, where none is given; others, and another task, are refused."""
    same: dict[str, Callable[[Any, Any], bool]] = {
        "every": is_same_period, "window": is_same_period, "start": is_same_moment, "task": eq,
        "pairs": eq, "answers": eq,
    }  # fmt: skip
    for key, is_same in same.items():
        given, old = columns.get(key), settings.get(key)
        if given is not None and not is_same(given, old):
            raise InputError(f"Expected `{key}` as before, {old} (got {given}); choose another folder to change it.")
    kept = {key: settings[key] for key in ("every", "window", "start")}
    return {key: value for key, value in columns.items() if key not in ("task", *ASKED)} | kept


def _read_asked(pairs: int | None, answers: Sequence[str] | None) -> dict[str, Any]:
    """What is asked of links: how many pairs, and what no and yes are called; None where nothing is said."""
    if pairs is not None and (isinstance(pairs, bool) or not isinstance(pairs, int) or pairs < 1):
        raise InputError(f"Expected `pairs` to be a whole number of 1 or more (got {pairs!r}).")
    words = None if answers is None else [str(answer).strip() for answer in answers]
    if words is not None and (isinstance(answers, str) or len(words) != 2 or not all(words)):
        raise InputError(f"Expected two words as `answers`, for no and for yes (got {answers!r}).")
    return dict(zip(ASKED, (pairs, words), strict=True))


def _num_there(folder: Path, held: WatchProgress) -> int:
    """How many graphs are in the folder, whole."""
    there = folder / SNAPSHOT_FOLDER / "snapshots.json"
    return len(held.digests) if there.is_file() and len(held.digests) > 1 else 0


def _has_labels(nodes: Any) -> bool:
    return nodes is not None and read_node_table(nodes).y is not None


def _join(nodes: Any, labels: Any) -> KnownNodes | None:
    """One table of a table of nodes and one of labels."""
    if labels is None:
        return None if nodes is None else read_node_table(nodes)
    known = read_node_table(labels, features=False)
    if known.y is None:
        where = labels if isinstance(labels, (str, os.PathLike)) else "the labels"
        raise InputError(f"Expected the columns `id` and `label` in {where} (got no label).")
    if nodes is None:
        return known
    table = read_node_table(nodes)
    place = {name: row for row, name in enumerate(known.names)}
    rows = np.array([place.get(name, -1) for name in table.names])
    return KnownNodes(table.names, table.x, np.where(rows >= 0, known.y[rows], -1), known.class_names)
