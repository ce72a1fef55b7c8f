"""Data sets: read without pickle, evolved as asked; and what the engine shows on them."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from axiompath import Explainer
from axiompath.datasets import archives
from axiompath.datasets import catalogue as datasets
from axiompath.experiments.preservation import run_preservation, summarise
from axiompath.files.sum_gnn import random_sum_gnn

SIZES = {
    "cora": (2708, 10556, 1433, 7),
    "citeseer": (3327, 9104, 3703, 6),
    "pubmed": (19717, 88648, 500, 3),
    "amazon_photo": (7650, 238162, 745, 8),
}


@pytest.mark.parametrize("name", SIZES)
def test_data_sets_have_their_published_sizes(name, data_root):
    data = datasets.load(name, data_root)
    found = (data.num_nodes, data.num_edges, data.x.shape[1], int(data.y.max()) + 1)
    assert found == SIZES[name]
    assert data.x.layout == torch.sparse_csr


class Unreachable:
    def __init__(self, root, name):
        raise OSError("no route")


def test_missing_data_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("AXIOMPATH_DATA", raising=False)
    monkeypatch.setattr("torch_geometric.datasets.Planetoid", Unreachable)
    with pytest.raises(FileNotFoundError, match=r"could not download it .*no route.* pass `root=` or set the envir"):
        datasets.load("cora")
    with pytest.raises(FileNotFoundError, match=r"Expected the data set's file at .*cora\.npz .*put cora.npz there"):
        datasets.load("cora", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Expected a folder .* pass `root=` or set the environment variable"):
        datasets.load("cora", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"Expected one of the data sets cora, citeseer.*got 'moon'"):
        datasets.load("moon")
    with pytest.raises(FileNotFoundError, match=r"put dblp_coauthor\.npz there"):
        datasets.load_sequence("dblp_coauthor", root=tmp_path)
    with pytest.raises(ValueError, match=r"Expected one of the timed graphs .*got 'cora'"):
        datasets.load_sequence("cora")


def test_what_is_not_on_disk_comes_from_torch_geometric(tmp_path, monkeypatch):
    asked = []

    class Coauthor(list):
        def __init__(self, root, name):
            asked.append((root, name))
            super().__init__(
                [Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0, 1, 1]))]
            )

    monkeypatch.setattr("torch_geometric.datasets.Coauthor", Coauthor)
    data = datasets.load("coauthor_physics", tmp_path)
    assert asked == [(str(tmp_path / "torch_geometric"), "Physics")]
    assert data.x.layout == torch.sparse_csr
    assert data.y.tolist() == [0, 1, 1]


def small_archive(path, **replaced):
    x = np.eye(4, dtype=np.uint8)
    arrays = {
        "edge_index": np.array([[0, 1], [1, 0]], dtype=np.int32),
        "x_indptr": np.arange(5), "x_indices": np.arange(4), "x_data": x[x > 0], "x_shape": np.array([4, 4]),
        "y": np.array([0, 1, 0, 1]),
    }  # fmt: skip
    arrays.update(replaced)
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})


@pytest.mark.parametrize(
    ("replaced", "sentence"),
    [
        ({"edge_index": np.array([[0], [4]])}, r"`edge_index` to name nodes 0 to 3 .*got 0 to 4"),
        ({"edge_index": np.array([0, 1])}, r"`edge_index` of shape \[2, num_edges\]"),
        ({"y": np.array([0, 1, 0])}, r"a row of x for each of 3 labels"),
        ({"y": None}, r"the arrays .*got no y"),
        ({"y": np.array([0, 1, -1, 1])}, r"labels of 0 or more"),
        ({"x_indices": np.array([0, 1, 2, 9])}, r"features in CSR form"),
        ({"x_data": np.array([1, 1, np.nan, 1])}, r"finite features"),
        ({"train_mask": np.ones(3, dtype=bool)}, r"`train_mask` of 4 values"),
    ],
)
def test_files_with_wrong_contents_are_refused(replaced, sentence, tmp_path, monkeypatch):
    monkeypatch.delitem(archives.CHECKSUMS, "cora")
    small_archive(tmp_path / "cora.npz")
    assert datasets.load("cora", tmp_path).num_nodes == 4
    small_archive(tmp_path / "cora.npz", **replaced)
    with pytest.raises(ValueError, match=sentence):
        datasets.load("cora", tmp_path)


def test_damaged_files_are_refused(tmp_path, data_root):
    whole = (data_root / "cora.npz").read_bytes()
    (tmp_path / "cora.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"damaged or cut short: put a fresh copy of cora\.npz there"):
        datasets.load("cora", tmp_path)
    small_archive(tmp_path / "cora.npz")
    with pytest.raises(ValueError, match=r"to have the sha256 bf1ed.*put the published cora\.npz there"):
        datasets.load("cora", tmp_path)


@pytest.mark.parametrize("name", datasets.TIMED)
def test_sequences_cover_all_events_on_fixed_nodes(name, data_root):
    whole = datasets.load_sequence(name, 1, data_root)[0]
    windows = datasets.load_sequence(name, 4, data_root)
    grown = datasets.load_sequence(name, 4, data_root, cumulative=True)
    assert len(windows) == 4
    assert {data.num_nodes for data in windows} == {whole.num_nodes}
    together = np.unique(np.concatenate([edge_keys(data) for data in windows]))
    assert np.array_equal(together, edge_keys(whole))
    assert np.array_equal(together, edge_keys(grown[-1]))
    assert np.array_equal(edge_keys(grown[0]), edge_keys(windows[0]))
    assert all(a.window[1] == b.window[0] for a, b in itertools.pairwise(windows))
    assert np.array_equal(edge_keys(windows[1]), edge_keys(windows[1], flipped=True))
    assert whole.x.shape[0] == whole.num_nodes


def test_windows_can_be_times_and_features_degrees(data_root):
    days = [1385982020 + 86400 * day for day in range(6)]
    snapshots = datasets.load_sequence("highschool_2013", days, data_root, features="degree")
    assert len(snapshots) == 5
    degree = np.bincount(snapshots[0].edge_index[1], minlength=327)
    bucket = snapshots[0].x.to_dense().argmax(dim=1).numpy()
    assert (bucket == np.ceil(np.log2(degree + 1))).all()
    with pytest.raises(ValueError, match="two ascending times"):
        datasets.load_sequence("highschool_2013", days[::-1], data_root)
    with pytest.raises(ValueError, match="Expected times between"):
        datasets.load_sequence("highschool_2013", [0, 1], data_root)
    with pytest.raises(ValueError, match="Expected fewer windows"):
        datasets.load_sequence("dblp_coauthor", 200, data_root)
    with pytest.raises(ValueError, match="features among"):
        datasets.load_sequence("dblp_coauthor", 2, data_root, features="none")


def edge_keys(data, flipped=False):
    u, v = data.edge_index.numpy()[:: -1 if flipped else 1]
    return np.sort(u * data.num_nodes + v)


def edge_set(data):
    return {tuple(edge) for edge in data.edge_index.T.tolist()}


def test_evolve_adds_and_removes_undirected_edges():
    pairs = torch.combinations(torch.arange(20))[::3].T
    before = Data(x=torch.eye(20), edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))
    after = datasets.evolve(before, added=5, removed=7, seed=1)
    gained, lost = edge_set(after) - edge_set(before), edge_set(before) - edge_set(after)
    assert (len(gained), len(lost)) == (10, 14)
    assert all((v, u) in gained for u, v in gained)
    assert all((v, u) in lost for u, v in lost)
    assert edge_set(datasets.evolve(before, added=5, removed=7, seed=1)) == edge_set(after)
    assert edge_set(datasets.evolve(before, added=5, removed=7, seed=2)) != edge_set(after)
    with pytest.raises(ValueError, match=r"at most 64 edges to remove \(got 65\)"):
        datasets.evolve(before, removed=65)
    with pytest.raises(ValueError, match=r"at most 126 edges to add \(got 127\)"):
        datasets.evolve(before, added=127)


def test_the_papers_preservation_experiment_gives_100_percent(data_root):
    table = summarise(list(run_preservation(("cora", "citeseer"), (2, 3), root=data_root)))
    assert len(table) == 2 * 2 * 3
    assert (table.preserved_percent == 100).all()
    assert table.largest_error.max() < 1e-9


@pytest.mark.slow
def test_preservation_holds_at_four_layers_and_over_repeats(data_root):
    table = summarise(list(run_preservation(("cora", "citeseer"), (2, 3, 4), repeats=5, root=data_root)))
    assert (table.preserved_percent == 100).all()


PHYSICS = """
import resource
from axiompath import Explainer, datasets
from axiompath.datasets import archives
from axiompath.files.sum_gnn import random_sum_gnn
before = datasets.load("coauthor_physics")
after = datasets.evolve(before, added=100, removed=100)
explainer = Explainer(random_sum_gnn([before.x.shape[1], 16, 5], 0), before, after)
frame = explainer.moved()
worst = max(found.residual for found in explainer.attribute_many(frame.target))
print(len(frame), int(frame.num_paths.sum()), worst, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


@pytest.mark.slow
def test_sparse_features_of_coauthor_physics_stay_under_3_gb(data_root):
    # A process of its own, so that its peak is its own; dense features alone would take 2.3 GB in float64.
    done = subprocess.run([sys.executable, "-c", PHYSICS], capture_output=True, text=True, check=True)
    targets, paths, worst, gigabytes = map(float, done.stdout.split())
    assert targets > 1000
    assert paths > targets
    assert worst < 1e-9
    assert gigabytes < 3


def test_amazon_photo_is_complete_at_three_layers(data_root):
    before = datasets.load("amazon_photo", data_root)
    after = datasets.evolve(before, added=20, removed=20)
    explainer = Explainer(random_sum_gnn([before.x.shape[1], 16, 16, 8], 0), before, after)
    frame = explainer.moved()
    for row, found in zip(frame.itertuples(), explainer.attribute_many(frame.target), strict=True):
        assert len(found.paths) == row.num_paths
        assert found.residual < 1e-9 * max(1, np.abs(found.logits_after).max())
