"""Explainer + target -> how many changes other searches undo until the old class is back, on the same candidates.

    leave one out   changes in the order of what undoing each does, until the class is back
    path shares     changes in the order of what the paths over their edges add to the new class against the old
    gradient        CF-GNNExplainer's search: a mask over the changes, learnt through the user's model until the class
                    is back with the changes below one half undone; the fewest on the way

Every one is judged as `undo` judges itself: by the model under exactly these changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import k_hop_subgraph

from axiompath.arrays import BoolArray, FloatArray, IntArray
from axiompath.blame.engine import SubsetEvaluator
from axiompath.explain.explanation import EDGE
from axiompath.explain.units import split_over
from axiompath.explainer import Explainer
from axiompath.graphs.changes import EDGE_ADDED, EDGE_CHANGES, EDGE_REMOVED
from axiompath.graphs.places import Target

COUNTERFACTUALS = ("leave one out", "path shares", "gradient")
# Of the search by gradient. With 200 steps and no momentum it found nothing in eleven flips, of which it finds five so.
SEARCH_STEPS, STEP_LENGTH, MOMENTUM, SPARSITY = 500, 0.1, 0.9, 0.5
FIRST_MASK = 1.0  # of every mask, before the sigmoid: applied
SIGHT = 3  # hops around a target that decide two GCN layers, degrees included


def rival_sizes(explainer: Explainer, target: Target) -> dict[str, int]:
    """Changes that each search undoes; 0 where it never gets the class back."""
    session = explainer.session
    evaluator = session.subsets.open(session.root(target))
    ends = evaluator.run_ends()
    old, new = evaluator.output.label_pair(ends[0], ends[1])
    without_one = evaluator.run(~np.eye(evaluator.num_changes, dtype=np.bool_))
    orders = _against(without_one, old, new), path_shares(explainer, target, evaluator, old, new)
    sizes = [_prefix(evaluator, np.argsort(-order, kind="stable"), old) for order in orders]
    return dict(zip(COUNTERFACTUALS, [*sizes, search_by_gradient(explainer, target, evaluator, old, new)], strict=True))


def _against(logits: FloatArray, old: int, new: int) -> FloatArray:
    """How much the old class stands above the new one; of one logit by its sign."""
    if logits.shape[1] == 1:
        return np.asarray(logits[:, 0] * (1.0 if old else -1.0))
    return np.asarray(logits[:, old] - logits[:, new])


def _prefix(evaluator: SubsetEvaluator, order: IntArray, old: int) -> int:
    turn = np.argsort(order)
    applied = turn[None] >= np.arange(1, len(order) + 1)[:, None]
    hits = np.flatnonzero(evaluator.output.decide(evaluator.run(applied)) == old)
    return int(hits[0]) + 1 if len(hits) else 0


def path_shares(explainer: Explainer, target: Target, evaluator: SubsetEvaluator, old: int, new: int) -> FloatArray:
    """What the paths over each change's edge, or from its features, add to the new class against the old."""
    engine, (row,) = explainer.session.locate([target])
    _, units = split_over(engine.change, engine.region.pair, int(row), EDGE, explainer.memory)
    share = -_against(units.contributions, old, new)
    held: dict[tuple[int, int], float] = {}
    for (_, src, dst), value in zip(units.labels.tolist(), share.tolist(), strict=True):
        held[min(src, dst), max(src, dst)] = held.get((min(src, dst), max(src, dst)), 0.0) + value
    ends = evaluator.changes.src.tolist(), evaluator.changes.dst.fillna(-1).tolist()
    return np.array([held.get((min(pair), max(pair)), 0.0) for pair in zip(*ends, strict=True)])


