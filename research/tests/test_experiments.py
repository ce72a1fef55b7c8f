"""The paper's protocol: its levels, its rows, its figures; runs that stop and go on; commands."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from axiompath import Explainer
from axiompath.errors import InputError
from axiompath.files.sum_gnn import random_sum_gnn
from axiompath.metrics import kl_divergence
from axiompath.selection import select
from research import datasets
from research.cli import app as cli
from research.cli import reproduction as commands
from research.experiments import study as running
from research.experiments import timed, worked_example
from research.experiments.arithmetic import exponential
from research.experiments.claims import check_claims
from research.experiments.descent import Adam, clip_gradients, find_gradients, forward
from research.experiments.fidelity import (
    COMPARED,
    OPTIONAL_METHODS,
    budgets_for,
    compare_methods,
    deviation_by_level,
    mean_by_level,
)
from research.experiments.fidelity_page import write_fidelity_page
from research.experiments.figures import draw_fidelity, draw_preservation, draw_runtime
from research.experiments.flips import FlipSettings, run_flips, summarise_flips
from research.experiments.job_parts import Job, merge_parts, read_table, run_parts, write_table
from research.experiments.multigraphs import PAPER_ENTRIES, with_parallel_edges
from research.experiments.runtime import can_compare, run_runtime, solve_with_scipy, solve_with_scs
from research.experiments.steps import Surroundings, compare_orders, look_around, run_steps, summarise_steps
from research.experiments.trained import Training, _scale, prepare, settings_for, train

COLUMNS = [
    "dataset", "layers", "evolution", "repeat", "aggregation", "edges", "training", "target", "num_paths", "level",
    "budget", "method", "objective", "kl", "fidelity_minus", "fidelity_plus", "kl_residual", "kl_bound", "seconds",
    "walking_seconds",
]  # fmt: skip
NUMBERS = [column for column in COLUMNS if "seconds" not in column]


@pytest.mark.parametrize(
    ("num_paths", "budgets"),
    [
        (0, []),
        (10, []),
        (11, list(range(1, 11))),
        (30, list(range(1, 11))),
        (31, [10, 12, 14, 16, 18, 20, 22, 24, 26, 28]),
        (99, [10, 12, 14, 16, 18, 20, 22, 24, 26, 28]),
        (100, [10, 15, 20, 25, 30, 35, 40, 45, 50, 55]),
        (10**6, [10, 15, 20, 25, 30, 35, 40, 45, 50, 55]),
    ],
)
def test_levels_are_those_of_the_papers_appendix(num_paths, budgets):
    assert budgets_for(num_paths) == budgets


def random_graph(num_nodes=60, num_pairs=150, seed=0):
    rng = np.random.default_rng(seed)
    pairs = torch.from_numpy(rng.integers(0, num_nodes, size=(2, num_pairs)))
    pairs = pairs[:, pairs[0] != pairs[1]]
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1).unique(dim=1)
    x = torch.from_numpy(rng.normal(size=(num_nodes, 8)))
    return Data(x=x, edge_index=edge_index, y=torch.from_numpy(rng.integers(0, 3, size=num_nodes)))


@pytest.fixture(scope="module")
def small_comparison():
    before, after = random_graph(), random_graph(num_pairs=180)
    model = random_sum_gnn([8, 6, 3], seed=1)
    return model, before, after, compare_methods(model, before, after, methods=(*COMPARED, *OPTIONAL_METHODS))


def test_rows_say_what_the_explainer_says(small_comparison):
    model, before, after, rows = small_comparison
    explainer = Explainer(model, before, after)
    target = int(rows.target.iloc[0])
    for method, objective in COMPARED:
        part = rows[(rows.target == target) & (rows.method == method) & (rows.objective == objective)]
        explained = explainer.frontier(target, part.budget.tolist(), method, objective)
        for name in ("fidelity_minus", "fidelity_plus", "kl_residual"):
            assert np.allclose(part[name], [getattr(e, name) for e in explained], atol=1e-9), (method, name)


def test_only_changed_predictions_with_more_than_ten_paths_are_targets(small_comparison):
    model, before, after, rows = small_comparison
    moved = Explainer(model, before, after).moved()
    moved = moved[moved.class_before != moved.class_after]
    assert set(rows.target) == set(moved[moved.num_paths > 10].target)
    assert rows.attrs["changed"] == len(moved)
    assert rows.attrs["targets"] == rows.target.nunique() > 3
    assert len(rows) == rows.target.nunique() * 10 * (len(COMPARED) + 1)


def test_what_does_not_fit_is_counted_and_samples_are_repeatable(small_comparison):
    model, before, after, rows = small_comparison
    none = compare_methods(model, before, after, memory="1KB")
    assert len(none) == 0
    assert none.attrs["too_large"] == rows.attrs["targets"]
    few = [compare_methods(model, before, after, max_targets=2) for _ in range(2)]
    assert few[0].target.tolist() == few[1].target.tolist()
    assert few[0].attrs["not_sampled"] == rows.attrs["targets"] - 2


def test_exact_never_leaves_more_than_convex(small_comparison):
    rows = small_comparison[-1]
    kl = rows[rows.objective == "sufficiency"].pivot_table(
        index=["target", "level"], columns="method", values="kl_residual"
    )
    assert (kl.exact <= kl.convex + 1e-12).all()
    assert (rows.kl_bound <= rows.kl_residual + 1e-9).all()


def named(rows, dataset="cora", layers=2):
    return rows.assign(dataset=dataset, layers=layers, evolution="added", repeat=0)


def test_figures_are_written(small_comparison, tmp_path):
    rows = named(small_comparison[-1])
    both = pd.concat([rows, rows.assign(dataset="citeseer"), rows.assign(layers=3)])
    files = draw_fidelity(both, tmp_path)
    assert sorted(file.name for file in files) == sorted(
        f"fidelity-{what}-{depth}layers.{kind}"
        for what in ("mean", "deviation", "residual", "added")
        for depth in (2, 3)
        for kind in ("png", "pdf")
    )
    table = pd.DataFrame(
        {"dataset": "cora", "layers": 2, "evolution": ["added", "removed"], "preserved_percent": [100.0, 100.0]}
    )
    files += draw_preservation(table, tmp_path)
    assert all(file.stat().st_size > 1000 for file in files)
    means, deviations = mean_by_level(both), deviation_by_level(both)
    assert means.shape == deviations.shape == (3 * 9, 10)


def test_claims_name_their_exceptions():
    levels = {"convex": [0.5, 0.4], "deeplift": [0.6, 0.3], "linear": [0.7, 0.8], "gnnlrp": [0.9, 0.95]}
    rows = pd.DataFrame(
        {"dataset": "cora", "layers": 2, "evolution": "added", "method": method, "objective": "sufficiency",
         "level": level, "fidelity_minus": value + spread}
        for method, values in levels.items()
        for level, value in enumerate(values, start=1)
        for spread in (-0.1, 0.1)
    )  # fmt: skip
    verdicts = {verdict.claim: verdict for verdict in check_claims(rows)}
    lowest = verdicts["convex has the smallest mean fidelity of the paper's six"]
    assert (lowest.held, lowest.cases) == (1, 2)
    assert lowest.exceptions == ("cora, 2 layers, level 2: 0.4000 against deeplift 0.3000",)
    assert verdicts["convex falls from level to level"].holds
    assert not verdicts["linear falls from level to level"].holds
    assert verdicts["gnnlrp rises somewhere as the level goes up"].holds


def test_the_page_has_standard_errors_and_the_spread_over_trainings():
    """Two networks of two targets each; a target's mean over levels is written beside its rows."""
    fidelity = {"convex": [0.1, 0.3, 0.2, 0.6], "deeplift": [0.2, 0.6, 0.6, 1.0], "exact": [0.1, 0.2, 0.2, 0.5]}
    rows = pd.DataFrame(
        {"dataset": "cora", "layers": 2, "training": i // 2, "repeat": 0, "target": i % 2, "num_paths": 11 + i}
        | {
            "method": method,
            "objective": "sufficiency",
            "level": level,
            "fidelity_minus": value + 0.01 * (2 * level - 1),
        }
        for method, values in fidelity.items()
        for i, value in enumerate(values)
        for level in (0, 1)
    )
    networks = [{"dataset": "cora", "layers": 2, "training": i, "test": 0.7 + 0.2 * i} for i in range(2)]
    jobs = [{"dataset": "cora", "layers": 2, "changed": 5}] * 2
    page = write_fidelity_page(rows, networks, jobs).split("\n")
    assert page[2] == "| cora | 2 | 0.800 | 10 | 4 | 12 | 14 | 50 |"
    error = np.std(fidelity["convex"], ddof=1) / 2
    lead = np.subtract(fidelity["deeplift"], fidelity["convex"])
    assert f"| **0.300** ± {error:.3f} |" in page[6]
    assert page[6].endswith(f"| {lead.mean():.3f} ± {np.std(lead, ddof=1) / 2:.3f} (deeplift) |")
    assert page[10].startswith(f"| cora | 2 | 2 | 0.800 ± {np.std([0.7, 0.9], ddof=1):.3f} |")
    assert f"| 0.300 ± {np.std([0.2, 0.4], ddof=1):.3f} |" in page[10]
    assert page[10].endswith("| 2 of 2 |")


def test_a_stopped_run_goes_on_and_gives_the_same_table(tmp_path):
    jobs = [Job("cora", 2, "added", repeat) for repeat in range(4)]
    ran = []

    def run(job):
        ran.append(job.repeat)
        frame = pd.DataFrame({"repeat": [job.repeat] * 2, "value": np.random.default_rng(job.repeat).normal(size=2)})
        frame.attrs = {"targets": 2}
        return frame

    def stop_at(limit):
        def run_some(job):
            if job.repeat == limit:
                raise KeyboardInterrupt
            return run(job)

        return run_some

    whole = merge_parts(dict(run_parts(jobs, run, tmp_path / "whole", {})), jobs)
    ran.clear()
    with pytest.raises(KeyboardInterrupt):
        list(run_parts(jobs, stop_at(2), tmp_path / "stopped", {}))
    resumed = merge_parts(dict(run_parts(jobs, run, tmp_path / "stopped", {})), jobs)
    assert ran == [0, 1, 2, 3]
    pd.testing.assert_frame_equal(whole, resumed)
    list(run_parts(jobs, run, tmp_path / "stopped", {"other": "settings"}))
    assert len(ran) == 8
    assert not list(tmp_path.rglob("*.part"))


def test_a_damaged_part_is_run_again_and_one_folder_is_for_one_run(tmp_path):
    jobs = [Job("cora", 2, "added", repeat) for repeat in range(3)]
    ran = []

    def run(job):
        ran.append(job.repeat)
        return pd.DataFrame({"value": np.random.default_rng(job.repeat).normal(size=50)})

    whole = merge_parts(dict(run_parts(jobs, run, tmp_path, {})), jobs)
    parts = sorted(tmp_path.glob("*.parquet"))
    held = bytearray(parts[1].read_bytes())
    held[100] ^= 1
    parts[1].write_bytes(held)
    parts[2].write_bytes(parts[2].read_bytes()[:-50])
    ran.clear()
    pd.testing.assert_frame_equal(merge_parts(dict(run_parts(jobs, run, tmp_path, {})), jobs), whole)
    assert ran == [1, 2]
    first = run_parts(jobs, run, tmp_path, {})
    next(first)
    with pytest.raises(InputError, match="another experiment is running"):
        next(run_parts(jobs, run, tmp_path, {}))
    first.close()
    next(run_parts(jobs, run, tmp_path, {}))


def test_tables_keep_their_notes(tmp_path):
    frame = pd.DataFrame({"a": [1, 2]})
    frame.attrs = {"targets": 3}
    write_table(frame, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").attrs == {"targets": 3}
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-9])
    with pytest.raises(InputError, match="Expected a whole Parquet table"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="no prediction changed"):
        merge_parts({Job("cora", 2, "added", 0): frame[:0]}, [Job("cora", 2, "added", 0)])


