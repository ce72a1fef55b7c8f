"""Facts of a scan -> Tally: which changes moved how many predictions, and how much probability in all; an estimate.

For change i and target v let o be what goes where i is left out of `after`, and p what comes where only it is put into
`before`. Their mean m is the estimate: both are terms of the Shapley value, the last and the first. Means need not sum
to what the target moved by; what is left, r, is spread by how unsure each mean is:

    m = (o + p) / 2       share = m + r * (o - p)^2 / sum over the target's changes of (o - p)^2

(equally where none is unsure). The error of this estimate is measured on a sample of targets with exact blame, and
reported.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from ..blame.groups import label_rows, number_groups
from ..graphs.changes import name_kinds
from ..graphs.labels import ONE_WAY, TO
from ..outputs import VALUE, Output
from ..storage.notebook import show

TENTH = 0.1  # of what a prediction moved by: from which share on a change is counted as one that moved it


class Facts(NamedTuple):
    """Pairs of a change and a target, as stored in the parts."""

    targets: IntArray  # [num_pairs]: places among the targets
    changes: IntArray  # [num_pairs]
    left_out: FloatArray  # [num_pairs]
    put_in: FloatArray  # [num_pairs]
    restores: BoolArray  # [num_pairs]


@dataclass(frozen=True, eq=False)
class Tally:
    """What each change, or group of changes, did to all predictions of a scan; largest first."""

    frame: pd.DataFrame  # see `to_frame`
    num_targets: int
    num_changes: int  # in all, whether they reach a prediction or not
    total: float  # what all predictions moved by
    error: float  # of the shares of the sampled targets, summed without sign, as a part of the exact ones
    num_sampled: int
    grouped: bool
    output: Output

    def to_frame(self) -> pd.DataFrame:
        """One row per change or group, ordered by `moved`.

        change (or group, num_changes), kind, src and dst with their names; num_predictions, those of whose change it
        has a tenth or more; moved, its shares summed without sign; restored, the predictions whose old class comes back
        where only it is undone (of a group, one of its changes), which is not an estimate.
        """
        return self.frame

    def summary(self, limit: int = 5) -> str:
        """A few sentences: which changes did how much, and how accurate that is."""
        about = "value" if self.output.kind == VALUE else "probability"
        what = "groups of changes" if self.grouped else "changes"
        rows = self.frame.head(limit)
        lines = [
            f"{self.num_changes:,} change{'s' * (self.num_changes != 1)} moved {self.num_targets:,} "
            f"prediction{'s' * (self.num_targets != 1)}. Total change in {about}: {self.total:.3g}. "
            f"The {what} that account for most of it:"
        ]
        for row in rows.to_dict("records"):
            back = f"; undone by itself, it gives {row['restored']:,} their old class back" if row["restored"] else ""
            several = "s" * (row["num_predictions"] != 1)
            lines.append(f"  {row['moved']:.3g} in {row['num_predictions']:,} prediction{several}  {_name(row)}{back}")
        if len(self.frame) > limit:
            lines.append(f"  {self.frame.moved[limit:].sum():.3g}  the other {len(self.frame) - limit:,}")
        lines.append(
            f"An estimate: each change was left out, and put in by itself. Mean error: {self.error:.2g} of the total, "
            f"on {self.num_sampled} prediction{'s' * (self.num_sampled != 1)} with exact blame."
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """In a notebook."""
        return show(self.summary(), self.frame)


def tally_facts(facts: Facts, tables: Sequence[pd.DataFrame], by: Any, output: Output) -> Tally:
    """Sum the estimated shares by change, or by group; the tables are those of changes, targets and the sample."""
    changes, targets, sample = tables
    moved_by = (targets.told_after - targets.told_before).to_numpy()
    shares = estimate_shares(facts, moved_by)
    codes = np.arange(len(changes))
    groups: list[str] = []
    if by is not None:
        codes, groups = number_groups(label_rows(changes, by, np.arange(len(changes))))
    num_rows = len(groups) if by is not None else len(changes)
    frame = _frame(changes) if by is None else pd.DataFrame({"group": groups})
    if by is not None:
        frame["num_changes"] = np.bincount(codes, minlength=num_rows)
    mine, place, share, restores = _by_pair(codes[facts.changes], facts, shares, len(moved_by))
    counted = np.abs(share) >= TENTH * np.abs(moved_by[place])
    frame["num_predictions"] = np.bincount(mine[counted & (share != 0)], minlength=num_rows)
    frame["moved"] = np.bincount(mine, weights=np.abs(share), minlength=num_rows)
    frame["restored"] = np.bincount(mine[restores], minlength=num_rows)
    order = np.argsort(-frame.moved.to_numpy(), kind="stable")
    frame = frame.iloc[order[frame.moved.to_numpy()[order] > 0]].reset_index(drop=True)
    error, num_sampled = _error(facts, shares, sample, len(changes))
    total = float(np.abs(moved_by).sum())
    return Tally(frame, len(targets), len(changes), total, error, num_sampled, by is not None, output)


def estimate_shares(facts: Facts, moved_by: FloatArray) -> FloatArray:
    """Each pair's share, so that those of a target sum to what it moved by. [num_pairs]."""
    size = len(moved_by)
    mean, unsure = 0.5 * (facts.left_out + facts.put_in), (facts.left_out - facts.put_in) ** 2
    left = moved_by - np.bincount(facts.targets, weights=mean, minlength=size)
    whole = np.bincount(facts.targets, weights=unsure, minlength=size)[facts.targets]
    number = np.bincount(facts.targets, minlength=size)[facts.targets]
    part = np.where(whole > 0, unsure / np.where(whole > 0, whole, 1.0), 1.0 / np.maximum(number, 1))
    return np.asarray(mean + left[facts.targets] * part)


