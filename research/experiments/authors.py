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
from axiompath.change.transfer import IN_AFTER, IN_BEFORE, IN_DELTA
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
    c = change.network.num_classes
    hops = tuple(floor for floor in cone.floors if not floor.coefficients.local and not floor.layer.rises)
    if len(hops) != 2 or any(floor.changed.any() for floor in cone.floors[2:]) or cone.floors[:2] != hops:
        raise InputError("Expected two layers that pass messages, and nothing above them that changed (got others).")
    low, top = hops
    m = np.eye(c)[None]
    for floor in cone.floors[:1:-1]:
        m = floor.down({IN_DELTA: m})[IN_DELTA]
    (channel,) = top.layer.channels
    q = top.tilt({IN_DELTA: m})[IN_DELTA][..., channel.outputs]
    x0, x1, kappa = (
        side[top.entries, 0] for side in (top.coefficients.before, top.coefficients.after, top.coefficients.kept)
    )
    held = [np.asarray(run.received(top.number, top.below)) for run in (change.before_pass, change.after_pass)]
    weight = np.eye(q.shape[2]) if channel.weight is None else channel.weight
    mean = (0.5 * (held[0] + held[1]))[:, channel.inputs] @ weight
    upper = np.einsum("eo,eco->ec", (x1 - x0)[:, None] * mean[top.sender], q[top.receiver])
    part = q @ weight.T
    flat = part.reshape(len(part), -1)
    kept_below, other_below = (
        (top.matrix(some).T @ flat).reshape(-1, *part.shape[1:]) for some in (0.5 * (kappa + x0), 0.5 * (x1 - kappa))
    )
    y0, y1 = (side[low.entries, 0][:, None] for side in (low.coefficients.before, low.coefficients.after))
    ones = np.ones((len(low.rows), low.layer.width))
    slopes = low.tilt(dict.fromkeys((IN_DELTA, IN_AFTER, IN_BEFORE), ones))
    delta, after, before = (slopes[state][low.receiver] for state in (IN_DELTA, IN_AFTER, IN_BEFORE))
    message = low.leaf_messages()[IN_AFTER][low.sender]
    kept_part = np.einsum("eo,eco->ec", (y1 - y0) * message * delta, kept_below[low.receiver])
    other = np.einsum("eo,eco->ec", message * (y1 * after - y0 * before), other_below[low.receiver])
    nothing = np.zeros((0, c))
    shares = [(kept_part + other)[low.changed], upper[top.changed], *(nothing for _ in cone.floors[2:])]
    return EntryShares(cone, tuple(shares), np.zeros(0, dtype=np.int64), nothing)


def both_ways(edges: IntArray) -> torch.Tensor:
    """Both directions of every edge, each once, no loops."""
    real = edges[:, edges[0] != edges[1]]
    return torch.from_numpy(np.unique(np.concatenate([real, real[::-1]], axis=1), axis=1).reshape(2, -1))


def _with_weights(model: nn.Module, name: str, root: str | Path | None) -> nn.Module:
    held, _ = open_archive("authors_models", root, "authors' weights")
    own = {key.removeprefix(f"{name}."): torch.tensor(held[key]) for key in held if key.startswith(f"{name}.")}
    model.load_state_dict(own)
    return model.double().eval()
