"""SubsetEngine + Root -> Brief: what moved one prediction, and the least to undo, in a bounded number of evaluations.

Thousands of changes may reach a prediction. They are grouped by what happened and to whom (the edges of the target that
expired, new edges elsewhere, ...); the groups that move the prediction most are opened, and at most ten groups and
single changes are left. Their Shapley values are exact, by all subsets of these players. What undoing does is looked
for among whole groups first, then among the single changes that matter most. The same evaluations are made on every
machine, so that the same prediction always has the same brief.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from ..graphs import changes as kinds_of
from ..graphs.changes import name_kinds
from ..graphs.expiry import TIME
from ..graphs.labels import ONE_WAY, TO
from ..graphs.places import LINKS, NODE_UNIT, UNIT_OF, Target, Unit
from ..outputs import CLASSES_OUTPUT, MOST_DIGITS, VALUE, Output, show_apart
from ..storage.codec import Count, FileForm, Finite, NodeOrNone, Saved, Shape, Text
from .engine import SubsetEngine, SubsetEvaluator, TargetEvaluator
from .fewest import find_fewest
from .goal import UndoGoal, find_goal, predicted_values
from .root import Root
from .search import Disagreement, TriedSets
from .shapley import all_subsets, shapley_weights

MOST_PLAYERS = 10  # of the final game: all of its subsets are tried
MOST_OPENED = 3  # groups that are opened
MOST_CHILDREN = 64  # of an opened group, that are looked at one by one
MOST_SINGLES = 5  # opened parts that become players
WORTH_OPENING, WORTH_NAMING = 0.1, 0.03  # of what the prediction moved by
WORTH_APART = 0.25  # of what its group did: a part that did less is not named by itself
MOST_FREE = 40  # single changes among which the fewest to undo are searched
MOST_EVALUATIONS = 1000  # of that search
MOST_LISTED = 50  # ids of a cause that a brief lists
MOST_UNDONE = 1000  # ids of what is to be undone
MOST_TOLD = 3  # changes to undo that a sentence names one by one
NAMED_ENDS = 3  # of the edges to undo
WORTH_A_WORD, OPPOSED = 0.05, 0.3  # of what a prediction moved by: a second cause, and what held it back
TIE = 0.01  # between two classes, by so much in probability
SMALL = 0.05  # a move whose causes two digits would not tell from nothing
ENOUGH = 0.8  # of what a prediction moved by: how many causes account for it is counted
PLACE_ELSEWHERE, NOBODY = "elsewhere", -1
ONE_OF_MANY = {  # a change by itself, and so many of its kind
    kinds_of.EDGE_EXPIRED: ("the expired edge", "expired edges"),
    kinds_of.EDGE_ADDED: ("the new edge", "new edges"),
    kinds_of.EDGE_REMOVED: ("the removed edge", "removed edges"),
    kinds_of.EDGE_REWEIGHTED: ("the reweighted edge", "reweighted edges"),
    kinds_of.EDGE_AGED: ("the aged edge", "aged edges"),
    kinds_of.EDGE_CHANGED: ("the edge with new features", "edges with new features"),
    kinds_of.FEATURES_CHANGED: ("the new features of", "nodes with new features"),
    kinds_of.NODE_ADDED: ("the new node", "new nodes"),
    kinds_of.NODE_REMOVED: ("the removed node", "removed nodes"),
    kinds_of.NODE_EXPIRED: ("the expired node", "expired nodes"),
}
WITH_ITS_EDGES = {  # a node that came or went, and the edges through which that is felt
    kinds_of.NODE_ADDED: kinds_of.EDGE_ADDED,
    kinds_of.NODE_REMOVED: kinds_of.EDGE_REMOVED,
    kinds_of.NODE_EXPIRED: kinds_of.EDGE_EXPIRED,
}


@dataclass(frozen=True)
class Cause:
    """A change, or changes of one kind at one place, and what they did to the prediction."""

    words: Text
    kind: Text  # of the changes
    reason: Text  # time, events, or nothing where the graphs do not say
    node: NodeOrNone  # at which they lie; -1 for no one node
    num_changes: Count
    share: Finite
    changes: Annotated[tuple[Count, ...], Shape("ids")]  # the first of their ids
    node_name: Text = ""


@dataclass(frozen=True)
class LeastUndo:
    """What to undo to have the old answer back."""

    partial: ClassVar[bool] = True  # scans that were written earlier do not say what it is afterwards

    words: Text
    changes: tuple[Count, ...]  # ids, the first of them
    num_changes: Count
    restored: bool  # whether the user's own model gives the old answer without them
    proved: bool  # whether no fewer changes do
    after: Finite | None = None  # the probability of the new class, or the value, without them
    num_expired: Count = 0  # of them: what cannot be undone in the events, but kept with a longer window


@dataclass(frozen=True, eq=False)
class Brief(Saved):
    """What moved one prediction, largest first, and the least to undo where its answer changed."""

    form: ClassVar = FileForm("brief", 1)

    target: Target
    name: Text
    class_before: Count
    class_after: Count
    before: Finite  # probability of the new class, or the value
    after: Finite
    causes: tuple[Cause, ...]
    undo: LeastUndo | None
    num_in_sight: Count
    class_names: tuple[Text, ...] = ()
    unit: Unit = NODE_UNIT
    output: Output = field(default=CLASSES_OUTPUT)

    @property
    def moved(self) -> float:
        """By how much."""
        return self.after - self.before

    @property
    def is_tie(self) -> bool:
        """Whether its answer changed, and was nearly as probable as the other before and after."""
        flipped = self.class_before != self.class_after and self.output.kind != VALUE
        return flipped and all(abs(2.0 * end - 1.0) < TIE for end in (self.before, self.after))

    @property
    def rank(self) -> tuple[bool, float]:
        """The order of flips everywhere: the largest change of probability first, ties after all others."""
        return self.is_tie, -abs(self.moved)

    @property
    def by_time(self) -> float:
        """What the passing of time did: edges that expired or aged, and features that changed with them."""
        return sum((cause.share for cause in self.causes if cause.reason == TIME), 0.0)

    @property
    def num_enough(self) -> int:
        """How many of the causes account for four fifths of the change; 0 where all together do not."""
        reached = np.cumsum([cause.share for cause in self.causes]) / (self.moved or 1.0)
        return int(np.argmax(reached >= ENOUGH)) + 1 if (reached >= ENOUGH).any() else 0

    def class_name(self, label: int) -> str:
        """The user's name of a class, else `class` and its number."""
        named = label < len(self.class_names) or self.output.kind != CLASSES_OUTPUT.kind
        return self.output.class_name(label, self.class_names) if named else f"class {label}"

    @property
    def headline(self) -> str:
        """What happened to it, in a sentence."""
        before, after = show_apart([self.before, self.after], 2, "f")
        went = f"{'rose' if self.moved > 0 else 'fell'} from {before} to {after}"
        new, old = self.class_name(self.class_after), self.class_name(self.class_before)
        if self.output.kind == VALUE:
            return f"{self.name} {went}."
        who = f"The prediction for {self.name}" if self.unit == UNIT_OF[LINKS] else self.name
        if self.class_before == self.class_after:
            return f"{who} stayed {new}: its probability {went}."
        tie = ", close to a tie before and after" * self.is_tie
        return f"{who} went from {old} to {new}: the probability of {new} {went}{tie}."

    @property
    def cause(self) -> str:
        """What did most of it, what held it back by much, and what all others did together, in a sentence."""
        if not self.causes:
            return "No change reaches it."
        size = abs(self.moved)
        with_it = [one for one in self.causes if one.share * self.moved > 0][:2] or list(self.causes[:1])
        first = with_it[:1] + [one for one in with_it[1:] if abs(one.share) >= WORTH_A_WORD * size]
        against = [one for one in self.causes if one.share * self.moved < 0 and abs(one.share) >= OPPOSED * size][:1]
        digits = 1 - math.floor(math.log10(size)) if 0 < size < SMALL else 2
        shares = [cause.share for cause in first + against]
        shown = [f"{'+' * (float(share) > 0)}{share}" for share in show_apart(shares, min(digits, MOST_DIGITS), "f")]
        told = [f"{one.words} ({share})" for one, share in zip(first + against, shown, strict=True)]
        back = f", against {told[-1]}" if against else ""
        rest = f"{self.moved - sum(shares):+.{min(digits, MOST_DIGITS)}f}"
        others = f", and others: {rest}" * (len(self.causes) > len(shares) and float(rest) != 0)
        return f"Because of {' and '.join(told[: len(first)])}{back}{others}."

    @property
    def remedy(self) -> str:
        """What to undo, in a sentence; nothing where the answer stayed."""
        if self.undo is None:
            return ""
        if not self.undo.restored:
            return self.undo.words or "No set of changes was found whose undoing gives the old answer back."
        undo, old, new = self.undo, self.class_name(self.class_before), self.class_name(self.class_after)
        fewest = "nothing smaller does" if undo.proved else "a smaller set may exist"
        if undo.num_expired == undo.num_changes > 0:
            what = f"Keeping {undo.words} (for example with --window all) makes it {old} again"
        else:
            kept = " (keeping what expired, for example with --window all)" * (undo.num_expired > 0)
            what = f"Undo {undo.words}{kept}, and it is {old} again"
        now = ""
        if undo.after is not None:
            _, shown = show_apart([self.after, undo.after], 2, "f")
            now = f": the probability of {new} is then {shown}"
        return f"{what}{now} ({fewest})."

    def summary(self) -> str:
        """Headline, cause and remedy."""
        return " ".join(filter(None, [self.headline, self.cause, self.remedy]))

    def __str__(self) -> str:
        """The same."""
        return self.summary()


