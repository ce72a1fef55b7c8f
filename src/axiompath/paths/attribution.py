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
message for each cause that it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import (
    COUNT_STATES,
    KIND_OF_SET,
    KINDS,
    MODEL,
    NUM_STATES,
    REWEIGHTED,
    STATISTICS,
    name_causes,
)
from ..change.transfer import arrays_of
from ..graphs.labels import label_nodes, label_targets, name_edges, target_column
from ..graphs.places import EdgePlace, Target
from ..native.layers import LayerArrays
from ..native.shares import share_level
from ..native.threads import run_in_pieces
from ..network.statistics import OF_GRAPH
from ..outputs import CLASSES_OUTPUT, VALUE, Output
from ..storage.notebook import show
from .table import PathTable
from .walk import PathSet, count_suffixes

LANES = 8  # classes are taken so many at a time, see native/blocks.h
PRODUCTS_AT_ONCE = 1 << 20  # bytes: what a core's own cache holds


class Shares(NamedTuple):
    """What the paths of a PathSet contribute, row by row; and by target, what they do together."""

    contributions: FloatArray  # [num_paths, num_classes]
    kinds: NDArray[np.int8]  # [num_paths]: index into KINDS
    causes: FloatArray  # [num_targets, len(KINDS), num_classes]: the change of each logit, by cause


class Products(NamedTuple):
    """What the partial paths of one level carry down: products of their multipliers with the layer's maps."""

    # A row for each suffix and state, channels side by side; classes in whole lanes, zeros behind them.
    blocks: FloatArray  # [rows, columns, num_lanes]
    first: IntArray  # [num_suffixes]: first row of each suffix; states in the order of their bits
    held: NDArray[np.uint8]  # [num_suffixes]: the suffix's states


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

        The share of a retrained model, which no path has, counts as one of them.
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
        """One row per path: the target, the path's nodes (leaf first), kind, and contribution to each class.

        Names of nodes and classes, if any, stand beside the numbers.
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
    num_classes, num_paths = change.network.num_classes, len(found.paths)
    causes = np.zeros((len(found.targets), len(KINDS), num_classes))
    shares = Shares(np.zeros((num_paths, num_classes)), np.empty(num_paths, dtype=np.int8), causes)
    for rows in found.bias_rows.values():
        begun = rows[rows >= 0]
        shares.kinds[begun] = KIND_OF_SET[found.held[begun]]
    # Of paths that start at a bias, what the statistics did and what coefficients did.
    normed = any(rule.divides == OF_GRAPH for layer in change.network.layers for rule in layer.rules)
    bias_causes = np.zeros((2, num_paths if normed else 0, num_classes))
    stride = whole_lanes(num_classes)
    above = Products(np.zeros((0, 0, stride)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint8))
    layer_above: LayerArrays | None = None
    steps: list[tuple[Any, ...]] = []
    sizes = np.zeros(len(found.targets) + 1)  # of the products of all targets before each
    for t in sorted(found.levels, reverse=True):
        layer, level = arrays_of(change, t), found.levels[t]
        suffixes = np.searchsorted(level.target, np.arange(len(found.targets) + 1))
        formed = _room_for(change, t, found)
        steps.append((suffixes, level.node, level.parent, level.entry, formed.held, layer_above, layer, *above))
        steps[-1] += (formed.blocks, formed.first, *_sources(change, t, found, bias_causes), stride)
        sizes += np.append(formed.first, len(formed.blocks))[suffixes] * formed.blocks.strides[0]
        above, layer_above = formed, layer
    # All levels of a few targets before those of others: what was formed is then still in the cache.
    cuts = np.unique(np.searchsorted(sizes, np.arange(0, sizes[-1] + PRODUCTS_AT_ONCE, PRODUCTS_AT_ONCE)))
    cuts[-1:] = len(found.targets)
    cuts = np.unique(np.append(cuts, 0))
    widest = max((change.network.layers[t].width for t in found.levels), default=0)
    scratch_size = (NUM_STATES + 1) * widest * stride + (2 + 2 * len(KINDS)) * stride + change.messages[1].shape[1]

    def share(start: int, stop: int) -> None:
        scratch = np.empty(scratch_size)
        for ends in itertools.pairwise(cuts[start : stop + 1].tolist()):
            for step in steps:
                share_level(*ends, *step, scratch, *shares)

    run_in_pieces(share, len(cuts) - 1, float(shares.contributions.size + sizes[-1] / 8) * widest)
    statistics, reweighted = np.abs(bias_causes).sum(axis=2)
    if normed:
        shares.kinds[(statistics > reweighted) & (shares.kinds == REWEIGHTED)] = STATISTICS
    return shares


def _room_for(change: Change, t: int, found: PathSet) -> Products:
    """Where the products of a level go: a block for each suffix and state, none at the lowest."""
    held = change.steps.sets[t].held[found.levels[t].sets]
    counts = COUNT_STATES[held].astype(np.int64) * (t != change.lowest_hop)
    ends = np.cumsum(counts)
    columns = int(change.network.layers[t].lay_out(inputs=True)[:, 2].sum())
    shape = int(ends[-1]) if len(ends) else 0, columns, whole_lanes(change.network.num_classes)
    return Products(np.empty(shape), ends - counts, held)


def _sources(change: Change, t: int, found: PathSet, bias_causes: FloatArray) -> tuple[Any, ...]:
    """What the biases and leaves of a level are, as the kernel takes them."""
    nowhere, lowest = np.zeros(0, dtype=np.int64), change.lowest_hop
    leaves = (found.leaf_rows, found.num_leaves) if t == lowest else (nowhere, nowhere)
    messages = map(np.ascontiguousarray, change.messages)
    alike = change.differs[lowest].view(np.uint8), change.plain.view(np.uint8)
    bias_rows = found.bias_rows.get(t, nowhere)
    return bias_rows, bias_causes, *leaves, found.entry, found.held, *alike, *messages, change.first_edge


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
    """One Attribution per target, in the batch's order, each with arrays of its own: keeping one keeps no other."""
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
    total = num_paths.astype(np.float64) * (2 * (8 * num_classes + 8 * length + 1) + 4 + 8 + 40)
    for t in range(len(layers) - 1, lowest - 1, -1):
        suffixes, states = count_suffixes(change, t)
        # A Level, its states, its trail, first rows, numbers and rows of children, and the sources at a bias.
        total += suffixes * (23 + 4 * length + 56 + 16 * num_classes)
        columns = sum(channel.inputs.stop - channel.inputs.start for channel in layers[t].channels)
        total += states * (8.0 * whole_lanes(num_classes) * columns if t > lowest else 0.0)
    return np.asarray(total, dtype=np.float64)


def whole_lanes(number: int) -> int:
    """The same, or so much more that it is a multiple of LANES."""
    return -(-number // LANES) * LANES
