"""(Network, before, after, ForwardPass on before) -> ForwardPass on after, computed only where a change reaches.

A node's z at layer t can differ only where its own row of coefficients differs, or where it takes from a node whose
input differs. Rows of coefficients are computed anew on a small snapshot that holds all edges which decide them (a
rule says how far it looks, see `coefficients`); everything else is copied from `before`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.rows import compare_edges, compare_rows, entries_of, mark_receivers, replace_rows, sort_by_receiver
from ..graphs.snapshot import Features, Snapshot, differing_features
from ..threads import run_in_pieces
from .coefficients import SOURCE_TO_TARGET, Coefficients, reach_of
from .layers import ForwardPass, Layer, Network, project, run_network

ROW_WORK = 4  # operations to look at one entry, roughly


@dataclass(frozen=True, eq=False)
class Incoming:
    """The edges of a snapshot by the node that receives along them."""

    indptr: IntArray  # [num_nodes + 1]
    edges: IntArray  # [num_edges]: positions in edge_index
    senders: NDArray[np.int32]  # [num_edges]


class Reach:
    """Which nodes a change touches, and whom they send to; found once for each direction of flow."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before, after
        self._incoming: dict[str, tuple[Incoming, Incoming]] = {}
        self._touched: dict[str, BoolArray] = {}

    def incoming(self, flow: str) -> tuple[Incoming, Incoming]:
        """Edges of both snapshots by receiver."""
        if flow not in self._incoming:
            self._incoming[flow] = sort_edges(self.before, flow), sort_edges(self.after, flow)
        return self._incoming[flow]

    def touched(self, flow: str) -> BoolArray:
        """Nodes that receive along other edges than before, or that one snapshot alone has. [num_nodes]."""
        if flow not in self._touched:
            sides: list[NDArray[Any]] = []
            for snapshot, edges in zip((self.before, self.after), self.incoming(flow), strict=True):
                weights = np.zeros(0) if snapshot.edge_weight is None else snapshot.edge_weight[edges.edges]
                sides += [edges.indptr, edges.senders, weights]
            differ = self.before.present != self.after.present
            run_in_pieces(compare_edges, len(differ), len(sides[1]) * ROW_WORK, *sides, differ)
            self._touched[flow] = differ
        return self._touched[flow]

    def receivers(self, nodes: BoolArray, flow: str) -> BoolArray:
        """Nodes that take from one of these in either snapshot. [num_nodes]."""
        found = np.zeros_like(nodes)
        if nodes.any():
            for edges in self.incoming(flow):
                run_in_pieces(
                    mark_receivers, len(nodes), len(edges.senders) * ROW_WORK, edges.indptr, edges.senders, nodes, found
                )
        return found


def run_pair(network: Network, before: Snapshot, after: Snapshot) -> tuple[ForwardPass, ForwardPass]:
    """The forward passes on two aligned snapshots, the same to the last bit on any number of cores."""
    # The rounding of a product may depend on how many threads share it.
    with threadpool_limits(1):
        start = run_network(network, before)
        return start, rerun_network(network, before, after, start)


def rerun_network(network: Network, before: Snapshot, after: Snapshot, start: ForwardPass) -> ForwardPass:
    """The forward pass on `after`, given the one on `before`; both snapshots are numbered alike."""
    reach = Reach(before, after)
    fixed: dict[Coefficients, tuple[sparse.csr_array, BoolArray]] = {}
    coefficients, inputs, preactivations = [], [], []
    h: Features = after.x
    differs = differing_features(before, after)
    for t, layer in enumerate(network.layers):
        stale = np.zeros(after.num_nodes, dtype=np.bool_)
        matrices: dict[Coefficients, sparse.csr_array] = {}
        for rule, old in zip(layer.rules, start.coefficients[t], strict=True):
            if rule not in fixed:
                found = _renew(rule, old, reach, h, differs)
                if not rule.reads_inputs:
                    fixed[rule] = found
            else:
                found = fixed[rule]
            matrices[rule] = found[0]
            stale |= found[1]
            run_in_pieces(
                mark_receivers, len(stale), found[0].nnz * ROW_WORK, found[0].indptr, found[0].indices, differs, stale
            )
        rows = np.flatnonzero(stale)
        z = start.z[t]
        if len(rows):
            z = z.copy()
            z[rows] = _compute_rows(layer, matrices, h, rows)
        coefficients.append(tuple(matrices[rule] for rule in layer.rules))
        inputs.append(h)
        preactivations.append(z)
        if t + 1 < len(network.layers):
            h = start.inputs[t + 1]
            if len(rows):
                h = np.array(h)
                h[rows] = layer.activate(z[rows])
        differs = stale
    return ForwardPass(tuple(coefficients), tuple(inputs), tuple(preactivations))


