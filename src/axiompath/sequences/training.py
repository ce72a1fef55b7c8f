"""The first snapshot -> Learned: a classifier of nodes or a predictor of links, how well it does, in words too.

Nodes: two GCN layers, or two RGCN layers where edges have relations, trained on six tenths of the labelled nodes (of
those whose label is no clue); two tenths choose the epoch, two judge it. Links: a fifth of the pairs is hidden from
the graph and asked for, beside as many random pairs that are not linked; of these, again, six tenths train, two
choose, two judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from ..arrays import BoolArray, IntArray
from ..errors import InputError
from ..files.link_gnn import LinkGNN
from ..files.relation_gnn import RelationGNN
from ..graphs.labels import label_class
from ..graphs.windows import pair_keys, split_keys
from .fit import fit, rank_auc
from .label_features import is_shown

WIDTH_WATCHED = 32
NODE_EPOCHS, LINK_EPOCHS = 100, 60
SHARES = (0.6, 0.8)  # where training ends, and where choosing the epoch does
HIDDEN_SHARE = 0.2  # of the pairs, which are asked for
MOST_HIDDEN = 20_000
LEAST_LABELLED = 10
MOST_LEARNT = 1000  # each is an answer, and where labels are clues a column
NODES, LINKS_TASK = "nodes", "links"
HARDLY = 0.05  # above always giving the commonest answer: less is hardly better


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, what it was built with, and what is known of how well it does."""

    model: nn.Module
    arguments: dict[str, Any]
    facts: dict[str, Any]  # task, num_trained, num_tested, score, baseline
    seen: IntArray  # numbers of the nodes that training saw; none of links


def check_classes(count: int) -> None:
    """Refuse labels of more classes than can be learnt, as names or dates would be."""
    if count > MOST_LEARNT:
        raise InputError(
            f"Expected labels of at most {MOST_LEARNT:,} classes (got {count:,}); is another column the label? Give a "
            "model of your own, or --task links, which needs no labels."
        )


def train_classifier(data: Data, class_names: tuple[str, ...], *, clues: bool, seed: int = 0) -> Learned:
    """Classes of nodes, from the labels that a snapshot has; with clues, from those that are none."""
    y = data.get("y")
    known = np.zeros(0, dtype=np.int64) if y is None else np.flatnonzero(can_learn(data, clues=clues))
    if y is None or len(known) < LEAST_LABELLED or len(np.unique(y[known])) < 2:
        raise InputError(
            f"Expected labels of {LEAST_LABELLED} nodes or more, of two classes, in the first window (got "
            f"{len(known)}); give --labels that name its nodes, a longer --window, or --task links, which needs none."
        )
    train, choose, judge = _split(known, seed)
    num_classes = max(int(y.max()) + 1, len(class_names))
    arguments = {
        "in_channels": data.x.shape[1], "hidden_channels": WIDTH_WATCHED, "num_layers": 2, "out_channels": num_classes,
    }  # fmt: skip
    given = [data.x.double(), data.edge_index]
    num_relations = len(data.get("relation_names") or ())
    if num_relations:
        del arguments["num_layers"]
        arguments["num_relations"] = num_relations
        given.append(data.edge_type)
    elif data.get("edge_weight") is not None:
        given.append(data.edge_weight.double())

    def loss_on(net: nn.Module, nodes: IntArray) -> torch.Tensor:
        return nn.functional.cross_entropy(net(*given)[nodes], y[nodes])

    def right(net: nn.Module, nodes: IntArray) -> float:
        with torch.no_grad():
            return float((net(*given)[nodes].argmax(dim=1) == y[nodes]).double().mean())

    def judged(net: nn.Module) -> float:
        with torch.no_grad():
            return -float(loss_on(net, choose))

    def build() -> nn.Module:
        return RelationGNN(**arguments) if num_relations else GCN(**arguments, dropout=0.5)

    model = fit(build, [train], loss_on, judged, NODE_EPOCHS, seed, decay=5e-4)
    counts = np.bincount(y[train], minlength=num_classes)
    common = int(counts.argmax())
    facts = {
        "task": NODES, "clues": clues, "relations": num_relations, "num_trained": len(train), "num_tested": len(judge),
        "score": right(model, judge),
        "baseline": float((y[judge] == common).double().mean()), "common": label_class(common, class_names),
    }  # fmt: skip
    return Learned(model, arguments, facts, data.n_id.numpy()[train])


