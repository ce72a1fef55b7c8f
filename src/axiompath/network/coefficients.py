"""Snapshot -> sparse matrix of coefficients: how much node V takes of node U in one aggregation.

A rule is a small frozen value that extends `Rule`: its `matrix(snapshot, inputs)` gives the coefficients a[V, U] as CSR
[num_nodes, num_nodes], rows receiving. Equal rules give equal matrices on one snapshot unless they read the `inputs`
(hidden features [num_nodes, width], which attention needs); such a rule says `reads_inputs = True`, compares by
identity, and receives exactly the columns that its reader named. See attention.py for those.

A rule may say how far its rows look, `reach`: 0 where the messages into V (and the inputs of V and its senders) decide
row V, 1 where the messages into its senders do too. A rule that does not say is taken to look at the whole graph, and
is computed anew for all of it whenever anything changes. A rule of reach 1 that needs no more of the messages into its
senders than their number and weight, and adds `snapshot.unseen` to what it counts, says `heeds_unseen = True`; a rule
that does not use edges says `reads_edges = False`.

A rule may divide its own coefficients into what is kept, gained and lost (see change/comparison.py), where the smaller
of both would not say what it means: it then says how, by `divides`, and has a `divide`. Rules of one `family` are the
columns of one rule: what one of them lets a walk do, a walk may do over all.

Every rule heeds `snapshot.present`: a node that only the other snapshot has takes nothing and gets no self-loop. What
a matrix holds is an edge, or a node, that exists, also where its coefficient is 0; what it does not hold does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot

SOURCE_TO_TARGET = "source_to_target"
ANYWHERE = "anywhere"  # between nodes that no edge joins, too


class Sides(NamedTuple):
    """One rule in both snapshots, on the common pattern of its layer (CSR, rows receiving)."""

    snapshots: tuple[Snapshot, Snapshot]  # before, after
    inputs: tuple[Features, Features]
    indptr: IntArray  # [num_rows + 1]
    indices: NDArray[np.int32]  # [num_entries]
    there: tuple[BoolArray, BoolArray]  # [num_entries]: which entries the rule has in each
    before: FloatArray  # [num_entries]: its coefficients
    after: FloatArray  # [num_entries]

    @property
    def both(self) -> BoolArray:
        """Entries of both snapshots. [num_entries]."""
        return self.there[0] & self.there[1]


Parts = tuple[FloatArray, FloatArray, FloatArray]  # kept, gained, lost, [num_entries] each


class Rule(ABC):
    """What every rule says of itself; a rule overrides what is otherwise with it, by class variables or fields."""

    @property
    def local(self) -> bool:
        """Only V = U: a path stays at its node."""
        return False

    @property
    def rises(self) -> bool:
        """Whether what receives are no nodes but what is predicted: whole graphs, or pairs of nodes."""
        return False

    @property
    def of_links(self) -> bool:
        """Whether it rises to pairs of nodes."""
        return False

    @property
    def of_edges(self) -> bool:
        """Whether it needs edges as places: takes from them, gives to them, or reads their features."""
        return False

    @property
    def to_edges(self) -> bool:
        """Whether what receives are edges."""
        return False

    @property
    def from_edges(self) -> bool:
        """Whether what sends are edges."""
        return False

    @property
    def restarts(self) -> bool:
        """Whether what undoing a path carries down begins anew below: all factors of a product do but one."""
        return False

    @property
    def reads_inputs(self) -> bool:
        """Whether the coefficients depend on features."""
        return False

    @property
    def reads_edges(self) -> bool:
        """Whether they depend on edges."""
        return True

    @property
    def weighted(self) -> bool:
        """Whether they depend on the weights of edges."""
        return False

    @property
    def recorded(self) -> bool:
        """Whether the coefficients are values that a model computed on two graphs, known on no other."""
        return False

    @property
    def flow(self) -> str:
        """Which way messages flow, in PyG's words; or anywhere."""
        return SOURCE_TO_TARGET

    @property
    def reach(self) -> int | None:
        """How far a row looks: 0 or 1 as above, None for the whole graph."""
        return None

    @property
    def heeds_unseen(self) -> bool:
        """Whether a rule of reach 1 counts what was left out of a snapshot."""
        return False

    @property
    def family(self) -> Rule:
        """What stands for all rules that are columns of one with this."""
        return self

    @property
    def divides(self) -> str:
        """How it divides its own coefficients, by name; nothing where the smaller of both is kept."""
        return ""

    def divide(self, sides: Sides) -> Parts:
        """What is kept, gained and lost, of a rule that divides its own."""
        raise NotImplementedError

    @abstractmethod
    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """a[V, U], [num_nodes, num_nodes]."""