def test_settings_of_a_comparison_are_checked():
    with pytest.raises(ValueError, match="Expected a data set among cora"):
        running.Comparison(names=("moon",))
    with pytest.raises(ValueError, match="Expected an evolution among added, removed, both"):
        running.Comparison(evolution="sideways")
    with pytest.raises(ValueError, match="at least 1 repeat"):
        running.Comparison(repeats=0)
    with pytest.raises(ValueError, match="a number of layers"):
        running.Comparison(layers=(0,))


@pytest.mark.slow
def test_the_same_numbers_on_any_number_of_workers(tmp_path, data_root):
    comparison = running.Comparison(("cora",), (2,), 2, max_targets=4)
    one = running.run_comparison(comparison, tmp_path / "one", root=data_root)
    two = running.run_comparison(comparison, tmp_path / "two", root=data_root, workers=2)
    pd.testing.assert_frame_equal(one[NUMBERS], two[NUMBERS])
    record = json.loads((tmp_path / "one" / "fidelity.json").read_text())
    assert record["accuracies"][0]["test"] > 0.8
    assert record["machine"]["cores"] >= 1
    assert record["seeds"] == {"training": [0], "sample": 0, "evolution": [0, 1]}
    assert record["accuracies"][0]["weights"] == DIGESTS["cora", 2]
    assert {"torch", "numba"} <= set(record["machine"])
    assert {"torch", "torch_geometric", "numpy", "axiompath"} <= set(record["versions"])


