"""Changes against edges and layer edges: the authors' way of splitting, and what each leaves."""

import numpy as np
import pytest

import axiompath
from axiompath.explain.units import find_units
from axiompath.paths.entries import Cone
from research.experiments.authors import authors_split
from research.experiments.faithfulness import FaithSettings, list_exceptions, run_faithfulness, summarise_faithfulness
from research.tests.authors_archive import COMPARABLE, open_molecule


@pytest.mark.parametrize("number", COMPARABLE)
def test_the_authors_split_has_the_authors_shares(number, data_root):
    held, _, explainer, _ = open_molecule(data_root, number)
    cone = Cone(explainer.change, 0)
    theirs, ours = authors_split(cone), cone.share()
    for by in ("layer_edge", "edge"):
        units, equal = (find_units(found, by) for found in (theirs, ours))
        mine = {tuple(label): share for label, share in zip(units.labels.tolist(), units.contributions, strict=True)}
        names = [(0, *sorted(edge)) if by == "edge" else (edge[2] + 1, *edge[:2]) for edge in held[by].tolist()]
        assert {*names} == mine.keys() == {tuple(label) for label in equal.labels.tolist()}  # the same units
        for name, share in zip(names, held[f"{by}_share"], strict=True):
            np.testing.assert_allclose(mine[name], share, rtol=0, atol=1e-6)
        np.testing.assert_allclose(equal.contributions.sum(axis=0), units.contributions.sum(axis=0), rtol=0, atol=1e-12)


def test_changes_leave_less_than_edges_and_layer_edges(data_root, tmp_path):
    settings = FaithSettings(("mutag",), sizes=(1, 2), max_targets=4)
    table = run_faithfulness(settings, tmp_path, root=data_root)
    assert len(table) == 8
    assert table.proved.all()
    assert (table.changes <= table.edges + 1e-12).all()  # of all sets of so many, theirs is one
    means = summarise_faithfulness(table)
    assert (means.mean_changes <= means.mean_layer_edges).all()
    worse = list_exceptions(table)
    assert len(worse) == 8 - means.least.sum()
    assert (tmp_path / "faithfulness.parquet").is_file()
    with pytest.raises(axiompath.InputError, match="settings among mutag"):
        FaithSettings(("cora",))
