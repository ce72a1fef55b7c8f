"""How fast is a subset? The model under all subsets of 16 changes, beside two yardsticks in the same run.

(a) the user's own model on the target's neighbourhood, many copies of it in one batch, the forward pass alone;
(b) the user's own model on the whole graph.

And blame of targets with 30 changes in sight, estimated until every standard error is below a hundredth of the change.
Other samplers of Shapley values ask the user's model as often, and its forward passes alone are counted here, by (a).
Where shap is installed (the extra `benchmarks`), its permutation explainer is given as many evaluations of the same
targets; both are held against blame with a fifth of the tolerance, and what shap needs at equal error is as many
evaluations times the ratio of the mean squared errors, for these fall as one over their number. Run with AXIOMPATH_DATA
set (not needed for --tiny):

    python benchmarks/blame.py [--tiny] [--docs docs]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

sys.path.insert(0, str(Path(__file__).parent.parent))

import axiompath
from axiompath.blame.engine import SubsetEvaluator
from axiompath.blame.own_model import OwnEvaluator
from axiompath.blame.shapley import all_subsets
from research import datasets
from tables import best_time, make_parser, publish, to_markdown

NUM_CHANGES = 16
NUM_MANY = 30
TOLERANCE = 0.01


def load(name: str) -> Data:
    """A data set, or `random`: a graph of 300 nodes."""
    if name != "random":
        return datasets.load(name)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(300, 8, generator=generator), torch.randint(4, (300,), generator=generator)
    pairs = torch.randint(300, (2, 600), generator=generator)
    return Data(x=x, y=y, edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))


def evolve(data: Data, target: int, num_changes: int, rng: np.random.Generator) -> Data:
    """The graph with so many edges changed in sight of a target: half of them gone, half new, within two hops."""
    senders, receivers = data.edge_index.numpy()
    near = np.zeros(data.num_nodes, dtype=bool)
    near[target] = True
    near[senders[near[receivers]]] = True
    around = near.copy()
    around[senders[near[receivers]]] = True
    forward = senders < receivers
    old = np.flatnonzero(forward & (near[senders] | near[receivers]))
    gone = rng.choice(old, min(num_changes // 2, len(old)), replace=False)
    codes = senders * data.num_nodes + receivers
    known = np.sort(codes)
    fresh: set[tuple[int, int]] = set()
    inner, outer = np.flatnonzero(near), np.flatnonzero(around)
    while len(fresh) < num_changes - len(gone):
        u, v = sorted((int(rng.choice(inner)), int(rng.choice(outer if rng.random() < 0.5 else data.num_nodes))))
        code = u * data.num_nodes + v
        if u != v and known[np.searchsorted(known, code) % len(known)] != code:
            fresh.add((u, v))
    lost = np.concatenate([codes[gone], receivers[gone] * data.num_nodes + senders[gone]])
    keep = torch.from_numpy(~np.isin(codes, lost))
    pairs = torch.tensor(sorted(fresh), dtype=torch.long).T
    changed = torch.cat([data.edge_index[:, keep], pairs, pairs.flip(0)], dim=1)
    return Data(x=data.x, edge_index=changed)


def games(
    name: str, data: Data, hidden: int, num_targets: int, num_changes: int
) -> Iterator[tuple[Any, int, SubsetEvaluator]]:
    """Targets of middling degree with so many changes in sight, each with an evolution of its own."""
    torch.manual_seed(0)
    model = GCN(data.num_features, hidden, 2, int(data.y.max()) + 1).eval()
    rng = np.random.default_rng(0)
    degree = np.bincount(data.edge_index[1].numpy(), minlength=data.num_nodes)
    middle = np.flatnonzero((degree >= np.quantile(degree, 0.4)) & (degree <= np.quantile(degree, 0.8)))
    found = 0
    while found < num_targets:
        target = int(rng.choice(middle))
        explainer = axiompath.Explainer(model, data, evolve(data, target, num_changes, rng))
        evaluator = explainer.session.subsets.open(explainer.session.root(target))
        if evaluator.num_changes == num_changes:
            found += 1
            yield explainer, target, evaluator


def measure_batched(explainer: Any, evaluator: SubsetEvaluator) -> float:
    """Subsets a second of the user's model on copies of the neighbourhood: the best of several sizes of a batch."""
    copies = OwnEvaluator(explainer.session.subsets.evaluators[-1].own, evaluator.models[-1].field, whole=False)
    rng, best = np.random.default_rng(0), 0.0
    model, field = explainer.session.subsets.evaluators[-1].own.duplicate, evaluator.models[-1].field
    size = field.num_nodes * field.pair.before.graph.num_features
    for number in (1, 4, 16, 64, 256):
        if number > 1 and number * size > 6e7:
            break
        subsets = rng.random((number, evaluator.num_changes)) < 0.5
        data, _ = copies.copies("node", np.zeros((0, 2), dtype=np.int64), subsets)
        with torch.no_grad():
            spent = best_time(lambda data=data: model(data.x, data.edge_index), 0.3)
        best = max(best, number / spent)
    return best


