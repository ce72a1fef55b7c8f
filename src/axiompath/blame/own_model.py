"""ReceptiveField + subsets -> logits, by the user's own model on the real graph with exactly these changes applied.

It needs no normal form: it judges what the evaluator finds, and answers for models that no reader understands. Copies
of a part of the graph can be run as one batch; whether the part is large enough is tried before it is trusted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch_geometric.data import Data

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError
from ..graphs.data_fields import EDGE, NODE, level_of, to_torch_csr
from ..graphs.pair import Side
from ..graphs.sample import dtype_of
from ..graphs.snapshot import Snapshot, rows_of
from ..readers.arguments import LINKS_FIELD, ModelCall
from ..readers.run import copy_model, run_model
from .receptive_field import ReceptiveField
from .root import RootPlace
from .sizes import SizeWatch

BATCHED_NUMBERS = 4 * 10**6  # of features, in all copies of one run


@dataclass(frozen=True, eq=False)
class OwnModel:
    """The user's model, and how its answers become logits."""

    model: Any
    call: ModelCall | None
    before_end: Callable[[FloatArray], FloatArray]  # undoes the softmax or sigmoid at its end
    widened: bool = False  # whether the copy that runs computes in float64, whatever the user's model does
    watched: bool = False  # whether it is noticed that the model uses sizes

    @cached_property
    def duplicate(self) -> torch.nn.Module:
        """A copy to run; the user's own is never touched."""
        return copy_model(self.model).double() if self.widened else copy_model(self.model)

    @cached_property
    def double(self) -> bool:
        """Whether it computes in float64, as the network does, and so answers alike to many digits."""
        return all(one.dtype == torch.float64 for one in self.model.parameters() if one.is_floating_point())

    @cached_property
    def watch(self) -> SizeWatch | None:
        """What notices it."""
        return SizeWatch(self.duplicate) if self.watched else None

    @property
    def uses_sizes(self) -> bool:
        """Whether a watched model was seen to compute or decide with the number of nodes or edges."""
        return self.watch is not None and self.watch.used

    @cached_property
    def as_given(self) -> OwnModel:
        """The same model, watched."""
        return replace(self, watched=True)

    @cached_property
    def precise(self) -> OwnModel:
        """The same in float64, where it differs from the network by no more than rounding."""
        return self.as_given if self.double else replace(self, widened=True, watched=True)

    def answer(self, data: Data) -> FloatArray:
        """Logits of everything that the model predicts on a graph. [num_rows, num_logits]."""
        with nullcontext() if self.watch is None else self.watch.on(data):
            found = run_model(self.duplicate, data, self.call).detach().double().numpy()
        return np.asarray(self.before_end(found if found.ndim > 1 else found.reshape(-1, 1)))


