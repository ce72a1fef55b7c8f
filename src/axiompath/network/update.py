"""(Network, before, after, ForwardPass on before) -> ForwardPass on after, computed only where a change reaches.

A node's z at layer t can differ only where its own row of coefficients differs, or where it takes from a node whose
input differs. Rows of coefficients are computed anew on a small snapshot that holds all edges which decide them (a
rule says how far it looks, see `coefficients`); everything else is copied from `before`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.adjacency import Incoming, rows_of_matrix, take_rows
from ..graphs.pair import Pair, match_snapshots
from ..graphs.rows import compare_edges, mark_receivers, mark_senders, replace_rows
from ..graphs.snapshot import Features, Snapshot, differing_features
from ..threads import run_in_pieces
from .coefficients import SOURCE_TO_TARGET, Rule
from .layers import ForwardPass, Layer, Network, project, run_network


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
    coefficients, inputs, preactivations = [], [], []
    h: Features = after.x
    differs = differing_features(before, after)
    for t, layer in enumerate(network.layers):
        stale = np.zeros(len(start.z[t]), dtype=np.bool_)
        matrices: dict[Rule, sparse.csr_array] = {}
        for rule, old in zip(layer.rules, start.coefficients[t], strict=True):
            if rule not in fixed:
                found = _renew(rule, old, after, along, h, differs)
                if not rule.reads_inputs:
                    fixed[rule] = found
            else:
                found = fixed[rule]
            matrices[rule] = found[0]
            stale |= found[1]
            taken = rows_of_matrix(found[0])
            run_in_pieces(mark_receivers, len(stale), taken.work, taken, differs, stale)
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
        if layer.rises:
            before, after, fixed = before.predicted, after.predicted, {}
            along.cache_clear()
    return ForwardPass(tuple(coefficients), tuple(inputs), tuple(preactivations))


def _renew(
    rule: Rule,
    old: sparse.csr_array,
    after: Snapshot,
    along: Callable[[str], Pair],
    h: Features,
    differs: BoolArray,
) -> tuple[sparse.csr_array, BoolArray]:
    """The rule's matrix on `after`, and which of its rows may differ from `before`'s. [num_nodes]."""
    if rule.reach is None:
        matrix = rule.matrix(after, h)
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
    new = _rows_of_rule(rule, after, pair.after.edges, h, rows)
    return _with_rows(old, rows, new), stale


def _rows_of_rule(rule: Rule, snapshot: Snapshot, edges: Incoming, h: Features, rows: IntArray) -> sparse.csr_array:
    """Rows of the rule's matrix, computed on a snapshot of their surroundings. [len(rows), num_nodes]."""
    inside = np.zeros(snapshot.num_nodes, dtype=np.bool_)
    inside[rows] = True
    for _ in range(rule.reach or 0):
        mark_senders(edges, np.flatnonzero(inside), inside)
    receivers = np.flatnonzero(inside)
    taken = take_rows(edges, receivers)
    inside[taken.senders] = True
    nodes = np.flatnonzero(inside)
    position = np.cumsum(inside) - 1
    ends = position[taken.senders], position[np.repeat(receivers, np.diff(taken.indptr))]
    part = replace(
        snapshot,
        x=np.zeros((len(nodes), 0)),
        edge_index=np.stack(ends if rule.flow == SOURCE_TO_TARGET else ends[::-1]),
        edge_weight=None if snapshot.edge_weight is None else taken.values,
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
    replaced = Incoming(indptr, np.empty(size, dtype=np.int32), np.empty(size))
    replace_rows(rows_of_matrix(matrix), rows, rows_of_matrix(new), replaced)
    return sparse.csr_array((replaced.values, replaced.senders, replaced.indptr), shape=matrix.shape)


def _compute_rows(layer: Layer, matrices: dict[Rule, sparse.csr_array], h: Features, rows: IntArray) -> FloatArray:
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
