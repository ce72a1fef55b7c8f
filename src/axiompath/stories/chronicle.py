"""model + snapshots + targets -> Stories: what happened to these nodes over the whole sequence, and why.

Steps are taken one after the other: a Case is opened once a step, for all targets, and let go before the next.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import Progress

from ..arrays import FloatArray, IntArray
from ..errors import InputError, MatchedByRow, WrongKind
from ..explain.case import Case, open_case
from ..explain.explanation import Explanation
from ..explain.question import Question
from ..files.named import take_names
from ..graphs.changes import count_changes
from ..graphs.names import Names, index_names, read_names
from ..graphs.places import NODE_UNIT
from ..graphs.sequence import Snapshots
from ..graphs.snapshot import read_snapshot
from ..memory import parse_memory
from ..metrics import kl_divergence
from ..network.layers import run_network
from ..notebook import show
from ..origin import RELEASE, Origin
from ..outputs import CLASSES
from ..readers import ModelCall, Usage
from ..selection import DEFAULT_METHOD
from .story import Story

NUM_STORIES = 20

# A node that nothing reached may still move by rounding, where rows are summed in another order.
LEAST_KL = 1e-12


@dataclass(frozen=True)
class Step:
    """What happened to the graph, and to the predictions of all its nodes, from one snapshot to the next."""

    before: str
    after: str
    num_nodes: int  # that both have
    nodes_added: int
    nodes_removed: int
    features_changed: int
    edges_added: int  # both directions are one where the graphs are symmetric; those of nodes that come or go count
    edges_removed: int
    edges_reweighted: int
    reached: int  # nodes that an altered path reaches
    flipped: int  # those of them that changed their class
    num_paths: int  # altered paths of all nodes
    edge_features_changed: int = 0


@dataclass(frozen=True, eq=False)
class Stories(Sequence[Story]):
    """A story for each target, in order, and the steps that they share."""

    steps: tuple[Step, ...]
    stories: tuple[Story, ...]

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.stories)

    def __getitem__(self, place: Any) -> Any:
        """The story of the target in that place, or of that name."""
        if not isinstance(place, str):
            return self.stories[place]
        for story in self.stories:
            if story.name == place:
                return story
        told = ", ".join(repr(story.name) for story in self.stories[:5])
        raise InputError(f"Expected the name of a target whose story is told: {told} (got {place!r}).")

    def __repr__(self) -> str:
        """How many, and the first of them."""
        told = "\n".join(f"  {story.headline}" for story in self.stories[:5])
        more = f"\n  and {len(self) - 5:,} more" if len(self) > 5 else ""
        return f"Stories of {len(self):,} nodes over {len(self.steps)} steps:\n{told}{more}"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(repr(self), self.to_frame())

    def to_frame(self) -> pd.DataFrame:
        """One row a step: what changed in the graph, and how many predictions moved and flipped."""
        return pd.DataFrame([vars(step) for step in self.steps])


def tell_stories(
    model: Any,
    snapshots: Sequence[Any],
    targets: Iterable[int | str] | None = None,
    budget: int = 10,
    method: str = DEFAULT_METHOD,
    objective: str = "sufficiency",
    *,
    top: int = NUM_STORIES,
    memory: str | float = "2GB",
    node_names: Names | None = None,
    class_names: Collection[str] | None = None,
    snapshot_names: Sequence[str] | None = None,
    progress: Console | None = None,
    call: ModelCall | None = None,
) -> Stories:
    """Explain every step of a sequence of snapshots, oldest first, for each target.

    The model may be a list of as many as there are snapshots, one for each; a step then has the model as a cause.
    Without targets, the `top` nodes that changed their class most often, and among those the ones that moved the most.
    A node need not exist in every snapshot, but in two consecutive ones. A step whose paths do not fit into `memory`
    has a note instead of an explanation. Give a rich Console as `progress` to see a bar there. `call` says how the
    model is called, as in Explainer.
    """
    question, room = Question(budget, method, objective), parse_memory(memory)  # checked before any work
    if isinstance(snapshots, Snapshots) and snapshot_names is None:
        snapshot_names = snapshots.names
    offered: tuple[str, ...] = ()
    if isinstance(snapshots, Sequence):
        snapshots, brought, offered = take_names(snapshots)
        node_names = brought if node_names is None else node_names
    names, ids = _check_snapshots(snapshots, snapshot_names)
    called = read_names(node_names, ids)
    index = index_names(called.items())
    wanted = None if targets is None else _check_targets(map(index.target, targets), ids, names)
    models = model_of_each(model, len(snapshots))

    def open_step(s: int) -> Case:
        before, after = snapshots[s], snapshots[s + 1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MatchedByRow)  # said once already, of the whole sequence
            named: dict[str, Any] = {
                "node_names": called, "class_names": class_names, "offered": offered, "usage": Usage(call),
            }  # fmt: skip
            return open_case(models[s + 1], before, after, model_before=_other(models, s), **named)

    case = open_step(0)
    if case.change.unit != NODE_UNIT or case.change.output.kind != CLASSES:
        raise InputError(
            f"Expected a model of classes of nodes, whose stories can be told (got one of {case.change.unit}s with "
            f"{case.change.output.kind} as its output); explain each step by itself, with Explainer."
        )
    if wanted is None:
        logits_of = _predict_with(case, snapshots) if _is_one(models) else _predict_by_steps(case, open_step, ids)
        wanted = _rank(logits_of, ids, top)
    steps: list[Step] = []
    answers: list[dict[int, Explanation | str]] = []
    digests = {"model": case.origin.digests["model"], "snapshot 0": case.origin.digests["before"]}
    if not _is_one(models):
        del digests["model"]
        digests["model 0"] = case.origin.digests.get("model before", case.origin.digests["model"])
    logits = np.full((len(wanted), len(snapshots), case.change.network.num_classes), np.nan)
    with Progress(console=progress or Console(quiet=True), transient=True) as bar:
        task = bar.add_task("Explaining", total=len(wanted) * (len(snapshots) - 1))
        for s in range(len(snapshots) - 1):
            case = case if s == 0 else open_step(s)
            steps.append(_count_step(case, names[s], names[s + 1]))
            digests[f"snapshot {s + 1}"] = case.origin.digests["after"]
            if not _is_one(models):
                digests[f"model {s + 1}"] = case.origin.digests["model"]
            _read_logits(case, wanted, logits[:, s : s + 2])
            here = [t for t, known in zip(wanted, ~np.isnan(logits[:, s : s + 2, 0]).any(axis=1), strict=True) if known]
            answers.append({})
            for target, answer in _explain_step(case, here, question, room):
                answers[-1][target] = answer
                bar.advance(task)
            bar.update(task, completed=len(wanted) * (s + 1))
    stories = []
    for target, rows in zip(wanted, logits, strict=True):
        told = [
            answers[s].get(target) or _absence(called.get(target, str(target)), rows, names, s)
            for s in range(len(steps))
        ]
        stories.append(
            Story(
                target,
                called.get(target, str(target)),
                names,
                case.class_names,
                rows,
                tuple(answer if isinstance(answer, Explanation) else None for answer in told),
                tuple(answer if isinstance(answer, str) else "" for answer in told),
                method,
                Origin(RELEASE, digests),
            )
        )
    return Stories(tuple(steps), tuple(stories))


def _check_snapshots(snapshots: Sequence[Any], given: Sequence[str] | None) -> tuple[tuple[str, ...], list[IntArray]]:
    """Names of the snapshots and the nodes of each; all are looked at before anything is computed on the first."""
    if not isinstance(snapshots, Sequence) or len(snapshots) < 2:
        got = f"{len(snapshots)}" if isinstance(snapshots, Sequence) else f"a {type(snapshots).__name__}"
        raise InputError(
            f"Expected a list of at least two snapshots, oldest first (got {got}); "
            "a change needs a graph before and one after it."
        )
    names = tuple(str(name) for name in given) if given else tuple(f"snapshot {i}" for i in range(len(snapshots)))
    if len(names) != len(snapshots):
        raise InputError(
            f"Expected a name for each of the {len(snapshots)} snapshots (got {len(names)} names); "
            "leave `snapshot_names` out to have them numbered."
        )
    ids, widths = [], []
    for i, data in enumerate(snapshots):
        snapshot = read_snapshot(data, f"snapshots[{i}]")
        ids.append(snapshot.node_ids)
        widths.append(snapshot.x.shape[1])
    numbered = [data.get("n_id") is not None for data in snapshots]
    if any(numbered) and not all(numbered):
        raise InputError(
            f"Expected `n_id` in all snapshots or in none (got it in {sum(numbered)} of {len(numbered)}); "
            "give it to all where nodes come and go."
        )
    sizes = [len(nodes) for nodes in ids]
    if not any(numbered) and len(set(sizes)) > 1:
        warnings.warn(
            f"The snapshots have {', '.join(map(str, sizes))} nodes, and nothing but their row says which is which: "
            "row i of one is taken for row i of every other; if that is not so, give all of them `n_id`.",
            MatchedByRow,
            stacklevel=3,
        )
    if len(set(widths)) > 1:
        raise InputError(
            f"Expected node features of the same width in all snapshots (got {', '.join(map(str, widths))}); "
            "pad or select the columns that the model was trained on."
        )
    return names, ids


def _check_targets(targets: Iterable[int], ids: list[IntArray], names: Sequence[str]) -> list[int]:
    wanted = np.asarray(list(targets))
    if wanted.size == 0:
        raise InputError("Expected at least one target (got none); leave `targets` out for those that moved the most.")
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
        raise WrongKind(
            f"Expected targets to be node numbers, integers, or names (got {wanted.dtype}); "
            "names go into `node_names`, by number."
        )
    chosen = list(dict.fromkeys(wanted.tolist()))
    here = np.stack([np.isin(chosen, nodes) for nodes in ids])
    for i in np.flatnonzero(~(here[:-1] & here[1:]).any(axis=0))[:1]:
        having = ", ".join(name for name, has in zip(names, here[:, i], strict=True) if has)
        raise InputError(
            f"Expected targets that exist in two consecutive snapshots (got {chosen[i]}, which "
            f"{f'is in {having} alone' if having else 'none has'}); "
            "a prediction that was never made again cannot have changed."
        )
    return chosen


def model_of_each(model: Any, num_snapshots: int) -> list[Any]:
    """The model of each snapshot: one for all of them, or a list with one for each."""
    if not isinstance(model, (list, tuple)):
        return [model] * num_snapshots
    if len(model) != num_snapshots:
        raise InputError(
            f"Expected a model for each of the {num_snapshots} snapshots, or one for all of them (got {len(model)})."
        )
    return list(model)


def _other(models: Sequence[Any], step: int) -> Any:
    """The model before a step, where it is another object than the one after it."""
    return None if models[step] is models[step + 1] else models[step]


def _is_one(models: Sequence[Any]) -> bool:
    return all(model is models[0] for model in models)


def _predict_with(case: Case, snapshots: Sequence[Any]) -> Iterator[FloatArray]:
    """Logits on each snapshot, by the network alone: to open a Case on every step only to rank would double it."""
    for data in snapshots:
        yield run_network(case.change.network, read_snapshot(data, "snapshot", case.fields)).logits


def _predict_by_steps(first: Case, open_step: Callable[[int], Case], ids: Sequence[IntArray]) -> Iterator[FloatArray]:
    """The same where each snapshot has a model of its own, which must be read on its graphs."""
    for s in range(len(ids) - 1):
        change = (first if s == 0 else open_step(s)).change
        place = {int(node): row for row, node in enumerate(change.before.node_ids)}
        ends = (change.logits_before, change.logits_after) if s == 0 else (change.logits_after,)
        for nodes, logits in zip(ids[s + 2 - len(ends) : s + 2], ends, strict=True):
            yield logits[[place[int(node)] for node in nodes]]


def _rank(logits_of: Iterable[FloatArray], ids: list[IntArray], top: int) -> list[int]:
    """Nodes that changed their class most often, and among those the ones with the largest sum of KL over the steps."""
    union = np.unique(np.concatenate(ids))
    flips, moved = np.zeros(len(union), dtype=np.int64), np.zeros(len(union))
    before: tuple[IntArray, FloatArray] | None = None
    for logits, nodes in zip(logits_of, ids, strict=True):
        if before is not None:
            _, old, new = np.intersect1d(before[0], nodes, assume_unique=True, return_indices=True)
            rows = np.searchsorted(union, nodes[new])
            flips[rows] += before[1][old].argmax(axis=1) != logits[new].argmax(axis=1)
            moved[rows] += kl_divergence(logits[new], before[1][old])
        before = nodes, logits
    order = np.lexsort((union, -moved, -flips))
    return [int(node) for node in union[order[(moved > LEAST_KL)[order]]][:top]]


def _count_step(case: Case, before: str, after: str) -> Step:
    moved = case.moved()
    return Step(
        before=before,
        after=after,
        num_nodes=int((case.change.before.present & case.change.after.present).sum()),
        **count_changes(case.changes(open_nodes=True)),
        reached=len(moved),
        flipped=int((moved.class_before != moved.class_after).sum()),
        num_paths=int(moved.num_paths.sum()),
    )


def _read_logits(case: Case, targets: Sequence[int], into: FloatArray) -> None:
    """Logits [num_targets, 2, num_classes] on both snapshots of a step, where they have the target."""
    change = case.change
    place = {int(node): row for row, node in enumerate(change.before.node_ids)}
    sides = ((change.before, change.logits_before), (change.after, change.logits_after))
    for i, target in enumerate(targets):
        row = place.get(target)
        for side, (snapshot, logits) in enumerate(sides):
            if row is not None and snapshot.present[row]:
                into[i, side] = logits[row]


def _explain_step(
    case: Case, targets: list[int], question: Question, memory: float
) -> Iterator[tuple[int, Explanation | str]]:
    """An Explanation for each target, or the sentence that says why its paths were not walked."""
    _, rows = case.find(targets)
    refused = dict(zip(targets, case.refusals(rows, question, memory), strict=True))
    yield from ((target, sentence) for target, sentence in refused.items() if sentence)
    fitting = [target for target in targets if not refused[target]]
    yield from zip(fitting, case.explain(case.find(fitting)[1], question, memory), strict=True)


def _absence(target: str, logits: FloatArray, names: Sequence[str], step: int) -> str:
    gone = [names[i] for i in (step, step + 1) if np.isnan(logits[i]).any()]
    return f"Node {target} is absent from {' and '.join(gone)}."
