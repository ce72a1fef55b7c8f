"""Session + targets -> what each change does to every target that it reaches, as Parquet for `scan_blame`.

A row of a part is a change and a target: how much of the target's prediction goes where the change is left out of
`after`, how much comes where only it is put into `before`, and whether leaving it out gives the old class back. Beside
the parts lie the table of changes, that of the targets, and exact blame of a sample of them, which the estimate is held
against. Which rows a part holds depends only on the graphs and the question, never on workers or memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

from ..arrays import BoolArray, FloatArray, IntArray
from ..blame.blame import blame_target
from ..blame.engine import SubsetEvaluator
from ..blame.goal import predicted_values
from ..blame.shapley import Effort
from ..blame.toggles import STACK, TogglingGraph, can_toggle, make_toggling_graph, toggle
from ..errors import InputError, Notice, TooLarge
from ..graphs.labels import target_column
from ..graphs.places import Target, as_target
from ..native.threads import num_cores
from ..outputs import Output
from ..session import Session
from ..storage import parquet
from ..storage.codec import to_plain
from ..storage.columns import columns_of
from ..storage.memory import cut_runs
from ..storage.origin import digest_of
from .folder import BLAME_PARTS, effects_file, missing_effects
from .plan import Plan
from .run import Engine, order_parts
from .tables import BLAMED, SAMPLED
from .work import Load


class Effects(NamedTuple):
    """Pairs of a change and a target, as stored in the parts."""

    target: IntArray  # [num_pairs]: places among the targets
    change: IntArray  # [num_pairs]
    left_out: FloatArray  # [num_pairs]
    put_in: FloatArray  # [num_pairs]
    restores: BoolArray  # [num_pairs]


EFFECTS = pa.schema(list(columns_of(Effects).items()))
PART_EDGES = 2e7  # what a part costs at most, unless it is a single change
PART_OF_TARGETS = 100  # targets of a part, where changes cannot be toggled one by one
EDGES_A_SECOND = 1e6  # that a core runs over, roughly: for saying what it will cost
WORTH_A_NOTICE = 60.0  # seconds
MOST_ROWS = 200_000_000  # pairs of a change and a target
TORCH_BYTES = 300e6  # of a worker that has loaded what toggling needs
NUM_COMPARED = 3  # targets on which the network is held against the user's model before changes are toggled
NUM_SAMPLED = 20  # targets on which the estimate is held against exact blame
SAMPLED_EVALUATIONS = 20_000  # of each of them, where not all subsets are tried
ROWS_OF_A_GROUP = 1 << 20


@dataclass(frozen=True, eq=False)
class BlamedTargets:
    """The targets, in order, with their predictions."""

    ids: Any  # [num_targets], or pairs
    classes: tuple[IntArray, IntArray]  # before and after: [num_targets] each
    logits: tuple[FloatArray, FloatArray]  # [num_targets, num_logits] each
    output: Output

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.ids)

    def predicted(self, logits: FloatArray, places: IntArray) -> FloatArray:
        """The probability of each one's new class, or its value."""
        found = np.zeros(len(places))
        labels = self.classes[1][places]
        for label in np.unique(labels).tolist():
            here = labels == label
            found[here] = predicted_values(self.output, label, logits[here])
        return found

    def toggled(self, changes: IntArray, places: IntArray, left_out: FloatArray, put_in: FloatArray) -> pa.Table:
        """Rows of a part, from logits of these targets."""
        before, after = (self.predicted(logits[places], places) for logits in self.logits)
        gone, come = after - self.predicted(left_out, places), self.predicted(put_in, places) - before
        return self._table(changes, places, gone, come, left_out)

    def asked(self, evaluator: SubsetEvaluator, place: int) -> pa.Table:
        """The same of one target, of which each change is left out, and put in by itself.

        Where the model is a change, too, these are Owen values' terms: those of the data's changes are means under
        either model. The model's own share, the mean of changing it on either graph, is known and no estimate: both of
        its columns are that, so that nothing is spread over it.
        """
        size, models = evaluator.num_data_changes, (False, True) if len(evaluator.models) > 1 else ()
        one = np.eye(size, dtype=np.bool_)
        data = np.concatenate([~one, one, np.ones((1, size), dtype=np.bool_), np.zeros((1, size), dtype=np.bool_)])
        subsets = [np.column_stack([data, np.full(len(data), model)]) for model in models] or [data]
        logits = evaluator.run(np.concatenate(subsets)).reshape(len(subsets), len(data), -1)
        predicted = np.stack([self.predicted(side, np.full(len(data), place)) for side in logits])
        gone = (predicted[:, -2:-1] - predicted[:, :size]).mean(axis=0)
        come = (predicted[:, size:-2] - predicted[:, -1:]).mean(axis=0)
        left_out = logits[-1, :size]
        if models:
            model = float((predicted[1, -2:] - predicted[0, -2:]).mean())
            gone, come = np.append(gone, model), np.append(come, model)
            left_out = np.concatenate([left_out, logits[0, -2:-1]])
        return self._table(evaluator.rows, np.full(evaluator.num_changes, place), gone, come, left_out)

    def _table(
        self, changes: IntArray, places: IntArray, gone: FloatArray, come: FloatArray, left_out: FloatArray
    ) -> pa.Table:
        flipped = self.output.flipped(self.logits[0][places], self.logits[1][places])
        restores = flipped & ~self.output.flipped(self.logits[0][places], left_out)
        columns = Effects(places, changes, gone, come, restores)
        return pa.Table.from_arrays([pa.array(column) for column in columns], schema=EFFECTS)

    def to_frame(self) -> pd.DataFrame:
        """One row per target: target, and its prediction before and after."""
        every = np.arange(len(self))
        before, after = (self.predicted(logits, every) for logits in self.logits)
        return pd.DataFrame({"target": target_column(self.ids), "told_before": before, "told_after": after})


