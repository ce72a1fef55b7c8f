"""(Network, before, after) -> Change: what differs between two snapshots, coefficient by coefficient.

For every layer, rule and pair (V, U) the two coefficients are split into what both snapshots share and what each has
alone,

    kept    kappa = the smaller of a_before, a_after in magnitude when they have the same sign, else 0
    gained  a_after - kappa          lost  a_before - kappa,

so that a_after h_after - a_before h_before = kappa (h_after - h_before) + gained h_after - lost h_before, exactly. The
rule of a maximum, or of a statistic, divides its own coefficients, so that this holds for a row's sum (see `Rule`).

An entry exists in a snapshot where the rule's matrix holds it, be its coefficient 0 or not: it stands for an edge, or a
node, of that snapshot's graph. What `after` gained of an entry that `before` has too is a new value, no new entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError
from ..graphs.labels import FIRST_EDGE
from ..graphs.places import LINKS, NODE_UNIT, UNIT_OF, EdgePlace, Target, as_target
from ..graphs.snapshot import Snapshot, differing_features
from ..native.threads import run_in_pieces
from ..native.union import count_union, fill_union
from ..network.coefficients import Sides
from ..network.layers import ForwardPass, Network, project, project_all, run_network
from ..network.statistics import OF_GRAPH
from ..outputs import VALUE, Output, scales_of
from ..storage.codec import to_plain
from .links import Links, find_links
from .sets import Steps, merge_causes, trace_sets
from .states import (
    AFTER_GAINED,
    AFTER_REWEIGHTED,
    AFTER_STATISTICS,
    AT_EDGE,
    BEFORE_LOST,
    BEFORE_REWEIGHTED,
    DELTA,
    IN_AFTER,
    IN_BEFORE,
    LEAVE,
    NUM_MARKS,
    OF_AFTER,
    OF_BEFORE,
    STATES,
)

BLOCK_ENTRIES = 1 << 18  # merged at a time
RATE_WORK = 20  # operations for one slope, roughly
MERGE_WORK = 20  # operations to merge one entry, roughly
NUM_NUMBERS = 2**16
MARK_WORK = 4  # operations to look at the marks of one entry, roughly
MOVES = DELTA | STATES << LEAVE  # marks over which a walk in delta goes on


class LayerChange(NamedTuple):
    """One layer's coefficients of both snapshots on their common pattern (CSR, rows receiving)."""

    indptr: IntArray  # [num_nodes + 1]
    indices: NDArray[np.int32]  # [num_entries]
    before: FloatArray  # [num_entries, num_rules]
    after: FloatArray  # [num_entries, num_rules]
    kept: FloatArray  # [num_entries, num_rules]
    marks: NDArray[np.uint16]  # [num_entries, num_rules]: what each lets a walk do, see `states`
    local: bool
    # What of either coefficient is neither gained nor lost: `kept` itself, unless a rule divides its own (see `Rule`).
    kept_after: FloatArray  # [num_entries, num_rules]
    kept_before: FloatArray  # [num_entries, num_rules]


@dataclass(frozen=True, eq=False)
class Descents:
    """Which entries a walk in delta can go over, row by row: an index into a LayerChange, a fraction of its entries."""

    indptr: IntArray  # [num_nodes + 1]
    entries: IntArray  # [num_descents]
    marks: NDArray[np.uint16]  # [num_entries]: number of what the entry lets a walk do, a row of `values`
    values: NDArray[np.uint16]  # [num_marks, num_groups]: marks of each group of rules, see `links`


