"""What Python runs before it is compiled: the same answers as compiled loops, and when which of them is taken."""

import importlib
import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE

import axiompath
from axiompath import interpreted
from axiompath.compiled import compiled
from axiompath.interpreted import Early
from axiompath.scan import engines
from axiompath.selection import select_many

MODULES = (
    "graphs.rows", "change.union_loops", "paths.share_loops", "paths.source_loops", "paths.walk_loops",
    "selection.batch", "selection.slopes",
)  # fmt: skip


def early_loops():
    for module in MODULES:
        for name, loop in vars(importlib.import_module(f"axiompath.{module}")).items():
            if isinstance(loop, Early):
                yield name, loop


@contextmanager
def by_python():
    """Every early loop run by Python, whatever is kept; gives the names of those that were."""
    ran = set()

    def run(self, *given):
        ran.add(self.py_func.__name__)
        with np.errstate(all="ignore"):
            return interpreted.interpreted(self.loop)(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Early, "__call__", run)
        yield ran


@pytest.mark.parametrize("output", ["classes", "labels", "value"])
@pytest.mark.parametrize("method", ["convex", "exact", "linear"])
def test_python_chooses_what_compiled_loops_choose(output, method):
    random = np.random.default_rng(3)
    parts = [random.normal(size=(m, 3)) * random.exponential(size=(m, 1)) * 0.3 for m in (0, 1, 7, 12, 130)]
    before = random.normal(size=(len(parts), 3))
    after = before + [part.sum(axis=0) for part in parts]
    for until, budget, objective in ((None, 4, "sufficiency"), (0.8, 9, "necessity")):
        given = parts, before, after, budget, method, objective
        machine = select_many(*given, output=output, until=until)
        with by_python() as ran:
            python = select_many(*given, output=output, until=until)
        assert ran
        for mine, other in zip(python, machine, strict=True):
            assert sorted(mine.chosen) == sorted(other.chosen)
            assert mine.kl_residual == pytest.approx(other.kl_residual, rel=1e-9, abs=1e-15)
            assert mine.kl_bound == pytest.approx(other.kl_bound, rel=1e-6, abs=1e-9 * other.kl_residual + 1e-15)
            assert (mine.status, mine.fewest) == (other.status, other.fewest)


@pytest.mark.parametrize("kind", [GCN, GAT, GraphSAGE])
def test_python_walks_and_attributes_as_compiled_loops_do(kind):
    torch.manual_seed(0)
    edges = torch.randint(0, 30, (2, 90))
    before = Data(x=torch.randn(30, 5).double(), edge_index=edges)
    moved = before.x.clone()
    moved[4] += 1.0
    after = Data(x=moved, edge_index=torch.cat([edges[:, 4:], torch.tensor([[3, 8], [5, 3]])], dim=1))
    for classes in (2, 11):
        model = kind(5, 6, 2, classes).double().eval()
        targets = [3, 5, 9]
        explainer = axiompath.Explainer(model, before, after)
        machine = explainer.attribute(5), list(explainer.explain_many(targets, budget=3))
        with by_python() as ran:
            explainer = axiompath.Explainer(model, before, after)
            python = explainer.attribute(5), list(explainer.explain_many(targets, budget=3))
        assert {"fill_union", "fill_leaves", "relax_range"} <= ran
        mine, other = python[0], machine[0]
        assert np.array_equal(mine.paths, other.paths)
        assert np.allclose(mine.contributions, other.contributions, rtol=1e-12, atol=1e-15)
        for mine, other in zip(python[1], machine[1], strict=True):
            assert sorted(mine.paths.tolist()) == sorted(other.paths.tolist())  # equal weights, in any order
            assert mine.kl_residual == pytest.approx(other.kl_residual, rel=1e-9, abs=1e-15)


def test_a_loop_is_compiled_when_it_is_worth_it(monkeypatch):
    monkeypatch.setattr(interpreted, "_is_wanted", True)

    @compiled(early=1.0, steps=lambda values: 1e9 if values[0] > 8 else 1.0)
    def add(values):
        total = 0.0
        for i in range(len(values)):
            total += 1.0 / values[i]
        return total

    vars(add.loop)["_cache"] = type("None", (), {"load_overload": lambda *_: None, "save_overload": lambda *_: None})()
    assert add(np.array([2.0, 4.0])) == 0.75
    assert not add.loop.overloads
    assert 0.0 < add.left < 1.0
    assert add(np.array([16.0])) == 0.0625
    assert len(add.loop.overloads) == 1
    assert add(np.array([2.0])) == 0.5
    assert add.left == 0.0


def test_the_bytes_of_a_scan_do_not_depend_on_what_was_compiled_before(tmp_path, monkeypatch):
    edges = torch.randint(0, 30, (2, 90), generator=torch.Generator().manual_seed(0))
    before = Data(x=torch.eye(30).double(), edge_index=edges)
    after = Data(x=before.x, edge_index=edges[:, 3:])
    explainer = axiompath.Explainer(GCN(30, 6, 2, 3).double().eval(), before, after)
    monkeypatch.setattr(interpreted, "_is_wanted", True)
    monkeypatch.setattr(interpreted, "is_kept", lambda *_: False)  # as after an installation
    for _, loop in early_loops():
        monkeypatch.setattr(loop, "left", 9.0)
        monkeypatch.setattr(loop, "steps", lambda *_: 1.0)
    monkeypatch.setattr(engines, "PART_BYTES", 0.0)  # no worker, whose processes cannot be looked into
    explainer.explain(int(explainer.moved().target[0]))
    assert 0.0 < dict(early_loops())["relax_range"].left < 9.0  # by Python
    explainer.scan(tmp_path / "scan", 3, min_kl=0.0, progress=False)
    left = {name: loop.left for name, loop in early_loops()}
    assert left["relax_range"] == left["take_sources"] == 0.0  # compiled at once


FIRST = """
import sys
import numpy as np
from axiompath.selection import select
from axiompath.selection.batch import relax_range
random = np.random.default_rng(0)
rows = random.normal(size=(9, 2))
print(select(rows, np.zeros(2), rows.sum(axis=0), 2, sys.argv[1]).chosen.tolist(), len(relax_range.loop.overloads))
"""


def test_a_first_choice_compiles_nothing(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path)}
    for method in ("convex", "exact"):
        command = [sys.executable, "-c", FIRST, method]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.endswith("] 0\n"), done.stderr
        assert not list(tmp_path.rglob("*.nbc"))


def test_loops_may_be_run_by_python_for_as_long_as_compiling_takes():
    found = dict(early_loops())
    assert {"relax_range", "fill_union", "take_sources", "place_edges", "fill_leaves"} <= set(found)