def test_equal_settings_give_equal_weights(tmp_path):
    data = prepare(random_graph())
    training = Training("random", 2, epochs=5)
    first, again = train(data, training, tmp_path), train(data, training)
    cached = train(data, training, tmp_path)
    for a, b, c in zip(first.model.parameters(), again.model.parameters(), cached.model.parameters(), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)
    assert settings_for("amazon_photo", 2).key != settings_for("amazon_photo", 3).key


def as_trained_by_torch(graph, weights, keep, labels, nodes):
    """Gradients of the same network, written as plain torch operations."""
    dense = {}
    for name in ("adjacency", "x"):
        matrix = getattr(graph, name)
        rows = np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr))
        width = len(getattr(graph, f"{name}_transposed").indptr) - 1
        dense[name] = torch.zeros(len(matrix.indptr) - 1, width, dtype=torch.float64)
        dense[name][rows, matrix.indices] = torch.from_numpy(matrix.values)

    def gather(messages):
        if not graph.by_maximum:
            return dense["adjacency"] @ messages
        none = torch.full_like(messages, -torch.inf)
        return torch.where((dense["adjacency"] > 0)[:, :, None], messages, none).max(dim=1).values

    parameters = [torch.from_numpy(weight.copy()).requires_grad_() for weight in weights]
    h = gather(dense["x"] @ parameters[0])
    for parameter, share in zip(parameters[1:], keep, strict=True):
        h = gather((torch.relu(h) * torch.from_numpy(share)) @ parameter)
    torch.nn.functional.cross_entropy(h[nodes], torch.from_numpy(labels)[nodes]).backward()
    return h.detach().numpy(), parameters


