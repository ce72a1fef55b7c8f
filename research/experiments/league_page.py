"""Table of the league -> the tables of docs/field.md: a setting each, and every place where ours are beaten."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

import numpy as np
import pandas as pd

from .contenders import OUR_METHODS
from .league import summarise_league
from .ranked import JUDGED_SIZES

SHOWN_SIZES = (1, 3, 10)
SEERS = ("oracle",)  # sees the measure
DEFAULT_CONTENDER = "blame"
LEAST_MARGIN = 0.005  # of what is left, that counts as a loss of the default
LEAST_DIGIT = 5e-4  # of one size; less is not seen in print


def write_page(table: pd.DataFrame) -> str:
    """Markdown: every setting, then the three tables of what beats us."""
    own = table[~_without_ranking(table)]
    parts = [_write_setting(name, group) for name, group in own.groupby("setting", sort=False)]
    heads = ("| setting | method | left: blame | left: the other | margin |\n|---|---|---:|---:|---:|",) + (
        "| setting | measure | best of ours | the other | margin |\n|---|---|---:|---:|---:|",
    ) * 2
    for head, rows in zip(heads, (_beat_the_default(own), _beat_all(own, False), _beat_all(own, True)), strict=True):
        parts.append("\n".join([head, *rows]))
    return "\n\n".join(parts) + "\n"


def _without_ranking(table: pd.DataFrame) -> pd.Series:
    """Rows of methods that never ranked anything in their setting."""
    return table.groupby(["setting", "method"]).failed.transform("all")


def _write_setting(name: object, table: pd.DataFrame) -> str:
    summary = summarise_league(table, ("setting",))
    sight = table.groupby("puzzle").in_sight.first()
    planted, flips = bool(summary.found.notna().all()), int(table.groupby("puzzle").restore.first().notna().sum())
    sizes = [size for size in SHOWN_SIZES if table[f"applied_{size}"].notna().any()]
    measures = [f"{way}_{size}" for way in ("applied", "undone") for size in sizes]
    means = table.assign(**{key: table[key].astype(np.float64) for key in measures}).groupby("method")[measures].mean()
    heads = ["method", *(["cause first", "cause found"] if planted else []), "left"]
    heads += [key.replace("_", " ") for key in measures] + (["to restore"] if flips else []) + ["seconds"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for row in summary.to_dict("records"):
        cells = [f"**{row['method']}**" if row["method"] in OUR_METHODS else str(row["method"])]
        cells += [f"{row['first']:.2f}", _told(row, "found", 2)] if planted else []
        cells += [_told(row, "left", 3), *(f"{means.loc[row['method'], key]:.3f}" for key in measures)]
        cells += ([_told(row, "restore", 1)] if flips else []) + [f"{row['seconds']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    ending = "" if planted else f", {flips} flips"
    seen = f"{len(sight)} puzzles, {sight.min()} to {sight.max()} changes in sight (median {sight.median():g}){ending}."
    return "\n".join([f"### {name}", seen, "", *lines])


def _told(row: Mapping[Hashable, float], key: str, digits: int) -> str:
    error = row[f"{key}_error"]
    return f"{row[key]:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")


def _beat_the_default(table: pd.DataFrame) -> Iterator[str]:
    for setting, group in table.groupby("setting", sort=False):
        left = group.pivot_table(index="puzzle", columns="method", values="left", sort=False).astype(np.float64)
        for name in map(str, left.columns):
            ours, other = left[DEFAULT_CONTENDER], left[name]
            if name not in SEERS and ours.mean() - other.mean() >= LEAST_MARGIN:
                yield f"| {setting} | {name} | {ours.mean():.3f} | {other.mean():.3f} | {_margin(ours - other)} |"


def _beat_all(table: pd.DataFrame, by_seers: bool) -> Iterator[str]:
    """At each size, against the best of ours there; an oracle sees only *applied*."""
    for setting, group in table.groupby("setting", sort=False):
        for key in (f"{way}_{size}" for way in ("applied", "undone") for size in JUDGED_SIZES):
            shares = group.assign(share=group[key].astype(np.float64)).dropna(subset="share")
            if shares.empty:
                continue
            found = shares.pivot_table(index="puzzle", columns="method", values="share", sort=False)
            means, names = found.mean(), [str(name) for name in found.columns]
            best = str(means[[name for name in names if name in OUR_METHODS]].idxmin())
            for name in names:
                rival = name in SEERS if by_seers else name not in {*OUR_METHODS, *SEERS}
                if rival and means[best] - means[name] >= LEAST_DIGIT:
                    other = f"{name} {means[name]:.3f}"
                    cells = f"{best} {means[best]:.3f} | {other} | {_margin(found[best] - found[name])}"
                    yield f"| {setting} | {key.replace('_', ' ')} | {cells} |"


def _margin(differences: pd.Series[float]) -> str:
    values = differences.dropna().to_numpy(dtype=np.float64)
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"
