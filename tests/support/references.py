"""Slow, literal twins of the fast code: each follows the definition word by word, one path and one neuron at a time."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from axiompath.change.states import KINDS
from axiompath.network.activations import Product
from axiompath.network.attention import ReadColumns
from axiompath.network.layers import run_network
from axiompath.network.maxima import Extreme, Highest
from axiompath.network.statistics import OF_GRAPH, GraphScale, GraphShift

DELTA, AFTER, BEFORE = "delta", "after", "before"
AFTER_GAINED, AFTER_REWEIGHTED = "after-gained", "after-reweighted"
AFTER_STATISTICS = "after-statistics"
BEFORE_LOST, BEFORE_REWEIGHTED = "before-lost", "before-reweighted"
SIDE = {AFTER_GAINED: AFTER, AFTER_REWEIGHTED: AFTER, BEFORE_LOST: BEFORE, BEFORE_REWEIGHTED: BEFORE, DELTA: DELTA}
SIDE[AFTER_STATISTICS] = AFTER
CAUSE = {
    DELTA: "feature",
    AFTER_GAINED: "gained",
    AFTER_REWEIGHTED: "reweighted",
    AFTER_STATISTICS: "statistics",
    BEFORE_LOST: "lost",
    BEFORE_REWEIGHTED: "reweighted",
}


def dense(x):
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


@dataclass
class LiteralPass:
    """z and h of every layer, and its coefficients: layer -> channel -> {(V, U): a}."""

    coefficients: list
    z: list
    h: list  # h[0] is x
    received: list  # the same below every layer as the network's own pass rounds it: what coefficients are made of


def entries(matrix):
    """{(V, U): a} of a sparse matrix."""
    matrix = matrix.tocoo()
    return {(int(v), int(u)): float(a) for v, u, a in zip(matrix.row, matrix.col, matrix.data, strict=True)}


def column_rule(rule, inputs):
    """(the rule with a coefficient a column, its column, the inputs that it is shown), of one of its columns."""
    if isinstance(rule, ReadColumns):
        return column_rule(rule.rule, inputs[:, rule.start : rule.stop])
    return rule.rule, rule.number, inputs


def literal_messages(extreme, snapshot, column):
    """{(V, U): (weight, what it carries)}; the sign of a least one is turned; of parallel edges the largest counts."""
    sign, found = -1.0 if extreme.least else 1.0, {}
    if not extreme.rule.weighted or snapshot.edge_weight is None:
        pattern = entries(extreme.rule.matrix(snapshot, np.zeros((snapshot.num_nodes, 0))))
        return {(v, u): (1.0, sign * column[u]) for v, u in pattern}
    for (u, v), weight in zip(snapshot.edge_index.T.tolist(), snapshot.edge_weight.tolist(), strict=True):
        key, value = ((v, u) if extreme.flow == "source_to_target" else (u, v)), 0.0
        value = sign * weight * column[key[1]]
        if key not in found or value > found[key][1]:
            found[key] = weight, value
    return found


def literal_holds(values):
    """{who: hold on the largest of these values}, ties shared."""
    holders = [who for who, value in values.items() if value == max(values.values())]
    return {who: (1.0 / len(holders) if who in holders else 0.0) for who in values}


def literal_line(low, high):
    """{who: share of the straight line from low to high on which it is the largest}, from crossing to crossing.

    In exact fractions: lines that meet at an end do not cross a rounding before it.
    """
    low, high = ({who: Fraction(float(value)) for who, value in side.items()} for side in (low, high))
    crossings = {Fraction(0), Fraction(1)}
    for i, j in itertools.permutations(low, 2):
        slope = (high[i] - low[i]) - (high[j] - low[j])
        if slope != 0 and 0 < (low[j] - low[i]) / slope < 1:
            crossings.add((low[j] - low[i]) / slope)
    shares = dict.fromkeys(low, Fraction(0))
    for start, end in itertools.pairwise(sorted(crossings)):
        middle = (start + end) / 2
        for who, hold in literal_holds({w: low[w] + middle * (high[w] - low[w]) for w in low}).items():
            shares[who] += (end - start) * Fraction(hold)
    return {who: float(share) for who, share in shares.items()}


def normed_nodes(moments, snapshot):
    """The nodes that a norm is given: those that are there, of one type where it is given one."""
    if moments.recorded:
        return moments.members(snapshot).tolist()
    return [u for u in range(snapshot.num_nodes) if snapshot.present[u]]


def literal_moments(moments, snapshot, inputs, v, number):
    """mu and s of one column of the graph that node v is in, by their definitions.

    Once they are found to be these, rounded as the norm itself rounds them: a mean that is 0 but for rounding, as that
    of what is normed already, is the same in two snapshots or not by the order of its sum.
    """
    if v not in normed_nodes(moments, snapshot):
        return 0.0, 1.0
    if moments.recorded:  # as the model computed them, which the forward pass is compared with
        return tuple(part[v, number] for part in moments.find(snapshot, inputs))
    graphs = snapshot.graphs if moments.by_graph and snapshot.graphs is not None else np.zeros(snapshot.num_nodes)
    nodes = [u for u in normed_nodes(moments, snapshot) if graphs[u] == graphs[v]]
    part = np.ones(moments.width) if moments.part is None else moments.part
    means = [sum(inputs[u, c] for u in nodes) / len(nodes) * part[c] for c in range(moments.width)]
    if moments.together:
        means = [sum(means) / len(means)] * len(means)
    variances = [sum((inputs[u, c] - means[c]) ** 2 for u in nodes) / len(nodes) for c in range(moments.width)]
    variance = variances[number]
    if moments.together:
        variance = sum(variances) / len(variances)
    if moments.summed:
        variance = sum(variances)
    deviation = math.sqrt(variance) + moments.eps if moments.beside else math.sqrt(variance + moments.eps)
    own = [part[v, number] for part in moments.find(snapshot, inputs)]
    scale = max(1.0, np.abs(inputs).max(initial=0.0))
    np.testing.assert_allclose(own[0], means[number], rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(own[1], 1.0 / deviation if moments.scaled else 1.0, rtol=1e-9)
    return own


def literal_coefficients(rule, snapshot, inputs):
    """{(V, U): a} of a rule; of a maximum, written out."""
    if rule.family is rule:
        return entries(rule.matrix(snapshot, inputs))
    of, number, shown = column_rule(rule, inputs)
    if isinstance(of, Highest):
        sign, found = -1.0 if of.least else 1.0, {}
        for v in np.flatnonzero(snapshot.standing).tolist():
            values = {i: sign * shown[v, i * of.width + number] for i in range(of.count)}
            found[v, v] = literal_holds(values)[of.number]
        return found
    if isinstance(of, (GraphScale, GraphShift)):
        found = {}
        for v in normed_nodes(of.moments, snapshot):
            mu, s = literal_moments(of.moments, snapshot, shown, v, number)
            found[v, v] = s if isinstance(of, GraphScale) else -s * mu
        return found
    if not isinstance(of, Extreme):
        return entries(rule.matrix(snapshot, inputs))
    messages, found = literal_messages(of, snapshot, shown[:, number]), {}
    for v in {v for v, _ in messages}:
        holds = literal_holds({u: value for (w, u), (_, value) in messages.items() if w == v})
        found |= {(v, u): hold * messages[v, u][0] for u, hold in holds.items()}
    return found


def literal_division(rule, snapshots, inputs, v, u, before, after):
    """kept, gained, lost of one coefficient, whatever kind of rule it is of."""
    if not rule.divides:
        return literal_split(before, after)
    of, number, _ = column_rule(rule, inputs[0])
    inputs = [column_rule(rule, part)[2] for part in inputs]
    if isinstance(of, Highest):
        if not all(side.standing[v] for side in snapshots):
            return 0.0, after, before
        sign = -1.0 if of.least else 1.0
        low, high = ({i: sign * x[v, i * of.width + number] for i in range(of.count)} for x in inputs)
        return literal_line(low, high)[of.number], 0.0, 0.0
    if rule.divides == OF_GRAPH:
        if not all(side.present[v] for side in snapshots):
            return 0.0, after, before
        (mu_0, s_0), (mu_1, s_1) = (
            literal_moments(of.moments, side, x, v, number) for side, x in zip(snapshots, inputs, strict=True)
        )
        if isinstance(of, GraphScale):
            return (s_0 + s_1) / 2, 0.0, 0.0
        mean = (inputs[0][v, number] + inputs[1][v, number]) / 2
        return 0.0, (s_1 - s_0) * mean - (s_1 * mu_1 - s_0 * mu_0), 0.0
    sides = [literal_messages(of, s, x[:, number]) for s, x in zip(snapshots, inputs, strict=True)]
    rows = [{b: value for (a, b), value in side.items() if a == v} for side in sides]
    both = set(rows[0]) & set(rows[1])
    low, high = ({b: row[b][1] for b in both} for row in rows)
    weights = [row.get(u, (0.0, 0.0))[0] for row in rows]
    line = literal_line(low, high).get(u, 0.0) if both else 0.0
    kept, gained, lost = (line * part for part in literal_split(*weights))
    for side, part in ((0, low), (1, high)):
        hold = literal_holds({b: value for b, (_, value) in rows[side].items()}).get(u, 0.0)
        hold -= literal_holds(part).get(u, 0.0) if part else 0.0
        if side == 0:
            lost += weights[0] * hold
        else:
            gained += weights[1] * hold
    return kept, gained, lost


def literal_forward(network, snapshot, run=None):
    """The normal form's two lines, message for message.

    Coefficients that depend on features are those of the network's own pass, and so are their parts. Whether such a
    coefficient is the same in two snapshots, and hence whether a path leaves delta there, may hang on how its inputs
    were rounded, and a pass that adds in another order rounds otherwise. That its inputs are these, to rounding, is
    checked.
    """
    h, run = [dense(snapshot.x)], run or run_network(network, snapshot)
    coefficients, preactivations, received = [], [], []
    for t, layer in enumerate(network.layers):
        inputs = dense(run.received(t))
        np.testing.assert_allclose(h[-1], inputs, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(inputs).max(initial=0.0)))
        matrices = [literal_coefficients(channel.coefficients, snapshot, inputs) for channel in layer.channels]
        if layer.rises:
            snapshot = snapshot.predicted  # graphs or pairs from here on
        z = np.zeros((snapshot.num_nodes, layer.width))
        for channel, a in zip(layer.channels, matrices, strict=True):
            for v, u in a:
                message = h[-1][u, channel.inputs]
                if channel.weight is not None:
                    message = message @ channel.weight
                z[v, channel.outputs] += a[v, u] * message
        if layer.bias is not None:
            z += layer.bias
        new = np.array([literal_activation(layer, row) for row in z]).reshape(z.shape)
        coefficients.append(matrices)
        received.append(inputs)
        preactivations.append(z)
        h.append(new)
    return LiteralPass(coefficients, preactivations, h, received)


def literal_activation(layer, z):
    """h of one node: each block's activation; a product is written into each of its k ranges, divided by k."""
    h = z.copy()
    for block in layer.blocks:
        columns = range(layer.width)[block.outputs]
        if isinstance(block.activation, Product):
            k = block.activation.num_factors
            width = len(columns) // k
            for i, column in enumerate(columns):
                h[column] = math.prod(z[columns[j * width + i % width]] for j in range(k)) / k
        elif block.activation is not None:
            h[block.outputs] = block.activation.value(z[None, block.outputs])[0]
    return h