@dataclass(frozen=True, eq=False)
class EffectsLoad(Load):
    """Parts of changes that are toggled on one graph; without a graph parts of targets, asked here one by one."""

    targets: BlamedTargets
    graph: TogglingGraph | None
    session: Session | None  # without a graph
    indptr: IntArray  # [num_parts + 1]: changes of each part; targets, without a graph
    folder: Path
    memory: float
    notes: dict[str, Any]

    idle_bytes = TORCH_BYTES
    remedy = "blame=1000 looks at the thousand predictions that moved most, and takes less"

    @property
    def num_parts(self) -> int:
        """Files of effects."""
        return len(self.indptr) - 1

    def need_of(self, part: int) -> float:
        """Bytes that a worker takes at most; a change that takes more than all of the memory runs by itself."""
        assert self.graph is not None
        costs = self.graph.costs[0][self.indptr[part] : self.indptr[part + 1]]
        widest = max(layer.width for layer in self.graph.network.layers)
        reached = min(float(costs.sum()), max(2 * STACK, float(costs.max(initial=0)))) + len(self.graph.senders)
        return min(TORCH_BYTES + reached * (200.0 + 16.0 * widest), self.memory)

    def do(self, kind: str, number: int) -> int:
        """Write a part."""
        del kind  # of parts there is no less
        mine = np.arange(self.indptr[number], self.indptr[number + 1])
        if self.graph is not None:
            with threadpool_limits(1):  # the rounding of a product may depend on how many threads share it
                found = toggle(self.graph, mine)
            order = np.lexsort((found.targets, found.players))
            rows = self.graph.rows[found.players[order]], found.targets[order]
            table = self.targets.toggled(*rows, found.left_out[order], found.put_in[order])
        else:
            assert self.session is not None
            evaluators = ((open_target(self.session, self.targets.ids[i]), i) for i in mine.tolist())
            table = pa.concat_tables([EFFECTS.empty_table(), *(self.targets.asked(*one) for one in evaluators)])
        schema = parquet.with_notes(EFFECTS, self.notes)

        def groups() -> Iterator[pa.Table]:
            for start in range(0, max(len(table), 1), ROWS_OF_A_GROUP):
                yield table.slice(start, ROWS_OF_A_GROUP).combine_chunks().cast(schema)

        parquet.write_part(effects_file(self.folder, number), groups(), schema)
        return number


