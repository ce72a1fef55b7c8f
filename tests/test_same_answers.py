"""Answers to fourteen cases, as they were when they were last looked at: a change that alters one says so.

`python tests/test_same_answers.py` (with tests/ on the path) writes them again, one case a line; the commit says why.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import axiompath
from support.players import evolve, make
from support.scans import check_alike

FILE = Path(__file__).with_name("same_answers.json")
CASES = {  # model, options of the graphs, options of the Explainer
    "two layers": ("gcn", {}, {}),
    "three layers": ("gcn3", {}, {}),
    "means": ("sage", {"symmetric": False}, {}),
    "attention": ("gat", {}, {}),
    "edge weights": ("gcn", {"weighted": True}, {}),
    "norms": ("layer_norm", {}, {}),
    "maxima": ("max", {"symmetric": False}, {}),
    "deviations": ("several", {}, {}),
    "relations": ("rgcn", {"relations": 3}, {}),
    "a graph": ("pooled", {}, {}),
    "a link": ("link", {}, {"links": [(0, 2)], "output": "binary"}),
    "values": ("sage", {}, {"output": "value"}),
    "another model": ("gcn", {}, {"model_before": "gcn3"}),
    "not read": ("unreadable", {}, {"paths": False}),
}


def ask(name):
    """The answers about the prediction that moved the most, as plain values."""
    model, kind, options = CASES[name]
    if "model_before" in options:
        options = {**options, "model_before": make(options["model_before"], 1)}
    explainer = axiompath.Explainer(make(model), *evolve(3, 6, **kind), **options)
    moved = explainer.moved()
    target = moved.target.iloc[0]
    found = {"target": target, "moved": len(moved), "kl": float(moved.kl.iloc[0])}
    blame = explainer.blame(target)
    found["blame"] = sorted(
        [list(map(int, row)), share] for row, share in zip(blame.changes, blame.prob_shares, strict=True)
    )
    found["enough"] = sorted(explainer.enough(target).changes)
    lowered = blame.predicted_before if blame.predicted_before < blame.predicted_after else blame.predicted_after - 0.01
    found["undone"] = len(explainer.undo(target, below=lowered + 1e-6).changes)
    found["logits"] = explainer.what_if(target, undo=[0]).tolist()
    if "paths" in options:
        return found
    ways = [{}, {"method": "convex", "objective": "necessity"}]
    ways += [{"depth": "auto"}] * ("model_before" not in options)
    ways += [{"by": "edge"}] * (name not in ("maxima", "deviations"))
    for place, way in enumerate(ways):
        e = explainer.explain(target, 4, **way)
        numbers = [e.kl_residual, e.kl_bound, e.fidelity_minus, e.fidelity_plus]
        shares = [[path, *share] for path, share in zip(e.paths.tolist(), e.contributions.tolist(), strict=True)]
        found[f"explain {place}"] = {"units": e.num_paths, "numbers": numbers, "paths": sorted(shares)}
    columns = explainer.features(target)
    found["features"] = float(columns.share.abs().sum())
    return found


def plain(value):
    """What JSON holds, with as many digits as are compared."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value


@pytest.mark.parametrize("name", CASES)
def test_answers_are_as_they_were(name):
    expected = json.loads(FILE.read_text())[name]
    check_alike(plain(ask(name)), expected, name)


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(plain(ask(name)))}" for name in CASES]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
