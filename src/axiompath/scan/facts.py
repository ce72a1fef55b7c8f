"""Session + targets -> what each change does to every target that it reaches, as Parquet for `tally`.

A row of a part is a change and a target: how much of the target's prediction goes where the change is left out of
`after`, how much comes where only it is put into `before`, and whether leaving it out gives the old class back. Beside
the parts lie the table of changes, that of the targets, and exact blame of a sample of them, which the estimate is held
against. Which rows a part holds depends only on the graphs and the question, never on workers or memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray
from ..blame.blame import blame_target
from ..blame.engine import SubsetEvaluator
from ..blame.goal import predicted_values
from ..blame.shapley import Effort
from ..blame.toggles import STACK, TogglingGraph, can_toggle, make_toggling_graph, toggle
from ..errors import InputError, Notice, TooLarge
from ..graphs.labels import target_column
from ..native.threads import num_cores
from ..outputs import Output
from ..session import Session
from ..storage import parquet
from ..storage.memory import cut_runs
from ..storage.origin import digest_of
from ..storage.safe import blamed
from .parts import read_columns
from .tally import Facts

FACTS = pa.schema(
    [
        ("target", pa.int64()),  # place among the targets
        ("change", pa.int64()),
        ("left_out", pa.float64()),
        ("put_in", pa.float64()),
        ("restores", pa.bool_()),
    ]
)
TEXT = pa.large_string()  # as it is read
# Count in the manifest -> the columns that are made use of, of the table that it counts the rows of.
BLAME_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "num_changes": {
        "id": pa.int64(), "kind": TEXT, "src": pa.int64(), "src_name": TEXT, "dst": pa.int64(), "dst_name": TEXT,
    },
    "num_targets": {"target": pa.int64(), "told_before": pa.float64(), "told_after": pa.float64()},
    "num_sampled": {"target": pa.int64(), "change": pa.int64(), "share": pa.float64()},
}  # fmt: skip
MAY_BE_MISSING = ("src", "src_name", "dst", "dst_name")  # a node has no other end
PART_EDGES = 2e7  # what a part costs at most, unless it is a single change
PART_OF_TARGETS = 100  # targets of a part, where changes cannot be toggled one by one
EDGES_A_SECOND = 1e6  # that a core runs over, roughly: for saying what it will cost
WORTH_A_NOTICE = 60.0  # seconds
MOST_ROWS = 200_000_000  # pairs of a change and a target
TORCH_BYTES = 300e6  # of a worker that has loaded what toggling needs
NUM_COMPARED = 3  # targets on which the network is held against the user's model before changes are toggled
NUM_SAMPLED = 20  # targets on which the estimate is held against exact blame
SAMPLED_EVALUATIONS = 20_000  # of each of them, where not all subsets are tried


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

    def facts(self, changes: IntArray, places: IntArray, left_out: FloatArray, put_in: FloatArray) -> pa.Table:
        """Rows of a part, from logits of these targets."""
        before, after = (self.predicted(logits[places], places) for logits in self.logits)
        gone, come = after - self.predicted(left_out, places), self.predicted(put_in, places) - before
        return self.table(changes, places, gone, come, left_out)

    def facts_of_two(self, evaluator: SubsetEvaluator, place: int) -> pa.Table:
        """The same of one target where the model is a change, too: Owen values' terms.

        Those of the data's changes are means under either model. The model's own share, the mean of changing it on
        either graph, is known and no estimate: both of its columns are that, so that nothing is spread over it.
        """
        one = np.eye(evaluator.num_data_changes, dtype=np.bool_)
        data = np.concatenate(
            [~one, one, np.ones_like(one, shape=(1, len(one))), np.zeros_like(one, shape=(1, len(one)))]
        )
        subsets = [np.column_stack([data, np.full(len(data), model)]) for model in (False, True)]
        logits = evaluator.run(np.concatenate(subsets)).reshape(2, len(data), -1)
        predicted = np.stack([self.predicted(side, np.full(len(data), place)) for side in logits])
        gone, come = (
            (predicted[:, -2:-1] - predicted[:, : len(one)]).mean(axis=0),
            predicted[:, len(one) : -2] - predicted[:, -1:],
        )
        model = float((predicted[1, -2:] - predicted[0, -2:]).mean())
        places = np.full(evaluator.num_changes, place)
        left_out = np.concatenate([logits[1, : len(one)], logits[0, -2:-1]])
        return self.table(evaluator.rows, places, np.append(gone, model), np.append(come.mean(axis=0), model), left_out)

    def table(
        self, changes: IntArray, places: IntArray, gone: FloatArray, come: FloatArray, left_out: FloatArray
    ) -> pa.Table:
        """Rows of a part: what goes without each change, what comes with only it; logits without it."""
        flipped = self.output.flipped(self.logits[0][places], self.logits[1][places])
        restores = flipped & ~self.output.flipped(self.logits[0][places], left_out)
        columns = [places, changes, gone, come, restores]
        return pa.Table.from_arrays([pa.array(column) for column in columns], schema=FACTS)

    def to_frame(self) -> pd.DataFrame:
        """One row per target: target, and its prediction before and after."""
        every = np.arange(len(self))
        before, after = (self.predicted(logits, every) for logits in self.logits)
        return pd.DataFrame({"target": target_column(self.ids), "told_before": before, "told_after": after})


@dataclass(frozen=True, eq=False)
class FactLoad:
    """What a worker needs to write any part; the arrays are shared between workers, never copied."""

    graph: TogglingGraph
    targets: BlamedTargets
    indptr: IntArray  # [num_parts + 1]: changes of each part
    needs: FloatArray  # [num_parts]: bytes that a worker takes at most
    folder: Path
    notes: dict[str, Any]

    @property
    def idle_bytes(self) -> float:
        """Bytes that a worker takes which has nothing to do."""
        return TORCH_BYTES

    def need_of(self, part: int) -> float:
        """Bytes that a worker takes at most for a part, the worker itself included."""
        return float(self.needs[part])

    def do(self, kind: str, number: int) -> int:
        """Toggle the changes of a part and write what that does."""
        del kind  # of parts there is no less
        graph, part = self.graph, number
        with threadpool_limits(1):  # the rounding of a product may depend on how many threads share it
            found = toggle(graph, np.arange(self.indptr[part], self.indptr[part + 1]))
        order = np.lexsort((found.targets, found.players))
        rows = graph.rows[found.players[order]], found.targets[order]
        write_facts(
            self.folder, part, self.targets.facts(*rows, found.left_out[order], found.put_in[order]), self.notes
        )
        return number

    def rescue(self, part: int, single: Callable[[int], Any]) -> None:
        """Nothing smaller than a part is done; whoever killed the workers has to be stopped first."""
        del single
        raise TooLarge(
            f"Expected workers to survive part {part} of the blame (several died at it, usually for lack of memory); "
            "blame=1000 looks at the thousand predictions that moved most, and takes less."
        )


@dataclass(frozen=True, eq=False)
class FactPlan:
    """The targets that are blamed, and how: change by change on one graph, or target by target."""

    session: Session
    targets: BlamedTargets
    graph: TogglingGraph | None
    indptr: IntArray  # [num_parts + 1]: changes of each part; targets, without a graph
    digest: str

    @property
    def num_parts(self) -> int:
        """Files of facts."""
        return len(self.indptr) - 1

    def load(self, folder: Path, room: float, process_bytes: float, notes: dict[str, Any]) -> FactLoad:
        """What workers share; a change that by itself takes more than all of the room runs by itself."""
        assert self.graph is not None
        edges = np.add.reduceat(np.append(self.graph.costs[0], 0), self.indptr[:-1]) if self.num_parts else np.zeros(0)
        widest = max(layer.width for layer in self.graph.network.layers)
        reached = np.minimum(edges, np.maximum(2 * STACK, self._largest)) + len(self.graph.senders)
        needs = process_bytes + reached * (200.0 + 16.0 * widest)
        return FactLoad(self.graph, self.targets, self.indptr, np.minimum(needs, room), folder, notes)

    def _open(self, target: Any) -> SubsetEvaluator:
        return self.session.subsets.open(self.session.root(target))

    @property
    def _largest(self) -> FloatArray:
        assert self.graph is not None
        return np.maximum.reduceat(np.append(self.graph.costs[0], 0), self.indptr[:-1]).astype(np.float64)

    def write_here(self, folder: Path, part: int, notes: dict[str, Any]) -> None:
        """Target by target, each change within its receptive field left out, and put in by itself."""
        tables = []
        for place in range(int(self.indptr[part]), int(self.indptr[part + 1])):
            evaluator = self._open(_plain(self.targets.ids[place]))
            if len(evaluator.models) > 1:
                tables.append(self.targets.facts_of_two(evaluator, place))
                continue
            one = np.eye(evaluator.num_changes, dtype=np.bool_)
            logits = evaluator.run(np.concatenate([~one, one]))
            places = np.full(evaluator.num_changes, place)
            tables.append(self.targets.facts(evaluator.rows, places, logits[: len(one)], logits[len(one) :]))
        write_facts(folder, part, pa.concat_tables([FACTS.empty_table(), *tables]), notes)

    def sample(self) -> pd.DataFrame:
        """Exact blame of some targets, or as exact as many random orders make it: target, change, share, error."""
        session = self.session
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.targets))[:NUM_SAMPLED])
        empty = {"target": np.int64, "change": np.int64, "share": np.float64, "error": np.float64}
        frames = [pd.DataFrame({name: np.zeros(0, dtype=dtype) for name, dtype in empty.items()})]
        for place in chosen.tolist():
            target = _plain(self.targets.ids[place])
            most = SAMPLED_EVALUATIONS // max(2 * self._open(target).num_changes, 1)
            effort = Effort(seconds=float("inf"), tolerance=0.005, most_pairs=max(most, 16))
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore", Notice)
                found = blame_target(session.subsets, session.root(target), session.caption, effort=effort).to_frame()
            frames.append(found[["change", "share", "error"]].assign(target=place))
        return pd.concat(frames, ignore_index=True)[[*empty]].astype(empty)


def plan_facts(session: Session, rows: IntArray, blame: bool | int, digest: str) -> FactPlan:
    """What blaming these targets takes, announced in advance; with a number, of so many of the first."""
    if not isinstance(blame, bool) and (not isinstance(blame, int) or blame < 1):
        raise InputError(f"Expected blame=True, or of how many predictions, 1 or more (got {blame!r}).")
    rows = rows if isinstance(blame, bool) else rows[:blame]
    subsets, change = session.subsets, session.paths.change
    logits = change.logits_before[rows], change.logits_after[rows]
    targets = BlamedTargets(change.root_ids[rows], change.output.label_pairs(*logits), logits, change.output)
    key = digest_of("facts", digest, str(len(rows)), str([PART_EDGES, PART_OF_TARGETS, STACK, NUM_SAMPLED]))
    pair, network = session.pair, change.network
    one_by_one = len(session.models) > 1 or not can_toggle(network)
    compared = [] if one_by_one else map(_plain, targets.ids[:NUM_COMPARED])
    notes = [subsets.open(session.root(target)).note for target in compared]
    if any(notes):
        warnings.warn(next(filter(None, notes)), Notice, stacklevel=2)
    if one_by_one or any(notes):
        return FactPlan(session, targets, None, cut_runs(np.ones(len(rows)), PART_OF_TARGETS), key)
    numbers = pair.numbers_of(targets.ids)
    with threadpool_limits(1):
        graph = make_toggling_graph(network, subsets.players(open_nodes=False), pair, numbers)
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
    return FactPlan(session, targets, graph, cut_runs(edges.astype(np.float64), PART_EDGES), key)


def facts_file(folder: Path, part: int) -> Path:
    """Where a part is written."""
    return folder / facts_name(part)


def facts_name(part: int) -> str:
    """What it is called there."""
    return f"facts-{part:06d}.parquet"


def write_facts(folder: Path, part: int, table: pa.Table, notes: dict[str, Any]) -> None:
    """One file, written atomically."""
    schema = parquet.with_notes(FACTS, notes)

    def pieces() -> Iterator[pa.Table]:
        for start in range(0, max(len(table), 1), 1 << 20):
            yield table.slice(start, 1 << 20).combine_chunks().cast(schema)

    parquet.write_part(facts_file(folder, part), pieces(), schema)


def _plain(target: Any) -> Any:
    return int(target) if np.ndim(target) == 0 else tuple(int(end) for end in target)


def read_facts(folder: Path, held: Mapping[str, Any]) -> Facts:
    """All facts of a scan's folder, as its manifest lists them."""
    tables = [read_columns(folder / part["file"], part["rows"]) for part in held["parts"]]
    for table, part in zip(tables, held["parts"], strict=True):
        if not table.schema.remove_metadata().equals(FACTS):
            raise InputError(f"Expected the columns of blame in {folder / part['file']} (got others); run it again.")
        _check_values(table, FACTS.names, folder / part["file"])
    table = pa.concat_tables([FACTS.empty_table(), *(table.replace_schema_metadata(None) for table in tables)])
    targets, changes, left_out, put_in, restores = (table.column(name).to_numpy() for name in FACTS.names)
    _check_pairs(folder, held, targets, changes)
    return Facts(targets, changes, left_out, put_in, restores)


