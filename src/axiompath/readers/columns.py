"""Operations within rows: element-wise affine ones, views, sums over columns, linear maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from ..arrays import FloatArray
from ..errors import InputError
from .forms import Form, concatenate
from .reader import Step
from .rows import Axis
from .trace import PARAMETER
from .values import InRows, Value, in_rows

KEEPING = ("view", "_unsafe_view", "reshape", "_reshape_alias", "expand")  # to the same shape: nothing happens
WRITING = ("as_strided_scatter", "slice_scatter", "select_scatter")


def affine(step: Step) -> Value:
    """Each element is a sum of its inputs' elements, each times a number, plus a number."""
    reader, shapes = step.reader, step.shapes
    width = 1 if _by_row(step) else None
    nothing = [{i: step.like(i, side, 0.0, width) for i in step.features} for side in (0, 1)]
    constant = tuple(step.run(side, nothing[side]).to(torch.float64) for side in (0, 1))
    others = [reader.kind(one) for i, one in enumerate(step.inputs) if i not in step.features]
    kind = max(others, default=PARAMETER)
    parts = []
    values = reader.spread_alike([step.form(i).expanded(shapes) for i in step.features])
    for i, value in zip(step.features, values, strict=True):
        factors = []
        for side in (0, 1):
            ones = step.run(side, {**nothing[side], i: step.like(i, side, 1.0, width)}).to(torch.float64)
            factors.append(torch.where(torch.isfinite(constant[side]), ones - constant[side], 0.0))
        if all(bool((factor == 1).all()) for factor in factors):
            parts.append(value)
        else:
            parts.append(reader.scale(value, (factors[0], factors[1]), of_features=False, plain=kind == PARAMETER))
    if not all(bool(torch.isfinite(one).all()) for one in constant):
        raise step.refuse("puts infinities among features, which has no exact reading; use a large number instead.")
    if len(parts) == 1:
        added = parts[0]
    else:
        parts = reader.level(parts, shapes)
        added = Value(total([part.form for part in parts]), parts[0].axis, parts[0].places)
    return reader.shift(added, (constant[0], constant[1]), kind, step.name)


def _by_row(step: Step) -> bool:
    """Whether an operation on tables does the same to all columns, so that one of them says what it does."""
    shape = step.shapes[1]
    if step.name not in ("add", "sub", "rsub", "mul", "div", "neg") or len(shape) != 2:
        return False
    others = [one for i, one in enumerate(step.inputs) if i not in step.features]
    return all(step.reader.shape(step.inputs[i]) == shape for i in step.features) and all(
        step.reader.shape(one).numel() == 1 or step.reader.shape(one)[-1:] == (1,) for one in others
    )


def total(forms: list[Form]) -> Form:
    """Their sum."""
    found = forms[0]
    for form in forms[1:]:
        found = found + form
    return found


def view(step: Step) -> Value:
    """Elements moved, chosen or repeated as they are."""
    whole = _written(step)
    if whole is not None:
        return whole
    values = [step.form(i) for i in step.features]
    if len(values) == 1 and len(step.inputs) == 1 and step.name in KEEPING and values[0].shapes == step.shapes:
        return values[0]
    if len(values) == 1 and len(step.inputs) == 1 and step.name != "constant_pad_nd":
        places = tuple(step.move(side, {step.features[0]: values[0].places[side]}) for side in (0, 1))
        return moved(values[0], places)
    return _joined(step, values)


def moved(value: Value, places: tuple[torch.Tensor, ...]) -> Value:
    """The same at other places."""
    return replace(value, places=(places[0].contiguous(), places[1].contiguous()))


def _written(step: Step) -> Value | None:
    """Parts written one after the other into one tensor, if they leave nothing of what it was before."""
    writes = [step]
    while step.name in WRITING and writes[-1].features == (0, 1):
        inner = step.reader.step(writes[-1].inputs[0])
        if inner is None or inner.name != step.name:
            break
        writes.append(inner)
    if len(writes) == 1 or writes[-1].features == (0,) or any(1 not in one.features for one in writes):
        return None
    numbered = []
    for side in (0, 1):
        found = torch.full(step.reader.shape(writes[-1].inputs[0], side), -1)
        for one in writes[::-1]:
            found = one.move(
                side, {0: found, 1: torch.zeros_like(step.reader.tensor(one.inputs[1], side), dtype=torch.long)}
            )
        numbered.append(found)
    if any(bool((one < 0).any()) for one in numbered):
        return None
    values = [one.form(1) for one in writes[::-1]]

    def move(side: int, tensors: list[torch.Tensor]) -> torch.Tensor:
        found = numbered[side]
        for one, tensor in zip(writes[::-1], tensors, strict=True):
            found = one.move(side, {0: found, 1: tensor})
        return found

    return _side_by_side(step, values, move)


