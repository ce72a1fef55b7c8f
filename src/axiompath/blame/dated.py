"""Windows + a target -> SubsetEvaluator: what is predicted when only some of the dated changes have happened.

A change is one thing (an edge, a node's features) that on a new date is not what it was on the date before. It lasts
until that thing changes again: with S the changes that have happened, v(S) gives each thing, at each date, the value of
its latest change in S, and if there is none, that of `still`. A revision is of one date, which both windows have; what
`still` makes of the known dates, it makes of those revisions that are in S. v(nothing) is `still`, v(all) is `after`.

The user's own model judges every such window.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError
from ..graphs.changes import add_row
from ..graphs.data_fields import Fields, node_numbers
from ..graphs.dated import Window, Windows
from ..graphs.pair import Pair, open_pair
from ..graphs.places import Target
from ..graphs.values import types_of
from .engine import Elapsed, ModelEvaluator, SubsetEngine, SubsetEvaluator, TargetEvaluator
from .own_model import OwnModel
from .players import Players, find_players
from .receptive_field import ReceptiveField, cut_receptive_field
from .root import Root

REVISED, NEWS = "revised", "news"


class Things(NamedTuple):
    """What changed at one step: edges by a number of their type and ends, nodes by their row in a snapshot."""

    edges: IntArray  # [n]
    nodes: IntArray  # [m]
    edge_owners: IntArray  # [n]: the row of `changes()` that each is of
    node_owners: IntArray  # [m]

    def of(self, happened: BoolArray) -> Things:
        """Those whose change has happened."""
        edges, nodes = happened[self.edge_owners], happened[self.node_owners]
        return Things(self.edges[edges], self.nodes[nodes], self.edge_owners[edges], self.node_owners[nodes])


@dataclass(frozen=True, eq=False)
class DatedChanges:
    """What happened on which date, and the windows in which some of it has."""

    windows: Windows
    fields: Fields  # that the model takes, of the packed graphs
    node_names: Mapping[int, str]  # of places: a node at a date

    @cached_property
    def expected(self) -> Window:
        """What was to be expected of each date: `still`, until a thing changes; from then on what it changed to."""
        windows, found = self.windows, list(self.windows.waited)
        packing, so_far = replace(windows.packing, num_steps=1), Things(*np.zeros((4, 0), np.int64))
        latest = -1
        for step, place in enumerate(windows.shared.tolist()):
            if place >= 0:
                found[step] = windows.before[place]
                continue
            if latest >= 0:
                found[step] = self._compose(found[step], [(latest, so_far)])
            pair = open_pair(packing.pack([found[step]]), packing.pack([windows.after[step]]), self.fields)
            here = self._things(find_players(pair, {}), pair)[1]
            so_far, latest = Things(*map(np.union1d, so_far, here)), step
        return found

    @cached_property
    def pair(self) -> Pair:
        """What was to be expected of each date, and what came: it differs by the dated changes."""
        pack = self.windows.packing.pack
        return open_pair(pack(self.expected), pack(self.windows.after), self.fields)

    @cached_property
    def players(self) -> Players:
        """The dated changes; `src` and `dst` are places, `date` says when, and `leg` whether the date was known."""
        found = find_players(self.pair, self.node_names)
        steps = self.windows.packing.step_of(found.changes.src.to_numpy(dtype=np.int64))
        changes = found.changes.copy(deep=False)
        changes.insert(2, "date", np.array(self.windows.dates[1], dtype=object)[steps])
        changes.insert(3, "leg", np.where(self.windows.shared[steps] >= 0, REVISED, NEWS))
        return replace(found, changes=changes)

    def listed(self, names: Mapping[int, str]) -> pd.DataFrame:
        """The table of them with the user's numbers and names of nodes in place of places."""
        found = self.players.changes.copy(deep=False)
        for end in ("src", "dst"):
            found[end] = found[end] % self.windows.packing.stride
            words = [None if pd.isna(node) else names.get(int(node), str(node)) for node in found[end]]
            found[f"{end}_name"] = pd.Series(words, index=found.index, dtype=object)
        return found

    def mix(self, happened: BoolArray) -> Window:
        """The window in which exactly these changes have happened. [num_changes]."""
        windows = self.windows
        if happened.all():
            return windows.after
        if not happened.any():
            return windows.start
        known, waited = list(windows.before), windows.waited
        for step, place in enumerate(windows.shared.tolist()):
            if place >= 0:
                known[place] = self._compose(known[place], [(step, self._by_step[step].of(happened))])
        found = windows.wait(known) if windows.is_revised else list(waited)
        latest: list[tuple[int, Things]] = []
        for step, place in enumerate(windows.shared.tolist()):
            if place < 0:
                latest.insert(0, (step, self._by_step[step].of(happened)))
                found[step] = self._compose(found[step], latest)
        return found

    @cached_property
    def _by_step(self) -> list[Things]:
        return self._things(self.players, self.pair)

    def _things(self, players: Players, pair: Pair) -> list[Things]:
        """What changed, by step; of a pair of single snapshots as step 1."""
        edges, packing = players.edges, self.windows.packing
        types = types_of(edges.weights)
        types = np.zeros(len(edges.senders), np.int64) if types is None else types
        senders, receivers = (pair.node_ids(ends) for ends in (edges.senders, edges.receivers))
        nodes = pair.node_ids(players.node_of[players.feature_rows])
        keys = self._keys(types, self._rows_of(senders), self._rows_of(receivers))
        single = pair.num_nodes == len(self._numbers)
        step_of = [np.ones(len(ids), np.int64) if single else packing.step_of(ids) for ids in (senders, nodes)]
        own = edges.players[:, 0]
        found = []
        for step in range(2 if single else packing.num_steps):
            here, there = step_of[0] == step, step_of[1] == step
            unique = np.unique(np.column_stack([keys[here], own[here]]), axis=0)
            if len(np.unique(unique[:, 0])) < len(unique):
                raise InputError(
                    "Expected one edge from a node to another in each snapshot of a window, or parallel ones that do "
                    "not change (got parallel edges that change apart from each other); sum them, with "
                    "`data.coalesce()`."
                )
            rows = self._rows_of(nodes[there])
            found.append(Things(unique[:, 0], rows, unique[:, 1], players.feature_rows[there]))
        return found

    def _compose(self, base: Data, sources: list[tuple[int, Things]]) -> Data:
        """A snapshot with these things as `after` has them at these steps; of two sources of one thing, the first."""
        packing, found = self.windows.packing, copy.copy(base)
        moved, taken = np.zeros(base.x.shape[0], dtype=np.bool_), np.zeros(0, np.int64)
        parts = {name: [(base, np.ones(base[name].shape[1], dtype=np.bool_))] for name in packing.sets}
        for step, things in sources:
            other = self.windows.after[step]
            fresh = torch.from_numpy(things.nodes[~moved[things.nodes]])
            moved[things.nodes] = True
            for field in packing.node_fields if len(fresh) else ():
                found[field] = found[field].index_copy(0, fresh, other[field][fresh].to(found[field].dtype))
            edges, taken = np.setdiff1d(things.edges, taken), np.union1d(things.edges, taken)
            for s, name in enumerate(packing.sets if len(edges) else ()):
                kept = parts[name][0][1]
                kept &= ~np.isin(self._keys_of(base, s), edges)
                parts[name].append((other, np.isin(self._keys_of(other, s), edges)))
        for s, name in enumerate(packing.sets):
            if len(parts[name]) == 1:
                continue
            masked = [(data, torch.from_numpy(mask)) for data, mask in parts[name]]
            found[name] = torch.cat([data[name][:, mask] for data, mask in masked], dim=1)
            for field in [field for _, pieces in packing.edge_fields for of, field in pieces if of == s]:
                found[field] = torch.cat([data[field][mask] for data, mask in masked])
        return found

    def _keys_of(self, data: Data, which: int) -> IntArray:
        """A number for each edge of one set of a snapshot, by its type and ends."""
        edges = np.asarray(data[self.windows.packing.sets[which]], dtype=np.int64)
        types = np.full(edges.shape[1], which)
        if self.fields.types is not None and len(self.windows.packing.sets) == 1:
            types = np.asarray(data[self.fields.types], dtype=np.int64)
        return self._keys(types, *edges)

    def _keys(self, types: IntArray, senders: IntArray, receivers: IntArray) -> IntArray:
        return (types * len(self._numbers) + senders) * len(self._numbers) + receivers

    @cached_property
    def _numbers(self) -> IntArray:
        return node_numbers(self.windows.after[-1])

    def _rows_of(self, places: IntArray) -> IntArray:
        """Rows in a snapshot of these places."""
        return rows_among(self._numbers, places % self.windows.packing.stride)


