"""Cells, windows of random snapshots, and what is predicted when some of the dated changes have happened, literally."""

import itertools
import math

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

NUM_FEATURES, WIDTH = 3, 4


class GRU(nn.Module):
    """A GRU whose gates are graph convolutions, as people write it."""

    def __init__(self):
        super().__init__()
        self.update, self.reset, self.fresh = (GCNConv(NUM_FEATURES + WIDTH, WIDTH) for _ in range(3))

    def forward(self, x, edge_index, h):
        both = torch.cat([x, h], dim=1)
        z, r = torch.sigmoid(self.update(both, edge_index)), torch.sigmoid(self.reset(both, edge_index))
        n = torch.tanh(self.fresh(torch.cat([x, r * h], dim=1), edge_index))
        h = z * h + (1 - z) * n
        return h, h


class LSTM(nn.Module):
    """An LSTM on what a weighted convolution gathers."""

    def __init__(self):
        super().__init__()
        self.conv, self.gates = GCNConv(NUM_FEATURES, WIDTH), nn.Linear(2 * WIDTH, 4 * WIDTH)

    def forward(self, x, edge_index, h, c, edge_weight=None):
        seen = self.conv(x, edge_index, edge_weight).relu()
        i, f, g, o = self.gates(torch.cat([seen, h], dim=1)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class GCN(nn.Module):
    """The convolution of features and state."""

    def __init__(self):
        super().__init__()
        self.conv, self.keep = GCNConv(NUM_FEATURES + WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, edge_index, h):
        h = torch.tanh(self.conv(torch.cat([x, h], dim=1), edge_index) + self.keep(h))
        return h, h


CELLS = {"gru": (GRU, 1), "lstm": (LSTM, 2), "gcn": (GCN, 1)}  # and how many states each has


def random_dates(rng, num_dates, *, num_nodes=7, num_changes=2, weighted=False):
    """Snapshots, each a few changes of edges, weights and features away from the one before."""
    pairs = np.array([(u, v) for u in range(num_nodes) for v in range(num_nodes) if u != v])
    edges = {tuple(edge): 1.0 for edge in pairs[rng.random(len(pairs)) < 0.3].tolist()}
    x, found = rng.normal(size=(num_nodes, NUM_FEATURES)), []
    for day in range(num_dates):
        listed = list(edges)
        data = Data(x=torch.from_numpy(x.copy()), edge_index=torch.tensor(listed).T.reshape(2, -1), time=f"day {day}")
        if weighted:
            data.edge_weight = torch.tensor([edges[one] for one in listed], dtype=torch.float64)
        found.append(data)
        for _ in range(num_changes):
            edge = tuple(pairs[rng.integers(len(pairs))].tolist())
            kind = rng.integers(3)
            if kind == 0:
                x[rng.integers(num_nodes)] += rng.normal(size=NUM_FEATURES)
            elif edge in edges and len(edges) > 2 and not (weighted and kind == 1):
                del edges[edge]
            else:
                edges[edge] = float(rng.integers(1, 5)) / 2
    return found


def revise(rng, data):
    """The same date with one node's features and one edge otherwise."""
    found = data.clone()
    found.x[rng.integers(len(found.x))] += 0.7
    keep = torch.arange(data.edge_index.shape[1]) != rng.integers(data.edge_index.shape[1])
    found.edge_index = data.edge_index[:, keep]
    if "edge_weight" in data:
        found.edge_weight = data.edge_weight[keep]
    return found


def contents(data):
    """A snapshot as a dict: of each edge its weight, of each node its features."""
    weights = data.edge_weight.tolist() if "edge_weight" in data else [1.0] * data.edge_index.shape[1]
    held = {("edge", *edge): weight for edge, weight in zip(data.edge_index.T.tolist(), weights, strict=True)}
    return held | {("node", row): tuple(values) for row, values in enumerate(data.x.tolist())}


def as_data(held, like):
    """The way back."""
    edges = [key[1:] for key in held if key[0] == "edge"]
    rows = sorted(key[1] for key in held if key[0] == "node")
    data = Data(
        x=torch.tensor([held["node", row] for row in rows], dtype=torch.float64),
        edge_index=torch.tensor(edges).T.reshape(2, -1).long(),
        time=like.time,
    )
    if "edge_weight" in like:
        data.edge_weight = torch.tensor([held["edge", *edge] for edge in edges], dtype=torch.float64)
    return data


class LiteralChanges:
    """Things that changed on a date, by the definition, one thing at a time; new dates repeat the last known one."""

    def __init__(self, before, after):
        self.before, self.after = before, after
        self.known = {data.time: contents(data) for data in before}
        self.then = {data.time: contents(data) for data in after}
        shared = [data.time for data in after if data.time in self.known]
        self.new = [data.time for data in after if data.time not in self.known]
        self.players = []
        for date in shared:
            self._note(date, self.known[date], self.then[date])
        revised = {data.time: self.then.get(data.time, self.known[data.time]) for data in before}
        expected = dict(revised[before[-1].time])
        for date in self.new:
            self._note(date, expected, self.then[date])
            expected = self.then[date]

    def _note(self, date, old, new):
        self.players += [(date, thing) for thing in sorted({*old, *new}) if old.get(thing) != new.get(thing)]

    def window(self, happened):
        """The window in which exactly these players have happened."""
        known = {}
        for data in self.before:
            held = dict(self.known[data.time])
            self._apply(held, data.time, happened)
            known[data.time] = held
        held = dict(known[self.before[-1].time])
        for date in self.new:
            self._apply(held, date, happened)
            known[date] = dict(held)
        return [as_data(known[data.time], data) for data in self.after]

    def _apply(self, held, date, happened):
        for when, thing in happened:
            if when == date:
                held.pop(thing, None)
                if thing in self.then[date]:
                    held[thing] = self.then[date][thing]


def shapley(values, players):
    """The formula, over all subsets; `values` takes a set of players."""
    n, found = len(players), {}
    for own in players:
        others, total = [one for one in players if one != own], 0.0
        for size in range(n):
            share = math.factorial(size) * math.factorial(n - 1 - size) / math.factorial(n)
            for some in itertools.combinations(others, size):
                total = total + share * (values({*some, own}) - values({*some}))
        found[own] = total
    return found


def literal_exits(change, root):
    """Where every walk of a root leaves delta, found by walking each of them; {(receiver, sender or None): shares}."""
    network, found = change.network, {}

    def coefficients(t, v):
        layer = change.layers[t]
        for entry in range(layer.indptr[v], layer.indptr[v + 1]):
            yield int(layer.indices[entry]), entry

    def slope(t, state, v):
        rates = change.rates[t]
        return 1.0 if rates is None else rates.slopes[rates.place[state, v]]

    def leaf(state, u, channel_columns):
        return change.messages[{1: 1, 2: 0}[state]][u][channel_columns]

    def channels(t):
        layer = network.layers[t]
        messages = layer.lay_out(inputs=False).tolist()
        return [
            (c, place, first, size, rule)
            for c, (place, first, size, rule) in zip(layer.channels, messages, strict=True)
        ]

    def value(t, state, v):
        """What all walks in after (1) or before (2) from the output of layer t sum to."""
        if (t, state, v) in known:
            return known[t, state, v]
        layer = network.layers[t]
        z = np.zeros(layer.width) if layer.bias is None else layer.bias.copy()
        side = change.layers[t].after if state == 1 else change.layers[t].before
        for u, entry in coefficients(t, v):
            for c, place, first, size, rule in channels(t):
                z[first : first + size] += side[entry, rule] * sent(t, state, u, c, place, size)
        known[t, state, v] = slope(t, state, v) * z
        return known[t, state, v]

    def sent(t, state, u, channel, place, size):
        if t == change.lowest_hop:
            return leaf(state, u, slice(place, place + size))
        taken = value(t - 1, state, u)[channel.inputs]
        return taken if channel.weight is None else taken @ channel.weight

    def walk(t, v, carried):
        carried, layer = carried * slope(t, 0, v), change.layers[t]
        for u, entry in coefficients(t, v):
            below = np.zeros((carried.shape[0], network.layers[t - 1].width)) if t > change.lowest_hop else None
            for c, place, first, size, rule in channels(t):
                part = carried[:, first : first + size]
                gained = layer.after[entry, rule] - layer.kept_after[entry, rule]
                lost = layer.before[entry, rule] - layer.kept_before[entry, rule]
                left = gained * sent(t, 1, u, c, place, size) - lost * sent(t, 2, u, c, place, size)
                found[v, u] = found.get((v, u), 0.0) + part @ left
                kept = layer.kept[entry, rule] * part
                if t == change.lowest_hop:
                    columns = slice(place, place + size)
                    found[u, None] = found.get((u, None), 0.0) + kept @ (leaf(1, u, columns) - leaf(2, u, columns))
                else:
                    below[:, c.inputs] += kept if c.weight is None else kept @ c.weight.T
            if below is not None and below.any():
                walk(t - 1, u, below)

    known = {}
    walk(len(change.layers) - 1, root, np.eye(network.num_classes))
    return found
