"""The PyG way in: a torch_geometric ExplainerAlgorithm whose explanations pass PyG's own checks."""

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.explain import HeteroExplanation, fidelity
from torch_geometric.nn import HeteroConv, SAGEConv

import axiompath
from axiompath import InputError
from axiompath.cli.demo import evolve_karate, train_karate

CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


@pytest.fixture(scope="module")
def karate():
    model, before = train_karate()
    return model, before, evolve_karate(before)


def pyg_explainer(model, before, **settings):
    chosen = {"explanation_type": "model", "edge_mask_type": "object", "model_config": CONFIG} | settings
    return PyGExplainer(model, algorithm=axiompath.pyg.PyGAlgorithm(before, budget=10, method="exact"), **chosen)


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


def test_names_of_nodes_label_the_picture(karate, tmp_path, monkeypatch):
    model, before, after = karate
    named = before.clone()
    named.node_names = [f"member {i}" for i in range(34)]
    explanation = pyg_explainer(model, named)(after.x, after.edge_index, index=8)
    assert explanation.validate()
    assert explanation.explanations[0].name == "member 8"
    drawn = {}
    monkeypatch.setattr(
        "torch_geometric.explain.explanation.visualize_graph",
        lambda edges, mask, path, backend, labels: drawn.update(labels=labels),
    )
    explanation.visualize_graph(str(tmp_path / "graph.png"))
    assert drawn["labels"][8] == "member 8"


class Papers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = HeteroConv({WRITES: SAGEConv((2, 4), 8), BY: SAGEConv((4, 2), 8)})
        self.last = HeteroConv({WRITES: SAGEConv((8, 8), 3)})

    def forward(self, x_dict, edge_index_dict):
        x = {kind: part.relu() for kind, part in self.conv(x_dict, edge_index_dict).items()}
        return self.last(x, {WRITES: edge_index_dict[WRITES]})["paper"]


WRITES, BY = ("author", "writes", "paper"), ("paper", "by", "author")


def week(edges):
    data = HeteroData()
    data["author"].x, data["paper"].x = torch.eye(2), torch.eye(4)
    data["author"].name = ["Ada", "Bob"]
    data[WRITES].edge_index = torch.tensor(edges)
    data[BY].edge_index = torch.tensor(edges).flip(0)
    return data


def test_typed_graphs_have_a_mask_for_each_relation(tmp_path):
    torch.manual_seed(0)
    model = Papers().eval()
    before, after = week([[0, 1, 1], [0, 2, 3]]), week([[0, 1, 0, 1], [0, 2, 2, 1]])
    explainer = pyg_explainer(model, before)
    explanation = explainer(after.x_dict, after.edge_index_dict, index=2)
    assert isinstance(explanation, HeteroExplanation)
    assert explanation.validate()
    assert explanation.available_explanations == ["edge_mask"]
    masks = explanation.edge_mask_dict
    assert {relation: len(mask) for relation, mask in masks.items()} == {WRITES: 4, BY: 4}
    assert max(float(mask.max()) for mask in masks.values()) == 1
    (change,) = explanation.explanations
    expected = axiompath.Explainer(model, before, after).explain(("paper", 2), 10, "exact")
    assert abs(change.contributions - expected.contributions).max() < 1e-12
    # The literal twin: what the stacked explanation places, cut by the number of its relation.
    placed = expected.to_pyg()
    for number, relation in enumerate((WRITES, BY)):
        part = placed.edge_mask[placed.edge_type == number].abs() / placed.edge_mask.abs().max()
        assert torch.allclose(masks[relation], part, atol=1e-6)
    assert all(kind in ("author", "paper") for edge in explanation.lost_edges for kind, _ in edge)
    explanation.visualize_graph(str(tmp_path / "typed.png"))
    assert (tmp_path / "typed.png").stat().st_size > 0
    assert explanation["author"].node_names[0].endswith("Ada")


def test_an_unknown_type_is_refused():
    torch.manual_seed(0)
    before = week([[0, 1], [0, 1]])
    before["author"].x = torch.ones(4, 2)
    before["author"].name = ["Ada", "Bob", "Cid", "Dan"]
    with pytest.raises(InputError, match=r"Expected to know which type of nodes the model predicts \(no prediction"):
        pyg_explainer(Papers().eval(), before)(before.x_dict, before.edge_index_dict, index=0)
