"""Convolutions have the paths and shares that a reader of each class by hand gave them, which were written down once.

`shares.npz` holds, by convolution and target, paths and their shares with all biases at 0, from readers that knew each
class and its mathematics.
"""

from ast import literal_eval

import numpy as np
import pytest
import torch
from torch import nn

import axiompath
from support.convolutions import ATTR, CONVOLUTIONS, EVOLUTIONS, TYPE, Convolutions, evolution, randomise
from support.readings import PAIRS, Two, shares_of, snapshots, without_biases
from support.repository import ROOT

SAME = 1e-9
WRITTEN = np.load(ROOT / "tests" / "readers" / "shares.npz")


def model_and_graphs(name):
    make, weighted = CONVOLUTIONS[name]
    seed = sum(map(ord, name))
    model = randomise(Convolutions([make(3, 3)], weighted, nn.ReLU()), seed)
    return model, evolution(seed, EVOLUTIONS[seed % len(EVOLUTIONS)], told=weighted in (ATTR, TYPE))


def written(name):
    """Target -> path -> its share of every logit."""
    found = {}
    for key in WRITTEN.files:
        of, target, part = key.split("|")
        if of == name and part == "paths":
            paths = [literal_eval(path) for path in WRITTEN[key].tolist()]
            found[int(target)] = dict(zip(paths, WRITTEN[f"{of}|{target}|shares"], strict=True))
    return found


def assert_as_written(name, model, graphs):
    explainer = axiompath.Explainer(model, *graphs)
    for target, expected in written(name).items():
        found = shares_of(explainer.attribute(target))
        scale = max(1.0, *(float(np.abs(share).max()) for share in expected.values()))
        for path in found.keys() | expected.keys():
            np.testing.assert_allclose(found.get(path, 0.0), expected.get(path, 0.0), rtol=0, atol=SAME * scale)


NAMES = sorted({key.split("|")[0] for key in WRITTEN.files} & CONVOLUTIONS.keys())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_convolution_has_the_paths_and_shares_that_were_written_down(name):
    model, graphs = model_and_graphs(name)
    assert_as_written(name, without_biases(model), graphs)


@pytest.mark.parametrize("name", PAIRS)
def test_two_layers_have_the_paths_and_shares_that_were_written_down(name):
    torch.manual_seed(len(name))
    assert_as_written(f"two of {name}", without_biases(Two(PAIRS[name]()).double().eval()), snapshots(len(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CONVOLUTIONS.keys() - NAMES))
def test_shares_sum_to_the_change(name):
    model, graphs = model_and_graphs(name)
    explainer = axiompath.Explainer(model, *graphs)
    for target in explainer.moved().target:
        found = explainer.attribute(target)
        scale = max(1.0, np.abs(found.logits_after).max())
        np.testing.assert_allclose(found.contributions.sum(0), found.delta_logits, rtol=0, atol=SAME * scale)