@dataclass(frozen=True, eq=False)
class OwnEvaluator:
    """The user's model on one ReceptiveField: a part of the graphs, or all of them."""

    own: OwnModel
    field: ReceptiveField
    whole: bool  # whether the field is all of both graphs: then one copy at a time, as the model is used to
    ordered: bool = False  # whether edges come in the user's order, which a model that nobody read may depend on
    links: IntArray | None = None  # [num_pairs, 2]: pairs of rows that are asked for together
    # Answers for all nodes, graphs or pairs by subset, and their rows; None where they are not kept.
    kept: dict[bytes, tuple[FloatArray, IntArray]] | None = None

    def run(self, root: RootPlace, subsets: BoolArray) -> FloatArray:
        """Logits of the root with exactly these changes applied. [num_subsets, num_logits]."""
        size = max(self.field.num_nodes, 1) * max(self.field.pair.before.graph.num_features, 1)
        step = 1 if self.whole else max(1, BATCHED_NUMBERS // size)
        found = [self._run(root, subsets[start : start + step]) for start in range(0, len(subsets), step)]
        return np.concatenate(found)

    def _run(self, root: RootPlace, subsets: BoolArray) -> FloatArray:
        pairs = root.nodes[None]
        if self.links is not None and (self.links == pairs).all(axis=1).any():
            pairs = self.links
        key = subsets.tobytes() + pairs.tobytes() * (root.kind == "link")
        if self.kept is None or key not in self.kept:
            data, rows = self.copies(root.kind, pairs, subsets)
            answer = self.own.answer(data)
            if self.kept is not None:
                self.kept[key] = answer, rows
        else:
            answer, rows = self.kept[key]
        if root.kind == "link":
            first = int(np.flatnonzero((pairs == root.nodes).all(axis=1))[0])
            places = first + np.arange(len(subsets)) * len(pairs)
        else:
            places = rows[:, root.nodes].max(axis=1)
        if len(answer) <= int(places.max()) or places.min() < 0:
            raise InputError(
                f"Expected the model to answer for every node, graph or pair (got {len(answer)} rows for "
                f"{int(places.max()) + 1})."
            )
        return np.asarray(answer[places])

    def copies(self, kind: str, pairs: IntArray, subsets: BoolArray) -> tuple[Data, IntArray]:
        """A graph that holds one copy of the field for each subset; and the row of each node, or of its graph, in the
        answer, -1 where it is not there. [num_copies, num_nodes]."""
        field, num_copies = self.field, len(subsets)
        hold = np.concatenate([field.conditions.hold(subsets), np.ones((1, num_copies), dtype=np.bool_)])
        present = hold[field.presence].T  # [num_copies, num_nodes]
        # Rows of the copies: only present nodes, in the user's order.
        flat = np.full(present.shape, -1, dtype=np.int64)
        chosen = np.flatnonzero(present[:, self._node_order].reshape(-1))
        which, node = chosen // field.num_nodes, self._node_order[chosen % field.num_nodes]
        flat[which, node] = np.arange(len(chosen))
        where, edge = np.nonzero(hold[field.condition[self._edge_order]].T)
        edge = self._edge_order[edge]
        ends = np.stack([flat[where, field.senders[edge]], flat[where, field.receivers[edge]]])
        data = Data(edge_index=torch.from_numpy(ends))
        changed = np.concatenate([subsets, np.zeros((num_copies, 1), dtype=np.bool_)], axis=1)[:, field.feature_player]
        variant = node + field.num_nodes * changed[which, node]
        data.x = _pick(self._x, variant, self._x_dtype)
        for key, values in self._node_fields.items():
            data[key] = values[torch.from_numpy(variant)]
        for key, values in self._edge_fields.items():
            data[key] = values[torch.from_numpy(edge)]
        for key, value in self._other_fields.items():
            data[key] = value
        if kind == "link":
            data[LINKS_FIELD] = torch.from_numpy(np.ascontiguousarray(flat[:, pairs].reshape(-1, 2).T))
        if kind != "graph":
            return data, flat
        if not self.whole:
            data.batch = torch.from_numpy(which)
            return data, np.broadcast_to(np.arange(num_copies)[:, None], flat.shape)
        if data.get("batch") is None:
            data.batch = torch.zeros(len(chosen), dtype=torch.long)
        return data, np.append(data.batch.numpy(), -1)[flat]

    @cached_property
    def _node_order(self) -> IntArray:
        """Rows of the field as the user lists their nodes: those of `before`, then those that only `after` has."""
        listed = np.concatenate([numbers_of_rows(side) for side in (self.field.pair.before, self.field.pair.after)])
        if not len(listed):
            return np.arange(self.field.num_nodes)
        _, first = np.unique(listed, return_index=True)
        place = np.zeros(self.field.pair.num_nodes, dtype=np.int64)
        numbers = listed[np.sort(first)]
        place[numbers] = np.arange(len(numbers))
        return np.argsort(place[self.field.numbers], kind="stable")

    @cached_property
    def _edge_order(self) -> IntArray:
        """Edges as the user lists them: those of `before`, and each new one behind the edge that it follows in `after`.

        Where both lists ascend by receiver, as some aggregations ask for, so does this one.
        """
        field, graphs = self.field, self._graphs
        if not self.ordered or graphs is None:
            return np.arange(len(field.senders))
        new, kept = field.edge_of_after, field.condition == -1
        key = self._edge_places.copy()
        follows = self._places_in(field.pair.after, kept)
        order = np.argsort(follows, kind="stable")
        anchor = np.append(key[kept][order], -1)  # -1 for those that come first of all
        key[new] = anchor[np.searchsorted(follows[order], key[new] - graphs[0].edge_index.shape[1]) - 1]
        found = np.lexsort((self._edge_places, new, key))
        if all(bool((data.edge_index[1].diff() >= 0).all()) for data in graphs):
            row = np.argsort(self._node_order)
            found = found[np.argsort(row[field.receivers[found]], kind="stable")]
        return found

    @cached_property
    def _x(self) -> Any:
        """Features without their change, then with it, as the user holds them. [2 * num_nodes, num_features]."""
        if self._graphs is not None:
            tables = [data.x for data in self._graphs]
            if all(isinstance(table, torch.Tensor) and table.layout == torch.strided for table in tables):
                return _pick_two(tables, self._rows_in_tables)
        nodes = np.arange(self.field.num_nodes)
        parts = [self.field.features(nodes, applied=applied) for applied in (False, True)]
        if all(isinstance(part, np.ndarray) for part in parts):
            return torch.from_numpy(np.concatenate(parts)).to(self._x_dtype)
        return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))

    @property
    def _x_dtype(self) -> torch.dtype:
        graphs = self._graphs
        if graphs is None:
            return dtype_of(self.field.pair.before.graph.x)
        return graphs[0].x.dtype if isinstance(graphs[0].x, torch.Tensor) else torch.float64

    @property
    def _graphs(self) -> tuple[Data, Data] | None:
        before, after = self.field.pair.before.data, self.field.pair.after.data
        return None if before is None or after is None else (before, after)

    @cached_property
    def _rows_in_tables(self) -> IntArray:
        """Row of each node, without and with its change, in the two tables of nodes one below the other."""
        field = self.field
        rows, shift = [], 0
        for side in (field.pair.before, field.pair.after):
            row, listed = np.zeros(field.pair.num_nodes, dtype=np.int64), numbers_of_rows(side)
            row[listed] = np.arange(len(listed)) + shift
            rows.append(row[field.numbers])
            shift = len(listed)
        without = np.where(field.of_after, rows[1], rows[0])
        return np.concatenate([without, np.where(field.feature_player >= 0, rows[1], without)])

    @cached_property
    def _node_fields(self) -> dict[str, torch.Tensor]:
        """Other fields of nodes, without their change, then with it."""
        return {key: _pick_two(both, self._rows_in_tables) for key, *both in self._fields_of(NODE)}

    @cached_property
    def _edge_fields(self) -> dict[str, torch.Tensor]:
        if self._graphs is None and self.field.weighted:
            return {"edge_weight": torch.from_numpy(self.field.weights).to(self._x_dtype)}
        return {key: _pick_two(both, self._edge_places) for key, *both in self._fields_of(EDGE)}

    @cached_property
    def _other_fields(self) -> dict[str, Any]:
        """What belongs to the graph as a whole, as `before` has it; not what it predicts for."""
        if self._graphs is None:
            return {}
        before = self._graphs[0]
        known = {"x", "edge_index", LINKS_FIELD, "num_nodes", "ptr", "graph_id"}
        return {
            key: copy.copy(before[key])
            for key in before.keys()  # noqa: SIM118 (iterating over a Data object gives pairs)
            if key not in known and level_of(before, key) not in (NODE, EDGE)
        }

    def _fields_of(self, level: str) -> list[tuple[str, Any, Any]]:
        if self._graphs is None:
            return []
        before, after = self._graphs
        keys = [
            key
            for key in before.keys()  # noqa: SIM118
            if key not in ("x", "edge_index") and key in after and level_of(before, key) == level
        ]
        return [(key, before[key], after[key]) for key in keys if "index" not in key]

    @cached_property
    def _edge_places(self) -> IntArray:
        """Place of each edge in the two lists of edges, one behind the other."""
        field = self.field
        if self._graphs is None:
            return np.arange(len(field.senders))
        places = np.zeros(len(field.senders), dtype=np.int64)
        new = field.edge_of_after
        places[~new] = self._places_in(field.pair.before, ~new)
        places[new] = self._places_in(field.pair.after, new) + self._graphs[0].edge_index.shape[1]
        return places

    def _places_in(self, side: Side, some: BoolArray) -> IntArray:
        """Place of some of the edges in the list of one graph."""
        field, snapshot = self.field, side.graph
        assert isinstance(snapshot, Snapshot)
        values = snapshot.edge_values
        values = np.ones(snapshot.edge_index.shape[1]) if values is None else values
        theirs = _ranked(snapshot.edge_index[0], snapshot.edge_index[1], values)
        theirs["place"] = np.arange(len(theirs))
        ours = _ranked(field.numbers[field.senders[some]], field.numbers[field.receivers[some]], field.weights[some])
        return np.asarray(ours.merge(theirs, how="left", on=[*"uvwt", "rank"]).place.to_numpy(), dtype=np.int64)


