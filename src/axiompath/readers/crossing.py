"""Operations that lead from rows to other rows: gather, scatter, and products with a matrix of coefficients."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse

from ..arrays import IntArray
from ..errors import InputError
from ..network.activations import relu
from ..network.coefficients import Identity, Rule
from ..network.maxima import Extreme
from ..network.readouts import End
from .columns import affine, linear, moved, total
from .elementwise import KNOWN, OTHERS, of_calls
from .forms import Form, Term, concatenate
from .reader import GraphsAreInside, Step
from .rows import EDGES, Axis, Recorded
from .trace import FEATURE, PARAMETER
from .values import InRows, Origin, Pair, Value, distinct_pairs, in_rows, rule_of

CHOOSING = {"nonzero", "arange", "nonzero_static"}
CHOOSING_OUTPUT = {"sort": 1, "topk": 1, "_unique2": 0, "unique_consecutive": 0}  # an order of rows: none comes twice
SEEN_AS = {"view", "_unsafe_view", "reshape", "clone", "_reshape_alias", "contiguous"}
PASSING = {
    "view",
    "squeeze",
    "select",
    "detach",
    "clone",
    "unbind",
    "t",
    "unsqueeze",
    "expand",
    "slice",
    "_to_copy",
    "alias",
}


def gather(step: Step) -> Value:
    """Rows chosen by an index: the same rows where it comes from a mask or a range, else an edge list."""
    if step.features != (0,):
        raise step.refuse(
            "chooses rows by features, so that another graph may choose others; choose them by structure."
        )
    pairs = _entries(step)
    if pairs is not None:
        return pairs
    reader, value = step.reader, step.form(0)
    picked: Any = _picked_rows(step, value)
    if picked is None:
        picked = tuple(step.move(side, {0: value.places[side]}).contiguous() for side in (0, 1))
    found = replace(value, places=picked)
    dimension = value.row_dimension()
    if dimension is None or dimension not in _indexed(step):
        return reader.aligned(found)
    if _is_choice(step, 1 + _indexed(step).index(dimension)):
        for side in (0, 1):
            own = picked[side].numpy() if found.table_rows is None else found.table_rows[side]
            if len(np.unique(own)) != own.size:
                raise step.refuse("chooses a row twice by a mask or a range.")
        return reader.aligned(found)
    rows, places = _chosen_rows(step, value, found, dimension)
    pair = _end_of(step)
    if pair is not None and value.axis.root is reader.nodes.root:
        return _end_value(step, value, pair, places)
    index = step.inputs[1]  # zeros of the size of features depend on no edge
    along_edges = reader.kind(index) != PARAMETER and "edge_index" in reader.traces[1].fields_of(index[1])
    if value.axis.root.of_graphs and not along_edges and (len(rows[0]), len(rows[1])) == reader.nodes.sizes:
        spread = reader.spread(value, (rows[0], rows[1]), reader.nodes)
        reader.note(step, "every node receives what its graph holds")
        return replace(spread, places=places)
    if value.axis.root.of_graphs:
        given = _given_to(step, value, found, (rows[0], rows[1]), places)
        if given is not None:
            return given
        if not reader.graphs_inside:
            raise GraphsAreInside
    axis = reader.edges_from(value.axis, (rows[0], rows[1]))
    form = reader.gathered(value, (rows[0], rows[1]), axis)
    reader.note(step, f"gather: rows of {value.axis.root.kind} along edges")
    origin = Origin(value.form, value.axis, (rows[0], rows[1]))
    return reader.aligned(Value(form, axis, places, origin))


def _picked_rows(step: Step, value: Value) -> InRows | None:
    """Rows of a table that are chosen by one index of rows; None where single elements are chosen."""
    plain = step.name == "index_select" or (step.name == "index" and len(step.argument(1, "indices")) == 1)
    index = [step.reader.tensor(step.inputs[1], side) for side in (0, 1)]
    if value.table_rows is None or not plain or _indexed(step) != (0,) or any(one.dim() != 1 for one in index):
        return None
    first, second = (rows[one.numpy()] for rows, one in zip(value.table_rows, index, strict=True))
    return InRows((first, second), value.width)


def _chosen_rows(step: Step, value: Value, found: Value, dimension: int) -> tuple[list[IntArray], Pair | InRows]:
    """The row of each row that an index chose, and the places of the chosen rows, numbered in their order."""
    if found.table_rows is not None:
        own = found.table_rows
        return list(own), InRows((np.arange(len(own[0])), np.arange(len(own[1]))), value.width)
    out = _out_dimensions(step, dimension)
    rows, places = [], []
    for side in (0, 1):
        taken = np.moveaxis(found.rows(side), out, range(len(out)))
        size, rest = (int(np.prod(part)) for part in (taken.shape[: len(out)], taken.shape[len(out) :]))
        taken = taken.reshape(size, rest)
        if taken.size and (taken != taken[:, :1]).any():
            raise step.refuse("chooses other rows for some columns than for others.")
        rows.append(taken[:, 0] if taken.size else np.zeros(size, dtype=np.int64))
        columns = np.moveaxis(found.columns(side), out, range(len(out))).reshape(size, rest)
        wide = np.arange(size)[:, None] * value.width + columns
        shape = found.shapes[side]
        shape = torch.Size([shape[d] for d in out] + [s for d, s in enumerate(shape) if d not in out])
        places.append(torch.from_numpy(np.moveaxis(wide.reshape(shape), range(len(out)), out).copy()))
    return rows, (places[0], places[1])


def _entries(step: Step) -> Value | None:
    """Entries of a product of all nodes with all nodes, at the pairs that are asked for: only these are computed."""
    reader, ends = step.reader, [_end_of(step, i) for i in range(1, len(step.inputs))]
    if step.name != "index" or len(ends) != 2 or None in ends or len(step.argument(1, "indices")) != 2:
        return None
    source = step.inputs[0]
    inner = reader.step(source)
    while inner is not None and len(inner.features) == 1 and (inner.name in KNOWN or inner.name in OTHERS):
        inner = reader.step(inner.inputs[inner.features[0]])
    if inner is None or inner.name != "mm" or len(inner.features) != 2:
        return None
    left, right = inner.form(0), inner.form(1)
    if left.row_dimension() != 0 or right.row_dimension() != 1:
        return None
    sizes = tuple(len(reader.tensor(step.inputs[1], side)) for side in (0, 1))
    parts = []
    for value, end in ((left, ends[0]), (moved(right, (right.places[0].T, right.places[1].T)), ends[1])):
        value = value.arranged()
        first, second = (in_rows(size, torch.Size((size, value.width))) for size in sizes)
        parts.append(_end_value(step, value, int(end or 0), (first, second)))
    products = reader.bases.multiply([part.form for part in parts])
    added = products @ np.ones((products.width, 1))
    found = Value(added, parts[0].axis, (torch.arange(sizes[0]), torch.arange(sizes[1])))
    if inner.value == source:
        return found
    return reader.activate(found, of_calls(reader, source, inner.value))


def _given_to(
    step: Step, value: Value, found: Value, rows: tuple[IntArray, IntArray], places: Pair | InRows
) -> Value | None:
    """What graphs hold, given to the nodes of one type; a single graph's is given to whatever it stands beside."""
    if all(len(set(one.tolist())) <= 1 for one in rows):
        return found
    reader, index = step.reader, step.inputs[1]
    own = [reader.traces[side].rows_of(index[side]) for side in (0, 1)]
    sent, wide = [], []
    for side, nodes in enumerate(own):
        if nodes is None or len(nodes) != len(rows[side]):
            return None
        graphs = np.zeros(reader.nodes.sizes[side], dtype=np.int64)
        graphs[nodes] = rows[side]
        sent.append(graphs)
        listed = places[side].numpy() // value.width
        wide.append(torch.from_numpy(nodes[listed] * value.width) + places[side] % value.width)
    spread = reader.spread(value, (sent[0], sent[1]), reader.nodes)
    return replace(spread, places=(wide[0], wide[1]))


