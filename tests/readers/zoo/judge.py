"""model + evolution -> Verdict: read exactly, refused with the line and a way out, or wrong."""

import copy
import inspect
import re
import warnings
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import torch

import axiompath
from axiompath.errors import InputError

FOLDER = Path(__file__).parent
READ, REFUSED, WRONG, RAW = "read", "refused", "wrong", "raw exception"
TOLERANCE = 1e-9
LINE = re.compile(r"(\w+\.py)(?::|, line )(\d+)")
MOST_EDITS = 5  # whose shares are computed from all subsets


class Wrong(Exception):
    """An answer that is not the model's own."""


@dataclass(frozen=True)
class Verdict:
    """What became of one model on one evolution."""

    status: str
    words: str = ""
    located: bool = False  # whether a refusal names a line of the zoo


def judge(model, evolution, build=None, *, truth=None, call=None, end="", blame=True, **options):
    """Explain what the model predicts before and after, and compare all of it with plain calls of the model.

    `build` makes the Data that both the Explainer and the plain calls are given of one of the evolution; `end` is the
    model's last operation, where it is a softmax, a log_softmax or a sigmoid; `truth` the model that plain calls are
    made of, where it is another one.
    """
    build, truth = build or (lambda data: data), truth or model
    graphs = [build(evolution.before), build(evolution.after)]
    answers = [answer(truth, data, call, end) for data in graphs]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            explainer = axiompath.Explainer(copy.deepcopy(model), *graphs, call=call, **options)
            compare(explainer, answers, truth, evolution, build, call, end, blame)
    except InputError as error:
        words = str(error)
        return Verdict(REFUSED, words, any((FOLDER / name).exists() for name, _ in LINE.findall(words)))
    except Wrong as error:
        return Verdict(WRONG, str(error))
    except Exception as error:
        return Verdict(RAW, f"{type(error).__name__}: {error}"[:600])
    return Verdict(READ)


def answer(model, data, call, end):
    """Logits [rows, columns] of a plain call on a copy of the model; of classes, with their mean taken off."""
    model, data = copy.deepcopy(model), data.clone()
    with torch.no_grad():
        out = plain_call(model, data) if call is None else call(model, data)
    out = out[:, None] if out.dim() == 1 else out
    logits = {"softmax": torch.log, "sigmoid": torch.logit}.get(end, lambda values: values)(out).numpy()
    return centred(logits, end)


def plain_call(model, data):
    """forward's arguments by name."""
    scripted = isinstance(model, torch.jit.ScriptModule)
    names = [] if scripted else list(inspect.signature(model.forward).parameters)
    if not names or not all(name in data for name in names):
        names = ["x", "edge_index"]
    return model(*(data[name] for name in names))


def centred(logits, end):
    """A softmax does not know a common shift of all logits."""
    return logits - logits.mean(axis=-1, keepdims=True) if end.endswith("softmax") else logits


def compare(explainer, answers, model, evolution, build, call, end, blame):
    """Raise Wrong unless logits, contributions and blame are those of the model itself."""
    scale = max(1.0, *(np.abs(one).max() for one in answers))
    targets = targets_of(explainer.unit, evolution, len(answers[0]))
    moved = {}
    for target, rows in targets.items():
        found = explainer.attribute(target)
        for ours, one, row in zip((found.logits_before, found.logits_after), answers, rows, strict=True):
            close(centred(ours, end), one[row], scale, f"logits of {target}")
        change = found.logits_after - found.logits_before
        close(found.contributions.sum(axis=0), change, scale, f"the sum over the paths of {target}")
        moved[target] = np.abs(centred(change, end)).max()
    if blame and len(evolution.edits) <= MOST_EDITS:
        target = max(moved, key=moved.get)
        compare_blame(explainer, target, targets[target], model, evolution, build, call, end, scale)


def targets_of(unit, evolution, num_rows):
    """Every node, graph or pair that both snapshots have -> its row in the model's answer before and after."""
    if unit == "graph":
        return {target: (target, target) for target in range(num_rows)}
    ids = [snapshot.get("n_id", torch.arange(snapshot.num_nodes)) for snapshot in (evolution.before, evolution.after)]
    if unit == "link":
        ends = evolution.before.edge_label_index.t().tolist()
        return {(int(ids[0][u]), int(ids[0][v])): (row, row) for row, (u, v) in enumerate(ends)}
    rows = [{int(node): row for row, node in enumerate(side)} for side in ids]
    return {node: (rows[0][node], rows[1][node]) for node in rows[0] if node in rows[1]}


def close(ours, theirs, scale, what):
    error = np.abs(np.asarray(ours) - np.asarray(theirs)).max(initial=0.0)
    if not error <= TOLERANCE * scale:
        raise Wrong(f"{what}: off by {error:.1e}")


def compare_blame(explainer, target, rows, model, evolution, build, call, end, scale):
    """Shares of every logit equal Shapley values of the model itself, run on every mixed graph."""
    value = {}
    for subset in evolution.subsets():
        data = build(evolution.graph(subset))
        row = row_of(explainer.unit, target, data, rows)
        value[frozenset(subset)] = answer(model, data, call, end)[row]
    expected = shapley_values(value, len(evolution.edits))
    blame = explainer.blame(target)
    found = np.zeros_like(expected)
    keys = [(edit.kind.split()[0] == "edge", edit.ends) for edit in evolution.edits]
    for kind, ends, share in zip(blame.kinds, blame.ends, centred(blame.shares, end), strict=True):
        key = kind.startswith("edge"), frozenset(int(v) for v in ends if v >= 0)
        if key not in keys:
            raise Wrong(f"blame names a change that did not happen: {kind} {ends}")
        found[keys.index(key)] += share
    close(found, expected, scale, f"blame of {target}")


def row_of(unit, target, data, rows):
    """The target's row in the answer on a mixed graph."""
    if unit != "node":
        return rows[0]
    return int((data.n_id == target).nonzero()) if "n_id" in data else target


def shapley_values(value, size):
    """value: frozenset of players -> [c]; returns [size, c], by the definition."""
    shares = np.zeros((size, *value[frozenset()].shape))
    for i in range(size):
        others = [j for j in range(size) if j != i]
        for count in range(size):
            for subset in combinations(others, count):
                gain = value[frozenset({*subset, i})] - value[frozenset(subset)]
                shares[i] += gain / (size * comb(size - 1, count))
    return shares
