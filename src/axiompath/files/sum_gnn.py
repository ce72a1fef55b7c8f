"""settings -> the paper's network: element-wise sum (or mean, or maximum) of the neighbours, ReLU between, no bias."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch_geometric.nn import GCNConv, Linear, SimpleConv


class MappedFirst(nn.Module):
    """A linear map, then any aggregation of the neighbours: sparse features are never gathered along edges."""

    def __init__(self, inputs: int, outputs: int, aggregation: str) -> None:
        super().__init__()
        self.lin = Linear(inputs, outputs, bias=False)
        self.conv = SimpleConv(aggr=aggregation)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """[num_nodes, outputs]."""
        taken: torch.Tensor = self.conv(self.lin(x), edge_index)
        return taken


class SumGNN(nn.Module):
    """GCNConv layers without normalisation, self-loops or bias: h = relu(A h W) and logits = A h W.

    With the aggregation "mean", A is divided by the number of edges into each node; with "max", the largest of each
    column of h W is taken among the neighbours.
    """

    def __init__(self, widths: list[int], aggregation: str = "sum") -> None:
        """One layer between each two widths."""
        super().__init__()
        pairs = itertools.pairwise(widths)
        if aggregation == "sum":
            self.convs = nn.ModuleList(GCNConv(a, b, normalize=False, bias=False) for a, b in pairs)
        else:
            self.convs = nn.ModuleList(MappedFirst(a, b, aggregation) for a, b in pairs)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Logits, [num_nodes, num_classes]."""
        for conv in list(self.convs)[:-1]:
            x = torch.relu(conv(x, edge_index))
        logits: torch.Tensor = self.convs[-1](x, edge_index)
        return logits


def random_sum_gnn(widths: list[int], seed: int) -> SumGNN:
    """A SumGNN with random float64 parameters, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    model = SumGNN(widths).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=parameter.shape[1] ** -0.5, generator=generator)
    return model