def _beside(values: list[Value]) -> tuple[Axis, list[int]]:
    """The rows that values share, and the first column of each side by side; then how many columns there are."""
    axis = values[0].axis
    for value in values[1:]:
        if value.axis.root is not axis.root:
            axis.join(value.axis)
    return axis, np.cumsum([0, *(value.width for value in values)]).tolist()


def _side_by_side(step: Step, values: list[Value], move: Callable[[int, list[torch.Tensor]], torch.Tensor]) -> Value:
    """The same where every element is one of the values', which `move` puts in their places."""
    axis, starts = _beside(values)
    width = starts[-1]
    found = []
    for side in (0, 1):
        wide = [
            torch.from_numpy(value.rows(side) * width + value.columns(side) + start)
            for value, start in zip(values, starts, strict=False)
        ]
        found.append(move(side, wide).contiguous())
    joined = Value(concatenate([value.form for value in values]), axis, (found[0], found[1]))
    return _by_rows(step, values, starts, joined) or joined


def _joined(step: Step, values: list[Value]) -> Value:
    """Several tensors side by side, or one written into another."""
    values = _in_one_row(step, _spread_beside(step, values))
    axis, starts = _beside(values)
    width = starts[-1]
    found, absent = [], []
    for side in (0, 1):
        numbered = {i: torch.full(step.reader.shape(one, side), -1) for i, one in enumerate(step.inputs)}
        for i, value, start in zip(step.features, values, starts, strict=False):
            rows, columns = torch.from_numpy(value.rows(side)), torch.from_numpy(value.columns(side))
            numbered[i] = rows * width + columns + start
        places = step.move(side, numbered).contiguous()
        if step.name == "constant_pad_nd":
            ones, zeros = (step.run(side, {0: torch.full_like(numbered[0], number)}) for number in (1, 0))
            places = torch.where(ones == zeros, -1, places)
        absent.append(places < 0)
        found.append(places)
    form = concatenate([value.form for value in values])
    if not any(bool(one.any()) for one in absent):
        joined = Value(form, axis, (found[0], found[1]))
        return _by_rows(step, values, starts, joined) or joined
    return _filled(step, form, axis, found, absent)


def _by_rows(step: Step, values: list[Value], starts: list[int], joined: Value) -> Value | None:
    """Some rows of one value, other rows of another, as of nodes of two types: each is taken in its own rows only."""
    owners, rows = [], []
    for side in (0, 1):
        owner = np.searchsorted(starts, joined.columns(side).reshape(-1), side="right") - 1
        pairs = np.unique(np.stack([joined.rows(side).reshape(-1), owner]), axis=1)
        if len(np.unique(pairs[0])) != pairs.shape[1] or len({values[i].width for i in pairs[1]}) != 1:
            return None
        owners.append(owner)
        rows.append([pairs[0][pairs[1] == i] for i in range(len(values))])
    used = sorted(set(np.concatenate(owners).tolist()))
    if len(used) < 2:
        return None
    width, parts = values[used[0]].width, []
    for i in used:
        shapes = [torch.Size((len(rows[side][i]), width)) for side in (0, 1)]
        first, second = (in_rows(len(rows[side][i]), shapes[side], rows=rows[side][i]) for side in (0, 1))
        ones = tuple(torch.ones(shape, dtype=torch.float64) for shape in shapes)
        value = replace(values[i], axis=joined.axis, places=(first, second), origin=None)
        parts.append(step.reader.scale(value, (ones[0], ones[1]), of_features=False).form)
    places = []
    for side in (0, 1):
        columns = joined.columns(side).reshape(-1) - np.array(starts)[owners[side]]
        flat = joined.rows(side).reshape(-1) * width + columns
        places.append(torch.from_numpy(flat).reshape(joined.places[side].shape))
    return Value(total(parts), joined.axis, (places[0], places[1]))


def _in_one_row(step: Step, values: list[Value]) -> list[Value]:
    """Rows of several nodes that stand beside each other: given to the last of them."""
    if all(np.array_equal(np.unique(value.rows(1)), np.unique(values[0].rows(1))) for value in values):
        return values
    dimensions = [value.row_dimension() for value in values]
    if len(set(dimensions)) > 1 or dimensions[0] is None:
        return values
    if step.name == "cat" and step.argument(1, "dim", 0) % values[0].places[1].dim() == dimensions[0]:
        return values
    found = [(value.rows_along(0), value.rows_along(1)) for value in values]
    if len({len(rows[1]) for rows in found}) > 1:
        return values
    latest = max(found, key=lambda rows: int(rows[1].max(initial=-1)))
    return [step.reader.carried(value, rows, latest) for value, rows in zip(values, found, strict=True)]