def write_effects(
    session: Session, folder: Path, plan: Plan, engine: Engine, asked: bool | int
) -> tuple[int, dict[str, pd.DataFrame]]:
    """Write the parts that are missing; how many there are, and the tables of the targets and of the sample."""
    load = plan_effects(session, folder, plan, engine.memory, asked)
    (folder / BLAME_PARTS).mkdir(exist_ok=True)
    missing = missing_effects(folder, load.num_parts, load.notes)
    if load.graph is None or len(missing) == 1:  # not worth a worker
        for part in missing:
            load.do("part", part)
    elif missing:
        engine.finish(load, order_parts(missing, load.need_of))
    return load.num_parts, {BLAMED: load.targets.to_frame(), SAMPLED: _sample(session, load.targets)}


def plan_effects(session: Session, folder: Path, plan: Plan, memory: float, asked: bool | int) -> EffectsLoad:
    """What blaming the targets takes, announced in advance; with a number, of so many of the first."""
    if not isinstance(asked, bool) and (not isinstance(asked, int) or asked < 1):
        raise InputError(f"Expected blame=True, or of how many predictions, 1 or more (got {asked!r}).")
    rows = plan.targets if isinstance(asked, bool) else plan.targets[:asked]
    change, network = session.paths.change, session.paths.change.network
    logits = change.logits_before[rows], change.logits_after[rows]
    targets = BlamedTargets(change.root_ids[rows], change.output.label_pairs(*logits), logits, change.output)
    key = digest_of("facts", plan.digest, str(len(rows)), str([PART_EDGES, PART_OF_TARGETS, STACK, NUM_SAMPLED]))
    notes = {"scan": plan.digest, "facts": key, "origin": to_plain(plan.origin), "task": plan.task}
    one_by_one = len(session.models) > 1 or not can_toggle(network)
    said = [] if one_by_one else [open_target(session, target).note for target in targets.ids[:NUM_COMPARED]]
    if any(said):
        warnings.warn(next(filter(None, said)), Notice, stacklevel=2)
    folder = folder.resolve()
    if one_by_one or any(said):
        indptr = cut_runs(np.ones(len(rows)), PART_OF_TARGETS)
        return EffectsLoad(targets, None, session, indptr, folder, memory, notes)
    numbers = session.pair.numbers_of(targets.ids)
    with threadpool_limits(1):
        graph = make_toggling_graph(network, session.subsets.players(open_nodes=False), session.pair, numbers)
    edges, pairs = graph.costs
    if pairs.sum() > MOST_ROWS:
        raise TooLarge(
            f"Expected at most {MOST_ROWS:,} pairs of a change and a prediction that it reaches (got "
            f"{int(pairs.sum()):,}); blame=1000 looks at the thousand predictions that moved most."
        )
    seconds = 2 * float(edges.sum()) / EDGES_A_SECOND / num_cores()
    if seconds > WORTH_A_NOTICE:
        warnings.warn(
            f"Blame of {len(rows):,} predictions toggles {len(edges):,} changes that reach {int(pairs.sum()):,} "
            f"predictions in all, about {seconds / 60:.0f} minutes on these cores; blame=1000 looks at the thousand "
            "that moved most.",
            Notice,
            stacklevel=2,
        )
    return EffectsLoad(targets, graph, None, cut_runs(edges.astype(np.float64), PART_EDGES), folder, memory, notes)


def open_target(session: Session, target: Any) -> SubsetEvaluator:
    """The evaluator of a target, by its number or the two of a pair."""
    return session.subsets.open(session.root(plain_target(target)))


def plain_target(target: Any) -> Target:
    """A row of an array of targets as plain numbers."""
    return as_target(np.asarray(target))


def _sample(session: Session, targets: BlamedTargets) -> pd.DataFrame:
    """Exact blame of some targets, or as exact as many random orders make it: target, change, share, error."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(targets))[:NUM_SAMPLED])
    empty = {"target": np.int64, "change": np.int64, "share": np.float64, "error": np.float64}
    frames = [pd.DataFrame({name: np.zeros(0, dtype=dtype) for name, dtype in empty.items()})]
    for place in chosen.tolist():
        target = plain_target(targets.ids[place])
        most = SAMPLED_EVALUATIONS // max(2 * open_target(session, target).num_changes, 1)
        effort = Effort(seconds=float("inf"), tolerance=0.005, most_pairs=max(most, 16))
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", Notice)
            found = blame_target(session.subsets, session.root(target), session.caption, effort=effort).to_frame()
        frames.append(found[["change", "share", "error"]].assign(target=place))
    return pd.concat(frames, ignore_index=True)[[*empty]].astype(empty)