class Rates(NamedTuple):
    """Slopes of one layer's phi in the states delta (between the snapshots), after and before (from 0)."""

    slopes: FloatArray  # [num_rows, width]
    place: IntArray  # [3, num_nodes]: row of each node in each state


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
    links: tuple[Links | None, ...]  # None below the lowest hop
    like: Change | None = None  # the same up to its nodes, seen from other roots: what is known of these is taken there
    earlier: tuple[Change, ...] = ()  # the same two graphs under the model before, if that differs

    @property
    def num_nodes(self) -> int:
        """Nodes of both snapshots together."""
        return self.before.num_nodes

    @cached_property
    def first_edge(self) -> int:
        """The first row that is an edge's, where edges are places; else the number of all rows."""
        return self.before.first_edge

    def mark_leaves(self, paths: IntArray, held: NDArray[np.uint16]) -> None:
        """Write into the states of whole paths, leaf first, which of them begin at an edge."""
        if self.before.edge_rows is not None:
            held[paths[:, 0] >= self.first_edge] |= AT_EDGE

    @property
    def by_model(self) -> tuple[Change, ...]:
        """The change under each model: under the one before, where there are two, then under the one after."""
        return *self.earlier, self

    @property
    def logits_before(self) -> FloatArray:
        """What was predicted on `before`, by the model of then. [num_roots, num_classes]."""
        return self.by_model[0].before_pass.logits

    @property
    def logits_after(self) -> FloatArray:
        """What is predicted on `after`. [num_roots, num_classes]."""
        return self.after_pass.logits

    def model_share(self, rows: IntArray) -> FloatArray:
        """The share that the model itself has of the change, the other player being the data. [num_rows, num_classes].

        With f0 and f1 the two models, half of [f1(after) - f0(after) + f1(before) - f0(before)]; 0 where there is one.
        """
        old = self.by_model[0]
        passes = (self.after_pass, old.after_pass), (self.before_pass, old.before_pass)
        return np.asarray(0.5 * sum(new.logits[rows] - before.logits[rows] for new, before in passes))

    @property
    def num_positions(self) -> int:
        """Of a path, under either model."""
        return max(one.network.num_positions for one in self.by_model)

    @property
    def in_both(self) -> BoolArray:
        """Which roots both snapshots have: nodes, or the graphs or pairs that are predicted. [num_roots]."""
        return self.before.predicted.present & self.after.predicted.present

    @property
    def unit(self) -> str:
        """What is predicted: a node, a graph or a link."""
        return NODE_UNIT if self.before.places is None else UNIT_OF[self.before.places.kind]

    @property
    def task(self) -> dict[str, Any]:
        """What is predicted and what its columns mean, as plain values."""
        models = {"models": len(self.by_model)} if self.earlier else {}
        edges = {} if self.before.edge_rows is None else {"edges": True}
        relations = {} if self.before.edge_types is None else {"relations": True}
        types = {} if self.before.schema is None else {"types": list(self.before.schema.node_types)}
        return {"unit": self.unit, "output": to_plain(self.output), **models, **edges, **relations, **types}

    @property
    def of_graphs(self) -> bool:
        """Whether whole graphs are predicted."""
        return self.before.places is not None and not self.of_links

    @property
    def of_links(self) -> bool:
        """Whether pairs of nodes are predicted."""
        return self.before.places is not None and self.before.places.kind == LINKS

    @cached_property
    def output(self) -> Output:
        """What the columns of the logits mean; a unit of values is how much those of `before` vary, unless given."""
        kind, scales = self.network.output, self.network.scales
        if kind == VALUE and scales is None:
            scales = scales_of(self.logits_before[self.before.predicted.present])
        return Output(kind, scales)

    def numbers(self, paths: IntArray) -> IntArray:
        """Paths of rows -> the user's numbers of nodes, leaf first; the graph or pair at the end is left off."""
        ids = self.before.node_ids
        nodes = paths if self.before.places is None else paths[:, :-1]
        return np.where(nodes >= 0, ids[np.maximum(nodes, 0)], nodes)  # negative ones are no nodes: see `graphs.labels`

    def edges_on(self, numbers: IntArray) -> dict[int, EdgePlace]:
        """The edges among the places of paths in the user's numbers, by the numbers that stand for them."""
        if self.before.edge_rows is None and self.after.edge_rows is None:
            return {}
        codes = np.unique(numbers[numbers <= FIRST_EDGE])[::-1]
        found = self.ends_of_edges[FIRST_EDGE - codes].tolist() if len(codes) else []
        return {code: EdgePlace(*edge) for code, edge in zip(codes.tolist(), found, strict=True)}

    @cached_property
    def ends_of_edges(self) -> IntArray:
        """Ends of all edges of both snapshots, which of the parallel ones it is, and of how many. [num_edges, 4]."""
        return find_ends(self.before, self.after)

    @property
    def root_ids(self) -> IntArray:
        """The user's numbers of all roots: of nodes or graphs [num_roots], of pairs [num_roots, 2]."""
        return self.before.node_ids if self.before.places is None else self.before.places.ids

    def target(self, row: int) -> Target:
        """The user's number of a root: of a node, of a graph, or the numbers of a pair."""
        return as_target(self.root_ids[row])

    @cached_property
    def plain(self) -> BoolArray:
        """Entries of the lowest hop that are alike in both snapshots: what is sent, and what by. [num_entries]."""
        layer = self.layers[self.lowest_hop]
        alike = ~self.differs[self.lowest_hop][layer.indices]
        for before, after, marks in zip(layer.before.T, layer.after.T, layer.marks.T, strict=True):
            alike &= (before == after) & (marks < 1 << LEAVE)
        return np.asarray(alike)

    @cached_property
    def lowest_hop(self) -> int:
        """Index of the first layer that passes messages; a path's leaf value is what that layer receives.

        Layers below it stay at the leaf: everything they do to its features is part of the leaf's value.
        """
        return next(t for t, layer in enumerate(self.layers) if not layer.local)

    @cached_property
    def steps(self) -> Steps:
        """The walks of altered paths, from a root in delta."""
        return self._trace(DELTA | OF_AFTER | OF_BEFORE)

    @cached_property
    def merged_steps(self) -> Steps:
        """The same for counting, where causes and what exists do not matter: fewer sets."""
        return self._trace(DELTA, merged=True)

    @cached_property
    def after_steps(self) -> Steps:
        """The walks of all paths of `after`, altered or not."""
        return self._trace(AFTER_GAINED)

    @cached_property
    def before_steps(self) -> Steps:
        """The walks of all paths of `before`."""
        return self._trace(BEFORE_LOST)

    def _trace(self, start: int, merged: bool = False) -> Steps:
        marks = [descents.values for descents in self.descents]
        if merged:
            marks = [merge_causes(values) for values in marks]
        known = self._traced if self.like is None else self.like._traced
        key = (start, *((values.shape, values.tobytes()) for values in marks))
        if key not in known:
            known[key] = trace_sets(self.links, marks, start)
        return known[key]

    @cached_property
    def _traced(self) -> dict[tuple[Any, ...], Steps]:
        """By the marks that occur, which are the same for most roots."""
        return {}

    @cached_property
    def counted(self) -> dict[tuple[Any, ...], list[FloatArray]]:
        """Ways down from the nodes, by what was counted: the same for all roots of a change."""
        return {} if self.like is None else self.like.counted

    @cached_property
    def messages(self) -> tuple[FloatArray, FloatArray]:
        """What the channels of the lowest hop take from a leaf, h @ W before and after, side by side.

        [num_nodes, outputs of all channels] each.
        """
        if self.like is not None:
            return self.like.messages
        t = self.lowest_hop
        channels = self.network.layers[t].channels
        after = project_all(self.after_pass, t)
        nodes = np.flatnonzero(self.differs[t])
        if len(nodes) == 0:
            return after, after
        before = after.copy()
        # Both sides by products of one shape, which round alike: what does not differ is the same to the last bit.
        for side, run in ((before, self.before_pass), (after, self.after_pass)):
            side[nodes] = np.hstack([project(run.received(t, nodes), channel) for channel in channels])
        return before, after

    @cached_property
    def rates(self) -> tuple[Rates | None, ...]:
        """Slope of phi at every node of a layer, or None where phi is the identity."""
        known = () if self.like is None else self.like.rates[: self.network.rise]
        return (*known, *(self._rates_of(t) for t in range(len(known), len(self.layers))))

    def _rates_of(self, t: int) -> Rates | None:
        layer, before, after = self.network.layers[t], self.before_pass.z[t], self.after_pass.z[t]
        if layer.linear:
            return None
        # Where nothing differs, `before` has the same slopes as `after`, and no path is in delta.
        nodes = np.flatnonzero(self.differs[t + 1])
        size = len(after)
        slopes = np.empty((size + 2 * len(nodes), layer.width))

        def from_zero(start: int, stop: int) -> None:
            ends = after[start:stop]
            slopes[start:stop] = layer.rates(np.zeros_like(ends), ends)

        def where_it_differs(start: int, stop: int) -> None:
            low, high = before[nodes[start:stop]], after[nodes[start:stop]]
            slopes[size + start : size + stop] = layer.rates(np.zeros_like(low), low)
            slopes[size + len(nodes) + start : size + len(nodes) + stop] = layer.rates(low, high)

        run_in_pieces(from_zero, size, after.size * RATE_WORK)
        run_in_pieces(where_it_differs, len(nodes), 2 * len(nodes) * layer.width * RATE_WORK)
        place = np.tile(np.arange(size), (3, 1))
        here = np.arange(len(nodes))
        place[0, nodes], place[2, nodes] = size + len(nodes) + here, size + here
        return Rates(slopes, place)


