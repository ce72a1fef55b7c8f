"""Which edges carry a path, whichever way a layer's messages flow: edge masks and replay on real graphs."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, GraphConv, SAGEConv

import axiompath
from axiompath import Explanation
from axiompath.errors import InputError
from support.references import literal_exchange, literal_placement
from support.scans import scan_and_compare

FLOWS = {"along": "source_to_target", "against": "target_to_source"}
PAIRS = [("along", "along"), ("against", "against"), ("along", "against"), ("against", "along")]
PAIRS += [("along against", "along"), ("against", "along against")]
CONVOLUTIONS = {
    "sum": (lambda a, b, flow: GraphConv(a, b, flow=flow), True),
    "gcn": (lambda a, b, flow: GCNConv(a, b, flow=flow), True),
    "mean": (lambda a, b, flow: SAGEConv(a, b, flow=flow), False),
    "attention": (lambda a, b, flow: GATConv(a, b, flow=flow), False),
}


class Flowing(nn.Module):
    """A layer for each of `flows`; one that flows both ways has two convolutions and adds what they give."""

    def __init__(self, make, flows, weighted):
        super().__init__()
        widths = [(3, 6), (6, 3)]
        self.layers = nn.ModuleList(
            nn.ModuleList(make(*width, FLOWS[word]) for word in flow.split())
            for width, flow in zip(widths, flows, strict=True)
        )
        self.weighted = weighted

    def forward(self, x, edge_index, edge_weight=None):
        given = (edge_index, edge_weight) if self.weighted else (edge_index,)
        for i, convs in enumerate(self.layers):
            x = sum(conv(x, *given) for conv in convs)
            x = x.relu() if i == 0 else x
        return x


def evolution(seed, weighted, parallel=True):
    """Nodes 100 to 900 in another order in each graph; some come, some go; edges too, some of them several times."""
    rng = np.random.default_rng(seed)
    nodes, x = np.arange(100, 1000, 100), rng.normal(size=(9, 3))
    shared = [(u, v) for u in range(9) for v in range(9) if rng.random() < 0.25]  # one-way edges and loops
    graphs = []
    for drop in (8, 0):
        here = rng.permutation([i for i in range(9) if i != drop])
        row = {int(i): r for r, i in enumerate(here)}
        edges = [e for e in shared if rng.random() < 0.8]
        edges = [(row[u], row[v]) for u, v in edges if u in row and v in row]
        edges += edges[: 4 * parallel]
        data = Data(x=torch.from_numpy(x[here]), edge_index=torch.tensor(edges).T, n_id=torch.from_numpy(nodes[here]))
        if weighted:
            data.edge_weight = torch.from_numpy(rng.uniform(0.2, 2, size=len(edges)))
        graphs.append(data)
    return graphs


def run_literal(model, nodes, features, edges, weighted):
    """The user's model on a graph built from scratch: logits by node number."""
    row = {node: i for i, node in enumerate(nodes)}
    ends = torch.tensor([[row[u], row[v]] for u, v, _ in edges], dtype=torch.long).reshape(-1, 2).T
    given = (torch.tensor([w for *_, w in edges], dtype=torch.float64),) if weighted else ()
    with torch.no_grad():
        return dict(zip(nodes, model(torch.stack(features), ends, *given).numpy(), strict=True))


@pytest.mark.parametrize("flows", PAIRS, ids=" then ".join)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_replayed_edges_are_those_of_a_graph_edited_by_hand(name, flows):
    make, weighted = CONVOLUTIONS[name]
    torch.manual_seed(len(name))
    model = Flowing(make, flows, weighted).double().eval()
    graphs = evolution(sum(map(ord, name)), weighted)
    explainer = axiompath.Explainer(model, *graphs)
    compared = 0
    for target in explainer.moved().target[:5]:
        paths = explainer.attribute(target).paths
        for chosen in (paths[:1], paths[1:4], paths[::3], paths):
            for add in (False, True):
                base, other = graphs if add else graphs[::-1]
                edited = literal_exchange(base, other, chosen.tolist(), flows)
                expected = run_literal(model, *edited, weighted)[target]
                found = explainer.replay_edges(target, chosen, add=add)
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
                compared += len(edited[0]) > base.num_nodes
    assert compared  # a node came back with its edges