@dataclass(frozen=True)
class Identity(Rule):
    """a[V, V] = 1: root terms, residual connections, per-node Linear layers."""

    local: ClassVar[bool] = True
    reads_edges: ClassVar[bool] = False
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """1 on the diagonal of what is there: nodes, and edges where these are places."""
        return diagonal(snapshot, np.ones(snapshot.num_nodes))


@dataclass(frozen=True)
class Like(Rule):
    """A rule that says of itself what another one says, but for what it says otherwise."""

    rule: Rule

    @property
    def local(self) -> bool:
        """As the rule itself."""
        return self.rule.local

    @property
    def rises(self) -> bool:
        """As the rule itself."""
        return self.rule.rises

    @property
    def of_links(self) -> bool:
        """As the rule itself."""
        return self.rule.of_links

    @property
    def of_edges(self) -> bool:
        """As the rule itself."""
        return self.rule.of_edges

    @property
    def to_edges(self) -> bool:
        """As the rule itself."""
        return self.rule.to_edges

    @property
    def from_edges(self) -> bool:
        """As the rule itself."""
        return self.rule.from_edges

    @property
    def reads_edges(self) -> bool:
        """As the rule itself."""
        return self.rule.reads_edges

    @property
    def weighted(self) -> bool:
        """As the rule itself."""
        return self.rule.weighted

    @property
    def recorded(self) -> bool:
        """As the rule itself."""
        return self.rule.recorded

    @property
    def flow(self) -> str:
        """As the rule itself."""
        return self.rule.flow

    @property
    def reach(self) -> int | None:
        """As the rule itself."""
        return self.rule.reach

    @property
    def heeds_unseen(self) -> bool:
        """As the rule itself."""
        return self.rule.heeds_unseen

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The rule's own."""
        return self.rule.matrix(snapshot, inputs)


@dataclass(frozen=True)
class Factor(Like):
    """The coefficients of another rule, on the way to a further factor of a product."""

    number: int  # of the factor; two factors may take from the same node
    restarts: ClassVar[bool] = True


@dataclass(frozen=True)
class Sum(Rule):
    """a[V, U] = the weight of the edge from U to V, or 1: element-wise sum of the incoming messages."""

    weighted: bool = False
    flow: str = SOURCE_TO_TARGET
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Adjacency, transposed so that rows receive."""
        return assemble(snapshot, *edges_of(snapshot, self.weighted, self.flow))


@dataclass(frozen=True)
class Mean(Rule):
    """a[V, U] = the weight of the edge from U to V, or 1, over the number of edges into V."""

    weighted: bool = False
    flow: str = SOURCE_TO_TARGET
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Parallel edges count one by one."""
        receivers, senders, weights = edges_of(snapshot, self.weighted, self.flow)
        count = np.bincount(receivers, minlength=snapshot.num_nodes)
        return assemble(snapshot, receivers, senders, weights / count[receivers])


@dataclass(frozen=True)
class Degree(Rule):
    """a[V, V] = the sum of the weights of the edges into V, or their number."""

    weighted: bool = False
    flow: str = SOURCE_TO_TARGET
    local: ClassVar[bool] = True
    reach: ClassVar[int] = 0

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """The row sums of Sum, on the diagonal."""
        receivers, _, weights = edges_of(snapshot, self.weighted, self.flow)
        return diagonal(snapshot, np.bincount(receivers, weights=weights, minlength=snapshot.num_nodes))