def find_ends(before: Snapshot, after: Snapshot) -> IntArray:
    """Ends of all edges of two snapshots, which of the parallel ones it is, and of how many. [num_edges, 4]."""
    places = np.ones((before.num_nodes - before.first_edge, 4), dtype=np.int64)
    for side in (before, after):
        if side.edge_rows is not None:
            places[side.edge_rows - before.first_edge, :2] = side.node_ids[side.edge_index].T
    _, same, count = np.unique(places[:, :2], axis=0, return_inverse=True, return_counts=True)
    same = same.reshape(-1)
    order = np.argsort(same, kind="stable")
    places[order, 2] = 1 + np.arange(len(order)) - (np.cumsum(count) - count)[same[order]]
    places[:, 3] = count[same]
    return places


def with_roots(change: Change, before: Snapshot, after: Snapshot) -> Change:
    """The same change seen from other pairs: the snapshots' own, all else about their nodes being the same."""
    before_pass = run_network(change.network, before, change.before_pass)
    alike = np.array_equal(before.predicted.present, after.predicted.present)
    after_pass = run_network(change.network, after, change.after_pass, before_pass if alike else None)
    found = find_change(change.network, before, after, before_pass, after_pass, change)
    return replace(found, earlier=tuple(with_roots(one, before, after) for one in change.earlier))