@pytest.mark.parametrize("flows", PAIRS, ids=" then ".join)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_masks_place_every_step_and_lose_nothing(name, flows, tmp_path):
    make, weighted = CONVOLUTIONS[name]
    torch.manual_seed(len(name))
    model = Flowing(make, flows, weighted).double().eval()
    before, after = evolution(sum(map(ord, name)), weighted)
    explainer = axiompath.Explainer(model, before, after)
    some_lost = some_looped = False
    for target in explainer.moved().target[:5]:
        e = explainer.explain(target, 30, "topk")
        shares = e.contributions[:, e.class_after]
        mask, lost, loops = literal_placement(e.paths.tolist(), shares, flows, weighted, before, after)
        pyg = e.to_pyg()
        assert pyg.validate()
        np.testing.assert_allclose(pyg.edge_mask, mask, atol=1e-5)
        assert pyg.lost_edges == pytest.approx(lost)
        np.testing.assert_allclose(pyg.loops, loops, atol=1e-5)
        steps = (e.paths[:, :-1] >= 0).sum(axis=1)
        placed = float(pyg.edge_mask.sum() + pyg.loops.sum()) + sum(pyg.lost_edges.values())
        assert placed == pytest.approx(float(shares @ steps), abs=1e-4)
        assert after.n_id[pyg.index].item() == target
        some_lost, some_looped = some_lost or bool(lost), some_looped or any(loops)
        e.save(tmp_path / "saved.json")
        back = Explanation.load(tmp_path / "saved.json")
        assert back.hops == e.hops
        again = back.to_pyg(after, before)
        assert torch.equal(again.edge_mask, pyg.edge_mask)
        assert again.lost_edges == pyg.lost_edges
        assert torch.equal(again.loops, pyg.loops)
        part = pyg.get_explanation_subgraph()
        assert part.lost_edges == pyg.lost_edges
    assert some_lost
    assert some_looped


def line(*edges, weight=None, num_nodes=4):
    data = Data(x=torch.eye(num_nodes, dtype=torch.float64)[:, :3] + 0.1, edge_index=torch.tensor(edges).T)
    if weight is not None:
        data.edge_weight = torch.tensor(weight, dtype=torch.float64)
    return data


def sums(flow="source_to_target"):
    torch.manual_seed(0)
    return Flowing(lambda a, b, _: GraphConv(a, b, flow=flow), ("along", "along"), True).double().eval()


def test_parallel_edges_share_by_weight_or_equally():
    for weight, shares in ((None, (0.5, 0.5)), ((1.0, 1.0, 3.0), (0.25, 0.75)), ((1.0, 2.0, -2.0), (0.5, 0.5))):
        before = line((1, 2), weight=None if weight is None else weight[:1])
        after = line((1, 2), (0, 1), (0, 1), weight=weight)
        e = axiompath.Explainer(sums(), before, after).explain(1, 5, "topk")
        over = e.contributions[(e.paths[:, :2] == (0, 1)).all(axis=1) | (e.paths[:, 1:] == (0, 1)).all(axis=1)]
        total = over[:, e.class_after].sum()
        if weight is None or sum(weight[1:]):
            assert total != 0
        np.testing.assert_allclose(e.to_pyg().edge_mask[1:], total * np.array(shares), rtol=1e-5, atol=1e-12)


def test_a_lost_edge_is_named_as_the_graph_had_it():
    for flow, target in (("source_to_target", 2), ("target_to_source", 0)):
        before, after = line((0, 1), (1, 2)), line((1, 2) if target == 2 else (0, 1))
        pyg = axiompath.Explainer(sums(flow), before, after).explain(target, 9, "topk").to_pyg()
        assert (0, 1) in pyg.lost_edges if target == 2 else (1, 2) in pyg.lost_edges
        assert len(pyg.lost_edges) == 1


