"""The authors' trained models, graphs that change under them, and how they split a change over layer edges.

Their split (ICLR 2025), found from the figures that their functions give and equal to them: with x the coefficient of
an edge in the second layer and kappa what of it is kept, y that of one in the first, h the values between them, and
rates of phi as in `Change.rates`,

    second layer   (x_after - x_before) * mean of h before and after
    first layer    (kappa + x_before) / 2 * (y_after - y_before) * rate in delta
                   + (x_after - kappa) / 2 * (y_after * rate in after - y_before * rate in before)

Along paths over edges that came (or went) in both layers, that is half of the path's contribution each: the equal split
that `explain(by=...)` makes everywhere. Where an edge is merely reweighted the two differ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_mean_pool

from axiompath.arrays import IntArray
from axiompath.errors import InputError
from axiompath.paths.entries import Cone, EntryShares

from .. import datasets
from ..datasets.archives import open_archive
from .tasks import MONTH, NUM_BONDS, Exam
from .trained import SEED

# Their names of the weights -> the data set.
AUTHORS_LINKS = {"uci": "uci_messages", "bitcoinotc": "bitcoinotc", "bitcoinalpha": "bitcoinalpha"}
AUTHORS_SETTINGS = ("mutag", *AUTHORS_LINKS)


class AuthorsMolecules(nn.Module):
    """Two GCN layers and the mean over atoms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(7, 16, bias=False), GCNConv(16, 2, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Logits, [num_graphs, 2]."""
        logits: torch.Tensor = global_mean_pool(self.conv2(self.conv1(x, edge_index).relu(), edge_index), batch)
        return logits


class AuthorsLinks(nn.Module):
    """Two GCN layers and a linear map of both ends side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(8, 4, bias=False), GCNConv(4, 4, bias=False)
        self.linear = nn.Linear(8, 2, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_label_index: torch.Tensor) -> torch.Tensor:
        """Logits of no and yes, [num_pairs, 2]."""
        h = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
        logits: torch.Tensor = self.linear(torch.cat([h[edge_label_index[0]], h[edge_label_index[1]]], dim=-1))
        return logits


def open_authors(name: str, root: str | Path | None = None, *, seed: int = SEED, step: int = MONTH) -> Exam:
    """One setting: bonds of every molecule removed and added at random, or the links of one month against the next.

    With a shorter `step` in seconds, against those of the month that begins so much later.
    """
    if name == "mutag":
        molecules = datasets.load_molecules(root)
        evolved = [
            datasets.evolve(m, added=NUM_BONDS, removed=NUM_BONDS, seed=seed + int(m.n_id[0])) for m in molecules
        ]
        model = _with_weights(AuthorsMolecules(), name, root)
        before, after = Batch.from_data_list(molecules), Batch.from_data_list(evolved)
        return Exam(model, before, after, {}, ("not mutagenic", "mutagenic"))
    data_set = AUTHORS_LINKS[name]
    held, _ = open_archive(data_set, root, "timed graph")
    x = torch.from_numpy(open_archive("link_features", root, "features of links")[0][data_set].astype(np.float64))
    edges = np.stack([held["edge_src"], held["edge_dst"]]).astype(np.int64)
    times = held["edge_time"].astype(np.int64)
    starts = times[len(times) // 2] + np.array([0, step])
    bounds = np.searchsorted(times, np.stack([starts, starts + MONTH], axis=1))
    parts = [edges[:, first:last] for first, last in bounds.tolist()]
    before, after = (Data(x=x, edge_index=both_ways(part), n_id=torch.arange(len(x))) for part in parts)
    pairs = np.unique(np.concatenate(parts, axis=1), axis=1)
    model = _with_weights(AuthorsLinks(), name, root)
    return Exam(model, before, after, {}, ("no", "yes"), links=pairs[:, pairs[0] != pairs[1]].T)


def authors_split(cone: Cone) -> EntryShares:
    """Shares of changed entries of a network of two layers, by a rule fitted to the figures that their code gives."""
    change = cone.change
    layers, c = change.network.layers, change.network.num_classes
    hops = [floor for floor in cone.floors if not change.layers[floor.layer].local and not layers[floor.layer].rises]
    if len(hops) != 2 or any(floor.changed.any() for floor in cone.floors[2:]) or cone.floors[:2] != tuple(hops):
        raise InputError("Expected two layers that pass messages, and nothing above them that changed (got others).")
    low, top = hops
    m = np.eye(c)[None]
    for floor in cone.floors[:1:-1]:
        layer, slopes = layers[floor.layer], cone.slopes(floor)
        q = m if slopes is None else m * slopes[0][:, :, None]
        m = np.zeros((len(floor.below), layers[floor.layer - 1].width, c))
        for channel, rule in zip(layer.channels, cone.rules(floor), strict=True):
            part = q[:, channel.outputs]
            part = part if channel.weight is None else np.einsum("io,noc->nic", channel.weight, part)
            after = floor.matrix(change.layers[floor.layer].after[floor.entries, rule], np.ones_like(floor.changed))
            m[:, channel.inputs] += (after.T @ part.reshape(len(part), -1)).reshape(-1, *part.shape[1:])
    (channel,), slopes = layers[top.layer].channels, cone.slopes(top)
    q = (m if slopes is None else m * slopes[0][:, :, None])[:, channel.outputs]
    x0, x1 = (side[top.entries, 0] for side in (change.layers[top.layer].before, change.layers[top.layer].after))
    held = [np.asarray(run.received(top.layer, top.below)) for run in (change.before_pass, change.after_pass)]
    weight = np.eye(q.shape[1]) if channel.weight is None else channel.weight
    mean = (0.5 * (held[0] + held[1]))[:, channel.inputs] @ weight
    upper = np.einsum("eo,eoc->ec", (x1 - x0)[:, None] * mean[top.sender], q[top.receiver])
    part = np.einsum("io,noc->nic", weight, q)
    flat, every = part.reshape(len(part), -1), np.ones_like(top.changed)
    kappa = change.layers[top.layer].kept[top.entries, 0]
    below = [
        (top.matrix(some, every).T @ flat).reshape(-1, *part.shape[1:])
        for some in (0.5 * (kappa + x0), 0.5 * (x1 - kappa))
    ]
    y0, y1 = (side[low.entries, 0] for side in (change.layers[low.layer].before, change.layers[low.layer].after))
    slopes = cone.slopes(low)
    delta, after, before = np.ones((3, *below[0].shape[:2])) if slopes is None else slopes
    message = cone.leaf_messages()[0][1][low.sender]
    kept_part = np.einsum("eo,eoc->ec", (y1 - y0)[:, None] * message * delta[low.receiver], below[0][low.receiver])
    rate = y1[:, None] * after[low.receiver] - y0[:, None] * before[low.receiver]
    other = np.einsum("eo,eoc->ec", message * rate, below[1][low.receiver])
    shares = [(kept_part + other)[low.changed], upper[top.changed]]
    nothing = np.zeros((0, c))
    above = [nothing for _ in cone.floors[2:]]
    return EntryShares(cone, (*shares, *above), np.zeros(0, dtype=np.int64), nothing)


def both_ways(edges: IntArray) -> torch.Tensor:
    """Both directions of every edge, each once, no loops."""
    real = edges[:, edges[0] != edges[1]]
    return torch.from_numpy(np.unique(np.concatenate([real, real[::-1]], axis=1), axis=1).reshape(2, -1))


def _with_weights(model: nn.Module, name: str, root: str | Path | None) -> nn.Module:
    held, _ = open_archive("authors_models", root, "authors' weights")
    own = {key.removeprefix(f"{name}."): torch.tensor(held[key]) for key in held if key.startswith(f"{name}.")}
    model.load_state_dict(own)
    return model.double().eval()
