"""SubsetEngine + Root -> Blame: every change's share of every logit, and of the probability of the new class."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..errors import InputError, Notice
from ..explain.explanation import Caption
from ..graphs.changes import MODEL_RETRAINED, TIME_PASSED, add_row
from ..storage.codec import Count, FileForm, Finite, Shape, Text, require
from ..storage.notebook import show
from .cost import check_affordable, predict_seconds
from .engine import SubsetEngine, SubsetEvaluator
from .goal import predicted_values
from .groups import label_changes, number_groups
from .records import ChangeRecord, Ids, shared_fields
from .root import Root
from .shapley import (
    Effort,
    PlayerShares,
    Values,
    all_subsets,
    count_owen,
    exact_owen,
    exact_shares,
    interactions_of,
    sampled_shares,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUP_ROW = "group"
ALWAYS_EXACT = 16  # players: all subsets of so many are tried whatever the time, where the network answers
MOST_PLAYERS = 20  # of which all subsets are tried at all
LARGE_SHARE = 0.1  # from which on three digits behind the point are shown
MOST_DIGITS = 12
WORTH_SAYING = 2.0  # seconds from which on the cost is announced


@dataclass(frozen=True, eq=False)
class Blame(ChangeRecord):
    """Which changes moved one prediction, and by how much; largest first. A row is a change, or a group of them."""

    form: ClassVar = FileForm("blame", 2, {1: {"directed": [], "note": ""}})
    drawn_by: ClassVar = "plot().figure.savefig(path)"
    other_kinds: ClassVar = (MODEL_RETRAINED, TIME_PASSED, GROUP_ROW)

    # Ids of each row, as `changes(open_nodes=open_nodes)` numbers them.
    changes: Annotated[tuple[Ids, ...], Shape("rows")]
    groups: tuple[Text, ...]  # label of each row's group; empty without groups
    shares: Annotated[FloatArray, Shape("rows", "classes", finite=True)]
    errors: Annotated[FloatArray, Shape("rows", "classes", finite=True)]  # standard errors, 0 where exact
    # Shares of the probability of the new class; of values, of the value.
    prob_shares: Annotated[FloatArray, Shape("rows", finite=True)]
    prob_errors: Annotated[FloatArray, Shape("rows", finite=True)]
    exact: bool
    residual: Finite  # largest difference between the sum of all shares and the change of a logit
    num_changes: Count  # in all, in sight or not
    # Interactions of pairs; on request.
    interactions: Annotated[FloatArray | None, Shape("rows", "rows", "classes", finite=True)] = None
    note: Text = ""  # why the model itself was run, where what was read from it gives other logits; else empty

    def row_name(self, row: int) -> str:
        """A row in words: what happened, and to what."""
        if self.kinds[row] == GROUP_ROW:
            return f"{self.groups[row]} ({len(self.changes[row])} change{'s' * (len(self.changes[row]) != 1)})"
        return self.name_change(row)

    def to_frame(self) -> pd.DataFrame:
        """One row per change or group, in the order of `shares`: change, kind, src and dst with their names, and share
        and error of `quantity`.

        `change` is the id, or the label of a group; with groups also `group`.
        """
        whole = [kind == GROUP_ROW for kind in self.kinds]
        names = [self.groups[i] if group else self.changes[i][0] for i, group in enumerate(whole)]
        frame = self.frame_rows(pd.Series(names, dtype=object if any(whole) else "int64"))
        frame["share"], frame["error"] = self.prob_shares, self.prob_errors
        if self.groups:
            frame["group"] = self.groups
        return frame

    def by_group(self) -> pd.DataFrame:
        """Shares summed by group, largest first: group, num_changes, share. Exact sums, whatever the errors."""
        if not self.groups:
            raise InputError("Expected blame by groups (got one without); ask for blame(target, by=...).")
        frame = pd.DataFrame({"group": self.groups, "num_changes": [len(ids) for ids in self.changes]})
        frame["share"] = self.prob_shares
        found = frame.groupby("group", as_index=False, sort=False).sum()
        order = np.argsort(-np.abs(found.share.to_numpy()), kind="stable")
        return found.iloc[order].reset_index(drop=True)

    def summary(self, limit: int = 5) -> str:
        """A few sentences: what happened, which changes did it, and how certain that is."""
        first, *others = self.describe_changes(limit)
        return "\n".join([f"{self.headline}. {first}", *others, *self.describe_certainty()])

    def describe_changes(self, limit: int = 5) -> list[str]:
        """Which changes did it: one line for each of the largest, one for the others, and one for the groups."""
        number, digits = len(self.shares), self._digits()
        seen = sum(map(len, self.changes)) - (TIME_PASSED in self.kinds)
        of_groups = f", in {number} group{'s' * (number != 1)}" * (GROUP_ROW in self.kinds)
        lines = [f"{_format_seen(seen, self.num_changes)}{of_groups}"]
        lines[0] += f"; shares of the change of {self.quantity}:" if number else "."
        for row in range(min(limit, number)):
            error = "" if self.exact else f" ± {self.prob_errors[row]:.2g}"
            lines.append(f"  {_format_share(self.prob_shares[row], digits)}{error}  {self.row_name(row)}")
        if number > limit:
            others = "one other" if number == limit + 1 else f"the other {number - limit:,}"
            lines.append(f"  {_format_share(self.prob_shares[limit:].sum(), digits)}  {others}")
        if self.groups and GROUP_ROW not in self.kinds:
            shown_groups = self.by_group().head(limit)
            shares = zip(shown_groups.group.tolist(), shown_groups.share.tolist(), strict=True)
            lines.append("By group: " + "; ".join(f"{group} {_format_share(share, digits)}" for group, share in shares))
            lines[-1] += "; and others." if len(set(self.groups)) > limit else "."
        if MODEL_RETRAINED in self.kinds:
            model = float(self.prob_shares[self.kinds.index(MODEL_RETRAINED)])
            time = sum(share for share, kind in zip(self.prob_shares, self.kinds, strict=True) if kind == TIME_PASSED)
            data = float(self.prob_shares.sum()) - model - float(time)
            lines.append(
                f"The model accounts for {_format_share(model, digits)}, the data for {_format_share(data, digits)}."
            )
        return lines

    def describe_certainty(self) -> list[str]:
        """How certain the shares are: whether they are exact, and what they account for."""
        if not len(self.shares):
            return [self.note] if self.note else []
        tried = f"{self.num_evaluations:,} evaluations"
        how = (
            f"Exact, over all subsets: {tried}."
            if self.exact
            else f"Estimated from random orders: {tried}; ± is the standard error."
        )
        whole = f"The shares account for all of the change, {_format_share(self.prob_shares.sum(), self._digits())}."
        return [f"{how} {whole}", *([self.note] if self.note else [])]

    def _digits(self) -> int:
        """Digits behind the point: three, or as many as show three of the largest share."""
        largest = float(np.abs(self.prob_shares).max(initial=0.0))
        return 3 if largest >= LARGE_SHARE or largest == 0 else min(2 - math.floor(math.log10(largest)), MOST_DIGITS)

    def __repr__(self) -> str:
        """The headline."""
        return f"Blame: {self.headline}"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary(), self.to_frame())

    def check(self) -> None:
        """The checks of every record of changes; a row is one change or a labelled group."""
        super().check()
        labelled = len(self.groups) == len(self.changes) or not (self.groups or GROUP_ROW in self.kinds)
        require(labelled, "`groups` should be a label for each row, or none where no row is a group")
        single = all(
            len(ids) == 1 or (ids and kind == GROUP_ROW) for ids, kind in zip(self.changes, self.kinds, strict=True)
        )
        require(single, "`changes` should be one in each row, or those of a group")

    def plot(self, ax: Axes | None = None, limit: int = 10) -> Axes:
        """A waterfall from `before` to `after` on matplotlib axes, new ones or `ax`: a bar per change."""
        from ..report.plots import plot_blame

        return plot_blame(self, ax, limit)


def _format_share(share: float, digits: int) -> str:
    """A share with its sign; of nought, a plus."""
    return f"{round(float(share), digits) + 0.0:+.{digits}f}"


def _format_seen(seen: int, every: int) -> str:
    """How many of all changes reach a target, in words."""
    if every == 0:
        return "The graph did not change"
    if seen == 0:
        return "The only change does not reach it" if every == 1 else f"None of the {every:,} changes reaches it"
    if seen == every:
        return "The only change reaches it" if seen == 1 else f"All {every:,} changes reach it"
    return f"{seen:,} of {every:,} changes {'reaches' if seen == 1 else 'reach'} it"


def blame_target(
    engine: SubsetEngine,
    root: Root,
    caption: Caption,
    *,
    by: Any = None,
    opened: bool = False,
    open_nodes: bool = False,
    interactions: bool = False,
    effort: Effort,
) -> Blame:
    """Shapley values of the changes within the receptive field, of groups of them, or Owen values within groups."""
    evaluator = engine.open(root, open_nodes=open_nodes)
    labels = [] if by is None else label_changes(evaluator, by, caption.node_names)
    codes, unique = number_groups(labels)
    together = by is not None and not opened
    num_players = len(unique) if together else evaluator.num_data_changes
    ends = evaluator.run_ends()
    class_after = engine.output.label_pair(ends[0], ends[1])[1]

    def with_meaning(logits: FloatArray) -> FloatArray:
        return np.column_stack([logits, predicted_values(engine.output, class_after, logits)])

    def values(subsets: BoolArray) -> FloatArray:
        # Owen values of data and model: the mean of what the data's changes do under each.
        found = map(with_meaning, evaluator.run_each(subsets[:, codes] if together else subsets))
        return np.asarray(sum(found) / len(evaluator.models))

    found = _shares(evaluator, values, num_players, codes if opened and by is not None else None, effort)
    pairs = None
    retrained = len(evaluator.models) > 1
    if retrained:
        found, pairs = _with_model(found, lambda subsets: with_meaning(evaluator.run(subsets)), evaluator.num_changes)
        if interactions and not (together and num_players <= 1):
            raise InputError(
                'Expected interactions only of data and model where the model was retrained, with by="model" (got '
                f"{num_players} players besides); leave `model_before` out for those of changes."
            )
        pairs = pairs[1 - num_players :, 1 - num_players :] if interactions else None
    elif interactions:
        pairs = _interactions(values, found, in_groups=opened and by is not None)
    changes, beside = evaluator.changes, [MODEL_RETRAINED] * retrained
    if evaluator.elapsed is not None:
        changes, beside = add_row(changes, TIME_PASSED), [*beside, TIME_PASSED]
        before = with_meaning(ends[:1])[0]
        found = found.beside(found.none - before, none=before)  # time passed before any of the changes
    order = np.argsort(-np.abs(found.values[:, -1]), kind="stable")
    ids = changes.id.to_numpy()
    for kind in beside:
        labels, unique, codes = [*labels, kind], [*unique, kind], np.append(codes, len(unique))
    fields = shared_fields(evaluator, root, caption, ends, changes.iloc[[] if together else order])
    rows = [(number,) for number in ids[order].tolist()] if not together else []
    groups = tuple(labels[row] for row in order.tolist()) if by is not None and not together else ()
    if together:
        rows = [tuple(ids[codes == code].tolist()) for code in order.tolist()]
        groups, whole = tuple(unique[code] for code in order.tolist()), [GROUP_ROW] * num_players + beside
        fields |= {
            "kinds": tuple(whole[code] for code in order.tolist()),
            "ends": ((-1, -1),) * len(rows),
            "directed": (False,) * len(rows),
        }
    return Blame(
        **fields | {"origin": replace(caption.origin, seed=None if found.exact else effort.seed)},
        changes=tuple(rows),
        groups=groups,
        shares=found.values[order, :-1],
        errors=found.errors[order, :-1],
        prob_shares=found.values[order, -1],
        prob_errors=found.errors[order, -1],
        exact=found.exact,
        num_evaluations=found.num_evaluations,
        residual=found.residual,
        num_changes=len(evaluator.players),
        interactions=None if pairs is None else pairs[np.ix_(order, order)],
        note=evaluator.note,
    )


def _interactions(values: Values, found: PlayerShares, *, in_groups: bool) -> FloatArray:
    """What each pair of players does only together. [num_players, num_players, num_logits]."""
    num_players, num_columns = found.values.shape
    if not found.exact or num_players > ALWAYS_EXACT or in_groups:
        raise InputError(
            f"Expected at most {ALWAYS_EXACT} changes or groups for interactions of pairs (got {num_players}"
            f"{', in opened groups' * in_groups}); group them with by=."
        )
    if num_players < 2:
        return np.zeros((num_players, num_players, num_columns - 1))
    return interactions_of(values(all_subsets(num_players))[:, :-1], num_players)


def _with_model(found: PlayerShares, values: Any, num_changes: int) -> tuple[PlayerShares, FloatArray]:
    """The shares with that of the model as the last; and its interaction with everything else, as of two players."""
    sets = [[data] * (num_changes - 1) + [model] for data in (False, True) for model in (False, True)]
    none, model, data, everything = values(np.array(sets))
    share, joint = 0.5 * (model - none + everything - data), (everything - model - data + none)[:-1]
    shares = found.beside(share, num_evaluations=2 * found.num_evaluations, none=none, all=everything)
    return shares, np.stack([[np.zeros_like(joint), joint], [joint, np.zeros_like(joint)]])


def _shares(evaluator: SubsetEvaluator, values: Any, num_players: int, groups: Any, effort: Effort) -> PlayerShares:
    """Exact where that is affordable, else by orders; a notice announces a long run."""
    num_subsets = (1 << min(num_players, 62)) if groups is None else count_owen(groups)
    if num_players == 0:
        return exact_shares(values, 0)
    exact = num_subsets <= effort.most_exact and evaluator.by_network
    if not exact and num_subsets <= 1 << MOST_PLAYERS:
        takes = predict_seconds(
            values, num_players, num_subsets, by_network=evaluator.by_network, seconds=effort.seconds
        )
        exact = takes <= effort.seconds
    if exact:
        return exact_shares(values, num_players) if groups is None else exact_owen(values, groups)
    check_affordable(values, num_players, effort, by_network=evaluator.by_network)
    if effort.seconds >= WORTH_SAYING:
        warnings.warn(
            f"Blame of {evaluator.num_changes} changes is estimated by random orders until the errors are below "
            f"{effort.tolerance:g} of the change, for {effort.seconds:g} seconds at most; `seconds` sets how "
            "long.",
            Notice,
            stacklevel=4,
        )
    return sampled_shares(values, num_players, effort, groups)
