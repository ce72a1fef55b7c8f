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
from support.settings import digest, setting

SAME = 1e-9
SETTINGS = np.load(ROOT / "tests" / "readers" / "shares_of_settings.npz")
# Those readers divided shares otherwise, for reasons of their own: where messages are made on edges, their products,
# maxima and biases were placed by hand. Sums are equal, as `test_shares_sum_to_the_change` shows.
OTHERWISE = {
    "AntiSymmetric 2 hops", "CG", "CG without edge features", "EG deviation", "Edge", "Edge mean", "FA backwards",
    "FastRGCN sum", "FiLM", "FiLM max of relations", "FiLM of relations", "FiLM without activation", "GEN of edges",
    "GINE", "GINE deviation", "GINE mean, backwards", "GPS of edges", "General attention of edges",
    "General dots of both ends", "General of edges", "GraphConv max", "GraphConv min", "Hypergraph",
    "Hypergraph mean of heads", "NN", "NN mean", "PNA", "PNA deep", "PNA deviation", "PNA deviation of senders",
    "PNA max", "PNA of edges", "PNA towers", "PointGNN", "PointNet mean", "PointTransformer",
    "PointTransformer of networks", "RGAT", "RGAT of edges", "RGAT within relations", "ResGated", "ResGated of edges",
    "SAGE deviation", "Transformer of edges", "Transformer of edges, gated", "model EdgeCNN", "model PMLP",
    "model PNA",
}  # fmt: skip
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


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
@pytest.mark.parametrize("name", sorted({*SETTINGS["names"].tolist()} - OTHERWISE))
def test_random_settings_have_the_shares_that_were_written_down(name, seed):
    """Of twenty settings of each convolution and model, a digest of all paths and shares, with all biases at 0."""
    written, scale = SETTINGS["digests"][SETTINGS["names"].tolist().index(name), seed]
    if np.isnan(written):
        pytest.skip("it was not read then")
    model, graphs = setting(name, seed)
    found, ours = digest(axiompath.Explainer(model, *graphs))
    np.testing.assert_allclose(found, written, rtol=0, atol=10 * SAME * max(scale, ours))