def literal_shapley(low, high, i):
    """Share of factor i, over its own step, of the step of a product from `low` to `high`: the mean over all orders."""
    k, total = len(low), 0.0
    for order in itertools.permutations(range(k)):
        first = order[: order.index(i)]
        total += math.prod(high[j] if j in first else low[j] for j in range(k) if j != i)
    return total / math.factorial(k)


def literal_split(before, after):
    """kept, gained, lost of one coefficient."""
    if abs(after - before) <= 8 * np.finfo(float).eps * abs(before):
        after = before
    kept = 0.0
    if before * after > 0:
        kept = before if abs(before) <= abs(after) else after
    return kept, after - kept, before - kept


class LiteralAttribution:
    """Every altered path of one target, its contribution and the shares of its causes, by recursion over states."""

    def __init__(self, network, before, after, passes=(None, None)):
        self.network = network
        self.lowest_hop = next(t for t, layer in enumerate(network.layers) if not layer.local)
        self.presence = before.present != after.present
        self.first_edge = before.first_edge
        sides = zip((BEFORE, AFTER), (before, after), passes, strict=True)
        self.passes = {side: literal_forward(network, snapshot, run) for side, snapshot, run in sides}
        self.snapshots, self.known, self.divided = (before, after), {}, {}
        self.neighbours = []  # layer -> V -> every U with an entry in some channel of some snapshot
        for t in range(len(network.layers)):
            found = defaultdict(set)
            for side in self.passes.values():
                for a in side.coefficients[t]:
                    for v, u in a:
                        found[v].add(u)
            self.neighbours.append({v: sorted(senders) for v, senders in found.items()})

    def there(self, t, v, u, side):
        """Whether a snapshot has the entry, whatever its value, a flag a channel."""
        return np.array([(v, u) in a for a in self.passes[side].coefficients[t]])

    def coefficients(self, t, v, u):
        """(kept, gained, lost, a_after, a_before), each one number a channel."""
        pairs = [
            tuple(self.passes[side].coefficients[t][k].get((v, u), 0.0) for side in (BEFORE, AFTER))
            for k in range(len(self.network.layers[t].channels))
        ]
        if (t, v, u) not in self.divided:
            parts = [self.division(t, v, u, k, *pair) for k, pair in enumerate(pairs)]
            self.divided[t, v, u] = tuple(
                np.array(column) for column in (*zip(*parts, strict=True), [p[1] for p in pairs], [p[0] for p in pairs])
            )
        return self.divided[t, v, u]

    def division(self, t, v, u, channel, before, after):
        """kept, gained, lost over one channel of layer t (0-based)."""
        risen = self.network.rise is not None and t > self.network.rise
        snapshots = [side.predicted if risen else side for side in self.snapshots]
        inputs = [self.passes[side].received[t] for side in (BEFORE, AFTER)]
        rule = self.network.layers[t].channels[channel].coefficients
        return literal_division(rule, snapshots, inputs, v, u, before, after)

    def options(self, t, v, u, state):
        """Over the entry (v, u) of layer t (0-based): the states below and their coefficients, a number a channel."""
        kept, gained, lost, a_after, a_before = self.coefficients(t, v, u)
        if state != DELTA:
            return [(state, a_after if SIDE[state] == AFTER else a_before)]
        in_before, in_after = self.there(t, v, u, BEFORE), self.there(t, v, u, AFTER)
        channels = self.network.layers[t].channels
        of_graph = np.array([channel.coefficients.divides == OF_GRAPH for channel in channels])
        return [
            (DELTA, kept if self.can_differ(u, t) else 0 * kept),
            (AFTER_GAINED, np.where(in_before, 0.0, gained)),
            (AFTER_REWEIGHTED, np.where(in_before & ~of_graph, gained, 0.0)),
            (AFTER_STATISTICS, np.where(in_before & of_graph, gained, 0.0)),
            (BEFORE_LOST, -np.where(in_after, 0.0, lost)),
            (BEFORE_REWEIGHTED, -np.where(in_after, lost, 0.0)),
        ]

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
        }[SIDE[state]]
        rates = np.ones(len(end))
        for block in self.network.layers[t - 1].blocks:
            if isinstance(block.activation, Product):
                columns = range(len(end))[block.outputs]
                k = block.activation.num_factors
                width = len(columns) // k
                for i, column in enumerate(columns):
                    others = [columns[j * width + i % width] for j in range(k)]
                    rates[column] = literal_shapley(start[others], end[others], i // width)
            elif block.activation is not None:
                rates[block.outputs] = block.activation.rate(start[None, block.outputs], end[None, block.outputs])[0]
        return rates

    def leaf(self, state, v):
        """What the lowest hop receives of a leaf: all that local layers below it do is part of the leaf's value."""
        before, after = (self.passes[side].h[self.lowest_hop][v] for side in (BEFORE, AFTER))
        return {DELTA: after - before, AFTER: after, BEFORE: before}[SIDE[state]]

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
        """{stored path: contribution [num_classes]}; by cause in `shares`: {stored path: {cause: [num_classes]}}."""
        self.start()
        if self.can_differ(target, len(self.network.layers)):
            everything = np.ones(self.network.num_classes, dtype=bool)
            self.descend(len(self.network.layers), target, DELTA, [], [target], everything)
        return self.finish()

    def start(self):
        self.found = defaultdict(lambda: defaultdict(lambda: np.zeros(self.network.num_classes)))

    def finish(self):
        size = self.network.num_positions
        self.shares = {(-1,) * (size - len(nodes)) + nodes: dict(causes) for nodes, causes in self.found.items()}
        return {path: sum(causes.values()) for path, causes in self.shares.items()}

    def take(self, nodes, state, value):
        self.found[tuple(nodes)][self.cause(state, nodes)] += value

    def cause(self, state, nodes):
        """A walk that stayed in delta down to an edge of the graph found other features there."""
        whole = len(nodes) == self.network.num_positions
        return "edge feature" if state == DELTA and whole and nodes[0] >= self.first_edge else CAUSE[state]

    def descend(self, t, v, state, steps, nodes, columns):
        """At node v, layer t, with columns that lead to the logits: take the bias as a source, or step down to u."""
        if t == self.lowest_hop:
            self.take(nodes, state, self.climb(self.leaf(state, v), steps))
            return
        layer = self.network.layers[t - 1]
        if layer.bias is not None and state != DELTA and layer.bias[columns].any():
            self.take(nodes, state, self.climb(layer.bias * self.rate(state, v, t), steps))
        for u in self.neighbours[t - 1].get(v, ()):
            for below, coefficient in self.options(t - 1, v, u, state):
                carried = self.carried(t - 1, columns, coefficient != 0)
                if carried.any():
                    step = (t, coefficient, state, v)
                    longer = nodes if layer.local else [u, *nodes]
                    self.descend(t - 1, u, below, [step, *steps], longer, carried)

    def carried(self, t, columns, open_channels):
        """Columns of the inputs of layer t (0-based) that an open channel carries to one of these of its outputs."""
        layer = self.network.layers[t]
        width = self.passes[AFTER].h[t].shape[1]
        found = np.zeros(width, dtype=bool)
        families = [channel.coefficients.family for channel in layer.channels]
        ways = {family for family, is_open in zip(families, open_channels, strict=True) if is_open}
        for channel, is_open in zip(layer.channels, [family in ways for family in families], strict=True):
            above, weight = columns[channel.outputs], channel.weight
            if is_open:
                found[channel.inputs] |= above if weight is None else (weight[:, above] != 0).any(axis=1)
        return found

    def exists(self, path, side):
        """Whether channels whose entries this snapshot has carry columns from the path's leaf or bias to the logits."""
        nodes = [node for node in path if node >= 0]
        layers = self.network.layers
        columns = np.ones(self.network.num_classes, dtype=bool)
        position = len(nodes) - 1
        for t in range(len(layers) - 1, self.lowest_hop - 1, -1):
            at_source = position == 0 and len(nodes) < self.network.num_positions
            if at_source and layers[t].bias is not None and layers[t].bias[columns].any():
                return True
            if at_source and not layers[t].local:
                return False
            v = nodes[position]
            position -= not layers[t].local
            columns = self.carried(t, columns, self.there(t, v, nodes[position], side))
        return bool(columns.any())


class LiteralColumn(LiteralAttribution):
    """The same where leaves have one column of their features alone, and no bias is a source."""

    def __init__(self, network, before, after, column, only_delta):
        super().__init__(network, before, after)
        self.column, self.only_delta = column, only_delta
        self.network = replace(network, layers=tuple(replace(layer, bias=None) for layer in network.layers))

    def leaf(self, state, v):
        return self.rise(self.lowest_hop, v, state)

    def rise(self, t, v, state):
        """What the column makes of h^t of node v, below the lowest hop, over all states that a walk could go on in."""
        if t == 0:
            before, after = (self.passes[side].h[0][v] for side in (BEFORE, AFTER))
            value = {DELTA: after - before, AFTER: after, BEFORE: before}[SIDE[state]]
            return np.where(np.arange(len(value)) == self.column, value, 0.0)
        options = self.options(t - 1, v, v, state)
        if self.only_delta:
            options = [(below, coefficient) for below, coefficient in options if below == state]
        return sum(
            self.climb(self.rise(t - 1, v, below), [(t, coefficient, state, v)]) for below, coefficient in options
        )


def literal_kind(reference, path):
    """Kind of a path just found: what the snapshots have, else the larger share. Also by how much it is larger."""
    in_after, in_before = reference.exists(path, AFTER), reference.exists(path, BEFORE)
    assert in_after or in_before
    if not (in_after and in_before):
        return ("gained" if in_after else "lost"), np.inf
    sizes = {cause: np.abs(share).sum() for cause, share in reference.shares[path].items()}
    kind = "edge feature" if path[0] >= reference.first_edge else "feature" if path[0] >= 0 else "statistics"
    feature, reweighted = sizes.get(kind, 0.0), sizes.get("reweighted", 0.0)
    return (kind if feature > reweighted else "reweighted"), abs(feature - reweighted)


def literal_causes(reference):
    """The causes of the target just called: sums over all its state sequences."""
    kinds = ("gained", "lost", "reweighted", "statistics", "feature", "edge feature")
    total = {kind: np.zeros(reference.network.num_classes) for kind in kinds}
    for causes in reference.shares.values():
        for cause, share in causes.items():
            total[cause] += share
    return total


def literal_terms(reference, target):
    """{stored path: {cause: [num_classes]}} from every single sequence of channels and states: one product a term.

    Nothing is added up on the way, so a term is a path of single channels: it exists if none of its factors is 0.
    """
    network, found = reference.network, defaultdict(lambda: defaultdict(float))

    def descend(t, v, state, nodes, maps):
        # `maps` takes a vector of h^t (the output of layer t, activated) to the logits.
        if t == reference.lowest_hop:
            cause = reference.cause(state, nodes)
            found[nodes][cause] = found[nodes][cause] + reference.leaf(state, v) @ maps
            return
        layer = network.layers[t - 1]
        rated = reference.rate(state, v, t)[:, None] * maps
        if layer.bias is not None and state != DELTA and layer.bias[carries[-1].any(axis=1)].any():
            found[nodes][CAUSE[state]] = found[nodes][CAUSE[state]] + layer.bias @ rated
        for k, channel in enumerate(layer.channels):
            weight = np.eye(channel.outputs.stop - channel.outputs.start) if channel.weight is None else channel.weight
            for u in reference.neighbours[t - 1].get(v, ()):
                for below, coefficient in reference.options(t - 1, v, u, state):
                    step = np.zeros((reference.passes[AFTER].h[t - 1].shape[1], layer.width))
                    step[channel.inputs, channel.outputs] = weight
                    carries.append((step != 0) @ carries[-1])
                    if coefficient[k] != 0 and carries[-1].any():
                        longer = nodes if layer.local else (u, *nodes)
                        descend(t - 1, u, below, longer, coefficient[k] * step @ rated)
                    carries.pop()

    carries = [np.eye(network.num_classes, dtype=bool)]  # from the columns where the walk is to the logits
    if reference.can_differ(target, len(network.layers)):
        descend(len(network.layers), target, DELTA, (target,), np.eye(network.num_classes))
    size = network.num_positions
    return {(-1,) * (size - len(nodes)) + nodes: dict(causes) for nodes, causes in found.items()}


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


def carried_of(rule, mode, rho):
    return rho if mode == "shared" and not rule.restarts else 1.0


def in_further_factor(layer, column):
    """Whether a column is of a product's factor other than the one in which what undoing carries down goes on."""
    for block in layer.blocks:
        if isinstance(block.activation, Product) and block.outputs.start <= column < block.outputs.stop:
            size = (block.outputs.stop - block.outputs.start) // block.activation.num_factors
            factor_of = {c: (c - block.outputs.start) // size for c in range(block.outputs.start, block.outputs.stop)}
            restarted = {
                factor_of[c]
                for channel in layer.channels
                if channel.coefficients.restarts
                for c in range(channel.outputs.start, channel.outputs.stop)
                if c in factor_of
            }
            return factor_of[column] != min(set(factor_of.values()) - restarted)
    return False


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
        return (-1,) * (self.network.num_positions - len(nodes)) + nodes

    def most_steps(self):
        """How many tree nodes `logits` may look at: a coefficient of a column carries three parts, another two."""
        steps = {}
        for t, layer in enumerate(self.network.layers):
            parts = sum(
                3 if channel.coefficients.family is not channel.coefficients else 2 for channel in layer.channels
            )
            below = steps
            steps = {
                v: 1 + parts * sum(below.get(u, 1) for u in found)
                for v, found in self.attribution.neighbours[t].items()
            }
        return steps.get(self.target, 1)

    def value(self, t, v, nodes, mode, rho):
        """z at layer t (1-based) of the tree node reached by `nodes` (v first, root last)."""
        layer = self.network.layers[t - 1]
        z = np.zeros(layer.width)
        if layer.bias is not None:
            for column in range(layer.width):
                # What undoing carries down goes on in one factor of a product alone: the others' bias stays whole.
                carried = 1.0 if in_further_factor(layer, column) else rho
                z[column] += self.source_factor(self.stored(nodes), mode, 1.0, carried) * layer.bias[column]
        for k, channel in enumerate(layer.channels):
            for u in self.attribution.neighbours[t - 1].get(v, ()):
                pair = {s: self.attribution.passes[s].coefficients[t - 1][k].get((v, u), 0.0) for s in (BEFORE, AFTER)}
                kept, gained, lost = self.attribution.division(t - 1, v, u, k, pair[BEFORE], pair[AFTER])
                base, other = pair[self.base], pair[self.other]
                longer = nodes if layer.local else (u, *nodes)
                children = []
                rule = channel.coefficients
                if rule.divides == OF_GRAPH:
                    # Undoing the path that starts here gives the node the other snapshot's mean and deviation.
                    undone = self.stored(nodes) in self.chosen and self.stored(nodes) in self.altered
                    coefficient = other if mode == "grown" or (mode == "shared" and undone) else base
                    below = self.value(t - 1, u, nodes, mode, carried_of(rule, mode, rho))
                    z[channel.outputs] += coefficient * self.activated(t - 1, below)[channel.inputs]
                    continue
                if rule.family is not rule:
                    parts = (kept, lost, gained) if self.add else (kept, gained, lost)
                    message = self.by_parts(t, u, longer, mode, rho, (base, other, *parts))[channel.inputs]
                    z[channel.outputs] += message
                    continue
                # What undoing carries down goes on in one factor of a product alone.
                carried = 1.0 if channel.coefficients.restarts else rho
                if mode == "shared" and kept:
                    children.append(("shared", base, carried * other / base))
                else:
                    if base and mode in ("shared", "base"):
                        children.append(("base", base, 1.0))
                    if other and mode in ("shared", "grown"):
                        children.append(("grown", carried * other, 1.0))
                for child_mode, coefficient, child_rho in children:
                    if t - 1 == self.lowest:
                        path = self.stored(longer)
                        message = self.leaf(t, u, path, child_mode, coefficient, child_rho, carried * other)
                    else:
                        below = self.value(t - 1, u, longer, child_mode, child_rho)
                        message = coefficient * self.activated(t - 1, below)
                    message = message[channel.inputs]
                    z[channel.outputs] += message if channel.weight is None else message @ channel.weight
        return z

    def by_parts(self, t, u, nodes, mode, rho, coefficients):
        """What a coefficient of a column carries: what it carried in the base, and what undoing makes of its parts."""
        base, other, kept, gained, lost = coefficients
        least, most = min(rho, 1.0), max(rho, 1.0)
        children = {
            "shared": [
                ("shared", least * kept),
                ("base", least * gained + (1 - least) * base),
                ("grown", least * lost + (most - 1) * other),
            ],
            "base": [("base", base)],
            "grown": [("grown", other)],
        }[mode]
        h_base = self.attribution.passes[self.base].h[t - 1][u]
        total = 0.0 * h_base if mode == "grown" else base * h_base
        for child, coefficient in children:
            if coefficient == 0:
                continue
            if t - 1 == self.lowest:
                message = self.leaf(t, u, self.stored(nodes), child, coefficient, 1.0, coefficient)
            else:
                message = coefficient * self.activated(t - 1, self.value(t - 1, u, nodes, child, 1.0))
            total = total + message - (0.0 if child == "grown" else coefficient * h_base)
        return total

    def activated(self, t, z):
        return literal_activation(self.network.layers[t - 1], z)

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


def numbers_of(data):
    """Number of each row: n_id, or the row."""
    return list(range(data.x.shape[0])) if "n_id" not in data else data.n_id.tolist()


def edges_by_number(data):
    """(u, v, weight) of every edge in order, in node numbers; weight 1 where there is none."""
    ids = numbers_of(data)
    weights = data.edge_weight.tolist() if "edge_weight" in data else [1.0] * data.edge_index.shape[1]
    return [(ids[u], ids[v], w) for (u, v), w in zip(data.edge_index.T.tolist(), weights, strict=True)]


def steps_of(path, flows):
    """For each step of a path the edges that may carry it, by the flows of its hops: {"along"}, {"against"} or both."""
    for p, flow in enumerate(flows):
        u, v = path[p], path[p + 1]
        if u >= 0:
            along, against = {(u, v)} if "along" in flow else set(), {(v, u)} if "against" in flow else set()
            yield (u, v), along | against


def literal_exchange(base, other, paths, flows):
    """Node numbers, features and edges (u, v, weight) of `base` with the edges of these paths as `other` has them."""
    exchanged = {edge for path in paths for _, edges in steps_of(path, flows) for edge in edges}
    edges = [e for e in edges_by_number(base) if e[:2] not in exchanged]
    edges += [e for e in edges_by_number(other) if e[:2] in exchanged]
    features = dict(zip(numbers_of(other), other.x, strict=True)) | dict(zip(numbers_of(base), base.x, strict=True))
    nodes = numbers_of(base) + sorted({n for u, v, _ in edges for n in (u, v)} - set(numbers_of(base)))
    return nodes, [features[node] for node in nodes], edges


def literal_placement(paths, shares, flows, weighted, before, after):
    """What lands on each edge of `after`, on each edge that it lost, and on each node without an edge."""
    edges, lost, loops = edges_by_number(after), defaultdict(float), defaultdict(float)
    mask = [0.0] * len(edges)
    had = {(u, v) for u, v, _ in edges_by_number(before)}
    for path, share in zip(paths, shares, strict=True):
        for (u, v), possible in steps_of(path, flows):
            here = [i for i, edge in enumerate(edges) if edge[:2] in possible]
            whole = sum(edges[i][2] if weighted else 1.0 for i in here)
            for i in here:
                mask[i] += share * (edges[i][2] if weighted else 1.0) / whole
            if here:
                continue
            gone = possible & had
            for edge in gone:
                lost[edge] += share / len(gone)
            if not gone:
                assert u == v
                if u in numbers_of(after):
                    loops[u] += share
                else:
                    lost[u, u] += share
    return mask, dict(lost), [loops[node] for node in numbers_of(after)]


def literal_changes(before, after, directed=False, open_nodes=False):
    """What happened to the graph, one edge at a time.

    [(kind, src, dst, relation, weight before, after, num_edges, directed)], the relation -1 where edges have no types.
    """

    def edges_of(snapshot):
        weights = [1.0] * snapshot.edge_index.shape[1] if snapshot.edge_weight is None else snapshot.edge_weight
        types = [-1] * len(weights) if snapshot.edge_types is None else snapshot.edge_types
        found = defaultdict(list)
        for (u, v), t, w in zip(snapshot.edge_index.T, types, weights, strict=True):
            found[int(snapshot.node_ids[u]), int(snapshot.node_ids[v]), int(t)].append(float(w))
        return found

    old, new = edges_of(before), edges_of(after)
    edge_rows = []
    for u, v, t in sorted(set(old) | set(new)):
        gone, come = sorted(old.get((u, v, t), [])), sorted(new.get((u, v, t), []))
        for weight in list(gone):
            if weight in come:
                gone.remove(weight)
                come.remove(weight)
        both = min(len(gone), len(come))
        edge_rows += [("edge reweighted", u, v, t, b, a, 1, True) for b, a in zip(gone, come, strict=False)]
        edge_rows += [("edge removed", u, v, t, b, None, 1, True) for b in gone[both:]]
        edge_rows += [("edge added", u, v, t, None, a, 1, True) for a in come[both:]]
    one_way, joined = list(edge_rows), []
    for row in edge_rows if not directed else ():
        back = (row[0], row[2], row[1], *row[3:])
        if row[1] < row[2] and back in one_way:
            one_way.remove(row)
            one_way.remove(back)
            joined.append((*row[:-1], False))
    edge_rows = joined + one_way
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
            rows.append(("node added" if is_ else "node removed", node, None, -1, None, None, count, True))
        elif (dense(before.x)[i] != dense(after.x)[i]).any():
            rows.append(("features changed", node, None, -1, None, None, 0, True))
    order = ("node added", "node removed", "features changed", "edge added", "edge removed", "edge reweighted")
    first = float("-inf")
    return sorted(
        rows, key=lambda row: (order.index(row[0]), *(first if value is None else value for value in row[1:6]))
    )


def literal_row(explanation, columns):
    """One Explanation -> the row of a part that holds it, value by value."""
    row = dict.fromkeys(columns)
    for name in columns:
        value = getattr(explanation, name, None)
        row[name] = (
            value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value
        )
    none = np.zeros(len(explanation.logits_before))  # a record leaves out what has no share, a part does not
    row["causes"] = {kind: explanation.causes.get(kind, none).tolist() for kind in KINDS}
    row["causes"] |= {kind: part.tolist() for kind, part in explanation.causes.items()}
    row["node_names"] = list(explanation.node_names.items())
    row["class_names"] = list(explanation.class_names)
    row["hops"] = [{"flow": hop.flow, "weighted": hop.weighted} for hop in explanation.hops]
    if explanation.class_names:
        row["class_before_name"] = explanation.class_names[explanation.class_before]
        row["class_after_name"] = explanation.class_names[explanation.class_after]
    if isinstance(explanation.target, tuple):
        row["target"], row["partner"] = explanation.target
    return row


def literal_applied(before, after, changes, chosen, opened=False, standing=()):
    """The graph with exactly the chosen rows of `changes` applied: (node -> features, edges), by number.

    An edge is (u, v, weight, type), without types of type -1.
    """

    def parts(data):
        ids = numbers_of(data)
        nodes = dict(zip(ids, dense(data.x), strict=True))
        weights = [1.0] * data.edge_index.shape[1] if data.get("edge_weight") is None else data.edge_weight.tolist()
        types = [-1] * len(weights) if data.get("edge_type") is None else data.edge_type.tolist()
        pairs = [(ids[u], ids[v]) for u, v in data.edge_index.T.tolist()]
        return nodes, [(u, v, w, t) for (u, v), w, t in zip(pairs, weights, types, strict=True)]

    (nodes0, edges0), (nodes1, edges1) = parts(before), parts(after)
    chosen = set(chosen)
    rows = [row for row in changes.itertuples() if row.id in chosen]
    come = {row.src for row in rows if row.kind == "node added"} | set(standing)
    gone = {row.src for row in rows if row.kind == "node removed"}
    new, old = set(nodes1) - set(nodes0), set(nodes0) - set(nodes1)
    edges = [edge for edge in edges0 if opened or not old & set(edge[:2])]
    for row in rows:
        if not row.kind.startswith("edge"):
            continue
        for u, v in {(row.src, int(row.dst))} | (set() if row.directed else {(int(row.dst), row.src)}):
            if row.kind != "edge added":
                edges.remove((u, v, row.weight_before, getattr(row, "relation", -1)))
            if row.kind != "edge removed":
                edges.append((u, v, row.weight_after, getattr(row, "relation", -1)))
    present = (set(nodes0) - gone) | come
    if opened:
        present |= {end for edge in edges for end in edge[:2]}
    else:
        edges += [edge for edge in edges0 if old & set(edge[:2]) and not gone & set(edge[:2])]
        edges += [edge for edge in edges1 if new & set(edge[:2]) and new & set(edge[:2]) <= come]
    altered = {row.src for row in rows if row.kind == "features changed"}
    return {node: nodes1[node] if node in new | altered else nodes0[node] for node in sorted(present)}, edges


def literal_shares(values, num_players):
    """Shapley values of v, given as a dict of frozensets: over every order in which the players may join."""
    shares = np.zeros((num_players, *np.shape(values[frozenset()])))
    for subset, value in values.items():
        for i in range(num_players):
            rest = len(subset - {i})
            weight = math.factorial(rest) * math.factorial(num_players - rest - 1) / math.factorial(num_players)
            shares[i] += weight * np.asarray(value) * (1 if i in subset else -1)
    return shares


def least_prices(paths, contributions, prices, n):
    """The n paths with the least contributions @ prices, and these prices, ascending: all of them are sorted."""
    keys = contributions @ prices
    order = np.argsort(keys, kind="stable")[:n]
    return paths[order], keys[order]


def slopes_by_small_steps(output, columns, before, after, num_steps=300, tiny=1e-6):
    """The gradient of what is told, by differences, at the middles of many small steps from before to after."""
    found = np.zeros_like(before)
    for row, column in enumerate(columns):
        for step in range(num_steps):
            here = before[row] + (step + 0.5) / num_steps * (after[row] - before[row])
            for k in range(len(here)):
                push = tiny * np.eye(len(here))[k]
                found[row, k] += (output.means(here + push) - output.means(here - push))[column] / (2 * tiny)
    return found / num_steps


def literal_snapshot(events, start, end, rule, directed, keep):
    """Nodes and edges {(u, v): weight} of one window, event by event; events are (u, v, time, weight), in any order."""
    ordered = sorted(events, key=lambda event: event[2])
    seen, active, of_pair = [], set(), defaultdict(list)
    for u, v, time, weight in ordered:
        if u == v:
            continue
        if time < end:
            seen += [node for node in (u, v) if node not in seen]
        if start <= time < end:
            active |= {u, v}
            of_pair[(u, v) if directed else tuple(sorted((u, v)))].append(weight)
    pool = {
        "once": lambda w: None, "count": len, "sum": sum, "mean": lambda w: sum(w) / len(w), "min": min, "max": max,
        "first": lambda w: w[0], "last": lambda w: w[-1],
    }[rule]  # fmt: skip
    edges = {pair: pool(weights) for pair, weights in of_pair.items()}
    if not directed:
        edges |= {pair[::-1]: weight for pair, weight in edges.items()}
    everyone = {node for u, v, _, _ in ordered if u != v for node in (u, v)}
    return {"seen": set(seen), "window": active, "all": everyone}[keep], edges
