"""A log with a planted cause: what the summaries and the page of its largest step say of it."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

import axiompath
from axiompath import watch_events
from support.effort import ALL

SIZE, TEAMS = 90, 3
DAY = pd.Timedelta("1D")


def planted_log(seed, cause):
    """Meetings of three teams over 300 days, labels of the people, and the one of whom the cause is planted.

    One person meets eight people of another team in every window. joins: in the days 210 to 240 the whole other team,
    besides its own. silence: from day 210 on nobody of its own team, so that the meetings of before expire.
    """
    rng = np.random.default_rng(seed)
    team = rng.permutation(SIZE) % TEAMS
    one = int(rng.integers(SIZE))
    other = np.flatnonzero(team == (team[one] + 1) % TEAMS)
    rows = []
    for day in range(300):
        for _ in range(14):
            u = int(rng.integers(SIZE))
            own = np.flatnonzero((team == team[u]) & (np.arange(SIZE) != u))
            v = int(rng.choice(own)) if rng.random() < 0.95 else int(rng.integers(SIZE))
            if u != v and one not in (u, v):
                rows.append((u, v, day))
        mine = np.flatnonzero((team == team[one]) & (np.arange(SIZE) != one))
        if cause == "joins" or day < 210:
            rows.append((one, int(rng.choice(mine[:15])), day))
        rows.append((one, int(other[day % 8]), day))
        if cause == "joins" and 210 <= day < 240:
            rows += [(one, int(v), day) for v in other[10:]]
    log = pd.DataFrame([(f"p{u}", f"p{v}") for u, v, _ in rows], columns=["source", "target"])
    log["time"] = pd.Timestamp("2024-01-01") + np.array([day for *_, day in rows]) * DAY
    labels = {f"p{i}": f"team {t}" for i, t in enumerate(team.tolist())}
    return log, labels, f"p{one}"


def read_largest(folder):
    """The first step of those with the most flips, as a program reads it: its summary, and the front page's words."""
    steps = sorted((folder / "steps").glob("*/summary.json"))
    held = [json.loads(path.read_text()) for path in steps]
    worst = max(held, key=lambda one: one["num_flipped"])
    text = html.unescape(re.sub(r"<[^>]+>", " ", (folder / "report.html").read_text()))
    return worst, text


DRAWS = 10 if ALL else 2


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize(
    ("cause", "kind", "reason"), [("joins", "edge added", "events"), ("silence", "edge expired", "time")]
)
def test_the_planted_cause_is_named(seed, cause, kind, reason, tmp_path):
    log, labels, planted = planted_log(seed, cause)
    done = watch_events(log, tmp_path / "w", labels, every="30D", window="30D", top=1, workers=1, flip_seconds=600)
    worst, text = read_largest(done.folder)
    counts = [(step.num_flipped, step.moved_by) for step in done.progress.steps]
    assert counts[done.largest - 1] == max(counts)
    place = [step.after for step in done.progress.steps].index("2024-08-28")  # the window of the days 210 to 240
    assert counts[place][0] == worst["num_flipped"] == max(counts)[0]
    (mine,) = [brief for brief in worst["flips"] if brief["name"] == planted]
    first = max(mine["causes"], key=lambda one: one["share"])
    assert (first["node_name"], first["kind"], first["reason"]) == (planted, kind, reason)
    assert first["share"] > 0.5 * (mine["after"] - mine["before"])
    assert f"{planted} went from" in text.split("Over time")[0]  # what the page says first
    if len(worst["flips"]) == 1:
        assert (worst["by_time"] > 0.5 * worst["moved"]) == (cause == "silence")
    by_time = "of the change of its flips is due only to time"
    assert (by_time in text.split("Over time")[0]) == (done.progress.steps[done.largest - 1].by_time >= 0.005)
    brief = next(brief for brief in done.scan(place + 1).flips().flips if brief.name == planted)
    assert brief.undo.restored
    explainer = axiompath.Explainer(axiompath.load_model(done.folder / "model"), *done.snapshots[place : place + 2])
    logits = explainer.what_if(brief.target, undo=list(brief.undo.changes))  # what is to be undone does it
    assert int(np.argmax(logits)) == brief.class_before
    without = torch.softmax(torch.as_tensor(np.ravel(logits)), dim=0)[brief.class_after]
    assert brief.undo.after == pytest.approx(float(without), abs=1e-6)
    assert brief.remedy.startswith("Keeping " if brief.undo.num_expired == brief.undo.num_changes else "Undo ")
