"""(Network, before, after) -> Change: what differs between two snapshots, coefficient by coefficient.

For every layer, rule and pair (V, U) the two coefficients are split into what both snapshots share and what each has
alone,

    kept    kappa = the smaller of a_before, a_after in magnitude when they have the same sign, else 0
    gained  a_after - kappa          lost  a_before - kappa,

so that a_after h_after - a_before h_before = kappa (h_after - h_before) + gained h_after - lost h_before, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .activations import BoolArray, FloatArray, IntArray
from .kernels import spread_rows
from .network import ForwardPass, Network, project
from .snapshot import Snapshot, differing_features
from .states import AFTER, BEFORE, GAINED, KEPT, LOST


@dataclass(frozen=True, eq=False)
class LayerChange:
    """One layer's coefficients of both snapshots on their common pattern (CSR, rows receiving)."""

    indptr: IntArray  # [num_nodes + 1]
    indices: NDArray[np.int32]  # [num_entries]
    before: FloatArray  # [num_entries, num_rules]
    after: FloatArray  # [num_entries, num_rules]
    kept: FloatArray  # [num_entries, num_rules]
    marks: NDArray[np.uint8]  # [num_entries]: KEPT | GAINED | LOST | AFTER | BEFORE
    local: bool

    @cached_property
    def keys(self) -> IntArray:
        """V * num_nodes + U of every entry, ascending, to find entries by."""
        num_nodes = len(self.indptr) - 1
        return np.repeat(np.arange(num_nodes), np.diff(self.indptr)) * num_nodes + self.indices


@dataclass(frozen=True, eq=False)
class Descents:
    """Which entries a walk in delta can go over, row by row: an index into a LayerChange, a fraction of its entries."""

    indptr: IntArray  # [num_nodes + 1]
    entries: IntArray  # [num_descents]
    marks: NDArray[np.uint8]  # [num_entries]: the layer's marks, without KEPT where the sender cannot differ


@dataclass(frozen=True, eq=False)
class Change:
    """Two forward passes side by side, and which nodes can differ at all."""

    network: Network
    before: Snapshot
    after: Snapshot
    before_pass: ForwardPass
    after_pass: ForwardPass
    layers: tuple[LayerChange, ...]
    differs: tuple[BoolArray, ...]  # [num_nodes] for x and for each layer's h
    descents: tuple[Descents, ...]

    @property
    def num_nodes(self) -> int:
        """Nodes of both snapshots together."""
        return self.before.num_nodes

    @property
    def lowest_hop(self) -> int:
        """Index of the first layer that passes messages; a path's leaf value is what that layer receives.

        Layers below it stay at the leaf: everything they do to its features is part of the leaf's value.
        """
        return next(t for t, layer in enumerate(self.layers) if not layer.local)

    @cached_property
    def messages(self) -> tuple[FloatArray, FloatArray]:
        """What the channels of the lowest hop take from a leaf, h @ W before and after, side by side.

        [num_nodes, outputs of all channels] each.
        """
        t = self.lowest_hop
        channels = self.network.layers[t].channels
        after = np.hstack([project(self.after_pass.inputs[t], channel) for channel in channels])
        if not self.differs[t].any():
            return after, after
        return np.hstack([project(self.before_pass.inputs[t], channel) for channel in channels]), after

    @cached_property
    def rates(self) -> tuple[FloatArray | None, ...]:
        """Slope of phi at every node of a layer, [3, num_nodes, width], or None where phi is the identity.

        In the state delta: between the two snapshots; in after: from 0 to `after`; in before: from 0 to `before`.
        """
        rates: list[FloatArray | None] = []
        for layer, before, after in zip(self.network.layers, self.before_pass.z, self.after_pass.z, strict=True):
            zero = np.zeros_like(after)
            slopes = [layer.rates(*ends) for ends in ((before, after), (zero, after), (zero, before))]
            known = [slope for slope in slopes if slope is not None]
            rates.append(np.stack(known) if known else None)
        return tuple(rates)


def find_change(
    network: Network, before: Snapshot, after: Snapshot, before_pass: ForwardPass, after_pass: ForwardPass
) -> Change:
    """Compare the two passes layer by layer."""
    known: dict[tuple[int, ...], LayerChange] = {}
    layers, descents = [], []
    differs = [differing_features(before, after)]
    for t, layer in enumerate(network.layers):
        matrices = before_pass.coefficients[t], after_pass.coefficients[t]
        # Layers with the same rules share their matrices, hence their comparison.
        key = tuple(id(matrix) for side in matrices for matrix in side)
        if key not in known:
            known[key] = _compare(*matrices, layer.local)
        layers.append(known[key])
        descents.append(_find_descents(known[key], differs[-1]))
        differs.append(np.diff(descents[-1].indptr) > 0)
    return Change(network, before, after, before_pass, after_pass, tuple(layers), tuple(differs), tuple(descents))


def rows_of(indptr: IntArray, nodes: IntArray) -> IntArray:
    """Entries of these rows, one row after the other."""
    counts = indptr[nodes + 1] - indptr[nodes]
    offset = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(indptr[nodes], counts) + offset)


def _find_descents(layer: LayerChange, differs: BoolArray) -> Descents:
    """An entry lets a walk in delta down where its coefficient changed, or is kept and leads to a node that differs.

    A row with such an entry belongs to a node whose output can differ.
    """
    marks = np.where(differs[layer.indices], layer.marks, layer.marks & ~np.uint8(KEPT)).astype(np.uint8)
    entries = np.flatnonzero(marks & (KEPT | GAINED | LOST))
    return Descents(np.searchsorted(entries, layer.indptr), entries, marks)


def _compare(before: tuple[sparse.csr_array, ...], after: tuple[sparse.csr_array, ...], local: bool) -> LayerChange:
    pattern = sum(abs(matrix).sign() for matrix in (*before, *after))
    assert isinstance(pattern, sparse.csr_array)
    pattern.sort_indices()
    indptr, indices = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int32)
    a_before, a_after = (
        np.stack([_spread(indptr, indices, matrix) for matrix in side], axis=1) for side in (before, after)
    )
    same_sign = np.sign(a_before) == np.sign(a_after)
    kept = np.where(same_sign, np.where(np.abs(a_before) <= np.abs(a_after), a_before, a_after), 0.0)
    marks = np.zeros(len(indices), dtype=np.uint8)
    for mark, values in (
        (KEPT, kept != 0),
        (GAINED, a_after != kept),
        (LOST, a_before != kept),
        (AFTER, a_after != 0),
        (BEFORE, a_before != 0),
    ):
        marks |= np.where(values.any(axis=1), mark, 0).astype(np.uint8)
    return LayerChange(indptr, indices, a_before, a_after, kept, marks, local)


def _spread(indptr: IntArray, indices: NDArray[np.int32], matrix: sparse.csr_array) -> FloatArray:
    """The matrix's entries in the order of a wider pattern, 0 where it has none."""
    matrix.sort_indices()
    values = np.zeros(len(indices))
    spread_rows(indptr, indices, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, values)
    return values
