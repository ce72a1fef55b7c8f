"""model + snapshots + targets -> Stories: what happened to these nodes, graphs or links over the sequence, and why.

Steps are taken one after the other: a Session is opened once a step, for all targets, and let go before the next.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import Progress

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError, MatchedByRow, WrongKind
from ..explain.engine import PathEngine
from ..explain.explanation import Explanation
from ..explain.moved import find_flipped
from ..explain.question import Question
from ..explain.targets import find_rows, look_up, with_pairs
from ..files.named import take_names
from ..graphs.changes import count_changes
from ..graphs.labels import label_targets
from ..graphs.names import Names, index_names, read_names
from ..graphs.places import Target, as_target
from ..graphs.sequence import Snapshots
from ..graphs.snapshot import read_snapshot
from ..graphs.targets import read_pairs, with_graphs, with_links
from ..graphs.widened import widen_graph
from ..memory import parse_memory
from ..network.layers import run_network
from ..notebook import show
from ..origin import RELEASE, Origin
from ..outputs import AUTO, Output
from ..readers import ModelCall, Usage
from ..readers.provision import listed_pairs, number_batches
from ..readers.typed import prepare_types
from ..selection import DEFAULT_METHOD
from ..session import Session, open_session
from .story import Story

NUM_STORIES = 20

# A node that nothing reached may still move by rounding, where rows are summed in another order.
LEAST_KL = 1e-12


@dataclass(frozen=True)
class Step:
    """What happened to the graph, and to all of its predictions, from one snapshot to the next."""

    before: str
    after: str
    num_nodes: int  # that both have
    nodes_added: int
    nodes_removed: int
    features_changed: int
    edges_added: int  # both directions are one where the graphs are symmetric; those of nodes that come or go count
    edges_removed: int
    edges_reweighted: int
    reached: int  # predictions that an altered path reaches: of nodes, graphs or links
    flipped: int  # those of them that changed their class, or one of their labels
    num_paths: int  # altered paths of all of them
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
    targets: Iterable[Target | str] | None = None,
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
    links: Any = None,
    output: str = AUTO,
    scales: Any = None,
) -> Stories:
    """Explain every step of a sequence of snapshots, oldest first, for each target: a node, a graph or a pair of nodes.

    The model may be a list of as many as there are snapshots, one for each; a step then has the model as a cause.
    Without targets, the `top` that changed their class most often, and among those the ones that moved the most; of
    links, among `links` or the pairs of `edge_label_index`. A target need not exist in every snapshot, but in two
    consecutive ones. A step whose paths do not fit into `memory` has a note instead of an explanation. Give a rich
    Console as `progress` to see a bar there. `call`, `output` and `scales` say what they say to Explainer; a unit of
    values that is not given is how much those of the first snapshot vary, for all steps.
    """
    question, room = Question(budget, method, objective), parse_memory(memory)  # checked before any work
    if isinstance(snapshots, Snapshots) and snapshot_names is None:
        snapshot_names = snapshots.names
    offered: tuple[str, ...] = ()
    _check_sequence(snapshots)
    if isinstance(snapshots, Sequence):
        snapshots, brought, offered = take_names(snapshots)
        node_names = brought if node_names is None else node_names
    models = model_of_each(model, len(snapshots))
    ready = prepare_types(models[0], snapshots, Usage(call, None, output, scales), node_names)
    snapshots, usage, node_names = ready.graphs, ready.usage, ready.node_names
    names, snapshots, ids = _check_snapshots(snapshots, snapshot_names)
    called = read_names(node_names, ids)
    index = index_names(called.items(), schema=getattr(snapshots[0], "schema", None))
    asked = None if targets is None else _read_targets(map(index.target, targets))
    pairs = None if links is None else _known_pairs(read_pairs(links), ids)
    if asked and isinstance(asked[0], tuple):
        pairs = read_pairs(asked)

    def open_step(s: int) -> Session:
        before, after = snapshots[s], snapshots[s + 1]
        here = None if pairs is None else pairs[_have(np.union1d(ids[s], ids[s + 1]), pairs)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MatchedByRow)  # said once already, of the whole sequence
            named: dict[str, Any] = {
                "node_names": called, "class_names": class_names, "offered": offered,
                "usage": replace(usage, links=here if here is not None and len(here) else None),
            }  # fmt: skip
            return open_session(models[s + 1], before, after, model_before=_other(models, s), **named)

    session = open_step(0)
    engine = session.paths
    told = engine.change.output
    usage = replace(usage, scales=told.scales)
    if engine.change.of_links and pairs is None:
        listed = listed_pairs(snapshots, ids)
        pairs = listed if len(listed) else engine.change.root_ids
    having = [_listed_in(engine, data, nodes) for data, nodes in zip(snapshots, ids, strict=True)]
    if asked is None:
        among = np.unique(np.concatenate(having)) if pairs is None else pairs
        seen = (
            _predict_with(engine, snapshots, among)
            if _is_one(models)
            else _predict_by_steps(engine, open_step, among, len(ids) - 1)
        )
        wanted = _rank(seen, told, among, top)
    else:
        wanted = _check_targets(asked, engine, having, names)
    steps: list[Step] = []
    answers: list[dict[Target, Explanation | str]] = []
    digests = {"model": engine.origin.digests["model"], "snapshot 0": engine.origin.digests["before"]}
    if not _is_one(models):
        del digests["model"]
        digests["model 0"] = engine.origin.digests.get("model before", engine.origin.digests["model"])
    logits = np.full((len(wanted), len(snapshots), engine.change.network.num_classes), np.nan)
    with Progress(console=progress or Console(quiet=True), transient=True) as bar:
        task = bar.add_task("Explaining", total=len(wanted) * (len(snapshots) - 1))
        for s in range(len(snapshots) - 1):
            session = session if s == 0 else open_step(s)
            engine = session.paths
            steps.append(_count_step(session, names[s], names[s + 1]))
            digests[f"snapshot {s + 1}"] = engine.origin.digests["after"]
            if not _is_one(models):
                digests[f"model {s + 1}"] = engine.origin.digests["model"]
            engine = _with_pairs(engine, wanted)
            _read_logits(engine, wanted, logits[:, s : s + 2])
            here = [t for t, known in zip(wanted, ~np.isnan(logits[:, s : s + 2, 0]).any(axis=1), strict=True) if known]
            answers.append({})
            for target, answer in _explain_step(engine, here, question, room):
                answers[-1][target] = answer
                bar.advance(task)
            bar.update(task, completed=len(wanted) * (s + 1))
    stories = []
    unit = engine.change.unit
    for target, rows in zip(wanted, logits, strict=True):
        called_so = str(label_targets(np.array([target]), {} if engine.change.of_graphs else called)[0])
        why = [
            answers[s].get(target) or _absence(f"{unit.capitalize()} {called_so}", rows, names, s)
            for s in range(len(steps))
        ]
        stories.append(
            Story(
                target,
                called_so,
                names,
                engine.class_names,
                rows,
                tuple(answer if isinstance(answer, Explanation) else None for answer in why),
                tuple(answer if isinstance(answer, str) else "" for answer in why),
                method,
                Origin(RELEASE, digests),
                unit,
                told,
            )
        )
    return Stories(tuple(steps), tuple(stories))


def _check_sequence(snapshots: Any) -> None:
    if not isinstance(snapshots, Sequence) or len(snapshots) < 2:
        got = f"{len(snapshots)}" if isinstance(snapshots, Sequence) else f"a {type(snapshots).__name__}"
        raise InputError(
            f"Expected a list of at least two snapshots, oldest first (got {got}); "
            "a change needs a graph before and one after it."
        )


def _check_snapshots(
    snapshots: Sequence[Any], given: Sequence[str] | None
) -> tuple[tuple[str, ...], list[Any], list[IntArray]]:
    """Names of the snapshots, these numbered alike, and the nodes of each; all are looked at before any is computed."""
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
    batches = all(data.get("batch") is not None for data in snapshots)  # matched graph by graph
    if not any(numbered) and not batches and len(set(sizes)) > 1:
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
    alike = number_batches(snapshots)
    if batches and not any(numbered):
        ids = [read_snapshot(data, "snapshot").node_ids for data in alike]
    return names, alike, ids


def _known_pairs(pairs: IntArray, ids: list[IntArray]) -> IntArray:
    for pair in pairs[~_have(np.concatenate(ids), pairs)][:1]:
        raise InputError(
            f"Expected links between nodes of the snapshots (got {as_target(pair)}); nodes are named by `n_id` where "
            "the snapshots have it, else by their row, from 0."
        )
    return pairs


def _read_targets(targets: Iterable[Target]) -> list[Target]:
    """Numbers of nodes or graphs, or pairs, each once."""
    given = list(targets)
    if not given:
        raise InputError("Expected at least one target (got none); leave `targets` out for those that moved the most.")
    if any(isinstance(target, (tuple, list)) for target in given):
        return list(dict.fromkeys(as_target(pair) for pair in read_pairs(given)))
    wanted = np.asarray(given)
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
        raise WrongKind(
            f"Expected targets to be node numbers, integers, or names (got {wanted.dtype}); "
            "names go into `node_names`, by number."
        )
    return list(dict.fromkeys(wanted.tolist()))


def _check_targets(
    asked: list[Target], engine: PathEngine, having: list[IntArray], names: Sequence[str]
) -> list[Target]:
    """Those asked for, each in two consecutive snapshots; `having` are the nodes or graphs of each of them."""
    unit = engine.change.unit
    if isinstance(asked[0], tuple) != engine.change.of_links:
        wanted = "pairs of node numbers" if engine.change.of_links else "numbers"
        raise WrongKind(f"Expected targets of a model of {unit}s to be {wanted} (got {asked[0]}).")
    here = np.stack([_have(known, np.array(asked)) for known in having])
    for i in np.flatnonzero(~(here[:-1] & here[1:]).any(axis=0))[:1]:
        has = ", ".join(name for name, one in zip(names, here[:, i], strict=True) if one)
        raise InputError(
            f"Expected targets that exist in two consecutive snapshots (got {asked[i]}, which "
            f"{f'is in {has} alone' if has else 'none has'}); "
            "a prediction that was never made again cannot have changed."
        )
    return asked


def _have(known: IntArray, asked: IntArray) -> BoolArray:
    """Which of these numbers are among those known, or which pairs have both of theirs there."""
    found = np.isin(asked, known)
    return found if found.ndim == 1 else np.asarray(found.all(axis=1))


def _listed_in(engine: PathEngine, data: Any, nodes: IntArray) -> IntArray:
    """The graphs of a snapshot where graphs are predicted, else its nodes."""
    return read_snapshot(data, "snapshot").listed_graphs if engine.change.of_graphs else nodes


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


Predicted = tuple[IntArray, FloatArray]  # on one snapshot: which of the targets among which are ranked; their logits


def _predict_with(engine: PathEngine, snapshots: Sequence[Any], among: IntArray) -> Iterator[Predicted]:
    """On each snapshot, by the network alone: to open a Session on every step only to rank would double it."""
    for data in snapshots:
        snapshot = read_snapshot(data, "snapshot", engine.fields)
        if engine.change.of_links:
            here = np.flatnonzero(_have(snapshot.node_ids, among))
            placed, _ = with_links(snapshot, snapshot, among[here])
        elif engine.change.of_graphs:
            placed, _ = with_graphs(snapshot, snapshot)
            assert placed.places is not None
            here = np.searchsorted(among, placed.places.ids)
        else:
            placed, here = snapshot, np.searchsorted(among, snapshot.node_ids)
        network = engine.change.network
        # Rows of edges, where these are places, come after those of nodes, and predict nothing.
        yield here, run_network(network, widen_graph(placed) if network.takes_edges else placed).logits[: len(here)]


def _predict_by_steps(
    first: PathEngine, open_step: Callable[[int], Session], among: IntArray, num_steps: int
) -> Iterator[Predicted]:
    """The same where each snapshot has a model of its own, which must be read on its graphs."""
    wanted = [as_target(number) for number in among]
    for s in range(num_steps):
        engine = _with_pairs(first if s == 0 else open_step(s).paths, wanted)
        rows, known = look_up(engine, wanted)
        change = engine.change
        ends = [(change.before, change.logits_before), (change.after, change.logits_after)]
        for snapshot, logits in ends if s == 0 else ends[1:]:
            here = np.flatnonzero(known & snapshot.predicted.present[rows])
            yield here, logits[rows[here]]


def _rank(predictions: Iterable[Predicted], output: Output, among: IntArray, top: int) -> list[Target]:
    """Those that changed their decision most often, and among those the ones with the largest sum of KL over steps."""
    flips, moved = np.zeros(len(among), dtype=np.int64), np.zeros(len(among))
    before: Predicted | None = None
    for here, logits in predictions:
        if before is not None:
            both, old, new = np.intersect1d(before[0], here, assume_unique=True, return_indices=True)
            flips[both] += output.flipped(before[1][old], logits[new])
            moved[both] += output.divergence(logits[new], before[1][old])
        before = here, logits
    order = np.lexsort((np.arange(len(among)), -moved, -flips))
    return [as_target(among[i]) for i in order[(moved > LEAST_KL)[order]][:top]]


def _with_pairs(engine: PathEngine, wanted: Sequence[Target]) -> PathEngine:
    """The same with these pairs as what is predicted, as far as the graphs have their nodes."""
    if not engine.change.of_links:
        return engine
    pairs = read_pairs(list(wanted))
    return with_pairs(engine, pairs[_have(engine.change.before.node_ids, pairs)])


def _count_step(session: Session, before: str, after: str) -> Step:
    moved, change = session.moved(), session.paths.change
    return Step(
        before=before,
        after=after,
        num_nodes=int((change.before.present & change.after.present).sum()),
        **count_changes(session.changes(open_nodes=True)),
        reached=len(moved),
        flipped=int(find_flipped(moved).sum()),
        num_paths=int(moved.num_paths.sum()),
    )


def _read_logits(engine: PathEngine, targets: Sequence[Target], into: FloatArray) -> None:
    """Logits [num_targets, 2, num_classes] on both snapshots of a step, where they have the target."""
    change = engine.change
    rows, known = look_up(engine, targets)
    for side, snapshot in enumerate((change.before, change.after)):
        here = known & snapshot.predicted.present[rows]
        into[here, side] = (change.logits_after if side else change.logits_before)[rows[here]]


def _explain_step(
    engine: PathEngine, targets: list[Target], question: Question, memory: float
) -> Iterator[tuple[Target, Explanation | str]]:
    """An Explanation for each target, or the sentence that says why its paths were not walked."""
    rows = find_rows(engine, targets)
    refused = dict(zip(targets, engine.refusals(rows, question, memory), strict=True))
    yield from ((target, sentence) for target, sentence in refused.items() if sentence)
    fitting = [target for target in targets if not refused[target]]
    yield from zip(fitting, engine.explain(find_rows(engine, fitting), question, memory), strict=True)


def _absence(target: str, logits: FloatArray, names: Sequence[str], step: int) -> str:
    gone = [names[i] for i in (step, step + 1) if np.isnan(logits[i]).any()]
    return f"{target} is absent from {' and '.join(gone)}."
