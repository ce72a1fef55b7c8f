"""Explainers of torch_geometric -> Contenders: what they say of `after`, and how that differs from `before`.

Each is asked, in its default settings but for the number of epochs, why the model predicts the class after, on the
target's computation graph in float32. Scores of edges are summed over the edges of a change (both directions; all
edges of a node that came or went), scores of nodes go to changes of features. As a difference,

    signed scores (Integrated Gradients)    score in `after` - score in `before`
    all others, which are never below 0     the size of that difference

where an edge that a graph does not have scores 0 in it. PGExplainer, made to be trained on many targets, is trained
on the one.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import (
    AttentionExplainer,
    CaptumExplainer,
    Explainer,
    GNNExplainer,
    GraphMaskExplainer,
    PGExplainer,
)
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import k_hop_subgraph

from axiompath.arrays import FloatArray
from axiompath.errors import InputError
from axiompath.graphs.changes import FEATURES_CHANGED

from .contenders import NONE, Contender, both_ends, places_of
from .puzzles import Puzzle

MASK_EPOCHS, TRAINED_EPOCHS, GATE_EPOCHS = 100, 30, 20  # of GNNExplainer, PGExplainer, GraphMaskExplainer (a layer)


@dataclass(frozen=True)
class Algorithm:
    """One explainer: how it is made for a model of so many layers, and what its scores are."""

    make: Callable[[int], Any]
    signed: bool = False
    node_mask: str | None = "object"  # what it scores of nodes, where features changed; None where it scores only edges
    trained: bool = False


class _Said(logging.Handler):
    """What torch_geometric writes to the log, where it says why."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.last = f" ({record.getMessage()})"


ALGORITHMS = {
    "GNNExplainer": Algorithm(lambda layers: GNNExplainer(epochs=MASK_EPOCHS)),
    "Integrated Gradients": Algorithm(
        lambda layers: CaptumExplainer("IntegratedGradients"), signed=True, node_mask="attributes"
    ),
    "Saliency": Algorithm(lambda layers: CaptumExplainer("Saliency"), node_mask="attributes"),
    "PGExplainer": Algorithm(lambda layers: PGExplainer(epochs=TRAINED_EPOCHS), node_mask=None, trained=True),
    "AttentionExplainer": Algorithm(lambda layers: AttentionExplainer(), node_mask=None),
    "GraphMaskExplainer": Algorithm(lambda layers: GraphMaskExplainer(layers, epochs=GATE_EPOCHS, log=False)),
}


def pyg_contenders() -> dict[str, Contender]:
    """Each applied to `after`, and as a difference."""
    return {
        f"{name}, {way}": partial(_rank, name, difference=way == "difference")
        for name in ALGORITHMS
        for way in ("after", "difference")
    }


def _rank(name: str, puzzle: Puzzle, seed: int, *, difference: bool) -> FloatArray:
    before, after = both_ends(puzzle.evaluator)
    label, algorithm = puzzle.evaluator.output.label_pair(before, after)[1], ALGORITHMS[name]
    sides = (puzzle.after, puzzle.before) if difference else (puzzle.after,)
    said = _Said()
    logging.getLogger().addHandler(said)
    try:
        found = [score_changes(algorithm, puzzle, side, label, seed) for side in sides]
    except ImportError as error:
        raise InputError(
            f"Expected {error.name} for {name} (it is not there); install it with `pip install -e .[research]`."
        ) from error
    except Exception as error:  # whatever another package's explainer does on a model that it was not made for
        raise InputError(
            f"{name} cannot be run here: {type(error).__name__}: {' '.join(f'{error}{said.last}'.split())[:240]}"
        ) from error
    finally:
        logging.getLogger().removeHandler(said)
    if not difference:
        return found[0]
    moved = found[0] - found[1]
    return moved if algorithm.signed else np.abs(moved)


def score_changes(algorithm: Algorithm, puzzle: Puzzle, side: Data, label: int, seed: int) -> FloatArray:
    """What one explainer says of one graph, summed over the edges and nodes of each change. [num_rows]."""
    changes = puzzle.evaluator.players.changes
    with_nodes = algorithm.node_mask is not None and bool((changes.kind == FEATURES_CHANGED).any())
    part = cut_part(puzzle, side)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        edges, nodes = explain_part(algorithm, part, label, with_nodes)
    places, (src, dst) = places_of(puzzle), part.ids[part.edges.numpy()]
    total = places.add(src, dst, edges)
    if nodes is not None:
        total += places.add(part.ids, np.full(len(part.ids), NONE), nodes)
    return total


@dataclass(frozen=True, eq=False)
class GraphPart:
    """What decides a target of one graph, as an explainer is given it."""

    model: nn.Module  # a copy, in float32
    x: torch.Tensor
    edges: torch.Tensor
    ids: Any  # [num_nodes]: numbers of its nodes
    level: str  # node, edge or graph
    index: int | None  # of the answer among the model's
    arguments: dict[str, torch.Tensor]


def cut_part(puzzle: Puzzle, side: Data) -> GraphPart:
    """As many hops around the target as the model has layers, and one more for the degrees at the rim."""
    num_nodes = int(side.num_nodes or 0)
    ids = side.n_id if side.get("n_id") is not None else torch.arange(num_nodes)
    model = copy.deepcopy(puzzle.model).float().eval()
    if puzzle.of_graph:
        arguments = puzzle.arguments(side)
        return GraphPart(model, side.x.float(), side.edge_index, ids.numpy(), "graph", None, arguments)
    ends = torch.tensor(np.atleast_1d(np.asarray(puzzle.target, dtype=np.int64)))
    rows = torch.stack([torch.nonzero(ids == end)[0, 0] for end in ends])
    hops = sum(isinstance(module, MessagePassing) for module in model.modules()) + 1
    nodes, edges, roots, _ = k_hop_subgraph(rows, hops, side.edge_index, relabel_nodes=True, num_nodes=num_nodes)
    x, numbers = side.x[nodes].float(), ids[nodes].numpy()
    if len(ends) == 2:
        return GraphPart(model, x, edges, numbers, "edge", 0, {"edge_label_index": roots.reshape(2, 1)})
    return GraphPart(model, x, edges, numbers, "node", int(roots[0]), {})


def explain_part(
    algorithm: Algorithm, part: GraphPart, label: int, with_nodes: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Scores of edges, and of nodes where asked for."""
    made = algorithm.make(sum(isinstance(module, MessagePassing) for module in part.model.modules()))
    explainer = Explainer(
        part.model,
        made,
        explanation_type="phenomenon" if not isinstance(made, AttentionExplainer) else "model",
        node_mask_type=algorithm.node_mask if with_nodes or isinstance(made, GraphMaskExplainer) else None,
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": part.level, "return_type": "raw"},
    )
    with torch.no_grad():
        rows = len(part.model(part.x, part.edges, **part.arguments))
    labels = torch.full((rows,), label)
    given: dict[str, Any] = {"index": part.index, **part.arguments}
    if algorithm.trained:
        for epoch in range(TRAINED_EPOCHS):
            made.train(epoch, part.model, part.x, part.edges, target=labels, **given)
    if not isinstance(made, AttentionExplainer):
        given["target"] = labels
    found = explainer(part.x, part.edges, **given)
    nodes = found.get("node_mask") if with_nodes else None
    edges: FloatArray = found.edge_mask.detach().double().numpy()
    return edges, None if nodes is None else nodes.detach().double().sum(dim=1).numpy()
