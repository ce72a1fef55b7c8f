"""What Python runs before it is compiled: the same answers as compiled loops, and when which of them is taken."""

import importlib
import os
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from threading import Barrier

import numpy as np
import pytest
import torch
from numba.core.dispatcher import Dispatcher
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE

import axiompath
from axiompath import interpreted, threads
from axiompath.change.states import KINDS
from axiompath.compiled import compiled
from axiompath.explain import answer
from axiompath.explain.question import Question
from axiompath.interpreted import Early
from axiompath.scan import run
from support.scans import NO_NAMES, weighted_evolution

MODULES = (
    "graphs.rows", "change.union_loops", "paths.share_loops", "paths.source_loops", "paths.walk_loops",
)  # fmt: skip


NARROW = namedtuple("Given", "values")


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
        return interpreted.run_by_python(self.loop, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Early, "__call__", run)
        yield ran


def arrays_of(given):
    for value in given:
        if isinstance(value, tuple):
            yield from arrays_of(value)
        elif isinstance(value, np.ndarray):
            yield value


@contextmanager
def both_ways():
    """Every early loop run compiled and by Python, on equal arguments; gives how far the numbers of each one went."""
    reached = {}

    def run(self, *given):
        twice = deepcopy(given)  # what is one array stays one
        machine, python = self.loop(*given), interpreted.run_by_python(self.loop, twice)
        assert machine == python
        name = self.py_func.__name__
        near = {"rtol": 1e-9, "atol": 1e-12}
        for ours, other in zip(arrays_of(twice), arrays_of(given), strict=True):
            assert ours.dtype == other.dtype
            same = partial(np.allclose, equal_nan=True, **near) if ours.dtype.kind == "f" else np.array_equal
            assert same(ours, other), name
        reached[name] = max([reached.get(name, 0), *(array.size for array in arrays_of(given))])
        return machine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Early, "__call__", run)
        patch.setattr(threads, "_limit", 1)  # whole arrays are compared, and nobody else may write to them
        yield reached


@pytest.mark.parametrize(("nodes", "links"), [(300, 900), pytest.param(40_000, 60_000, marks=pytest.mark.slow)])
def test_python_computes_as_widely_as_compiled_loops_in_every_loop(nodes, links, tmp_path):
    before, after = weighted_evolution(nodes, links)
    model = GCN(3, 4, 2, 3).double().eval()
    names = ["before", "after"]
    with both_ways() as reached:
        explainer = axiompath.Explainer(model, before, after)
        targets = explainer.moved().target[:60].tolist()
        assert len(targets) * 3 * len(KINDS) > 127
        list(explainer.attribute_many(targets))
        few = np.argsort(np.where(explainer.num_paths > 3, explainer.num_paths, nodes))[:2]
        for method in ("convex", "topk"):
            list(explainer.explain_many(few.tolist(), 3, method))
            searched = answer.open_batch(explainer.change, few, explainer.num_paths[few])
            answer.answer(explainer.change, searched, [Question(3, method)], NO_NAMES)
        for name, data in zip(names, (before, after), strict=True):
            axiompath.save_graph(tmp_path / f"{name}.npz", data)
            axiompath.convert_graph(tmp_path / f"{name}.npz", tmp_path / name)
        stored = axiompath.Explainer(model, *(axiompath.open_graph(tmp_path / name) for name in names))
        assert stored.moved().target[:60].tolist() == targets
    assert set(reached) == set(dict(early_loops()))
    wide = {name for name, size in reached.items() if size > nodes}
    assert {"place_edges", "fill_union", "count_layer", "take_sources", "sum_descents"} <= wide


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.float32])
def test_numbers_of_narrow_arrays_do_not_wrap(kind, monkeypatch):
    monkeypatch.setattr(interpreted, "_is_wanted", True)
    most = 100 if kind is np.float32 else np.iinfo(kind).max

    @compiled(early=1.0)
    def scale(given, factor, wide, narrow):
        for i in range(len(given.values)):
            wide[i] = (given.values[i] * 40 + factor) * 3 - 0.1
            narrow[i] = given.values[i] // 2

    vars(scale.loop)["_cache"] = type(
        "None", (), {"load_overload": lambda *_: None, "save_overload": lambda *_: None}
    )()
    values = np.array([0, 1, 40, most], dtype=kind)
    outcomes = []
    for loop in (scale, scale.loop):
        wide, narrow = np.zeros(4), np.zeros(4, dtype=kind)
        loop(NARROW(values), kind(90), wide, narrow)
        outcomes.append((wide, narrow))
        assert len(scale.loop.overloads) == (loop is scale.loop)
    (mine, mine_narrow), (other, other_narrow) = outcomes
    assert mine.tolist() == other.tolist() == [(float(value) * 40 + 90) * 3 - 0.1 for value in values]
    assert mine_narrow.tolist() == other_narrow.tolist()
    assert mine_narrow.dtype == kind