def find_change(
    network: Network,
    before: Snapshot,
    after: Snapshot,
    before_pass: ForwardPass,
    after_pass: ForwardPass,
    like: Change | None = None,
    merged: Sequence[LayerChange] = (),
) -> Change:
    """Compare the two passes layer by layer; what they share with those of the change `like` is taken from there.

    Passes whose coefficients are merged already (`merge_layers`) need not hold them any more.
    """
    layers: list[LayerChange] = []
    descents: list[Descents] = []
    if like is None:
        differs = [differing_features(before, after)]
        links = find_links(network, next(t for t, layer in enumerate(network.layers) if not layer.local))
    else:
        layers, descents, links = list(like.layers[: network.rise]), list(like.descents[: network.rise]), like.links
        differs = list(like.differs[: len(layers) + 1])
    passes = before_pass, after_pass
    layers += merged or merge_layers(network, (before, after), passes, len(layers))
    for t in range(len(descents), len(layers)):
        descents.append(find_descents(layers[t], links[t], differs[-1]))
        differs.append(np.diff(descents[-1].indptr) > 0)
    first, last = without_coefficients(before_pass), without_coefficients(after_pass)
    return Change(network, before, after, first, last, tuple(layers), tuple(differs), tuple(descents), links, like)


def merge_layers(
    network: Network,
    snapshots: tuple[Snapshot, Snapshot],
    passes: tuple[ForwardPass, ForwardPass],
    first: int = 0,
) -> list[LayerChange]:
    """The coefficients of two passes side by side, from this layer on."""
    known: dict[tuple[int, ...], LayerChange] = {}
    layers: list[LayerChange] = []
    for t in range(first, len(network.layers)):
        matrices = passes[0].coefficients[t], passes[1].coefficients[t]
        # Layers with the same rules share their matrices, hence their comparison.
        key = tuple(id(matrix) for side in matrices for matrix in side)
        if key not in known:
            known[key] = _divide(_compare(*matrices, network.layers[t].local), network, t, snapshots, passes)
        layers.append(known[key])
    return layers