def _ranked(senders: IntArray, receivers: IntArray, values: NDArray[Any]) -> pd.DataFrame:
    table = pd.DataFrame({"u": senders, "v": receivers, "w": values.real, "t": values.imag})
    table["rank"] = table.groupby([*"uvwt"], sort=False).cumcount()
    return table


def numbers_of_rows(side: Side) -> IntArray:
    """Numbers in the pair of the rows of the user's own graph; none, where there is none."""
    if side.data is None:
        return np.zeros(0, dtype=np.int64)
    return np.arange(side.graph.num_nodes)[rows_of(side.graph, side.data)]


def _pick_two(tables: Iterable[Any], rows: IntArray) -> torch.Tensor:
    """Rows of two tables, one below the other."""
    before, after = (torch.as_tensor(table).detach().cpu() for table in tables)
    place, below = torch.from_numpy(rows), torch.from_numpy(rows >= len(before))
    dtype = torch.promote_types(before.dtype, after.dtype)
    found = torch.empty((len(rows), *before.shape[1:]), dtype=dtype)
    found[~below], found[below] = before[place[~below]].to(dtype), after[place[below] - len(before)].to(dtype)
    return found


def _pick(x: Any, rows: IntArray, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x[torch.from_numpy(rows)]
    return to_torch_csr(sparse.csr_array(x[rows]), dtype)
