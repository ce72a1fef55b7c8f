"""Network + ConditionedGraph -> logits under thousands of subsets: each place once for every distinct restriction.

What a place computes depends only on the changes within its receptive field: those of the edges into it, of its
senders' values and, under degree normalisation, of the edges into its senders. Among thousands of subsets most places
see few distinct restrictions. Layer by layer, each place has one row, a *variant*, for each; a variant takes from the
variants of its senders that the same subset makes, with coefficients that the rules would give there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.rows import entries_of
from ..graphs.values import types_of
from ..native.threads import run_in_pieces
from ..network.attention import AdditiveAttention, DotAttention, InverseDeviation, ReadColumns
from ..network.coefficients import (
    SOURCE_TO_TARGET,
    Degree,
    Factor,
    Identity,
    Mean,
    Rule,
    Sum,
    SymmetricNorm,
    TargetNorm,
)
from ..network.layers import Layer, Network, project
from ..network.readouts import End, Pooled
from ..network.relations import OfRelation
from .factors import find_factors, find_scores
from .receptive_field import ConditionedGraph, to_bits
from .root import RootPlace
from .stars import Stars, can_star, lay_stars
from .variant_rows import (
    Attended,
    IncomingEdges,
    Layout,
    Masks,
    Products,
    Scales,
    Seen,
    VariantRows,
    first_rows,
    join_rows,
    lay_out,
)
from .views import MOST_BITS, find_views, pack

BYTES = 128 * 10**6  # of the rows of one layer, roughly, for all subsets that are run together
MOST = 1 << 13  # subsets that are run together, so that what a place has of them stays in the cache
KNOWN = (
    Identity, Sum, Mean, Degree, SymmetricNorm, TargetNorm, InverseDeviation, AdditiveAttention,
    DotAttention, Pooled, End,
)  # fmt: skip


class Inner(NamedTuple):
    """A rule inside those that only pass it on."""

    rule: Rule
    columns: slice  # of the inputs, that it is shown
    relation: int | None  # whose edges it sees; None for all

    @property
    def sees(self) -> tuple[str, int | None]:
        """Which edges, and which way."""
        return self.rule.flow, self.relation


def unwrap(rule: Rule) -> Inner:
    """The rule inside those that only pass it on, the columns of the inputs and the relation that it is shown."""
    start, stop, relation = 0, None, None
    while isinstance(rule, (Factor, ReadColumns, OfRelation)):
        if isinstance(rule, ReadColumns):
            start, stop = start + rule.start, start + rule.stop
        if isinstance(rule, OfRelation):
            relation = rule.relation
        rule = rule.rule
    return Inner(rule, slice(start, stop), relation)


def knows(network: Network) -> bool:
    """Whether every rule of a network can be evaluated here: as a product or an attention, or by its own matrix."""
    rules = [unwrap(rule).rule for layer in network.layers for rule in layer.rules]
    return not (network.takes_edges or network.recorded) and all(_is_product(rule) or can_star(rule) for rule in rules)


def _is_product(rule: Rule) -> bool:
    """Whether the kernels know the rule."""
    return type(rule) in KNOWN and not (isinstance(rule, TargetNorm) and rule.flow != SOURCE_TO_TARGET)


@dataclass(frozen=True, eq=False)
class Variants:
    """A network on a field, ready for subsets."""

    network: Network
    field: ConditionedGraph
    root: RootPlace

    def run(self, subsets: BoolArray) -> FloatArray:
        """Logits of the root with exactly these changes applied. [num_subsets, num_logits]."""
        step = self._step(len(subsets))
        found = np.empty((len(subsets), self.network.num_classes))

        def run_some(first: int, last: int) -> None:
            for start in range(first * step, last * step, step):
                h, rows = self.run_rows(subsets[start : start + step])
                found[start : start + step] = h[rows.base[0] + rows.inverse[rows.group[0]]]

        number = -(-len(subsets) // step)
        if number > 1 and self.constants:  # what all share is there
            run_in_pieces(run_some, number, math.inf)
        else:
            run_some(0, number)
        return found

    def run_rows(self, subsets: BoolArray) -> tuple[FloatArray, Seen]:
        """Rows of logits, and which of them each subset makes of each of the root's nodes."""
        return _Pass(self, subsets).run()

    @cached_property
    def incoming(self) -> dict[tuple[str, int | None], IncomingEdges]:
        """The edges by the way that messages flow, and by relation."""
        field = self.field
        types, weights = types_of(field.weights), field.edge_weights
        found = {}
        for flow, relation in {unwrap(rule).sees for layer in self.network.layers for rule in layer.rules}:
            senders, receivers = field.senders, field.receivers
            order = np.arange(len(senders))
            if flow != SOURCE_TO_TARGET:
                senders, receivers = receivers, senders
                order = np.argsort(receivers, kind="stable")
            if relation is not None and types is not None:
                order = order[types[order] == relation]
            indptr = np.searchsorted(receivers[order], np.arange(field.num_nodes + 1))
            held = senders[order], weights[order], field.condition[order], order
            found[flow, relation] = IncomingEdges(indptr, *held)
        return found

    @cached_property
    def readout(self) -> IncomingEdges:
        """The one place of a graph or pair, and the nodes that it takes from."""
        nodes = self.root.nodes
        condition = self.field.presence[nodes] if self.root.kind == "graph" else np.full(len(nodes), -1)
        return IncomingEdges(np.array([0, len(nodes)]), nodes, np.ones(len(nodes)), condition, np.arange(len(nodes)))

    @cached_property
    def of_edges(self) -> dict[tuple[str, int | None], Masks]:
        """Changes of the edges into each node, by flow and relation. [num_nodes, num_words]."""
        masks = self.field.masks
        return {seen: join_rows(edges.indptr, masks[edges.condition]) for seen, edges in self.incoming.items()}

    @cached_property
    def places(self) -> list[IntArray]:
        """Places that are needed of the inputs and of the outputs of each layer. [num_layers + 1] arrays."""
        layers = self.network.layers
        needed = self.root.nodes if self.network.rise is None else np.zeros(1, dtype=np.int64)
        found = [needed]
        for layer in reversed(layers):
            if layer.rises:
                needed = np.unique(self.root.nodes)
            elif not layer.local or any(rule.reads_inputs for rule in layer.rules):
                taken = [needed]
                for sees in {unwrap(rule).sees for rule in layer.rules if not rule.local}:
                    edges = self.incoming[sees]
                    taken.append(edges.senders[entries_of(edges.indptr, needed)])
                needed = np.unique(np.concatenate(taken))
            found.append(needed)
        return found[::-1]

    @cached_property
    def masks(self) -> list[Masks]:
        """What each place sees: of the inputs, and of the outputs of each layer. [num_nodes, num_words] each."""
        field = self.field
        bits = np.concatenate([to_bits(field.num_players), np.zeros((1, field.masks.shape[1]), dtype=np.uint64)])
        seen = bits[field.feature_player]
        found = [seen]
        above = False
        for layer in self.network.layers:
            if layer.rises:
                edges = self.readout
                seen = np.bitwise_or.reduce(seen[edges.senders] | field.masks[edges.condition], axis=0)[None]
                above = True
            elif not above:
                joined = seen.copy()
                for inner in map(unwrap, layer.rules):
                    rule = inner.rule
                    if not rule.reads_edges:
                        continue
                    own, edges = self.of_edges[inner.sees], self.incoming[inner.sees]
                    joined |= own
                    if not rule.local:
                        sent = seen | own if rule.reach else seen
                        joined |= join_rows(edges.indptr, sent[edges.senders])
                seen = joined
            found.append(seen)
        return found

    @cached_property
    def inputs(self) -> tuple[Features, IntArray]:
        """Features of all that is needed, those that change in two rows, without it and with it; first row of each."""
        nodes = self.places[0]
        twice = self.field.feature_player[nodes] >= 0
        base = np.concatenate([[0], np.cumsum(1 + twice)])[:-1]
        parts = [self.field.features(nodes, applied=False), self.field.features(nodes[twice], applied=True)]
        rows = np.argsort(np.concatenate([base, base[twice] + 1]), kind="stable")
        if any(sparse.issparse(part) for part in parts):
            return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))[rows], base
        return np.concatenate(parts)[rows], base

    @cached_property
    def projected(self) -> list[FloatArray]:
        """What the channels of the first layer make of the features, which no subset changes."""
        return [project(self.inputs[0], channel) for channel in self.network.layers[0].channels]

    @cached_property
    def layouts(self) -> list[Layout]:
        """The places of the outputs of each layer."""
        return [lay_out(nodes, masks) for nodes, masks in zip(self.places[1:], self.masks[1:], strict=True)]

    @cached_property
    def constants(self) -> dict[int, FloatArray]:
        """Outputs of each layer at the places that see no change; filled by the first pass, the same in all others."""
        return {}

    @cached_property
    def receivers(self) -> dict[tuple[str, int | None], tuple[IntArray, Layout]]:
        """Of each flow and relation the receiver of each edge, and all nodes by the changes of the edges into them."""
        every = np.arange(self.field.num_nodes)
        return {
            sees: (np.repeat(every, np.diff(edges.indptr)), lay_out(every, self.of_edges[sees]))
            for sees, edges in self.incoming.items()
        }

    def _step(self, num_subsets: int) -> int:
        """How many subsets to run together, for memory's sake."""
        step = min(MOST, max(num_subsets, 1))
        while step > 64:
            rows, groups = 0.0, 0
            for layer, laid in zip(self.network.layers, self.layouts, strict=True):
                many = np.minimum(2.0 ** np.minimum(laid.num_seen, MOST_BITS), step)
                rows = max(rows, float(many[laid.group].sum()) * layer.width * 16)
                groups += len(laid.masks) * 4 * step
            if rows + groups <= BYTES:
                break
            step //= 2
        return step


