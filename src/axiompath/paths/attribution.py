"""PathSet -> Shares: every altered path's share of every logit's change, its kind, and what caused the change.

The contribution of a path is a product along it. Going down from the root, each partial path carries one multiplier
M [num_classes, width] for each of its states, starting from the identity:

    Q = M * rate of V at layer t                 rate: slope of phi in that state, see `Change.rates`
    P = Q @ W'                                   for each channel
    M of (.., U, V, ..) in delta   =  kept   * P[delta]
                        in after   =  gained * P[delta] + a_after  * P[after]
                        in before  = -lost   * P[delta] + a_before * P[before]

`after` is two states, and so is `before`: delta was left over an entry that the other snapshot does not have, or over
one that both have (see `states`). So every term of the sum has one cause, and terms add up by cause. A path that
only one snapshot has is *gained* or *lost*; the kind of any other is the larger of its causes *reweighted* and
*feature*, by the sum over classes of |share|.

A source g at the end of the path (a leaf's message, or a bias) contributes M @ (rate * g). Only P is stored: M and Q
of a partial path live in a scratch buffer, and those of the lowest hop, by far the most, are never formed. There
P * coefficient * rate is formed once for all sources below a partial path, and each of them costs one product with its
message. Most paths have one cause, which needs no more than to know it; those with several are summed cause by cause,
never held cause by cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change, LayerChange, Rates
from ..change.states import (
    COUNT_STATES,
    DELTA,
    KIND_OF_SET,
    KINDS,
    MODEL,
    OF_AFTER,
    OF_BEFORE,
    ONE_CAUSE,
    REWEIGHTED,
    STATES,
    STATISTICS,
    name_causes,
)
from ..graphs.labels import label_nodes, label_targets, name_edges, target_column
from ..graphs.places import EdgePlace, Target
from ..network.layers import Layer
from ..network.statistics import OF_GRAPH
from ..notebook import show
from ..outputs import CLASSES_OUTPUT, VALUE, Output
from ..threads import run_in_pieces
from .lanes import whole_lanes
from .share_loops import (
    Above,
    Here,
    Maps,
    Mixed,
    Received,
    Shares,
    mark_mixed,
    multiply_rows,
    sum_causes,
    take_mixed,
)
from .source_loops import take_sources
from .table import PathTable
from .walk import PathSet, count_suffixes
from .walk_loops import Level

# One entry of coefficient 1 that both snapshots have: to hang a root from, and for the message of a bias.
_ONE, _MARKS = np.ones((1, 1)), np.array([[STATES | OF_AFTER | OF_BEFORE]], dtype=np.uint16)
SAME = LayerChange(np.array([0, 1]), np.zeros(1, dtype=np.int32), _ONE, _ONE, _ONE, _MARKS, True, _ONE, _ONE)
NO_RATES = Rates(np.zeros((0, 0)), np.zeros((3, 0), dtype=np.int64))
SUM_WORK = 2  # operations to add one contribution to a sum, roughly


@dataclass(frozen=True, eq=False)
class Attribution:
    """Why the logits of one target changed: all altered paths and their shares."""

    target: Target
    paths: IntArray  # [num_paths, num_hops + 1], leaf first, -1 before a bias source
    contributions: FloatArray  # [num_paths, num_classes]
    kinds: NDArray[np.int8]  # [num_paths]: index into axiompath.KINDS
    causes: dict[str, FloatArray]  # kind -> [num_classes]: the whole change by cause; the parts sum to delta_logits
    logits_before: FloatArray  # [num_classes]
    logits_after: FloatArray  # [num_classes]
    node_names: Mapping[int, str] = field(default_factory=dict, repr=False)
    class_names: tuple[str, ...] = ()
    edge_places: Mapping[int, EdgePlace] = field(default_factory=dict)  # those on paths, by what stands for them there
    output: Output = CLASSES_OUTPUT  # what the columns mean

    @property
    def delta_logits(self) -> FloatArray:
        """What is explained, [num_classes]."""
        return self.logits_after - self.logits_before

    @property
    def residual(self) -> float:
        """Largest difference, over classes, between the sum of the contributions and the change of the logit.

        The share of another model, which no path carries, counts as one of them.
        """
        fixed = self.causes.get(MODEL, 0.0)
        return float(np.abs(self.contributions.sum(axis=0) + fixed - self.delta_logits).max())

    def __repr__(self) -> str:
        """How many paths, and how far their sum is from the change."""
        called = label_targets(np.asarray([self.target]), self.node_names)[0]
        word = "value" if self.output.kind == VALUE else "logit"
        return (
            f"Attribution of {called}: {len(self.paths):,} altered paths, whose shares sum to the change of "
            f"{len(self.delta_logits)} {word}{'s' * (len(self.delta_logits) != 1)} to within {self.residual:.1e}"
        )

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(repr(self), self.to_frame())

    def to_frame(self) -> pd.DataFrame:
        """One row a path: the target, the path's nodes (leaf first), kind, and contribution to each class.

        Where nodes or classes have names, these stand beside the numbers.
        """
        targets = np.array([self.target]).repeat(len(self.paths), axis=0)
        frame = pd.DataFrame({"target": target_column(targets)})
        if self.node_names:
            frame["name"] = label_targets(targets, self.node_names)
        names = {**self.node_names, **name_edges(self.edge_places, self.node_names)}
        for i, nodes in enumerate(self.paths.T):
            frame[f"hop_{i}"] = nodes
            if names:
                frame[f"hop_{i}_name"] = label_nodes(nodes, names)
        frame["kind"] = pd.Categorical.from_codes(self.kinds.astype(np.int64), categories=pd.Index(KINDS))
        columns = self.output.table_columns(self.contributions.shape[1], self.class_names)
        return pd.concat([frame, pd.DataFrame(self.contributions, columns=columns)], axis=1)


def attribute_paths(change: Change, found: PathSet) -> Shares:
    """Contribution of every path of the set to every logit of its target, its kind, and the causes of each target."""
    num_classes = change.network.num_classes
    contributions = np.empty((len(found.paths), num_classes))
    causes = np.zeros((len(found.targets), len(KINDS), num_classes))
    shares = Shares(contributions, np.empty(len(found.paths), dtype=np.int8), causes)
    for rows in found.bias_rows.values():
        begun = rows[rows >= 0]
        contributions[begun], shares.kinds[begun] = 0.0, KIND_OF_SET[found.held[begun]]
    normed = any(rule.divides == OF_GRAPH for layer in change.network.layers for rule in layer.rules)
    # Of paths that start at a node itself, what the statistics did and what coefficients did.
    own = np.zeros((2, *contributions.shape)) if normed else None
    top = max(found.levels)
    above = _above_the_root(len(found.levels[top].node), num_classes)
    for t in range(top, change.lowest_hop - 1, -1):
        if t in found.bias_rows:
            _take_biases(change, found, t, above, shares, own)
        if t == change.lowest_hop:
            _take_leaves(change, found, above, shares)
        else:
            above = _multiply(change, t, found.levels[t], above, shared=t == top)
    work = contributions.size * SUM_WORK
    run_in_pieces(sum_causes, len(found.targets), work, found.indptr, found.held, shares)
    if own is not None:
        statistics, reweighted = np.abs(own).sum(axis=2)
        shares.kinds[(statistics > reweighted) & (shares.kinds == REWEIGHTED)] = STATISTICS
    return shares


def make_table(change: Change, found: PathSet) -> tuple[PathTable, FloatArray]:
    """The same as a table, and the causes of each target, [num_targets, len(KINDS), num_classes]."""
    shares = attribute_paths(change, found)
    return PathTable(found.indptr, found.paths, shares.contributions, shares.kinds), shares.causes


def split_by_target(
    change: Change,
    targets: IntArray,
    table: PathTable,
    causes: FloatArray,
    node_names: Mapping[int, str],
    class_names: tuple[str, ...],
) -> Iterator[Attribution]:
    """One Attribution a target, in the batch's order, each with arrays of its own: keeping one keeps no other."""
    plain = change.before.places is None and np.array_equal(change.before.node_ids, np.arange(change.num_nodes))
    for i, (row, named) in enumerate(zip(targets.tolist(), name_causes(causes), strict=True)):
        own = table.one(i)
        paths = own.paths.copy() if plain else change.numbers(own.paths)
        yield Attribution(
            row if plain else change.target(row),
            paths,
            own.contributions.copy(),
            own.kinds.copy(),
            named,
            change.logits_before[row],
            change.logits_after[row],
            node_names,
            class_names,
            change.edges_on(paths),
            change.output,
        )


