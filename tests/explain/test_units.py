"""Edges and layer edges as units of choice: against listed paths and a literal pass."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, GraphConv

import axiompath
from axiompath.explain.units import find_units, put_in
from axiompath.explain.walks import walk_rows
from axiompath.paths.entries import Cone
from support.players import evolve, open_model, targets_of


def split_listed(change, row):
    """(layer, receiver, sender) -> share, and leaf -> share: every path listed, split equally, summed. The twin."""
    listed = walk_rows(change, np.array([row])).table
    entries, leaves = {}, {}
    for path, share in zip(listed.paths.tolist(), listed.contributions, strict=True):
        steps, position = [], 0
        for t in range(change.lowest_hop, len(change.layers)):
            layer = change.layers[t]
            below, position = position, position + (not layer.local)
            if path[below] < 0:
                continue
            here = slice(*layer.indptr[path[position] : path[position] + 2])
            (place,) = np.flatnonzero(layer.indices[here] == path[below]) + here.start
            if (layer.before[place] != layer.after[place]).any():
                steps.append((t, path[position], path[below]))
        for step in steps:
            entries[step] = entries.get(step, 0) + share / len(steps)
        if not steps:
            leaves[path[0]] = leaves.get(path[0], 0) + share
    return entries, leaves


def literal_pass(change, chosen, leaves):
    """All logits by dense matrices: coefficients of `after` for the chosen (layer, receiver, sender), else `before`."""
    h = np.asarray(change.before_pass.received(change.lowest_hop)).copy()
    h[leaves] = np.asarray(change.after_pass.received(change.lowest_hop))[leaves]
    for t in range(change.lowest_hop, len(change.layers)):
        layer, change_of = change.network.layers[t], change.layers[t]
        z = np.zeros((len(change_of.indptr) - 1, layer.width))
        for channel in layer.channels:
            rule = layer.rules.index(channel.coefficients)
            a = np.zeros((len(z), len(h)))
            for v in range(len(z)):
                for e in range(change_of.indptr[v], change_of.indptr[v + 1]):
                    u = int(change_of.indices[e])
                    a[v, u] = (change_of.after if (t, v, u) in chosen else change_of.before)[e, rule]
            part = h[:, channel.inputs]
            z[:, channel.outputs] += a @ (part if channel.weight is None else part @ channel.weight)
        z = z if layer.bias is None else z + layer.bias
        h = layer.activate(z) if t < len(change.layers) - 1 else z
    return h


def entries_of(cone):
    return [
        (floor.number, int(floor.rows[v]), int(floor.below[u]))
        for floor in cone.floors
        for v, u in zip(floor.receiver[floor.changed], floor.sender[floor.changed], strict=True)
    ]


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gin", "link", "pooled"])
def test_shares_are_those_of_listed_paths(name):
    for seed in range(3):
        before, after = evolve(seed, 5, symmetric=seed % 2 == 0)
        _, explainer = open_model(name, before, after, seed)
        engine, rows = explainer.session.locate(targets_of(name, before, after)[:1])
        change, row = engine.change, int(rows[0])
        cone = Cone(change, row)
        found = cone.share()
        entries, leaves = split_listed(change, row)
        mine = dict(zip(entries_of(cone), np.concatenate(found.entries), strict=True))
        assert entries.keys() <= mine.keys()
        for step, share in mine.items():
            np.testing.assert_allclose(share, entries.get(step, 0), rtol=0, atol=1e-9)
        own = dict(zip(cone.floors[0].below[found.leaves].tolist(), found.features, strict=True))
        for leaf in own.keys() | leaves.keys():
            np.testing.assert_allclose(own.get(leaf, 0), leaves.get(leaf, 0), rtol=0, atol=1e-9)
        moved = change.after_pass.logits[row] - change.before_pass.logits[row]
        np.testing.assert_allclose(sum(map(sum, (*found.entries, found.features))), moved, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "link", "pooled"])
def test_what_is_put_in_is_a_pass_with_exactly_these_coefficients(name):
    rng = np.random.default_rng(1)
    before, after = evolve(2, 5)
    _, explainer = open_model(name, before, after, 2)
    engine, rows = explainer.session.locate(targets_of(name, before, after)[:1])
    change, row = engine.change, int(rows[0])
    cone = Cone(change, row)
    found = cone.share()
    for by in ("edge", "layer_edge"):
        units = find_units(found, by)
        size = len(units.labels)
        for chosen in (np.zeros(size, bool), np.ones(size, bool), *(rng.random((4, size)) < 0.5)):
            taken = np.concatenate([chosen[unit] for unit in units.of_entry])
            steps = {step for step, here in zip(entries_of(cone), taken, strict=True) if here}
            leaves = cone.floors[0].below[found.leaves[chosen[units.of_leaf]]]
            expected = literal_pass(change, steps, leaves)[row]
            np.testing.assert_allclose(put_in(found, units, chosen), expected, rtol=0, atol=1e-9)
        ends = [put_in(found, units, np.full(size, whole)) for whole in (False, True)]
        logits = change.before_pass.logits[row], change.after_pass.logits[row]
        np.testing.assert_allclose(ends, logits, rtol=0, atol=1e-9)


class Normed(nn.Module):
    """A local layer whose coefficients change, and two kinds of channels."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = GraphConv(4, 6), nn.LayerNorm(6), GCNConv(6, 3)

    def forward(self, x, edge_index):
        return self.second(self.norm(self.first(x, edge_index)).relu(), edge_index)


