"""Explanations -> one Parquet file, written atomically; and back.

A row is a target. One that failed has its name, its reason in `problem` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..change.states import CAUSE_WORDS, KINDS, RARE
from ..errors import InputError
from ..explain.explanation import OF_PATHS, Explanation
from ..explain.retrained import Retrained
from ..graphs.labels import label_class
from ..graphs.places import LINKS, UNIT_OF, Target, Unit, check_target
from ..outputs import Output
from ..storage import parquet
from ..storage.codec import Text, decode, to_plain
from ..storage.origin import Origin
from ..storage.parquet_pages import longest_text, open_parquet, spell_out
from ..storage.safe import MAX_BYTES, Damaged, blamed, bound_growth, check_size

SPELT_BYTES = 5e8  # that columns of a part may take with all text in place, however small the part
PYTHON_GROWTH = 16  # of a number, from Parquet's 8 bytes to an object in a list
GROUP = 100  # rows held in memory at a time; a number of the format: it decides the bytes

VECTOR, TEXTS = pa.list_(pa.float64()), pa.list_(pa.string())
COLUMNS: dict[str, pa.DataType] = {
    "target": pa.int64(),
    "name": pa.string(),
    "problem": pa.string(),
    "class_before": pa.int64(),
    "class_before_name": pa.string(),
    "class_after": pa.int64(),
    "class_after_name": pa.string(),
    "kl": pa.float64(),
    "num_paths": pa.int64(),
    "kl_residual": pa.float64(),
    "kl_bound": pa.float64(),
    "gap": pa.float64(),
    "fidelity_minus": pa.float64(),
    "fidelity_plus": pa.float64(),
    "completeness": pa.float64(),
    "status": pa.string(),
    "method": pa.string(),
    "objective": pa.string(),
    "budget": pa.int64(),
    "prob_before": VECTOR,
    "prob_after": VECTOR,
    "logits_before": VECTOR,
    "logits_after": VECTOR,
    "paths": pa.list_(pa.list_(pa.int64())),
    "contributions": pa.list_(VECTOR),
    "weights": VECTOR,
    "kinds": TEXTS,
    "causes": pa.struct([(kind, VECTOR) for kind in KINDS]),
    "node_names": pa.map_(pa.int64(), pa.string()),
    "class_names": TEXTS,
    "hops": pa.list_(pa.struct([("flow", pa.string()), ("weighted", pa.bool_())])),
    "left_out": VECTOR,
}
# Where the model is another one: a cause more, and what each model says by itself.
TWO_MODELS: dict[str, pa.DataType] = {
    "causes": pa.struct([(cause, VECTOR) for cause in CAUSE_WORDS]),
    "retrained": pa.struct([(field.name, VECTOR) for field in fields(Retrained)]),
}
EDGES = pa.map_(pa.int64(), pa.list_(pa.int64()))  # where edges are places of paths
STEP = {"src": pa.int64(), "dst": pa.int64(), "relation": pa.string()}  # where edges have types
PARTNER = "partner"  # the second end, where targets are links
OPTIONAL = {"left_out"}  # columns that scans of 0.2 do not have
BESIDE = ("name", "class_before_name", "class_after_name")  # for people; an Explanation has them in its maps of names


@dataclass(frozen=True, eq=False)
class Task:
    """The task of all targets of a scan: see `Change.task`."""

    partial: ClassVar = True

    unit: Unit
    output: Output
    models: int = 1
    edges: bool = False
    relations: bool = False
    types: tuple[Text, ...] = ()  # of nodes; none where there is only one kind


@dataclass(frozen=True)
class Failure:
    """A target that could not be explained."""

    target: Target
    name: Text
    problem: Text


def notes_of(digest: str, num_targets: int, origin: Origin, task: Mapping[str, Any]) -> dict[str, Any]:
    """What a part says of itself: the scan that it belongs to, how many targets it has, and what it is of."""
    return {"scan": digest, "targets": num_targets, "origin": to_plain(origin), "task": dict(task)}


def columns_of(task: Mapping[str, Any]) -> dict[str, pa.DataType]:
    """The columns of a part, by what its targets are and how many models were asked."""
    columns = {**COLUMNS, **TWO_MODELS} if task.get("models") == 2 else COLUMNS
    columns = {**columns, "edge_places": EDGES} if task.get("edges") else columns
    columns = {**columns, "relations": pa.list_(pa.struct(list(STEP.items())))} if task.get("relations") else columns
    if task.get("unit") != UNIT_OF[LINKS]:
        return columns
    return {"target": pa.int64(), PARTNER: pa.int64(), **{k: v for k, v in columns.items() if k != "target"}}


def written_for(path: Path) -> str | None:
    """The digest of the scan that wrote a part; None of any other file."""
    with suppress(InputError), _damaged(path), open_parquet(path, MAX_BYTES) as file:
        held = parquet.read_notes(file.schema_arrow).get("scan")
        return held if isinstance(held, str) else None
    return None


def write_part(path: Path, found: Iterable[Explanation | Failure], notes: Mapping[str, Any]) -> None:
    """Write the rows as they come, some at a time; the file appears only when it is complete."""
    schema = parquet.with_notes(pa.schema(list(columns_of(notes["task"]).items())), notes)

    def tables() -> Iterator[pa.Table]:
        rest = iter(found)
        while rows := list(islice(rest, GROUP)):
            yield to_table(rows, schema)

    parquet.write_part(path, tables(), schema)


def read_columns(path: Path, num_rows: int, names: list[str] | None = None) -> pa.Table:
    """Columns of numbers and text of a file that a scan wrote, all of them for None."""
    with _damaged(path), open_parquet(path, MAX_BYTES) as file:
        types = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
        held = list(types) if names is None else names
        if not {*held} <= {*types} or any(pa.types.is_nested(types[name]) for name in held):
            raise InputError(f"Expected the columns of a scan in {path} (got others); run the scan again.")
        empty = pa.record_batch([pa.array([], types[name]) for name in held], names=held)
        limit = bound_growth(path, MAX_BYTES)
        batches = [spell_out(batch, path, limit) for batch in (empty, *file.iter_batches(1 << 16, columns=held))]
        table = pa.Table.from_batches(batches)
        if names is not None:
            table = table.select(names).cast(pa.schema([(name, COLUMNS.get(name, pa.int64())) for name in names]))
    if len(table) != num_rows:
        raise InputError(f"Expected {num_rows:,} rows in {path} (got {len(table):,}); run the scan again.")
    return table


def read_nested(path: Path, names: list[str]) -> pa.Table:
    """Columns of a part as they are, lists and maps too, checked against what a part has."""
    with _damaged(path), open_parquet(path, MAX_BYTES) as file:
        known, _ = check_columns(file, path)
        wanted = pa.schema([(name, known[name]) for name in names])
        if not {*names} <= {*file.schema_arrow.names}:
            raise Damaged("a column that is not there")
        limit, held = max(bound_growth(path, MAX_BYTES), SPELT_BYTES), [wanted.empty_table()]
        for group in range(file.metadata.num_row_groups):  # Arrow joins no lists of text of several groups
            table = file.read_row_group(group, columns=names, use_threads=False).select(names)
            longest = max(longest_text(chunk) for column in table.columns for chunk in column.chunks)
            # A place in a dictionary, 4 bytes, becomes a text as long as any.
            check_size(path, table.nbytes * max(1, longest / 4) + sum(part.nbytes for part in held), limit)
            held.append(table.cast(wanted))
        return pa.concat_tables(held)


def read_part(path: Path, num_targets: int) -> Iterator[Explanation | Failure]:
    """The rows again, in order."""
    rows, found = _read_rows(path), 0
    while True:
        with _damaged(path):  # what goes wrong between two rows is not the file's fault
            row = next(rows, None)
            item = None if row is None else _from_row(*row)
        if item is None:
            break
        found += 1
        yield item
    if found != num_targets:
        raise InputError(f"Expected {num_targets:,} targets in {path} (got {found:,}); run the scan again.")


def read_row(path: Path, place: int) -> Explanation | Failure:
    """One row again; of the file no more is read than the group of rows that it is in."""
    with _damaged(path):
        row = next(_read_rows(path, place), None)
        if row is None:
            raise Damaged("fewer rows than that")
        return _from_row(*row)


def _read_rows(path: Path, only: int | None = None) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each row, or only one; and what is said of all of them."""
    with open_parquet(path, MAX_BYTES) as file:
        (_, notes), limit = check_columns(file, path), bound_growth(path, MAX_BYTES)
        task = notes.get("task", {})
        shared = {"origin": notes.get("origin"), "unit": task.get("unit"), "output": task.get("output")}
        groups = list(range(file.metadata.num_row_groups))
        starts = np.cumsum([0, *(file.metadata.row_group(group).num_rows for group in groups)])
        if only is not None:
            groups = [int(np.searchsorted(starts, only, side="right")) - 1] if 0 <= only < starts[-1] else []
        # Arrow joins no lists of text of several groups.
        batches = (batch for g in groups for batch in file.iter_batches(batch_size=GROUP, row_groups=[g]))
        first = int(starts[groups[0]]) if groups else 0
        for batch in batches:
            batch.validate(full=True)
            longest = max(longest_text(column) for column in batch.columns)
            wanted = range(batch.num_rows) if only is None else range(only - first, only - first + 1)
            first += batch.num_rows
            for row in (row for row in wanted if 0 <= row < batch.num_rows):
                one = batch.slice(row, 1)
                # A number becomes a Python object; a place in a dictionary, 4 bytes, a text as long as any.
                check_size(path, one.nbytes * (PYTHON_GROWTH + longest / 4), limit)
                yield one.to_pylist(maps_as_pydicts="strict")[0], shared