def estimate_bytes(change: Change, num_paths: NDArray[Any]) -> FloatArray:
    """Upper bound on the memory that walking, attributing and choosing takes for each node, [num_nodes]."""
    num_classes, length, lowest = change.network.num_classes, change.network.num_positions, change.lowest_hop
    layers = change.network.layers
    # Contributions, paths and kinds, twice because each target gets its own; states and entries; what choosing weighs
    # a path with.
    total = num_paths.astype(np.float64) * (2 * (8 * num_classes + 8 * length + 1) + 1 + 8 + 40)
    # Sums by cause, of those suffixes that have a path of several.
    mixes = change.steps.can_mix
    product_above, peak = np.zeros(len(total)), np.zeros(len(total))
    for t in range(len(layers) - 1, lowest - 1, -1):
        suffixes, states = count_suffixes(change, t)
        # A Level, its states, its trail, first rows, numbers and rows of children, and the sources at a bias.
        total += suffixes * (23 + 4 * length + 56 + 16 * num_classes)
        if mixes and (t == lowest or layers[t].bias is not None):
            total += suffixes * (16 + 8 * len(KINDS) * num_classes)
        columns = sum(channel.inputs.stop - channel.inputs.start for channel in layers[t].channels)
        product = states * (8.0 * whole_lanes(num_classes) * columns if t > lowest else 0.0)
        peak = np.maximum(peak, product_above + product)
        product_above = product
    return np.asarray(total + peak, dtype=np.float64)


