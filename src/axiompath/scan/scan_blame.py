"""Effects of a scan -> ScanBlame: which changes moved how many predictions, and how much in all; an estimate.

For change i and target v let o be what goes where i is left out of `after`, and p what comes where only it is put into
`before`. Their mean m is the estimate: both are terms of the Shapley value, the last and the first. Means need not sum
to what the target moved by; what is left, r, is spread by how unsure each mean is:

    m = (o + p) / 2       share = m + r * (o - p)^2 / sum over the target's changes of (o - p)^2

(equally where none is unsure). The error of this estimate is measured on a sample of targets with exact blame, and
reported.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from ..arrays import BoolArray, FloatArray, IntArray
from ..blame.groups import label_rows, number_groups
from ..errors import InputError
from ..graphs.changes import name_kinds
from ..graphs.labels import ONE_WAY, TO
from ..outputs import VALUE, Output
from ..storage.notebook import show
from .effects import EFFECTS, Effects
from .parts import read_table
from .tables import OF_BLAME, read_frame

TENTH = 0.1  # of what a prediction moved by: from which share on a change is counted as one that moved it


class ChangeShares(NamedTuple):
    """What each change did to each target that it reaches, in shares that sum to what the target moved by."""

    targets: IntArray  # [num_pairs]: places among the targets
    changes: IntArray  # [num_pairs]
    shares: FloatArray  # [num_pairs]
    restores: BoolArray  # [num_pairs]: whether leaving it out gives the old class back
    moved_by: FloatArray  # [num_targets]
    table: pd.DataFrame  # of the changes
    error: float  # of the shares of the sampled targets, summed without sign, as a part of the exact ones
    num_sampled: int


@dataclass(frozen=True, eq=False)
class ScanBlame:
    """What each change, or group of changes, did to all predictions of a scan; largest first."""

    frame: pd.DataFrame  # see `to_frame`
    num_targets: int
    num_changes: int  # in all, whether they reach a prediction or not
    total: float  # what all predictions moved by
    error: float  # of the shares of the sampled targets, summed without sign, as a part of the exact ones
    num_sampled: int
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
        what = "groups of changes" if "group" in self.frame else "changes"
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


def read_shares(folder: Path, held: Mapping[str, Any]) -> ChangeShares:
    """The shares that the files of a scan's blame give, as its manifest counts them; each file is checked."""
    numbers = held["num_changes"], held["num_targets"], held["num_sampled"]
    changes, targets, sample = (read_frame(folder / name, size) for name, size in zip(OF_BLAME, numbers, strict=True))
    tables = [EFFECTS.empty_table()]
    for part in held["parts"]:
        table = read_table(folder / part["file"], part["rows"]).replace_schema_metadata(None)
        if not table.schema.equals(EFFECTS) or any(column.null_count for column in table.columns):
            raise InputError(f"Expected the columns of blame in {folder / part['file']} (got others); run it again.")
        tables.append(table)
    effects = Effects(*(column.to_numpy() for column in pa.concat_tables(tables).columns))
    numbered = np.array_equal(changes.id, np.arange(len(changes)))
    pairs = ((effects.target, effects.change), (sample.target.to_numpy(), sample.change.to_numpy()))
    ranges = [(ids, size) for pair in pairs for ids, size in zip(pair, (len(targets), len(changes)), strict=True)]
    within = all(0 <= ids.min() <= ids.max() < size for ids, size in ranges if len(ids))
    if not (numbered and within and np.isfinite(effects.left_out).all() and np.isfinite(effects.put_in).all()):
        raise InputError(
            f"Expected numbers of the changes and targets of the scan in {folder} (got others); run it again."
        )
    moved_by = (targets.told_after - targets.told_before).to_numpy()
    shares = estimate_shares(effects, moved_by)
    error = _error(effects, shares, sample, len(changes))
    found = effects.target, effects.change, shares, effects.restores
    return ChangeShares(*found, moved_by, changes, error, sample.target.nunique())


def sum_shares(known: ChangeShares, by: Any, output: Output) -> ScanBlame:
    """The estimated shares summed by change, or by group."""
    changes, num_targets = known.table, len(known.moved_by)
    codes, frame = np.arange(len(changes)), _frame(changes)
    if by is not None:
        codes, groups = number_groups(label_rows(changes, by, codes))
        frame = pd.DataFrame({"group": groups, "num_changes": np.bincount(codes, minlength=len(groups))})
    # Row, target, share and whether it restores, summed where several changes of a group reach one target.
    keys, inverse = np.unique(codes[known.changes] * num_targets + known.targets, return_inverse=True)
    rows, places = np.divmod(keys, max(num_targets, 1))
    share = np.bincount(inverse.reshape(-1), known.shares, len(keys))
    restores = np.bincount(inverse.reshape(-1), known.restores, len(keys)) > 0
    counted = (np.abs(share) >= TENTH * np.abs(known.moved_by[places])) & (share != 0)
    frame["num_predictions"] = np.bincount(rows[counted], minlength=len(frame))
    frame["moved"] = np.bincount(rows, np.abs(share), len(frame))
    frame["restored"] = np.bincount(rows[restores], minlength=len(frame))
    frame = frame[frame.moved > 0].sort_values("moved", ascending=False, kind="stable", ignore_index=True)
    total = float(np.abs(known.moved_by).sum())
    return ScanBlame(frame, num_targets, len(changes), total, known.error, known.num_sampled, output)


def estimate_shares(effects: Effects, moved_by: FloatArray) -> FloatArray:
    """Each pair's share, so that those of a target sum to what it moved by. [num_pairs]."""
    target, size = effects.target, len(moved_by)
    mean, unsure = 0.5 * (effects.left_out + effects.put_in), (effects.left_out - effects.put_in) ** 2
    left = moved_by - np.bincount(target, weights=mean, minlength=size)
    whole = np.bincount(target, weights=unsure, minlength=size)[target]
    number = np.bincount(target, minlength=size)[target]
    part = np.where(whole > 0, unsure / np.where(whole > 0, whole, 1.0), 1.0 / np.maximum(number, 1))
    return np.asarray(mean + left[target] * part)


def _error(effects: Effects, shares: FloatArray, sample: pd.DataFrame, num_changes: int) -> float:
    """Shares of the sampled targets: what they differ by from exact ones, as a part of these."""
    here = np.isin(effects.target, sample.target)
    exact = pd.Series(sample.share.to_numpy(), index=sample.target.to_numpy() * num_changes + sample.change.to_numpy())
    guess = pd.Series(shares[here], index=effects.target[here] * num_changes + effects.change[here])
    apart, whole = exact.sub(guess, fill_value=0.0).abs().sum(), exact.abs().sum()
    return float(apart / whole) if whole > 0 else 0.0


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