def train_linker(data: Data, seed: int = 0) -> Learned:
    """Whether two nodes are linked, from the edges of a snapshot."""
    rng = np.random.default_rng(seed)
    edges = data.edge_index.numpy()
    keys = np.unique(pair_keys(edges.min(axis=0), edges.max(axis=0)))
    if len(keys) < 5 * LEAST_LABELLED:
        raise InputError(
            f"Expected {5 * LEAST_LABELLED} edges or more in the first window (got {len(keys)}); widen the `window`."
        )
    hidden = np.sort(rng.choice(keys, min(int(HIDDEN_SHARE * len(keys)), MOST_HIDDEN), replace=False))
    shown = ~np.isin(pair_keys(edges.min(axis=0), edges.max(axis=0)), hidden)
    graph, x = data.edge_index[:, torch.from_numpy(shown)], data.x.double()
    strange = draw_strangers(keys, int(data.num_nodes or 0), len(hidden), rng)
    pairs = np.concatenate([np.stack(split_keys(hidden)), strange], axis=1)
    y = torch.from_numpy(np.repeat([1, 0], [len(hidden), strange.shape[1]]))
    both = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1))  # either end may be asked for first
    train, choose, judge = _split(np.arange(len(y)), seed)

    def loss_of(net: nn.Module, _: Any) -> torch.Tensor:
        rows = np.concatenate([train, train + len(y)])
        return nn.functional.cross_entropy(net(x, graph, both[:, rows]), y[np.concatenate([train, train])])

    def auc(net: nn.Module, rows: IntArray) -> float:
        with torch.no_grad():
            scores = net(x, graph, both[:, rows]).numpy() @ [-1.0, 1.0]
        return rank_auc(scores, y[rows].numpy())

    arguments = {"in_channels": data.x.shape[1], "hidden_channels": WIDTH_WATCHED // 2}
    model = fit(lambda: LinkGNN(**arguments), [None], loss_of, lambda net: auc(net, choose), LINK_EPOCHS, seed)
    facts = {
        "task": LINKS_TASK, "clues": False, "num_trained": len(train), "num_tested": len(judge),
        "score": auc(model, judge),
        "baseline": 0.5, "common": "",
    }  # fmt: skip
    return Learned(model, arguments, facts, np.zeros(0, dtype=np.int64))


def draw_strangers(keys: IntArray, num_nodes: int, count: int, rng: np.random.Generator) -> IntArray:
    """Pairs [2, at most count] of different nodes that are not linked."""
    ends = np.sort(rng.integers(0, num_nodes, (2, 2 * count + 10)), axis=0)
    fresh = (ends[0] != ends[1]) & ~np.isin(pair_keys(*ends), keys)
    return ends[:, fresh][:, :count]


def can_learn(data: Data, *, clues: bool) -> BoolArray:
    """Nodes whose label is known, and is no clue."""
    known = np.asarray(data.y.numpy() >= 0)
    return known & ~is_shown(data.node_names) if clues else known


def right_share(data: Data, logits: Any, seen: IntArray, *, clues: bool) -> float | None:
    """Of the labelled nodes that training never saw: the share that is right; logits are in the order of the rows."""
    rows = np.flatnonzero(can_learn(data, clues=clues) & ~np.isin(data.n_id.numpy(), seen))
    return float((logits[rows].argmax(axis=1) == data.y.numpy()[rows]).mean()) if len(rows) else None


def _split(items: IntArray, seed: int) -> list[IntArray]:
    order = np.random.default_rng(seed).permutation(items)
    return np.split(order, [int(share * len(order)) for share in SHARES])


def tell_training(facts: dict[str, Any], window: str) -> list[str]:
    """What was trained, how well it does, and what one should not conclude."""
    if facts["task"] == NODES:
        told = [
            f"A two-layer {'RGCN' if facts.get('relations') else 'GCN'} was trained on {facts['num_trained']:,} "
            f"labelled nodes of the first window, {window}."
            + (
                " Of the other half of the labels each is a feature of its node, which its neighbours see."
                * facts["clues"]
            ),
            f"It is right for {facts['score']:.1%} of {facts['num_tested']:,} nodes of that window that training never "
            f"saw; always answering {facts['common']!r} is right for {facts['baseline']:.1%}.",
        ]
        if facts["score"] < facts["baseline"] + HARDLY:
            told.append(
                "That is hardly better than guessing: its answers are not facts about the nodes. Give features "
                "(--nodes), more labels, or a model of your own (--model)."
            )
    elif facts["task"] == LINKS_TASK:
        told = [
            f"A network of two GCN layers was trained to tell {facts['num_trained']:,} pairs of the first window "
            f"({window}) apart: hidden edges, and random pairs without one.",
            f"A pair that is linked stands above one that is not with probability {facts['score']:.1%} (AUC, on "
            f"{facts['num_tested']:,} pairs that training never saw; guessing gives 50 %).",
        ]
    else:
        told = ["The model is the one that was given; it was not trained here."]
    return [
        *told,
        "It was not trained again: what moves is the graph. An explanation says, exactly, what moved this model's "
        "answer; it does not say that the answer is right, nor what would follow if somebody changed the graph.",
    ]
