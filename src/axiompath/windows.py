"""One model + two windows of dated snapshots -> WindowSession: aligned by date, in three legs.

Opening reads what the model holds at each step. The layers of a Network, which paths need, are made when one is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from .arrays import FloatArray, IntArray
from .blame.dated import DatedChanges, DatedEngine, answer_window
from .blame.engine import ModelEvaluator, SubsetEngine
from .blame.own_model import OwnModel
from .blame.root import Root
from .blame.unread import OwnAnswers, check_alike, list_moves
from .errors import InputError, Notice
from .explain.engine import BEFORE_END, PathEngine
from .explain.explanation import Explanation
from .explain.neighbourhood import Neighbourhood
from .explain.timeline import Leg, Timeline, find_timeline
from .graphs.changes import add_row
from .graphs.data_fields import fields_of_edges, node_numbers
from .graphs.dated import Window, Windows
from .graphs.labels import with_class_names
from .graphs.names import NameIndex, Names, index_names, read_class_names, read_names
from .graphs.packed import Packing
from .graphs.pair import match_snapshots, open_pair
from .graphs.places import NODE_UNIT, UNIT_OF, Target
from .graphs.snapshot import find_numbers
from .outputs import BINARY, VALUE, Output, scales_of
from .readers import Usage, prepare_inputs
from .readers.arguments import find_arguments
from .readers.assemble import HeldModel
from .readers.held import Held
from .readers.model import read_scales, read_window
from .readers.packed import PackedCall
from .readers.run import copy_model, kept_state
from .session import Session, open_paths, open_session

NO_LINKS = (
    "Expected a model of nodes or of whole graphs for windows (got `links`); return an answer for each node, or use "
    "one pair as the graph that is predicted."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowSession(Session):
    """A session whose `before` is `still`, what would be known if time passed and nothing happened."""

    windows: Windows
    names: dict[int, str]  # the user's, by number
    usage: Usage  # as the user said it
    opened: tuple[OpenedWindows, ...]  # what each model holds on `before` and `after` of this; none if it is not read

    @cached_property
    def node_names(self) -> dict[int, str]:
        """Names of places: of a node at a date."""
        windows, found = self.windows, {}
        packing, numbers = windows.packing, node_numbers(windows.after[-1]).tolist()
        for step, date in enumerate(windows.dates[1]):
            shift = (packing.num_steps - 1 - step) * packing.stride
            found.update({node + shift: f"{self.names.get(node, node)} @ {date}" for node in numbers})
        return found

    @cached_property
    def paths(self) -> PathEngine:
        """What answers questions about paths; of windows, made when one is asked."""
        if not self.opened:
            return super().paths
        call = PackedCall(self.windows.packing, self.usage.call, window=True)
        pack, scales = self.windows.packing.pack, self.output.scales
        graphs = pack(self.windows.start), pack(self.windows.after)
        return open_paths(
            self.models, graphs, replace(self.usage, call=call, scales=scales), self.node_names, self.class_names
        )

    @property
    def num_nodes(self) -> tuple[int, int]:
        """All snapshots have the same."""
        number = len(self.windows.after[-1].x)
        return number, number

    @property
    def summary(self) -> str:
        """What it is of, and how many predictions changed their answer."""
        (_, before), (_, after) = self.ends
        flipped = int(self.output.flipped(before, after).sum())
        return (
            f"Explainer of two windows of {len(self.windows.after)} snapshots: {len(before):,} {self.unit}s, "
            f"{flipped:,} of them with another answer after. Ask moved(), changes(), timeline(target), blame(target)."
        )

    @cached_property
    def index(self) -> NameIndex:
        """Names of nodes as the user has them."""
        return index_names(self.names.items(), None, None)

    @cached_property
    def dated(self) -> DatedChanges:
        """What happened on which date."""
        packed = self.pair.before.data, self.pair.after.data
        fields = self.opened[-1].read.fields if self.opened else fields_of_edges(*packed)
        return DatedChanges(self.windows, fields, self.node_names)

    @cached_property
    def subsets(self) -> DatedEngine:
        """What answers questions about subsets of the dated changes."""
        return DatedEngine(super().subsets.evaluators, self.node_names, dated=self.dated)

    def changes(self, *, directed: bool = False, open_nodes: bool = False) -> pd.DataFrame:
        """What happened on which date; another model is the last row."""
        if directed:
            raise InputError("Expected no `directed` for windows (got one); `directed` of each row says the same.")
        found = self.dated.listed(self.names)
        return found if len(self.models) == 1 else add_row(found)

    @cached_property
    def answers(self) -> tuple[tuple[FloatArray, ...], ...]:
        """Logits of all targets under each model: on `before`, revised, on `still`, on `after`."""
        windows = self.windows
        known: dict[int, FloatArray] = {}

        def answer(model: int, window: Window) -> FloatArray:
            key = hash((model, tuple(map(id, window))))
            if key not in known:
                known[key] = answer_window(self.subsets.evaluators[model].own, windows, window)
            return known[key]

        four = [
            windows.before,
            windows.revised if windows.is_revised else windows.before,
            windows.waited,
            windows.after,
        ]
        return tuple(tuple(answer(model, window) for window in four) for model in range(len(self.models)))

    @property
    def ends(self) -> tuple[tuple[IntArray, FloatArray], tuple[IntArray, FloatArray]]:
        """Numbers of all targets, and their logits before; the same after."""
        before, after = self.answers[0][0], self.answers[-1][3]
        ids = node_numbers(self.windows.after[-1]) if self.unit == NODE_UNIT else np.arange(len(before))
        return (ids, before), (ids, after)

    def legs(self) -> tuple[FloatArray, dict[str, FloatArray]]:
        """Logits before, and what each leg, and another model, adds to them; they end in those after."""
        old, new = self.answers[0], self.answers[-1]
        news = 0.5 * ((old[3] - old[2]) + (new[3] - new[2]))
        found = {"revised": old[1] - old[0], "time": old[2] - old[1], "news": news}
        if len(self.answers) > 1:
            found["model"] = 0.5 * ((new[3] - old[3]) + (new[2] - old[2]))
        return old[0], found

    def moved(self) -> pd.DataFrame:
        """Every target whose prediction moved, and what each leg has of it; largest divergence first."""
        return with_class_names(self._moves(), self.class_names)

    def moved_rows(self) -> pd.DataFrame:
        """The same with the number of altered paths, those of news, and with `row`, that of the change."""
        frame, change = self._moves(), self.paths.change
        here = find_numbers(change.root_ids, frame.target.to_numpy(dtype=np.int64))[0]
        frame.insert(0, "row", here)
        frame.insert(frame.columns.tolist().index("kl") + 1, "num_paths", self.paths.num_paths[here])
        return with_class_names(frame, self.class_names)

    def _moves(self) -> pd.DataFrame:
        (ids, before), (_, after) = self.ends
        frame = list_moves(self.unit, self.output, ids, before, after, self.names)
        order = np.argsort(ids, kind="stable")
        rows = order[np.searchsorted(ids[order], frame.target.to_numpy(dtype=np.int64))]
        _, labels = self.output.label_pairs(before[rows], after[rows])
        columns = np.zeros_like(labels) if before.shape[1] == 1 else labels
        at = before[rows]
        for leg, share in self.legs()[1].items():
            ends = [self.output.means(logits)[np.arange(len(rows)), columns] for logits in (at, at + share[rows])]
            frame[leg], at = ends[1] - ends[0], at + share[rows]
        return frame

    def root(self, target: Target) -> Root:
        """The place that a prediction is read off, and its logits on both windows under each model."""
        found, row = super().root(target), self._row(target)
        return replace(found, ends=tuple((one[0][row], one[3][row]) for one in self.answers))

    def timeline(self, target: Target) -> Timeline:
        """One row per changed thing and date, which sum to every logit's change, see `Explainer.timeline`."""
        if len(self.models) > 1:
            raise InputError(
                "Expected one model for a timeline (got `model_before`, too); leave it out, or ask for blame."
            )
        windows, row = self.windows, self._row(target)
        before, shares = self.legs()
        return find_timeline(
            self.changed_legs,
            windows.packing,
            target,
            shares["time"][row],
            (before[row], self.answers[0][3][row]),
            self.output,
            tuple(dict.fromkeys([*windows.dates[0], *windows.dates[1]])),
            windows.meaning,
            self.names,
            self.class_names,
        )

    def neighbourhood(self, explanation: Explanation, changes: pd.DataFrame | None = None) -> Neighbourhood:
        """Around the target of an Explanation: nodes at dates."""
        return super().neighbourhood(explanation, self.dated.players.changes)

    def _row(self, target: Target) -> int:
        return int(np.flatnonzero(self.ends[0][0] == target)[0])

    @cached_property
    def changed_legs(self) -> list[Leg]:
        """What differs within the legs that are changes of the data."""
        windows, dates = self.windows, self.windows.dates
        if not windows.is_revised:
            return [Leg("news", self.opened[-1].read.held, dates[1])]
        return [
            Leg("revised", self._between(windows.before, windows.revised), dates[0]),
            Leg("news", self._between(windows.waited, windows.after), dates[1]),
        ]

    def _between(self, old: Window, new: Window) -> Held:
        return _open(self.models[-1], self.windows.packing, old, new, self.usage).read.held


