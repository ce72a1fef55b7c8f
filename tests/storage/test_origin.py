"""A record says what it is of: the release, and digests that change with every number and with nothing else."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GATConv

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.graphs.snapshot import align_snapshots, read_snapshot
from axiompath.graphs.stored import map_snapshot
from axiompath.network.digests import digest_graph, digest_network
from axiompath.selection import select
from axiompath.storage.codec import decode, to_plain
from axiompath.storage.origin import Origin, digest_of
from support.repository import ROOT


@pytest.fixture(scope="module")
def karate():
    model, before = train_karate()
    return model, before, evolve_karate(before)


def test_the_release_is_written_in_one_place():
    project = (ROOT / "pyproject.toml").read_text()
    assert re.findall(r"^version = .*$", project, re.MULTILINE) == [
        'version = {attr = "axiompath.storage.origin.RELEASE"}'
    ]
    assert axiompath.__version__ == axiompath.storage.origin.RELEASE == "0.3.0"


def test_explanations_say_what_they_are_of(karate, tmp_path):
    explainer = axiompath.Explainer(*karate)
    first = explainer.explain(8, 3)
    assert first.origin.release == axiompath.__version__
    assert set(first.origin.digests) == {"model", "before", "after"}
    assert first.origin.seed is None  # nothing is drawn
    assert axiompath.Explainer(*karate).explain(13, 2, "topk").origin == first.origin
    first.save(tmp_path / "e.json")
    assert axiompath.Explanation.load(tmp_path / "e.json").origin == first.origin
    turned = axiompath.Explainer(karate[0], karate[2], karate[1]).origin.digests
    assert (turned["before"], turned["after"]) == (first.origin.digests["after"], first.origin.digests["before"])
    with pytest.raises(ValueError, match="`origin` should have field `digests`"):
        axiompath.Explanation.from_dict(first.to_dict() | {"origin": {"release": "0.2.0"}})


def test_scans_say_what_they_are_of(karate, tmp_path):
    explainer = axiompath.Explainer(*karate, node_names=[f"member {i}" for i in range(34)], class_names=list("abcd"))
    scan = explainer.scan(tmp_path / "scan", budget=2, progress=False)
    assert axiompath.read_scan(tmp_path / "scan").origin == explainer.origin
    assert all(e.origin == explainer.origin for e in scan)
    assert scan.manifest["question"]["method"] == "exact"
    assert scan.to_frame().name.tolist() == [f"member {node}" for node in scan.to_frame().target]
    assert scan.moved().equals(explainer.moved())


def test_stories_say_what_they_are_of(karate, tmp_path):
    model, before, after = karate
    (story,) = axiompath.build_stories(model, [before, after, before], [8], 2)
    assert story.method == "exact"
    digests = story.origin.digests
    assert list(digests) == ["model", "snapshot 0", "snapshot 1", "snapshot 2"]
    assert digests["snapshot 0"] == digests["snapshot 2"] != digests["snapshot 1"]
    assert story.explanations[1].origin.digests["before"] == digests["snapshot 1"]
    story.save(tmp_path / "s.json")
    assert axiompath.Story.load(tmp_path / "s.json").origin == story.origin


def test_selections_say_what_they_are_of():
    rng = np.random.default_rng(0)
    contributions, before = rng.normal(size=(20, 3)), rng.normal(size=3)
    after = before + contributions.sum(axis=0)
    chosen = select(contributions, before, after, 4)
    assert chosen.method == "exact"
    assert chosen.origin.release == axiompath.__version__
    assert chosen.origin.digests == {
        "contributions": digest_of(contributions), "logits_before": digest_of(before), "logits_after": digest_of(after)
    }  # fmt: skip
    contributions[3, 1] += 1e-12
    assert select(contributions, before, after, 4).origin != chosen.origin


def graph(x, edges, weights=None, n_id=None):
    data = Data(x=torch.as_tensor(x, dtype=torch.float64), edge_index=torch.tensor(edges).T)
    if weights is not None:
        data.edge_weight = torch.tensor(weights, dtype=torch.float64)
    if n_id is not None:
        data.n_id = torch.tensor(n_id)
    return read_snapshot(data, "graph")


def test_a_graph_s_digest_is_of_its_numbers_alone():
    x = np.arange(6.0).reshape(3, 2)
    edges = [[0, 1], [1, 2], [2, 2]]
    plain = digest_graph(graph(x, edges))
    assert digest_graph(graph(x, edges)) == plain
    assert digest_graph(graph(x + 1e-9, edges)) != plain
    assert digest_graph(graph(x, [[0, 1], [1, 2], [2, 1]])) != plain
    assert digest_graph(graph(x, edges, [1.0, 1.0, 1.0])) != plain
    assert digest_graph(graph(x, edges, n_id=[0, 1, 5])) != plain
    # Neither the order of the nodes, nor that of the edges, nor what it is compared with matters.
    assert digest_graph(graph(x, [[2, 2], [0, 1], [1, 2]])) == plain
    parallel = [[0, 1], [0, 1], [1, 2], [0, 1]], [[1, 2], [0, 1], [0, 1], [0, 1]]
    one, two = (
        digest_graph(graph(x, edges, w)) for edges, w in zip(parallel, ([1.0, 3, 9, 2], [9.0, 3, 1, 2]), strict=True)
    )
    assert one == two
    assert digest_graph(graph(x, parallel[0], [1.0, 3, 2, 9])) != one
    turned = graph(x[::-1].copy(), [[2, 1], [1, 0], [0, 0]], n_id=[2, 1, 0])
    assert digest_graph(turned) == plain
    other = graph(np.ones((2, 2)), [[0, 1]], n_id=[7, 1])
    for pair in (align_snapshots(other, turned), align_snapshots(turned, other)):
        assert plain in [digest_graph(side) for side in pair]


def test_a_graph_s_digest_sees_every_field():
    x = np.arange(6.0).reshape(3, 2)
    first = graph(x, [[0, 1], [1, 2]])
    others = [
        replace(first, edges=np.array([[0, 2], [1, 1]])),
        replace(first, node_ids=np.array([0, 1, 5])),
        replace(first, node_ids=np.array([2, 1, 0])),
        replace(first, present=np.array([True, True, False]), edges=np.array([[0], [1]])),
        replace(first, x=x + 1.0),
    ]
    assert len({digest_graph(each) for each in (first, *others)}) == 6


class Slopes(nn.Module):
    def __init__(self, slope, heads=1):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.act, self.last = GATConv(3, 4, heads=heads), nn.LeakyReLU(slope), nn.Linear(4 * heads, 2)

    def forward(self, x, edge_index):
        return self.last(self.act(self.conv(x, edge_index)))


def test_a_model_s_digest_sees_weights_attention_and_activations():
    data = Data(x=torch.ones(3, 3), edge_index=torch.tensor([[0, 1], [1, 2]]))

    def digest(model):
        return digest_network(axiompath.Explainer(model.eval(), data, data).change.network)

    model = Slopes(0.1)
    plain = digest(model)
    assert digest(Slopes(0.1)) == plain
    assert digest(Slopes(0.2)) != plain  # the same weights
    with torch.no_grad():
        model.conv.att_src += 0.01
    assert digest(model) != plain
    assert digest(GCN(3, 4, 2, 2)) != plain


def test_stored_graphs_have_digests_of_their_files(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(50, 3)).astype(np.float32))
    edges = rng.integers(50, size=(2, 120))
    np.save(tmp_path / "before.npy", edges)
    np.save(tmp_path / "after.npy", edges[:, 2:])
    graphs = [
        axiompath.convert_graph(tmp_path / f"{name}.npy", tmp_path / name, nodes=tmp_path / "x.npy")
        for name in ("before", "after")
    ]
    explainer = axiompath.Explainer(GCN(3, 4, 2, 2).eval(), *graphs)
    found = explainer.explain(int(explainer.moved().target[0]), 2).origin.digests
    again = [digest_graph(map_snapshot(axiompath.open_graph(tmp_path / name))) for name in ("before", "after")]
    assert [found["before"], found["after"]] == again
    assert again[0] != again[1]


def test_digests_of_a_large_graph_take_seconds():
    x = np.random.default_rng(0).normal(size=(100_000, 32))
    edges = np.random.default_rng(1).integers(0, 100_000, (2, 1_000_000))
    snapshot = read_snapshot(Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges)), "graph")
    start = time.process_time()
    digest_graph(snapshot)
    assert time.process_time() - start < 4  # about 0.2 s when nothing else runs


def test_an_origin_is_read_as_it_was_written():
    origin = Origin("0.2.0", {"model": "a"}, seed=3)
    assert decode(Origin, to_plain(origin), "an origin") == origin
