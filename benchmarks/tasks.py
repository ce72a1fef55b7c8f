"""What does a link or a whole graph cost? Beside its nodes' own paths, by the same encoder, in the same run.

Links: `attribute((u, v))` against `attribute(u)` and `attribute(v)` of a model that has a head for nodes, of the same
number of classes, on the same two GCN layers. Graphs: `attribute(g)` against `attribute_many` of all its nodes that the
change reaches. One call a target, and all targets at once; the least processor time of each, in turns. Run with
AXIOMPATH_DATA set (not needed for --tiny):

    python benchmarks/tasks.py [--tiny] [--docs docs]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_mean_pool

sys.path.insert(0, str(Path(__file__).parent.parent))

import axiompath
from research import datasets
from tables import make_parser, publish, to_markdown

WIDTH, CLASSES = 16, 2
ROUNDS = 5


class Encoder(nn.Module):
    """Two GCN layers."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(inputs, WIDTH), GCNConv(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """States of the nodes."""
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


class Nodes(nn.Module):
    """A head for nodes."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Logits of the nodes."""
        return self.head(self.encoder(x, edge_index))


class Links(nn.Module):
    """A head for both ends of a pair, side by side; or one for their product."""

    def __init__(self, encoder: Encoder, head: nn.Module, product: bool) -> None:
        super().__init__()
        self.encoder, self.head, self.product = encoder, head, product

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_label_index: torch.Tensor) -> torch.Tensor:
        """Logits of the pairs."""
        states = self.encoder(x, edge_index)
        first, second = states[edge_label_index[0]], states[edge_label_index[1]]
        return self.head(first * second if self.product else torch.cat([first, second], dim=-1))


class Graphs(nn.Module):
    """A head for the mean over the nodes of a graph."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Logits of the graphs."""
        return self.head(global_mean_pool(self.encoder(x, edge_index), batch))


def head(kind: str, inputs: int) -> nn.Module:
    """One linear layer, or two with a ReLU between."""
    if kind == "linear":
        return nn.Linear(inputs, CLASSES)
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))


