"""Real tasks whose edges have relations: dated events -> monthly snapshots, an RGCN trained on the first of them.

    icews_activity   how active an actor will be next month: silent, active or busy; one month's events against the
                     next month's
    icews_relation   what the next month's event between a pair of actors will be, of the commonest kinds
    otc_trust        whether the next rating between a pair of members will be trust or distrust; ratings of three
                     months against those of the three months a month later

Relations are the commonest kinds of events and *other*, and each once more against its direction; of ratings, trust and
distrust, likewise. Features are frozen before the first snapshot that anything is trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import RGCNConv

from axiompath.arrays import FloatArray, IntArray
from axiompath.sequences.fit import fit, rank_auc

from ..datasets.archives import check_events, check_timed, open_archive
from .task_models import WIDTH, accuracy_on_rows, loss_on_labels

KINDS_OF_EVENTS = 9  # kinds with a relation of their own; all others share one
KINDS_PREDICTED = 5  # kinds of a pair's next event that are separated
HOURS = 30 * 24  # in a month
FIRST, CHECKED, EXPLAINED = 2, 8, 9  # months: trained on from, picked on, explained from
BUSY = 5  # events sent in a month that make an actor busy
MONTH_OF_SECONDS = 30 * 24 * 3600


class RelationalModel(nn.Module):
    """Two RGCN layers; then two layers on a node, or on both ends of a pair side by side."""

    def __init__(self, inputs: int, relations: int, classes: int, pairs: bool) -> None:
        super().__init__()
        self.convs = nn.ModuleList(RGCNConv(a, WIDTH, relations) for a in (inputs, WIDTH))
        width = 2 * WIDTH if pairs else WIDTH
        self.head = nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes))


class ActorModel(RelationalModel):
    """Of nodes."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor) -> torch.Tensor:
        """Logits, [num_nodes, num_classes]."""
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index, edge_type))
        logits: torch.Tensor = self.head(x)
        return logits


class PairModel(RelationalModel):
    """Of pairs."""

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor, edge_label_index: torch.Tensor
    ) -> torch.Tensor:
        """Logits, [num_pairs, num_classes]."""
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index, edge_type))
        logits: torch.Tensor = self.head(torch.cat([x[edge_label_index[0]], x[edge_label_index[1]]], dim=-1))
        return logits


@dataclass(frozen=True, eq=False)
class Trial:
    """A trained model, two graphs, and how good it is on what it never saw."""

    model: nn.Module
    before: Data
    after: Data
    scores: dict[str, float]
    class_names: tuple[str, ...]
    node_names: dict[int, str]
    links: IntArray | None = None


@dataclass(frozen=True, eq=False)
class DatedEvents:
    """Who did what to whom, in order of time."""

    ends: IntArray  # [2, num_events]
    kinds: IntArray  # [num_events]
    times: IntArray  # [num_events]
    num_nodes: int
    month: int  # in units of time

    def between(self, start: float, stop: float) -> slice:
        """Those of these months."""
        low, high = np.searchsorted(self.times, [start * self.month, stop * self.month])
        return slice(int(low), int(high))

    def graph(self, start: float, stop: float, kinds: IntArray, x: torch.Tensor) -> Data:
        """The events of these months, each kind between a pair once, and against its direction as another relation."""
        some = self.between(start, stop)
        relation = relations_of(self.kinds[some], kinds)
        edges = np.unique(np.concatenate([self.ends[:, some], relation[None]]), axis=1)
        back = np.stack([edges[1], edges[0], edges[2] + len(kinds) + 1])
        both = np.concatenate([edges, back], axis=1)
        return Data(x=x, edge_index=torch.from_numpy(both[:2]), edge_type=torch.from_numpy(both[2]))


def relations_of(events: IntArray, kinds: IntArray) -> IntArray:
    """The place of each event's kind among these; one more than the last for others."""
    place = np.full(int(max(events.max(initial=0), kinds.max(initial=0))) + 1, len(kinds))
    place[kinds] = np.arange(len(kinds))
    return place[events]


def try_activity(part: int, epochs: int, seed: int, root: str | Path | None) -> Trial:
    """One transition: an actor's class is by the events that it sends in the month after the snapshot."""
    events, kinds, x = _open_icews(root)

    def month(number: int) -> Data:
        data = events.graph(number, number + 1, kinds, x)
        coming = np.bincount(events.ends[0, events.between(number + 1, number + 2)], minlength=events.num_nodes)
        known = np.unique(events.ends[:, events.between(0, number + 1)])
        y = np.full(events.num_nodes, -1)
        y[known] = np.digitize(coming[known], [1, BUSY + 1])
        data.y = torch.from_numpy(y)
        return data

    model = fit(
        partial(ActorModel, x.shape[1], 2 * len(kinds) + 2, 3, False),
        [month(number) for number in range(FIRST, CHECKED)],
        loss_on_labels,
        partial(accuracy_on_rows, data=month(CHECKED)),
        epochs,
        seed,
    )
    before, after = month(EXPLAINED + part), month(EXPLAINED + part + 1)
    known = after.y[after.y >= 0]
    scores = {
        "accuracy": accuracy_on_rows(model, after),
        "majority": float(torch.bincount(known).max() / len(known)),
    }
    names = {i: f"actor {i}" for i in range(events.num_nodes)}
    return Trial(model, _bare(before), _bare(after), scores, ("silent", "active", "busy"), names)


