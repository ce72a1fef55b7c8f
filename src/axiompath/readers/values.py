"""Value: an affine expression on rows, and which of its numbers stands in each element of the model's tensor.

The expression is a Form over bases, the same for both snapshots. Where the model's tensor has its rows and columns,
transposed, split into heads or chosen in part, is a tensor of places for each snapshot. A view moves places and leaves
the expression as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..network.coefficients import Identity, Rule
from .forms import Form, Term
from .rows import Axis, Recorded, scale_rows

Pair = tuple[torch.Tensor, torch.Tensor]  # of before and of after


@dataclass(frozen=True, eq=False)
class InRows(Sequence[torch.Tensor]):
    """Places of tensors [num_rows, width] that are tables: row i of the tensor is row rows[i], columns in order.

    Nearly all tensors of a model are. Their places are written out only where an operation looks at single elements.
    """

    rows: tuple[IntArray, IntArray]
    width: int
    written: dict[int, torch.Tensor] = field(default_factory=dict)

    def __getitem__(self, side: Any) -> Any:
        """Those of one graph, written out."""
        if side not in self.written:
            first = torch.from_numpy(np.asarray(self.rows[side], dtype=np.int64))
            self.written[side] = first[:, None] * self.width + torch.arange(self.width)
        return self.written[side]

    def __len__(self) -> int:
        """Of both graphs."""
        return 2


def on_each(function: Callable[..., sparse.csr_array], *pairs: Any) -> tuple[sparse.csr_array, sparse.csr_array]:
    """function(*arguments) on both graphs, made once where all arguments, in pairs, are the same on both."""
    first, second = zip(*pairs, strict=True)
    made = function(*first)
    alike = all(a is b or (not sparse.issparse(a) and np.array_equal(a, b)) for a, b in pairs)
    return made, made if alike else function(*second)


@dataclass(frozen=True, eq=False)
class Origin:
    """What rows were chosen from: columns are the same on either side."""

    form: Form
    axis: Axis
    rows: tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class Value:
    """What a recorded tensor holds, in both snapshots."""

    form: Form
    axis: Axis
    places: Pair | InRows  # of each element: row * width + column
    origin: Origin | None = None  # where nothing but functions of single rows was done since they were chosen

    @property
    def width(self) -> int:
        """Columns of the form."""
        return self.form.width

    @property
    def table_rows(self) -> tuple[IntArray, IntArray] | None:
        """The row of each row of the tensors, where these are tables [num_rows, width]."""
        places = self.places
        return places.rows if isinstance(places, InRows) and places.width == self.width else None

    @property
    def shapes(self) -> tuple[torch.Size, torch.Size]:
        """Of the tensors."""
        if isinstance(self.places, InRows):
            first, second = (torch.Size((len(rows), self.places.width)) for rows in self.places.rows)
            return first, second
        return self.places[0].shape, self.places[1].shape

    def rows(self, side: int) -> IntArray:
        """Row of each element."""
        if self.table_rows is not None:
            return np.array(np.broadcast_to(self.table_rows[side][:, None], self.shapes[side]))
        return np.asarray(self.places[side].numpy() // max(self.width, 1))

    def columns(self, side: int) -> IntArray:
        """Column of each element."""
        if self.table_rows is not None:
            return np.array(np.broadcast_to(np.arange(self.width), self.shapes[side]))
        return np.asarray(self.places[side].numpy() % max(self.width, 1))

    def arranged(self) -> Value:
        """The same with the columns of each row in the order of the tensor, every one of them once."""
        if self.table_rows is not None:
            return self
        if all(_in_order(places, self.width) for places in self.places):
            if any(places.dim() != 2 for places in self.places):
                return self
            first, second = (places.numpy()[:, 0] // max(self.width, 1) for places in self.places)
            return replace(self, places=InRows((first, second), self.width))
        found, places = None, []
        for side in (0, 1):
            rows, columns = self.rows(side).reshape(-1), self.columns(side).reshape(-1)
            order = np.argsort(rows, kind="stable")
            count = np.unique(rows, return_counts=True)[1]
            if not len(count):
                places.append(self.places[side])
                continue
            if (count != count[0]).any():
                raise InputError("takes more columns of some rows than of others.")
            table = columns[order].reshape(len(count), count[0])
            if (table != table[0]).any() or (found is not None and not np.array_equal(found, table[0])):
                raise InputError("takes other columns of some rows than of others.")
            found = table[0]
            rank = np.empty(len(rows), dtype=np.int64)
            rank[order] = np.tile(np.arange(count[0]), len(count))
            places.append(torch.from_numpy((rows * count[0] + rank).reshape(self.places[side].shape)))
        if found is None:  # no rows: only how many columns they would have is known
            found = np.zeros(int(np.prod([size for size in self.places[1].shape if size])), dtype=np.int64)
            return replace(self, form=self.form.select(found), origin=None)
        if np.array_equal(found, np.arange(self.width)):
            return replace(self, places=(places[0], places[1]))
        eye = np.eye(self.width)[:, found]
        return replace(self.mapped(eye), places=(places[0], places[1]))

    def mapped(self, matrix: FloatArray) -> Value:
        """Its columns times a matrix; its places are still those before it."""
        origin = None if self.origin is None else replace(self.origin, form=self.origin.form @ matrix)
        return replace(self, form=self.form @ matrix, origin=origin)

    def row_dimension(self) -> int | None:
        """The dimension of the tensor along which the rows lie; None where there is a single row, or no such."""
        if self.table_rows is not None and any(len(rows) > 1 and rows[0] != rows[-1] for rows in self.table_rows):
            return 0
        found = None
        for side in (1, 0):
            rows = self.rows(side)
            if rows.size == 0 or (rows == rows.reshape(-1)[0]).all():
                continue
            for d in range(rows.ndim):
                moved = np.moveaxis(rows, d, 0).reshape(rows.shape[d], -1)
                if (moved == moved[:, :1]).all():
                    found = d
                    break
            else:
                raise InputError("has rows along several dimensions at once.")
            break
        if found is None and all(places.dim() for places in self.places):
            sizes = {places.shape[0] for places in self.places}
            found = 0 if sizes == {1} or 0 in sizes else None
        return found

    def rows_along(self, side: int) -> IntArray:
        """The rows in the order of the tensor."""
        if self.table_rows is not None:
            return self.table_rows[side]
        dimension = self.row_dimension()
        assert dimension is not None
        rows = np.moveaxis(self.rows(side), dimension, 0)
        return np.asarray(rows.reshape(len(rows), -1)[:, 0]) if rows.size else np.zeros(0, dtype=np.int64)

    def table(self, tensors: Pair) -> tuple[FloatArray, FloatArray]:
        """Numbers of each element of an arranged value as rows and columns; 0 in rows that it does not take.

        A table of numbers that are the same in all columns has one column.
        """
        tables: list[FloatArray] = []
        for side, tensor in enumerate(tensors):
            if self.table_rows is not None:
                given = tensor[:, :1] if tensor.dim() == 2 and tensor.stride(1) == 0 else tensor
                width = 1 if given.dim() == 2 and given.shape[1] == 1 else self.width
                rows = self.table_rows[side]
                tables.append(np.zeros((self.axis.sizes[side], width)))
                tables[-1][rows] = given.expand(len(rows), width).numpy()
                continue
            table = np.zeros(self.axis.sizes[side] * self.width)
            table[self.places[side].reshape(-1).numpy()] = tensor.expand(self.places[side].shape).reshape(-1).numpy()
            tables.append(table.reshape(self.axis.sizes[side], self.width))
        if tables[0].shape[1] != tables[1].shape[1]:
            tables = [np.broadcast_to(table, (len(table), self.width)) for table in tables]
        return tables[0], tables[1]

    def listed(self, side: int) -> IntArray:
        """The rows that it takes."""
        rows = self.rows(side).reshape(-1) if self.table_rows is None else self.table_rows[side]
        return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)

    def expanded(self, shapes: tuple[torch.Size, torch.Size]) -> Value:
        """Broadcast to these shapes."""
        if self.shapes == shapes:
            return self
        first, second = (places.expand(shape) for places, shape in zip(self.places, shapes, strict=True))
        return replace(self, places=(first.contiguous(), second.contiguous()))


def _in_order(places: torch.Tensor, width: int) -> bool:
    """Whether each row has its columns once, in the order of the tensor."""
    flat = places.reshape(-1)
    if flat.numel() % max(width, 1):
        return False
    if places.dim() and places.shape[-1] == width and places.is_contiguous():
        by_row = flat.reshape(-1, width)
        return bool(
            (by_row - by_row[:, :1] == torch.arange(width)).all() and (by_row[:, 0] % width == 0).all()
        ) and len(torch.unique(by_row[:, 0])) == len(by_row)
    return False


def in_rows(num_rows: int, shape: torch.Size, dimension: int = 0, rows: IntArray | None = None) -> torch.Tensor:
    """Places of a tensor that has a row in each slice along a dimension: these rows, or the first ones."""
    rest = [size for d, size in enumerate(shape) if d != dimension]
    width = int(np.prod(rest))
    first = torch.arange(num_rows) if rows is None else torch.from_numpy(rows)
    found = first[:, None] * width + torch.arange(width)
    return found.reshape(num_rows, *rest).movedim(0, dimension)


def distinct_pairs(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Pairs of elements of two tensors of one shape, each once, in order. [2, num_pairs]."""
    if first.dim() > 1 and first.numel():
        tables = [one.reshape(first.shape[0], -1) for one in (first, second)]
        for alike in (np.s_[:, :1], np.s_[:1]):  # columns, or rows
            if all(bool((one == one[alike]).all()) for one in tables):
                tables = [one[alike] for one in tables]
                break
        first, second = tables
    most = int(second.max()) + 1 if second.numel() else 1
    keys = torch.unique(first.reshape(-1) * most + second.reshape(-1))
    return torch.stack([keys // most, keys % most])


def same_in_all(tables: tuple[FloatArray, FloatArray], listed: tuple[IntArray, IntArray]) -> FloatArray | None:
    """The row that all listed rows of both tables are; None where they differ."""
    first = [table[rows[:1]] for table, rows in zip(tables, listed, strict=True)]
    if len(first[0]) and len(first[1]) and not np.array_equal(first[0], first[1]):
        return None
    stacked = np.concatenate([table[rows] for table, rows in zip(tables, listed, strict=True)])
    if not len(stacked):
        return np.zeros(tables[0].shape[1])
    return stacked[0] if (stacked == stacked[0]).all() else None


def scaled(form: Form, axis: Axis, tables: tuple[FloatArray, FloatArray], *, of_features: bool) -> Form:
    """Every row and column times its own number; columns with the same numbers have one rule."""
    if all(table.shape[1] == 1 or (table == table[:, :1]).all() for table in tables):
        first, group = np.zeros(1, dtype=np.int64), np.zeros(form.width, dtype=np.int64)
    else:
        _, first, group = np.unique(np.concatenate(tables), axis=1, return_index=True, return_inverse=True)
        group = group.reshape(-1)
    made: dict[tuple[Rule, int], Rule] = {}
    terms = []
    for term in form.terms:
        own = group[term.start : term.start + term.width]
        for g in np.unique(own).tolist():
            factors = tables[0][:, first[g]], tables[1][:, first[g]]
            key = term.coefficients, g
            if key not in made:
                made[key] = rule_times(term.coefficients, axis, factors, of_features)
            weight = term.weight if (own == g).all() else term.dense_weight * (own == g)
            terms.append(replace(term, coefficients=made[key], weight=weight))
    return Form(tuple(terms), None, form.width, form.name)


def rule_times(rule: Rule, axis: Axis, factors: tuple[FloatArray, FloatArray], of_features: bool) -> Recorded:
    """A rule with each of its rows times a number."""
    if isinstance(rule, Recorded):
        found = on_each(scale_rows, rule.matrices, factors)
        return Recorded(rule.target, rule.source, found, rule.of_features or of_features, rule.local)
    assert rule == Identity()

    def diagonal(own: FloatArray) -> sparse.csr_array:
        return sparse.csr_array((own, np.arange(len(own)), np.arange(len(own) + 1)), shape=(len(own), len(own)))

    return Recorded(axis, axis, on_each(diagonal, factors), of_features, local=True)


def rule_of(term: Term) -> Recorded | None:
    """The recorded coefficients of a term, if it has any."""
    return term.coefficients if isinstance(term.coefficients, Recorded) else None