def without_coefficients(found: ForwardPass) -> ForwardPass:
    """The same once its matrices are merged: they are not needed beside what they were merged into."""
    return replace(found, coefficients=tuple(() for _ in found.layers))


def find_descents(layer: LayerChange, links: Links | None, differs: BoolArray) -> Descents:
    """An entry lets a walk in delta down where its coefficient changed, or is kept and leads to a node that differs.

    A row with such an entry belongs to a node whose output can differ.
    """
    size = len(layer.indices)
    joined, numbers = np.empty(size, dtype=np.uint16), np.zeros(size, dtype=np.uint16)

    def join(start: int, stop: int, rules: Sequence[int]) -> None:
        """Marks of several rules together, without delta where the sender cannot differ."""
        here = slice(start, stop)
        mark = layer.marks[here, rules[0]].copy()
        for rule in rules[1:]:
            mark |= layer.marks[here, rule]
        mark[~differs[layer.indices[here]]] &= ~np.uint16(DELTA)
        joined[here] = mark

    run_in_pieces(join, size, size * MARK_WORK, range(layer.marks.shape[1]))
    entries = np.flatnonzero(joined & MOVES)
    values = np.zeros((1, 0), dtype=np.uint16)
    for rules in () if links is None else links.groups:
        run_in_pieces(join, size, size * MARK_WORK, rules)
        pairs = numbers.astype(np.int32) * NUM_MARKS + joined
        seen = np.zeros((len(values), NUM_MARKS), dtype=np.bool_)
        seen.reshape(-1)[pairs] = True
        number, mark = np.nonzero(seen)
        if len(mark) > NUM_NUMBERS:
            raise InputError(
                f"Expected at most {NUM_NUMBERS:,} combinations of changed coefficients in one layer (got "
                f"{len(mark):,}); use fewer heads or branches whose columns stay apart."
            )
        table = np.zeros(seen.shape, dtype=np.uint16)
        table[number, mark] = np.arange(len(mark))
        numbers = table.reshape(-1)[pairs]
        values = np.concatenate([values[number], mark[:, None].astype(np.uint16)], axis=1)
    return Descents(np.searchsorted(entries, layer.indptr), entries, numbers, values)