def brief_target(engine: SubsetEngine, root: Root, name: str, class_names: tuple[str, ...]) -> Brief:
    """The brief of one target; the search for what to undo is made with the user's model where the two disagree."""
    try:
        return _Briefing(engine, root, name, class_names).write()
    except Disagreement:
        engine.distrust()
        return _Briefing(engine, root, name, class_names).write()


class _Briefing:
    """One target on its way to a Brief."""

    def __init__(self, engine: SubsetEngine, root: Root, name: str, class_names: tuple[str, ...]) -> None:
        self.engine, self.root, self.name, self.class_names = engine, root, name, class_names
        self.evaluator = engine.open(root)
        self.ends = self.evaluator.run_ends()
        self.labels = engine.output.label_pair(self.ends[0], self.ends[1])
        self.changes = Changes(self.evaluator, root, engine.node_names)
        self.moved = float(np.subtract(*self.predicted(self.ends[::-1])))
        none = np.zeros((1, self.evaluator.num_changes), dtype=np.bool_)
        self.start = self.ends[0] if self.evaluator.elapsed is None else self.evaluator.run(none)[0]

    def predicted(self, logits: FloatArray) -> FloatArray:
        return predicted_values(self.engine.output, self.labels[1], logits)

    def write(self) -> Brief:
        before, after = self.predicted(self.ends)
        groups, singles = self._players()
        subsets = all_subsets(len(groups))
        values = group_values(self.evaluator, groups, subsets)
        found = self.predicted(values)
        shares = np.array([shapley_weights(subsets, player) @ found for player in range(len(groups))])
        order = np.argsort(-np.abs(shares), kind="stable")
        causes = [self.changes.cause(groups[i], float(shares[i])) for i in order.tolist()]
        if self.evaluator.elapsed is not None:
            elapsed = float(self.predicted(self.start[None])[0] - before)
            causes.append(Cause("the passing of time", kinds_of.TIME_PASSED, TIME, NOBODY, 1, elapsed, ()))
            causes.sort(key=lambda cause: -abs(cause.share))
        undo = None
        if self.engine.output.flipped(self.ends[0], self.ends[1]):
            undo = self._least_undo(groups, values, singles)
        return Brief(
            self.root.target, self.name, *self.labels, float(before), float(after), tuple(causes), undo,
            self.evaluator.num_changes, self.class_names, self.evaluator.unit, self.engine.output,
        )  # fmt: skip

    def _players(self) -> tuple[list[IntArray], IntArray]:
        """Groups of places among the changes, at most MOST_PLAYERS; and single changes, the most important first."""
        size = self.evaluator.num_changes
        if size <= MOST_PLAYERS:
            return [np.array([i]) for i in range(size)], np.arange(size)
        groups = self.changes.group()
        scores = self._scores(groups)
        order = np.argsort(-np.abs(scores), kind="stable").tolist()
        wanted = [i for i in order[:MOST_OPENED] if abs(scores[i]) >= WORTH_OPENING * abs(self.moved)]
        opened = [(i, child) for i in wanted if len(groups[i]) > 1 for child in self.changes.open(groups[i])]
        found = self._scores([child for _, child in opened])
        inside = sorted(zip(found.tolist(), opened, strict=True), key=lambda part: -abs(part[0]))
        looked = [child for _, (_, child) in inside]
        named = [
            child
            for score, (i, child) in inside
            if abs(score) >= max(WORTH_NAMING * abs(self.moved), WORTH_APART * abs(scores[i]))
        ][:MOST_SINGLES]
        nothing = np.zeros(0, dtype=np.int64)
        taken = np.concatenate([nothing, *named])
        rest = [np.setdiff1d(groups[i], taken) for i in order]
        kept = [group for group in rest if len(group)]
        room = MOST_PLAYERS - len(named)
        if len(kept) > room:  # the others by whether time or events did it
            last = np.sort(np.concatenate(kept[room - 2 :]))
            by_time = self.changes.reasons[last] == TIME
            kept = [*kept[: room - 2], *(part for part in (last[by_time], last[~by_time]) if len(part))]
        return [*named, *kept], np.concatenate([nothing, *looked, *(group for group in groups if len(group) == 1)])

    def _scores(self, groups: list[IntArray]) -> FloatArray:
        """What each group does, leaving it out of `after` and putting it into `before`: the mean. [num_groups]."""
        if not groups:
            return np.zeros(0)
        everything = np.setdiff1d(np.arange(self.evaluator.num_changes), np.concatenate(groups))
        every = [*groups, everything] if len(everything) else groups
        one = np.eye(len(groups), len(every), dtype=np.bool_)
        values = self.predicted(group_values(self.evaluator, every, np.concatenate([~one, one])))
        before, after = self.predicted(np.stack([self.start, self.ends[1]]))
        gone, come = after - values[: len(groups)], values[len(groups) :] - before
        return np.asarray(0.5 * (gone + come))

    def _least_undo(self, groups: list[IntArray], values: FloatArray, singles: IntArray) -> LeastUndo:
        """The fewer of two: the smallest union of whole groups, and what a search among single changes finds."""
        evaluator, size = self.evaluator, self.evaluator.num_changes
        goal = find_goal(self.engine.output, self.ends[0], self.ends[1], None, None, self.class_names)
        some = np.arange(size) if size <= MOST_FREE else np.unique(singles[:MOST_FREE])
        tries = TriedSets(evaluator, goal, np.ones(size), some, float("inf"), MOST_EVALUATIONS)
        found = find_fewest(tries)
        wide = self._by_groups(groups, values, goal)
        chosen, proved = np.sort(found.chosen), (found.proved and len(some) == size) or len(found.chosen) == 1
        restored = len(chosen) > 0  # as the user's model said
        if wide is not None and (not restored or len(wide) < len(chosen)):
            applied = ~np.isin(np.arange(size), wide)
            if goal.reached(evaluator.own(applied[None]))[0]:
                chosen, restored, proved = wide, True, len(wide) == 1
                inside = find_fewest(TriedSets(evaluator, goal, np.ones(size), wide, float("inf"), MOST_EVALUATIONS))
                if 0 < len(inside.chosen) < len(wide):
                    chosen, proved = np.sort(inside.chosen), len(inside.chosen) == 1
        ids = evaluator.changes.id.to_numpy()[chosen].tolist()
        without = float(self.predicted(evaluator.own(tries.applied(chosen[None])))[0]) if restored else None
        words = self.changes.list(chosen) if restored else ""
        if not restored and evaluator.elapsed is not None and not goal.reached(self.start[None])[0]:
            words = kinds_of.TIME_ALONE
        return LeastUndo(
            words, tuple(ids[:MOST_UNDONE]), len(ids), restored, bool(proved and restored), without,
            int(np.isin(self.changes.kinds[chosen], (kinds_of.EDGE_EXPIRED, kinds_of.NODE_EXPIRED)).sum()),
        )  # fmt: skip

    def _by_groups(self, groups: list[IntArray], values: FloatArray, goal: UndoGoal) -> IntArray | None:
        """Of the subsets of the groups whose undoing does it: the one of the fewest changes."""
        subsets = all_subsets(len(groups))
        able = np.flatnonzero(goal.margin(values) > 0)
        if not len(able):
            return None
        undone = ~subsets[able] @ np.array([len(group) for group in groups])
        best = subsets[able[int(undone.argmin())]]
        return np.sort(np.concatenate([group for group, kept in zip(groups, best, strict=True) if not kept]))


