"""Data sets: read without pickle, as published; and the paper's experiment on preservation."""

import itertools

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from research.datasets import archives
from research.datasets import catalogue as datasets
from research.experiments.preservation import run_preservation, summarise

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


def test_the_papers_preservation_experiment_gives_100_percent(data_root):
    table = summarise(list(run_preservation(("cora", "citeseer"), (2, 3), root=data_root)))
    assert len(table) == 2 * 2 * 3
    assert (table.preserved_percent == 100).all()
    assert table.largest_error.max() < 1e-9


@pytest.mark.slow
def test_preservation_holds_at_four_layers_and_over_repeats(data_root):
    table = summarise(list(run_preservation(("cora", "citeseer"), (2, 3, 4), repeats=5, root=data_root)))
    assert (table.preserved_percent == 100).all()
