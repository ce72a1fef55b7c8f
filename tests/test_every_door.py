"""Every kind of output for every kind of target, through every door: each answers, and in the words of its output."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_mean_pool

import axiompath
from axiompath.errors import InputError
from support.tasks import evolve, random_graph

COLUMNS = {"classes": 3, "binary": 1, "labels": 3, "value": 1}
SPEAKS = {
    "classes": r"class \d",
    "binary": r"(yes|no|linked|not linked)\b",
    "labels": r"label \d",
    "value": r"the value",
}
BLAMES = {
    "classes": r"(stayed in|went from) class \d \(.*the change of the probability of class \d",
    "binary": r"(stayed|went from) (yes|no|(not )?linked)\b.*the change of the probability of (yes|no|(not )?linked)",
    "labels": r"label \d went from .*the change of the probability of label \d",
    "value": "the value went from .*the change of the value",
}
BELOW = {
    "classes": r"a probability of class \d below", "binary": r"a probability of (yes|no|linked|not linked) below",
    "labels": r"a probability of label \d below", "value": "a value below",
}  # fmt: skip
TABLE = {
    "classes": ["class_0", "class_1", "class_2"], "binary": ["logit"],
    "labels": ["label_0", "label_1", "label_2"], "value": ["value_0"],
}  # fmt: skip
METHODS = ("convex", "exact", "linear", "topk", "deeplift", "gnnlrp", "grad")
RNG = np.random.default_rng(2)
BEFORE = random_graph(RNG, 8)
AFTER, GROWN = evolve(RNG, BEFORE), evolve(RNG, BEFORE, node=True)
SPARSE = Data(x=BEFORE.x, edge_index=torch.tensor([[0, 1, 3, 5, 2], [3, 3, 5, 0, 5]]))
GRAPHS = [random_graph(RNG, n) for n in (5, 6)]
BATCHES = Batch.from_data_list(GRAPHS), Batch.from_data_list([evolve(RNG, data) for data in GRAPHS])
# what is predicted, before, after, target
PLACES = {
    "node": ("node", BEFORE, AFTER, 3), "link": ("link", BEFORE, AFTER, (0, 5)), "graph": ("graph", *BATCHES, 1),
    "new node": ("node", BEFORE, GROWN, 8), "new link": ("link", BEFORE, GROWN, (0, 8)),
    "node alone": ("node", None, SPARSE, 3), "link alone": ("link", None, SPARSE, (0, 5)),
    "graph alone": ("graph", None, SPARSE, 0),
}  # fmt: skip
LESS_COMMON = ("new link", "link alone", "graph alone")


class Task(nn.Module):
    """Two convolutions, then a head for nodes, pairs or graphs, and the end that its columns have."""

    def __init__(self, unit, kind):
        super().__init__()
        self.kind, width = kind, 12 if unit == "link" else 6
        self.first, self.second, self.head = GCNConv(4, 6), GCNConv(6, 6), nn.Linear(width, COLUMNS[kind])

    def answer(self, x, edge_index, place=lambda z: z):
        logits = self.head(place(self.second(self.first(x, edge_index).relu(), edge_index)))
        if self.kind in ("binary", "labels"):
            return logits.sigmoid()
        return logits if self.kind == "value" else logits.log_softmax(dim=-1)


class OfNodes(Task):
    def forward(self, x, edge_index):
        return self.answer(x, edge_index)


class OfLinks(Task):
    def forward(self, x, edge_index, edge_label_index):
        u, v = edge_label_index
        return self.answer(x, edge_index, lambda z: torch.cat([z[u], z[v]], dim=-1))


class OfGraphs(Task):
    def forward(self, x, edge_index, batch):
        return self.answer(x, edge_index, lambda z: global_mean_pool(z, batch))


def made(unit, kind):
    torch.manual_seed(4)
    return {"node": OfNodes, "link": OfLinks, "graph": OfGraphs}[unit](unit, kind).double().eval()


def opened(place, kind):
    unit, before, after, target = PLACES[place]
    output = {"output": "value"} if kind == "value" else {}
    links = {"links": [target]} if unit == "link" and "new" not in place else {}
    return axiompath.Explainer(made(unit, kind), before, after, **output, **links), target


@pytest.mark.filterwarnings("ignore::axiompath.errors.MatchedByRow")
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=[pytest.mark.slow] * (place in LESS_COMMON)) for place in PLACES]
)
def test_every_question_is_answered_in_the_words_of_its_output(place, kind):
    explainer, target = opened(place, kind)
    found = explainer.attribute(target)
    assert found.residual < 1e-12
    assert list(found.to_frame().columns[-COLUMNS[kind] :]) == TABLE[kind]
    assert (" value " if kind == "value" else " logit") in repr(found)
    told = explainer.explain(target, 3)
    assert told.output.kind == kind
    assert told.unit == PLACES[place][0]
    assert re.search(SPEAKS[kind], told.headline)
    assert list(told.to_frame().columns[-COLUMNS[kind] :]) == TABLE[kind]
    again = axiompath.Explanation.from_dict(json.loads(json.dumps(told.to_dict())))
    assert again.summary() == replace(told, ask=None).summary()
    for by in ("edge", "layer_edge"):
        assert re.search(SPEAKS[kind], explainer.explain(target, 3, by=by).summary())
    for method in METHODS:
        other = explainer.explain(target, 2, method)
        assert np.isfinite([other.fidelity_minus, other.fidelity_plus]).all()
    residuals = [one.kl_residual for one in explainer.frontier(target, [1, 2, len(found.paths)])]
    assert residuals[-1] < 1e-12
    np.testing.assert_allclose(explainer.replay(target, []), found.logits_after, atol=1e-12)
    own = explainer.replay_edges(target, told.paths[:0])
    shift = (own - found.logits_after)[0] if kind == "classes" else 0.0  # log_softmax leaves a constant open
    np.testing.assert_allclose(own - shift, found.logits_after, atol=1e-9)
    assert re.search(BLAMES[kind], explainer.blame(target, seconds=0.2).summary())
    assert "account" in explainer.enough(target, seconds=0.2).summary()
    assert list(explainer.features(target).columns[-COLUMNS[kind] :]) == TABLE[kind]
    above = float(told.logits_after.max()) + 1.0 if kind == "value" else 0.999
    assert re.search(BELOW[kind], explainer.undo(target, below=above, seconds=0.2).summary())
    if not told.output.flipped(told.logits_before, told.logits_after):
        missing = {"value": "values have no class", "labels": "a label that came or went"}.get(kind, "class changed")
        with pytest.raises(InputError, match=missing):
            explainer.undo(target, seconds=0.2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::axiompath.errors.MatchedByRow")
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("place", ["node", "link", "graph"])
def test_scans_pages_stories_and_the_command_line_speak_of_it_too(place, kind, call, tmp_path, monkeypatch):
    unit, before, after, target = PLACES[place]
    explainer, _ = opened(place, kind)
    scan = explainer.scan(tmp_path / "scan", 3, min_kl=0.0, workers=1, progress=False, blame=True)
    frame = scan.to_frame()
    assert target in set(frame.target)
    assert all(name.isidentifier() for name in frame)  # so that frame.name and frame.query(name) work
    if kind in ("labels", "value"):
        ends = [f"{'value' if kind == 'value' else 'prob'}_{end}" for end in ("before", "after")]
        moved = explainer.moved().set_index("target").loc[frame.target]
        np.testing.assert_allclose(frame[ends].to_numpy(), moved[ends].to_numpy(), atol=1e-9)
    assert ("of value" if kind == "value" else "of probability") in scan.blame().summary()
    flip = {"classes": "to another class", "value": None}.get(kind, "to another answer")
    assert "to another" not in scan.summary if flip is None else flip in scan.summary
    assert scan.report(tmp_path / "scan.html").is_file()
    assert axiompath.save_report(tmp_path / "page.html", explainer).is_file()
    output = {"output": "value"} if kind == "value" else {}
    (story,) = axiompath.build_stories(made(unit, kind), [before, after, before], [target], 3, **output)
    assert re.search(SPEAKS[kind], story.summary())
    (tmp_path / "door_models.py").write_text(
        f"from {__name__} import made\ndef mine():\n    return made({unit!r}, {kind!r})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "door_models", raising=False)
    files = []
    for name, data in (("before", before), ("after", after)):
        files.append(tmp_path / f"{name}.pt")
        torch.save(data, files[-1])
    asked = ("--target", ",".join(map(str, np.atleast_1d(target))), *(("--output", kind) if output else ()))
    for command in (
        ("explain", "--budget", 3),
        ("blame", "--seconds", 0.2),
        ("report", "--out", tmp_path / "cli.html"),
    ):
        code, shown, complaint = call(command[0], "door_models:mine", *files, *asked, *command[1:])
        assert code == 0, complaint
        assert command[0] == "report" or re.search(SPEAKS[kind], shown)
    code, shown, complaint = call("check", "door_models:mine", files[1], *asked[2:])
    assert code == 0, complaint
    assert "Read exactly" in shown
    code, shown, complaint = call("diff", *files, "--model", "door_models:mine", *asked[2:])
    assert code == 0, complaint
    assert flip in " ".join(shown.split()) if flip else "to another" not in shown


@pytest.mark.parametrize("place", ["link", "graph"])
def test_stored_graphs_say_why_they_have_neither_links_nor_graphs(place, tmp_path):
    unit, _, _, target = PLACES[place]
    stored = []
    for name, data in (("before", BEFORE), ("after", AFTER)):
        axiompath.save_graph(tmp_path / f"{name}.npz", Data(x=data.x, edge_index=data.edge_index))
        stored.append(axiompath.convert_graph(tmp_path / f"{name}.npz", tmp_path / name))
    for links in [None, [target]][: 1 + (unit == "link")]:
        with pytest.raises(InputError, match="a pooled graph takes from every node, and a pair may lie anywhere"):
            axiompath.Explainer(made(unit, "classes"), *stored, links=links)


def test_batches_and_pairs_come_back_from_files(tmp_path):
    batch = BATCHES[0].clone()
    torch.save(batch, tmp_path / "batch.pt")
    batch.graph_id = torch.tensor([7, 9])
    axiompath.save_graph(tmp_path / "batch.npz", batch)
    pairs = Data(x=BEFORE.x, edge_index=BEFORE.edge_index, edge_label_index=torch.tensor([[0, 3], [5, 2]]))
    axiompath.save_graph(tmp_path / "pairs.npz", pairs)
    for suffix in (".pt", ".npz"):
        found = axiompath.read_graph(tmp_path / f"batch{suffix}").data
        np.testing.assert_array_equal(found.batch, batch.batch)
    assert found.graph_id.tolist() == [7, 9]
    assert axiompath.read_graph(tmp_path / "pairs.npz").data.edge_label_index.tolist() == [[0, 3], [5, 2]]


def test_names_stand_beside_the_columns_that_they_are_of():
    explainer, _ = opened("node", "binary")
    model, before, after = explainer.session.models[-1], BEFORE, AFTER
    named = axiompath.Explainer(model, before, after, class_names=["never", "ever"])
    assert list(named.attribute(3).to_frame().columns)[-1] == "logit (ever)"
    with pytest.raises(InputError, match=r"a pair of nodes, such as \(3, 8\), .* \(got 3\)"):
        opened("link", "classes")[0].explain(3)
