"""The largest or least of several values: of columns of each row, or of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .columns import moved, one_row
from .crossing import extreme_of
from .reader import Step
from .values import Value


def over_columns(step: Step) -> Value:
    """The largest along dimensions that hold columns: of stacked layers, of heads, of a row's own numbers."""
    reader, value = step.reader, step.form(0).arranged()
    if step.operations[1].output != 0:
        raise step.refuse("chooses by where the largest value is, which has no exact reading.")
    dims: Any = step.argument(1, "dim")
    count = value.places[1].dim()
    over = [d % count for d in (range(count) if dims is None or dims == [] else np.atleast_1d(dims).tolist())]
    least = step.name in ("min", "amin")
    if value.row_dimension() in over:
        return _over_rows(step, value, over, least)
    results = [_numbered(one, over) for one in value.places]
    groups = _columns_of_results(step, value, results)
    forms = [value.form.select(np.array(columns)) for columns in zip(*groups, strict=True)]
    found = reader.bases.take_largest(forms, least=least)
    reader.note(step, f"the {'least' if least else 'largest'} of {len(forms)} values")
    places = []
    for side in (0, 1):
        rows = torch.zeros(int(results[side].max()) + 1 if results[side].numel() else 0, dtype=torch.long)
        rows[results[side].reshape(-1)] = torch.from_numpy(value.rows(side).reshape(-1))
        # Results of one row stand in the order of its columns.
        order = torch.argsort(rows, stable=True)
        rank = torch.empty_like(rows)
        rank[order] = torch.arange(len(rows)) % len(groups)
        places.append((rows * len(groups) + rank).reshape(step.shapes[side]))
    return moved(Value(found, value.axis, (places[0], places[1])), (places[0], places[1]))


def _over_rows(step: Step, value: Value, over: list[int], least: bool) -> Value:
    """Of all rows, column by column: one row for the whole graph."""
    reader = step.reader
    if over != [value.row_dimension()] or step.shapes[1].numel() != value.width:
        raise step.refuse("takes the largest over rows and columns at once; write it as two steps.")
    rows = value.listed(0), value.listed(1)
    axis, graph = reader.graph_of(rows)
    sent = tuple(np.full(len(one), own) for one, own in zip(rows, graph, strict=True))
    form = extreme_of(step, value, rows, sent, axis, least)
    reader.note(step, "readout: the largest of all rows")
    return Value(form, axis, one_row(step, value, graph))


def _numbered(places: torch.Tensor, over: list[int]) -> torch.Tensor:
    """The number of the result that each element goes into."""
    shape = [1 if d in over else size for d, size in enumerate(places.shape)]
    return torch.arange(int(np.prod(shape))).reshape(shape).expand(places.shape)


def _columns_of_results(step: Step, value: Value, results: list[torch.Tensor]) -> list[list[int]]:
    """The columns that go into each result of a row, alike in all rows."""
    found: list[list[int]] | None = None
    for side in (0, 1):
        flat, rows, columns = results[side].reshape(-1).numpy(), value.rows(side).reshape(-1), value.columns(side)
        columns = columns.reshape(-1)
        for row in np.unique(rows):
            own: dict[int, list[int]] = {}
            for result, column in zip(flat[rows == row], columns[rows == row], strict=True):
                own.setdefault(int(result), []).append(int(column))
            here = [own[result] for result in sorted(own)]
            if found is not None and here != found:
                raise step.refuse("takes the largest of other columns of some rows than of others.")
            found = here
    if not found:
        raise step.refuse("takes the largest of nothing.")
    return found
