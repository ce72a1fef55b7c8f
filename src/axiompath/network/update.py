"""(Network, before, after, ForwardPass on before) -> ForwardPass on after, computed only where a change reaches.

A node's z at layer t can differ only where its own row of coefficients differs, or where it takes from a node whose
input differs. Rows of coefficients are computed anew on a small snapshot that holds all edges which decide them (a
rule says how far it looks, see `coefficients`); everything else is copied from `before`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.adjacency import Incoming, rows_of_matrix, take_rows
from ..graphs.data_fields import Features
from ..graphs.pair import Pair, match_snapshots
from ..graphs.rows import compare_edges, mark_receivers, mark_senders, replace_rows, sum_rows
from ..graphs.snapshot import Snapshot, differing_features, in_double
from ..graphs.values import types_of, weights_of
from ..native.threads import run_in_pieces
from .coefficients import SOURCE_TO_TARGET, Rule
from .layers import ForwardPass, Layer, Network, pieces_of, project, run_network

Inflow: TypeAlias = Callable[[IntArray | None], Features]  # rows, or None for all -> what a layer receives of them


def run_pair(network: Network, before: Snapshot, after: Snapshot) -> tuple[ForwardPass, ForwardPass]:
    """The forward passes on two aligned snapshots, the same to the last bit on any number of cores."""
    # The rounding of a product may depend on how many threads share it.
    with threadpool_limits(1):
        start = run_network(network, before)
        return start, rerun_network(network, before, after, start)


def rerun_network(network: Network, before: Snapshot, after: Snapshot, start: ForwardPass) -> ForwardPass:
    """The forward pass on `after`, given the one on `before`; both snapshots are numbered alike."""

    @cache
    def along(flow: str) -> Pair:
        return match_snapshots(before, after, backwards=flow != SOURCE_TO_TARGET)

    fixed: dict[Rule, tuple[sparse.csr_array, BoolArray]] = {}
    coefficients: list[tuple[sparse.csr_array, ...]] = []
    preactivations: list[FloatArray] = []
    x = after.x

    def received(rows: IntArray | None) -> Features:
        """What the next layer receives of these rows or of all, made when asked for: never held beside z."""
        below, made = (x, in_double) if not preactivations else (preactivations[-1], network.layers[t - 1].activate)
        return made(below if rows is None else below[rows])

    differs = differing_features(before, after)
    for t, layer in enumerate(network.layers):
        stale = np.zeros(len(start.z[t]), dtype=np.bool_)
        matrices: dict[Rule, sparse.csr_array] = {}
        for rule, old in zip(layer.rules, start.coefficients[t], strict=True):
            if rule not in fixed:
                found = _renew(rule, old, after, along, received, differs)
                if not rule.reads_inputs:
                    fixed[rule] = found
            else:
                found = fixed[rule]
            matrices[rule] = found[0]
            stale |= found[1]
            taken = rows_of_matrix(found[0])
            run_in_pieces(mark_receivers, len(stale), taken.work, taken, differs, stale)
        if all(rule in fixed for later in network.layers[t + 1 :] for rule in later.rules):
            along.cache_clear()  # edges by receiver, which nobody asks for any more
        rows = np.flatnonzero(stale)
        z = start.z[t]
        if len(rows):
            z = z.copy()
            _compute_rows(layer, matrices, received, rows, z)
        coefficients.append(tuple(matrices[rule] for rule in layer.rules))
        preactivations.append(z)
        differs = stale
        if layer.rises:
            before, after, fixed = before.predicted, after.predicted, {}
            along.cache_clear()
    return ForwardPass(network.layers, x, tuple(coefficients), tuple(preactivations))


def _renew(
    rule: Rule,
    old: sparse.csr_array,
    after: Snapshot,
    along: Callable[[str], Pair],
    received: Inflow,
    differs: BoolArray,
) -> tuple[sparse.csr_array, BoolArray]:
    """The rule's matrix on `after`, and which of its rows may differ from `before`'s. [num_nodes]."""
    if rule.reach is None or after.edge_rows is not None:
        matrix = rule.matrix(after, received(None))
        matrix.sort_indices()
        stale = np.zeros(matrix.shape[0], dtype=np.bool_)
        rows_before = rows_of_matrix(old)
        run_in_pieces(compare_edges, len(stale), rows_before.work, rows_before, rows_of_matrix(matrix), stale)
        return matrix, stale
    pair = along(rule.flow)
    stale = pair.touched.copy()
    if rule.reach:
        stale |= pair.receivers(stale)
    if rule.reads_inputs:
        stale |= differs
        if not rule.local:
            stale |= pair.receivers(differs)
    rows = np.flatnonzero(stale)
    if len(rows) == 0:
        return old, stale
    new = _rows_of_rule(rule, after, pair.after.edges, received, rows)
    return _with_rows(old, rows, new), stale


def _rows_of_rule(
    rule: Rule, snapshot: Snapshot, edges: Incoming, received: Inflow, rows: IntArray
) -> sparse.csr_array:
    """Rows of the rule's matrix, computed on a snapshot of their surroundings. [len(rows), num_nodes]."""
    inside = np.zeros(snapshot.num_nodes, dtype=np.bool_)
    inside[rows] = True
    # Of edges that have no weights a count is exact, and stands for those into the senders.
    counted = rule.heeds_unseen and snapshot.edge_values is None
    for _ in range(0 if counted else rule.reach or 0):
        mark_senders(edges, np.flatnonzero(inside), inside)
    receivers = np.flatnonzero(inside)
    taken = take_rows(edges, receivers)
    senders, targets = taken.senders, np.repeat(receivers, np.diff(taken.indptr))
    inside[senders] = True
    nodes = np.flatnonzero(inside)
    position = np.cumsum(inside) - 1
    unseen = None if snapshot.unseen is None else snapshot.unseen[:, nodes]
    if counted:
        inside[receivers] = False
        beyond = np.flatnonzero(inside)
        sums, num_loops = np.zeros((2, len(beyond))), np.zeros(len(beyond), dtype=np.int64)
        sum_rows(edges, beyond, sums, num_loops)
        unseen = np.zeros((2, len(nodes))) if unseen is None else unseen
        unseen[:, position[beyond]] += sums
        loops = np.repeat(beyond, num_loops)
        senders, targets = np.concatenate([senders, loops]), np.concatenate([targets, loops])
    ends = position[senders], position[targets]
    part = replace(
        snapshot,
        x=np.zeros((len(nodes), 0)),
        edges=np.stack(ends if rule.flow == SOURCE_TO_TARGET else ends[::-1]),
        edge_weight=None if snapshot.edge_weight is None else weights_of(taken.values),
        edge_types=types_of(taken.values),
        node_types=None if snapshot.node_types is None else snapshot.node_types[nodes],
        node_ids=snapshot.node_ids[nodes],
        present=snapshot.present[nodes],
        unseen=unseen,
    )
    matrix = rule.matrix(part, received(nodes) if rule.reads_inputs else part.x)[position[rows]]
    matrix.sort_indices()
    # Nodes are ascending, so that sorted columns stay sorted.
    return sparse.csr_array(
        (matrix.data, nodes[matrix.indices].astype(np.int32), matrix.indptr), shape=(len(rows), snapshot.num_nodes)
    )