def _above_the_root(num_roots: int, num_classes: int) -> Above:
    """Every root hangs in delta below one identity, which all share."""
    first, held = np.zeros(num_roots, dtype=np.int64), np.full(num_roots, DELTA, dtype=np.uint8)
    identity = np.eye(num_classes, whole_lanes(num_classes))[None]
    return Above(identity, first, held, np.array([[0, 0, num_classes, 0]]), SAME)


def _suffixes(change: Change, t: int, level: Level) -> Here:
    held = change.steps.sets[t].held[level.sets]
    rates = change.rates[t] or NO_RATES
    return Here(level.node, level.parent, level.entry, held, change.network.layers[t].width, rates)


def _multiply(change: Change, t: int, level: Level, above: Above, shared: bool) -> Above:
    """P of the level above -> P of this one. At the root (`shared`) nothing depends on the target yet."""
    layer, here = change.network.layers[t], _suffixes(change, t, level)
    num_suffixes = min(1, len(level.node)) if shared else len(level.node)
    ends = np.cumsum(COUNT_STATES[here.held[:num_suffixes]], dtype=np.int64)
    num_rows = int(ends[-1]) if num_suffixes else 0
    first = np.zeros(len(level.node), dtype=np.int64)
    if not shared:
        first[1:] = ends[:-1]
    inputs = layer.lay_out(inputs=True)
    product = np.empty((num_rows, int(inputs[:, 2].sum()), whole_lanes(change.network.num_classes)))
    found = Above(product, first, here.held, inputs, change.layers[t])
    run_in_pieces(multiply_rows, num_suffixes, product.size * layer.width, above, here, lay_out_maps(layer), found)
    return found


