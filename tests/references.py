"""Slow, literal twins of the fast code: each follows the definition word by word, one path and one neuron at a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

DELTA, AFTER, BEFORE = "delta", "after", "before"


def dense(x):
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


@dataclass
class LiteralPass:
    """z and h of every layer, and its coefficients: layer -> channel -> {(V, U): a}."""

    coefficients: list
    z: list
    h: list  # h[0] is x


def entries(matrix):
    """{(V, U): a} of a sparse matrix."""
    matrix = matrix.tocoo()
    return {(int(v), int(u)): float(a) for v, u, a in zip(matrix.row, matrix.col, matrix.data, strict=True)}


def literal_forward(network, snapshot):
    """The normal form's two lines, message for message."""
    h = [dense(snapshot.x)]
    coefficients, preactivations = [], []
    for layer in network.layers:
        matrices = [entries(channel.coefficients.matrix(snapshot, h[-1])) for channel in layer.channels]
        z = np.zeros((snapshot.num_nodes, layer.width))
        for channel, a in zip(layer.channels, matrices, strict=True):
            for v, u in a:
                message = h[-1][u, channel.inputs]
                if channel.weight is not None:
                    message = message @ channel.weight
                z[v, channel.outputs] += a[v, u] * message
        if layer.bias is not None:
            z += layer.bias
        new = z.copy()
        for block in layer.blocks:
            if block.activation is not None:
                new[:, block.outputs] = block.activation.value(z[:, block.outputs])
        coefficients.append(matrices)
        preactivations.append(z)
        h.append(new)
    return LiteralPass(coefficients, preactivations, h)


def literal_split(before, after):
    """kept, gained, lost of one coefficient."""
    kept = 0.0
    if before * after > 0:
        kept = before if abs(before) <= abs(after) else after
    return kept, after - kept, before - kept


class LiteralAttribution:
    """Every altered path of one target and its contribution, from the table of states, by recursion."""

    def __init__(self, network, before, after):
        self.network = network
        self.presence = before.present != after.present
        self.passes = {BEFORE: literal_forward(network, before), AFTER: literal_forward(network, after)}
        self.known = {}
        self.neighbours = []  # layer -> V -> every U with a coefficient in some channel of some snapshot
        for t in range(len(network.layers)):
            found = defaultdict(set)
            for side in self.passes.values():
                for a in side.coefficients[t]:
                    for v, u in a:
                        found[v].add(u)
            self.neighbours.append({v: sorted(senders) for v, senders in found.items()})

    def coefficients(self, t, v, u):
        """(kept, gained, lost, a_after, a_before), each one number a channel."""
        pairs = [
            tuple(self.passes[side].coefficients[t][k].get((v, u), 0.0) for side in (BEFORE, AFTER))
            for k in range(len(self.network.layers[t].channels))
        ]
        parts = [literal_split(*pair) for pair in pairs]
        return tuple(
            np.array(column) for column in (*zip(*parts, strict=True), [p[1] for p in pairs], [p[0] for p in pairs])
        )

    def can_differ(self, v, t):
        """Whether h^t of node v can differ between the snapshots (t = 0: its features)."""
        if (v, t) not in self.known:
            if t == 0:
                x_before, x_after = self.passes[BEFORE].h[0][v], self.passes[AFTER].h[0][v]
                self.known[v, t] = bool((x_before != x_after).any() or self.presence[v])
            else:
                self.known[v, t] = any(
                    gained.any() or lost.any() or (kept.any() and self.can_differ(u, t - 1))
                    for u in self.neighbours[t - 1].get(v, ())
                    for kept, gained, lost, _, _ in [self.coefficients(t - 1, v, u)]
                )
        return self.known[v, t]

    def rate(self, state, v, t):
        """Rate at node v and layer t (1-based) in a state, a number a neuron."""
        z_before, z_after = self.passes[BEFORE].z[t - 1][v], self.passes[AFTER].z[t - 1][v]
        start, end = {
            DELTA: (z_before, z_after),
            AFTER: (0 * z_after, z_after),
            BEFORE: (0 * z_before, z_before),
        }[state]
        rates = np.ones(len(end))
        for block in self.network.layers[t - 1].blocks:
            if block.activation is not None:
                rates[block.outputs] = block.activation.rate(start[None, block.outputs], end[None, block.outputs])[0]
        return rates

    def climb(self, value, steps):
        """Carry a vector up: steps are (t, per-channel coefficients, state and node above), lowest first."""
        for t, coefficient, state, v in steps:
            layer = self.network.layers[t - 1]
            z = np.zeros(layer.width)
            for a, channel in zip(coefficient, layer.channels, strict=True):
                message = value[channel.inputs]
                z[channel.outputs] += a * (message if channel.weight is None else message @ channel.weight)
            value = z * self.rate(state, v, t)
        return value

    def __call__(self, target):
        """{stored path: contribution [num_classes]}."""
        self.found = defaultdict(lambda: np.zeros(self.network.num_classes))
        self.lowest = {}  # nodes -> the lowest layer at whose output one of the path's sources is
        if self.can_differ(target, len(self.network.layers)):
            self.descend(len(self.network.layers), target, DELTA, [], [target])
        hops = self.network.num_hops
        return {(-1,) * (hops + 1 - len(nodes)) + nodes: value for nodes, value in self.found.items()}

    def take(self, nodes, t, value):
        self.found[tuple(nodes)] += value
        self.lowest[tuple(nodes)] = min(t, self.lowest.get(tuple(nodes), t))

    def descend(self, t, v, state, steps, nodes):
        """At node v, layer t: take the bias as a source, or step down to every u."""
        if t == 0:
            x_before, x_after = self.passes[BEFORE].h[0][v], self.passes[AFTER].h[0][v]
            leaf = {DELTA: x_after - x_before, AFTER: x_after, BEFORE: x_before}[state]
            self.take(nodes, t, self.climb(leaf, steps))
            return
        layer = self.network.layers[t - 1]
        if layer.bias is not None and state != DELTA:
            self.take(nodes, t, self.climb(layer.bias * self.rate(state, v, t), steps))
        for u in self.neighbours[t - 1].get(v, ()):
            kept, gained, lost, a_after, a_before = self.coefficients(t - 1, v, u)
            options = {
                DELTA: [
                    (DELTA, kept if self.can_differ(u, t - 1) else 0 * kept),
                    (AFTER, gained),
                    (BEFORE, -lost),
                ],
                AFTER: [(AFTER, a_after)],
                BEFORE: [(BEFORE, a_before)],
            }[state]
            for below, coefficient in options:
                if coefficient.any():
                    step = (t, coefficient, state, v)
                    longer = nodes if layer.local else [u, *nodes]
                    self.descend(t - 1, u, below, [step, *steps], longer)