def _with_rows(matrix: sparse.csr_array, rows: IntArray, new: sparse.csr_array) -> sparse.csr_array:
    dropped = (matrix.indptr[rows + 1] - matrix.indptr[rows]).sum()
    size = int(matrix.nnz - dropped + new.nnz)
    # As wide as scipy would have it: of wide ones it would copy the columns, to as many bytes.
    indptr = np.zeros(len(matrix.indptr), dtype=np.int32 if size <= np.iinfo(np.int32).max else np.int64)
    replaced = Incoming(indptr, np.empty(size, dtype=np.int32), np.empty(size))
    replace_rows(rows_of_matrix(matrix), rows, rows_of_matrix(new), replaced)
    return sparse.csr_array((replaced.values, replaced.senders, replaced.indptr), shape=matrix.shape)


def _compute_rows(
    layer: Layer, matrices: dict[Rule, sparse.csr_array], received: Inflow, rows: IntArray, z: FloatArray
) -> None:
    """Put z of some nodes in their rows: only what they take from is projected, and never much of it at a time."""
    z[rows] = 0.0 if layer.bias is None else layer.bias
    for channel in layer.channels:
        matrix = matrices[channel.coefficients]
        used = np.zeros(matrix.shape[1], dtype=np.bool_)
        mark_senders(rows_of_matrix(matrix), rows, used)
        senders, place = np.flatnonzero(used), np.cumsum(used) - 1
        message = np.empty((len(senders), channel.outputs.stop - channel.outputs.start))
        for piece in pieces_of(len(senders), channel.inputs.stop):
            message[piece] = project(received(senders[piece]), channel)
        entries = max(int(matrix.nnz / max(matrix.shape[0], 1)), 1)
        for piece in pieces_of(len(rows), entries):
            taken = matrix[rows[piece]]
            shape = (taken.shape[0], len(senders))
            local = sparse.csr_array((taken.data, place[taken.indices], taken.indptr), shape=shape)
            z[rows[piece], channel.outputs] += local @ message
