"""The PyG way in: a torch_geometric ExplainerAlgorithm whose explanations pass PyG's own checks."""

import pytest
import torch
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.explain import fidelity

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate

CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


@pytest.fixture(scope="module")
def karate():
    model, before = train_karate()
    return model, before, evolve_karate(before)


def pyg_explainer(model, before, **settings):
    chosen = {"explanation_type": "model", "edge_mask_type": "object", "model_config": CONFIG} | settings
    return PyGExplainer(model, algorithm=axiompath.PyGAlgorithm(before, budget=10, method="exact"), **chosen)


def test_an_explanation_passes_pygs_own_checks_and_tools(karate, tmp_path):
    model, before, after = karate
    explainer = pyg_explainer(model, before)
    explanation = explainer(after.x, after.edge_index, index=8)
    assert explanation.validate()
    assert explanation.available_explanations == ["edge_mask"]
    assert explanation.edge_mask.shape == (after.num_edges,)
    assert 0 <= float(explanation.edge_mask.min()) <= float(explanation.edge_mask.max()) == 1
    positive, negative = fidelity(explainer, explanation)
    assert 0 <= positive <= 1
    assert 0 <= negative <= 1
    part = explanation.get_explanation_subgraph()
    assert 0 < part.num_edges < after.num_edges
    explanation.visualize_graph(str(tmp_path / "graph.png"), backend="networkx")
    assert (tmp_path / "graph.png").stat().st_size > 0
    (change,) = explanation.explanations
    expected = axiompath.Explainer(model, before, after).explain(8, 10, "exact")
    assert change.to_dict() == expected.to_dict()
    assert torch.allclose(
        explanation.edge_mask, change.to_pyg().edge_mask.abs() / change.to_pyg().edge_mask.abs().max()
    )


def test_several_nodes_or_all_that_changed(karate):
    model, before, after = karate
    explainer = pyg_explainer(model, before)
    several = explainer(after.x, after.edge_index, index=torch.tensor([8, 13]))
    assert [change.target for change in several.explanations] == [8, 13]
    every = explainer(after.x, after.edge_index)
    assert len(every.explanations) == len(axiompath.Explainer(model, before, after).moved())
    nothing = explainer(before.x, before.edge_index, index=8)
    assert not nothing.edge_mask.any()


@pytest.mark.parametrize(
    "settings",
    [
        {"explanation_type": "phenomenon"},
        {"edge_mask_type": None, "node_mask_type": "object"},
    ],
)
def test_what_it_cannot_do_is_refused_when_it_is_connected(karate, settings):
    model, before, _ = karate
    with pytest.raises(ValueError, match="does not support"):
        pyg_explainer(model, before, **settings)


def test_arguments_of_the_model_that_before_lacks_are_refused(karate):
    model, before, after = karate
    explainer = pyg_explainer(model, before)
    with pytest.raises(ValueError, match=r"Expected `batch`, an argument .*`after` has it, `before` has not"):
        explainer(after.x, after.edge_index, index=8, batch=torch.zeros(34, dtype=torch.long))