def _indexed(step: Step) -> tuple[int, ...]:
    if step.name in ("index_select", "gather"):
        return (step.argument(1, "dim") % len(step.reader.shape(step.inputs[0])),)
    if step.name == "embedding":
        return (0,)
    return tuple(i for i, one in enumerate(step.argument(1, "indices")) if one is not None)


def _out_dimensions(step: Step, dimension: int) -> list[int]:
    """The dimensions of the result along which the chosen rows lie."""
    indexed = _indexed(step)
    if step.name in ("index_select", "gather"):
        return [dimension]
    first = (
        indexed[0] if indexed[-1] - indexed[0] < len(indexed) else 0
    )  # torch puts rows first where indices are apart
    count = max(len(step.reader.shape(one)) for one in step.inputs[1:])
    return list(range(first, first + count))


def _is_choice(step: Step, place: int) -> bool:
    """Whether an index comes from a mask or a range, so that it says which rows rather than whom they go to."""
    reader = step.reader
    if reader.tensor(step.inputs[place], 1).dtype == torch.bool:
        return True
    trace = reader.traces[1]
    operation = trace.operations[step.inputs[place][1]]
    while operation is not None and operation.name in PASSING and operation.numbers:
        operation = trace.operations[operation.numbers[0]]
    if operation is not None and CHOOSING_OUTPUT.get(operation.name) == operation.output:
        return True
    if operation is None or operation.name not in CHOOSING:
        return False
    if operation.name == "arange":
        return True
    return len(reader.traces[1].shape(operation.numbers[0])) == 1  # of a matrix it gives edges