@pytest.mark.parametrize("aggregation", ["sum", "max"])
def test_training_steps_are_those_of_torch(aggregation):
    rng = np.random.default_rng(0)
    data = prepare(random_graph())
    graph, _, _ = _scale(data, aggregation)
    labels, nodes = data.y.numpy(), np.arange(0, 60, 3)
    weights = [rng.normal(size=shape) for shape in ((8, 6), (6, 5), (5, 3))]
    keep = [(rng.random((60, width)) >= 0.2) / 0.8 for width in (6, 5)]
    logits, parameters = as_trained_by_torch(graph, weights, keep, labels, nodes)
    adam, theirs = Adam(weights, 0.03), torch.optim.Adam(parameters, lr=0.03)
    for _ in range(3):
        states = forward(graph, weights, keep)
        assert np.allclose(states[-1], logits, rtol=1e-12, atol=1e-12)
        gradients = find_gradients(graph, weights, states, keep, labels, nodes)
        for mine, parameter in zip(gradients, parameters, strict=True):
            assert np.allclose(mine, parameter.grad.numpy(), rtol=1e-10, atol=1e-14)
        torch.nn.utils.clip_grad_norm_(parameters, 0.01)
        theirs.step()
        weights = adam.move(weights, clip_gradients(gradients, 0.01))
        for mine, parameter in zip(weights, parameters, strict=True):
            assert np.allclose(mine, parameter.detach().numpy(), rtol=1e-7)
        weights = [parameter.detach().numpy().copy() for parameter in parameters]
        logits, fresh = as_trained_by_torch(graph, weights, keep, labels, nodes)
        for parameter, other in zip(parameters, fresh, strict=True):
            parameter.grad = other.grad