@dataclass(frozen=True, eq=False)
class OpenedWindows:
    """One model read on two windows."""

    read: HeldModel
    own: ModelEvaluator

    @property
    def num_columns(self) -> int:
        """Of its logits."""
        return self.read.held.output.base.width


def open_windows(
    model: Any,
    windows: Windows,
    *,
    model_before: Any = None,
    node_names: Names | None = None,
    class_names: Collection[str] | None = None,
    offered: tuple[str, ...] = (),
    usage: Usage,
    paths: bool = True,
) -> WindowSession:
    """Read and check everything; the graphs that are compared are `still` and `after`."""
    if usage.links is not None:
        raise InputError(NO_LINKS)
    packed, pack = replace(usage, call=PackedCall(windows.packing, usage.call, window=True)), windows.packing.pack
    names = read_names(node_names, [node_numbers(windows.after[-1])])
    _warn_of_state(model, windows, packed)
    models: tuple[Any, ...] = (model,) if model_before is None else (model_before, model)
    if not paths:
        found = open_session(
            model, pack(windows.start), pack(windows.after), model_before=model_before, class_names=class_names,
            offered=offered, usage=packed, paths=False,
        )  # fmt: skip
        return WindowSession(
            found.models, found.class_names, None, found.own_answers,
            windows=windows, names=names, usage=usage, opened=(),
        )  # fmt: skip
    opened = tuple(_open(one, windows.packing, windows.start, windows.after, usage) for one in models)
    if len(opened) > 1 and _are_same(*models):
        models, opened = models[1:], opened[1:]
    last = opened[-1]
    for one in opened[:-1]:
        check_alike(one.own, last.own, (one.num_columns, last.num_columns))
    classes = read_class_names(class_names) or last.own.pair.class_names
    if class_names is None and not classes and len(offered) == last.num_columns + (last.read.meaning == BINARY):
        classes = offered
    before = last.read.graphs[0]
    ids = before.node_ids if before.places is None else before.places.ids
    answers = OwnAnswers(SubsetEngine(tuple(one.own for one in opened), names), last.read.graphs, ids, ())
    return WindowSession(models, classes, None, answers, windows=windows, names=names, usage=usage, opened=opened)