def sort_edges(snapshot: Snapshot, flow: str) -> Incoming:
    """Edges by receiver, in the user's order within a row."""
    senders, receivers = snapshot.edge_index if flow == SOURCE_TO_TARGET else snapshot.edge_index[::-1]
    indptr = np.zeros(snapshot.num_nodes + 1, dtype=np.int64)
    edges = np.empty(len(senders), dtype=np.int64)
    sorted_senders = np.empty(len(senders), dtype=np.int32)
    sort_by_receiver(np.ascontiguousarray(receivers), np.ascontiguousarray(senders), indptr, edges, sorted_senders)
    return Incoming(indptr, edges, sorted_senders)


def _renew(
    rule: Coefficients, old: sparse.csr_array, reach: Reach, h: Features, differs: BoolArray
) -> tuple[sparse.csr_array, BoolArray]:
    """The rule's matrix on `after`, and which of its rows may differ from `before`'s. [num_nodes]."""
    looks = reach_of(rule)
    if looks is None:
        matrix = rule.matrix(reach.after, h)
        matrix.sort_indices()
        stale = np.zeros(len(differs), dtype=np.bool_)
        sides = old.indptr, old.indices, old.data, matrix.indptr, matrix.indices, matrix.data
        run_in_pieces(compare_rows, len(stale), old.nnz * ROW_WORK, *sides, stale)
        return matrix, stale
    flow = getattr(rule, "flow", SOURCE_TO_TARGET)
    stale = reach.touched(flow).copy()
    if looks:
        stale |= reach.receivers(stale, flow)
    if rule.reads_inputs:
        stale |= differs
        if not rule.local:
            stale |= reach.receivers(differs, flow)
    rows = np.flatnonzero(stale)
    if len(rows) == 0:
        return old, stale
    new = _rows_of_rule(rule, reach.after, reach.incoming(flow)[1], h, rows, looks)
    return _with_rows(old, rows, new), stale


def _rows_of_rule(
    rule: Coefficients, snapshot: Snapshot, incoming: Incoming, h: Features, rows: IntArray, looks: int
) -> sparse.csr_array:
    """Rows of the rule's matrix, computed on a snapshot of their surroundings. [len(rows), num_nodes]."""
    inside = np.zeros(snapshot.num_nodes, dtype=np.bool_)
    inside[rows] = True
    for _ in range(looks):
        inside[incoming.senders[entries_of(incoming.indptr, np.flatnonzero(inside))]] = True
    entries = entries_of(incoming.indptr, np.flatnonzero(inside))
    inside[incoming.senders[entries]] = True
    nodes = np.flatnonzero(inside)
    position = np.cumsum(inside) - 1
    edges = incoming.edges[entries]
    part = replace(
        snapshot,
        x=np.zeros((len(nodes), 0)),
        edge_index=position[snapshot.edge_index[:, edges]],
        edge_weight=None if snapshot.edge_weight is None else snapshot.edge_weight[edges],
        node_ids=snapshot.node_ids[nodes],
        present=snapshot.present[nodes],
        unseen=None if snapshot.unseen is None else snapshot.unseen[:, nodes],
    )
    matrix = rule.matrix(part, h[nodes] if rule.reads_inputs else part.x)[position[rows]]
    matrix.sort_indices()
    # Nodes are ascending, so that sorted columns stay sorted.
    return sparse.csr_array(
        (matrix.data, nodes[matrix.indices].astype(np.int32), matrix.indptr), shape=(len(rows), snapshot.num_nodes)
    )


def _with_rows(matrix: sparse.csr_array, rows: IntArray, new: sparse.csr_array) -> sparse.csr_array:
    dropped = (matrix.indptr[rows + 1] - matrix.indptr[rows]).sum()
    size = int(matrix.nnz - dropped + new.nnz)
    indptr = np.zeros(len(matrix.indptr), dtype=np.int64)
    indices, data = np.empty(size, dtype=np.int32), np.empty(size)
    replace_rows(
        matrix.indptr, matrix.indices, matrix.data, rows, new.indptr, new.indices, new.data, indptr, indices, data
    )
    return sparse.csr_array((data, indices, indptr), shape=matrix.shape)


def _compute_rows(
    layer: Layer, matrices: dict[Coefficients, sparse.csr_array], h: Features, rows: IntArray
) -> FloatArray:
    """z of some nodes, [len(rows), width]: only what they take from is projected."""
    z = np.zeros((len(rows), layer.width))
    for channel in layer.channels:
        taken = matrices[channel.coefficients][rows]
        used = np.zeros(taken.shape[1], dtype=np.bool_)
        used[taken.indices] = True
        senders = np.flatnonzero(used)
        local = sparse.csr_array(
            (taken.data, (np.cumsum(used) - 1)[taken.indices], taken.indptr), shape=(len(rows), len(senders))
        )
        z[:, channel.outputs] += local @ project(h[senders], channel)
    if layer.bias is not None:
        z += layer.bias
    return z