def literal_kinds(reference, paths):
    """Kind of each path just found, from the coefficients of both snapshots along it.

    A path runs from the root down to its lowest source; the layers below the lowest hop belong to the leaf.
    """
    layers = reference.network.layers
    lowest_hop = next(t for t, layer in enumerate(layers) if not layer.local)
    kinds = []
    for path in paths:
        nodes = [node for node in path if node >= 0]
        in_after = in_before = True
        changed = False
        position = len(nodes) - 1
        for t in range(len(layers) - 1, max(reference.lowest[tuple(nodes)], lowest_hop) - 1, -1):
            v = nodes[position]
            position -= not layers[t].local
            _, gained, lost, a_after, a_before = reference.coefficients(t, v, nodes[position])
            in_after &= bool(a_after.any())
            in_before &= bool(a_before.any())
            changed |= bool(gained.any() or lost.any())
        if in_after and in_before:
            kinds.append("reweighted" if changed else "feature")
        else:
            kinds.append("gained" if in_after else "lost")
    return kinds


def literal_lrp(adjacency, weights, x, path):
    """GNN-LRP with gamma = 0 of one walk, for every class: relevance handed down neuron by neuron.

    R(u) = sum over v of  h_u W_uv / z_v * R(v), restricted to the walk's nodes, from R = z at the root.
    """
    h, zs = [x], []
    for t, weight in enumerate(weights):
        zs.append(adjacency @ h[-1] @ weight)
        h.append(np.maximum(zs[-1], 0) if t < len(weights) - 1 else zs[-1])
    num_classes = weights[-1].shape[1]
    relevances = np.zeros(num_classes)
    for j in range(num_classes):
        relevance = np.zeros(num_classes)
        relevance[j] = zs[-1][path[-1], j]
        for t in range(len(weights), 0, -1):
            sender, receiver = path[t - 1], path[t]
            below = np.zeros(len(h[t - 1][sender]))
            for u in range(len(below)):
                for v in range(len(relevance)):
                    z = zs[t - 1][receiver, v]
                    if z != 0:
                        below[u] += h[t - 1][sender, u] * weights[t - 1][u, v] / z * relevance[v]
            relevance = below
        relevances[j] = relevance.sum()
    return relevances


