"""SubsetEngine: a model and two graphs. SubsetEngine + Root -> SubsetEvaluator: logits under any subset of the changes.

The network answers where there is one, as long as the user's own model uses no size of a graph, which would be a
constant of the network, and agrees with the network on graphs that have only some of the changes. Elsewhere the user's
own model answers itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.region import Extent, find_extent
from ..errors import InputError, WrongKind
from ..graphs.changes import add_row
from ..graphs.pair import Pair
from ..graphs.places import GRAPHS, LINKS, NODE_UNIT, UNIT_OF, Target
from ..network.layers import Network
from ..outputs import Output
from ..readers.run import HALF_TOLERANCE, dtype_of_model
from .own_model import OwnEvaluator, OwnModel
from .players import Players, find_players
from .receptive_field import ReceptiveField, cut_receptive_field
from .root import Root, RootPlace
from .variants import Variants, knows

NUM_TRIALS = 4  # random subsets on which a part of the graph is held against the whole
AGREEMENT = 1e-4  # largest difference, relative to the largest logit, of a float32 model between a part and the whole
EXACT_AGREEMENT = 1e-7  # the same for the network, which is float64
CLOSE_AGREEMENT = 1e-6  # the same between the network and the user's model in float64, which may hold float32 constants
DOUBLE_AGREEMENT = 1e-9  # the same where the user's model is of float64 itself
SMALL = 5 * 10**4  # numbers of features: graphs of up to so many are compared whole, once for all targets
RUN_DIRECTLY = (
    "The model itself was run for every evaluation, because it uses the number of nodes or edges, or because what was "
    "read from it gives other logits on graphs that have only some of the changes."
)
RECORDED = (
    "The model itself was run for every evaluation, because what was read from it are the values that it computed on "
    "these two graphs."
)
Evaluator = Callable[[BoolArray], FloatArray]
Ends = tuple[FloatArray, FloatArray]  # logits before and after


@dataclass(frozen=True, eq=False)
class TargetEvaluator:
    """One model, asked for one target under subsets of the changes that reach it."""

    field: ReceptiveField  # what decides the target
    root: IntArray  # rows there of the nodes that the prediction is read off
    run: Evaluator  # [num_subsets, field.num_players] of truth values -> logits [num_subsets, num_logits]
    own: Evaluator  # the same by the user's own model on the real graph
    double: bool  # whether the user's model computes in float64, as the network does
    variants: Variants | None = None  # where `run` is the network's; else it is the user's model, too
    note: str = ""  # where the model was read, but runs itself: why

    def grouped(self, groups: IntArray, num_groups: int) -> Evaluator:
        """The same where whole groups of the field's changes are applied: the group of each, [field.num_players]."""
        if self.variants is not None:
            return replace(self.variants, field=self.field.grouped(groups, num_groups)).run
        return lambda subsets: self.run(subsets[:, groups])


@dataclass(frozen=True, eq=False)
class Elapsed:
    """That time has passed besides, which no change can undo: the prediction of a window, and the changes are dated."""

    logits: FloatArray  # before time passed
    meaning: str  # of time passing without a change, in a sentence