class Weighted(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight)


def test_layers_that_stay_at_their_node_are_complete_too():
    torch.manual_seed(0)
    before, after = evolve(4, 6)
    explainer = axiompath.Explainer(Normed().double(), before, after)
    for target in explainer.moved().target[:3]:
        for by in ("edge", "layer_edge"):
            told = explainer.explain(target, 10**6, by=by)
            assert told.completeness < 1e-9
            np.testing.assert_allclose(told.logits_added, told.logits_after, rtol=0, atol=1e-9)
            np.testing.assert_allclose(told.logits_undone, told.logits_before, rtol=0, atol=1e-9)
            assert told.explained == pytest.approx(1)


def test_an_explanation_by_edges_says_what_it_is():
    before, after = evolve(5, 6)
    _, explainer = open_model("gcn", before, after, 5)
    target = int(explainer.moved().target[0])
    for by in ("edge", "layer_edge"):
        told = explainer.explain(target, by=by)
        assert told.until == 0.9
        assert told.explained >= 0.9
        assert told.fewest in ("proved", "found")
        assert told.kl_bound <= told.kl_residual
        assert len(told.to_frame()) == len(told.edges) == told.budget
        assert f"of {told.num_units:,} changed" in told.summary()
        assert "The network itself, run on `before` with exactly these put in" in told.summary()
        again = axiompath.Explanation.from_dict(json.loads(json.dumps(told.to_dict())))
        assert again.to_dict() == told.to_dict()
        assert again.summary() == replace(told, ask=None).summary()
    two = explainer.explain(target, 2, "topk", "necessity", by="edge")
    assert (two.budget, two.until, len(two.edges)) == (2, None, 2)
    assert "`after` with exactly these put back" in two.summary()
    with pytest.raises(axiompath.InputError, match="`by` to be among layer_edge, edge"):
        explainer.explain(target, by="node")
    with pytest.raises(axiompath.InputError, match="which ranks paths"):
        explainer.explain(target, 2, "grad", by="edge")
    one = explainer.explain(target, 1, by="layer_edge")
    assert f"1 of {one.num_units} changed layer edges explains " in one.summary()
    share = one.contributions @ one.view[1]
    total = (one.logits_after - one.logits_before) @ one.view[1]
    np.testing.assert_allclose(share.sum() + sum(one.left_out), total, rtol=0, atol=1e-9)
    assert f"The other {one.num_units - 1} layer edges add {one.left_out[0]:.3g} to " in one.summary()
    for made, match in ((two.plot, "by paths to draw"), (two.to_html, "by paths"), (two.to_pyg, "by paths")):
        with pytest.raises(axiompath.InputError, match=match):
            made()
    with pytest.raises(axiompath.InputError, match="by edges"):
        explainer.explain(target, 2).edges  # noqa: B018
    with pytest.warns(DeprecationWarning, match=r"EdgeExplanation is now axiompath\.Explanation"):
        assert axiompath.EdgeExplanation is axiompath.Explanation
    small = axiompath.Explainer(explainer.session.models[-1], before, after, memory=100)
    with pytest.raises(axiompath.InputError, match="to split over edges"):
        small.explain(target, by="edge")


def test_directions_are_one_unit_by_pair_of_nodes_whatever_edges_elsewhere_are():
    """A pair that has the same edges both ways in both graphs is one unit; any other has a unit for each direction."""
    torch.manual_seed(0)
    x, model = torch.randn(7, 3, dtype=torch.float64), GraphConv(3, 2).double()
    both = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 3)]
    after = [(0, 1), (1, 0), (2, 0), (0, 2), (2, 0), (0, 2), (3, 0), (4, 0)]

    def units(*more):
        graphs = [
            Data(x=x, edge_index=torch.tensor(edges + list(more)).T, edge_weight=weights_of(edges + list(more)))
            for edges in (both, after)
        ]
        found = axiompath.Explainer(Weighted(model), *graphs).explain(0, 100, by="edge")
        names = [found.unit_name(row).replace(" ", "") for row in range(len(found.edges))]
        assert names == ["0–2" if edge == [0, 2] else f"{edge[0]}→0" for edge in found.edges.tolist()]
        return dict(zip(map(tuple, found.edges.tolist()), found.contributions.round(9).tolist(), strict=True))

    def weights_of(edges):
        return torch.tensor([2.0 if max(edge) > 5 else 1.0 for edge in edges], dtype=torch.float64)

    alone = units()
    assert alone.keys() == {(0, 2), (3, 0), (4, 0)}
    assert units((5, 6)) == units((5, 6), (6, 5)) == alone
    assert units((6, 0), (0, 6)) == alone