def random_graph(num_nodes: int, seed: int) -> Data:
    """Three edges a node, eight features."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(num_nodes, (2, 3 * num_nodes // 2), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]]
    x = torch.rand(num_nodes, 8, generator=generator, dtype=torch.float64)
    return Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], dim=1).unique(dim=1))


def one_by_one(explainer: axiompath.Explainer, targets: Iterable[Any]) -> Callable[[], int]:
    """A call a target; how many paths there were."""
    return lambda: sum(len(explainer.attribute(target).paths) for target in targets)


def all_at_once(explainer: axiompath.Explainer, targets: list[Any]) -> Callable[[], int]:
    """One call."""
    return lambda: sum(len(found.paths) for found in explainer.attribute_many(targets))


def best_in_turns(*runs: Callable[[], int]) -> list[float]:
    """The least processor time of each, one after the other and again: what else the machine does counts for none."""
    best = [np.inf] * len(runs)
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            start = time.process_time()
            run()
            best[i] = min(best[i], time.process_time() - start)
    return best


Runs = list[Callable[[], int]]  # one by one, and all at once; each says how many paths there were


def row(what: str, graph: str, ours: Runs, theirs: Runs, num: int) -> dict[str, str]:
    """One line: both ways of asking, for the targets and for their nodes."""
    paths, node_paths = ours[1](), theirs[1]()
    mine, yardstick = zip(*(best_in_turns(*runs) for runs in zip(ours, theirs, strict=True)), strict=True)
    return {
        "target": what,
        "graph": graph,
        "targets": f"{num:,}",
        "paths": f"{paths:,}",
        "of their nodes": f"{node_paths:,}",
        "µs a target, one by one": f"{1e6 * mine[0] / num:,.0f}",
        "its nodes": f"{1e6 * yardstick[0] / num:,.0f}",
        "ratio": f"{mine[0] / yardstick[0]:.2f}",
        "µs a target, all at once": f"{1e6 * mine[1] / num:,.0f}",
        "its nodes, at once": f"{1e6 * yardstick[1] / num:,.0f}",
        "ratio, at once": f"{mine[1] / yardstick[1]:.2f}",
    }


def compare_links(
    name: str, before: Data, after: Data, kind: str, product: bool, count: int
) -> Iterator[dict[str, str]]:
    """Pairs of nodes that the change reaches, drawn at random; given to the Explainer at once, and only when asked."""
    torch.manual_seed(0)
    encoder = Encoder(before.x.shape[1])
    own = head(kind, WIDTH)
    of_nodes = axiompath.Explainer(Nodes(encoder, own).double().eval(), before, after)
    drawn = np.random.default_rng(0).choice(of_nodes.moved().target.to_numpy(), (2 * count, 2))
    pairs = list(dict.fromkeys((int(u), int(v)) for u, v in drawn if u != v))[:count]
    model = Links(encoder, own if product else head(kind, 2 * WIDTH), product).double().eval()
    ends = [end for pair in pairs for end in pair]
    theirs = [one_by_one(of_nodes, ends), all_at_once(of_nodes, ends)]
    what = f"link, {'product' if product else 'both ends'}, {kind}"
    for told, given in (("", pairs), (", not given before", None)):
        of_links = axiompath.Explainer(model, before, after, links=given)
        ours = [one_by_one(of_links, pairs), all_at_once(of_links, pairs)]
        yield row(f"{what}{told}", name, ours, theirs, len(pairs))


def compare_graphs(name: str, before: list[Data], after: list[Data], kind: str) -> dict[str, str]:
    """Every graph of a batch, against the nodes that the change reaches, graph by graph and all together."""
    torch.manual_seed(0)
    sides = Batch.from_data_list(before), Batch.from_data_list(after)
    encoder, own = Encoder(before[0].x.shape[1]), head(kind, WIDTH)
    of_graphs = axiompath.Explainer(Graphs(encoder, own).double().eval(), *sides)
    of_nodes = axiompath.Explainer(Nodes(encoder, own).double().eval(), *sides)
    graphs = of_graphs.moved().target.tolist()
    reached = of_nodes.moved().target.to_numpy()
    member = sides[0].batch.numpy()[reached]
    nodes = [reached[member == graph].tolist() for graph in graphs]
    everything = [node for part in nodes for node in part]

    def graph_by_graph() -> int:
        return sum(all_at_once(of_nodes, part)() for part in nodes)

    ours = [one_by_one(of_graphs, graphs), all_at_once(of_graphs, graphs)]
    theirs = [graph_by_graph, all_at_once(of_nodes, everything)]
    return row(f"graph, mean, {kind}", name, ours, theirs, len(graphs))


def main() -> None:
    """Links by three decoders, graphs small and large."""
    options = make_parser(__doc__).parse_args()
    small, count = (4, 5) if options.tiny else (100, 200)
    if options.tiny:
        name, whole = "random", random_graph(100, 0)
        evolved = datasets.evolve(whole, added=5, removed=5)
    else:
        name, whole = "cora", datasets.load("cora")
        whole.x = whole.x.to_dense().double()
        evolved = datasets.evolve(whole, added=100, removed=100)
    sizes = (20,) if options.tiny else (20, 200)
    rows = []
    for kind, product in (("linear", False), ("two layers", False), ("linear", True)):
        for line in compare_links(name, whole, evolved, kind, product, count):
            rows.append(line)
            print(line, flush=True)
    for size in sizes:
        before = [random_graph(size, seed) for seed in range(small)]
        after = [datasets.evolve(graph, added=2, removed=2, seed=seed) for seed, graph in enumerate(before)]
        rows.append(compare_graphs(f"{small} of {size} nodes", before, after, "two layers"))
        print(rows[-1], flush=True)
    rows.append(compare_graphs(f"{name} as one", [whole], [evolved], "two layers"))
    publish(options.docs, "benchmarks.md", "tasks", to_markdown(rows))


if __name__ == "__main__":
    main()