def test_what_is_one_array_stays_one_and_what_overlaps_is_compiled(monkeypatch):
    monkeypatch.setattr(interpreted, "_is_wanted", True)

    @compiled(early=1.0)
    def shift(one, other):
        for i in range(len(one) - 1):
            one[i + 1] = other[i] + 1

    vars(shift.loop)["_cache"] = type(
        "None", (), {"load_overload": lambda *_: None, "save_overload": lambda *_: None}
    )()
    array = np.zeros(5, dtype=np.int16)
    shift(array, array[:])
    assert array.tolist() == [0, 1, 2, 3, 4]
    assert not shift.loop.overloads
    array = np.zeros(6, dtype=np.int16)
    shift(array[1:], array[:-1])
    assert array.tolist() == [0, 0, 1, 1, 2, 2]
    assert len(shift.loop.overloads) == 1


def test_pieces_that_threads_write_to_do_not_undo_each_other():
    """Both take their copies before either writes back."""
    array, start = np.zeros(2, dtype=np.int8), Barrier(2)

    class Loop:
        @staticmethod
        def py_func(place, given):
            raise AssertionError

    def put(place, given):
        start.wait(60)
        given[place] = 1
        start.wait(60)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(interpreted, "interpreted", lambda loop: put)
        for done in [pool.submit(interpreted.run_by_python, Loop, (place, array)) for place in range(2)]:
            done.result()
    assert array.tolist() == [1, 1]


NARROW_WORDS = {"int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"}


def test_no_loop_that_python_may_run_makes_narrow_numbers_itself():
    """Only its arguments and tables are widened."""
    functions, waiting = set(), [loop.py_func for _, loop in early_loops()]
    while waiting:
        function = waiting.pop()
        if function in functions:
            continue
        functions.add(function)
        words = {*function.__code__.co_names}
        assert not words & NARROW_WORDS, function
        known = function.__globals__
        waiting += [known[word].py_func for word in words if isinstance(known.get(word), Dispatcher | Early)]
        waiting += [known[word].by_python for word in words if hasattr(known.get(word), "by_python")]
    assert len(functions) > 20


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
        assert {"fill_union", "fill_leaves"} <= ran
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
    monkeypatch.setattr(run, "PART_BYTES", 0.0)  # no worker, whose processes cannot be looked into
    explainer.explain(int(explainer.moved().target[0]))
    assert 0.0 < dict(early_loops())["take_sources"].left < 9.0  # by Python
    explainer.scan(tmp_path / "scan", 3, min_kl=0.0, progress=False)
    left = {name: loop.left for name, loop in early_loops()}
    assert left["take_sources"] == 0.0  # compiled at once


MANY = """
import numpy as np
import torch
from torch_geometric.nn import GCN
import axiompath
from axiompath.paths.share_loops import sum_causes
from support.scans import weighted_evolution
torch.manual_seed(0)
explainer = axiompath.Explainer(GCN(3, 4, 2, 3).double().eval(), *weighted_evolution(300, 900))
targets = explainer.moved().target[:40].tolist()
change = explainer.change
logits = change.after_pass.logits - change.before_pass.logits
for found in explainer.attribute_many(targets):
    for shares in (found.contributions, np.stack(list(found.causes.values()))):
        assert abs(shares.sum(axis=0) - logits[found.target]).max() < 1e-12
assert not sum_causes.loop.overloads
print(len(targets))
"""


def test_many_targets_are_attributed_after_an_installation(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, env=environment)
    assert done.stdout.endswith("40\n"), done.stderr


def test_loops_may_be_run_by_python_for_as_long_as_compiling_takes():
    found = dict(early_loops())
    assert {"fill_union", "take_sources", "place_edges", "fill_leaves"} <= set(found)
