"""Compiled loops run on plain threads, over pieces of their rows: the same to the last bit, however many there are."""

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.nn import GATConv, GCNConv

import axiompath
from axiompath.native import threads
from support.evolutions import random_pair


class Net(torch.nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.first, self.last = conv(5, 6), conv(6, 3)

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)


@contextlib.contextmanager
def on_cores(number, monkeypatch):
    """In pieces on so many threads, however little there is to do."""
    with monkeypatch.context() as changed:
        changed.setattr(threads, "_limit", number)
        changed.setattr(threads, "MIN_WORK", 1)
        threads._pool.cache_clear()
        yield
    threads._pool.cache_clear()


def ask(model, before, after):
    """Arrays of all kinds of answers."""
    explainer = axiompath.Explainer(model, before, after)
    moved = explainer.moved()
    targets = moved.target.tolist()
    yield moved[["target", "kl"]].to_numpy()
    for one in explainer.attribute_many(targets):
        yield from (one.paths, one.contributions, one.kinds, *one.causes.values())
    for method in ("exact", "convex", "topk"):
        for one in explainer.explain_many(targets, 3, method, progress=False):
            yield from (one.paths, one.contributions, np.array([one.kl_residual, one.kl_bound]))
    for target in targets[:5]:
        yield explainer.blame(target, seed=0).shares
        yield np.array(explainer.enough(target).changes)
    for target in moved[moved.class_before != moved.class_after].target.tolist()[:5]:
        yield np.array(explainer.undo(target).changes)


@pytest.mark.system
@pytest.mark.parametrize("conv", [GCNConv, GATConv])
def test_answers_do_not_depend_on_the_number_of_threads_to_the_last_bit(conv, monkeypatch):
    torch.manual_seed(0)
    before, after = random_pair()
    model = Net(conv).double().eval()
    with on_cores(1, monkeypatch):
        alone = list(ask(model, before, after))
    assert len(alone) > 100
    for number in (2, 5):
        with on_cores(number, monkeypatch):
            several = list(ask(model, before, after))
        for one, other in zip(alone, several, strict=True):
            np.testing.assert_array_equal(one, other)


class Explained(torch.utils.data.Dataset):
    """The contributions of the chosen paths, one target each."""

    def __init__(self, explainer, targets):
        self.explainer, self.targets = explainer, targets

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, place):
        target = self.targets[place]
        listed = self.explainer.attribute(target).contributions.sum(axis=0)
        return np.concatenate([listed, self.explainer.explain(target, budget=3).contributions.ravel()])


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_workers_and_several_threads_answer_as_one_does(monkeypatch):
    torch.manual_seed(0)
    before, after = random_pair()
    explainer = axiompath.Explainer(Net(GCNConv).double().eval(), before, after)
    moved = explainer.moved()
    given = Explained(explainer, moved[moved.num_paths >= 3].target.tolist()[:8])
    with on_cores(2, monkeypatch):
        alone = [given[place] for place in range(len(given))]  # a pool of threads that a child must not wait for
        loader = DataLoader(given, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=120)
        forked = [one.numpy() for one in loader]
        with ThreadPoolExecutor(4) as pool:
            threaded = list(pool.map(given.__getitem__, range(len(given))))
    assert len(alone) == 8
    for one, *others in zip(alone, forked, threaded, strict=True):
        for other in others:
            np.testing.assert_array_equal(one, other)


def test_pieces_cover_every_row_once(monkeypatch):
    for number in (2, 3, 7):
        with on_cores(number, monkeypatch):
            for size in (1, 2, 5, 100, 1001):
                times = np.zeros(size, dtype=np.int64)

                def add(start, stop, times):
                    times[start:stop] += 1

                threads.run_in_pieces(add, size, 10.0, times)
                assert (times == 1).all()
