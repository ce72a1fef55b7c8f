"""Data + settings -> a trained SumGNN, its accuracy, and the weights kept on disk.

A sum over neighbours multiplies its inputs by about the degree. Training therefore sees the adjacency matrix divided by
the root mean square degree, and features scaled to unit length on average; both factors go into the weights afterwards,
so that the network that results sums, plainly, over the plain graph.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from scipy import sparse
from torch_geometric.data import Data

from ..activations import IntArray
from ..snapshot import read_snapshot, to_torch_csr
from ..writing import whole_file
from .models import SumGNN


@dataclass(frozen=True)
class Training:
    """Settings; equal settings give equal weights."""

    dataset: str
    layers: int = 2
    hidden: int = 16
    seed: int = 0
    train_share: float = 0.3
    val_share: float = 0.1
    epochs: int = 200
    dropout: float = 0.2
    step: float = 0.03
    clip: float = 1.0  # of the gradient's norm: hubs make a few of them very large

    @property
    def key(self) -> str:
        """A name for the weights of these settings."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.dataset}-{self.layers}layers-{digest}"


def settings_for(dataset: str, layers: int) -> Training:
    """What reaches sensible accuracy: the dense Amazon graphs need longer steps, more of them, and no dropout."""
    if dataset.startswith("amazon"):
        return Training(dataset, layers, epochs=400, dropout=0.0, step=0.05, clip=0.5)
    return Training(dataset, layers)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model in float64 and its accuracy on the nodes that training never saw."""

    model: SumGNN
    test_accuracy: float
    val_accuracy: float


def prepare(data: Data) -> Data:
    """The graph as the paper's networks see it: row-normalised features, a self-loop at every node."""
    snapshot = read_snapshot(data, "data")
    x = sparse.csr_array(snapshot.x)
    total = np.asarray(x.sum(axis=1)).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total != 0)
    ready = data.clone()
    ready.x = to_torch_csr(
        sparse.csr_array(sparse.dia_array((scale[None], [0]), shape=(len(scale),) * 2) @ x), torch.float64
    )
    nodes = torch.arange(snapshot.num_nodes)
    ready.edge_index = torch.cat([data.edge_index, nodes.repeat(2, 1)], dim=1)
    return ready


def train(data: Data, training: Training, cache: str | Path | None = None) -> Trained:
    """Train on prepared data, or take the weights from `cache` if they are there."""
    num_classes = int(data.y.max()) + 1
    widths = [data.x.shape[1], *[training.hidden] * (training.layers - 1), num_classes]
    parts = _split(data, training)
    file = Path(cache) / f"{training.key}.safetensors" if cache is not None else None
    if file is not None and file.is_file():
        model = SumGNN(widths).double()
        model.load_state_dict(load_file(file))
    else:
        weights = _fit(data, training, widths, parts)
        model = SumGNN(widths).double()
        with torch.no_grad():
            for parameter, weight in zip(model.parameters(), weights, strict=True):
                parameter.copy_(weight.T)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(file) as stream:
                stream.write(save(model.state_dict()))
    with torch.no_grad():
        correct = model.eval()(data.x, data.edge_index).argmax(dim=1) == data.y
    return Trained(model, float(correct[parts["test"]].double().mean()), float(correct[parts["val"]].double().mean()))


def _split(data: Data, training: Training) -> dict[str, IntArray]:
    known = np.flatnonzero((data.y >= 0).numpy())
    order = known[np.random.default_rng(training.seed).permutation(len(known))]
    ends = np.cumsum([training.train_share, training.val_share]) * len(order)
    train_part, val, test = np.split(order, ends.astype(np.int64))
    return {"train": train_part, "val": val, "test": test}


class _Product(torch.autograd.Function):
    """matrix @ dense, with the transpose made once; torch makes it anew in every backward pass, 50 times slower."""

    @staticmethod
    def forward(ctx: Any, matrix: sparse.csr_array, transposed: sparse.csr_array, dense: torch.Tensor) -> torch.Tensor:
        ctx.transposed = transposed
        return torch.from_numpy(matrix @ dense.detach().numpy())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, None, torch.Tensor]:
        return None, None, torch.from_numpy(ctx.transposed @ gradients[0].numpy())


def _fit(data: Data, training: Training, widths: list[int], parts: dict[str, IntArray]) -> list[torch.Tensor]:
    """Adam on cross-entropy; the weights of the epoch with the best validation accuracy."""
    generator = torch.Generator().manual_seed(training.seed)
    snapshot = read_snapshot(data, "data")
    x = sparse.csr_array(snapshot.x)
    ones = np.ones(snapshot.edge_index.shape[1])
    shape = (snapshot.num_nodes, snapshot.num_nodes)
    adjacency = sparse.coo_array((ones, tuple(snapshot.edge_index[::-1])), shape=shape).tocsr()
    degree = float(np.sqrt((np.asarray(adjacency.sum(axis=1)) ** 2).mean()))
    length = float(np.sqrt(np.square(x.data).sum() / x.shape[0]))
    products = [
        (scaled, sparse.csr_array(scaled.T))
        for scaled in ((adjacency / degree).astype(np.float32), (x / length).astype(np.float32))
    ]
    weights = [
        (torch.randn(a, b, generator=generator) * (2 / (a + b)) ** 0.5).requires_grad_() for a, b in pairwise(widths)
    ]
    optimizer = torch.optim.Adam(weights, lr=training.step)
    known = torch.from_numpy(parts["train"])
    best, kept = -1.0, [w.detach().clone() for w in weights]
    for _ in range(training.epochs):
        optimizer.zero_grad()
        logits = _forward(products, weights, training.dropout, generator)
        torch.nn.functional.cross_entropy(logits[known], data.y[known]).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, training.clip)
        optimizer.step()
        with torch.no_grad():
            guess = _forward(products, weights, 0.0, generator).argmax(dim=1)
        accuracy = float((guess == data.y)[parts["val"]].double().mean())
        if accuracy > best:
            best, kept = accuracy, [w.detach().clone() for w in weights]
    return [w.double() / (degree if i else degree * length) for i, w in enumerate(kept)]


def _forward(
    products: list[tuple[sparse.csr_array, sparse.csr_array]],
    weights: list[torch.Tensor],
    dropout: float,
    generator: torch.Generator,
) -> torch.Tensor:
    adjacency, x = products
    h = _Product.apply(*adjacency, _Product.apply(*x, weights[0]))  # type: ignore[no-untyped-call]
    for weight in weights[1:]:
        h = torch.relu(h)
        if dropout:
            h = h * (torch.rand(h.shape, generator=generator) >= dropout) / (1 - dropout)
        h = _Product.apply(*adjacency, h @ weight)  # type: ignore[no-untyped-call]
    logits: torch.Tensor = h
    return logits