def _spread_beside(step: Step, values: list[Value]) -> list[Value]:
    """Rows of graphs side by side with rows of nodes or messages are given to each of these."""
    if not any(value.axis.root.of_graphs for value in values):
        return values
    most = max(values, key=lambda value: len(value.listed(1)))
    dimension = most.row_dimension()
    found = []
    for value in values:
        if dimension is None or not value.axis.root.of_graphs or most.axis.root.of_graphs:
            found.append(value)
            continue
        index, places = [], []
        for side in (0, 1):
            first, own = (np.moveaxis(one.rows(side), dimension, 0) for one in (most, value))
            rows = first.reshape(len(first), -1)[:, 0]
            graphs = own.reshape(len(own), -1)
            if len(graphs) != len(rows) or (graphs != graphs[:, :1]).any():
                raise InputError("puts rows of graphs beside others in another order.")
            sent = np.zeros(most.axis.sizes[side], dtype=np.int64)
            sent[rows] = graphs[:, 0]
            index.append(sent)
            wide = rows.reshape(-1, *[1] * (own.ndim - 1)) * value.width
            wide = wide + np.moveaxis(value.columns(side), dimension, 0)
            places.append(torch.from_numpy(np.moveaxis(wide, 0, dimension).copy()))
        spread = step.reader.spread(value, (index[0], index[1]), most.axis)
        found.append(moved(spread, (places[0], places[1])))
    return found


