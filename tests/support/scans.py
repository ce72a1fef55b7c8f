"""Graphs to scan, what a scan wrote, and processes that are measured."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from axiompath.explain.explanation import Caption
from axiompath.native.threads import limit_cores
from axiompath.scan import work
from axiompath.storage.origin import Origin

EVIL = "</script><img src=x onerror=alert(1)> \u2028 {{ 7*7 }}\n<b>"


CLASSES = ["north", "south <i>", "east"]


def evolved(seed=0, num_nodes=260):
    """Communities, some edges of which come and go, a node's features that change, names that attack."""
    rng = np.random.default_rng(seed)
    labels = np.arange(num_nodes) % 3
    pairs = rng.integers(0, num_nodes, (2, 4 * num_nodes))
    pairs = pairs[:, (labels[pairs[0]] == labels[pairs[1]]) | (rng.random(pairs.shape[1]) < 0.2)]
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    pairs = pairs[:, rng.permutation(pairs.shape[1])]
    more = np.stack([rng.choice(num_nodes, 25, replace=False), rng.choice(num_nodes, 25, replace=False)])
    more = more[:, more[0] != more[1]]
    x = torch.from_numpy(0.5 * np.eye(3)[labels] + 0.7 * rng.normal(size=(num_nodes, 3))).float()
    before, after = (
        Data(x=x.clone(), edge_index=torch.from_numpy(np.concatenate([p, p[::-1]], axis=1)))
        for p in (pairs, np.concatenate([pairs[:, 25:], more], axis=1))
    )
    after.x[7] += 2
    return before, after


def with_names(session, **names):
    """A session whose path engine writes these names."""
    return replace(session, path_engine=replace(session.paths, **names))


NO_NAMES = Caption(Origin("", {}))


def evolving_graph(num_nodes=700, num_changes=60, seed=0):
    """A graph with hubs, and the same with edges added and removed."""
    rng = np.random.default_rng(seed)
    places = np.cumsum((1 - rng.random(num_nodes)) ** -0.6)
    pairs = np.searchsorted(places / places[-1], rng.random((2, 4 * num_nodes)))
    x = torch.from_numpy(rng.normal(size=(num_nodes, 8)).astype(np.float32))
    kept = np.delete(pairs, rng.choice(pairs.shape[1], num_changes // 2, replace=False), axis=1)
    new = np.concatenate([kept, rng.integers(0, num_nodes, (2, num_changes // 2))], axis=1)
    both = [np.concatenate([ends, ends[::-1]], axis=1) for ends in (pairs, new)]
    return [Data(x=x, edge_index=torch.from_numpy(edges)) for edges in both]


def content(folder):
    """Every file and a digest of its bytes."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def scan(explainer, folder, **options):
    return explainer.scan(folder, **{"min_kl": 0.0, "workers": 1, "progress": False, "flip_seconds": 0, **options})


def in_a_process(run):
    """Run it in a process group of its own; returns the process number."""
    child = os.fork()
    if child == 0:
        os.setsid()
        code = 1
        try:
            run()
            code = 0
        finally:
            os._exit(code)
    return child


def peak_of(load, part):
    """Bytes by which a process grows that explains one part, the loaded program included."""
    ours, theirs = os.pipe()

    def run():
        limit_cores(1)
        held = _status("VmRSS")
        work.run_part(load, part)
        os.write(theirs, str(_status("VmHWM") - held).encode())

    child = in_a_process(run)
    _, status = os.waitpid(child, 0)
    assert status == 0
    grown = int(os.read(ours, 100))
    os.close(ours)
    os.close(theirs)
    return grown


def _status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


def weighted_evolution(nodes, links):
    """A sparse weighted graph with self-loops, of which edges leave, weights and features move."""
    torch.manual_seed(1)
    edges = torch.cat([torch.randint(0, nodes, (2, links)), torch.arange(nodes // 8).repeat(2, 1)], dim=1)
    edges[:, :20] %= nodes // 8
    before = Data(x=torch.randn(nodes, 3).double(), edge_index=edges, edge_weight=torch.rand(edges.shape[1]) + 0.1)
    moved, weight = before.x.clone(), before.edge_weight.clone()
    weight[4:8] *= 2.0
    moved[edges[0, 4:8]] += 1.0
    return before, Data(x=moved, edge_index=edges[:, 4:], edge_weight=weight[4:])


def check_alike(found, expected, where):
    """Numbers to 1e-7 of themselves or of 1, everything else exactly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected), where
        for place, pair in enumerate(zip(found, expected, strict=True)):
            check_alike(*pair, f"{where}/{place}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-7, nan_ok=True), where
    else:
        assert found == expected, where


def scan_and_compare(explainer, folder, *question):
    """A scan of all that moved; each of its records is, field by field, what `explain` answers, but for rounding."""
    found = explainer.scan(folder, *question, min_kl=0.0, workers=1, progress=False)
    assert [one.target for one in found] == explainer.moved().target.tolist()
    for one in found:
        check_alike(one.to_dict(), explainer.explain(one.target, *question).to_dict(), one.name)
    return found
