"""Data + settings -> a trained SumGNN, its accuracy, and the weights kept on disk.

A sum over neighbours multiplies its inputs by about the degree. Training therefore sees the adjacency matrix divided by
the root mean square degree, and features scaled to unit length on average; both factors go into the weights afterwards,
so that the network that results sums, plainly, over the plain graph. Equal settings give equal weights to the last bit,
on any processor and any number of cores; `Trained.digest` identifies them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save
from scipy import sparse
from torch_geometric.data import Data

from axiompath.arrays import FloatArray, IntArray
from axiompath.files.sum_gnn import SumGNN
from axiompath.graphs.data_fields import to_torch_csr
from axiompath.graphs.snapshot import read_snapshot
from axiompath.storage.writing import whole_file

from .descent import Adam, Matrix, ScaledGraph, clip_gradients, draw_uniform, find_gradients, forward

SEED = 0  # of everything in the experiments that is drawn once; evolutions are drawn from the number of their repeat
ALGORITHM = 2  # weights and tables kept on disk by another are not taken for this one's


@dataclass(frozen=True)
class Training:
    """Settings; equal settings give equal weights."""

    dataset: str
    layers: int = 2
    aggregation: str = "sum"
    edges: str = "merged"
    hidden: int = 16
    seed: int = SEED
    train_share: float = 0.3
    val_share: float = 0.1
    epochs: int = 200
    dropout: float = 0.2
    step: float = 0.03
    clip: float = 1.0  # of the gradient's norm: hubs make a few of them very large

    @property
    def key(self) -> str:
        """A name for the weights of these settings."""
        digest = hashlib.sha256(json.dumps([ALGORITHM, asdict(self)], sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.dataset}-{self.layers}layers-{digest}"


def settings_for(
    dataset: str, layers: int, aggregation: str = "sum", edges: str = "merged", seed: int = SEED
) -> Training:
    """What reaches sensible accuracy: the dense Amazon graphs need longer steps, more of them, and no dropout."""
    plain = Training(dataset, layers, aggregation, edges, seed=seed)
    if dataset.startswith("amazon"):
        return replace(plain, epochs=400, dropout=0.0, step=0.05, clip=0.5)
    return plain


@dataclass(frozen=True, eq=False)
class Trained:
    """A model in float64 and its accuracy on the nodes that training never saw."""

    model: SumGNN
    test_accuracy: float
    val_accuracy: float

    @property
    def digest(self) -> str:
        """Of every bit of the weights."""
        weights = (parameter.detach().numpy().astype("<f8").tobytes() for parameter in self.model.parameters())
        return hashlib.sha256(b"".join(weights)).hexdigest()[:16]


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
    parts = split_nodes(data, training)
    file = Path(cache) / f"{training.key}.safetensors" if cache is not None else None
    model = SumGNN(widths, training.aggregation).double()
    if file is not None and file.is_file():
        model.load_state_dict(load_file(file))
    else:
        weights = _fit(data, training, widths, parts)
        with torch.no_grad():
            for parameter, weight in zip(model.parameters(), weights, strict=True):
                parameter.copy_(torch.from_numpy(weight.T))
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(file) as stream:
                stream.write(save(model.state_dict()))
    with torch.no_grad():
        correct = model.eval()(data.x, data.edge_index).argmax(dim=1) == data.y
    return Trained(model, float(correct[parts["test"]].double().mean()), float(correct[parts["val"]].double().mean()))


def split_nodes(data: Data, training: Training) -> dict[str, IntArray]:
    """Nodes to train on, to choose the epoch by, and to test on."""
    known = np.flatnonzero((data.y >= 0).numpy())
    order = known[np.random.default_rng(training.seed).permutation(len(known))]
    ends = np.cumsum([training.train_share, training.val_share]) * len(order)
    train_part, val, test = np.split(order, ends.astype(np.int64))
    return {"train": train_part, "val": val, "test": test}


def _fit(data: Data, training: Training, widths: list[int], parts: dict[str, IntArray]) -> list[FloatArray]:
    """Adam on cross-entropy; the weights [inputs, outputs] of the epoch with the best validation accuracy."""
    graph, degree, length = _scale(data, training.aggregation)
    labels = data.y.numpy()
    stream = np.random.PCG64([training.seed, 1])
    weights = [(2 * draw_uniform(stream, (a, b)) - 1) * math.sqrt(6 / (a + b)) for a, b in pairwise(widths)]
    whole = [1.0] * (len(widths) - 2)  # nothing dropped
    adam = Adam(weights, training.step)
    states = forward(graph, weights, whole)
    best, kept = -1, weights
    for _ in range(training.epochs):
        keep: Sequence[FloatArray | float] = whole
        if training.dropout:  # 0 where a state is dropped, else what keeps the mean
            drawn = (draw_uniform(stream, (len(labels), width)) for width in widths[1:-1])
            keep = [(numbers >= training.dropout) / (1 - training.dropout) for numbers in drawn]
            states = forward(graph, weights, keep)
        gradients = find_gradients(graph, weights, states, keep, labels, parts["train"])
        weights = adam.move(weights, clip_gradients(gradients, training.clip))
        states = forward(graph, weights, whole)
        correct = int((states[-1].argmax(axis=1) == labels)[parts["val"]].sum())
        if correct > best:
            best, kept = correct, weights
    return [weight / (degree if i else degree * length) for i, weight in enumerate(kept)]


def _scale(data: Data, aggregation: str = "sum") -> tuple[ScaledGraph, float, float]:
    """The graph that training sees, and what adjacency and features were divided by; only a sum needs the former."""
    snapshot = read_snapshot(data, "data")
    x = sparse.csr_array(snapshot.x)
    ones = np.ones(snapshot.edge_index.shape[1])
    shape = (snapshot.num_nodes, snapshot.num_nodes)
    adjacency = sparse.coo_array((ones, tuple(snapshot.edge_index[::-1])), shape=shape).tocsr()
    count = np.asarray(adjacency.sum(axis=1))
    degree = math.sqrt(math.fsum(np.square(count)) / shape[0])
    if aggregation != "sum":
        degree = 1.0
    if aggregation == "mean":
        share = np.divide(1.0, count, out=np.zeros_like(count), where=count > 0)
        adjacency = sparse.csr_array(sparse.dia_array((share[None], [0]), shape=shape) @ adjacency)
    length = math.sqrt(math.fsum(np.square(x.data)) / shape[0])
    scaled, scaled_x = adjacency / degree, x / length
    adjacencies, features = ((Matrix.of(m), Matrix.of(m.T)) for m in (scaled, scaled_x))
    graph = ScaledGraph(*adjacencies, *features, by_maximum=aggregation == "max")
    return graph, degree, length