class Changes:
    """The changes that reach one target: what happened, where, and how that is called."""

    def __init__(self, evaluator: SubsetEvaluator, root: Root, names: Mapping[int, str]) -> None:
        frame = evaluator.changes
        self.names, self.ids = names, frame.id.to_numpy()
        self.kinds, self.directed = frame.kind.astype(object).to_numpy(), frame.directed.to_numpy()
        self.names_of_kinds = name_kinds(frame)
        self.last_event = frame.last_event.tolist() if "last_event" in frame else [None] * len(frame)
        reasons = frame.reason if "reason" in frame else np.where(np.isin(self.kinds, kinds_of.BY_TIME), TIME, "")
        self.reasons = np.asarray(reasons, dtype=object)
        self.src = frame.src.fillna(-1).to_numpy(dtype=np.int64)
        self.dst = frame.dst.fillna(-1).to_numpy(dtype=np.int64)
        own = np.atleast_1d(np.asarray(root.target, dtype=np.int64))
        own = own if evaluator.unit != "graph" else np.zeros(0, dtype=np.int64)
        at_src, at_dst = np.isin(self.src, own), np.isin(self.dst, own)
        self.node = np.where(at_src, self.src, np.where(at_dst, self.dst, NOBODY))
        self._place_nodes(evaluator, own)
        self.told_as = np.array([WITH_ITS_EDGES.get(kind, kind) for kind in self.kinds], dtype=object)

    def _place_nodes(self, evaluator: SubsetEvaluator, own: IntArray) -> None:
        """A node that came or went with an edge of the target's own lies there."""
        edges, pair = evaluator.players.edges, evaluator.models[0].field.pair
        numbers = pair.numbers_of(own) if len(own) else own
        for end in (edges.senders, edges.receivers):
            here = np.isin(end, numbers)
            ends = pair.node_ids(end[here])
            for owner in edges.players[here].T:
                place = np.minimum(np.searchsorted(evaluator.rows, owner), len(evaluator.rows) - 1)
                known = (evaluator.rows[place] == owner) & (self.node[place] == NOBODY)
                self.node[place[known]] = ends[known]

    def group(self) -> list[IntArray]:
        """Places of the changes by kind, reason and end of the target, one group for all that lie elsewhere."""
        keys = zip(self.told_as.tolist(), self.reasons.tolist(), self.node.tolist(), strict=True)
        found: dict[Any, list[int]] = {}
        for place, key in enumerate(keys):
            found.setdefault(key, []).append(place)
        return [np.array(places) for places in found.values()]

    def open(self, group: IntArray) -> list[IntArray]:
        """Single changes of the target itself; of changes elsewhere those of each node, the most changes first."""
        if self.node[group[0]] != NOBODY:
            return [np.array([place]) for place in group[:MOST_CHILDREN].tolist()]
        src, dst = self.src[group], self.dst[group]
        count = pd.Series(np.concatenate([src, dst[dst >= 0]])).value_counts()
        busier = (dst >= 0) & (count.reindex(dst).fillna(0).to_numpy() > count[src].to_numpy())
        node = pd.Series(np.where(busier, dst, src))
        parts = [group[np.asarray(places)] for places in node.groupby(node, sort=True).indices.values()]
        return sorted(parts, key=len, reverse=True)[:MOST_CHILDREN]

    def cause(self, group: IntArray, share: float) -> Cause:
        """A group and what it did."""
        kinds, node = {*self.told_as[group].tolist()}, self._common(group)
        kind = kinds.pop() if len(kinds) == 1 and len(group) > 1 else "several"
        kind = str(self.kinds[group[0]]) if len(group) == 1 else kind
        ids, reasons = self.ids[group], {*self.reasons[group].tolist()}
        reason = reasons.pop() if len(reasons) == 1 else ""
        called = self.name_of(node) if node != NOBODY else ""
        first = tuple(ids[:MOST_LISTED].tolist())
        return Cause(self.words(group), kind, reason, node, len(group), share, first, called)

    def _common(self, group: IntArray) -> int:
        """The one node that all changes of a group lie at, the target's own end first."""
        own = np.unique(self.node[group])
        if len(own) == 1 and own[0] != NOBODY:
            return int(own[0])
        common = {int(self.src[group[0]]), int(self.dst[group[0]])} - {NOBODY}
        for place in group[1:].tolist():
            common &= {int(self.src[place]), int(self.dst[place])}
        return min(common, default=NOBODY)

    def words(self, group: IntArray) -> str:
        """A group as people call it; nodes came or went with their edges."""
        if len(group) == 1:
            return self.one(int(group[0]))
        if len({*self.told_as[group].tolist()}) > 1:
            return f"{len(group):,} other changes" + " by time" * bool((self.reasons[group] == TIME).all())
        node = self._common(group)
        of = f" of {self.name_of(node)}" if node != NOBODY else f" {PLACE_ELSEWHERE}"
        nodes = np.isin(self.kinds[group], [*WITH_ITS_EDGES])
        kinds = [str(self.kinds[group[np.flatnonzero(some)[0]]]) if some.any() else "" for some in (~nodes, nodes)]
        edges, ends = (ONE_OF_MANY.get(kind, ("", "changes"))[1] for kind in kinds)
        if not nodes.any():
            return f"{len(group):,} {edges}{of}"
        if node == NOBODY:
            return (
                " and ".join(f"{some.sum():,} {told}" for some, told in ((~nodes, edges), (nodes, ends)) if some.any())
                + of
            )
        whose = ends if nodes.sum() > 1 else f"a {ONE_OF_MANY[kinds[1]][0].removeprefix('the ')}"
        return f"{len(group):,} {ONE_OF_MANY[WITH_ITS_EDGES[kinds[1]]][1]}{of} ({int(nodes.sum()):,} with {whose})"

    def one(self, place: int) -> str:
        """A single change: what happened, to what, of which relation, and when its last event was."""
        kind, between = str(self.kinds[place]), ONE_WAY if self.directed[place] else TO
        ends = [int(end) for end in (self.src[place], self.dst[place]) if end >= 0]
        relation = self.names_of_kinds[place].removeprefix(kind)
        last = self.last_event[place]
        when = "" if pd.isna(last) else format_moment(last)
        on = "of" if isinstance(last, pd.Timestamp) else "at"
        dated = f" {on} {when}" if kind == kinds_of.EDGE_ADDED else f" (last event {when})"
        linked = kind in WITH_ITS_EDGES and self.node[place] != NOBODY
        at = f" with its edge to {self.name_of(int(self.node[place]))}" if linked else ""
        what = ONE_OF_MANY.get(kind, (kind, ""))[0]
        return f"{what} {between.join(map(self.name_of, ends))}{relation}{dated * bool(when)}{at}".rstrip()

    def list(self, places: IntArray) -> str:
        """Several: each by itself where they are few, else by group, with the ends of edges that are not all."""
        if len(places) <= MOST_TOLD:
            return " and ".join(map(self.one, places.tolist()))
        parts = [(group[np.isin(group, places)], group) for group in self.group()]
        parts = sorted((part for part in parts if len(part[0])), key=lambda part: -len(part[0]))
        return " and ".join(self._words_of_part(*part) for part in parts)

    def _words_of_part(self, inside: IntArray, group: IntArray) -> str:
        if len(inside) in (1, len(group)):
            return self.words(inside)
        node = self._common(group)
        ends = [[end for end in (int(self.src[i]), int(self.dst[i])) if end not in (node, -1)] for i in inside.tolist()]
        named = [TO.join(map(self.name_of, end)) for end in ends[:NAMED_ENDS] if end]
        more = f" and {len(inside) - len(named):,} more" * (len(inside) > len(named))
        return f"{len(inside):,} of the {self.words(group)}: {', '.join(named)}{more}"

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number."""
        return self.names.get(node, str(node))


def format_moment(moment: object) -> str:
    """A date as a day, with the time of day where it has one; a number as it is."""
    if isinstance(moment, pd.Timestamp):
        return f"{moment:%Y-%m-%d}" if moment == moment.normalize() else f"{moment:%Y-%m-%d %H:%M}"
    return f"{moment:.15g}" if isinstance(moment, float) else str(moment)


def group_values(evaluator: SubsetEvaluator, groups: list[IntArray], subsets: BoolArray) -> FloatArray:
    """Logits with whole groups of changes applied. [num_subsets, num_logits]; of every change one group."""
    codes = np.zeros(evaluator.num_changes, dtype=np.int64)
    for number, group in enumerate(groups):
        codes[group] = number
    if not len(groups):
        return evaluator.run(np.zeros((len(subsets), 0), dtype=np.bool_))
    one: TargetEvaluator = evaluator.models[0]
    if len(evaluator.models) > 1:
        return evaluator.run(subsets[:, codes])
    return one.grouped(codes[np.searchsorted(evaluator.rows, one.field.rows)], len(groups))(subsets)
