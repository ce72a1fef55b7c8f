"""Explanations -> one Parquet file, written atomically; and back.

A row is a target. One that failed has its name, its reason in `problem` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..change.states import CAUSE_WORDS, KINDS, RARE
from ..errors import InputError
from ..explain.explanation import OF_PATHS, Explanation
from ..graphs.labels import label_class
from ..graphs.places import LINKS, UNIT_OF, Target, Unit, check_target
from ..outputs import Output
from ..storage import parquet
from ..storage.codec import Text, decode, to_plain
from ..storage.columns import columns_of as record_columns
from ..storage.origin import Origin
from ..storage.parquet_pages import open_parquet, spelt_bytes
from ..storage.safe import MAX_BYTES, Damaged, blamed, bound_growth, check_size

SPELT_BYTES = 5e8  # that columns of a part may take with all text in place, however small the part
PYTHON_GROWTH = 16  # of a number, from Parquet's 8 bytes to an object in a list
GROUP = 100  # rows held in memory at a time; a number of the format: it decides the bytes

PARTNER = "partner"  # the second end, where targets are links
VECTOR = pa.list_(pa.float64())
STEP = {"src": pa.int64(), "dst": pa.int64(), "relation": pa.string()}  # where edges have types
# What is the same in all rows, and is among the notes of a part or known of every scan.
WHOLE_PATHS = {"until": None, "edge_places": {}, "relations": [], "groups": [], "retrained": None, **OF_PATHS}
SHARED = {*WHOLE_PATHS, "origin", "unit", "output"} - {"edge_places", "relations", "retrained"}
BESIDE = ("name", "class_before_name", "class_after_name")  # for people; an Explanation has them in its maps of names
OPTIONAL = {"left_out"}  # columns that scans of 0.2 do not have


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

    @property
    def of_links(self) -> bool:
        """Whether targets are pairs of nodes."""
        return self.unit == UNIT_OF[LINKS]


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
    """The columns of a part: the fields of an Explanation, by what its targets are and how many models were asked."""
    two_models = task.get("models") == 2
    special = {
        "causes": pa.struct([(cause, VECTOR) for cause in (CAUSE_WORDS if two_models else KINDS)]),
        "relations": pa.list_(pa.struct(list(STEP.items()))),
    }
    needs = {"retrained": two_models, "edge_places": task.get("edges"), "relations": task.get("relations")}
    found: dict[str, pa.DataType] = {}
    for name, kind in record_columns(Explanation).items():
        if name in SHARED or not needs.get(name, True):
            continue
        found[name] = special.get(name, kind)
        if name == "target":
            found |= {PARTNER: pa.int64()} if task.get("unit") == UNIT_OF[LINKS] else {}
            found |= {"name": pa.string(), "problem": pa.string()}
        if f"{name}_name" in BESIDE:
            found[f"{name}_name"] = pa.string()
    return found


def written_for(path: Path) -> str | None:
    """The digest of the scan that wrote a part; None of any other file."""
    with suppress(InputError), damaged(path), open_parquet(path, MAX_BYTES) as file:
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


def read_table(path: Path, num_rows: int | None = None, names: Sequence[str] | None = None) -> pa.Table:
    """Columns of a file that a scan wrote, in place; of a part by `names`, of other tables all, numbers and text."""
    with damaged(path), open_parquet(path, MAX_BYTES) as file:
        types = {field.name: _in_place(field.type) for field in file.schema_arrow}
        if names is not None:
            known, _ = check_columns(file, path)
            if not {*names} <= {*types}:
                raise Damaged("a column that is not there")
            types = {name: known[name] for name in names}
        elif any(map(pa.types.is_nested, types.values())):
            raise InputError(f"Expected the columns of a scan in {path} (got others); run the scan again.")
        wanted, limit = pa.schema(list(types.items())), max(bound_growth(path, MAX_BYTES), SPELT_BYTES)
        held = [wanted.empty_table()]
        for group in range(file.metadata.num_row_groups):  # Arrow joins no lists of text of several groups
            table = file.read_row_group(group, columns=[*types], use_threads=False).select([*types])
            table.validate(full=True)
            held.append(table)
            check_size(path, sum(one.nbytes + spelt_bytes(one) for one in held), limit)
            held[-1] = table.cast(wanted)
        if num_rows is not None and sum(map(len, held)) != num_rows:
            raise InputError(f"Expected {num_rows:,} rows in {path} (got {sum(map(len, held)):,}); run the scan again.")
        return pa.concat_tables(held)


def _in_place(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if pa.types.is_dictionary(kind) else kind


def read_part(path: Path, num_targets: int) -> Iterator[Explanation | Failure]:
    """The rows again, in order."""
    rows, found = _read_rows(path), 0
    while True:
        with damaged(path):  # what goes wrong between two rows is not the file's fault
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
    with damaged(path):
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
        first = 0
        for group in range(file.metadata.num_row_groups):  # Arrow joins no lists of text of several groups
            size = file.metadata.row_group(group).num_rows
            if only is not None and not first <= only < first + size:
                first += size
                continue
            for batch in file.iter_batches(batch_size=GROUP, row_groups=[group]):
                batch.validate(full=True)
                for row in range(batch.num_rows) if only is None else {only - first} & {*range(batch.num_rows)}:
                    one = batch.slice(row, 1)
                    check_size(path, PYTHON_GROWTH * one.nbytes + spelt_bytes(one), limit)
                    yield one.to_pylist(maps_as_pydicts="strict")[0], shared
                first += batch.num_rows


def check_columns(file: pq.ParquetFile, path: Path) -> tuple[dict[str, pa.DataType], dict[str, Any]]:
    """The columns that a part should have, and its notes; refuses a file that has others."""
    notes = parquet.read_notes(file.schema_arrow)
    if not isinstance(task := notes.get("task", {}), dict):
        raise Damaged("a task of another kind")
    known = columns_of(task)
    if not {*known} - OPTIONAL <= {*file.schema_arrow.names} <= {*known}:
        raise InputError(f"Expected the columns of a scan in {path} (got others); run the scan again.")
    return known, notes


def damaged(path: Path) -> AbstractContextManager[None]:
    """What goes wrong within is the file's fault."""
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
    return Explanation.from_dict({**Explanation.form.head, "left_out": None, **WHOLE_PATHS, **held, **shared})