def test_a_saved_explanation_asks_for_what_it_needs():
    torch.manual_seed(0)
    model = Flowing(CONVOLUTIONS["sum"][0], ("along against", "along"), True).double().eval()
    before, after = line((1, 0), (1, 2)), line((1, 2))
    e = axiompath.Explainer(model, before, after).explain(2, 9, "topk")
    back = Explanation.from_dict(json.loads(json.dumps(e.to_dict())))
    with pytest.raises(InputError, match=r"`before` as well .* to_pyg\(after, before\)"):
        back.to_pyg(after)
    assert back.to_pyg(after, before).lost_edges == e.to_pyg().lost_edges
    assert set(e.to_pyg().lost_edges) == {(1, 0)}
    with pytest.raises(InputError, match=r"the graphs that were explained .* neither has an edge for the step"):
        back.to_pyg(line((2, 3)), line((2, 3)))
    with pytest.raises(InputError, match=r"`after` of this explanation \(got one without node 2\)"):
        back.to_pyg(line((0, 1), num_nodes=2))


def test_a_record_without_hops_has_its_steps_along_the_edges():
    before, after = line((0, 1), (1, 2)), line((1, 2))
    e = axiompath.Explainer(sums(), before, after).explain(2, 9, "topk")
    values = e.to_dict()
    old = Explanation.from_dict(values | {"hops": []})
    assert torch.equal(old.to_pyg(after).edge_mask, e.to_pyg().edge_mask)
    assert old.to_pyg(after).lost_edges == e.to_pyg().lost_edges
    for flow, number, words in (
        ("sideways", 2, r"`hops\[0\]\.flow` should be one of source_to_target, target_to_source, both"),
        ("both", 1, "`hops` should be one for each step of a path"),
    ):
        with pytest.raises(ValueError, match=words):
            Explanation.from_dict({**values, "hops": [{"flow": flow, "weighted": False}] * number})


def test_scans_keep_the_flows(tmp_path):
    before, after = line((0, 1), (1, 2)), line((0, 1), (1, 2), (3, 2))
    explainer = axiompath.Explainer(sums("target_to_source"), before, after)
    for found in scan_and_compare(explainer, tmp_path, 5, "topk"):
        assert {hop.flow for hop in found.hops} == {"target_to_source"}
        mine = explainer.explain(found.target, 5, "topk")
        assert torch.equal(found.to_pyg(after, before).edge_mask, mine.to_pyg().edge_mask)


# ---- paths that do not exist --------------------------------------------------------------------------------------
def test_paths_that_neither_graph_has_are_refused():
    before, after = line((0, 1), (1, 2)), line((1, 2), (3, 1))
    explainer = axiompath.Explainer(sums(), before, after)
    fine = [[0, 1, 2], [3, 1, 2], [2, 2, 2], [1, 2, 2], [-1, 1, 2], [-1, 2, 2], [-1, -1, 2]]
    for ask in (explainer.replay, explainer.replay_edges):
        for add in (False, True):
            ask(2, fine, add=add)
            for wrong in ([0, 2, 2], [2, 1, 2], [0, -1, 2], [0, 3, 2]):
                with pytest.raises(InputError, match=r"edges of `before` or of `after`") as told:
                    ask(2, [*fine, wrong, [3, 3, 2]], add=add)
                assert f"(got {wrong}, which neither graph has)" in str(told.value)


def test_a_path_must_lie_in_one_graph_from_leaf_to_root():
    before, after = line((0, 1)), line((1, 2))
    explainer = axiompath.Explainer(sums(), before, after)
    with pytest.raises(InputError, match=r"got \[0, 1, 2\], which neither graph has"):
        explainer.replay(2, [[0, 1, 2]])


def test_a_source_without_a_bias_does_not_exist():
    torch.manual_seed(0)
    model = Flowing(lambda a, b, _: GCNConv(a, b, bias=False), ("along", "along"), True).double().eval()
    explainer = axiompath.Explainer(model, line((0, 1), (1, 2)), line((1, 2)))
    with pytest.raises(InputError, match=r"got \[-1, 1, 2\], which neither graph has"):
        explainer.replay(2, [[-1, 1, 2]])


def test_every_path_that_any_method_chooses_exists():
    before, after = evolution(3, True)
    torch.manual_seed(0)
    model = Flowing(CONVOLUTIONS["gcn"][0], ("along", "against"), True).double().eval()
    explainer = axiompath.Explainer(model, before, after)
    for target in explainer.moved().target:
        for method in ("topk", "gnnlrp", "grad"):
            explainer.replay(target, explainer.explain(target, 40, method).paths)
        explainer.replay(target, explainer.attribute(target).paths)
