"""The trained models of the method's authors and their figures, as the archives in the data folder hold them."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import axiompath
from research.experiments.authors import AuthorsMolecules

COMPARABLE = (0, 7, 20, 50, 90)  # molecules where every path can be compared


def open_archive(root, name):
    if not (root / name).is_file():
        pytest.skip(f"no {name} here: put it into the folder named by AXIOMPATH_DATA")
    return np.load(root / name, allow_pickle=False)


def with_weights(model, root, name):
    held = open_archive(root, "authors_models.npz")
    own = {key.removeprefix(f"{name}."): torch.tensor(held[key]) for key in held if key.startswith(f"{name}.")}
    model.load_state_dict(own)
    return model.double().eval()


def open_molecule(root, number):
    """The reference of one molecule by key, its model, and an Explainer of it."""
    archive, molecules = open_archive(root, "authors_mutag_reference.npz"), open_archive(root, "mutag.npz")
    held = {key.split(".")[1]: archive[key] for key in archive if key.startswith(f"{number}.")}
    x = torch.eye(7, dtype=torch.float64)[molecules["node_label"][molecules["node_graph"] == number]]
    sides = []
    for key in ("edges_before", "edges_after"):
        edges = held[key] if held[key].shape[0] == 2 else held[key].T
        sides.append(Data(x=x, edge_index=torch.tensor(edges[:, edges[0] != edges[1]].astype(np.int64))))
    model = with_weights(AuthorsMolecules(), root, "mutag")
    return held, model, axiompath.Explainer(model, *sides), sides
