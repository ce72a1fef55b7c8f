"""The normal form of a GNN: Channel, Layer, Network; Network + Snapshot -> ForwardPass.

Layer t = 1..T maps h^(t-1) to z^t and h^t:

    z^t[V] = sum over channels k:  sum over U  a_k^t[V, U] * h^(t-1)[U] @ W_k^t     + b^t
    h^t    = phi_t(z^t)

A channel reads a range of the columns of h^(t-1) and adds to a range of the columns of z^t, so that skip
connections and concatenations cost no arithmetic. Coefficients a belong to a snapshot; everything else is the model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot, in_double
from ..outputs import CLASSES
from .activations import Activation
from .coefficients import Rule

HELD_NUMBERS = 1 << 18  # numbers that are made at a time on the way to others


@dataclass(frozen=True, eq=False)
class Channel:
    """One aggregation: coefficients and the linear map that follows it (None for the identity)."""

    coefficients: Rule
    weight: FloatArray | None  # [inputs, outputs]
    inputs: slice
    outputs: slice


@dataclass(frozen=True, eq=False)
class Block:
    """A range of a layer's columns that share an activation (None for the identity) and a name in the user's model."""

    outputs: slice
    activation: Activation | None
    name: str
    recorded: int | None = None  # which recorded value of the user's model these columns equal


@dataclass(frozen=True, eq=False)
class Layer:
    """Channels, bias and activations of one layer."""

    channels: tuple[Channel, ...]
    bias: FloatArray | None  # [width]
    blocks: tuple[Block, ...]
    width: int

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The different coefficient rules of the channels, in order of appearance."""
        return tuple(dict.fromkeys(channel.coefficients for channel in self.channels))

    @cached_property
    def families(self) -> tuple[int, ...]:
        """Of each rule, the first whose family it is of: what one of them lets a walk do, it may do over all."""
        first: dict[Rule, int] = {}
        return tuple(first.setdefault(rule.family, i) for i, rule in enumerate(self.rules))

    @cached_property
    def rule_numbers(self) -> tuple[int, ...]:
        """Of each channel, the place of its rule among the rules."""
        place = {rule: i for i, rule in enumerate(self.rules)}
        return tuple(place[channel.coefficients] for channel in self.channels)

    def lay_out(self, *, inputs: bool) -> IntArray:
        """The inputs, or the outputs, of all channels side by side.

        [num_channels, 4]: first column of each there, first column in the layer, width, rule.
        """
        return self._laid_out[0 if inputs else 1]

    @cached_property
    def _laid_out(self) -> tuple[IntArray, IntArray]:
        found = []
        for ranges in ([channel.inputs for channel in self.channels], [channel.outputs for channel in self.channels]):
            widths = [columns.stop - columns.start for columns in ranges]
            starts = [columns.start for columns in ranges]
            found.append(np.stack([np.cumsum(widths) - widths, starts, widths, self.rule_numbers], axis=1))
        return found[0], found[1]

    @cached_property
    def local(self) -> bool:
        """Whether a path stays at its node in this layer."""
        return all(rule.local for rule in self.rules)

    @cached_property
    def rises(self) -> bool:
        """Whether it leads from nodes to what is predicted: whole graphs, or pairs of nodes."""
        return any(rule.rises for rule in self.rules)

    @cached_property
    def linear(self) -> bool:
        """Whether phi is the identity."""
        return all(block.activation is None for block in self.blocks)

    def activate(self, z: FloatArray) -> FloatArray:
        """h = phi(z), [num_nodes, width]."""
        if self.linear:
            return z
        h = z.copy()
        for rows in pieces_of(len(z), self.width):
            for block in self.blocks:
                if block.activation is not None:
                    h[rows, block.outputs] = block.activation.value(z[rows, block.outputs])
        return h

    def derivatives(self, z: FloatArray) -> FloatArray:
        """phi'(z), [rows, width]."""
        slopes = np.ones_like(z)
        for block in self.blocks:
            if block.activation is not None:
                slopes[:, block.outputs] = block.activation.derivative(z[:, block.outputs])
        return slopes

    def rates(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Slopes of the secants of phi between two arrays of z, [rows, width]."""
        rates = np.ones_like(after)
        for block in self.blocks:
            if block.activation is not None:
                columns = block.outputs
                rates[:, columns] = block.activation.rate(before[:, columns], after[:, columns])
        return rates


@dataclass(frozen=True, eq=False)
class Network:
    """A GNN that every later step understands."""

    layers: tuple[Layer, ...]
    num_features: int
    output: str = CLASSES  # what the columns of the last layer mean
    scales: FloatArray | None = None  # [num_classes]: units of values, where the user says them
    answered: frozenset[int] = frozenset()  # types of the nodes that it answers for; none where nodes have no types
    end: str = ""  # the softmax or sigmoid at the model's end that is left off, by its name in torch

    @property
    def num_classes(self) -> int:
        """Width of the logits."""
        return self.layers[-1].width

    @cached_property
    def num_hops(self) -> int:
        """Number of layers that pass messages from node to node."""
        return sum(not layer.local and not layer.rises for layer in self.layers)

    @cached_property
    def rise(self) -> int | None:
        """Index of the layer that leads from nodes to graphs or pairs; None where nodes are predicted."""
        return next((t for t, layer in enumerate(self.layers) if layer.rises), None)

    @cached_property
    def takes_edges(self) -> bool:
        """Whether the edges of a snapshot are places, too."""
        return any(rule.of_edges for layer in self.layers for rule in layer.rules)

    @cached_property
    def recorded(self) -> bool:
        """Whether some coefficients are known on two graphs only, so that no other graph can be evaluated."""
        return any(rule.recorded for layer in self.layers for rule in layer.rules)

    @property
    def num_positions(self) -> int:
        """Places on a path from its leaf to its root, both included: nodes, and the graph or pair that it ends at."""
        return self.num_hops + 1 + (self.rise is not None)


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """What a network computed on one snapshot."""

    layers: tuple[Layer, ...]  # of the network
    x: Features  # what the first of them received
    coefficients: tuple[tuple[sparse.csr_array, ...], ...]  # one matrix a layer and rule
    z: tuple[FloatArray, ...]  # [num_nodes, width] a layer

    def received(self, t: int, rows: IntArray | slice | None = None) -> Features:
        """h^(t-1), what layer t received, of these rows or of all: from z, which is held, rather than held itself."""
        if t == 0:
            return in_double(self.x if rows is None else self.x[rows])
        z = self.z[t - 1]
        return self.layers[t - 1].activate(z if rows is None else z[rows])

    @cached_property
    def risen(self) -> Features:
        """What the layer received that leads to pairs; held, since one pair after the other may be asked for."""
        return self.received(next(t for t, layer in enumerate(self.layers) if layer.rises))

    @property
    def logits(self) -> FloatArray:
        """z of the last layer, [num_nodes, num_classes]."""
        return self.z[-1]


def run_network(
    network: Network, snapshot: Snapshot, below: ForwardPass | None = None, beside: ForwardPass | None = None
) -> ForwardPass:
    """The forward pass, in float64; with `below`, a pass on the same nodes, only what lies above them is computed.

    `beside` is then the pass on another snapshot with the very same places, whose matrices are taken where they do not
    depend on what they act on.
    """
    fixed: dict[Rule, sparse.csr_array] = {}
    start = 0 if below is None or network.rise is None else network.rise
    h: Features = in_double(snapshot.x)
    x = snapshot.x if below is None else below.x
    coefficients: list[tuple[sparse.csr_array, ...]] = []
    preactivations: list[FloatArray] = []
    if below is not None:
        h = below.risen
        coefficients, preactivations = list(below.coefficients[:start]), list(below.z[:start])
    for t, layer in enumerate(network.layers[start:], start):
        matrices = {}
        for number, rule in enumerate(layer.rules):
            if rule.reads_inputs:
                matrices[rule] = rule.matrix(snapshot, h)
            elif beside is not None:
                matrices[rule] = beside.coefficients[t][number]
            else:
                if rule not in fixed:
                    fixed[rule] = rule.matrix(snapshot, h)
                matrices[rule] = fixed[rule]
            matrices[rule].sort_indices()
        if layer.rises:
            snapshot, fixed = snapshot.predicted, {}
        z = np.zeros((snapshot.num_nodes, layer.width))
        for channel in layer.channels:
            matrix, weight = matrices[channel.coefficients], channel.weight
            if layer.rises and weight is not None:
                # Few places of many nodes: what they take is gathered first, and mapped then.
                z[:, channel.outputs] += (matrix @ h[:, channel.inputs]) @ weight
            else:
                z[:, channel.outputs] += matrix @ project(h, channel)
        if layer.bias is not None:
            z += layer.bias
        coefficients.append(tuple(matrices[rule] for rule in layer.rules))
        preactivations.append(z)
        h = layer.activate(z) if layer is not network.layers[-1] else z
    return ForwardPass(network.layers, x, tuple(coefficients), tuple(preactivations))


def run_pair(network: Network, before: Snapshot, after: Snapshot) -> tuple[ForwardPass, ForwardPass]:
    """The forward passes on two snapshots, the same to the last bit on any number of cores."""
    with threadpool_limits(1):  # the rounding of a product may depend on how many threads share it
        return run_network(network, before), run_network(network, after)


def pieces_of(num_rows: int, width: int) -> Iterator[slice]:
    """Rows of so many columns, a chunk at a time: what is made of them in between stays small."""
    step = max(HELD_NUMBERS // max(width, 1), 1)
    return (slice(start, min(start + step, num_rows)) for start in range(0, num_rows, step))


def project(h: Features, channel: Channel) -> FloatArray:
    """h @ W of one channel, dense, [num_nodes, outputs]; sparse features are never made dense themselves."""
    columns = h if channel.inputs == slice(0, h.shape[1]) else h[:, channel.inputs]
    if channel.weight is None:
        return np.asarray(columns if isinstance(columns, np.ndarray) else columns.toarray())
    return np.asarray(columns @ channel.weight)


def project_all(run: ForwardPass, t: int) -> FloatArray:
    """What layer t received @ W of each channel, side by side, [num_nodes, outputs of all channels]."""
    layer, held = run.layers[t], run.x if t == 0 else run.z[t - 1]
    ends = np.cumsum([0, *(channel.outputs.stop - channel.outputs.start for channel in layer.channels)]).tolist()
    found = np.empty((held.shape[0], ends[-1]))
    # A chunk at a time: of single precision, all of it would be made double at once.
    for piece in pieces_of(held.shape[0], held.shape[1]):
        received = run.received(t, piece)
        for channel, first, last in zip(layer.channels, ends[:-1], ends[1:], strict=True):
            found[piece, first:last] = project(received, channel)
    return found
