"""The first snapshot -> Learned: the best of a few small networks, beside naive rules, in words too.

Nodes: two layers, trained on six tenths of the labelled nodes (of those whose label is no clue); two tenths choose the
epoch and the network, two judge it. Links: a fifth of the pairs is hidden from the graph and asked for, beside as many
random pairs that are not linked; of these, again, six tenths train, two choose, two judge. Edges with relations are
learnt by RGCN, which looks at no weights. Naive rules are judged on what judges the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import nn
from torch_geometric.data import Data

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError
from ..files.small_gnns import WEIGHTED, LinkGNN, NodeGNN, RelationGNN
from ..graphs.labels import label_class
from ..graphs.windows import pair_keys, split_keys
from .fit import fit, rank_auc
from .label_features import is_shown

WIDTH_WATCHED = 32
NODE_EPOCHS, LINK_EPOCHS = 100, 60
SHARES = (0.6, 0.8)  # where training ends, and where choosing does
HIDDEN_SHARE = 0.2  # of the pairs, which are asked for
MOST_HIDDEN = 20_000
LEAST_LABELLED = 10
MOST_LEARNT = 1000  # each is an answer, and where labels are clues a column
NODES, LINKS_TASK = "nodes", "links"
HARDLY = 0.01  # above the best naive rule: less is no better
NODE_NETWORKS, LINK_NETWORKS = ("gcn", "sage", "gat"), ("gcn", "sage", "sum", "gat")
RGCN = "rgcn"


class Network(NamedTuple):
    """One of the networks that are tried."""

    conv: str
    weighted: bool

    def __str__(self) -> str:
        """As tables call it."""
        return {"mean": "mean", "sum": "sum"}.get(self.conv, self.conv.upper()) + ", weights" * self.weighted


class TrainedNetwork(NamedTuple):
    """A network that was trained, and what it reached."""

    network: Network
    model: nn.Module
    arguments: dict[str, Any]
    chosen_by: float  # on what chooses
    score: float  # on what judges


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, what it was built with, and what is known of how well it does."""

    model: nn.Module
    arguments: dict[str, Any]
    facts: dict[str, Any]  # task, num_trained, num_tested, score, baseline, network, networks, rules
    seen: IntArray  # numbers of the nodes that training saw; none of links


def check_classes(count: int) -> None:
    """Refuse labels of more classes than can be learnt, as names or dates would be."""
    if count > MOST_LEARNT:
        raise InputError(
            f"Expected labels of at most {MOST_LEARNT:,} classes (got {count:,}); is another column the label? Give a "
            "model of your own, or --task links, which needs no labels."
        )


