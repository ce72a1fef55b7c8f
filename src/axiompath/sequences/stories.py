"""model + snapshots + targets -> Stories: what happened to these nodes, graphs or links over the sequence, and why."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
from ..files.graph_file import GraphFile
from ..files.named import take_names
from ..graphs.changes import count_changes
from ..graphs.dated import REPEAT, slide
from ..graphs.labels import label_targets
from ..graphs.names import Names, index_names, read_names
from ..graphs.places import GRAPHS, UNIT_OF, Target, as_target
from ..graphs.sequence import Snapshots
from ..graphs.snapshot import find_numbers, read_snapshot
from ..graphs.targets import read_pairs
from ..outputs import AUTO
from ..readers import ModelCall, Usage
from ..readers.provision import listed_pairs, number_batches
from ..readers.typed import prepare_types
from ..selection import DEFAULT_METHOD
from ..session import Session
from ..storage.memory import parse_memory
from ..storage.notebook import show
from ..storage.origin import RELEASE, Origin
from ..windows import WindowSession
from .steps import Step, is_one_model, model_of_each, names_of_snapshots, steps
from .story import Story

NUM_STORIES = 20

# A node that nothing reached may still move by rounding, where rows are summed in another order.
LEAST_KL = 1e-12


@dataclass(frozen=True)
class StepCounts:
    """What happened to the graph and its predictions from one snapshot to the next."""

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
    edges_expired: int = 0  # and those below: due only to time, see `graphs.expiry`
    edges_aged: int = 0
    nodes_expired: int = 0


@dataclass(frozen=True, eq=False)
class Stories(Sequence[Story]):
    """A story for each target, in order, and the steps that they share."""

    steps: tuple[StepCounts, ...]
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
        names = ", ".join(repr(story.name) for story in self.stories[:5])
        raise InputError(f"Expected the name of a target that has a story: {names} (got {place!r}).")

    def __repr__(self) -> str:
        """How many, and the first of them."""
        lines = "\n".join(f"  {story.headline}" for story in self.stories[:5])
        more = f"\n  and {len(self) - 5:,} more" if len(self) > 5 else ""
        return f"Stories of {len(self):,} nodes over {len(self.steps)} steps:\n{lines}{more}"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(repr(self), self.to_frame())

    def to_frame(self) -> pd.DataFrame:
        """One row per step: what changed in the graph, and how many predictions moved and flipped."""
        return pd.DataFrame([vars(step) for step in self.steps])


def build_stories(
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
    window: int | None = None,
    still: Any = REPEAT,
) -> Stories:
    """Explain every step of a sequence of snapshots, oldest first, for each target: a node, a graph or a pair of nodes.

    The model may be a list with one model per snapshot; a step then has the cause *model*. Without targets, the `top`
    that changed class most often, then those that moved most; for links, among `links` or the pairs of
    `edge_label_index`. A target must exist in at least two consecutive snapshots. A step whose paths do not fit into
    `memory` has a note instead of an explanation. A rich Console as `progress` shows a bar. `call`, `output` and
    `scales` are as for Explainer; the default unit of values is their standard deviation in the first snapshot, for all
    steps. A model that looks back over a `window` of so many snapshots predicts from the last of each window on;
    `still` is as for Explainer.
    """
    question, room = Question(budget, method, objective), parse_memory(memory)  # checked before any work
    if isinstance(snapshots, Snapshots) and snapshot_names is None:
        snapshot_names = snapshots.names
    _check_sequence(snapshots)
    models = model_of_each(model, len(snapshots))
    graphs, brought, offered = take_names(snapshots)
    node_names = brought if node_names is None else node_names
    ready = prepare_types(models[0], graphs, Usage(call, None, output, scales), node_names)
    names, numbered, ids = _check_snapshots(ready.graphs, snapshot_names)
    known = read_names(ready.node_names, ids)
    index = index_names(known.items(), schema=getattr(numbered[0], "schema", None))
    if window is not None:
        numbered, models = slide(numbered, window, names), models[window - 1 :]
        names, ids = names[window - 1 :], ids[window - 1 :]
    asked = None if targets is None else _read_targets(map(index.target, targets))
    pairs = None if links is None else _known_pairs(read_pairs(links), ids)
    if asked and isinstance(asked[0], tuple):
        pairs = read_pairs(asked)
    options = {
        "node_names": known, "class_names": class_names, "memory": memory, "call": ready.usage.call, "output": output,
        "scales": scales, "still": still,
    }  # fmt: skip
    sequence = _Aligned(models, numbered, ids, names, offered, pairs, options)
    with warnings.catch_warnings(), Progress(console=progress or Console(quiet=True), transient=True) as bar:
        warnings.simplefilter("ignore", MatchedByRow)  # said once already, of the whole sequence
        step: Step | None = next(sequence.steps([1]))
        assert step is not None
        sequence = sequence.known_from(step.explainer.session.paths)
        wanted = _most_moved(sequence, step, top) if asked is None else _check_targets(asked, step, sequence)
        task = bar.add_task("Explaining", total=len(wanted) * (len(numbered) - 1))
        recorder = _StoryRecorder(sequence, wanted, step.explainer.session.paths)
        rest = sequence.steps(range(2, len(numbered)))
        while step is not None:
            recorder.add(step, question, room, lambda: bar.advance(task))
            bar.update(task, completed=len(wanted) * step.number)
            step = next(rest, None)
        return recorder.stories(method)


@dataclass(frozen=True, eq=False)
class _Aligned:
    """A sequence whose graphs number their nodes alike."""

    models: Sequence[Any]
    graphs: Sequence[Any]
    ids: list[IntArray]  # nodes of each graph
    names: tuple[str, ...]
    offered: tuple[str, ...]  # names of classes that the graphs bring along
    pairs: IntArray | None  # that are asked for, of links
    options: dict[str, Any]  # of Explainer

    def steps(self, only: Collection[int]) -> Iterator[Step]:
        """These steps, opened."""
        graphs = [self._named(graph) for graph in self.graphs] if self.offered else self.graphs
        return steps(
            self.models, graphs, names=self.names, only=only, links_of=self.links_of, **self.options
        )  # fmt: skip

    def _named(self, graph: Any) -> Any:
        """With the names of classes, a graph or each of a window."""
        return [*map(self._named, graph)] if isinstance(graph, Sequence) else GraphFile(graph, (), self.offered)

    def links_of(self, number: int, *_: Any) -> IntArray | None:
        """The pairs whose nodes a step has."""
        if self.pairs is None:
            return None
        here = self.pairs[_have(np.union1d(self.ids[number - 1], self.ids[number]), self.pairs)]
        return here if len(here) else None

    def known_from(self, engine: PathEngine) -> _Aligned:
        """The same, with what the first step says for all: the unit of values, and the pairs of links."""
        pairs = self.pairs
        if engine.change.of_links and pairs is None:
            listed = listed_pairs(self.graphs, self.ids)
            pairs = listed if len(listed) else engine.change.root_ids
        return replace(self, pairs=pairs, options={**self.options, "scales": engine.change.output.scales})

    def having(self, engine: PathEngine) -> list[IntArray]:
        """The nodes that each graph has; where graphs are predicted, the graphs of each batch."""
        if not engine.change.of_graphs:
            return self.ids
        if isinstance(self.graphs[0], Sequence):
            return [np.zeros(1, dtype=np.int64)] * len(self.graphs)
        return [read_snapshot(data, "snapshot").listed_graphs for data in self.graphs]


class _StoryRecorder:
    """What the steps so far say of the targets."""

    def __init__(self, sequence: _Aligned, wanted: list[Target], first: PathEngine) -> None:
        self.sequence, self.wanted = sequence, wanted
        self.unit, self.output, self.class_names = first.change.unit, first.change.output, first.class_names
        self.logits = np.full((len(wanted), len(sequence.graphs), first.change.network.num_classes), np.nan)
        self.counts: list[StepCounts] = []
        self.answers: list[dict[Target, Explanation | str]] = []
        self.digests: dict[str, str] = {}

    def add(self, step: Step, question: Question, memory: float, advance: Callable[[], None]) -> None:
        """Count, and explain the targets that both snapshots of the step have."""
        engine, number = step.explainer.session.paths, step.number
        self._add_digests(engine.origin.digests, number)
        self.counts.append(_count_step(step.explainer.session, step.before, step.after))
        engine = _with_pairs(engine, self.wanted)
        ends = self.logits[:, number - 1 : number + 1]
        _read_logits(step.explainer.session, engine, self.wanted, ends)
        both = np.asarray(~np.isnan(ends).any(axis=(1, 2)))
        here = [target for target, known in zip(self.wanted, both.tolist(), strict=True) if known]
        self.answers.append({})
        for target, answer in _explain_step(engine, here, question, memory):
            self.answers[-1][target] = answer
            advance()

    def _add_digests(self, found: Mapping[str, str], number: int) -> None:
        is_one = is_one_model(self.sequence.models)
        if number == 1:
            self.digests |= {"model" if is_one else "model 0": found.get("model before", found["model"])}
            self.digests["snapshot 0"] = found["before"]
        self.digests[f"snapshot {number}"] = found["after"]
        if not is_one:
            self.digests[f"model {number}"] = found["model"]

    def stories(self, method: str) -> Stories:
        """A story for each target."""
        found, names, known = [], self.sequence.names, self.sequence.options["node_names"]
        for target, rows in zip(self.wanted, self.logits, strict=True):
            name = str(label_targets(np.array([target]), {} if self.unit == UNIT_OF[GRAPHS] else known)[0])
            who = f"{self.unit.capitalize()} {name}"
            why = [
                answers[target] if target in answers else _absence(who, rows, names, place)
                for place, answers in enumerate(self.answers)
            ]
            explained = tuple(answer if isinstance(answer, Explanation) else None for answer in why)
            notes = tuple(answer if isinstance(answer, str) else "" for answer in why)
            said = (explained, notes, method, Origin(RELEASE, self.digests))
            found.append(Story(target, name, names, self.class_names, rows, *said, self.unit, self.output))
        return Stories(tuple(self.counts), tuple(found))


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
    names = names_of_snapshots(given, len(snapshots))
    ids, widths = [], []
    for i, data in enumerate(snapshots):
        snapshot = read_snapshot(data, f"snapshots[{i}]")
        ids.append(snapshot.node_ids)
        widths.append(snapshot.x.shape[1])
    numbered = [data.get("n_id") is not None for data in snapshots]
    if any(numbered) and not all(numbered):
        raise InputError(
            f"Expected `n_id` in all snapshots or in none (got it in {sum(numbered)} of {len(numbered)}); "
            "if nodes come and go, give it to all."
        )
    sizes = [len(nodes) for nodes in ids]
    batches = all(data.get("batch") is not None for data in snapshots)  # matched graph by graph
    if not any(numbered) and not batches and len(set(sizes)) > 1:
        warnings.warn(
            f"The snapshots have {', '.join(map(str, sizes))} nodes and no ids: "
            "row i of one is taken to be row i of every other; if that is wrong, give all of them `n_id`.",
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
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
        raise WrongKind(
            f"Expected targets to be node numbers, integers, or names (got {wanted.dtype}); "
            "names go into `node_names`, by number."
        )
    return list(dict.fromkeys(wanted.tolist()))


def _check_targets(asked: list[Target], first: Step, sequence: _Aligned) -> list[Target]:
    """Those asked for, each in two consecutive snapshots."""
    engine = first.explainer.session.paths
    unit = engine.change.unit
    if isinstance(asked[0], tuple) != engine.change.of_links:
        wanted = "pairs of node numbers" if engine.change.of_links else "numbers"
        raise WrongKind(f"Expected targets of a model of {unit}s to be {wanted} (got {asked[0]}).")
    here = np.stack([_have(known, np.array(asked)) for known in sequence.having(engine)])
    for i in np.flatnonzero(~(here[:-1] & here[1:]).any(axis=0))[:1]:
        has = ", ".join(name for name, one in zip(sequence.names, here[:, i], strict=True) if one)
        raise InputError(
            f"Expected targets that exist in two consecutive snapshots (got {asked[i]}, which "
            f"{f'is only in {has}' if has else 'none has'}); "
            "a prediction that was never made again cannot have changed."
        )
    return asked


def _have(known: IntArray, asked: IntArray) -> BoolArray:
    """Which of these numbers are among those known, or which pairs have both of theirs there."""
    found = np.isin(asked, known)
    return found if found.ndim == 1 else np.asarray(found.all(axis=1))


def _most_moved(sequence: _Aligned, first: Step, top: int) -> list[Target]:
    """Those that changed their decision most often, and among those the ones with the largest sum of KL over steps.

    Steps are opened one by one to find them, and again to explain them: all of them open at once might not fit.
    """
    flips, moved = Counter[Target](), defaultdict[Target, float](float)
    for step in chain([first], sequence.steps(range(2, len(sequence.graphs)))):
        frame = step.explainer.session.moved()
        for target, flipped, kl in zip(frame.target, find_flipped(frame), frame.kl, strict=True):
            flips[target] += int(flipped)
            moved[target] += kl
    known = [target for target in moved if moved[target] > LEAST_KL]
    return sorted(known, key=lambda target: (-flips[target], -moved[target], target))[:top]


def _with_pairs(engine: PathEngine, wanted: Sequence[Target]) -> PathEngine:
    """The same with these pairs as what is predicted, as far as the graphs have their nodes."""
    if not engine.change.of_links:
        return engine
    pairs = read_pairs(list(wanted))
    return with_pairs(engine, pairs[_have(engine.change.before.node_ids, pairs)])


def _count_step(session: Session, before: str, after: str) -> StepCounts:
    moved = session.moved_rows()
    return StepCounts(
        before=before,
        after=after,
        num_nodes=session.num_nodes[1],
        **count_changes(session.changes(open_nodes=True)),
        reached=len(moved),
        flipped=int(find_flipped(moved).sum()),
        num_paths=int(moved.num_paths.sum()),
    )


def _read_logits(session: Session, engine: PathEngine, targets: Sequence[Target], into: FloatArray) -> None:
    """Logits [num_targets, 2, num_classes] on both snapshots of a step, where they have the target."""
    if isinstance(session, WindowSession):
        for side, (ids, logits) in enumerate(session.ends):
            into[:, side] = logits[find_numbers(ids, np.asarray(targets))[0]]
        return
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