class LiteralReplay:
    """The whole unrolled tree of a target, evaluated by recursion, with some paths undone (or added)."""

    def __init__(self, attribution, target, chosen, add):
        self.network, self.attribution = attribution.network, attribution
        self.lowest = next(t for t, layer in enumerate(self.network.layers) if not layer.local)
        self.altered = set(attribution(target))
        self.target, self.chosen, self.add = target, chosen, add
        self.base, self.other = (BEFORE, AFTER) if add else (AFTER, BEFORE)

    def logits(self):
        return self.value(len(self.network.layers), self.target, (self.target,), "shared", 1.0)

    def stored(self, nodes):
        return (-1,) * (self.network.num_hops + 1 - len(nodes)) + nodes

    def value(self, t, v, nodes, mode, rho):
        """z at layer t (1-based) of the tree node reached by `nodes` (v first, root last)."""
        layer = self.network.layers[t - 1]
        z = np.zeros(layer.width)
        if layer.bias is not None:
            z += self.source_factor(self.stored(nodes), mode, 1.0, rho) * layer.bias
        for k, channel in enumerate(layer.channels):
            for u in self.attribution.neighbours[t - 1].get(v, ()):
                pair = {s: self.attribution.passes[s].coefficients[t - 1][k].get((v, u), 0.0) for s in (BEFORE, AFTER)}
                kept = literal_split(pair[BEFORE], pair[AFTER])[0]
                base, other = pair[self.base], pair[self.other]
                longer = nodes if layer.local else (u, *nodes)
                children = []
                if mode == "shared" and kept:
                    children.append(("shared", base, rho * other / base))
                else:
                    if base and mode in ("shared", "base"):
                        children.append(("base", base, 1.0))
                    if other and mode in ("shared", "grown"):
                        children.append(("grown", rho * other, 1.0))
                for child_mode, coefficient, child_rho in children:
                    if t - 1 == self.lowest:
                        message = self.leaf(t, u, self.stored(longer), child_mode, coefficient, child_rho, rho * other)
                    else:
                        below = self.value(t - 1, u, longer, child_mode, child_rho)
                        message = coefficient * self.activated(t - 1, below)
                    message = message[channel.inputs]
                    z[channel.outputs] += message if channel.weight is None else message @ channel.weight
        return z

    def activated(self, t, z):
        h = z.copy()
        for block in self.network.layers[t - 1].blocks:
            if block.activation is not None:
                h[block.outputs] = block.activation.value(z[None, block.outputs])[0]
        return h

    def leaf(self, t, u, path, mode, coefficient, rho, as_other):
        """coefficient * leaf value, or what undoing makes of it."""
        h_base, h_other = (self.attribution.passes[side].h[t - 1][u] for side in (self.base, self.other))
        if path not in self.chosen:
            return 0.0 * h_other if mode == "grown" else coefficient * h_base
        if mode == "base":
            return 0.0 * h_base
        if mode == "shared" and path not in self.altered:
            return coefficient * h_base if self.add else 0.0 * h_base
        return as_other * h_other

    def source_factor(self, path, mode, present, rho):
        """Factor of a bias in the tree."""
        if path not in self.chosen:
            return 0.0 if mode == "grown" else present
        if mode == "base":
            return 0.0
        if mode == "shared" and path not in self.altered:
            return present if self.add else 0.0
        return rho


def literal_changes(before, after, directed=False, open_nodes=False):
    """What happened to the graph, one edge at a time: [(kind, src, dst, weight before, after, num_edges, directed)]."""

    def edges_of(snapshot):
        weights = [1.0] * snapshot.edge_index.shape[1] if snapshot.edge_weight is None else snapshot.edge_weight
        found = defaultdict(list)
        for (u, v), w in zip(snapshot.edge_index.T, weights, strict=True):
            found[int(snapshot.node_ids[u]), int(snapshot.node_ids[v])].append(float(w))
        return found

    def has_edges_back(edges):
        return all(sorted(weights) == sorted(edges.get((v, u), [])) for (u, v), weights in edges.items())

    old, new = edges_of(before), edges_of(after)
    merged = not directed and has_edges_back(old) and has_edges_back(new)
    edge_rows = []
    for u, v in sorted(set(old) | set(new)):
        if merged and u > v:
            continue
        gone, come = sorted(old.get((u, v), [])), sorted(new.get((u, v), []))
        for weight in list(gone):
            if weight in come:
                gone.remove(weight)
                come.remove(weight)
        both = min(len(gone), len(come))
        one_way = not merged or u == v
        edge_rows += [("edge reweighted", u, v, b, a, 1, one_way) for b, a in zip(gone, come, strict=False)]
        edge_rows += [("edge removed", u, v, b, None, 1, one_way) for b in gone[both:]]
        edge_rows += [("edge added", u, v, None, a, 1, one_way) for a in come[both:]]
    ids = before.node_ids.tolist()
    here = {node: (bool(before.present[i]), bool(after.present[i])) for i, node in enumerate(ids)}
    come_or_gone = {node for node, (was, is_) in here.items() if was != is_}
    carried = [row for row in edge_rows if come_or_gone & {row[1], row[2]}]
    if not open_nodes:
        edge_rows = [row for row in edge_rows if row not in carried]
    rows = list(edge_rows)
    for i, node in enumerate(ids):
        was, is_ = here[node]
        count = 0 if open_nodes else sum(node in row[1:3] for row in carried)
        if was != is_:
            rows.append(("node added" if is_ else "node removed", node, None, None, None, count, True))
        elif (dense(before.x)[i] != dense(after.x)[i]).any():
            rows.append(("features changed", node, None, None, None, 0, True))
    order = ("node added", "node removed", "features changed", "edge added", "edge removed", "edge reweighted")
    first = float("-inf")
    return sorted(
        rows, key=lambda row: (order.index(row[0]), *(first if value is None else value for value in row[1:5]))
    )
