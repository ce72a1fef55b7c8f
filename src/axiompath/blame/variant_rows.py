"""The places of a layer and their variants: what sees what, and where the rows of each begin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.rows import entries_of
from ..native.variants import Edges, Rows, add_attention, add_products
from .factors import Scores
from .views import Views, count_bits

Masks = NDArray[np.uint64]  # [n, num_words]: changes as bits


class IncomingEdges(NamedTuple):
    """Edges by receiver, with the condition of each, -1 for always."""

    indptr: IntArray
    senders: IntArray
    weights: FloatArray
    condition: IntArray
    number: IntArray  # of each edge in the field

    @property
    def largest_degree(self) -> int:
        """Edges into one node."""
        return int(np.diff(self.indptr).max(initial=0))

    def on(self, hold: BoolArray, below: Seen) -> Edges:
        """As kernels take them: with the conditions that hold, and the rows of the layer below."""
        rows = Rows(below.base, below.group, below.inverse)
        return Edges(self.indptr, self.senders, self.condition, hold.view(np.uint8), below.place, rows)

    def list_edges(self, hold: BoolArray, listed: ListedRows) -> tuple[IntArray, IntArray]:
        """The edges into each of these variants: place of the variant in the list, and number of the edge."""
        edges = entries_of(self.indptr, listed.node)
        at = np.repeat(np.arange(len(listed.node)), self.indptr[listed.node + 1] - self.indptr[listed.node])
        conditional = self.condition[edges] >= 0
        there = ~conditional
        there[conditional] = hold[self.condition[edges][conditional], listed.subset[at[conditional]]]
        return at[there], edges[there]


class Layout(NamedTuple):
    """The places of a layer by what they see, whatever the subsets are."""

    nodes: IntArray  # [num_places]
    place: IntArray  # [num_nodes]: number of the place, -1 for none
    masks: Masks  # [num_groups, num_words]: what is seen; the first sees nothing
    group: IntArray  # [num_places]
    constant: IntArray  # places that see nothing
    varying: IntArray  # the others
    num_seen: IntArray  # [num_groups]


class ListedRows(NamedTuple):
    """Variants of places, one by one."""

    node: IntArray
    subset: IntArray  # one of those that make this variant
    row: IntArray


class VariantRows(NamedTuple):
    """The places of a layer, and one subset for each of their variants."""

    nodes: IntArray  # [num_places]
    base: IntArray  # [num_places]
    group: IntArray  # [num_places]
    starts: IntArray  # [num_groups + 1]
    subsets: IntArray  # of each group, one after the other

    def of(self, places: IntArray) -> VariantRows:
        """Some of the places."""
        return self._replace(nodes=self.nodes[places], base=self.base[places], group=self.group[places])

    def list_rows(self) -> ListedRows:
        """All variants of all places, one place after the other."""
        counts = np.diff(self.starts)[self.group]
        place = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        return ListedRows(
            self.nodes[place], self.subsets[self.starts[self.group[place]] + number], self.base[place] + number
        )


class Seen(NamedTuple):
    """Rows of the layer below."""

    place: IntArray  # [num_nodes]: number of the place, -1 for none
    base: IntArray  # [num_places]
    group: IntArray  # [num_places]
    inverse: NDArray[np.int32]  # [num_groups, num_subsets]

    def rows_of(self, nodes: IntArray, subsets: IntArray) -> IntArray:
        """The row of each node that each subset makes."""
        place = self.place[nodes]
        return np.asarray(self.base[place] + self.inverse[self.group[place], subsets])


class Scales(NamedTuple):
    """A number for each node and variant of the edges into it."""

    base: IntArray  # [num_nodes]
    group: IntArray  # [num_nodes]
    inverse: NDArray[np.int32]
    values: FloatArray

    @property
    def rows(self) -> Rows:
        """Where the number of each is, as kernels take it."""
        return Rows(self.base, self.group, self.inverse)


class Products(NamedTuple):
    """Coefficients that are products: of a receiver's factor, an edge's weight and a sender's factor."""

    edges: IncomingEdges
    left: Scales
    right: Scales
    diagonal: FloatArray  # of each row of `left`; none for none
    loops_apart: bool  # whether edges from a node to itself lie on the diagonal

    def add(self, hold: BoolArray, wanted: VariantRows, below: Seen, projected: FloatArray, z: FloatArray) -> None:
        """z[V] += left[V] * sum over U of weight * right[U] * projected[U], plus diagonal[V] * projected[V]."""
        scratch = np.empty((2, projected.shape[1]))
        add_products(
            self.edges.on(hold, below), self.edges.weights, self.left.rows, self.left.values, self.right.rows,
            self.right.values, self.diagonal, self.loops_apart, *wanted, projected,
            np.empty(self.edges.largest_degree, dtype=np.int64), *scratch, z,
        )  # fmt: skip


class Attended(NamedTuple):
    """Coefficients that are shares of an attention."""

    edges: IncomingEdges
    scores: Scores
    self_loops: bool

    def add(self, hold: BoolArray, wanted: VariantRows, below: Seen, projected: FloatArray, z: FloatArray) -> None:
        """z[V] += sum over U of softmax(score[V, U]) * projected[U]."""
        size = self.edges.largest_degree + 1
        keys, queries = np.ascontiguousarray(self.scores.keys), np.ascontiguousarray(self.scores.queries)
        add_attention(
            self.edges.on(hold, below), keys, queries, *self.scores[2:], self.self_loops, *wanted, projected,
            np.empty(size, dtype=np.int64), np.empty(size), z,
        )  # fmt: skip


def join_rows(indptr: IntArray, masks: Masks) -> Masks:
    """The union of the masks of each row's entries. [num_rows, num_words]."""
    found = np.zeros((len(indptr) - 1, masks.shape[1]), dtype=np.uint64)
    some = np.flatnonzero(np.diff(indptr))
    if len(some):
        found[some] = np.bitwise_or.reduceat(masks, indptr[some], axis=0)
    return found


def lay_out(nodes: IntArray, masks: Masks) -> Layout:
    """These places by what they see; masks: [num_nodes, num_words]."""
    rows = np.zeros((1 + len(nodes), masks.shape[1]), dtype=np.uint64)
    rows[1:] = masks[nodes]
    # As plain bytes, which sort faster than columns do; the empty mask comes first.
    _, first, group = np.unique(rows.view(f"V{8 * rows.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    unique, group = rows[first], group[1:].astype(np.int64)
    place = np.full(len(masks), -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    constant, varying = np.flatnonzero(group == 0), np.flatnonzero(group)
    return Layout(nodes, place, unique, group, constant, varying, count_bits(unique))


def first_rows(views: Views, group: IntArray) -> IntArray:
    """The first row of each place, where each has one for every kind of its group. [num_places]."""
    return np.asarray(np.concatenate([[0], np.cumsum(np.diff(views.starts)[group])])[:-1], dtype=np.int64)
