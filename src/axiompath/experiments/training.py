"""Data + settings -> a trained SumGNN, its accuracy, and the weights kept on disk.

Sum aggregation trains when features are row-normalised and the initial weights and step sizes are scaled to the mean
degree: each layer multiplies its inputs by about that much.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scipy import sparse
from torch_geometric.data import Data

from ..activations import IntArray
from ..snapshot import Snapshot, read_snapshot, to_torch_csr
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
    epochs: int = 100
    dropout: float = 0.5
    step: float = 0.01

    @property
    def key(self) -> str:
        """A name for the weights of these settings."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.dataset}-{self.layers}layers-{digest}"


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
            draft = file.with_suffix(".part")
            save_file(model.state_dict(), draft)
            draft.replace(file)
    with torch.no_grad():
        correct = model.eval()(data.x, data.edge_index).argmax(dim=1) == data.y
    return Trained(model, float(correct[parts["test"]].double().mean()), float(correct[parts["val"]].double().mean()))


def _split(data: Data, training: Training) -> dict[str, IntArray]:
    order = np.random.default_rng(training.seed).permutation(data.x.shape[0])
    ends = np.cumsum([training.train_share, training.val_share]) * len(order)
    train_part, val, test = np.split(order, ends.astype(np.int64))
    return {"train": train_part, "val": val, "test": test}


def _fit(data: Data, training: Training, widths: list[int], parts: dict[str, IntArray]) -> list[torch.Tensor]:
    """Adam on cross-entropy; the weights of the epoch with the best validation accuracy."""
    generator = torch.Generator().manual_seed(training.seed)
    snapshot: Snapshot = read_snapshot(data, "data")
    x = to_torch_csr(sparse.csr_array(snapshot.x), torch.float32)
    ones = np.ones(snapshot.edge_index.shape[1])
    shape = (snapshot.num_nodes, snapshot.num_nodes)
    adjacency = to_torch_csr(
        sparse.coo_array((ones, tuple(snapshot.edge_index[::-1])), shape=shape).tocsr(), torch.float32
    )
    degree = len(ones) / snapshot.num_nodes
    weights = [
        (torch.randn(a, b, generator=generator) * (2 / (a + b)) ** 0.5 / degree).requires_grad_()
        for a, b in pairwise(widths)
    ]
    # The first layer's inputs are row-normalised and small, so its steps may be larger.
    steps = [{"params": [w], "lr": training.step * (1 if i else 10) / degree**0.5} for i, w in enumerate(weights)]
    optimizer = torch.optim.Adam(steps)
    best, kept = -1.0, [w.detach().clone() for w in weights]
    for _ in range(training.epochs):
        optimizer.zero_grad()
        logits = _forward(adjacency, x, weights, training.dropout, generator)
        loss = torch.nn.functional.cross_entropy(logits[parts["train"]], data.y[parts["train"]])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            guess = _forward(adjacency, x, weights, 0.0, generator).argmax(dim=1)
        accuracy = float((guess == data.y)[parts["val"]].double().mean())
        if accuracy > best:
            best, kept = accuracy, [w.detach().clone() for w in weights]
    return kept


def _forward(
    adjacency: torch.Tensor, x: torch.Tensor, weights: list[torch.Tensor], dropout: float, generator: torch.Generator
) -> torch.Tensor:
    h = adjacency @ (x @ weights[0])
    for weight in weights[1:]:
        h = torch.relu(h)
        if dropout:
            h = h * (torch.rand(h.shape, generator=generator) >= dropout) / (1 - dropout)
        h = adjacency @ (h @ weight)
    return h