@dataclass(frozen=True)
class SymmetricNorm(Rule):
    """a[V, U] = w[V, U] / sqrt(d[V] d[U]), d the sum of incoming weights: GCN's normalisation."""

    weighted: bool = False
    self_loops: float | None = 1.0  # weight of the loop given to nodes that have none; None for no loops
    flow: str = SOURCE_TO_TARGET
    reach: ClassVar[int] = 1
    heeds_unseen: ClassVar[bool] = True

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Loops added where wanted, then both ends divided by the root of their degree."""
        receivers, senders, weights = edges_of(snapshot, self.weighted, self.flow)  # arrays of our own
        if self.self_loops is not None:
            # As in PyG, a node that already has a loop keeps its weight (the last one listed, if several).
            loop_weights = np.where(snapshot.present, self.self_loops, 0.0)
            is_loop = receivers == senders
            loop_weights[receivers[is_loop]] = weights[is_loop]
            receivers, senders, weights = renew_loops(snapshot, receivers, senders, weights, loop_weights)
        degree = np.bincount(receivers, weights=weights, minlength=snapshot.num_nodes)
        if snapshot.unseen is not None:
            degree = degree + snapshot.unseen[int(self.weighted and snapshot.edge_weight is not None)]
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = degree**-0.5
        scale[np.isinf(scale)] = 0.0
        weights *= scale[senders]
        weights *= scale[receivers]
        return assemble(snapshot, receivers, senders, weights)


@dataclass(frozen=True)
class TargetNorm(Rule):
    """a[V, U] = 1/d, plus diag_lambda/d where V = U, d the number of edges into the edge's target, loops included.

    ClusterGCN's normalisation; the edge's target is V, or U where messages flow against the edges.
    """

    diag_lambda: float = 0.0
    single: bool = False  # rounded to float32, as PyG does whatever the model's dtype
    flow: str = SOURCE_TO_TARGET

    @property
    def reach(self) -> int | None:
        """Against the edges, all that a sender sends counts: that lies anywhere."""
        return 0 if self.flow == SOURCE_TO_TARGET else None

    def matrix(self, snapshot: Snapshot, inputs: Features) -> sparse.csr_array:
        """Every node gets one loop in place of its own."""
        receivers, senders, ones = edges_of(snapshot, False, self.flow)
        receivers, senders, _ = renew_loops(snapshot, receivers, senders, ones, np.ones(snapshot.num_nodes))
        targets = receivers if self.flow == SOURCE_TO_TARGET else senders
        dtype = np.float32 if self.single else np.float64
        inverse = np.reciprocal(np.maximum(np.bincount(targets, minlength=snapshot.num_nodes), 1).astype(dtype))
        weights = inverse[targets]
        weights[receivers == senders] += dtype(self.diag_lambda) * inverse[snapshot.present]
        return assemble(snapshot, receivers, senders, weights.astype(np.float64))


def edges_of(snapshot: Snapshot, weighted: bool, flow: str) -> tuple[IntArray, IntArray, FloatArray]:
    """Receivers, senders and weights (or ones) of all edges; parallel edges keep their order."""
    senders, receivers = snapshot.edge_index if flow == SOURCE_TO_TARGET else snapshot.edge_index[::-1]
    if not weighted or snapshot.edge_weight is None:
        return receivers, senders, np.ones(len(senders))
    # In one order whatever the user's: a sum of weights must not differ by rounding from one snapshot to the other.
    order = np.lexsort((senders, receivers))
    return receivers[order], senders[order], snapshot.edge_weight[order]


def renew_loops(
    snapshot: Snapshot, receivers: IntArray, senders: IntArray, weights: FloatArray, loops: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """The edges with every self-loop taken away, then one with weight loops[V] given to each node that is present."""
    others = receivers != senders
    nodes = np.flatnonzero(snapshot.present).astype(np.int32)
    # Half as wide as the user's: this is where a large graph takes the most room.
    return (
        np.concatenate([receivers[others].astype(np.int32), nodes]),
        np.concatenate([senders[others].astype(np.int32), nodes]),
        np.concatenate([weights[others], loops[nodes]]),
    )


def diagonal(snapshot: Snapshot, values: FloatArray | IntArray) -> sparse.csr_array:
    """A local rule's matrix: values [num_nodes] of the nodes that are present, and of edges where these are places."""
    standing = snapshot.standing
    nodes = np.flatnonzero(standing)
    indptr = np.append(0, np.cumsum(standing))
    shape = (snapshot.num_nodes, snapshot.num_nodes)
    return sparse.csr_array((values[nodes].astype(np.float64), nodes, indptr), shape=shape)


def assemble(snapshot: Snapshot, receivers: IntArray, senders: IntArray, weights: FloatArray) -> sparse.csr_array:
    """CSR [num_nodes, num_nodes] of single coefficients; those of parallel edges add up, and one of 0 stays."""
    shape = (snapshot.num_nodes, snapshot.num_nodes)
    matrix = sparse.coo_array((weights, (receivers, senders)), shape=shape).tocsr()
    matrix.sum_duplicates()
    return matrix