def measure_speed(name: str, data: Data, hidden: int, num_targets: int) -> dict[str, Any]:
    """Subsets a second, three ways; means over targets."""
    rates = []
    subsets = all_subsets(NUM_CHANGES)
    nodes = []
    for explainer, _, evaluator in games(name, data, hidden, num_targets, NUM_CHANGES):
        evaluator.run(subsets[:64])  # compiled and projected before
        ours = len(subsets) / best_time(lambda evaluator=evaluator: evaluator.run(subsets), 1.0)
        model = explainer.session.subsets.evaluators[-1].own.duplicate
        with torch.no_grad():
            whole = 1 / best_time(lambda model=model: model(data.x, data.edge_index), 0.3)
        rates.append((ours, measure_batched(explainer, evaluator), whole))
        nodes.append(evaluator.models[-1].field.num_nodes)
    mean = np.exp(np.log(np.array(rates)).mean(axis=0))
    worst = np.array([(ours / batched, ours / whole) for ours, batched, whole in rates]).min(axis=0)
    return {
        "graph": name,
        "nodes in sight": f"{np.median(nodes):,.0f}",
        "subsets/s": f"{mean[0]:,.0f}",
        "own model, neighbourhood/s": f"{mean[1]:,.0f}",
        "own model, whole graph/s": f"{mean[2]:,.1f}",
        "times (a)": f"{mean[0] / mean[1]:,.0f} (least {worst[0]:,.0f})",
        "times (b)": f"{mean[0] / mean[2]:,.0f} (least {worst[1]:,.0f})",
    }


def measure_blame(name: str, data: Data, hidden: int, num_targets: int, seconds: float) -> dict[str, Any]:
    """Blame until the errors are below the tolerance; and what as many evaluations cost the user's model."""
    spent, theirs, evaluations, errors, reached = [], [], [], [], 0
    for explainer, target, evaluator in games(name, data, hidden, num_targets, NUM_MANY):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            blame = explainer.blame(target, seconds=seconds, tolerance=TOLERANCE)
            spent.append(time.perf_counter() - start)
        size = float(np.abs(blame.logits_after - blame.logits_before).max())
        evaluations.append(blame.num_evaluations)
        errors.append(max(blame.errors.max(), blame.prob_errors.max()) / size)
        reached += errors[-1] <= TOLERANCE
        if len(theirs) < 10:
            theirs.append(measure_batched(explainer, evaluator))
    rate = np.exp(np.log(theirs).mean())
    return {
        "graph": name,
        "targets": str(num_targets),
        "seconds per target": f"{np.mean(spent):.2f}",
        "evaluations, median": f"{np.median(evaluations):,.0f}",
        "largest error, of the change": f"{np.median(errors):.4f}",
        "within the tolerance": f"{reached} of {num_targets}",
        "own model, neighbourhood": f"{np.mean(evaluations) / rate:.1f} s",
        "times": f"{np.mean(evaluations) / rate / np.mean(spent):,.0f}",
    }


