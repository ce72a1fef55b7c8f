"""From a list of events to a report: what is written, said, done again, and refused."""

import html
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import axiompath
from axiompath import InputError, read_watch, watch_events
from axiompath.errors import Notice
from axiompath.files.small_gnns import NodeGNN
from axiompath.report.watch_page import build_page
from axiompath.scan.scan import Scan
from axiompath.sequences.label_features import LabelFeatures, is_shown
from axiompath.sequences.training import LEAST_LABELLED, MOST_LEARNT, describe_training, networks_for
from axiompath.sequences.watch_folder import WatchedStep, describe_time

QUICK = {"top": 1, "workers": 1, "flip_seconds": 600, "src": "who", "dst": "whom", "time": "at"}


def events(count, seed=0):
    """Two sides who mostly meet their own; halfway some change sides."""
    rng, size = np.random.default_rng(seed), 60
    rows = []
    for t in range(count):
        side = (np.arange(size) + (np.arange(size) < 6) * (t > 500)) % 2
        u = int(rng.integers(size))
        v = int(rng.choice(np.flatnonzero((side == side[u]) == (rng.random() < 0.9))))
        rows.append((f"p{u}", f"p{v}", t))
    frame = pd.DataFrame(rows, columns=["who", "whom", "at"])
    return frame[frame.who != frame.whom]


LABELS = {f"p{i}": "red" if i % 2 else "blue" for i in range(60)}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch") / "w"
    return watch_events(events(620), folder, LABELS, every=100, window=300, **QUICK)


def test_a_list_of_events_becomes_a_report(watched):
    assert [step.before for step in watched.progress.steps] == ["300", "400", "500"]
    assert watched.facts["score"] >= watched.facts["baseline"]
    text = str(watched)
    for words in (
        f"A two-layer {watched.facts['network']}, the best of 3 small networks, was trained on",
        "is right for",
        "does not say that the answer is right",
        "Over 3 steps",
        "Largest step (most flips), ",
    ):
        assert words in text
    page = watched.report.read_text()
    assert "default-src 'none'" in html.unescape(page)
    assert "<script src" not in page
    assert page.index("Largest step") < page.index("was trained on")
    assert "What moved: 300 to 600" in page
    for step in (1, 2, 3):
        assert f"steps/{step:04d}.html" in page
        assert (watched.folder / "steps" / f"{step:04d}.html").is_file()
        scan = watched.scan(step)
        assert len(scan) == watched.to_frame().num_explained[step - 1]
        assert set(scan.moved().name) <= set(LABELS)
    assert "<table" in watched._repr_html_()
    assert str(read_watch(watched.folder)) == text


def test_clues_are_the_only_features_and_never_change(watched):
    """What moves a prediction is edges; what is learnt from is never shown."""
    made = watched.snapshots
    shown = dict(zip(made[0].node_names, made[0].x.sum(dim=1).tolist(), strict=True))
    for data in made:
        assert torch.equal(data.x.sum(dim=1) > 0, torch.from_numpy(is_shown(data.node_names)))
        for name, total in zip(data.node_names, data.x.sum(dim=1).tolist(), strict=True):
            assert shown.get(name, total) == total
    names = made.node_names
    assert not any(is_shown([names[number] for number in watched.progress.seen]))
    assert 20 < sum(is_shown(list(LABELS))) < 40
    assert "features: the labels of half of the nodes" in made.rule
    assert LabelFeatures.__name__