def check_columns(file: pq.ParquetFile, path: Path) -> tuple[dict[str, pa.DataType], dict[str, Any]]:
    """The columns that a part should have, and its notes; refuses a file that has others."""
    notes = parquet.read_notes(file.schema_arrow)
    if not isinstance(task := notes.get("task", {}), dict):
        raise Damaged("a task of another kind")
    known = columns_of(task)
    if not {*known} - OPTIONAL <= {*file.schema_arrow.names} <= {*known}:
        raise InputError(f"Expected the columns of a scan in {path} (got others); run the scan again.")
    if not all(_nests_alike(field.type, known[field.name]) for field in file.schema_arrow):
        raise Damaged("lists where numbers should be, or numbers where lists")
    return known, notes


def _nests_alike(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether both are lists, maps or structures of the same, whatever numbers or words these hold."""
    for is_kind in (pa.types.is_list, pa.types.is_map, pa.types.is_struct):
        if is_kind(kind) != is_kind(wanted):
            return False
    return _nests_alike(kind.value_type, wanted.value_type) if pa.types.is_list(kind) else True


def _damaged(path: Path) -> AbstractContextManager[None]:
    return blamed(f"Expected a whole part of a scan at {path} (it is cut short or damaged).")


def to_table(found: Sequence[Explanation | Failure], schema: pa.Schema) -> pa.Table:
    """A row each, with these columns."""
    rows = [_to_row(item) for item in found]
    columns = [pa.array([row.get(column.name) for row in rows], column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _to_row(item: Explanation | Failure) -> dict[str, Any]:
    """Plain values by column; of one that failed, its name and the problem."""
    row = {"name": item.name, **split_target(item.target)}
    if isinstance(item, Failure):
        return {**row, "problem": item.problem}
    for label in ("class_before", "class_after") if item.class_names else ():
        row[f"{label}_name"] = label_class(getattr(item, label), item.class_names)
    given = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in vars(item).items()}
    nothing = np.zeros(len(item.logits_before))
    special = {
        "causes": {cause: item.causes.get(cause, nothing).tolist() for cause in CAUSE_WORDS},
        "node_names": list(item.node_names.items()),
        "hops": [asdict(hop) for hop in item.hops],
        "edge_places": [(code, list(edge)) for code, edge in item.edge_places.items()],
        "relations": [dict(zip(STEP, step, strict=True)) for step in item.relations],
        "retrained": item.retrained and {key: part.tolist() for key, part in vars(item.retrained).items()},
    }
    return {**given, **special, **row}


def split_target(target: Target) -> dict[str, int]:
    """A target as columns."""
    return {"target": target[0], PARTNER: target[1]} if isinstance(target, tuple) else {"target": target}


def _from_row(row: dict[str, Any], shared: dict[str, Any]) -> Explanation | Failure:
    problem, name = row.pop("problem"), row.get("name")
    if PARTNER in row:
        row["target"] = [row["target"], row.pop(PARTNER)]
    if problem is not None:
        target = row["target"]
        label = str(target) if name is None else name
        failure = decode(Failure, {"target": target, "name": label, "problem": problem}, "a target and its problem")
        check_target(failure.target, shared["unit"])
        return failure
    held = {key: value for key, value in row.items() if key not in BESIDE}
    held["causes"] = {cause: part for cause, part in held["causes"].items() if cause not in RARE or any(part)}
    if "relations" in held:
        held["relations"] = [[step[key] for key in STEP] for step in held["relations"]]
    # A scan chooses whole paths, as many as its budget says.
    whole: dict[str, Any] = {"retrained": None, "until": None, "edge_places": {}, "relations": [], "groups": []}
    return Explanation.from_dict({**Explanation.form.head, "left_out": None, **OF_PATHS, **whole, **held, **shared})