def measure_shap(name: str, data: Data, hidden: int, num_targets: int, seconds: float) -> dict[str, Any]:
    """shap's permutation explainer beside blame: errors after as many evaluations, and the time at equal error."""
    import shap

    ours, theirs, spent, around, evaluations, rates = [], [], [], [], [], []
    for explainer, target, evaluator in games(name, data, hidden, num_targets, NUM_MANY):
        start = time.perf_counter()
        blame = explainer.blame(target, seconds=seconds, tolerance=TOLERANCE)
        spent.append(time.perf_counter() - start)
        known = explainer.blame(target, seconds=5 * seconds, tolerance=TOLERANCE / 5, seed=1)
        size = float(np.abs(blame.logits_after - blame.logits_before).max())
        order = np.argsort([ids[0] for ids in known.changes])
        exact = known.shares[order] / size
        asked = 0.0

        def answer(applied: Any, evaluator: SubsetEvaluator = evaluator) -> Any:
            nonlocal asked
            begun = time.perf_counter()
            found = evaluator.run(np.asarray(applied) > 0.5)
            asked += time.perf_counter() - begun
            return found

        start = time.perf_counter()
        rival = shap.PermutationExplainer(answer, np.zeros((1, NUM_MANY)), seed=0)
        found = rival(np.ones((1, NUM_MANY)), max_evals=max(blame.num_evaluations, 2 * NUM_MANY + 1), silent=True)
        around.append(time.perf_counter() - start - asked)
        mine = blame.shares[np.argsort([ids[0] for ids in blame.changes])] / size
        ours.append(((mine - exact) ** 2).mean())
        theirs.append(((found.values[0] / size - exact) ** 2).mean())
        evaluations.append(blame.num_evaluations)
        if len(rates) < 10:
            rates.append(measure_batched(explainer, evaluator))
    factor = np.mean(theirs) / np.mean(ours)
    rate = np.exp(np.log(rates).mean())
    at_equal = factor * (np.mean(evaluations) / rate + np.mean(around))
    return {
        "graph": name,
        "targets": str(num_targets),
        "evaluations, mean": f"{np.mean(evaluations):,.0f}",
        "error, blame": f"{np.sqrt(np.mean(ours)):.5f}",
        "error, shap": f"{np.sqrt(np.mean(theirs)):.5f}",
        "shap needs": f"{factor:.2f} times as many",
        "blame": f"{np.mean(spent):.2f} s",
        "shap at equal error": f"{at_equal:.2f} s",
        "times": f"{at_equal / np.mean(spent):,.0f}",
    }


def main() -> None:
    """Both tables."""
    parser = make_parser(__doc__)
    options = parser.parse_args()
    names = [("random", 8)] if options.tiny else [("cora", 16), ("amazon_photo", 16)]
    speed, many = [], []
    for name, hidden in names:
        data = load(name)
        speed.append(measure_speed(name, data, hidden, 1 if options.tiny else 5))
        many.append(measure_blame(name, data, hidden, 2 if options.tiny else 100, 0.2 if options.tiny else 10.0))
    publish(options.docs, "benchmarks.md", "blame", to_markdown(speed))
    publish(options.docs, "benchmarks.md", "blame of many changes", to_markdown(many))
    if find_spec("shap") is None:
        print("shap is not installed (pip install axiompath[benchmarks]): no comparison with it.")
        return
    number, seconds = (2, 0.2) if options.tiny else (100, 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        beside = [measure_shap(name, load(name), hidden, number, seconds) for name, hidden in names]
    publish(options.docs, "benchmarks.md", "blame beside shap", to_markdown(beside))


if __name__ == "__main__":
    main()
