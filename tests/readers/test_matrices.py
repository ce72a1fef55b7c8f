"""Data with an adjacency matrix in place of edge_index: its entries are the edges, dense, COO or CSR."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import axiompath
from readers.zoo import adjacency
from readers.zoo.evolutions import evolve
from readers.zoo.judge import answer, shapley_values
from readers.zoo.table import ON_FIELD, with_matrix
from support.convolutions import randomise

LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changes_of_a_matrix_are_changes_of_edges_and_blame_divides_them(layout):
    evolution, model = evolve(0), randomise(adjacency.CsrProduct())
    build = with_matrix(adjacency.dense, layout)
    graphs = build(evolution.before), build(evolution.after)
    explainer = axiompath.Explainer(model, *graphs, paths=False, **ON_FIELD)
    changes = explainer.changes()
    found = {
        (row.kind, frozenset((int(row.src), int(row.dst))))
        for row in changes.itertuples()
        if row.kind.startswith("edge")
    }
    assert found == {(edit.kind, edit.ends) for edit in evolution.edits if edit.kind.startswith("edge")}
    target = int(explainer.moved().target.iloc[0])
    value = {
        frozenset(subset): answer(model, build(evolution.graph(subset)), ON_FIELD["call"], "")[target]
        for subset in evolution.subsets()
    }
    blame = explainer.blame(target)
    for kind, ends, share in zip(blame.kinds, blame.ends, blame.shares, strict=True):
        (i,) = (
            i for i, edit in enumerate(evolution.edits)
            if edit.kind == kind and edit.ends == {int(v) for v in ends if v >= 0}
        )  # fmt: skip
        np.testing.assert_allclose(share, shapley_values(value, len(evolution.edits))[i], rtol=0, atol=1e-9)


def test_an_entry_in_row_v_and_column_u_is_an_edge_from_u_to_v():
    x = torch.eye(3, 4, dtype=torch.float64)
    before, after = torch.zeros(3, 3, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64)
    after[2, 0] = 1.5
    graphs = [Data(x=x, adj=matrix) for matrix in (before, after)]
    explainer = axiompath.Explainer(randomise(adjacency.CsrProduct()), *graphs, paths=False)
    (row,) = explainer.changes().itertuples()
    assert (row.kind, row.src, row.dst) == ("edge added", 0, 2)