class _Pass:
    """One pass over all layers for some subsets; what is numbered once is kept for its length."""

    def __init__(self, variants: Variants, subsets: BoolArray) -> None:
        self.of = variants
        self.subsets, self.words = subsets, pack(subsets)
        self.hold = variants.field.conditions.hold(subsets)
        self.scales: dict[tuple[Rule, int | None], tuple[Scales, Scales, FloatArray]] = {}

    def run(self) -> tuple[FloatArray, Seen]:
        of = self.of
        h, below = self._begin()
        for t, layer in enumerate(of.network.layers):
            laid = of.layouts[t]
            wanted, above = self._number(laid)
            constant, held = wanted.base[laid.constant], of.constants.get(t)
            some = wanted if held is None else wanted.of(laid.varying)
            z = self._aggregate(t, layer, h, below, some, int(above.base[-1] + self._count(wanted, -1)))
            if t + 1 < len(of.network.layers):
                _activate(layer, z)
            if held is None:
                of.constants[t] = z[constant]
            else:
                z[constant] = held
            h, below = z, above
        return np.asarray(h), below

    def _count(self, wanted: VariantRows, place: int) -> int:
        group = wanted.group[place]
        return int(wanted.starts[group + 1] - wanted.starts[group])

    def _begin(self) -> tuple[Features, Seen]:
        """The features: a node whose own change has a row without it and one with it."""
        of = self.of
        x, base = of.inputs
        nodes = of.places[0]
        player = of.field.feature_player[nodes]
        used, group = np.unique(np.append(-1, player), return_inverse=True)
        inverse = np.zeros((len(used), len(self.subsets)), dtype=np.int32)
        inverse[1:] = self.subsets.T[used[1:]]
        place = np.full(of.field.num_nodes, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        return x, Seen(place, base, group.reshape(-1)[1:].astype(np.int64), inverse)

    def _number(self, laid: Layout) -> tuple[VariantRows, Seen]:
        """The variants of these places."""
        views = find_views(self.words, laid.masks)
        base = first_rows(views, laid.group)
        wanted = VariantRows(laid.nodes, base, laid.group, views.starts, views.first)
        return wanted, Seen(laid.place, base, laid.group, views.inverse)

    def _aggregate(
        self, t: int, layer: Layer, h: Features, below: Seen, wanted: VariantRows, num_rows: int
    ) -> FloatArray:
        z = np.empty((num_rows, layer.width))
        z[:] = 0.0 if layer.bias is None else layer.bias
        stars: dict[tuple[str, int | None], Stars] = {}
        for number, channel in enumerate(layer.channels):
            inner, part = unwrap(channel.coefficients), z[:, channel.outputs]
            taken = self.of.projected[number] if t == 0 else project(h, channel)
            if _is_product(inner.rule):
                shown = h[:, inner.columns] if inner.rule.reads_inputs else h
                self._add(inner, shown, below, wanted, taken, part)
                continue
            if inner.sees not in stars:
                edges = self.of.incoming[inner.sees]
                given = inner.rule.flow, self.hold, wanted, below, h
                stars[inner.sees] = lay_stars(self.of.field, edges, *given)
            stars[inner.sees].add(channel.coefficients, taken, part)
        return z

    def _add(
        self, inner: Inner, h: Features, below: Seen, wanted: VariantRows, taken: FloatArray, part: FloatArray
    ) -> None:
        hold, rule = self.hold, inner.rule
        taken = np.ascontiguousarray(taken)
        if isinstance(rule, (AdditiveAttention, DotAttention)):
            attended = Attended(self.of.incoming[inner.sees], find_scores(rule, h), bool(rule.self_loops))
            attended.add(hold, wanted, below, taken, part)
            return
        if isinstance(rule, InverseDeviation):
            dense = np.asarray(h if isinstance(h, np.ndarray) else h.toarray())
            taken = taken / np.sqrt((dense * dense).mean(axis=1) + rule.eps)[:, None]
        self._products(inner, len(below.place)).add(hold, wanted, below, taken, part)

    def _products(self, inner: Inner, num_nodes: int) -> Products:
        rule = inner.rule
        ones = self._constant(np.ones(1), num_nodes)
        nobody = np.zeros(0, dtype=np.int64)
        nothing = IncomingEdges(np.zeros(num_nodes + 1, dtype=np.int64), nobody, np.zeros(0), nobody, nobody)
        if isinstance(rule, (Identity, InverseDeviation)):
            return Products(nothing, ones, ones, np.ones(1), False)
        if isinstance(rule, End):
            one = self.of.readout
            edges = one._replace(indptr=np.array([0, 1]), senders=one.senders[[rule.number]])
            return Products(edges, self._constant(np.ones(1), 1), ones, np.zeros(0), False)
        if isinstance(rule, Pooled):
            return Products(self.of.readout, self._pooled(rule), ones, np.zeros(0), False)
        weighted = rule.weighted and self.of.field.weighted
        edges = self.of.incoming[inner.sees]
        if not weighted:
            edges = edges._replace(weights=np.ones(len(edges.senders)))
        if isinstance(rule, Sum):
            return Products(edges, ones, ones, np.zeros(0), False)
        left, right, diagonal = self._scales(inner, edges)
        if isinstance(rule, Degree):
            edges = nothing
        apart = isinstance(rule, TargetNorm) or (isinstance(rule, SymmetricNorm) and rule.self_loops is not None)
        return Products(edges, left, right, diagonal, apart)

    def _constant(self, values: FloatArray, num_nodes: int) -> Scales:
        zeros = np.zeros(num_nodes, dtype=np.int64)
        return Scales(zeros, zeros, np.zeros((1, len(self.subsets)), dtype=np.int32), values)

    def _pooled(self, rule: Pooled) -> Scales:
        edges = self.of.readout
        seen = np.bitwise_or.reduce(self.of.field.masks[edges.condition], axis=0)
        views = find_views(self.words, seen[None])
        some = views.first
        there = np.concatenate([self.hold[:, some], np.ones((1, len(some)), dtype=np.bool_)])[edges.condition]
        values = 1.0 / np.maximum(there.sum(axis=0), 1) if rule.mean else np.ones(len(some))
        zeros = np.zeros(1, dtype=np.int64)
        return Scales(zeros, zeros, views.inverse, values)

    def _scales(self, inner: Inner, edges: IncomingEdges) -> tuple[Scales, Scales, FloatArray]:
        """Factors that depend on the edges into a node, for each node and each variant of these edges."""
        rule = inner.rule
        key = rule, inner.relation
        if key in self.scales:
            return self.scales[key]
        receivers, laid = self.of.receivers[inner.sees]
        num_nodes, views = len(laid.nodes), find_views(self.words, laid.masks)
        varying = laid.varying
        base = np.arange(num_nodes)  # of those that vary after all others
        base[varying] = num_nodes + first_rows(views, laid.group[varying])
        kept = np.flatnonzero(laid.group[receivers] == 0)
        wanted = VariantRows(varying, base[varying], laid.group[varying], views.starts, views.first)
        listed = wanted.list_rows()
        at, edge = edges.list_edges(self.hold, listed)
        row, edge = np.concatenate([receivers[kept], listed.row[at]]), np.concatenate([kept, edge])
        num_rows = num_nodes + int(np.diff(views.starts)[laid.group[varying]].sum())
        is_loop = edges.senders[edge] == receivers[edge]
        left, right, diagonal = find_factors(rule, row, edges.weights[edge], is_loop, num_rows)
        sending = Scales(base, laid.group, views.inverse, right)
        if len(right) == 1:  # the same for all senders, so that nothing of it varies
            sending = self._constant(right, num_nodes)
        self.scales[key] = Scales(base, laid.group, views.inverse, left), sending, diagonal
        return self.scales[key]


def _activate(layer: Layer, z: FloatArray) -> None:
    """h = phi(z), in place."""
    for block in layer.blocks:
        columns = z[:, block.outputs]
        if block.activation is not None and block.activation.name == "relu":
            np.maximum(columns, 0.0, out=columns)  # several times faster than by two slopes
        elif block.activation is not None:
            columns[...] = block.activation.value(columns)