def test_the_exponential_is_exact_to_the_last_places():
    for x in [0.0, -1e-300, -1e-9, *np.linspace(-699, 0, 2001)]:
        assert math.isclose(exponential(x), math.exp(x), rel_tol=1e-15), x
    assert exponential(-701.0) == 0.0


# As poor a processor as this one can play: torch, BLAS, numpy, the C library and numba all pick other code under these.
POOR = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "OMP_NUM_THREADS": "1",
}
PROGRAM = """
import sys
import torch
from research.experiments.conditions import describe_machine
from axiompath.native.threads import limit_cores
sys.path.insert(0, sys.argv[1])
from test_experiments import {name}
limit_cores(1)
print(describe_machine()["torch"], describe_machine()["numba"])
for line in {name}(*sys.argv[2:]):
    print(line, flush=True)
"""


def on_a_poor_processor(name, *arguments):
    """Lines that a generator of this file yields in a process of its own, with every wide instruction refused."""
    folder = Path(__file__).parent
    place = os.environ | POOR | {"PYTHONPATH": str(folder.parent.parent)}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(name=name), folder, *map(str, arguments)]
    done = subprocess.run(command, env=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    machine, *lines = done.stdout.splitlines()
    assert machine == "DEFAULT generic"
    return lines


def small_digests():
    """Digests of three trainings on a graph that no library function with a rounding of its own has touched."""
    rng = np.random.default_rng(0)
    data = random_graph(num_nodes=400, num_pairs=1200)
    data.x = torch.from_numpy(rng.random((400, 30)))
    for training in (
        Training("small", 2, epochs=60),
        Training("small", 3, epochs=60),
        Training("small", 3, epochs=60, dropout=0.0, step=0.05, clip=0.5),
    ):
        yield train(prepare(data), training).digest


# The digests themselves stand here so that every other machine which runs the tests is compared with this one too.
SMALL_DIGESTS = ["898c2dd412bc60ab", "760612b6198e590f", "3c12ba497157f5fe"]


def test_weights_are_the_same_to_the_last_bit_on_every_machine():
    assert list(small_digests()) == SMALL_DIGESTS


@pytest.mark.slow
def test_weights_are_the_same_to_the_last_bit_on_a_poor_processor():
    assert on_a_poor_processor("small_digests") == SMALL_DIGESTS


# Of the weights behind docs/results.md: (data set, layers) -> digest.
DIGESTS = {
    ("cora", 2): "38ee0e80786c2265",
    ("cora", 3): "7ccb77bfc95ef436",
    ("citeseer", 2): "d12bb6d92ca16b4f",
    ("citeseer", 3): "60617adbfc5e3ace",
    ("pubmed", 2): "4b18336be5b3083a",
    ("pubmed", 3): "1a265e02011faa90",
    ("amazon_computers", 2): "b0be91af49413553",
    ("amazon_computers", 3): "2fab6467fcda5d33",
    ("amazon_photo", 2): "ccfebd33622e070f",
    ("amazon_photo", 3): "45f25e76dc3ce31e",
    ("coauthor_cs", 2): "e3798a9766550c09",
    ("coauthor_cs", 3): "0614d15bff3aa087",
    ("coauthor_physics", 2): "b13fc556600626f6",
    ("coauthor_physics", 3): "e140931b3a4f6271",
    ("pubmed_pmid", 2): "6a9543ca983cf743",
    ("highschool_2013", 2): "e4f1f6a464aff201",
    ("dblp_coauthor", 2): "614cb24a4b0d7e3d",
}


def all_digests(root, *names):
    """A line for each training of docs/results.md on these data sets, all of them if none is named."""
    for name, layers in DIGESTS:
        if names and name not in names:
            continue
        if name in datasets.NAMES:
            trained = train(prepare(datasets.load(name, root)), settings_for(name, layers))
        else:
            slide = timed.Slide(name, layers)
            trained = timed.train_first(slide, timed.load_slide(slide, root))
        yield f"{name} {layers} {trained.digest}"


def test_weights_of_the_results_are_those_of_the_page(data_root):
    assert list(all_digests(data_root, "highschool_2013")) == [known_digest("highschool_2013", 2)]
    assert list(all_digests(data_root, "cora")) == [known_digest("cora", layers) for layers in (2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in DIGESTS))
def test_weights_of_every_data_set_are_the_same_on_a_poor_processor(name, data_root):
    expected = [known_digest(*key) for key in DIGESTS if key[0] == name]
    assert list(all_digests(data_root, name)) == expected
    assert on_a_poor_processor("all_digests", data_root, name) == expected


def known_digest(name, layers):
    return f"{name} {layers} {DIGESTS[name, layers]}"


def test_the_finished_model_predicts_what_training_saw():
    # Training sees a scaled graph; its best validation accuracy must come back on the plain one.
    data = prepare(random_graph(num_nodes=300, num_pairs=900))
    data.y = (data.x.to_dense()[:, 0] > 0).long()
    untrained = train(data, Training("random", 2, epochs=0))
    trained = train(data, Training("random", 2, epochs=60))
    assert trained.val_accuracy > max(0.6, untrained.val_accuracy)


@pytest.mark.skipif(not can_compare(), reason="cvxpy and scs are not installed")
def test_scs_finds_no_better_relaxation():
    rng = np.random.default_rng(0)
    contributions, before = rng.normal(size=(40, 3)), rng.normal(size=3)
    after = before + contributions.sum(axis=0)
    weights = solve_with_scs(contributions, before, after, 5)
    ours = select(contributions, before, after, 5, "convex")
    shift = contributions.T @ weights
    value = np.logaddexp.reduce(before + shift) - np.exp(after - np.logaddexp.reduce(after)) @ (before + shift)
    mine = contributions.T @ ours.weights
    best = np.logaddexp.reduce(before + mine) - np.exp(after - np.logaddexp.reduce(after)) @ (before + mine)
    assert best <= value + 1e-4


@pytest.mark.parametrize("aggregation", ["mean", pytest.param("max", marks=pytest.mark.slow)])
def test_other_aggregations_and_parallel_edges_are_settings_of_the_same_comparison(aggregation, tmp_path, data_root):
    options = {"methods": (("convex", "sufficiency"),), "max_targets": 2}
    rows = running.run_comparison(
        running.Comparison(("cora",), (2,), 1, aggregation=aggregation, **options), tmp_path, root=data_root
    )
    assert set(rows.aggregation) == {aggregation}
    table = pd.read_csv(tmp_path / "fidelity-by-level.csv")
    assert table[table.group == "all"]["count"].sum() == len(rows)
    assert table[table.group != "all"]["count"].sum() == len(rows)
    assert (rows.kl > 0).all()
    with pytest.raises(InputError, match="an aggregation among sum, mean, max"):
        running.Comparison(aggregation="median")
    with pytest.raises(InputError, match="with parallel edges"):
        running.run_comparison(running.Comparison(("cora",), (2,), 1, edges="parallel"), tmp_path, root=data_root)


def test_parallel_edges_are_as_many_as_the_paper_counts(data_root):
    for name, counted in PAPER_ENTRIES.items():
        data = datasets.load(name, data_root)
        wide = with_parallel_edges(data, name)
        assert wide.edge_index.shape[1] == counted
        after = datasets.evolve(data, added=5, seed=1)
        more = with_parallel_edges(after, name, data)
        assert more.edge_index.shape[1] - counted == 10  # the new ones are single
        merged = coalesce(wide.edge_index)
        assert torch.equal(merged, coalesce(data.edge_index))


def test_scipy_finds_the_same_relaxation():
    rng = np.random.default_rng(1)
    contributions, before = rng.normal(size=(30, 3)), rng.normal(size=3)
    after = before + contributions.sum(axis=0)
    weights = solve_with_scipy(contributions, before, after, 4)
    assert weights.sum() == pytest.approx(4, abs=1e-6)
    left = kl_divergence(after, before + contributions.T @ weights)
    assert left == pytest.approx(select(contributions, before, after, 4, "convex").kl_bound, abs=1e-5)


def random_addition(seed, num_nodes=12):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, num_nodes, size=(2, 20))
    loops = np.tile(np.arange(num_nodes), (2, 1))
    whole = np.unique(np.concatenate([edges, edges[::-1], loops], axis=1), axis=1)
    before = Data(x=torch.from_numpy(rng.normal(size=(num_nodes, 4))), edge_index=torch.from_numpy(whole))
    return random_sum_gnn([4, 5, 5, 3], seed), before, datasets.evolve(before, added=4, seed=seed)


