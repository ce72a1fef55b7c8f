"""A seed -> a random evolution: a graph before, at most five changes, and the graph under any subset of them."""

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import torch
from torch_geometric.data import Data

NUM_FEATURES, NUM_EDGE_FEATURES, NUM_RELATIONS = 4, 3, 2
FIELDS = ("edge_weight", "edge_attr", "edge_type", "edge_index2", "batch", "edge_label_index", "node_type", "pos")
SETS = ("edge_index", "edge_index2")
PAIRS = ((0, 3), (2, 5), (4, 1))  # what models of links are asked for: nodes of every graph


@dataclass(frozen=True)
class Edit:
    """One change: of an edge (`ends`), or of a node."""

    kind: str  # as `changes()` names it
    ends: frozenset
    edges: tuple = ()  # (set, sender, receiver) that come, go or change


@dataclass
class Evolution:
    """Everything that may exist, what `before` has of it, and what happens."""

    num_nodes: int
    rank: dict  # (set, sender, receiver) -> where the edge stands in the list
    values: dict  # (set, sender, receiver) -> weight, features, relation
    new_values: dict  # the same after an edge was reweighted
    x: np.ndarray
    new_x: np.ndarray
    pos: np.ndarray
    first: frozenset  # edges of `before`
    new_node: int | None = None
    edits: list = field(default_factory=list)

    @property
    def before(self):
        return self.graph(())

    @property
    def after(self):
        return self.graph(range(len(self.edits)))

    def subsets(self):
        """Every subset of the changes, smaller ones first."""
        ids = range(len(self.edits))
        return [subset for size in range(len(self.edits) + 1) for subset in combinations(ids, size)]

    def graph(self, applied):
        """`before` with these edits applied, with every field that a model may ask for."""
        edges, x, values, new = set(self.first), self.x.copy(), dict(self.values), False
        for edit in (self.edits[i] for i in applied):
            if edit.kind == "edge removed":
                edges -= set(edit.edges)
            elif edit.kind in ("edge added", "node added"):
                edges |= set(edit.edges)
                new |= edit.kind == "node added"
            elif edit.kind == "edge reweighted":
                values |= {edge: self.new_values[edge] for edge in edit.edges}
            elif edit.kind == "features changed":
                (node,) = edit.ends
                x[node] = self.new_x[node]
        ids = [v for v in range(self.num_nodes) if v != self.new_node or new]
        row = {v: i for i, v in enumerate(ids)}
        lists = {name: sorted((e for e in edges if e[0] == name), key=self.rank.get) for name in SETS}
        index = {
            name: torch.tensor([[row[u], row[v]] for _, u, v in lists[name]]).reshape(-1, 2).t().contiguous()
            for name in SETS
        }
        weight, attr, relation = zip(*(values[edge] for edge in lists["edge_index"]), strict=True)
        data = Data(x=torch.from_numpy(x[ids]), edge_index=index["edge_index"], edge_index2=index["edge_index2"])
        data.edge_weight, data.edge_attr = torch.tensor(weight, dtype=torch.float64), torch.from_numpy(np.array(attr))
        data.edge_type = torch.tensor(relation)
        data.pos, data.node_type = torch.from_numpy(self.pos[ids]), torch.tensor([v % 2 for v in ids])
        data.batch = torch.tensor([int(v >= 5) for v in ids])
        data.edge_label_index = torch.tensor([[row[u], row[v]] for u, v in PAIRS]).t().contiguous()
        if self.new_node is not None:
            data.n_id = torch.tensor(ids)
        return data


# What happens: edges added, edges removed, then whether an edge is reweighted, features change, a node is added.
SCRIPTS = (
    (1, 1, True, True, False),  # as many edges as before
    (2, 1, False, True, False),
    (0, 2, True, False, False),
    (1, 1, False, False, True),
    (2, 2, False, True, False),
)


def evolve(seed, script=None, *, num_edges=None, reweight=True, nodes=True, both_sets=False):
    """A random evolution of nine nodes; a script says what happens, and `num_edges` how many edges `before` has."""
    rng = np.random.default_rng(seed)
    added, removed, reweighted, moved, arrives = SCRIPTS[seed % len(SCRIPTS)] if script is None else script
    n = 9
    new_node = n - 1 - int(rng.integers(3)) if arrives and nodes else None
    free = [(u, v) for u in range(n) for v in range(n) if u != v and new_node not in (u, v)]
    rng.shuffle(free)
    pairs = [tuple(map(int, pair)) for pair in free]
    taken, chosen = set(), []  # one direction of each pair of nodes, so that no change has a mirror image
    for u, v in pairs:
        if frozenset((u, v)) not in taken:
            taken.add(frozenset((u, v)))
            chosen.append((u, v))
    num_edges = num_edges or (n - 2 if seed % 3 == 0 else 13)
    first, later = chosen[:num_edges], chosen[num_edges:]
    mirrored = [(v, u) for u, v in first[5:7]]  # both directions of some pairs that do not change
    edges = {("edge_index", u, v) for u, v in first + mirrored}
    edges |= {("edge_index2", u, v) for u, v in chosen[:3] + chosen[-5:]}
    edits = [Edit("edge added", frozenset(pair), (("edge_index", *pair),)) for pair in later[:added]]
    edits += [Edit("edge removed", frozenset(pair), (("edge_index", *pair),)) for pair in first[:removed]]
    if both_sets:
        edits = [*edits[:2], Edit("edge removed", frozenset(chosen[-1]), (("edge_index2", *chosen[-1]),))]
    if reweighted and reweight:
        edits.append(Edit("edge reweighted", frozenset(first[4]), (("edge_index", *first[4]),)))
    if moved:
        edits.append(Edit("features changed", frozenset([int(rng.choice([v for v in range(n) if v != new_node]))])))
    if new_node is not None:
        ends = rng.choice([v for v in range(n) if v != new_node], size=3, replace=False)
        into = tuple(("edge_index", int(u), new_node) for u in ends[:1])
        out = tuple(("edge_index", new_node, int(v)) for v in ends[1:])
        edits.append(Edit("node added", frozenset([new_node]), (*into, *out)))
    every = [(name, u, v) for name in SETS for u in range(n) for v in range(n) if u != v]

    def say():
        return float(rng.uniform(0.4, 1.6)), rng.normal(size=NUM_EDGE_FEATURES), int(rng.integers(NUM_RELATIONS))

    values = {edge: say() for edge in every}
    # A changed edge keeps its relation: another relation is another edge.
    new_values = {edge: (*say()[:2], values[edge][2]) for edge in every}
    x, new_x = rng.normal(size=(2, n, NUM_FEATURES))
    rank = dict(zip(every, rng.permutation(len(every)), strict=True))
    return Evolution(n, rank, values, new_values, x, new_x, rng.normal(size=(n, 3)), frozenset(edges), new_node, edits)