def read_blame_tables(folder: Path, held: Mapping[str, Any], names: Sequence[str]) -> list[pd.DataFrame]:
    """The tables of changes, targets and the sample, by these names, as the manifest counts them; all checked."""
    found = []
    for name, (number, wanted) in zip(names, BLAME_COLUMNS.items(), strict=True):
        path = folder / name
        table = read_columns(path, held[number])
        types = dict(zip(table.schema.names, table.schema.types, strict=True))
        if not all(kind == types.get(column) for column, kind in wanted.items()):
            raise InputError(f"Expected the columns of blame in {path} (got others); run it again.")
        _check_values(table, [column for column in wanted if column not in MAY_BE_MISSING], path)
        with blamed(f"Expected numbers and words in {path} (it is damaged)."):
            found.append(table.to_pandas())
    changes, _, sample = found
    if not np.array_equal(changes.id, np.arange(len(changes))):
        raise InputError(f"Expected changes numbered from 0 in {folder / names[0]} (they are not); run it again.")
    _check_pairs(folder, held, sample.target.to_numpy(), sample.change.to_numpy())
    return found


def _check_values(table: pa.Table, names: Sequence[str], path: Path) -> None:
    """Every cell of these columns holds something, and every number is one."""
    for name in names:
        column = table.column(name)
        is_number = pa.types.is_floating(column.type)
        if column.null_count or (
            is_number and not pa.compute.all(pa.compute.is_finite(column)).as_py() and len(column)
        ):
            raise InputError(f"Expected finite numbers in `{name}` of {path} (got others, or none); run it again.")


def _check_pairs(folder: Path, held: Mapping[str, Any], targets: IntArray, changes: IntArray) -> None:
    for values, number in ((targets, held["num_targets"]), (changes, held["num_changes"])):
        if len(values) and not 0 <= values.min() <= values.max() < number:
            raise InputError(f"Expected targets and changes of the scan in {folder} (got others); run it again.")