def test_new_events_are_new_steps_and_no_others(watched, tmp_path):
    folder = tmp_path / "w"
    shutil.copytree(watched.folder, folder)
    old = {path: path.stat().st_mtime_ns for path in (folder / "steps").rglob("*.parquet")}
    weights = (folder / "model" / "weights.safetensors").read_bytes()
    more = watch_events(events(720), folder, LABELS, **QUICK)
    assert len(more) == len(watched) + 1
    assert more.progress.steps[:-1] == watched.progress.steps
    assert all(path.stat().st_mtime_ns == when for path, when in old.items())
    assert (folder / "model" / "weights.safetensors").read_bytes() == weights
    assert len(more.snapshots) == 5
    again = watch_events(events(720), folder, LABELS, **QUICK)
    assert again.progress == more.progress
    with pytest.raises(InputError, match="the events that were there before, and new ones after them"):
        watch_events(events(720, seed=1), folder, LABELS, **QUICK)
    with pytest.raises(InputError, match="`every` as before, 100"):
        watch_events(events(720), folder, LABELS, every=50, **QUICK)
    for changed in ({"start": 7}, {"task": "links"}, {"window": "all"}):
        key = next(iter(changed))
        with pytest.raises(InputError, match=f"Expected `{key}` as before, .*choose another folder to change it"):
            watch_events(events(720), folder, LABELS, **changed, **QUICK)
    same = watch_events(events(720), folder, LABELS, start=float(more.snapshots.bounds[0][0]), task="nodes", **QUICK)
    assert same.progress == more.progress
    assert [scan.folder.name for scan in axiompath.read_scans(folder)] == [f"{i:04d}" for i in range(1, len(more) + 1)]


def test_links_need_no_labels(tmp_path, call):
    path = tmp_path / "e.csv"
    events(420).to_csv(path, index=False)
    columns = ["--src", "who", "--dst", "whom", "--time", "at", "--workers", 1, "--top", 1]
    code, out, err = call("watch", path, *columns, "--every", 100, "--window", 300, "--out", tmp_path / "w", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["facts"]["task"] == "links"
    assert "AUC" in " ".join(said["sentences"])
    assert said["steps"][0]["num_moved"] > 0
    again = ["watch", path, *columns, "--out", tmp_path / "w"]
    for condition, status in (("moved>0", 3), ("moved >= 1e9", 0), ("by_time>2", 0), ("flips>", 2), ("__x__>1", 2)):
        code, out, err = call(*again, "--fail-if", condition)
        assert code == status, err
        assert ("holds at" in err) == (status == 3)
        assert ("Expected a figure, a comparison and a number after --fail-if" in err) == (status == 2)
    done = read_watch(tmp_path / "w")
    assert " – p" in done.scan(1).moved().name.iloc[0]
    model = axiompath.load_model(tmp_path / "w" / "model")
    assert type(model).__name__ == "LinkGNN"


def test_kinds_of_events_are_relations(tmp_path):
    rows = events(420)
    rows["what"] = np.where(rows.who.map(LABELS) == rows.whom.map(LABELS), "likes", "hates")
    done = watch_events(rows, tmp_path / "w", LABELS, relation="what", every=100, window=300, **QUICK)
    assert "A two-layer RGCN was trained on" in str(done)
    assert type(axiompath.load_model(done.folder / "model")).__name__ == "RelationGNN"
    assert set(done.scan(1).changes().relation_name.dropna()) <= {"likes", "hates", "other"}
    opened = axiompath.Explainer(axiompath.load_model(done.folder / "model"), *done.snapshots)
    told = opened.explain(int(opened.moved().target[0])).summary()
    assert "–likes→" in told or "–hates→" in told
    with pytest.raises(InputError, match="Expected no `relation` where links are learnt"):
        watch_events(rows, tmp_path / "l", relation="what", every=100, window=300, **QUICK)


def test_a_model_that_is_given_is_not_trained(watched, tmp_path):
    own = axiompath.load_model(watched.folder / "model")
    given = watch_events(events(420), tmp_path / "w", LABELS, model=own, every=100, window=300, **QUICK)
    assert given.facts == {"task": "given"}
    assert "it was not trained here" in " ".join(given.sentences)
    assert given.progress.steps[0].num_moved == watched.progress.steps[0].num_moved


def test_what_cannot_be_watched_is_refused(tmp_path):
    with pytest.raises(InputError, match=f"labels of {LEAST_LABELLED} nodes or more, of two classes"):
        watch_events(events(420), tmp_path / "a", {"p1": "red", "p2": "blue"}, every=100, window=300, **QUICK)
    with pytest.raises(InputError, match="two snapshots or more"):
        watch_events(events(420), tmp_path / "b", LABELS, every=300, window=300, **QUICK)
    with pytest.raises(InputError, match="a task among nodes and links"):
        watch_events(events(420), tmp_path / "c", LABELS, task="graphs")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="an empty folder, or one of a watch"):
        watch_events(events(420), tmp_path / "d", LABELS, **QUICK)
    with pytest.raises(InputError, match="Expected a watch in"):
        read_watch(tmp_path / "d")
    with pytest.raises(InputError, match="columns `id` and `label`"):
        watch_events(events(420), tmp_path / "e", pd.DataFrame({"id": ["p1"]}), **QUICK)


