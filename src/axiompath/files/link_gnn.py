"""settings -> a small network of links: two GCN layers, then two layers on both ends side by side."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import GCNConv


class LinkGNN(nn.Module):
    """Whether two nodes are linked: logits of no and yes."""

    def __init__(self, in_channels: int, hidden_channels: int) -> None:
        """Widths of the features and of everything between them and the answer."""
        super().__init__()
        self.convs = nn.ModuleList(GCNConv(width, hidden_channels) for width in (in_channels, hidden_channels))
        self.head = nn.Sequential(
            nn.Linear(2 * hidden_channels, hidden_channels), nn.ReLU(), nn.Linear(hidden_channels, 2)
        )

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_label_index: torch.Tensor) -> torch.Tensor:
        """Logits of no and yes, [num_pairs, 2]."""
        x = self.convs[1](torch.relu(self.convs[0](x, edge_index)), edge_index)
        logits: torch.Tensor = self.head(torch.cat([x[edge_label_index[0]], x[edge_label_index[1]]], dim=-1))
        return logits
