"""SubsetEngine + Root -> Undo: the fewest (or cheapest) changes whose undoing gives the old prediction back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..arrays import FloatArray
from ..errors import InputError, WrongKind
from ..explain.explanation import Caption
from ..graphs.changes import TIME_ALONE
from ..storage.codec import Count, FileForm, Finite, Text
from .engine import SubsetEngine, SubsetEvaluator
from .fewest import Fewest, find_fewest
from .goal import UndoGoal, find_goal
from .records import ChosenChanges, Ids, chosen_fields
from .root import Root
from .search import Disagreement, TriedSets
from .shapley import check_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, kw_only=True)
class Undo(ChosenChanges):
    """The fewest changes to undo to get the old prediction back."""

    form: ClassVar = FileForm("undo", 2, {1: {"directed": []}})
    drawn_by: ClassVar = "plot().figure.savefig(path)"

    goal: Text  # what was asked for, in words
    restored: bool  # whether the user's own model reaches the goal on the real graph without these changes
    excluded: Count  # no set of so many changes or fewer does it
    cost: Finite  # of these changes; their number, where no costs are given
    alternatives: tuple[Ids, ...] = ()  # all sets of that size that do it, best first; on request

    def summary(self) -> str:
        """What happened, what to undo, and how it was found, in a few sentences."""
        return f"{self.headline}. {self.sentence}"

    @property
    def sentence(self) -> str:
        """What to undo, and whether a smaller set is excluded."""
        who = f"{self.unit} {self.name}"
        if not self.num_in_sight:
            return f"No change reaches {who}."
        if not self.restored:
            return f"No set of changes was found whose undoing gives {who} {self.goal}. {self.how}"
        count = f"{len(self.changes)} of the {self.num_in_sight:,} changes that reach it"
        if self.num_in_sight == 1:
            count = "the one change that reaches it"
        return f"Undo {count}, and {who} has {self.goal}: {self.list_changes()}. {self.how}"

    def __repr__(self) -> str:
        """What to undo."""
        return f"Undo: {self.sentence}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """The prediction before, after, and without these changes, as bars on matplotlib axes, new ones or `ax`."""
        from ..report.plots import plot_undo

        return plot_undo(self, ax)


def undo_target(
    engine: SubsetEngine,
    root: Root,
    caption: Caption,
    *,
    to: int | str | None = None,
    below: float | None = None,
    keep: Iterable[int] | int = (),
    costs: Mapping[int, float] | None = None,
    every: bool = False,
    open_nodes: bool = False,
    seconds: float = 10.0,
    starts: Sequence[Sequence[int]] = (),
) -> Undo:
    """Search by size, then judge; if the judge and the evaluator disagree, search again with the judge.

    Changes in `keep` are not undone, undoing the others takes `costs`; `every` and `starts` as in `find_fewest`.
    """
    check_seconds(seconds)
    starts = [tuple(order) for order in starts]

    def search() -> Undo:
        evaluator = engine.open(root, open_nodes=open_nodes)
        ends = evaluator.run_ends()
        goal = find_goal(engine.output, ends[0], ends[1], to, below, caption.class_names)
        free = np.flatnonzero(~evaluator.subset(keep, applied=True, name="keep"))
        tries = TriedSets(evaluator, goal, _read_costs(evaluator, costs), free, seconds)
        found = find_fewest(tries, every=every, starts=starts)
        return _describe(tries, found, root, caption, ends, goal)

    try:
        return search()
    except Disagreement:
        engine.distrust()
        return search()


def _describe(search: TriedSets, found: Fewest, root: Root, caption: Caption, ends: FloatArray, goal: UndoGoal) -> Undo:
    evaluator, chosen = search.evaluator, np.sort(found.chosen)
    ids = evaluator.changes.id.to_numpy()
    restored, logits = search.judge(chosen)
    how = found.how
    if not restored and evaluator.elapsed is not None:
        none = evaluator.run(np.zeros((1, evaluator.num_changes), dtype=np.bool_))
        how = how if goal.reached(none)[0] else TIME_ALONE
    return Undo(
        **chosen_fields(search, root, caption, ends, chosen, how),
        goal=goal.words,
        restored=restored,
        logits=logits,
        proved=bool(found.proved),
        excluded=found.excluded,
        cost=float(search.costs[chosen].sum()),
        alternatives=tuple(tuple(ids[np.sort(some)].tolist()) for some in found.alternatives),
    )


def _read_costs(evaluator: SubsetEvaluator, costs: Mapping[int, float] | None) -> FloatArray:
    """What undoing each change that reaches it costs; 1 where nothing is said."""
    if costs is None:
        return np.ones(evaluator.num_changes)
    if not isinstance(costs, Mapping):
        raise WrongKind(f"Expected `costs` to be a dict from the id of a change to its cost (got {costs!r}).")
    evaluator.subset(list(costs), applied=True, name="costs")
    found = np.array([float(costs.get(number, 1.0)) for number in evaluator.changes.id.tolist()])
    if not (np.isfinite(found) & (found > 0)).all():
        raise InputError("Expected costs above 0 (got others); name changes that may not be undone in `keep`.")
    return found
