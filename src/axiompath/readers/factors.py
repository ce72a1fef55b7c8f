"""Features times features: one factor is a coefficient, or both are factors of a product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ..network.activations import Activation, relu, sigmoid
from .columns import fold, moved, read_out
from .crossing import batch_left
from .elementwise import Calls, of_calls, root_of
from .reader import Both, Reader, Step
from .trace import FEATURE, PARAMETER, Number, Trace
from .values import Value, rule_of

VIEWS = {
    "view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "permute", "t", "transpose", "unbind",
    "select", "slice", "split", "split_with_sizes", "cat", "stack", "repeat", "as_strided", "expand", "clone", "detach",
    "alias", "_to_copy",
}  # fmt: skip
AFFINE = VIEWS | {
    "add", "sub", "rsub", "neg", "sum", "mean", "index_select", "index", "gather", "embedding", "scatter_add",
    "index_add", "index_put", "_index_put_impl", "scatter", "native_batch_norm", "masked_fill", "where", "copy",
    "native_dropout", "_native_batch_norm_legit_no_training",
}  # fmt: skip
GROUP_SUMS = VIEWS | {
    "add",
    "index_select",
    "index",
    "scatter_add",
    "index_add",
    "clamp",
    "clamp_min",
    "gather",
    "sum",
    "mm",
}


LARGEST = 1e9  # of a coefficient that scales something


def two_factors(step: Step) -> Value:
    """v * u or v / u, both of features."""
    reader = step.reader
    if step.name == "div":
        return _quotient(step)
    root = root_of(reader, step.value)
    if root is not None and any(_is_nonlinear(reader, one) for one in step.inputs):
        return reader.activate(reader.read(root), of_calls(reader, step.value, root))
    full = max(int(np.prod(shape)) for shape in step.shapes)
    narrow = [i for i in (0, 1) if _own_size(reader, step.inputs[i]) < full and _is_nonlinear(reader, step.inputs[i])]
    if len(narrow) == 1:
        value = step.form(1 - narrow[0])
        rules = [rule for rule in map(rule_of, value.form.terms) if rule is not None]
        flying = any(rule.to_edges for rule in rules) or value.axis.root.kind == "edges"
        coefficient = step.inputs[narrow[0]]
        if flying or is_normalised(reader, coefficient) or _is_inverse(reader, coefficient):
            return _coefficient(step, 1 - narrow[0])
    shares = [i for i in (0, 1) if is_normalised(reader, step.inputs[i])]
    if len(shares) == 1:
        return _coefficient(step, 1 - shares[0])
    for i in (0, 1):
        opened = _opened(step, i)
        if opened is not None:
            return opened
    return product(step, [step.form(0), step.form(1)])


def gated_linear_unit(step: Step) -> Value:
    """One half of the columns times the sigmoid of the other."""
    reader, value = step.reader, step.form(0)
    dimension = step.argument(1, "dim", -1)
    halves = []
    for half in (0, 1):
        parts = tuple(one.chunk(2, dim=dimension)[half] for one in value.places)
        halves.append(moved(value, parts).arranged())
    gate = reader.activate(halves[1], sigmoid())
    return product(step, [halves[0], gate])


def softmax(step: Step) -> Value:
    """Exponentials, and one over their sum as a coefficient."""
    reader, value = step.reader, step.form(0)
    exponential = Calls((("exp", "default", (Number(0),), (), 0),))
    found = reader.activate(value, Activation("exp", exponential.value, exponential.derivative, constant=1.0))
    scales = []
    for side in (0, 1):
        given = reader.tensor(step.inputs[0], side).to(torch.float64)
        scales.append(reader.tensor(step.value, side).to(torch.float64) / given.exp())
    reader.note(step, "softmax: one over the sum of exponentials is a coefficient")
    return reader.scale(found, (scales[0], scales[1]), of_features=True)


def power(step: Step) -> Value:
    """Small whole powers are products; others act on each number."""
    exponent = step.argument(1, "exponent")
    if exponent in (2, 3):
        return product(step, [step.form(0)] * int(exponent))
    return step.reader.activate(step.form(0), of_calls(step.reader, step.value, step.inputs[0]))


def product(step: Step, values: list[Value]) -> Value:
    """A product, of which each factor has its share; of chosen rows, before they are chosen."""
    reader = step.reader
    origins = [value.origin for value in values]
    first = values[0]
    if all(
        origin is not None
        and origin.axis.root is origins[0].axis.root  # type: ignore[union-attr]
        and all(map(np.array_equal, origin.rows, origins[0].rows))  # type: ignore[union-attr]
        and all(map(torch.equal, value.places, first.places))
        for value, origin in zip(values, origins, strict=True)
    ):
        reader.note(step, f"product, shared by its {len(values)} factors")
        return reader.chosen(first, reader.bases.multiply([one.form for one in origins if one is not None]))
    level = reader.level(values, step.shapes)
    reader.note(step, f"product, shared by its {len(values)} factors")
    return Value(reader.bases.multiply([value.form for value in level]), level[0].axis, level[0].places)


def _quotient(step: Step) -> Value:
    reader = step.reader
    root = root_of(reader, step.value)
    if root is not None:
        return reader.activate(reader.read(root), of_calls(reader, step.value, root))
    return _coefficient(step, 0)  # one over what is below


def _coefficient(step: Step, place: int) -> Value:
    """One factor scales the other by its numbers on each graph."""
    reader = step.reader
    value = step.form(place).expanded(step.shapes)
    reader.coefficients.append(step.inputs[1 - place])
    numbers = [step.run(side, {place: step.like(place, side, 1.0)}).to(torch.float64) for side in (0, 1)]
    # Of nothing any number makes nothing: one over a least length would turn the rounding of a replay into something.
    numbers = [torch.where(one.abs() < LARGEST, one, 1.0) for one in numbers]
    reader.note(step, "coefficients made of features")
    return reader.scale(value, (numbers[0], numbers[1]), of_features=True)


def _opened(step: Step, place: int) -> Value | None:
    """(number +- v) * u as number * u +- v * u."""
    reader = step.reader
    inner = reader.step(step.inputs[place])
    if inner is None or inner.name not in ("rsub", "add", "sub") or len(inner.features) != 1:
        return None
    if any(
        reader.kind(one) != PARAMETER or reader.tensor(one, 1).numel() != 1
        for i, one in enumerate(inner.inputs)
        if i not in inner.features
    ):
        return None
    (i,) = inner.features
    number = float(inner.run(1, {i: inner.like(i, 1, 0.0)}).reshape(-1)[0])
    slope = float(inner.run(1, {i: inner.like(i, 1, 1.0)}).reshape(-1)[0]) - number
    other = step.form(1 - place)
    first, second = reader.level([other, product(step, [inner.form(i), other])], step.shapes)
    return Value(first.form * number + second.form * slope, first.axis, first.places)


def layer_norm(step: Step) -> Value:
    """Centring is linear; one over the deviation is a coefficient of each row."""
    reader, value = step.reader, step.form(0).arranged()
    if step.operations[1].output != 0:
        raise step.refuse("uses the statistics of a norm by themselves.")
    dims = tuple(range(-len(step.argument(1, "normalized_shape")), 0))
    if value.row_dimension() in [d % value.places[1].dim() for d in dims]:
        raise step.refuse("takes the mean and deviation over rows.")
    size = int(np.prod(step.argument(1, "normalized_shape")))
    if value.width % size:
        raise step.refuse("norms a part of each row.")
    blocks = np.kron(np.eye(value.width // size), np.ones((size, size)) / size)
    centred = value.mapped(np.asarray(np.eye(value.width) - blocks))
    scales = []
    for side in (0, 1):
        given = reader.tensor(step.inputs[0], side).to(torch.float64)
        deviation = (given.var(dims, unbiased=False, keepdim=True) + step.argument(4, "eps")) ** -0.5
        scales.append(deviation.expand(given.shape))
    centred = reader.hold(reader.ready(centred))
    found = reader.scale(centred, (scales[0], scales[1]), of_features=True)
    reader.note(step, "layer norm: one over the deviation is a coefficient")
    learnable = [one for one in (2, 3) if isinstance(step.operations[1].args[one], Number)]
    for place, number in zip(learnable, range(1, 1 + len(learnable)), strict=True):
        learnt = tuple(
            reader.tensor(step.inputs[number], side).to(torch.float64).expand(step.shapes[side]) for side in (0, 1)
        )
        if place == 2:
            found = reader.scale(found, (learnt[0], learnt[1]), of_features=False, plain=True)
        else:
            found = reader.shift(found, (learnt[0], learnt[1]), PARAMETER, "bias")
    return found


def product_of_matrices(step: Step, offset: int) -> Value:
    """Attention matrices are coefficients; a product of matrices in each row is one of its entries, added up."""
    reader = step.reader
    left, right = step.inputs[offset], step.inputs[offset + 1]
    value = reader.read(right)
    shape = reader.shape(right)
    if value.row_dimension() == len(shape) - 2 and _is_nonlinear(reader, left):
        matrices = [reader.tensor(left, side).to(torch.float64) for side in (0, 1)]
        if all(matrices[side].shape[-2] == len(value.rows_along(side)) for side in (0, 1)):
            reader.note(step, "matrix of coefficients made of features")
            return batch_left(
                step, value.arranged(), matrices, value.axis, (value.rows_along(0), value.rows_along(1)), True
            )
    shares = [i for i in (0, 1) if len(shape) == 3 and is_normalised(reader, step.inputs[offset + i])]
    if len(shares) == 1:
        other = value if shares[0] == 0 else reader.read(left)
        if other.row_dimension() != (1 if shares[0] == 0 else 2):  # the products are not added up over rows
            return structure_by_row(step, offset + 1 - shares[0], offset + shares[0])
    return _contracted(step, reader.read(left), value, offset)


def _contracted(step: Step, first: Value, second: Value, offset: int) -> Value:
    """Products of elements, added up over the columns of each row, or over rows: a readout of products."""
    reader = step.reader
    dims = len(step.shapes[1]) + 1
    if dims not in (3, 4) or first.places[1].dim() != second.places[1].dim():
        raise step.refuse("multiplies features by features across rows: a value for each pair of rows.")
    ends = first.row_dimension(), second.row_dimension()
    if ends == (dims - 3, dims - 2) and not second.axis.root.of_graphs:
        raise step.refuse("multiplies features by features across rows: a value for each pair of rows.")
    wide: list[list[torch.Tensor]] = [[], []]
    for side in (0, 1):
        left, right = first.places[side].unsqueeze(-1), second.places[side].unsqueeze(-3)
        shape = torch.Size(np.broadcast_shapes(left.shape, right.shape))
        wide[0].append(left.expand(shape).contiguous())
        wide[1].append(right.expand(shape).contiguous())
    shapes = wide[0][0].shape, wide[0][1].shape
    parts = [moved(one, tuple(places)) for one, places in zip((first, second), wide, strict=True)]
    shares = [i for i in (0, 1) if is_normalised(reader, step.inputs[offset + i])]
    over = dims - 2
    row = max(parts, key=lambda part: len(part.listed(1))).row_dimension()
    if row not in (None, over) and first.row_dimension() == second.row_dimension() == dims - 3:
        raise step.refuse("multiplies features by features across rows: a value for each pair of rows.")
    if len(shares) == 1:
        numbers = []
        for side in (0, 1):
            given = reader.tensor(step.inputs[offset + shares[0]], side).to(torch.float64)
            numbers.append(given.unsqueeze(-3 if shares[0] else -1).expand(shapes[side]))
        reader.coefficients.append(step.inputs[offset + shares[0]])
        other = reader.spread_alike(parts)[1 - shares[0]]
        joined = reader.scale(other, (numbers[0], numbers[1]), of_features=True)
    else:
        level = reader.level(parts, shapes)
        joined = Value(reader.bases.multiply([one.form for one in level]), level[0].axis, level[0].places)
    reader.note(step, "product of features, added up over " + ("rows" if row == over else "columns"))
    return read_out(step, joined.arranged(), over) if row == over else sum_over(step, joined, over)


def structure_by_row(step: Step, place: int, other: int) -> Value:
    """A batch of products where one factor is coefficients: element-wise products, added up."""
    reader = step.reader
    if len(step.shapes[1]) != 3:
        raise step.refuse("multiplies the columns of features with structure.")
    pairs = []
    for side in (0, 1):
        left, right = (reader.tensor(step.inputs[i], side).to(torch.float64) for i in sorted((place, other)))
        pairs.append((left, right))
    value = step.form(place)
    wide, factors = [], []
    for side, (left, right) in enumerate(pairs):
        size = left.shape[0], left.shape[1], left.shape[2], right.shape[2]
        if place < other:
            wide.append(value.places[side].unsqueeze(-1).expand(size).contiguous())
            factors.append(right.unsqueeze(1).expand(size))
        else:
            wide.append(value.places[side].unsqueeze(1).expand(size).contiguous())
            factors.append(left.unsqueeze(-1).expand(size))
    kind = reader.kind(step.inputs[other])
    scaled = reader.scale(
        moved(value, (wide[0], wide[1])), (factors[0], factors[1]), of_features=kind == FEATURE, plain=kind == PARAMETER
    )
    return sum_over(step, scaled, 2)


def sum_over(step: Step, value: Value, dimension: int) -> Value:
    """Elements added up along a dimension that holds columns."""
    results = []
    for side in (0, 1):
        shape = [1 if d == dimension else size for d, size in enumerate(value.places[side].shape)]
        results.append(torch.arange(int(np.prod(shape))).reshape(shape).expand(value.places[side].shape))
    matrix, places = fold(value, results, 1.0)
    return moved(value.mapped(matrix), (places[0].reshape(step.shapes[0]), places[1].reshape(step.shapes[1])))


# What is known of how a value was made


def _is_nonlinear(reader: Reader, value: Both) -> bool:
    """Whether a value is no affine function of features."""
    return any(_nonlinear_in(reader.traces[side], value[side]) for side in _sides_of(reader, value))


def _sides_of(reader: Reader, value: Both) -> list[int]:
    """The graphs on which it has any numbers: where there are no edges, a model may go another way."""
    return [side for side in (0, 1) if reader.shape(value, side).numel()] or [1]


def _nonlinear_in(trace: Trace, start: int) -> bool:
    waiting = [start]
    seen: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        operation = trace.operations[number]
        if operation is None or trace.kinds[number] != FEATURE:
            continue
        features = [one for one in operation.numbers if trace.kinds[one] == FEATURE]
        several = operation.name in ("mul", "mm", "bmm", "div") and len(features) > 1
        below = operation.name == "div" and trace.kinds[operation.numbers[-1]] == FEATURE
        affine = operation.name in AFFINE | {"mul", "div", "mm", "bmm", "addmm", "baddbmm", "mv", "_sparse_mm"}
        if several or below or not affine:
            return True
        if operation.name in ("addmm", "baddbmm") and len(set(features) & set(operation.numbers[1:])) > 1:
            return True
        waiting += features
    return False


def is_normalised(reader: Reader, value: Both) -> bool:
    """Whether a value was divided by a sum over a group of its own rows, as attention is."""
    return any(_normalised_in(reader.traces[side], value[side]) for side in _sides_of(reader, value))


def _normalised_in(trace: Trace, number: int) -> bool:
    operation = trace.operations[number]
    if operation is None or trace.kinds[number] != FEATURE:
        return False
    if operation.name in ("_softmax", "_safe_softmax"):
        return True
    numbers = operation.numbers
    if operation.name == "div":
        waiting, seen = [numbers[-1]], set()
        while waiting:
            one = waiting.pop()
            if one == numbers[0]:
                return True
            made = trace.operations[one]
            if one not in seen and made is not None and made.name in GROUP_SUMS:
                seen.add(one)
                waiting += made.numbers
        return False
    features = [one for one in numbers if trace.kinds[one] == FEATURE]
    if operation.name in VIEWS | {"native_dropout", "index_select"} or (operation.name == "mul" and len(features) == 1):
        return any(_normalised_in(trace, one) for one in features)
    return False


def _is_inverse(reader: Reader, value: Both) -> bool:
    """Whether a value is one over something: a norm, which is no activation since it is infinite at 0."""
    trace = reader.traces[1]
    operation = trace.operations[value[1]]
    while operation is not None and operation.name in VIEWS:
        operation = trace.operations[operation.numbers[0]]
    if operation is None:
        return False
    negative = operation.name == "pow" and isinstance(operation.args[1], (int, float)) and operation.args[1] < 0
    return operation.name in ("rsqrt", "reciprocal", "div") or negative


def _own_size(reader: Reader, value: Both) -> int:
    """Numbers of a value before it was expanded."""
    trace = reader.traces[1]
    number: int = value[1]
    operation = trace.operations[number]
    while operation is not None and operation.name in ("expand", "clone"):
        number = operation.numbers[0]
        operation = trace.operations[number]
    return trace.shape(number).numel()


def highest(step: Step) -> Value:
    """The larger, or smaller, of two values: a + relu(b - a)."""
    reader = step.reader
    values = [step.form(i) if i in step.features else None for i in (0, 1)]
    sign = 1.0 if step.name == "maximum" else -1.0
    if None in values:
        raise step.refuse("takes the maximum of features and of other numbers; use clamp with one number.")
    first, second = reader.level([value for value in values if value is not None], step.shapes)
    difference = reader.bases.add((second.form - first.form) * sign, relu())
    return replace(first, form=first.form + difference * sign, origin=None)