RATED = {**QUICK, "every": 100, "window": 300}


def rate(frame):
    """Ratings of both signs, and what was rated."""
    return frame.assign(rating=np.where(frame["at"] % 3, 2.0, -3.0), kind="met")


def test_weights_that_no_trained_network_can_use_are_refused(tmp_path):
    for given in ({"weight": "rating"}, {"rule": "count"}):
        with pytest.raises(InputError, match=rf"Expected no `{next(iter(given))}` where relations are learnt"):
            watch_events(rate(events(420)), tmp_path / "kinds", LABELS, relation="kind", **given, **RATED)
    assert not list(tmp_path.glob("*/watch.json"))


def test_signed_weights_are_tried_by_networks_that_take_them(tmp_path):
    """No GCN, which takes roots of their sums; and what the chosen network does not read no page describes."""
    for name, labels in (("links", None), ("nodes", LABELS)):
        done = watch_events(rate(events(420)), tmp_path / name, labels, weight="rating", **RATED)
        tried = [network for network, *_ in done.facts["networks"]]
        assert {"mean, weights", "sum, weights"} < {*tried}
        assert "GCN, weights" not in tried
        weighted = done.facts["network"].endswith("weights")
        assert all((data.get("edge_weight") is not None) == weighted for data in done.snapshots)
        assert weighted or not (done.scan(1).changes().kind == "edge reweighted").any()


@pytest.mark.parametrize("conv", ["gcn", "mean", "sum"])
def test_weights_are_trained_with(conv):
    """The network sees the weights in training, as it does when it is asked; the reader reads it."""
    rated = events(420).assign(heavy=lambda frame: 1.0 + 50.0 * (frame["at"] % 7 == 0))
    made = axiompath.snapshots(rated, 100, 300, src="who", dst="whom", time="at", weight="heavy", nodes=LABELS)
    tried = [str(network) for network in networks_for(made[0], ("gcn",))]
    assert tried == ["GCN", "GCN, weights", "mean, weights", "sum, weights"]
    torch.manual_seed(0)
    model = NodeGNN(made[0].num_features, 4, 2, conv, weighted=True).eval()
    heavier = made[0].edge_weight * (1 + torch.arange(len(made[0].edge_weight)) % 2)
    assert not torch.equal(*(model(made[0].x, made[0].edge_index, w) for w in (made[0].edge_weight, heavier)))
    explainer = axiompath.Explainer(model, made[0], made[1])
    assert explainer.explain(int(explainer.moved().target[0]), 5).completeness < 1e-5


def test_a_link_is_linked_or_not_or_what_the_user_calls_it(tmp_path):
    done = watch_events(events(420), tmp_path / "a", pairs=30, **RATED)
    assert (done.to_frame().num_predicted <= 30).all()
    assert "30 pairs asked for at a step, the limit" in str(done)
    assert {brief.class_names for brief in done.scan(1).flips().others + done.scan(1).flips().flips} == {
        ("not linked", "linked")
    }
    assert "went from linked to not linked" in done.report.read_text() or not done.progress.steps[0].num_flipped
    named = watch_events(events(420), tmp_path / "b", answers=("stranger", "friend"), pairs=30, **RATED)
    assert "linked" not in "".join(named.findings).replace("linked to", "")
    with pytest.raises(InputError, match="Expected `pairs` as before, 30"):
        watch_events(events(420), tmp_path / "a", pairs=31, **QUICK)
    with pytest.raises(InputError, match="Expected two words as `answers`, for no and for yes"):
        watch_events(events(420), tmp_path / "c", answers="yes", **RATED)


