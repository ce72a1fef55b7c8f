"""The paper's comparison on trained networks: convex before every rival, exact at or below convex."""

import pandas as pd
import pytest

from research import datasets
from research.experiments.fidelity import COMPARED, PAPER_METHODS, budgets_for, mean_by_level, run_fidelity
from research.experiments.job_parts import Job
from research.experiments.trained import Training, prepare, train

ACCURACY = {"cora": 0.80, "citeseer": 0.68}


def test_budgets_follow_the_papers_appendix():
    assert budgets_for(10) == []
    assert budgets_for(11) == budgets_for(30) == list(range(1, 11))
    assert budgets_for(31) == budgets_for(99) == [10, 12, 14, 16, 18, 20, 22, 24, 26, 28]
    assert budgets_for(100) == budgets_for(10**6) == [10, 15, 20, 25, 30, 35, 40, 45, 50, 55]


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    return tmp_path_factory.mktemp("weights")


def compare(name, layers, repeats, data_root, weights):
    """Mean Fidelity-KL-minus: a row for each (method, objective), a column for each level."""
    assert (
        train(prepare(datasets.load(name, data_root)), Training(name, layers), weights).test_accuracy >= ACCURACY[name]
    )
    rows = pd.concat([run_fidelity(Job(name, layers, "added", i), data_root, weights) for i in range(repeats)])
    table = mean_by_level(rows).droplevel(["dataset", "layers", "evolution"])
    assert set(table.index) == set(COMPARED)
    return table


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_convex_is_best_of_the_papers_six_on_average(name, data_root, weights):
    table = compare(name, 2, 1, data_root, weights).mean(axis=1)
    rivals = [table[method, "sufficiency"] for method in PAPER_METHODS if method != "convex"]
    assert table["convex", "sufficiency"] < min(rivals)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_convex_is_below_every_rival_at_every_level_and_exact_at_or_below_convex(name, layers, data_root, weights):
    # Ten repeats, as in the paper: over the first three, `exact` is 0.7 % above convex on Cora with three layers.
    table = compare(name, layers, 10, data_root, weights)
    convex = table.loc[("convex", "sufficiency")]
    for method in PAPER_METHODS:
        if method != "convex":
            assert (convex < table.loc[(method, "sufficiency")]).all(), f"{method}\n{table}"
    assert table.loc[("exact", "necessity")].mean() <= convex.mean(), table