def lay_out_maps(layer: Layer) -> Maps:
    """The maps of a layer's channels, one behind the other."""
    inputs, outputs = layer.lay_out(inputs=True), layer.lay_out(inputs=False)
    weights = [np.zeros(0) if c.weight is None else c.weight.ravel() for c in layer.channels]
    sizes = np.array([len(weight) for weight in weights])
    has_weight = [channel.weight is not None for channel in layer.channels]
    places = [inputs[:, 0], inputs[:, 2], outputs[:, 1], outputs[:, 2], np.cumsum(sizes) - sizes, has_weight]
    return Maps(np.concatenate(weights), np.stack(places, axis=1).astype(np.int64))


def _take_leaves(change: Change, found: PathSet, above: Above, shares: Shares) -> None:
    """Add to each row what its leaf contributes."""
    t = change.lowest_hop
    channels = change.network.layers[t].lay_out(inputs=False)
    rows = found.leaf_rows, found.num_leaves, found.entry, found.held
    before, after = map(np.ascontiguousarray, change.messages)
    entries = change.layers[t]
    divided = entries.kept_after is not entries.kept
    sources = Received(*rows, entries, change.differs[t], channels, before, after, divided)
    _take(change, t, found.levels[t], above, sources, shares)


def _take_biases(
    change: Change, found: PathSet, t: int, above: Above, shares: Shares, parts: FloatArray | None
) -> None:
    """Add to each row what the bias of layer t contributes, and to `parts` what statistics and coefficients did.

    A bias is a leaf that both snapshots have, with the same message; in delta it cancels.
    """
    layer, rows = change.network.layers[t], found.bias_rows[t]
    assert layer.bias is not None
    own = rows >= 0
    size, message = len(rows), np.ascontiguousarray(layer.bias[None])
    held = np.where(own, found.held[rows], 0).astype(np.uint16) if len(found.held) else np.zeros(size, np.uint16)
    where = np.arange(size), own.astype(np.int64), np.zeros(size, dtype=np.int64), held
    channels = np.array([[0, 0, layer.width, 0]])
    sources = Received(*where, SAME, np.zeros(1, dtype=np.bool_), channels, message, message, False)
    # A bias does not change, so that its path is what it is by what the snapshots have.
    taken = Shares(np.zeros((size, change.network.num_classes)), np.zeros(size, np.int8), shares.causes)
    slot, causes = _take(change, t, found.levels[t], above, sources, taken)
    shares.contributions[rows[own]] += taken.contributions[own]
    for part, cause in () if parts is None else zip(parts, (STATISTICS, REWEIGHTED), strict=True):
        alone, several = np.flatnonzero(own & (ONE_CAUSE[held] == cause)), np.flatnonzero(own & (slot >= 0))
        part[rows[alone]] += taken.contributions[alone]
        part[rows[several]] += causes[slot[several], cause]


def _take(
    change: Change, t: int, level: Level, above: Above, sources: Received, shares: Shares
) -> tuple[IntArray, FloatArray]:
    """Sources of one cause, then those of several: where the latter are, and what of them has which cause."""
    here, size = _suffixes(change, t, level), len(level.node)
    work = float(shares.contributions.size) * above.product.shape[1]
    run_in_pieces(take_sources, size, work, above, here, sources, shares)
    nowhere = np.full(size, -1), np.zeros((0, *shares.causes.shape[1:]))
    if not change.steps.can_mix:
        return nowhere
    several = np.zeros(size, dtype=np.int64)
    run_in_pieces(mark_mixed, size, float(sources.number.sum()), sources, several)
    if not several.any():
        return nowhere
    slot = np.where(several > 0, np.cumsum(several) - 1, -1)
    causes = np.zeros((int(several.sum()), *shares.causes.shape[1:]))
    mixed = Mixed(slot, causes, shares.contributions, shares.kinds)
    run_in_pieces(take_mixed, size, work, above, here, sources, mixed)
    np.add.at(shares.causes, level.target[slot >= 0], causes)
    return slot, causes
