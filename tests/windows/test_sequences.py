"""Scans, stories, reports and the command line over windows; each against the Explainer of its two windows."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import axiompath
from axiompath.errors import InputError
from support.windows import CELLS, WIDTH, random_dates

pytestmark = pytest.mark.filterwarnings("ignore::axiompath.errors.Notice")
SIZE = 3


def build():
    """A model of a window, as the command line imports it."""
    torch.manual_seed(0)
    return axiompath.unroll(CELLS["gru"][0](), head=nn.Linear(WIDTH, 2), state=WIDTH).double()


@pytest.fixture(scope="module")
def days():
    return random_dates(np.random.default_rng(1), SIZE + 3)


@pytest.fixture(scope="module")
def explainers(days):
    model = build()
    return [axiompath.Explainer(model, days[i : i + SIZE], days[i + 1 : i + 1 + SIZE]) for i in range(3)]


@pytest.fixture(scope="module")
def scans(days, tmp_path_factory):
    out = tmp_path_factory.mktemp("scans") / "all"
    list(axiompath.scan_sequence(build(), days, out, window=SIZE, min_kl=0, workers=1, progress=False))
    return axiompath.read_scans(out)


def test_a_scan_of_windows_has_the_legs_of_each_step(scans, explainers):
    assert len(scans) == 3
    for scan, explainer in zip(scans, explainers, strict=True):
        ours, expected = scan.moved(), explainer.moved()
        assert ours.target.tolist() == expected.target.tolist()
        for leg in ("revised", "time", "news"):
            np.testing.assert_array_equal(ours[leg], expected[leg])
        brief = [*scan.flips().flips, *scan.flips().others][0]
        ends = explainer.blame(brief.target)
        np.testing.assert_allclose(brief.after - brief.before, ends.predicted_after - ends.predicted_before, atol=1e-12)
        np.testing.assert_allclose(sum(cause.share for cause in brief.causes), brief.moved, atol=1e-12)
        by_time = float(ends.prob_shares[list(ends.kinds).index("time passed")])
        np.testing.assert_allclose(brief.by_time, by_time, atol=1e-12)


def test_a_story_of_windows_is_what_the_model_predicts_from_each(days):
    model = build()
    told = axiompath.build_stories(model, days, window=SIZE)
    assert [len(story.logits) for story in told] == [4] * len(told)
    for story in told:
        for i, logits in enumerate(story.logits):
            own = model(days[i : i + SIZE]).detach().numpy()[story.target]
            np.testing.assert_allclose(logits, own, atol=1e-12)
        assert story.residual < 1e-10
        assert "time" in story.listed_causes
    only = axiompath.build_stories(model, days, [int(told[0].target)], window=SIZE)
    np.testing.assert_array_equal(only[0].logits, told[0].logits)
    assert "the passing of time" in told[0].summary()


def test_a_report_begins_with_the_legs_and_shows_dates_across(explainers, scans, tmp_path, open_page):
    explainer = explainers[1]
    target = int(explainer.moved().target[0])
    axiompath.save_report(tmp_path / "report.html", explainer, [target])
    page = open_page(tmp_path / "report.html")
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#node={target}")
    timeline = explainer.timeline(target)
    told = page.inner_text("#legs")
    assert all(f"{leg} {share:+.3g}" in told for leg, share in timeline.legs.items())
    assert page.locator("#strip thead th").all_inner_texts() == list(timeline.dates)
    assert any(page.locator("#strip tbody td").all_inner_texts())
    assert (
        page.evaluate("$ = document, $.getElementById('window').compareDocumentPosition($.getElementById('flow'))") == 4
    )
    assert page.inner_text("#headline") == explainer.blame(target).headline.removeprefix("Node ")
    assert page.complaints == []
    page.close()
    assert "the passing of time" in axiompath.build_report(scans)  # of what moved, though nothing flipped


MODEL = """
import axiompath, torch
from torch import nn
from torch_geometric.nn import GCNConv

class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.cell, self.head = GCNConv(3, 4), nn.GRUCell(4, 4), nn.Linear(4, 2)

    def forward(self, x, edge_index, h=None):
        h = self.cell(self.conv(x, edge_index).relu(), h)
        return self.head(h), h

def build():
    torch.manual_seed(0)
    return axiompath.unroll(Cell()).double()
"""


def test_the_command_line_takes_windows(days, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looks_back.py").write_text(MODEL)
    files = [f"day{number}.npz" for number in range(len(days))]
    for file, data in zip(files, days, strict=True):
        axiompath.save_graph(file, Data(x=data.x, edge_index=data.edge_index))
    model, window = "looks_back:build", ("--window", "3")
    code, out, err = call("scan", model, *files, *window, "--out", "scans", "--workers", "1", "--json", "--min-kl", "0")
    assert code == 0, err
    steps = json.loads(out)
    assert [one["after"] for one in steps] == files[3:]
    for number, scan in enumerate(axiompath.read_scans("scans")):
        assert set(scan.changes().date) <= {f"day{number + 3}"}
        assert {"revised", "time", "news"} <= set(scan.moved().columns)
    assert call("report", model, *files[:4], *window, "--out", "page.html")[0] == 0
    assert "What came on which date" in (tmp_path / "page.html").read_text()
    assert "the passing of time" in call("story", model, *files, *window)[1]
    code, _, err = call("scan", model, *files[:3], *window, "--out", "few")
    assert code == 2
    assert "Expected 4 graphs or more to go with --window 3 (got 3)" in " ".join(err.split())


def test_a_window_fits_its_sequence(days, tmp_path):
    with pytest.raises(InputError, match="Expected a window of 1 to 2 of 3 snapshots"):
        axiompath.build_stories(build(), days[:3], window=3)
