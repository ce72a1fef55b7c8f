"""Every convolution read by its class and by its operations: the same paths, the same shares."""

import numpy as np
import pytest
from torch import nn

import axiompath
from support.convolutions import ATTR, CONVOLUTIONS, EVOLUTIONS, TYPE, Convolutions, evolution, randomise
from support.readings import by_operations, largest_difference, without_biases

SAME = 1e-9
DIVIDED_OTHERWISE = {  # complete, but what is divided among edges, or products, goes to other paths
    "GraphConv max", "GraphConv min", "PNA max", "Edge mean", "Hypergraph", "Hypergraph mean of heads",
    "GINE mean, backwards", "NN", "NN mean", "CG without edge features", "ResGated", "ResGated of edges", "FiLM",
    "FiLM without activation", "Transformer of edges", "Transformer of edges, gated", "GEN of edges",
    "General of edges", "General attention of edges", "General dots of both ends", "GIN variance", "PNA deep",
    "PointNet mean", "PointGNN", "PointTransformer", "PointTransformer of networks", "RGAT", "RGAT of edges",
}  # fmt: skip
REFUSED = {  # by operations
    "MF", "MF backwards", "SAGE deviation", "GINE deviation", "PNA deviation", "PNA deviation of senders",
    "EG deviation",
}  # fmt: skip
OTHER_PLACE_OF_A_BIAS = {  # the same without biases: these stand where the module adds them
    "GATv2", "GATv2 heads", "GATv2 shared", "PNA", "PNA towers", "GPS", "GPS of attention", "GPS of edges", "GINE",
    "GATv2 of edges", "GATv2 of edges, backwards", "PNA of edges",
}  # fmt: skip


def model_and_graphs(name):
    make, weighted = CONVOLUTIONS[name]
    seed = sum(map(ord, name))
    model = randomise(Convolutions([make(3, 3)], weighted, nn.ReLU()), seed)
    return model, evolution(seed, EVOLUTIONS[seed % len(EVOLUTIONS)], told=weighted in (ATTR, TYPE))


LISTED = [*CONVOLUTIONS][: [*CONVOLUTIONS].index("RGAT of edges") + 1]  # those compared so far
ALIKE = [name for name in LISTED if name not in DIVIDED_OTHERWISE | REFUSED]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIKE)
def test_operations_give_the_paths_and_shares_of_the_class_reader(name):
    model, graphs = model_and_graphs(name)
    assert (largest_difference(model, *graphs) > SAME) == (name in OTHER_PLACE_OF_A_BIAS)
    assert largest_difference(without_biases(model), *graphs) <= SAME


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DIVIDED_OTHERWISE))
def test_shares_that_are_divided_otherwise_sum_to_the_same_change(name):
    model, graphs = model_and_graphs(name)
    by_class = axiompath.Explainer(model, *graphs)
    with by_operations():
        by_steps = axiompath.Explainer(model, *graphs)
    for target in by_class.moved().target:
        first, second = by_class.attribute(target), by_steps.attribute(target)
        scale = max(1.0, np.abs(first.logits_after).max())
        for one in (first, second):
            np.testing.assert_allclose(one.contributions.sum(0), first.delta_logits, rtol=0, atol=SAME * scale)