def rows_among(numbers: IntArray, wanted: IntArray) -> IntArray:
    """The place of each wanted number among these, all of which are there."""
    order = np.argsort(numbers)
    return np.asarray(order[np.searchsorted(numbers, wanted, sorter=order)])


@dataclass(frozen=True, eq=False, kw_only=True)
class DatedEngine(SubsetEngine):
    """What one model, or the model before and the one after, predicts when some of the dated changes have happened."""

    dated: DatedChanges

    def players(self, *, open_nodes: bool) -> Players:
        """The dated changes; every node is in all snapshots, so that none is opened."""
        return self.dated.players

    def open(self, root: Root, *, open_nodes: bool = False) -> SubsetEvaluator:
        """All dated changes; the model itself says what reaches the target."""
        players = self.dated.players
        field = cut_receptive_field(players, self.dated.pair, root.nodes, None, counted=True, standing=root.new)
        found = tuple(_evaluator(one, self.dated, field, root) for one in self.evaluators)
        rows = np.arange(len(players))
        for _ in found[1:]:
            rows = np.append(rows, len(players))
            players = replace(players, changes=add_row(players.changes))
        windows = self.dated.windows
        first = answer_window(self.evaluators[0].own, windows, windows.before, root.target)
        return SubsetEvaluator(self.unit, self.output, players, rows, found, Elapsed(first, windows.meaning))


def _evaluator(one: ModelEvaluator, dated: DatedChanges, field: ReceptiveField, root: Root) -> TargetEvaluator:
    def run(subsets: BoolArray) -> FloatArray:
        return np.stack([answer_window(one.own, dated.windows, dated.mix(subset), root.target) for subset in subsets])

    return TargetEvaluator(field, field.rows_of(root.nodes), run, run, one.own.double)


def answer_window(own: OwnModel, windows: Windows, window: Window, target: Target | None = None) -> FloatArray:
    """Logits of one target, or of all nodes of the last step; of a model of whole graphs one row. [..., num_logits]."""
    with np.errstate(divide="ignore"):  # rows of earlier steps have no answer
        answers = own.answer(windows.packing.pack(window))
    numbers = node_numbers(window[-1])
    if len(answers) >= len(numbers):
        answers = answers[len(answers) - len(numbers) :]
        return answers if target is None else np.asarray(answers[rows_among(numbers, np.array([target]))[0]])
    return answers if target is None else np.asarray(answers[0])