def _compare(before: tuple[sparse.csr_array, ...], after: tuple[sparse.csr_array, ...], local: bool) -> LayerChange:
    """Both snapshots' matrices, one a rule, merged row by row; a block of rows at a time, for memory's sake."""
    sides = [*before, *after]
    num_nodes = sides[0].shape[0]
    num_blocks = 1 + sum(matrix.nnz for matrix in sides) // BLOCK_ENTRIES
    blocks = list(itertools.pairwise(num_nodes * i // num_blocks for i in range(num_blocks + 1)))
    sizes = np.zeros(num_nodes, dtype=np.int64)
    for first, last in blocks:
        stacked = _stack(sides, first, last)
        run_in_pieces(stacked.count_columns, last - first, len(stacked.indices) * MERGE_WORK, sizes[first:last])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    shape = int(indptr[-1]), len(before)
    indices, marks = np.empty(shape[0], np.int32), np.empty(shape, np.uint16)
    kept = np.empty(shape)
    found = LayerChange(indptr, indices, np.empty(shape), np.empty(shape), kept, marks, local, kept, kept)
    for first, last in blocks:
        if num_blocks > 1:  # a single one is still there
            stacked = _stack(sides, first, last)
        starts = indptr[first : last + 1]
        run_in_pieces(stacked.fill, last - first, len(stacked.indices) * MERGE_WORK, starts, found)
    return found


def _divide(
    found: LayerChange,
    network: Network,
    t: int,
    snapshots: tuple[Snapshot, Snapshot],
    passes: tuple[ForwardPass, ForwardPass],
) -> LayerChange:
    """The same where rules divide their own coefficients."""
    rules = network.layers[t].rules
    if not any(rule.divides for rule in rules):
        return found
    if network.rise is not None and t > network.rise:
        snapshots = snapshots[0].predicted, snapshots[1].predicted
    inputs = passes[0].received(t), passes[1].received(t)
    kept_after, kept_before = found.kept.copy(), found.kept.copy()
    for k, rule in enumerate(rules):
        if not rule.divides:
            continue
        marks, old, new = found.marks[:, k], found.before[:, k], found.after[:, k]
        there = (marks & OF_BEFORE) > 0, (marks & OF_AFTER) > 0
        kept, gained, lost = rule.divide(Sides(snapshots, inputs, found.indptr, found.indices, there, old, new))
        found.kept[:, k], kept_after[:, k], kept_before[:, k] = kept, new - gained, old - lost
        states = np.where(kept != 0, DELTA, 0) | np.where(new != 0, IN_AFTER, 0) | np.where(old != 0, IN_BEFORE, 0)
        moved = AFTER_STATISTICS if rule.divides == OF_GRAPH else AFTER_REWEIGHTED
        leaves = np.where(gained != 0, np.where(there[0], moved, AFTER_GAINED), 0)
        leaves |= np.where(lost != 0, np.where(there[1], BEFORE_REWEIGHTED, BEFORE_LOST), 0)
        found.marks[:, k] = (marks & (OF_BEFORE | OF_AFTER)) | states | leaves << LEAVE
    return found._replace(kept_after=kept_after, kept_before=kept_before)


class Stacked(NamedTuple):
    """Some rows of several matrices, one matrix behind the other; the first half of them is `before`'s."""

    indptrs: IntArray  # [num_matrices, num_rows + 1]
    indices: NDArray[np.int32]  # [num_entries]
    data: FloatArray  # [num_entries]

    def count_columns(self, start: int, stop: int, sizes: IntArray) -> None:
        """Number of different columns in each row."""
        count_union(start, stop, self.indptrs, self.indices, np.empty(len(self.indptrs), np.int64), sizes)

    def fill(self, start: int, stop: int, starts: IntArray, union: LayerChange) -> None:
        """The coefficients of both snapshots, from entry starts[i] on those of row i."""
        at = np.empty(len(self.indptrs), np.int64)
        fill_union(start, stop, *self, at, starts, union.indices, union.before, union.after, union.kept, union.marks)


def _stack(matrices: list[sparse.csr_array], first: int, last: int) -> Stacked:
    ends = [(int(matrix.indptr[first]), int(matrix.indptr[last])) for matrix in matrices]
    places = np.cumsum([0, *(high - low for low, high in ends)])
    indptrs = [
        matrix.indptr[first : last + 1].astype(np.int64) - low + place
        for matrix, (low, _), place in zip(matrices, ends, places, strict=False)
    ]
    parts = [slice(*end) for end in ends]
    return Stacked(
        np.stack(indptrs),
        np.concatenate([matrix.indices[part].astype(np.int32) for matrix, part in zip(matrices, parts, strict=True)]),
        np.concatenate([matrix.data[part] for matrix, part in zip(matrices, parts, strict=True)]),
    )