def _end_of(step: Step, place: int = 1) -> int | None:
    """Which end of the pairs that are asked for an index holds."""
    trace, number = step.reader.traces[1], step.inputs[place][1]
    if trace.fields_of(number) != {"edge_label_index"}:
        return None
    given = trace.values[step.reader.given[1]["edge_label_index"]]
    for end in (0, 1):
        if torch.equal(trace.values[number].reshape(-1), given[end]):
            return end
    return None


def _end_value(step: Step, value: Value, end: int, places: Pair | InRows) -> Value:
    reader = step.reader
    ready = reader.hold(value)
    sizes = tuple(len(torch.unique(places[side] // max(value.width, 1))) for side in (0, 1))
    axis = reader.pairs((sizes[0], sizes[1]))
    form = replace(ready.form, terms=tuple(replace(term, coefficients=End(end)) for term in ready.form.terms))
    reader.note(step, "links: the nodes at one end of the pairs")
    return Value(form, axis, places)


def scatter(step: Step) -> Value:
    """Rows added up by an index."""
    name = step.name
    source = len(step.inputs) - 1 if "put" in name else 2
    if any(i not in (0, source) for i in step.features):
        raise step.refuse("sends rows where features say, so that another graph may send them elsewhere.")
    reader = step.reader
    reduction = step.argument(4, "reduce", "sum") if name == "scatter_reduce" else "sum"
    if source not in step.features and reduction == "sum":
        return affine(step)
    value = step.form(source).arranged()
    if value.row_dimension() is None and len(value.shapes[1]) and 1 in (value.axis.sizes):
        raise step.refuse("sends a single row.")
    shapes = step.shapes
    dimension = 0 if "put" in name else step.argument(1, "dim") % len(shapes[1])
    base = step.form(0) if 0 in step.features else None
    if base is None:
        axis, into = reader.target_of(step.inputs[1], (shapes[0][dimension], shapes[1][dimension]))
    else:
        axis = base.axis
        into = base.rows_along(0), base.rows_along(1)
    index = _index_of_rows(step, value, dimension)
    if index is not None:
        to = into[0][index[0]], into[1][index[1]]
        return _sent(step, value, value.table_rows, to, axis, InRows(into, value.width), reduction)
    targets = [_targets(step, side, source) for side in (0, 1)]
    rows, sent, columns, width = [], [], None, 0
    width = int(np.prod([size for d, size in enumerate(shapes[1]) if d != dimension]))
    for side in (0, 1):
        numbers = in_rows(shapes[side][dimension], shapes[side], dimension).reshape(-1)[targets[side].reshape(-1)]
        own = value.places[side]
        numbers = numbers.reshape(own.shape)
        pairs = distinct_pairs(own // value.width, numbers // width)
        rows.append(pairs[0].numpy())
        sent.append(into[side][pairs[1].numpy()])
        match = distinct_pairs(own % value.width, numbers % width)
        if match.numel():
            if match.shape[1] != width or (columns is not None and not np.array_equal(columns, match.numpy())):
                raise step.refuse("sends other columns of some rows than of others.")
            columns = match.numpy()
    if columns is None:
        columns = np.stack([np.arange(width), np.arange(width)])
    order = columns[0][np.argsort(columns[1])]
    if not np.array_equal(order, np.arange(value.width)):
        value = replace(value, form=value.form.select(order))
    places = tuple(in_rows(len(into[i]), shape, dimension, into[i]) for i, shape in enumerate(shapes))
    return _sent(step, value, (rows[0], rows[1]), (sent[0], sent[1]), axis, (places[0], places[1]), reduction)


def _index_of_rows(step: Step, value: Value, dimension: int) -> tuple[IntArray, IntArray] | None:
    """Which row of the result each row of a table is added to; None where single elements go their own ways."""
    known = step.name in ("index_add", "index_copy", "scatter_add", "scatter_reduce")
    if value.table_rows is None or dimension or not known or value.shapes[1][1:] != step.shapes[1][1:]:
        return None
    found = []
    for side in (0, 1):
        index, rows = step.reader.tensor(step.inputs[1], side), value.table_rows[side]
        if index.dim() == 2 and index.shape == value.shapes[side] and (index.shape[1] == 1 or index.stride(1) == 0):
            index = index[:, 0]
        if index.shape != rows.shape or (len(rows) > 1 and not (rows[1:] > rows[:-1]).all()):
            return None
        found.append(index.numpy())
    return found[0], found[1]


def _sent(step: Step, value: Value, rows: Any, sent: Any, axis: Axis, places: Any, reduction: str) -> Value:
    reader = step.reader
    back = value.axis.root is axis.root and all(np.array_equal(rows[side], sent[side]) for side in (0, 1))
    if back and reduction in ("sum", "add"):
        found = Value(value.form, axis, places)
        if any(len(rows[side]) != axis.sizes[side] for side in (0, 1)):
            masks = []
            for side in (0, 1):
                mask = torch.zeros(axis.sizes[side], dtype=torch.float64)
                mask[torch.from_numpy(rows[side])] = 1.0
                masks.append(mask[torch.from_numpy(found.rows(side))])
            found = reader.scale(found, (masks[0], masks[1]), of_features=False)
    else:
        if value.axis.root.kind == EDGES and all(len(rows[side]) == value.axis.sizes[side] for side in (0, 1)):
            value.axis.root.receivers.append((axis, (_by_row(rows[0], sent[0]), _by_row(rows[1], sent[1]))))
        if reduction in ("amax", "amin"):
            found = _extreme(step, value, rows, sent, axis, places, reduction == "amin")
        else:
            found = Value(reader.sent(value, rows, sent, axis), axis, places)
        reader.note(step, f"scatter ({reduction}): rows of {value.axis.root.kind} to {axis.root.kind}")
    if reduction == "mean":
        factors = []
        for side in (0, 1):
            count = np.bincount(sent[side], minlength=axis.sizes[side]).astype(np.float64)
            inverse = torch.from_numpy(1.0 / np.maximum(count, 1.0))
            factors.append(inverse[torch.from_numpy(found.rows(side))])
        found = reader.scale(found, (factors[0], factors[1]), of_features=False)
    return _onto(step, found, reduction)


def _onto(step: Step, found: Value, reduction: str) -> Value:
    """What was there before is added, or overwritten."""
    reader = step.reader
    writes = step.name in ("index_put", "_index_put_impl") and not step.argument(3, "accumulate", False)
    if step.name in ("scatter", "index_copy"):
        writes = True
    if 0 in step.features:
        if reduction not in ("sum", "add"):
            raise step.refuse("takes the maximum or mean of messages and of features that were there before.")
        base = step.form(0)
        if writes:
            base = reader.scale(base, _kept(step), of_features=False)
        first, second = reader.level([base, found], step.shapes)
        return Value(first.form + second.form, first.axis, first.places)
    if reduction in ("amax", "amin"):
        return found  # what was there before is below, or above, all that came
    start = tuple(reader.tensor(step.inputs[0], side).to(torch.float64) for side in (0, 1))
    if any(bool(one.any()) for one in start):
        if writes:
            start = tuple(one * kept for one, kept in zip(start, _kept(step), strict=True))
        elif reduction not in ("sum", "add"):
            raise step.refuse("writes over numbers that are not 0.")
        return reader.shift(found, (start[0], start[1]), reader.kind(step.inputs[0]), step.name)
    return found


def _kept(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    """1 for elements that are not written over, else 0."""
    source = len(step.inputs) - 1 if "put" in step.name else 2
    masks = []
    for side, shape in enumerate(step.shapes):
        mask = torch.ones(shape, dtype=torch.float64)
        targets = _targets(step, side, source).reshape(-1)
        if len(torch.unique(targets)) != len(targets):
            raise step.refuse("writes several rows into one, of which any may stay; add them up instead.")
        mask.view(-1)[targets] = 0.0
        masks.append(mask)
    return masks[0], masks[1]


def _by_row(rows: IntArray, sent: IntArray) -> IntArray:
    found = np.zeros(len(rows), dtype=np.int64)
    found[rows] = sent
    return found


def _targets(step: Step, side: int, source: int) -> torch.Tensor:
    """The element of the result that each element of the source goes to."""
    reader = step.reader
    shape = step.shapes[side]
    numbers = torch.arange(int(np.prod(shape))).reshape(shape)
    index, given = reader.tensor(step.inputs[1], side), reader.tensor(step.inputs[source], side)
    if step.name in ("scatter_add", "scatter", "scatter_reduce"):
        if index.shape != given.shape:
            raise step.refuse("sends a part of what it is given.")
        dimension = step.argument(1, "dim") % len(shape)
        found = torch.gather(numbers, dimension, index)
        return found
    if step.name in ("index_add", "index_copy"):
        return numbers.index_select(step.argument(1, "dim") % len(shape), index)
    if sum(one is not None for one in step.argument(1, "indices")) > 1:
        raise step.refuse("writes single elements by several indices at once.")
    found = numbers[index]
    return found.expand(given.shape) if found.numel() == given.numel() else found


def _extreme(step: Step, value: Value, rows: Any, sent: Any, axis: Axis, places: Any, least: bool) -> Value:
    """Maximum or minimum over what is sent to each row, column by column."""
    reader = step.reader
    bounded = step.argument(5, "include_self", True) and _start_matters(step)
    if bounded and any(bool(reader.tensor(step.inputs[0], side).any()) for side in (0, 1)):
        raise step.refuse("takes the maximum of messages and of what was there; use include_self=False.")
    found = extreme_of(step, value, rows, sent, axis, least)
    if bounded:  # the larger of that and 0, which also nodes without messages have
        sign = -1.0 if least else 1.0
        found = reader.bases.add(found * sign, relu()) * sign
    return Value(found, axis, places)


def _start_matters(step: Step) -> bool:
    """Whether what was there before is the largest, or least, anywhere."""
    for side in (0, 1):
        start, index, given = (step.reader.tensor(one, side) for one in step.inputs)
        dimension, reduction = step.argument(1, "dim"), step.argument(4, "reduce")
        without = start.scatter_reduce(dimension, index, given, reduction, include_self=False)
        if not bool(start.any()) or not torch.equal(without, step.reader.tensor(step.value, side)):
            return True
    return False


def extreme_of(step: Step, value: Value, rows: Any, sent: Any, axis: Axis, least: bool) -> Form:
    """The same as an expression; 0 where nothing is sent."""
    reader = step.reader
    rules = [rule_of(term) for term in value.form.terms]
    whole = _plain(value) if rules and rules[0] is not None else None
    if whole is not None and all(rule is rules[0] for rule in rules) and value.form.bias is None:
        assert rules[0] is not None
        ready = reader.bases.hold(whole)
        carried = reader.sent(value, rows, sent, axis)
        rule = rule_of(carried.terms[0])
    else:
        held = reader.hold(value)
        ready = held.form
        rule = rule_of(reader.sent(held, rows, sent, axis).terms[0])
    assert rule is not None
    return reader.bases.combine(ready, [Extreme(rule, least)], value.width)


def _plain(value: Value) -> Form | None:
    """What a gathered form was gathered from, where no coefficient but 1 came between."""
    for term in value.form.terms:
        rule = rule_of(term)
        if rule is None or any((one.data != 1).any() or (np.diff(one.indptr) != 1).any() for one in rule.matrices):
            return None
    terms = tuple(replace(term, coefficients=Identity()) for term in value.form.terms)
    return Form(terms, None, value.width, value.form.name)


def matrix(step: Step) -> Value:
    """A product of two matrices, or of many, plus something."""
    reader = step.reader
    offset = 1 if step.name in ("addmm", "baddbmm", "_sparse_addmm", "addmv") else 0
    factors = [i for i in step.features if i >= offset]
    if not factors:
        raise step.refuse("adds features to a product of structure; write it as two steps.")
    if len(factors) == 2:
        from .factors import product_of_matrices

        found = product_of_matrices(step, offset)
    else:
        (place,) = factors
        found = _times(step, place, offset)
    if not offset:
        return found
    beta, alpha = step.argument(9, "beta", 1), step.argument(9, "alpha", 1)
    if alpha != 1:
        found = replace(found, form=found.form * float(alpha))
    if 0 in step.features:
        first, second = reader.level([found, step.form(0)], step.shapes)
        return Value(first.form + second.form * float(beta), first.axis, first.places)
    added = tuple(
        (reader.tensor(step.inputs[0], side).to(torch.float64) * beta).expand(step.shapes[side]) for side in (0, 1)
    )
    return reader.shift(found, (added[0], added[1]), reader.kind(step.inputs[0]), "bias")


def _times(step: Step, place: int, offset: int) -> Value:
    reader = step.reader
    other = offset + 1 if place == offset else offset
    value = step.form(place)
    right = place == offset  # features on the left, a matrix on the right
    shape = reader.shape(step.inputs[place])
    contracted = len(shape) - 1 if right or len(shape) == 1 else len(shape) - 2
    row = value.row_dimension()
    if row == contracted and not (row == 0 and value.axis.sizes == (1, 1)):
        return _left(step, value, place, other)
    if reader.kind(step.inputs[other]) != PARAMETER:
        from .factors import structure_by_row

        return structure_by_row(step, place, other)
    weight = reader.tensor(step.inputs[other], 1).to(torch.float64)
    if weight.dim() == 3:
        from .factors import structure_by_row

        return structure_by_row(step, place, other)
    reader.note(step, "linear map")
    if right:
        narrow = weight.dim() == 1
        found = linear(step, place, weight.reshape(weight.shape[0], -1).numpy())
        return moved(found, tuple(one.squeeze(-1) for one in found.places)) if narrow else found
    turned = replace(value, places=(value.places[0].movedim(-2, -1), value.places[1].movedim(-2, -1)), origin=None)
    reader.read_already[step.inputs[place]], kept = turned, value
    found = linear(step, place, weight.T.numpy())
    reader.read_already[step.inputs[place]] = kept
    return moved(found, tuple(one.movedim(-1, -2).contiguous() for one in found.places))


def _left(step: Step, value: Value, place: int, other: int) -> Value:
    """Rows are crossed by the entries of a matrix, one channel for each matrix of a batch."""
    reader = step.reader
    value = value.arranged()
    matrices = [reader.tensor(step.inputs[other], side).to(torch.float64) for side in (0, 1)]
    if place < other:  # v @ A with rows contracted: the transposed product
        matrices = [one.transpose(-1, -2) for one in matrices]
    if value.row_dimension() is None:
        raise step.refuse("multiplies a matrix with something that has no rows.")
    own = value.rows_along(0), value.rows_along(1)
    sizes = matrices[0].shape[-2], matrices[1].shape[-2]
    axis, into, blocks = value.axis, own, 1
    if sizes != (len(own[0]), len(own[1])):
        blocks = sizes[1] // max(len(own[1]), 1)
        if blocks < 2 or sizes != (blocks * len(own[0]), blocks * len(own[1])):
            blocks = 1
            axis, into = reader.target_of(step.inputs[other], sizes)
    reader.note(step, "matrix of coefficients times rows")
    of_features = reader.kind(step.inputs[other]) == FEATURE
    dimension = -2 if place > other else -1
    to = axis, into, of_features
    positions_of_blocks = _blocks_of(step, other, sizes, blocks)
    parts = []
    for positions in _positions_of_columns(value):
        part = moved(value, tuple(value.places[i].index_select(dimension, p) for i, p in enumerate(positions)))
        chosen = [one.index_select(-1, positions[i]) for i, one in enumerate(matrices)]
        stacked = [
            batch_left(step, part.arranged(), [one[..., own, :] for one, own in zip(chosen, rows, strict=True)], *to)
            for rows in positions_of_blocks
        ]
        parts.append(stacked)
    found = [replace(row[0], form=total([part.form for part in row])) for row in zip(*parts, strict=True)]
    form = concatenate([one.form for one in found])
    places = []
    for side in (0, 1):
        wide = [one.rows(side) * form.width + one.columns(side) + i * one.width for i, one in enumerate(found)]
        order = np.argsort(np.concatenate([rows[side] for rows in positions_of_blocks]))
        ordered = np.concatenate(wide, axis=dimension).take(order, axis=dimension)
        places.append(torch.from_numpy(ordered).reshape(step.shapes[side]))
    return Value(form, axis, (places[0], places[1]))


def _blocks_of(step: Step, other: int, sizes: tuple[int, int], num_blocks: int) -> list[tuple[IntArray, IntArray]]:
    """Which rows of a matrix each of several matrices in it has: one below the other, or their rows in turn."""
    trace, number = step.reader.traces[1], step.inputs[other][1]
    operation = trace.operations[number]
    num_rows, in_turn = sizes[1] // num_blocks, False
    while operation is not None and operation.name in SEEN_AS and operation.numbers:
        shape = trace.shape(operation.numbers[0])
        folded = [pair for pair in pairwise(shape) if pair[0] * pair[1] == sizes[1] and 1 not in pair]
        if folded:
            in_turn = folded[0] == (num_rows, num_blocks)
            break
        operation = trace.operations[operation.numbers[0]]
    first, second = (np.arange(size).reshape((-1, num_blocks) if in_turn else (num_blocks, -1)) for size in sizes)
    return [(first[:, i], second[:, i]) if in_turn else (first[i], second[i]) for i in range(num_blocks)]


def _positions_of_columns(value: Value) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Where along the rows' dimension each group of columns stands: one group, unless several lie behind another."""
    found: list[list[torch.Tensor]] = []
    for side in (0, 1):
        dimension = value.row_dimension()
        assert dimension is not None
        columns = np.moveaxis(value.columns(side), dimension, 0)
        groups = np.unique(columns.reshape(len(columns), -1), axis=0, return_inverse=True)[1].reshape(-1)
        found.append([torch.from_numpy(np.flatnonzero(groups == g)) for g in range(int(groups.max(initial=0)) + 1)])
    return list(zip(*found, strict=True))


def batch_left(
    step: Step,
    value: Value,
    matrices: list[torch.Tensor],
    axis: Axis,
    into: tuple[IntArray, IntArray],
    of_features: bool,
) -> Value:
    """The same for matrices [n, m] or a batch of them [heads, n, m], which lead `into` rows of an axis."""
    reader = step.reader
    heads = matrices[1].shape[0] if matrices[1].dim() == 3 else 1
    value = reader.ready(value)
    if any(rule_of(term) is not None for term in value.form.terms):
        value = reader.hold(value)
    terms: list[Term] = []
    owner = _head_of_columns(value, heads)
    for head in range(heads):
        found = []
        for side in (0, 1):
            own = sparse.coo_array((matrices[side][head] if matrices[side].dim() == 3 else matrices[side]).numpy())
            ends = into[side][own.row], value.rows_along(side)[own.col]
            shape = axis.sizes[side], value.axis.sizes[side]
            found.append(sparse.csr_array(sparse.coo_array((own.data, ends), shape=shape).tocsr()))
        rule: Rule = Recorded(axis, value.axis, (found[0], found[1]), of_features)
        for term in value.form.terms:
            mine = owner[term.start : term.start + term.width] == head
            if mine.any():
                weight = term.weight if mine.all() else term.dense_weight * mine
                terms.append(replace(term, coefficients=rule, weight=weight))
    form = Form(tuple(terms), None, value.width, value.form.name)
    places = []
    for side in (0, 1):
        columns = value.columns(side)
        dimension = value.row_dimension()
        assert dimension is not None
        one = (
            np.moveaxis(columns, dimension, 0)[:1]
            if columns.shape[dimension]
            else np.zeros((1, *[s for d, s in enumerate(columns.shape) if d != dimension]), dtype=np.int64)
        )
        wide = into[side].reshape(-1, *[1] * (one.ndim - 1)) * value.width + one
        places.append(torch.from_numpy(np.moveaxis(wide, 0, dimension).copy()))
    return Value(form, axis, (places[0], places[1]))


def _head_of_columns(value: Value, heads: int) -> IntArray:
    """The head of each column, the first dimension of the tensor being that of heads."""
    owner = np.zeros(value.width, dtype=np.int64)
    if heads > 1:
        columns = value.columns(1)
        if columns.shape[0] != heads:
            raise InputError("multiplies a batch of matrices with something of another batch.")
        for head in range(heads):
            owner[np.unique(columns[head])] = head
    return owner