@dataclass(frozen=True, eq=False)
class SubsetEvaluator:
    """The changes that reach one target, and what is predicted for it under any subset of them.

    Where there are two models, the last change is the model itself.
    """

    unit: str
    output: Output
    players: Players
    rows: IntArray  # [num_changes]: rows of `changes()`, ascending
    models: tuple[TargetEvaluator, ...]  # of the model before, where there are two, then of the model after
    elapsed: Elapsed | None = None  # where time has passed between none of the changes and `before`

    def run(self, subsets: BoolArray) -> FloatArray:
        """[num_subsets, num_changes] of truth values -> logits [num_subsets, num_logits]."""
        return self._ask([one.run for one in self.models], subsets)

    def own(self, subsets: BoolArray) -> FloatArray:
        """The same by the user's own models on the real graph."""
        return self._ask([one.own for one in self.models], subsets)

    def run_each(self, subsets: BoolArray) -> list[FloatArray]:
        """Logits under each model; `subsets` [num_subsets, num_data_changes] are of the graph's changes."""
        places = [np.searchsorted(self.rows, one.field.rows) for one in self.models]
        return [one.run(subsets[:, place]) for one, place in zip(self.models, places, strict=True)]

    def _ask(self, evaluators: Sequence[Evaluator], subsets: BoolArray) -> FloatArray:
        number = subsets[:, self.num_data_changes :].sum(axis=1)  # which of the models answers
        parts, order = [], []
        for i, (evaluate, one) in enumerate(zip(evaluators, self.models, strict=True)):
            some = np.flatnonzero(number == i)
            if not len(some) and len(subsets):
                continue
            parts.append(evaluate(subsets[some][:, np.searchsorted(self.rows, one.field.rows)]))
            order.append(some)
        return np.asarray(np.concatenate(parts)[np.argsort(np.concatenate(order))])

    @property
    def by_network(self) -> bool:
        """Whether networks answer `run`."""
        return all(one.variants is not None for one in self.models)

    @property
    def judges_itself(self) -> bool:
        """Whether the user's own models answer `run`, as they do `own`."""
        return all(one.run is one.own for one in self.models)

    @property
    def double(self) -> bool:
        """Whether the user's models compute in float64, as networks do."""
        return all(one.double for one in self.models)

    @property
    def note(self) -> str:
        """Where a model was read, but runs itself: why; where time has passed, what that means."""
        return next((one.note for one in self.models if one.note), "" if self.elapsed is None else self.elapsed.meaning)

    @property
    def num_changes(self) -> int:
        """Changes that reach the target."""
        return len(self.rows)

    @property
    def num_data_changes(self) -> int:
        """Those of them that are of the graph."""
        return self.num_changes - len(self.models) + 1

    @property
    def changes(self) -> pd.DataFrame:
        """Their rows of `changes()`."""
        return self.players.changes.iloc[self.rows]

    def run_ends(self) -> FloatArray:
        """Logits before, and with all of the changes. [2, num_logits]."""
        found = self.run(_both_ends(self.num_changes))
        return found if self.elapsed is None else np.stack([self.elapsed.logits, found[1]])

    def subset(self, rows: Any, *, applied: bool, name: str) -> BoolArray:
        """Truth values of the changes that reach it: these rows are `applied`, or all others are. [num_changes]."""
        wanted = np.atleast_1d(np.asarray(list(rows) if isinstance(rows, Iterable) else rows))
        if wanted.size == 0:
            wanted = np.zeros(0, dtype=np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise WrongKind(
                f"Expected `{name}` to hold ids of changes, as `changes()` lists them (got {wanted.dtype})."
            )
        for number in wanted[(wanted < 0) | (wanted >= len(self.players))][:1]:
            raise InputError(
                f"Expected `{name}` to hold ids of the {len(self.players):,} changes that `changes()` lists "
                f"(got {number})."
            )
        return np.asarray(np.isin(self.rows, wanted) == applied)


@dataclass(frozen=True, eq=False)
class SubsetEngine:
    """What one model, or the model before and the one after, predicts under any subset of the changes of a graph."""

    evaluators: tuple[ModelEvaluator, ...]  # of the model before, where there are two, then of the model after
    node_names: Mapping[int, str]
    known: dict[bool, Players] = field(default_factory=dict)  # filled as asked for, by whether nodes are opened

    @property
    def pair(self) -> Pair:
        """Both graphs."""
        return self.evaluators[-1].pair

    @property
    def unit(self) -> str:
        """What is predicted: a node, a graph or a link."""
        return self.evaluators[-1].unit

    @property
    def output(self) -> Output:
        """What the columns of the logits mean."""
        return self.evaluators[-1].output

    def players(self, *, open_nodes: bool) -> Players:
        """The changes between the graphs."""
        if open_nodes not in self.known:
            self.known[open_nodes] = find_players(self.pair, self.node_names, open_nodes=open_nodes)
        return self.known[open_nodes]

    def open(self, root: Root, *, open_nodes: bool = False) -> SubsetEvaluator:
        """The changes that reach one target; where it is new itself, or an end of it, nodes are opened."""
        players = self.players(open_nodes=open_nodes or len(root.new) > 0)
        ends = root.ends or (None,) * len(self.evaluators)
        found = tuple(one.open(root, players, known) for one, known in zip(self.evaluators, ends, strict=True))
        rows = reduce(np.union1d, [one.field.rows for one in found])
        for _ in found[1:]:
            rows = np.append(rows, len(players))
            players = replace(players, changes=add_row(players.changes))
        return SubsetEvaluator(self.unit, self.output, players, rows, found)

    def distrust(self) -> None:
        """From now on the user's model is run itself, on the whole graph."""
        for one in self.evaluators:
            one.trusted[None] = False


@dataclass(frozen=True, eq=False)
class ModelEvaluator:
    """One model under any subset of the changes, by its network or by itself."""

    own: OwnModel
    pair: Pair
    unit: str
    output: Output
    network: Network | None  # None where the model was not read
    num_hops: int = 0  # of a model that was not read: how often it passes messages
    links: IntArray | None = None  # ids of all pairs that are predicted [num_pairs, 2], where it is pairs
    wholes: dict[bool, OwnEvaluator] = field(default_factory=dict)  # by whether nodes are opened
    compared: dict[bool, OwnEvaluator] = field(default_factory=dict)  # see `_precise`
    trusted: dict[Any, bool] = field(default_factory=dict)  # by target and whether nodes are opened; None for all

    def open(self, root: Root, players: Players, ends: Ends | None) -> TargetEvaluator:
        """Logits of one target; `ends` are those before and after, where they are known."""
        network, on_disk = self.network, self.pair.on_disk
        fast = network is not None and knows(network)
        extent = None if network is None else find_extent(network)
        # What was not read, or as values of two graphs, is taken to look as far as it passes messages: that is tried.
        if network is None or (network.recorded and not on_disk):
            num_hops = self.num_hops if network is None else network.num_hops
            extent = Extent(num_hops, num_hops)
        field = self._cut(players, root.nodes, root.new, extent)
        variants = self._variants(root, players, field, ends) if fast else None
        run: Evaluator | None = None if variants is None else variants.run
        if run is None and not on_disk:
            unsure = fast or not self.trusted.get(None, True)
            run = None if unsure else self._by_part(root, players, field)
            field = field if run is not None else self._whole(players, root.new).field
        own = partial(self._run_own, root, players, field)
        if network is None and ends is not None:
            self._check_steady(root.target, run or own, field.num_players, ends)
        note = ""
        if network is not None and variants is None and (network.recorded or fast):
            note = RECORDED if network.recorded else RUN_DIRECTLY
        return TargetEvaluator(field, field.rows_of(root.nodes), run or own, own, self.own.double, variants, note)

    def _cut(self, players: Players, start: IntArray, new: IntArray, extent: Extent | None) -> ReceptiveField:
        counted = self.unit == UNIT_OF[GRAPHS]
        return cut_receptive_field(players, self.pair, start, extent, counted=counted, standing=new)

    def _place(self, root: Root, field: ReceptiveField) -> RootPlace:
        kind = {NODE_UNIT: "node", UNIT_OF[LINKS]: "link", UNIT_OF[GRAPHS]: "graph"}[self.unit]
        return RootPlace(kind, field.rows_of(root.nodes))

    def _part(self, field: ReceptiveField, *, precise: bool = False) -> OwnEvaluator:
        """The user's model on copies of what decides the target."""
        return OwnEvaluator(self.own.precise if precise else self.own, field, False, ordered=self.network is None)

    def _whole(self, players: Players, new: IntArray) -> OwnEvaluator:
        """The user's model on all of both graphs, made once for all targets that are not new themselves."""
        if len(new) == 0 and players.opened in self.wholes:
            return self.wholes[players.opened]
        everything = self._cut(players, new, new, None)
        found = OwnEvaluator(self.own, everything, True, ordered=self.network is None)
        if len(new) == 0:
            self.wholes[players.opened] = found
        return found

    def _precise(self, players: Players, new: IntArray) -> OwnEvaluator:
        """The same in float64; answers, for all targets, are kept."""
        if len(new) == 0 and players.opened in self.compared:
            return self.compared[players.opened]
        found = self._whole(players, new)
        found = replace(found, own=self.own.precise, links=self._shared_links(found.field), kept={})
        if len(new) == 0:
            self.compared[players.opened] = found
        return found

    def _shared_links(self, everything: ReceptiveField) -> IntArray | None:
        """All pairs whose ends are in both graphs, as rows of the whole: the model is asked for them together."""
        if self.links is None:
            return None
        numbers = self.pair.numbers_of(self.links.reshape(-1))
        there = (self.pair.before.rows_of(numbers) >= 0) & (self.pair.after.rows_of(numbers) >= 0)
        return everything.rows_of(numbers).reshape(-1, 2)[there.reshape(-1, 2).all(axis=1)]

    def _run_own(self, root: Root, players: Players, field: ReceptiveField, subsets: BoolArray) -> FloatArray:
        """Logits by the user's model on the whole graph; of stored graphs on the part that decides."""
        if self.pair.on_disk:
            return self._part(field).run(self._place(root, field), subsets)
        whole = self._whole(players, root.new)
        wide = np.ones((len(subsets), whole.field.num_players), dtype=np.bool_)
        wide[:, np.searchsorted(whole.field.rows, field.rows)] = subsets
        return whole.run(self._place(root, whole.field), wide)

    def _check_steady(self, target: Target, run: Evaluator, num_changes: int, ends: Ends) -> None:
        """Refuse a model that answers otherwise, with all changes or with none, than on the user's own graphs."""
        found = run(_both_ends(num_changes))
        if not _agree(found, np.stack(ends), AGREEMENT):
            raise InputError(
                "Expected a model that answers the same however often it is asked, and whatever the order of its edges "
                f"(got answers for {self.unit} {target} that differ by {np.abs(found - np.stack(ends)).max():.2g}); "
                "draw no random numbers in it, and sort what it reads by position."
            )

    def _variants(self, root: Root, players: Players, field: ReceptiveField, ends: Ends | None) -> Variants | None:
        """The network under subsets, where it answers as its passes did and, on mixed graphs, as the user's model."""
        if not self.trusted.get(None, True):
            return None
        assert self.network is not None
        found, key = Variants(self.network, field, self._place(root, field)), (root.target, players.opened)
        trials = np.zeros((0, len(players)), dtype=np.bool_) if key in self.trusted else players.mix(field.rows)
        both = _both_ends(field.num_players)
        logits = found.run(np.concatenate([both, trials[:, field.rows]]))
        if ends is not None and not _agree(logits[:2], np.stack(ends), EXACT_AGREEMENT):
            return None
        if key not in self.trusted:
            self.trusted[key] = len(players) < 2 or self._agrees_when_mixed(root, players, field, trials, logits[2:])
            self.trusted[None] = self.trusted.get(None, True) and self.trusted[key]
        return found if self.trusted[key] else None

    def _agrees_when_mixed(
        self, root: Root, players: Players, field: ReceptiveField, trials: BoolArray, ours: FloatArray
    ) -> bool:
        """Whether the user's model agrees on mixed graphs, one at a time; on large ones first on copies, side by side,
        of the part that decides the target.

        Copies have other sizes than the graphs, so a model that agrees there computes nothing from sizes. What it finds
        over all copies, such as the largest degree, may be the same for all of them, so small graphs go one by one.
        """
        pair = self.pair
        if pair.on_disk or pair.num_nodes * pair.before.graph.num_features > SMALL:
            copies = self._part(field, precise=True)
            try:
                if self._same(ours, copies, self._place(root, copies.field), trials[:, copies.field.rows]):
                    return True
            except (InputError, RuntimeError, IndexError, ValueError):  # such as one that sums over all copies
                if pair.on_disk:
                    raise
            if pair.on_disk:
                raise InputError(
                    f"Expected a model that predicts a {self.unit} from its neighbourhood only, for stored graphs (got "
                    "one that uses the size of the graph); load the graphs into memory."
                )
        whole = self._precise(players, root.new)
        return self._same(ours, whole, self._place(root, whole.field), trials[:, whole.field.rows])

    def _same(self, ours: FloatArray, evaluator: OwnEvaluator, root: RootPlace, trials: BoolArray) -> bool:
        """Whether the user's model answers alike, in float64 where it can be run so, and uses no size."""
        own = evaluator.own
        try:
            theirs = evaluator.run(root, trials)
        except InputError:
            own = self.own.as_given
            theirs = replace(evaluator, own=own, kept=None).run(root, trials)
        if own.uses_sizes:
            return False
        tolerance = {torch.float64: CLOSE_AGREEMENT, torch.float32: AGREEMENT}
        allowed = tolerance.get(dtype_of_model(own.duplicate), HALF_TOLERANCE)
        allowed = DOUBLE_AGREEMENT if self.own.double else allowed
        if not np.isfinite(theirs).all():  # a softmax or sigmoid that was rounded to 0 or 1
            return _agree(self.output.means(ours), self.output.means(theirs), allowed)
        assert self.network is not None
        if self.network.end == "softmax":  # which leaves logits known up to a constant
            ours, theirs = (logits - logits.mean(axis=1, keepdims=True) for logits in (ours, theirs))
        return _agree(ours, theirs, allowed)

    def _by_part(self, root: Root, players: Players, field: ReceptiveField) -> Evaluator | None:
        """The user's model on a part of the graph; None where it answers otherwise there than on the whole.

        Random subsets of all changes are tried, so that one out of sight which matters all the same is noticed. Sizes
        of copies side by side depend on how many there are, so a model that uses sizes is run on the whole.
        """
        num_players = self._whole(players, root.new).field.num_players
        trials = np.random.default_rng(0).random((NUM_TRIALS, num_players)) < 0.5
        trials = np.concatenate([_both_ends(num_players), trials])
        place, ordered = self._place(root, field), self.network is None
        for own in (self.own.precise, self.own.as_given):
            part = OwnEvaluator(own, field, False, ordered=ordered)
            whole = replace(self._precise(players, root.new), own=own)
            whole = whole if own is self.own.precise else replace(whole, kept=None)
            try:
                found = part.run(place, trials[:, np.searchsorted(whole.field.rows, field.rows)])
                expected = whole.run(self._place(root, whole.field), trials)
            except (InputError, RuntimeError, IndexError, ValueError):  # not in float64, or not on a part
                continue
            tolerance = DOUBLE_AGREEMENT if own.double else CLOSE_AGREEMENT if own.widened else AGREEMENT
            agrees = not own.uses_sizes and _agree(found, expected, tolerance)
            return partial(self._part(field).run, place) if agrees else None
        return None


def _both_ends(num_changes: int) -> BoolArray:
    return np.stack([np.zeros(num_changes, dtype=np.bool_), np.ones(num_changes, dtype=np.bool_)])


def _agree(found: FloatArray, expected: FloatArray, tolerance: float) -> bool:
    if found.shape != expected.shape:
        return False
    scale = max(float(np.abs(expected).max(initial=0.0)), 1.0)
    return bool(np.abs(found - expected).max(initial=0.0) <= tolerance * scale)