def test_a_watch_that_lost_a_step_is_refused_and_one_that_has_one_more_is_shown(watched, tmp_path, call):
    folder = tmp_path / "w"
    shutil.copytree(watched.folder, folder)
    shutil.copytree(folder / "steps" / "0003", folder / "steps" / "0004")  # scanned, and stopped before it was listed
    code, _, err = call("report", folder, "--out", tmp_path / "page.html")
    assert code == 0, err
    shutil.rmtree(folder / "steps" / "0002")
    for command in (["serve", folder, "--port", 0], ["report", folder, "--out", tmp_path / "page.html"]):
        code, _, err = call(*command)
        assert code == 2
        assert "Expected the scan of every step" in err
        assert "got no steps/0002" in err


def test_a_step_that_was_lost_or_damaged_is_done_again(watched, tmp_path):
    folder = tmp_path / "w"
    shutil.copytree(watched.folder, folder)
    shutil.rmtree(folder / "steps" / "0002")
    table = folder / "steps" / "0001" / "moved.parquet"
    table.write_bytes(table.read_bytes()[:-40] + b"\x00" * 40)
    part = folder / "steps" / "0003" / "parts" / "part-000000.parquet"
    part.write_bytes(part.read_bytes()[:100] + b"\xff" + part.read_bytes()[101:])
    with pytest.warns(Notice, match="they are computed again"):
        again = watch_events(events(620), folder, LABELS, **QUICK)
    assert again.progress == watched.progress
    for path in watched.folder.glob("steps/*/**/*.parquet"):
        assert (folder / path.relative_to(watched.folder)).read_bytes() == path.read_bytes(), path


def test_a_diary_of_too_many_steps_is_refused_at_once(watched, tmp_path):
    held = json.loads((watched.folder / "watch.json").read_text())
    for key in ("steps", "digests"):
        (tmp_path / "watch.json").write_text(json.dumps({**held, key: held[key] * 5000}))
        with pytest.raises(InputError, match=r"Expected at most 10,000 snapshots in .*watch.json \(got [12]"):
            read_watch(tmp_path)


def test_labels_that_are_names_are_refused(tmp_path):
    """A class a node would make features and answers of as many columns as there are nodes."""
    names = {f"p{i}": f"name {i}" for i in range(MOST_LEARNT + 1)}
    with pytest.raises(InputError, match=r"at most 1,000 classes \(got 1,001\); is another column the label"):
        watch_events(events(420), tmp_path / "a", names, every=100, window=300, **QUICK)
    assert not (tmp_path / "a").exists()


read = Scan.flips


def step_of(**given):
    """A watched step with these figures."""
    return WatchedStep("a", "b", 1, 0, 9, 9, edges_expired=1, num_explained=9, score=None, **given)


def test_what_is_said_of_some_flips_says_of_which():
    told = describe_time(step_of(num_flipped=787, num_reached=21, by_time=0.95), "8")
    assert told.startswith("Of the 21 of 787 flips that were examined, 95% of the change is due only to time")
    assert describe_time(step_of(num_flipped=2, num_reached=2, by_time=0.95), "8").startswith(
        "95% of the change of its"
    )
    assert describe_time(step_of(num_flipped=2, num_reached=2, by_time=3.6), "all").startswith("More than all of the")


def watch_of(held, *steps):
    """A watch with these steps."""
    return replace(held, progress=replace(held.progress, steps=steps))


def test_the_largest_step_is_that_with_the_most_flips(watched):
    """Not with the largest share; among equals that which moved the most."""
    one, two, three = (step_of(num_flipped=flips, num_reached=0, moved_by=by) for flips, by in ((7, 1), (9, 1), (9, 2)))
    assert watch_of(watched, replace(one, num_predicted=8), two, three).largest == 3
    assert "Largest step (most flips), a to b: 9 of 9 nodes" in watch_of(watched, one, two).findings[0]


def test_a_flip_between_two_equals_is_not_the_first_that_is_told(watched):
    tie = step_of(num_flipped=3, num_reached=3, answer="It was a tie.", is_tie=True)
    clear = replace(tie, before="c", after="d", num_flipped=1, num_reached=1, answer="It was clear.", is_tie=False)
    told = watch_of(watched, tie, clear).findings
    assert told[1].startswith("A clearer flip, c to d: It was clear.")
    assert told[2] == "Its largest flip: It was a tie."


