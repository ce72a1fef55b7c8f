"""Subgraphs as a NeighborLoader hands them over: seeds first, `n_id` and `batch_size`; explained as in the whole graph.

The loader itself needs compiled extensions; `loaded` makes what it makes with all neighbours taken (num_neighbors -1).
"""

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphSAGE

import axiompath
from axiompath.graphs.stack import unstack
from support.typed import RELATIONS, WIDTHS, Hetero, randomise

SEEDS = 3


def cut(data, kept):
    """Edges among the kept rows, by their new rows, and their places in the whole graph."""
    place = torch.full((data.num_nodes,), -1)
    place[kept] = torch.arange(len(kept))
    edges = place[data.edge_index]
    e_id = torch.nonzero((edges >= 0).all(dim=0)).reshape(-1)
    return edges[:, e_id], e_id


def around(edge_index, seeds, num_hops):
    """Rows in the order of a loader: the seeds, then whatever sends to them, hop by hop."""
    kept = seeds.tolist()
    for _ in range(num_hops):
        inside = torch.isin(edge_index[1], torch.tensor(kept))
        kept += [node for node in edge_index[0][inside].unique().tolist() if node not in kept]
    return torch.tensor(kept)


def loaded(data, seeds, num_hops=2):
    kept = around(data.edge_index, seeds, num_hops)
    edges, e_id = cut(data, kept)
    return Data(
        x=data.x[kept], edge_index=edges, n_id=kept, e_id=e_id, input_id=seeds, batch_size=len(seeds),
        num_sampled_nodes=[len(seeds)], num_sampled_edges=[len(e_id)],
    )  # fmt: skip


def test_a_pair_of_loaded_subgraphs_is_explained_as_the_whole_graphs_are():
    generator = torch.Generator().manual_seed(0)
    before = Data(x=torch.randn(40, 4, generator=generator), edge_index=torch.randint(40, (2, 90), generator=generator))
    before.x = before.x.double()
    after = before.clone()
    after.edge_index = torch.cat([before.edge_index[:, 12:], torch.randint(40, (2, 9), generator=generator)], dim=1)
    torch.manual_seed(1)
    model = GraphSAGE(4, 8, num_layers=2, out_channels=3).double().eval()
    seeds = torch.tensor([7, 3, 21])
    whole = axiompath.Explainer(model, before, after)
    part = axiompath.Explainer(model, loaded(before, seeds), loaded(after, seeds))
    assert part.num_nodes < whole.num_nodes
    reached = set(whole.moved().target) & set(seeds.tolist())
    assert len(reached) > 1
    for seed in sorted(reached):
        ours, theirs = part.explain(seed, 5), whole.explain(seed, 5)
        np.testing.assert_allclose(ours.logits_after, theirs.logits_after, rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours.contributions.sum(0), theirs.contributions.sum(0), rtol=0, atol=1e-12)
        sums = [one.blame(seed).shares.sum(axis=0) for one in (part, whole)]
        np.testing.assert_allclose(*sums, rtol=0, atol=1e-9)


def test_a_pair_of_loaded_typed_subgraphs_is_explained_as_the_whole_graphs_are():
    rng = np.random.default_rng(3)
    graphs = [HeteroData(), HeteroData()]
    size = 25
    features = {kind: torch.from_numpy(rng.normal(size=(size, width))) for kind, width in WIDTHS.items()}
    edges = {relation: rng.integers(0, size, size=(2, 40)) for relation in RELATIONS}
    for side, data in enumerate(graphs):
        for kind, x in features.items():
            data[kind].x = x
        for relation, own in edges.items():
            data[relation].edge_index = torch.from_numpy(own[:, 4 * side :].copy())
    model = randomise(Hetero("sage"), 2)
    whole = axiompath.Explainer(model, *graphs)
    seeds = torch.from_numpy(np.array([number // 2 for number in whole.moved().target[:SEEDS]]))
    subgraphs = []
    for stacked in (side.data for side in (whole.session.pair.before, whole.session.pair.after)):
        kept = around(stacked.edge_index, size + seeds, 2)  # papers are stacked below authors
        piece = stacked.clone()
        piece.edge_index, e_id = cut(stacked, kept)
        for key in ("x", "n_id", "node_type"):
            piece[key] = stacked[key][kept]
        piece.edge_type = stacked.edge_type[e_id]
        found = unstack(piece)
        for number, kind in enumerate(WIDTHS):
            found[kind].n_id = piece.n_id[piece.node_type == number] // 2
        found["paper"].batch_size, found["paper"].input_id = len(seeds), seeds
        subgraphs.append(found)
    part = axiompath.Explainer(model, *subgraphs)
    assert part.num_nodes < whole.num_nodes
    for seed in seeds.tolist():
        ours, theirs = part.explain(("paper", seed), 5), whole.explain(("paper", seed), 5)
        assert ours.name == theirs.name == f"paper {seed}"
        np.testing.assert_allclose(ours.logits_after, theirs.logits_after, rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours.kl, theirs.kl, rtol=0, atol=1e-12)