def try_relation(part: int, epochs: int, seed: int, root: str | Path | None) -> Trial:
    """One transition: pairs with an event of the commonest kinds in the month after the snapshot, by the first."""
    events, kinds, x = _open_icews(root)
    predicted = kinds[:KINDS_PREDICTED]

    def month(number: int) -> Data:
        data = events.graph(number, number + 1, kinds, x)
        coming = events.between(number + 1, number + 2)
        kind = relations_of(events.kinds[coming], predicted)
        some = kind < len(predicted)
        pairs, first = np.unique(events.ends[:, coming][:, some], axis=1, return_index=True)
        data.edge_label_index = torch.from_numpy(pairs)
        data.y = torch.from_numpy(kind[some][first])
        return data

    model = fit(
        partial(PairModel, x.shape[1], 2 * len(kinds) + 2, len(predicted), True),
        [month(number) for number in range(FIRST, CHECKED)],
        loss_on_labels,
        partial(accuracy_on_rows, data=month(CHECKED)),
        epochs,
        seed,
    )
    before, after = month(EXPLAINED + part), month(EXPLAINED + part + 1)
    scores = {
        "accuracy": accuracy_on_rows(model, after),
        "majority": float(torch.bincount(after.y).max() / len(after.y)),
    }
    classes = tuple(f"kind {kind}" for kind in predicted.tolist())
    names = {i: f"actor {i}" for i in range(events.num_nodes)}
    links = after.edge_label_index.T.numpy()
    return Trial(model, _bare(before), _bare(after), scores, classes, names, links)


def try_trust(part: int, epochs: int, seed: int, root: str | Path | None) -> Trial:
    """One transition: pairs with a rating in the month after the snapshot, trust or distrust."""
    arrays, path = open_archive("bitcoinotc", root, "timed graph")
    check_timed(arrays, path)
    ends = np.stack([arrays["edge_src"], arrays["edge_dst"]]).astype(np.int64)
    times = arrays["edge_time"].astype(np.int64)
    ratings = arrays["edge_weight"].astype(np.int64)
    start, stop = int(times[int(0.4 * len(times))]), int(times[int(0.7 * len(times))])
    events = DatedEvents(
        ends, (ratings < 0).astype(np.int64), times - start, int(arrays["num_nodes"]), MONTH_OF_SECONDS
    )
    x = _counts(ends[:, times < start], (ratings[times < start] < 0).astype(np.int64), 2, events.num_nodes)
    first, kinds = 1 + (stop - start) // MONTH_OF_SECONDS, np.array([0])

    def month(number: int) -> Data:
        data = events.graph(number - 3, number, kinds, x)
        coming = events.between(number, number + 1)
        pairs, place = np.unique(events.ends[:, coming], axis=1, return_index=True)
        data.edge_label_index = torch.from_numpy(pairs)
        data.y = torch.from_numpy(events.kinds[coming][place])
        return data

    held = month(first - 1)
    model = fit(
        partial(PairModel, x.shape[1], 4, 2, True),
        [month(number) for number in range(3, first - 1)],
        loss_on_labels,
        partial(_auc, months=[held]),
        epochs,
        seed,
    )
    before, after = month(first + part), month(first + part + 1)
    scores = {
        "AUC": _auc(model, [month(first + k) for k in range(4)]),
        "share of distrust": float(after.y.double().mean()),
    }
    links = after.edge_label_index.T.numpy()
    names = {i: f"member {i}" for i in range(events.num_nodes)}
    return Trial(model, _bare(before), _bare(after), scores, ("trust", "distrust"), names, links)


def _open_icews(root: str | Path | None) -> tuple[DatedEvents, IntArray, torch.Tensor]:
    """Events, the commonest kinds of the first months, and what is known of actors when these end."""
    arrays, path = open_archive("icews14", root, "list of dated events")
    check_events(arrays, path)
    order = np.argsort(arrays["time"], kind="stable")
    ends = np.stack([arrays["source"], arrays["target"]]).astype(np.int64)[:, order]
    kinds, times = arrays["relation"].astype(np.int64)[order], arrays["time"].astype(np.int64)[order]
    events = DatedEvents(ends, kinds, times, int(ends.max()) + 1, HOURS)
    early = events.between(0, FIRST)
    commonest = np.argsort(-np.bincount(kinds[early]), kind="stable")[:KINDS_OF_EVENTS]
    return (
        events,
        commonest,
        _counts(ends[:, early], relations_of(kinds[early], commonest), len(commonest) + 1, events.num_nodes),
    )


def _counts(ends: IntArray, relation: IntArray, num_relations: int, num_nodes: int) -> torch.Tensor:
    """1, and of each relation the logarithm of how often a node sent and received it."""
    columns: list[FloatArray] = [np.ones(num_nodes)]
    for r in range(num_relations):
        columns += [np.log1p(np.bincount(side[relation == r], minlength=num_nodes)) for side in ends]
    return torch.from_numpy(np.stack(columns, axis=1))


def _auc(model: nn.Module, months: list[Data]) -> float:
    with torch.no_grad():
        logits = [model(d.x, d.edge_index, d.edge_type, d.edge_label_index).numpy() for d in months]
    scores: Any = np.concatenate(logits) @ [-1.0, 1.0]
    return rank_auc(scores, np.concatenate([data.y.numpy() for data in months]))


def _bare(data: Data) -> Data:
    """What is explained: without labels."""
    return Data(x=data.x, edge_index=data.edge_index, edge_type=data.edge_type)