def _open(model: Any, packing: Packing, old: Window, new: Window, usage: Usage) -> OpenedWindows:
    usage = replace(usage, call=PackedCall(packing, usage.call, window=True))
    inputs = prepare_inputs(model, packing.pack(old), packing.pack(new), usage)
    graphs = inputs.before, inputs.after
    pair = open_pair(*graphs)
    whole = pair.before.graph, pair.after.graph
    read = read_window(model, whole, graphs, usage)
    if read.graphs[0] is not whole[0]:  # the model takes other fields than x and edge_weight
        pair = match_snapshots(*read.graphs, graphs)
    top = read.held.output
    scales = read_scales(usage.scales, read.meaning, top.base.width)
    if read.meaning == VALUE and scales is None:
        scales = scales_of(top.before)
    places = read.graphs[0].places
    unit = NODE_UNIT if places is None else UNIT_OF[places.kind]
    own = OwnModel(model, usage.call, BEFORE_END.get(read.held.end, np.asarray))
    return OpenedWindows(read, ModelEvaluator(own, pair, unit, Output(read.meaning, scales), None))


def _are_same(model: Any, other: Any) -> bool:
    """Whether two models are of one class and have the same weights."""
    first, second = model.state_dict(), other.state_dict()
    alike = type(model) is type(other) and first.keys() == second.keys()
    return alike and all(torch.equal(value, second[name]) for name, value in first.items())


def _warn_of_state(model: Any, windows: Windows, usage: Usage) -> None:
    """A model that, called twice, answers otherwise the second time: every call begins with the state that it has."""
    duplicate, packed = copy_model(model), windows.packing.pack(windows.after)
    answers = []
    with kept_state(duplicate) as advanced, torch.no_grad():
        arguments = find_arguments(duplicate, packed, "after", usage.call)
        answers += [arguments.run(duplicate, packed) for _ in range(2)]
    if not all(isinstance(one, torch.Tensor) for one in answers) or torch.equal(*answers):
        return
    names = ", ".join(f"`{name}`" for name in advanced) or "something of its own"
    warnings.warn(
        f"The model advances {names} on each call, so that its answer depends on how often it was called. Every call "
        "here begins with the state that it has now; to have it begin anew in each window, reset it in `call=`.",
        Notice,
        stacklevel=5,
    )
