"""settings -> the small networks that a watch trains: two layers of one kind, for classes of nodes or for links.

gcn    each neighbour by the square roots of both degrees        weighted: by sums of weights, of 0 or more
sage   the node itself, and the mean of its neighbours
gat    attention over the neighbours
mean   as sage, each neighbour times its weight, of whatever sign
sum    the node itself, and the sum of its neighbours, each times its weight
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GraphConv, RGCNConv, SAGEConv

from ..errors import InputError

CONVOLUTIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "gcn": GCNConv,
    "sage": SAGEConv,
    "gat": GATConv,
    "mean": lambda size, width: GraphConv(size, width, aggr="mean"),
    "sum": GraphConv,
}
WEIGHTED = ("gcn", "mean", "sum")  # that take the weights of edges


def stack_layers(conv: str, widths: tuple[int, ...], *, weighted: bool) -> nn.ModuleList:
    """A convolution between each two widths."""
    if conv not in CONVOLUTIONS or (weighted and conv not in WEIGHTED):
        raise InputError(f"Expected a network among {', '.join(CONVOLUTIONS)}, with weights {', '.join(WEIGHTED)}.")
    return nn.ModuleList(CONVOLUTIONS[conv](*pair) for pair in pairwise(widths))


class NodeGNN(nn.Module):
    """Classes of nodes."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, conv: str = "gcn", weighted: bool = False
    ) -> None:
        """Widths, the kind of layer, and whether edges have weights that it reads."""
        super().__init__()
        self.convs = stack_layers(conv, (in_channels, hidden_channels, out_channels), weighted=weighted)
        self.dropout, self.weighted = nn.Dropout(0.5), weighted

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Logits, [num_nodes, out_channels]."""
        weights = (edge_weight,) if self.weighted else ()
        first, second = self.convs
        hidden = self.dropout(torch.relu(first(x, edge_index, *weights)))
        logits: torch.Tensor = second(hidden, edge_index, *weights)
        return logits


class LinkGNN(nn.Module):
    """Whether two nodes are linked: logits of no and yes, by two layers on both ends side by side."""

    def __init__(self, in_channels: int, hidden_channels: int, conv: str = "gcn", weighted: bool = False) -> None:
        """Widths of the features and of everything between them and the answer; the rest as for NodeGNN."""
        super().__init__()
        self.convs = stack_layers(conv, (in_channels, hidden_channels, hidden_channels), weighted=weighted)
        self.weighted = weighted
        self.head = nn.Sequential(
            nn.Linear(2 * hidden_channels, hidden_channels), nn.ReLU(), nn.Linear(hidden_channels, 2)
        )

    def forward(
        self,
        x: torch.Tensor,
        edge_index: torch.Tensor,
        edge_label_index: torch.Tensor,
        edge_weight: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits of no and yes, [num_pairs, 2]."""
        weights = (edge_weight,) if self.weighted else ()
        first, second = self.convs
        x = second(torch.relu(first(x, edge_index, *weights)), edge_index, *weights)
        logits: torch.Tensor = self.head(torch.cat([x[edge_label_index[0]], x[edge_label_index[1]]], dim=-1))
        return logits


class RelationGNN(nn.Module):
    """Classes of nodes, from edges of several relations."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_relations: int) -> None:
        """Two layers; a weight of its own for each relation."""
        super().__init__()
        widths = ((in_channels, hidden_channels), (hidden_channels, out_channels))
        self.convs = nn.ModuleList(RGCNConv(a, b, num_relations) for a, b in widths)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor) -> torch.Tensor:
        """Logits, [num_nodes, out_channels]."""
        first, second = self.convs
        logits: torch.Tensor = second(self.dropout(torch.relu(first(x, edge_index, edge_type))), edge_index, edge_type)
        return logits