def search_by_gradient(explainer: Explainer, target: Target, evaluator: SubsetEvaluator, old: int, new: int) -> int:
    """The fewest changes whose undoing gives the old class back along the search; changes of edges are the candidates.

    minimise  log p(new) while the class is not back  +  SPARSITY * (undone changes)    over one mask a change
    """
    rows = evaluator.changes
    places = np.flatnonzero(rows.kind.isin(EDGE_CHANGES))
    if not len(places):
        return 0
    model, x, edges, owner, came, roots = _soft_graph(explainer, target, rows.iloc[places])
    mask = torch.full((len(places),), FIRST_MASK, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([mask], lr=STEP_LENGTH, momentum=MOMENTUM, nesterov=True)
    best, back = 0, False
    applied: BoolArray = np.ones((1, evaluator.num_changes), dtype=np.bool_)
    for _ in range(SEARCH_STEPS):
        chosen = (mask.detach() > 0).numpy()
        if (chosen != applied[0, places]).any():
            applied[0, places] = chosen
            back = int(evaluator.output.decide(evaluator.run(applied))[0]) == old
            num_undone = int((~chosen).sum())
            if back:
                best = num_undone if not best else min(best, num_undone)
        soft = torch.sigmoid(mask)[owner]
        weight = torch.where(owner < 0, 1.0, torch.where(came, soft, 1 - soft))
        with _weighted(model, weight), torch.enable_grad():
            logits = model(x, edges, *roots[1:])[roots[0]].reshape(-1)
        log_probability = torch.log_softmax(logits, dim=0)[new]
        loss = (0.0 if back else 1.0) * log_probability + SPARSITY * (1 - torch.sigmoid(mask)).sum() / max(
            len(places), 1
        )
        descent.zero_grad()
        torch.autograd.backward(loss)
        descent.step()
    return best


def _soft_graph(explainer: Explainer, target: Target, rows: Any) -> tuple[Any, ...]:
    """The model, and what decides the target of both graphs at once: features, edges, whose change each is (-1 for
    none), whether it came, and where the target stands in the answer."""
    before, after = (side.data for side in (explainer.session.pair.before, explainer.session.pair.after))
    assert isinstance(before, Data)
    assert isinstance(after, Data)
    number = {
        (kind, *sorted((int(src), int(dst)))): place
        for place, (kind, src, dst) in enumerate(zip(rows.kind.astype(str), rows.src, rows.dst, strict=True))
    }
    old, fresh = ({*map(tuple, data.edge_index.T.tolist())} for data in (before, after))
    every = sorted(old | fresh)
    kinds = [EDGE_ADDED if pair not in old else EDGE_REMOVED if pair not in fresh else "" for pair in every]
    owner = torch.tensor([number.get((kind, *sorted(pair)), -1) for kind, pair in zip(kinds, every, strict=True)])
    came = torch.tensor([kind == EDGE_ADDED for kind in kinds])
    here = torch.tensor([kind != EDGE_ADDED for kind in kinds]) | (owner < 0)  # a change out of sight is as it is
    here &= torch.tensor([kind != EDGE_REMOVED for kind in kinds]) | (owner >= 0)
    here |= owner >= 0
    ends = torch.tensor(np.atleast_1d(np.asarray(target, dtype=np.int64)))
    nodes, edges, roots, near = k_hop_subgraph(
        ends, SIGHT, torch.tensor(every).T[:, here], relabel_nodes=True, num_nodes=int(before.num_nodes or 0)
    )
    taken: Any = explainer.session.pair.before.graph.take_features(nodes.numpy())
    x = torch.from_numpy(taken.toarray() if sparse.issparse(taken) else np.asarray(taken)).double()
    pair = len(ends) == 2
    where = (torch.zeros(1, dtype=torch.long), roots.reshape(2, 1)) if pair else (roots,)
    return explainer.session.models[-1], x, edges, owner[here][near], came[here][near], where


@contextmanager
def _weighted(model: nn.Module, weight: torch.Tensor) -> Iterator[None]:
    """Every GCN layer of the model given these weights of edges, as long as this is open."""

    def add(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args[:2], {**kwargs, "edge_weight": weight}

    hooks = [
        module.register_forward_pre_hook(add, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, GCNConv)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