def networks_for(data: Data, convs: tuple[str, ...]) -> list[Network]:
    """Those that can be trained on these edges: with their weights, and without; of negative weights no GCN."""
    weight = data.get("edge_weight")
    found = [Network(conv, False) for conv in convs]
    if weight is not None:
        signed = float(weight.min()) < 0
        found += [Network(conv, True) for conv in WEIGHTED if not (signed and conv == "gcn")]
    return found


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
    num_relations = len(data.get("relation_names") or ())
    x, edges = data.x.double(), data.edge_index
    weight = None if data.get("edge_weight") is None else data.edge_weight.double()

    def try_one(network: Network) -> TrainedNetwork:
        settings: dict[str, Any] = {"in_channels": x.shape[1], "hidden_channels": WIDTH_WATCHED}
        settings["out_channels"] = num_classes
        if num_relations:
            settings["num_relations"] = num_relations
        else:
            settings |= network._asdict()
        given = [x, edges, *([data.edge_type] if num_relations else [weight] if network.weighted else [])]

        def loss_on(net: nn.Module, nodes: IntArray) -> torch.Tensor:
            return nn.functional.cross_entropy(net(*given)[nodes], y[nodes])

        def right(net: nn.Module, nodes: IntArray) -> float:
            with torch.no_grad():
                return float((net(*given)[nodes].argmax(dim=1) == y[nodes]).double().mean())

        def judged(net: nn.Module) -> float:
            with torch.no_grad():
                return -float(loss_on(net, choose))

        build = (lambda: RelationGNN(**settings)) if num_relations else (lambda: NodeGNN(**settings))
        model = fit(build, [train], loss_on, judged, NODE_EPOCHS, seed, decay=5e-4)
        return TrainedNetwork(network, model, settings, right(model, choose), right(model, judge))

    some = [Network(RGCN, False)] if num_relations else networks_for(data, NODE_NETWORKS)
    common = int(np.bincount(y[train], minlength=num_classes).argmax())
    shown = np.full(len(y), -1)
    labelled = np.flatnonzero((y.numpy() >= 0) & is_shown(data.node_names)) if clues else train
    shown[labelled] = y.numpy()[labelled]
    rules = {
        "the commonest class": np.full(len(judge), common),
        "the class of most neighbours": _class_of_neighbours(data, shown, judge, common, last=False),
        "the class of the last neighbour": _class_of_neighbours(data, shown, judge, common, last=True),
    }
    scores = {rule: float((y.numpy()[judge] == found).mean()) for rule, found in rules.items()}
    best, table = _best([try_one(network) for network in some])
    facts = {
        "task": NODES, "clues": clues, "relations": num_relations, "num_trained": len(train), "num_tested": len(judge),
        "score": best.score, "baseline": max(scores.values()), "common": label_class(common, class_names),
        "network": str(best.network), "networks": table, "rules": scores,
    }  # fmt: skip
    return Learned(best.model, best.arguments, facts, data.n_id.numpy()[train])


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
    shown = torch.from_numpy(~np.isin(pair_keys(edges.min(axis=0), edges.max(axis=0)), hidden))
    graph, x = data.edge_index[:, shown], data.x.double()
    weight = None if data.get("edge_weight") is None else data.edge_weight.double()[shown]
    strange = draw_strangers(keys, int(data.num_nodes or 0), len(hidden), rng)
    pairs = np.concatenate([np.stack(split_keys(hidden)), strange], axis=1)
    y = torch.from_numpy(np.repeat([1, 0], [len(hidden), strange.shape[1]]))
    both = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1))  # either end may be asked for first
    train, choose, judge = _split(np.arange(len(y)), seed)

    def try_one(network: Network) -> TrainedNetwork:
        settings = {"in_channels": x.shape[1], "hidden_channels": WIDTH_WATCHED // 2, **network._asdict()}

        def loss_of(net: nn.Module, _: Any) -> torch.Tensor:
            rows = np.concatenate([train, train + len(y)])
            return nn.functional.cross_entropy(net(x, graph, both[:, rows], weight), y[np.concatenate([train, train])])

        def auc(net: nn.Module, rows: IntArray) -> float:
            with torch.no_grad():
                scores = net(x, graph, both[:, rows], weight).numpy() @ [-1.0, 1.0]
            return rank_auc(scores, y[rows].numpy())

        model = fit(lambda: LinkGNN(**settings), [None], loss_of, lambda net: auc(net, choose), LINK_EPOCHS, seed)
        return TrainedNetwork(network, model, settings, auc(model, choose), auc(model, judge))

    best, table = _best([try_one(network) for network in networks_for(data, LINK_NETWORKS)])
    rules = _rules_of_links(data, graph.numpy(), shown.numpy(), pairs[:, judge])
    scores = {rule: rank_auc(found, y[judge].numpy()) for rule, found in rules.items()}
    facts = {
        "task": LINKS_TASK, "clues": False, "num_trained": len(train), "num_tested": len(judge), "score": best.score,
        "baseline": max(scores.values()), "common": "",
        "network": str(best.network), "networks": table, "rules": scores,
    }  # fmt: skip
    return Learned(best.model, best.arguments, facts, np.zeros(0, dtype=np.int64))


def _best(tried: list[TrainedNetwork]) -> tuple[TrainedNetwork, list[list[Any]]]:
    """The one that is best on what chooses, the first of equals; and a row for each."""
    best = max(tried, key=lambda one: one.chosen_by)
    return best, [[str(one.network), one.chosen_by, one.score] for one in tried]


def _class_of_neighbours(data: Data, shown: IntArray, nodes: IntArray, common: int, *, last: bool) -> IntArray:
    """The class that most of the neighbours with a known one have, or the one that was met last; else the commonest."""
    senders, receivers = data.edge_index.numpy()
    when = data.get("edge_time")
    known = np.flatnonzero(shown[senders] >= 0)
    if last and when is not None:
        known = known[np.argsort(when.numpy()[known], kind="stable")]
        found = np.full(len(shown), common)
        found[receivers[known]] = shown[senders[known]]  # of several the last one stays
        return np.asarray(found[nodes])
    count = np.zeros((len(shown), max(int(shown.max()), common) + 1))
    np.add.at(count, (receivers[known], shown[senders[known]]), 1.0)
    found = np.where(count.any(axis=1), count.argmax(axis=1), common)
    return np.asarray(found[nodes])


def _rules_of_links(data: Data, graph: IntArray, shown: BoolArray, pairs: IntArray) -> dict[str, FloatArray]:
    """What naive rules say of pairs: [num_pairs] numbers each."""
    size = int(data.num_nodes or 0)
    adjacency = sparse.csr_array((np.ones(graph.shape[1]), graph), shape=(size, size))
    common = np.asarray(adjacency[pairs[0]].multiply(adjacency[pairs[1]]).sum(axis=1)).ravel()
    degree = np.bincount(graph[1], minlength=size).astype(np.float64)
    found = {"common neighbours": common, "both ends are busy": degree[pairs[0]] * degree[pairs[1]]}
    if data.get("edge_time") is not None:
        last = np.full(size, -np.inf)
        np.maximum.at(last, graph[1], data.edge_time.numpy()[shown].astype(np.float64))
        found["both ends were active lately"] = np.minimum(last[pairs[0]], last[pairs[1]])
    return found


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


def beats_rules(facts: dict[str, Any]) -> bool:
    """Whether the model is better than the best naive rule; of a model that was given nobody knows."""
    return "score" not in facts or bool(facts["score"] >= facts["baseline"] + HARDLY)


def describe_warning(facts: dict[str, Any]) -> str:
    """What a page opens with where the model is worth nothing; else nothing."""
    if beats_rules(facts):
        return ""
    rules = facts.get("rules", {"the commonest class": 0.0})
    best = max(rules, key=lambda rule: rules[rule])
    if facts["score"] >= facts["baseline"]:
        return (
            f"A naive rule, {best!r}, does as well as the model ({facts['baseline']:.1%} against "
            f"{facts['score']:.1%}): the model adds little to it."
        )
    return (
        f"The model is worse than a naive rule ({facts['score']:.1%}; {best!r} has {facts['baseline']:.1%}): do not "
        "act on what it predicts. Give your own model (--model), features (--nodes) or more labels."
    )


def training_table(facts: dict[str, Any]) -> list[tuple[str, float | None, float]]:
    """What was tried: a name, what it reached on what chooses (None for a naive rule), and on what judges."""
    networks = [(str(name), float(chosen), float(score)) for name, chosen, score in facts.get("networks", ())]
    return [*networks, *((str(rule), None, float(score)) for rule, score in facts.get("rules", {}).items())]


def describe_training(facts: dict[str, Any], window: str) -> list[str]:
    """What was trained, how well it does, and what one should not conclude."""
    lines = [describe_warning(facts)] if describe_warning(facts) else []
    if facts["task"] in (NODES, LINKS_TASK):
        name = facts.get("network", "RGCN" if facts.get("relations") else "GCN")
        among = f", the best of {len(facts.get('networks', ()))} small networks," * (len(facts.get("networks", ())) > 1)
    if facts["task"] == NODES:
        lines += [
            f"A two-layer {name}{among} was trained on {facts['num_trained']:,} labelled nodes of the first window, "
            f"{window}."
            + " The other half of the labels are features of their nodes, which neighbours see."
            * facts["clues"],
            f"It is right for {facts['score']:.1%} of {facts['num_tested']:,} nodes of that window held out from "
            f"training; the best naive rule is right for {facts['baseline']:.1%}.",
        ]
    elif facts["task"] == LINKS_TASK:
        lines += [
            f"A two-layer {name}{among} was trained to distinguish {facts['num_trained']:,} pairs of the first window "
            f"({window}): hidden edges, and random pairs without one.",
            f"It ranks a linked pair above an unlinked one with probability {facts['score']:.1%} (AUC, on "
            f"{facts['num_tested']:,} pairs held out from training; the best naive rule gives "
            f"{facts['baseline']:.1%}).",
        ]
    else:
        lines.append("The model was given; it was not trained here.")
    return [
        *lines,
        "It is not trained again: only the graph changes. An explanation says exactly what moved this model's answer; "
        "it does not say that the answer is right, nor what would follow if somebody changed the real graph.",
    ]