def _by_pair(
    rows: IntArray, facts: Facts, shares: FloatArray, num_targets: int
) -> tuple[IntArray, IntArray, FloatArray, BoolArray]:
    """Row, target, share and whether it restores, summed where several changes of a group reach one target."""
    keys, inverse = np.unique(rows * num_targets + facts.targets, return_inverse=True)
    inverse = inverse.reshape(-1)
    share = np.bincount(inverse, weights=shares, minlength=len(keys))
    restores = np.bincount(inverse, weights=facts.restores, minlength=len(keys)) > 0
    mine, place = np.divmod(keys, max(num_targets, 1))
    return np.asarray(mine), np.asarray(place), np.asarray(share, dtype=np.float64), np.asarray(restores)


def _error(facts: Facts, shares: FloatArray, sample: pd.DataFrame, num_changes: int) -> tuple[float, int]:
    """Shares of the sampled targets: what they differ by from exact ones, as a part of these; and of how many."""
    chosen = sample.target.unique()
    here = np.isin(facts.targets, chosen)
    keys = facts.targets[here] * num_changes + facts.changes[here]
    exact = pd.Series(sample.share.to_numpy(), index=sample.target.to_numpy() * num_changes + sample.change.to_numpy())
    guess = pd.Series(shares[here], index=keys)
    apart = exact.sub(guess, fill_value=0.0).abs().sum()
    whole = exact.abs().sum()
    return float(apart / whole) if whole > 0 else 0.0, len(chosen)


def _frame(changes: pd.DataFrame) -> pd.DataFrame:
    kept = [name for name in ("kind", "src", "src_name", "dst", "dst_name", "directed") if name in changes]
    frame = changes[kept].assign(kind=list(name_kinds(changes)))
    frame.insert(0, "change", changes.id.to_numpy())
    return frame


def _name(row: Mapping[Hashable, Any]) -> str:
    if "group" in row:
        return f"{row['group']} ({row['num_changes']:,} change{'s' * (row['num_changes'] != 1)})"
    ends = [row.get(f"{end}_name") or row[end] for end in ("src", "dst") if not pd.isna(row[end])]
    return f"{row['kind']} {(ONE_WAY if row.get('directed') else TO).join(map(str, ends))}"
