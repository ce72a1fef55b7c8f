"""Models as people write them: each is read exactly, or refused with the line and a way out; never wrong."""

import functools
from collections import Counter

import pytest
import torch
from torch import nn

from readers.zoo.evolutions import evolve
from readers.zoo.judge import READ as IS_READ
from readers.zoo.judge import REFUSED, WRONG, judge
from readers.zoo.table import BY_NAME, EITHER, READ, REFUSE, ROWS

SEEDS = (0, 3)  # as many edges as nodes; a new node
AT_LEAST_READ = 139  # of the rows that are to be read; raised as more are
AT_LEAST_LOCATED = 15  # refusals of rows that are to be refused which name a line of the zoo


@functools.cache
def verdict(name, seed):
    return BY_NAME[name].judge(seed)


def check(name, seed):
    found = verdict(name, seed)
    assert found.status in (IS_READ, REFUSED), f"{found.status}: {found.words}"
    if BY_NAME[name].expected == REFUSE:
        assert found.status == REFUSED, f"read, and to be refused: {BY_NAME[name].reason}"


@pytest.mark.parametrize("name", BY_NAME)
def test_no_model_is_read_wrongly(name):
    for seed in SEEDS:
        check(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("seed", range(10, 20))
def test_no_model_is_read_wrongly_on_more_evolutions(name, seed):
    check(name, seed)


class Mirror(nn.Module):
    """Another model's answer, but for some graphs a little more."""

    def __init__(self, model, altered):
        super().__init__()
        self.model, self.altered = model, altered

    def forward(self, x, edge_index):
        out = self.model(x, edge_index)
        return out + 1e-6 * torch.arange(3) if self.altered(edge_index) else out


@pytest.mark.parametrize(("applied", "what"), [((), "logits"), ((0,), "blame"), (range(4), "logits")])
def test_the_judge_sees_a_millionth_on_any_graph(applied, what):
    """Before, after, and a mixed graph, which only blame runs on."""
    row, evolution = BY_NAME["PyG Sequential"], evolve(1, reweight=False)
    model, odd = row.model(), row.data(evolution.graph(applied))

    def is_odd(edge_index):
        return edge_index.shape == odd.edge_index.shape and bool((edge_index == odd.edge_index).all())

    assert judge(model, evolution, row.data).status == IS_READ
    found = judge(model, evolution, row.data, truth=Mirror(model, is_odd))
    assert found.status == WRONG
    assert found.words.startswith(what)


def test_the_table_is_of_many_models_with_names_of_their_own():
    assert len(BY_NAME) == len(ROWS) >= 80
    assert all(row.reason for row in ROWS if row.expected != READ)


def test_as_many_models_are_read_as_before():
    statuses = {row.name: {verdict(row.name, seed).status for seed in SEEDS} for row in ROWS}
    expected = {kind: [row.name for row in ROWS if row.expected == kind] for kind in (READ, EITHER, REFUSE)}
    read = {kind: [name for name in names if statuses[name] == {IS_READ}] for kind, names in expected.items()}
    located = [name for name in expected[REFUSE] if all(verdict(name, seed).located for seed in SEEDS)]
    print(f"\n{len(read[READ])} of {len(expected[READ])} models that are to be read are read, and")
    print(f"{len(read[EITHER])} of {len(expected[EITHER])} that may be; {len(located)} of {len(expected[REFUSE])}")
    print("refusals name the line. Not read:")
    for name in expected[READ]:
        if name not in read[READ]:
            (words, *_) = (verdict(name, seed).words for seed in SEEDS if verdict(name, seed).status != IS_READ)
            print(f"  {name}: {words[:150]}")
    print(Counter(status for found in statuses.values() for status in found))
    assert len(read[READ]) >= AT_LEAST_READ
    assert len(located) >= AT_LEAST_LOCATED