def test_steps_of_one_edge_are_complete_in_every_order_and_one_step_is_one_shot():
    model, before, after = random_addition(3)
    explainer = Explainer(model, before, after)
    differences = []
    for target in explainer.moved().target.tolist():
        seen = look_around(before, after, target, 3)
        rows = list(compare_orders(explainer.change.network, seen))
        assert max(row["incomplete"] for row in rows) < 1e-11
        assert {row["num_paths"] for row in rows} == {len(explainer.attribute(target).paths)}
        differences += [row["difference"] for row in rows]
        single = Surroundings(seen.before, seen.added[:1], seen.place)
        assert {row["difference"] for row in compare_orders(explainer.change.network, single)} == {0.0}
    assert max(differences) > 0.01  # else nothing was compared


def test_steps_on_cora_are_told_by_data_set(tmp_path, data_root):
    rows = run_steps(Job("cora", 2, "added", 0), max_targets=3, root=data_root, cache=tmp_path)
    (explained,) = summarise_steps(rows).to_dict("records")
    assert explained["targets"] == rows.attrs["targets"] == 3
    assert explained["incomplete"] < 1e-11
    assert 0 < explained["difference_mean"] <= explained["difference_largest"] < 0.5


def test_input_neurons_of_the_papers_example_are_traced_back(tmp_path, capsys):
    explainer = worked_example.open_example()
    (target,) = explainer.moved().target[explainer.moved().class_before != explainer.moved().class_after]
    shares = worked_example.share_inputs(explainer)
    found = explainer.attribute(target)
    assert {tuple(path) for path in found.paths.tolist()} == {*worked_example.PAPER_PATHS}  # those of the paper's text
    # Every ReLU above a new edge is open in both graphs here, so a share is input x weight x weight, by hand.
    hidden, logits = (np.array(weights) for weights in (worked_example.HIDDEN_WEIGHTS, worked_example.LOGIT_WEIGHTS))
    for row in shares.to_dict("records"):
        leaf, column = worked_example.PEOPLE.index(row["leaf"]), worked_example.INPUTS.index(row["input"])
        by_hand = worked_example.AGES_AND_GENDERS[leaf][column] * logits @ hidden[:, column]
        np.testing.assert_allclose([row["z_1"], row["z_2"], row["z_3"]], by_hand, atol=1e-12)
    np.testing.assert_allclose(shares[["z_1", "z_2", "z_3"]].sum(), found.contributions.sum(axis=0), atol=1e-12)
    # The best three leave more than the best two: a target need not approach step by step, though all of it arrives.
    left = worked_example.approach(explainer).left
    assert left[3] > left[2]
    assert left[4] == pytest.approx(0, abs=1e-12)
    commands.example(tmp_path)
    assert "gender" in capsys.readouterr().out
    assert read_table(tmp_path / "example.parquet").equals(worked_example.share_inputs(worked_example.open_example()))
    assert "versions" in json.loads((tmp_path / "example.json").read_text())
    for name in ("distances", "input-neurons"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_runtime_rows_hold_every_step(tmp_path, data_root):
    rows = run_runtime(Job("cora", 2, "added", 0), sample=2, root=data_root, cache=tmp_path)
    assert (rows[["walking_seconds", "convex_seconds", "exact_seconds"]] > 0).all(axis=None)
    for solver in ("scs", "early", "scipy"):
        assert rows[f"{solver}_seconds"].notna().sum() == (2 if can_compare() else 0)
    assert rows.num_paths.is_monotonic_increasing
    assert all(file.stat().st_size > 1000 for file in draw_runtime(rows, tmp_path))


def test_sliding_snapshots_lose_and_gain_edges(data_root):
    slide = timed.Slide("highschool_2013", 2, windows=4, span=2)
    snapshots = timed.load_slide(slide, data_root)
    assert len(snapshots) == 3
    assert snapshots[0].window[1] > snapshots[1].window[0]
    rows = timed.run_timed(slide, root=data_root, max_targets=3)
    assert [record["transition"] for record in rows.attrs["transitions"]] == [0, 1]
    assert all(record["came"] > 0 and record["went"] > 0 for record in rows.attrs["transitions"])
    with pytest.raises(ValueError, match="a span from 1 to 3"):
        timed.Slide("highschool_2013", windows=4, span=4)
    with pytest.raises(ValueError, match="with labels to train on"):
        timed.load_slide(timed.Slide("bitcoinotc"), data_root)


def test_flags_take_several_values():
    given = ["reproduce", "fidelity", "--datasets", "cora", "citeseer", "--repeats", "2", "--layers", "2", "3"]
    assert commands.repeat_flags(given) == [
        "reproduce", "fidelity", "--datasets", "cora", "--datasets", "citeseer", "--repeats", "2",
        "--layers", "2", "--layers", "3",
    ]  # fmt: skip
    assert commands.repeat_flags(["--layers"]) == ["--layers"]
    assert commands.split_commas(["cora,citeseer", "pubmed"], ()) == ("cora", "citeseer", "pubmed")
    assert commands.read_depths(None, (2, 3)) == (2, 3)
    with pytest.raises(ValueError, match="such as `--layers 2 3`"):
        commands.read_depths(["two"], ())


def run_command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["axiompath", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


def test_the_command_writes_table_record_and_figures(tmp_path, data_root, monkeypatch, capsys):
    out = tmp_path / "results"
    arguments = ("reproduce", "fidelity", "--datasets", "cora", "--layers", "2", "--repeats", "1", "--max-targets", "3")
    assert run_command(monkeypatch, *arguments, "--root", data_root, "--out", out) == 0
    table = read_table(out / "fidelity.parquet")
    assert table.columns.tolist() == COLUMNS
    assert table.target.nunique() == 3
    assert (out / "fidelity-mean-2layers.png").is_file()
    assert (out / "fidelity-mean-2layers.pdf").is_file()
    assert "convex" in capsys.readouterr().out
    assert run_command(monkeypatch, "reproduce", "claims", "--out", out) == 0
    assert "smallest mean fidelity" in capsys.readouterr().out
    assert run_command(monkeypatch, "reproduce", "claims", "--out", tmp_path) == 2
    assert run_command(monkeypatch, *arguments[:3], "moon", "--out", out) == 2
    assert "Expected a data set among" in capsys.readouterr().err
    assert run_command(monkeypatch, *arguments, "--methods", "magic", "--out", out) == 2


def test_json_is_all_that_is_printed(data_root, tmp_path, capsys):
    commands.preservation(names=["cora"], layers=["2"], repeats=1, root=data_root, out=tmp_path, json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["preserved_percent"] for row in rows] == [100, 100, 100]


def test_flips_are_summed_up_by_how_many_changes_undo_them():
    rows = [("a", 9, 1, True, True), ("a", 30, 5, True, False), ("a", 40, 0, False, False), ("b", 8, 2, True, True)]
    table = pd.DataFrame(rows, columns=["dataset", "in_sight", "size", "restored", "proved"]).assign(seconds=0.5)
    first, second = summarise_flips(table).to_dict("records")
    assert [first[key] for key in ("flips", "in_sight", "one", "two", "three", "more")] == [3, 30, 1, 0, 0, 1]
    assert [first[key] for key in ("none_found", "largest", "proved", "proved_of_more")] == [1, 5, 1, 0]
    assert (second["two"], second["proved"]) == (1, 1)


@pytest.mark.slow
def test_flips_of_a_real_graph_are_undone(data_root, tmp_path):
    settings = FlipSettings(("pubmed_pmid",), transitions=1, max_flips=5, seconds=5.0)
    table = run_flips(settings, tmp_path, root=data_root)
    assert len(table) == 5
    assert table.restored.all()
    assert (table["size"] > table.excluded).all()
    assert (tmp_path / "flips.parquet").is_file()


def test_errors_name_options(call, tmp_path):
    code, _, error = call("reproduce", "preservation", "--root", tmp_path / "nowhere")
    assert code == 2
    assert "pass --root or set" in error
