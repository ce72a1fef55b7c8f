"""settings -> a small network of graphs whose edges have types: RGCN layers, ReLU between them."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import RGCNConv


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
