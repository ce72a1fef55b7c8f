"""Everything shows itself: a line that says something, a notebook view, frames to filter; and it names names."""

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath.cli.demo import evolve_karate, train_karate
from axiompath.errors import InputError, Notice
from axiompath.explainer import Explainer
from axiompath.selection import select

NAMES = [f"member {i} <b>" for i in range(34)]


@pytest.fixture(scope="module")
def explainer():
    model, before = train_karate()
    return Explainer(model, before, evolve_karate(before), node_names=NAMES)


@pytest.fixture(scope="module")
def scan(explainer, tmp_path_factory):
    return explainer.scan(tmp_path_factory.mktemp("scan") / "s", 3, min_kl=0.01, workers=1, progress=False)


def test_every_answer_has_a_line_and_a_view(explainer, scan):
    explanation, target = explainer.explain(8, 3), "member 8 <b>"
    shown = {
        "Explainer: ": explainer,
        "Explanation: Node member 8": explanation,
        "Explanation: Node member": explainer.explain(8, 3, by="edge"),
        "Attribution of member 8": explainer.attribute(target),
        "Blame: ": explainer.blame(target),
        "Undo: ": explainer.undo(target),
        "Enough: ": explainer.enough(target),
        "Scan in ": scan,
        "Selection: 2 of 3 paths": select(np.eye(3), np.zeros(3), np.ones(3), 2),
        "": explainer.happened(target),
    }
    model, before, after = explainer.session.models[-1], *explainer.session.paths.region.graphs
    told = axiompath.build_stories(model, [before, after, before], [8], node_names=NAMES)
    shown |= {"Stories of 1 nodes over 2 steps": told, "Story: ": told[0]}
    for start, item in shown.items():
        assert repr(item).startswith(start), repr(item)
        assert "array(" not in repr(item)
        assert len(repr(item)) < 3000
        page = item._repr_html_()
        assert "<b>" not in page.replace("&lt;b&gt;", "")
    assert "runs the model as it is" in repr(Explainer(model, before, after, paths=False))


def test_an_explanation_as_a_table(explainer):
    explanation = explainer.explain(8, 5)
    frame = explanation.to_frame()
    assert list(frame.kind) == list(explanation.kinds)
    assert np.allclose(frame[[f"class_{k}" for k in range(4)]], explanation.contributions)
    assert np.allclose(frame.share, explanation.contributions @ explanation.view[1])
    assert all(path.endswith("member 8 <b>") for path in frame.path)


def test_the_scan_frame_has_what_one_filters_by(scan):
    frame = scan.to_frame()
    assert len(frame) == len(scan)
    for row, explanation in zip(frame.to_dict("records"), scan, strict=True):
        weights = explanation.output.weights(explanation.class_before, explanation.class_after, 4)
        assert row["explained"] == pytest.approx(explanation.explained)
        for cause, shares in explanation.causes.items():
            assert row[f"by_{cause}"] == pytest.approx(float(shares @ weights), abs=1e-12)
        assert row["best_kind"] == explanation.kinds[0]
        assert row["best_path"].split(" → ") == [explanation.name_of(node) for node in explanation.paths[0]]


def test_one_target_of_a_scan(scan):
    frame = scan.to_frame()
    name, number = frame.name.iloc[-1], int(frame.target.iloc[-1])
    assert scan[name].to_dict() == scan[number].to_dict()
    assert scan[name].name == name
    with pytest.raises(InputError, match="a target that this scan explained"):
        scan["nobody"]


def test_a_scan_says_why_not_all_were_explained(scan, explainer, tmp_path):
    left = scan.manifest["num_moved"] - len(scan)
    assert left > 0
    assert f"The other {left:,} moved by less than 0.01 nats and kept their class." in scan.summary
    flips = explainer.scan(tmp_path / "f", 3, only_flips=True, workers=1, progress=False)
    assert "kept their class, and only flips were asked for" in flips.summary


def test_a_builder_without_weights_is_warned_of(tmp_path, monkeypatch):
    text = "from torch_geometric.nn import GCN\ndef build():\n    return GCN(3, 4, 2, 2)\n"
    (tmp_path / "untrained.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    from axiompath.files import read_model

    with pytest.warns(Notice, match=r"No --weights were given: .* untrained:build\(\) returns it"):
        model = read_model("untrained:build")
    assert isinstance(model, GCN)
    assert isinstance(next(model.parameters()), torch.nn.Parameter)