def test_flips_that_nobody_examined_are_listed_as_well(watched, monkeypatch):
    monkeypatch.setattr(Scan, "flips", lambda scan: replace(read(scan), flips=(), others=()))
    page = html.unescape(build_page(watched, {}))
    assert page.count("not examined in the time given") == watched.to_frame().num_flipped.sum() > 0


def test_a_poor_model_is_said_to_be_one():
    rules = {"the commonest class": 0.4, "the class of most neighbours": 0.5}
    facts = {
        "task": "nodes",
        "clues": False,
        "num_trained": 9,
        "num_tested": 9,
        "score": 0.5,
        "baseline": 0.5,
        "common": "a",
    }
    assert describe_training(facts, "x")[0].startswith("A naive rule, 'the commonest class', does as well as")
    told = describe_training({**facts, "network": "GCN", "networks": [["GCN", 0.5, 0.5]], "rules": rules}, "x")
    assert told[0].startswith("A naive rule, 'the class of most neighbours', does as well as the model (50.0%")
    assert describe_training(facts | {"score": 0.4}, "x")[0].startswith("The model is worse than a naive rule (40.0%;")
    assert not any(
        "naive rule" in sentence.split("; the best")[0] for sentence in describe_training(facts | {"score": 0.9}, "x")
    )


def test_a_watch_touches_nothing_of_somebody_elses(watched, tmp_path):
    folder = tmp_path / "w"
    shutil.copytree(watched.folder, folder)
    (folder / "notes.txt").write_text("mine")
    for name in ("report.html", "steps/0004.html", "snapshots/0004.npz", ".lock"):
        old = (folder / name).read_bytes() if (folder / name).exists() else None
        (folder / name).write_text("mine")
        held = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        with pytest.raises(InputError, match=r"is something else.* nothing was changed there"):
            watch_events(events(720), folder, LABELS, **QUICK)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == held
        (folder / name).unlink() if old is None else (folder / name).write_bytes(old)
    assert len(watch_events(events(720), folder, LABELS, **QUICK)) == len(watched) + 1
    assert (folder / "notes.txt").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="Expected a folder to write to"):
        watch_events(events(420), tmp_path / "file", LABELS, **QUICK)


STOPPED_IN = (
    *(f"sequences.watch.{name}" for name in ("make_sequence", "train_classifier", "save_model", "save_snapshots")),
    "report.watch_page.save_page",
)


def test_a_watch_that_was_stopped_anywhere_goes_on(watched, tmp_path, monkeypatch):
    """Also one whose first words were refused, and one that was stopped in the middle of its first step."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    folder = tmp_path / "w"
    with pytest.raises(InputError, match="two snapshots or more"):
        watch_events(events(620), folder, LABELS, every=300, window=400, **QUICK)
    for name in STOPPED_IN:
        with monkeypatch.context() as patch:
            patch.setattr(f"axiompath.{name}", stop)
            with pytest.raises(KeyboardInterrupt):
                watch_events(events(620), folder, LABELS, every=100, window=300, **QUICK)
    done = watch_events(events(620), folder, LABELS, every=100, window=300, **QUICK)
    assert str(done) == str(watched)
    for path in sorted((watched.folder / "steps").rglob("*.parquet")):
        assert (folder / path.relative_to(watched.folder)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("key", "value"),
    [("settings", {}), ("facts", {"task": "nodes"}), ("seen", [10**30]), ("settings", {"every": 3}), ("seen", ["x"])],
)
def test_a_diary_that_does_not_say_enough_is_refused(watched, tmp_path, key, value):
    folder = tmp_path / "w"
    shutil.copytree(watched.folder, folder)
    held = json.loads((folder / "watch.json").read_text())
    (folder / "watch.json").write_text(json.dumps(held | {key: value}))
    for ask in (read_watch, lambda place: watch_events(events(720), place, LABELS, **QUICK)):
        with pytest.raises(InputError, match=r"Expected what a watch wrote in .*watch\.json"):
            ask(folder)
