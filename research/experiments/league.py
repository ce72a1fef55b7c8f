"""Contenders + settings -> the table of the benchmark of explanations of change, and each one's place in it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from axiompath.errors import InputError

from .contenders import Contender
from .puzzles import PLANTED_SETTINGS, Puzzle, open_puzzles
from .ranked import JUDGED_SIZES, judge, judge_failure

PLANTED_PART, REAL_PART = "planted", "real"
PLACED_BY = {True: "found", False: "left"}  # planted or not: the column that a place goes by; equal ones share theirs
LEAGUE_MEASURES = ("first", "found", "left", "restore", "seconds")


@dataclass(frozen=True)
class LeagueSettings:
    """What is run."""

    settings: tuple[str, ...] = PLANTED_SETTINGS
    puzzles: int = 10  # of each setting, at most
    seed: int = 0

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if not self.settings:
            raise InputError("Expected at least one setting (got none).")


def run_league(
    contenders: Mapping[str, Contender],
    settings: LeagueSettings,
    *,
    root: str | Path | None = None,
    report: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> pd.DataFrame:
    """A row for each puzzle and contender; `reason` says why one has no ranking."""
    rows: list[dict[str, Any]] = []
    for place, setting in enumerate(settings.settings):
        report(place * len(contenders), len(settings.settings) * len(contenders), setting)
        puzzles = open_puzzles(setting, settings.puzzles, root, seed=settings.seed)
        for turn, (name, contender) in enumerate(contenders.items()):
            done = place * len(contenders) + turn
            report(done, len(settings.settings) * len(contenders), f"{setting}, {name}")
            rows += [{"setting": setting, "method": name, **face(puzzle, contender, settings)} for puzzle in puzzles]
    table = pd.DataFrame(rows)
    table.insert(0, "part", np.where(table.setting.isin(PLANTED_SETTINGS), PLANTED_PART, REAL_PART))
    shares = [f"{way}_{size}" for way in ("applied", "undone") for size in JUDGED_SIZES]
    table["left"] = table[shares].astype(np.float64).mean(axis=1)
    return table


def face(puzzle: Puzzle, contender: Contender, settings: LeagueSettings) -> dict[str, Any]:
    """What one contender makes of one puzzle."""
    start, reason = time.perf_counter(), ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = contender(puzzle, puzzle.number + settings.seed)
    except InputError as error:
        reason = str(error)
    seconds = time.perf_counter() - start
    found = judge_failure(puzzle) if reason else judge(puzzle, scores)
    asked = {"puzzle": puzzle.number, "target": str(puzzle.target)}
    return {**asked, "seconds": seconds, "failed": bool(reason), "reason": reason, **found}


def summarise_league(table: pd.DataFrame, by: tuple[str, ...] = ("part",)) -> pd.DataFrame:
    """A row for each part (or setting) and method, best first: means, and standard errors over puzzles.

    A puzzle's `left` is the mean of its shares of all sizes, applied and undone.
    """
    rows = []
    for key, group in table.groupby(list(by), sort=False):
        part = []
        for name, own in group.groupby("method", sort=False):
            values = {name: own[name].astype(np.float64).dropna().to_numpy() for name in LEAGUE_MEASURES}
            means = {name: float(some.mean()) if len(some) else np.nan for name, some in values.items()}
            errors = {
                f"{name}_error": float(some.std(ddof=1) / np.sqrt(len(some))) if len(some) > 1 else np.nan
                for name, some in values.items()
            }
            counts = {"puzzles": len(own), "failed": int(own.failed.sum())}
            part.append({**dict(zip(by, key, strict=True)), "method": name, **counts, **means, **errors})
        frame = pd.DataFrame(part)
        planted = group.part.iloc[0] == PLANTED_PART
        frame["place"] = frame[PLACED_BY[planted]].rank(method="min", ascending=not planted).astype(np.int64)
        rows.append(frame.sort_values(["place", "left"], kind="stable"))
    return pd.concat(rows, ignore_index=True)


def describe_places(summary: pd.DataFrame, name: str) -> list[str]:
    """Sentences: where one contender stands."""
    sentences = []
    for part, group in summary.groupby("part", sort=False):
        own = group[group.method == name].iloc[0]
        what = "planted causes" if part == PLANTED_PART else "real windows"
        failed = f"; it failed in {own.failed} of {own.puzzles}" if own.failed else ""
        sentences.append(f"{name} is number {own.place} of {len(group)} on {what}{failed}.")
    return sentences


def describe_reasons(table: pd.DataFrame) -> list[str]:
    """A line for each method that never gave a ranking in a setting, with its first reason."""
    sentences = []
    for (setting, name), own in table.groupby(["setting", "method"], sort=False):
        if own.failed.any():
            sentences.append(
                f"{setting}, {name}: failed in {int(own.failed.sum())} of {len(own)}. {own.reason[own.failed].iloc[0]}"
            )
    return sentences