def _filled(step: Step, form: Form, axis: Axis, found: list[torch.Tensor], absent: list[torch.Tensor]) -> Value:
    """Elements that are no feature: columns of their own, which start as 0."""
    width = form.width
    dimension = _row_dimension(found, absent, width)
    by_rows = _absent_rows(step, Value(form, axis, (found[0], found[1])), absent, dimension)
    if by_rows is not None:
        return by_rows
    extra = int(np.prod([size for d, size in enumerate(found[1].shape) if d != dimension]))
    places = []
    for side in (0, 1):
        first = found[side].movedim(dimension, 0)
        rest = first.reshape(first.shape[0], int(np.prod(first.shape[1:])))
        known = absent[side].movedim(dimension, 0).reshape(rest.shape)
        rows = torch.where(known, -1, rest // width).max(dim=1).values
        if bool((rows < 0).any()):
            places_in_order = torch.arange(len(rows))
            if len(rows) != axis.sizes[side] or bool((rows != places_in_order)[rows >= 0].any()):
                raise InputError("puts rows without features among others.")
            rows = places_in_order
        columns = torch.where(known, width + torch.arange(rest.shape[1]), rest % width)
        wide = (rows[:, None] * (width + extra) + columns).reshape(first.shape).movedim(0, dimension)
        places.append(wide.contiguous())
    empty = Form((), None, extra, form.name)
    return _with_constants(step, Value(concatenate([form, empty]), axis, (places[0], places[1])))


def _absent_rows(step: Step, value: Value, absent: list[torch.Tensor], dimension: int) -> Value | None:
    """Whole rows without features among the rows of an axis: they are 0, then what stands there."""
    places, masks, alike = [], [], set()
    for side in (0, 1):
        missing = absent[side].movedim(dimension, 0).flatten(1) if absent[side].numel() else torch.zeros(0, 1)
        rows = missing[:, 0]
        if len(rows) != value.axis.sizes[side] or not bool(rows.any()) or bool((missing != rows[:, None]).any()):
            return None
        first = value.places[side].movedim(dimension, 0)
        known = first[~rows].reshape(int((~rows).sum()), -1)
        if bool((known // value.width != torch.nonzero(~rows)).any()):
            return None
        alike |= {tuple(row) for row in (known % value.width).tolist()}
        masks.append((~rows).to(torch.float64))
    if len(alike) != 1:
        return None
    (columns,) = alike
    for side, mask in enumerate(masks):
        rest = value.places[side].movedim(dimension, 0).shape
        wide = torch.arange(len(mask))[:, None] * value.width + torch.tensor(columns)
        places.append(wide.reshape(rest).movedim(0, dimension).contiguous())
        masks[side] = mask.reshape(-1, *[1] * (len(rest) - 1)).expand(rest).movedim(0, dimension)
    known_rows = step.reader.scale(moved(value, tuple(places)), (masks[0], masks[1]), of_features=False)
    return _with_constants(step, known_rows)


def _with_constants(step: Step, value: Value) -> Value:
    """What the operation gives where its features are 0, added."""
    constants = []
    for side in (0, 1):
        zeros = {i: step.like(i, side, 0.0) for i in step.features}
        constants.append(step.run(side, zeros).to(torch.float64))
    others = [step.reader.kind(one) for i, one in enumerate(step.inputs) if i not in step.features]
    return step.reader.shift(value, (constants[0], constants[1]), max(others, default=PARAMETER), step.name)


def _row_dimension(found: list[torch.Tensor], absent: list[torch.Tensor], width: int) -> int:
    for d in range(found[1].dim()):
        fits = True
        for places, missing in zip(found, absent, strict=True):
            first, known = places.movedim(d, 0), missing.movedim(d, 0)
            if not first.numel():
                continue
            rows = torch.where(known, -1, first // width).reshape(first.shape[0], -1)
            highest = rows.max(dim=1, keepdim=True).values
            some = highest[highest >= 0]
            fits &= bool(((rows == highest) | (rows < 0)).all()) and len(torch.unique(some)) == len(some) > 0
        if fits:
            return d
    raise InputError("puts rows without features among others.")


def reduce(step: Step) -> Value:
    """Sum or mean over dimensions: of columns, a linear map; of all rows, a readout."""
    value = step.form(0).arranged()
    dims = step.argument(1, "dim")
    count = value.places[1].dim()
    dims = range(count) if dims is None or dims == [] else dims if isinstance(dims, (list, tuple)) else [dims]
    over = sorted(d % count for d in dims)
    row = value.row_dimension()
    if row is not None and row in over:
        return read_out(step, _added_up(step, value, [d for d in over if d != row]).arranged(), row)
    return _added_up(step, value, over, step.shapes)


def _added_up(step: Step, value: Value, over: list[int], shapes: tuple[torch.Size, torch.Size] | None = None) -> Value:
    """The same over dimensions of columns, which stay as 1 unless shapes say otherwise."""
    if not over:
        return value
    results, kept = [], list[torch.Size]()
    for side in (0, 1):
        shape = [1 if d in over else size for d, size in enumerate(value.places[side].shape)]
        kept.append(torch.Size(shape))
        results.append(torch.arange(int(np.prod(shape))).reshape(shape).expand(value.places[side].shape))
    factor = 1.0
    if step.name == "mean":
        factor = 1.0 / float(np.prod([value.places[1].shape[d] for d in over]))
    matrix, places = fold(value, results, factor)
    shapes = shapes or (kept[0], kept[1])
    return moved(value.mapped(matrix), (places[0].reshape(shapes[0]), places[1].reshape(shapes[1])))


def linear_in_rows(step: Step) -> Value:
    """A convolution, a pooling mean, a running sum: the map of one row's columns that the operation itself gives."""
    reader, value = step.reader, step.form(0).arranged()
    row = value.row_dimension()
    if row is None or step.features != (0,):
        raise step.refuse("has no exact reading here: its weights are made of features, or it has no rows.")
    shape = [1 if d == row else size for d, size in enumerate(value.places[1].shape)]
    size = int(np.prod(shape))
    nothing = step.run(1, {0: torch.zeros(shape, dtype=torch.float64)})
    basis = torch.eye(size, dtype=torch.float64).reshape(size, *shape)
    matrix = torch.stack([step.run(1, {0: one}) - nothing for one in basis]).reshape(size, -1)
    given, made = (step.reader.tensor(one, 1).movedim(row, 0) for one in (step.inputs[0], step.value))
    expected = given.reshape(len(given), -1) @ matrix + nothing.reshape(-1)
    if made.numel() != expected.numel() or not torch.allclose(made.reshape(expected.shape), expected):
        raise step.refuse("goes along the rows, so that it mixes rows by their position; only columns can be read so.")
    mapped = value.mapped(matrix.numpy())
    first, second = (
        in_rows(len(value.rows_along(side)), step.shapes[side], row, value.rows_along(side)) for side in (0, 1)
    )
    result = replace(mapped, form=mapped.form + nothing.reshape(-1).numpy(), places=(first, second), origin=None)
    reader.note(step, "linear map of each row")
    return result


def fold(value: Value, results: list[torch.Tensor], factor: float) -> tuple[FloatArray, list[torch.Tensor]]:
    """The linear map of columns that adds each element to the result it is numbered with, and the results' places."""
    matrix: FloatArray | None = None
    places = []
    for side in (0, 1):
        flat = results[side].reshape(-1).numpy()
        rows, columns = value.rows(side).reshape(-1), value.columns(side).reshape(-1)
        num = int(flat.max(initial=-1)) + 1
        row_of = np.zeros(num, dtype=np.int64)
        row_of[flat] = rows
        if (row_of[flat] != rows).any():
            raise InputError("adds up parts of several rows.")
        order = np.argsort(row_of, kind="stable")
        count = np.unique(row_of, return_counts=True)[1] if num else np.zeros(0, dtype=np.int64)
        width = int(count[0]) if len(count) else 0
        rank = np.empty(num, dtype=np.int64)
        if len(count):
            if (count != width).any():
                raise InputError("gives some rows more columns than others.")
            rank[order] = np.tile(np.arange(width), len(count))
            one = rows == rows[0]
            found = np.zeros((value.width, width))
            np.add.at(found, (columns[one], rank[flat[one]]), factor)
            if matrix is not None and not np.array_equal(found, matrix):
                raise InputError("adds up other columns on the two graphs.")
            matrix = found
        places.append(torch.from_numpy(row_of * max(width, 1) + rank))
    if matrix is None:  # no rows: a result for each element that is not added up along a dimension
        own = [size for size, stride in zip(results[1].shape, results[1].stride(), strict=True) if size and stride]
        matrix = np.zeros((value.width, int(np.prod(own))))
    return matrix, places


def read_out(step: Step, value: Value, row: int) -> Value:
    """All rows added up: one row for the whole graph."""
    reader = step.reader
    rows = value.listed(0), value.listed(1)
    axis, graph = reader.graph_of(rows)
    targets = np.full(len(rows[0]), graph[0]), np.full(len(rows[1]), graph[1])
    form = reader.sent(value, rows, targets, axis)
    found = Value(form, axis, one_row(step, value, graph))
    reader.note(step, "readout: all rows added up")
    if step.name == "mean":
        factors = tuple(
            torch.full(shape, 1.0 / max(len(one), 1), dtype=torch.float64)
            for shape, one in zip(step.shapes, rows, strict=True)
        )
        found = reader.scale(found, (factors[0], factors[1]), of_features=False)
    return found


def one_row(step: Step, value: Value, rows: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Places of a result that is one row."""
    first, second = (
        torch.arange(value.width).reshape(shape) + row * value.width
        for shape, row in zip(step.shapes, rows, strict=True)
    )
    return first, second


def linear(step: Step, place: int, matrix: FloatArray) -> Value:
    """The last dimension of an input times a matrix [inputs, outputs]."""
    value = step.form(place).arranged()
    size = matrix.shape[0]
    blocks = value.width // size
    if blocks * size != value.width:
        raise step.refuse("multiplies a part of each row with a matrix.")
    if blocks == 1 and value.table_rows is not None:
        return replace(value.mapped(matrix), places=InRows(value.table_rows, matrix.shape[1]))
    places, sequence = [], None
    for side in (0, 1):
        flat = value.places[side].reshape(-1, size)
        rows, first = flat[:, 0] // value.width, flat[:, 0] % value.width
        columns = flat % value.width
        if flat.numel():
            if bool((flat // value.width != rows[:, None]).any()):
                raise InputError("multiplies several rows with a matrix at once.")
            starts = torch.unique(columns, dim=0)
            if len(starts) != blocks or (sequence is not None and not torch.equal(starts, sequence)):
                raise InputError("multiplies other columns of some rows than of others with a matrix.")
            sequence = starts
        places.append((rows, first))
    if sequence is None:  # of no rows
        sequence = torch.arange(value.width).reshape(blocks, size)
    wide = np.zeros((value.width, blocks * matrix.shape[1]))
    for block, columns in enumerate(sequence.tolist()):
        wide[columns, block * matrix.shape[1] : (block + 1) * matrix.shape[1]] = matrix
    number = {int(columns[0]): block for block, columns in enumerate(sequence)}
    found = []
    for side in (0, 1):
        rows, first = places[side]
        which = (
            torch.tensor([number[one] for one in first.tolist()], dtype=torch.long)
            if blocks > 1
            else torch.zeros_like(first)
        )
        out = rows[:, None] * wide.shape[1] + which[:, None] * matrix.shape[1] + torch.arange(matrix.shape[1])
        found.append(out.reshape(*value.places[side].shape[:-1], matrix.shape[1]))
    return moved(value.mapped(wide), (found[0], found[1]))
