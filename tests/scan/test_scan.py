"""Scans: the same bytes whatever runs them and whatever befalls them; what fails, is too large or too small is told."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCN, GCNConv, global_add_pool

import axiompath
from axiompath.errors import InputError, Notice
from axiompath.explain import walks
from axiompath.explain.answer import explain_rows
from axiompath.explain.question import Question
from axiompath.scan import parts, plan, run, work
from support.effort import examples
from support.references import literal_row
from support.scans import NO_NAMES, content, evolving_graph, in_a_process, peak_of, scan, with_names


@pytest.fixture(scope="module")
def explainer():
    torch.manual_seed(0)
    found = axiompath.Explainer(GCN(8, 16, 2, 4).eval(), *evolving_graph(), class_names=["a", "b", "c", "d"])
    assert len(found.moved()) > 600
    return found


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    return axiompath.Explainer(GCN(8, 4, 2, 3).eval(), *evolving_graph(90, 8))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of fifty targets, so that a small scan has many."""
    monkeypatch.setattr(plan, "PART_TARGETS", 50)


@pytest.fixture
def report_workers(monkeypatch):
    """A function that has workers run some lines first: they are processes of their own, and see no patch of ours."""

    def tell(lines):
        begin = run._begin

        def begin_and_report(parent):
            begin(parent)
            exec(lines, {})

        monkeypatch.setattr(run, "_begin", begin_and_report)
        run.end_idle()

    yield tell
    run.end_idle()


def at_walks(lines):
    """Lines of a worker that are run whenever it walks the paths of some targets, whose numbers are in `nodes`."""
    body = "\n    ".join(lines.strip().splitlines())
    return f"""
import os, signal, threading, time
from axiompath.explain import walks
from axiompath.explain.answer import explain_rows
walk = walks.walk_paths
def watched(change, targets):
    nodes = set(change.before.node_ids[targets].tolist())
    {body}
    return walk(change, targets)
walks.walk_paths = watched
"""


@pytest.fixture(scope="module")
def undisturbed(explainer, tmp_path_factory):
    """The bytes of a scan that nothing happened to."""
    folder = tmp_path_factory.mktemp("scan") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "PART_TARGETS", 50)
        scan(explainer, folder)
    return content(folder)


def test_finds_and_explains_what_a_plain_loop_does(explainer, tmp_path):
    found = scan(explainer, tmp_path / "out")
    moved = explainer.moved()
    assert found.moved().equals(moved)
    loop = explainer.explain_many(moved.target, progress=False)
    explained = list(found)
    assert len(explained) == len(found) == len(moved)
    for ours, theirs in zip(explained, loop, strict=True):
        assert ours.to_dict() == theirs.to_dict()
    frame = found.to_frame()
    assert frame.target.tolist() == moved.target.tolist()
    assert (frame.kl_residual >= frame.kl_bound).all()


class Linked(torch.nn.Module):
    """Two columns a pair of nodes."""

    def __init__(self):
        super().__init__()
        self.first, self.last = GCNConv(8, 5), torch.nn.Linear(10, 2)

    def forward(self, x, edge_index, edge_label_index):
        h = self.first(x, edge_index).relu()
        return self.last(torch.cat([h[edge_label_index[0]], h[edge_label_index[1]]], dim=-1))


class Pooled(torch.nn.Module):
    """Three columns a graph."""

    def __init__(self):
        super().__init__()
        self.first, self.last = GCNConv(8, 5), torch.nn.Linear(5, 3)

    def forward(self, x, edge_index, batch):
        return self.last(global_add_pool(self.first(x, edge_index).relu(), batch))


ROADS = {
    "names": (
        lambda: GCN(8, 6, 2, 3),
        {"class_names": ["a", "b", "c"], "node_names": {n: f"n{n}" for n in range(0, 40, 3)}},
    ),
    "no names": (lambda: GCN(8, 6, 2, 3), {}),
    "values": (lambda: GCN(8, 6, 2, 2), {"output": "value", "class_names": ["a", "b"]}),
    "labels": (lambda: GCN(8, 6, 2, 3), {"output": "labels"}),
    "one logit": (lambda: GCN(8, 6, 2, 1), {"output": "binary", "class_names": ["n", "y"]}),
    "links": (Linked, {"links": np.arange(40).reshape(20, 2), "node_names": {n: f"n{n}" for n in range(7)}}),
    "graphs": (Pooled, {"node_names": {n: f"n{n}" for n in range(7)}}),
}


@pytest.mark.parametrize(("road", "method"), [*((road, "convex") for road in ROADS), ("names", "gnnlrp")])
def test_rows_of_parts_are_those_of_the_answers_one_by_one(road, method):
    make, options = ROADS[road]
    before, after = evolving_graph(40, 6)
    if road == "graphs":
        before, after = (
            Batch.from_data_list([one, other])
            for one, other in zip((before, after), evolving_graph(30, 6, 1), strict=True)
        )
    torch.manual_seed(0)
    engine = axiompath.Explainer(make().eval(), before, after, **options).session.paths
    rows = np.flatnonzero((engine.num_paths > 0) & engine.change.in_both)
    columns = parts.columns_of(engine.change.task)
    for question in (Question(0, method), Question(4, method)):
        found = list(explain_rows(engine.change, engine.walks(rows, 1e9, question), question, engine.caption))
        table = parts.to_table(found, parts.pa.schema(list(columns.items())))
        assert len(found) == len(table) == len(rows) > 0
        assert repr(table.to_pylist()) == repr([literal_row(one, columns) for one in found])
        # By itself a target has the answer that it has among others, to the last bit.
        for row, one in zip(rows, found, strict=True):
            (alone,) = engine.explain(np.array([row]), question, 1e9)
            assert json.dumps(alone.to_dict()) == json.dumps(one.to_dict())


@pytest.mark.parametrize(("min_kl", "only_flips"), [(0.0, False), (1e-3, False), (0.05, False), (0.0, True)])
def test_thresholds_decide_who_is_explained(explainer, min_kl, only_flips):
    found = scan(explainer, None, min_kl=min_kl, only_flips=only_flips)
    moved = explainer.moved()
    flipped = moved.class_before != moved.class_after
    expected = moved[flipped if only_flips else flipped | (moved.kl >= min_kl)]
    assert [e.target for e in found] == expected.target.tolist()
    assert 0 < flipped.sum() < len(moved)


def test_without_a_folder_nothing_is_left_behind(explainer):
    found = scan(explainer, None, min_kl=0.05)
    folder = found.folder
    assert folder.is_dir()
    del found
    assert not folder.exists()


@pytest.mark.parametrize("workers", [2, 5])
def test_the_number_of_workers_changes_no_byte(explainer, tmp_path, undisturbed, workers):
    scan(explainer, tmp_path, workers=workers)
    assert content(tmp_path) == undisturbed


@pytest.mark.system
@pytest.mark.parametrize("batch_bytes", [1.0, 1e5, 1e9])
def test_the_size_of_batches_changes_no_byte(explainer, tmp_path, undisturbed, batch_bytes, report_workers):
    report_workers(f"from axiompath.explain import walks; walks.BATCH_BYTES = {batch_bytes}")
    scan(explainer, tmp_path, workers=2)
    assert content(tmp_path) == undisturbed


@pytest.mark.system
@pytest.mark.parametrize("method", ["exact", "linear", "gnnlrp", "grad"])
def test_every_method_gives_the_same_bytes_again(explainer, tmp_path, method, report_workers):
    folders = [tmp_path / name for name in ("one", "two")]
    scan(explainer, folders[0], workers=1, method=method, min_kl=1e-4, memory="4GB")
    report_workers("from axiompath.explain import walks; walks.BATCH_BYTES = 1.0")
    scan(explainer, folders[1], workers=2, method=method, min_kl=1e-4, memory="4GB")
    assert content(folders[0]) == content(folders[1])
    assert len(axiompath.read_scan(folders[0])) > 50


def test_a_seed_of_nothing_else(explainer, tmp_path, undisturbed):
    """A second Explainer, from the same graphs with their edges in another order, writes the same bytes."""
    before, after = evolving_graph()
    shuffled = Data(x=after.x, edge_index=after.edge_index[:, torch.randperm(after.num_edges)])
    torch.manual_seed(0)
    again = axiompath.Explainer(GCN(8, 16, 2, 4).eval(), before, shuffled, class_names=["a", "b", "c", "d"])
    scan(again, tmp_path)
    assert content(tmp_path) == undisturbed


# Faults


def is_complete(folder):
    path = folder / "manifest.json"
    return path.exists() and json.loads(path.read_text())["complete"]


def kill_and_go_on(tmp_path, rounds):
    """Kill a scan, or it and all its workers, at random moments; flip a bit of a finished part every third time.

    Half of the moments are of the clock, half of the work: when so many parts are there.
    """
    torch.manual_seed(0)
    small = axiompath.Explainer(GCN(8, 16, 2, 4).eval(), *evolving_graph(600, 30))
    options = {"method": "topk", "budget": 5, "workers": 2}
    start = time.perf_counter()
    os.waitpid(in_a_process(lambda: scan(small, tmp_path / "timed", **options)), 0)
    whole = time.perf_counter() - start
    expected = content(tmp_path / "timed")
    small_parts = list((tmp_path / "timed").glob("parts/*.parquet"))
    rng = random.Random(0)
    halfway = flipped = 0
    for moment in range(rounds):
        folder = tmp_path / f"{moment}"
        child = in_a_process(lambda folder=folder: scan(small, folder, **options))
        if moment % 4 < 2:
            time.sleep(rng.uniform(0.0, 1.0) * whole)
        else:
            wanted = rng.randrange(1, len(small_parts))
            while len(list(folder.glob("parts/*.parquet"))) < wanted and not is_complete(folder):
                time.sleep(0.001)
        tree = psutil.Process(child).children(recursive=True)
        for process in [] if moment % 2 else tree:  # else they find out by themselves
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        _, left = psutil.wait_procs(tree, timeout=10)
        assert left == [], "workers that outlive the process they work for"
        parts = sorted(folder.glob("parts/*.parquet"))
        complete = is_complete(folder)
        halfway += not complete and len(parts) > 0
        if not complete and (folder / "manifest.json").exists():
            with pytest.raises(InputError, match="run the same scan again and it resumes"):
                axiompath.read_scan(folder)
        if moment % 3 == 0 and parts:
            flipped += 1
            flip(rng.choice(parts), rng)
            with pytest.warns(Notice, match="1 of .* parts in .* are damaged.*computed again"):
                scan(small, folder, **options)
        else:
            scan(small, folder, **options)
        assert content(folder) == expected, f"killed at moment {moment}"
    assert halfway >= rounds / 5
    assert flipped >= rounds / 10


def flip(path, rng):
    """Another bit somewhere in the rows, where the footer still reads well."""
    held = bytearray(path.read_bytes())
    held[rng.randrange(len(held) // 2)] ^= 1 << rng.randrange(8)
    path.write_bytes(held)


@pytest.mark.system
def test_killed_at_ten_moments_it_goes_on_to_the_same_bytes(tmp_path):
    kill_and_go_on(tmp_path, 10)


@pytest.mark.slow
def test_killed_at_a_hundred_moments_it_goes_on_to_the_same_bytes(tmp_path):
    kill_and_go_on(tmp_path, 100)


def test_parts_that_are_there_are_not_computed_again(explainer, tmp_path, undisturbed, monkeypatch):
    scan(explainer, tmp_path)
    parts = sorted(tmp_path.glob("parts/*.parquet"))
    kept = {path: path.stat().st_mtime_ns for path in parts[1:]}
    parts[0].unlink()
    parts[0].with_suffix(".sha256").unlink()
    lose_the_manifest(tmp_path)
    scan(explainer, tmp_path)
    assert content(tmp_path) == undisturbed
    assert {path: path.stat().st_mtime_ns for path in parts[1:]} == kept


def lose_the_manifest(folder):
    for name in ("manifest.json", "moved.parquet", "too_large.parquet", "changes.parquet", "nodes.parquet"):
        (folder / name).unlink()


@pytest.mark.system
def test_a_worker_that_dies_is_replaced_and_its_part_done_again(explainer, tmp_path, undisturbed, report_workers):
    mark, node = tmp_path / "mark", int(explainer.moved().target[120])
    report_workers(at_walks(f"""
if {node} in nodes and not os.path.exists({str(mark)!r}):
    open({str(mark)!r}, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""))  # fmt: skip
    scan(explainer, tmp_path / "out", workers=2)
    assert mark.exists()
    assert content(tmp_path / "out") == undisturbed


def killed_at_its_start(times, mark):
    """Lines of a worker: killed at its start, so many times."""
    return f"""
import os, signal
with open({str(mark)!r}, "a+") as stream:
    stream.write("x")
    stream.seek(0)
    if len(stream.read()) <= {times}:
        stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.system
def test_workers_that_are_killed_at_their_start_are_started_again(small, tmp_path, report_workers):
    report_workers(killed_at_its_start(1, tmp_path / "mark"))
    scan(small, tmp_path / "out", workers=2)
    assert (tmp_path / "mark").read_text().startswith("xx")
    assert axiompath.read_scan(tmp_path / "out").to_frame().target.is_unique


@pytest.mark.system
def test_workers_that_are_killed_again_and_again_are_said_to_be(small, tmp_path, report_workers):
    report_workers(killed_at_its_start(10**6, tmp_path / "mark"))
    with pytest.raises(
        InputError, match=r"processes to live \(they were killed 3 times, .*memory.*continues where it stop"
    ):
        scan(small, tmp_path / "out", workers=2)


@pytest.mark.long
def test_workers_import_nothing_from_the_current_folder(small, tmp_path, monkeypatch):
    names = ("os", "select", "signal", "socket", "pickle", "loky", "multiprocessing", "runpy")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()\n")
    script = tmp_path.parent / f"{tmp_path.name}.py"
    lines = SCRIPT.replace("plan.PART_TARGETS = 50", "plan.PART_TARGETS = 50\nsys.path[:] = filter(None, sys.path)")
    script.write_text(f"{lines}\nexplainer.scan(sys.argv[1], only_flips=True, workers=2, progress=False)")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(script), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert axiompath.read_scan(tmp_path / "out").manifest["num_targets"] > 0
    assert not (tmp_path / "canary").exists()


@pytest.mark.system
def test_a_target_at_which_every_worker_dies_is_recorded_and_stops_no_other(explainer, tmp_path, report_workers):
    victim = int(explainer.moved().target[70])
    whole = scan(explainer, tmp_path / "other", min_kl=1e-4, workers=2)
    report_workers(at_walks(f"if {victim} in nodes: os.kill(os.getpid(), signal.SIGKILL)"))
    found = scan(explainer, tmp_path / "out", min_kl=1e-4, workers=2)
    failed = found.failures()
    assert failed.target.tolist() == [victim]
    assert "died" in failed.problem[0]
    assert len(found) == found.manifest["num_targets"] - 1 == len(whole) - 1
    assert victim not in [e.target for e in found]


@pytest.mark.long
def test_a_target_that_fails_is_recorded_with_its_reason(explainer, tmp_path, report_workers):
    victims = {int(node) for node in explainer.moved().target[[3, 60, 61]]}
    report_workers(at_walks(f"""
hit = nodes & {victims}
if hit: raise ArithmeticError("no luck with " + str(len(hit)))
"""))  # fmt: skip
    found = scan(explainer, tmp_path, workers=2)
    failed = found.failures()
    assert set(failed.target) == victims
    assert set(failed.problem) == {"ArithmeticError: no luck with 1"}
    assert "failed: 3" in found.summary
    loop = {e.target: e for e in explainer.explain_many(found.moved().target, progress=False)}
    for explanation in found:
        assert explanation.to_dict() == loop[explanation.target].to_dict()
    assert len(found) == len(loop) - 3


SCRIPT = """
import sys, threading
import numpy as np, torch
from torch_geometric.nn import GCN
import axiompath
from axiompath.scan import plan
from support.scans import evolving_graph

plan.PART_TARGETS = 50
torch.manual_seed(0)
explainer = axiompath.Explainer(GCN(8, 16, 2, 4).eval(), *evolving_graph(), class_names=["a", "b", "c", "d"])
"""


def run_script(lines, *arguments, **options):
    """A script without a guard, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT + lines, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.system
def test_a_daemonic_process_may_scan(explainer, tmp_path):
    process = multiprocessing.get_context("fork").Process(
        target=scan, args=(explainer, tmp_path / "out"), kwargs={"min_kl": 0.01}, daemon=True
    )
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert len(axiompath.read_scan(tmp_path / "out")) > 10


def test_a_graph_that_takes_longer_to_hand_over_than_its_parts_take_is_not_handed_over(
    explainer, tmp_path, undisturbed, monkeypatch
):
    monkeypatch.setattr(run, "LocalWorkers", lambda *_: pytest.fail("workers were started"))
    monkeypatch.setattr(run, "PART_BYTES", 1.0)
    scan(explainer, tmp_path / "a", workers=2)
    assert content(tmp_path / "a") == undisturbed


def test_workers_that_cannot_read_the_model_are_not_used(explainer, tmp_path, undisturbed, monkeypatch):
    class Unknown(str):  # no other process can find it
        pass

    named = with_names(explainer.session, class_names=tuple(map(Unknown, "abcd")))
    monkeypatch.setattr(explainer, "session", named)
    with pytest.warns(Notice, match="runs on one core, in this process"):
        scan(explainer, tmp_path, workers=2)
    assert content(tmp_path) == undisturbed


@pytest.mark.system
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(other, marks=pytest.mark.slow) for other in (signal.SIGHUP, signal.SIGINT))],
)
def test_signals_stop_a_scan_in_good_order(tmp_path, number):
    process = run_script(  # hundreds of parts, so that it is not over before the signal comes
        "plan.PART_TARGETS = 2\nexplainer.scan(sys.argv[1], min_kl=0, workers=2, progress=False)", tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("parts/*.par*")) and time.monotonic() < deadline:
        time.sleep(0.001)
    tree = psutil.Process(process.pid).children(recursive=True)
    assert len(tree) >= 3
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert psutil.wait_procs(tree, timeout=10)[1] == []
    assert not list(tmp_path.rglob("*.part"))


def test_a_finished_scan_is_run_again_without_writing(explainer, tmp_path, monkeypatch):
    first = scan(explainer, tmp_path, min_kl=0, only_flips=True)
    held = content(tmp_path)

    def refuse(*args, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("axiompath.files.folder.ResumableFolder.locked", refuse)
    monkeypatch.setattr("axiompath.storage.writing.whole_file", refuse)
    again = scan(explainer, tmp_path, min_kl=0.0, only_flips=1)  # zero is zero, and true is true
    assert first.manifest == again.manifest
    assert content(tmp_path) == held


def test_a_full_disk_leaves_no_part_that_is_not_whole(explainer, tmp_path, undisturbed):
    sizes = [path.stat().st_size for path in _parts_of(explainer, tmp_path / "whole")]
    limit = int(np.median(sizes))
    reason = tmp_path / "reason"

    def write_with_little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            scan(explainer, tmp_path / "out")
        except OSError as error:
            os.write(os.open(reason, os.O_CREAT | os.O_WRONLY), str(error).encode())
            raise

    _, status = os.waitpid(in_a_process(write_with_little_room), 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert "too large" in reason.read_text()
    held = content(tmp_path / "out")
    assert not json.loads((tmp_path / "out" / "manifest.json").read_text())["complete"]
    assert all(undisturbed[name] == digest for name, digest in held.items() if name.endswith(".parquet"))
    assert not [name for name in held if name.endswith(".part")]
    scan(explainer, tmp_path / "out")
    assert content(tmp_path / "out") == undisturbed


def _parts_of(explainer, folder):
    scan(explainer, folder)
    return list(folder.glob("parts/*.parquet"))


@pytest.mark.system
def test_two_scans_do_not_write_to_one_folder(explainer, tmp_path, undisturbed):
    child = in_a_process(lambda: scan(explainer, tmp_path / "out"))
    while not (tmp_path / "out" / "manifest.json").exists():
        time.sleep(0.001)
    with pytest.raises(InputError, match="another scan is running"):
        scan(explainer, tmp_path / "out")
    os.waitpid(child, 0)
    assert content(tmp_path / "out") == undisturbed


def test_nothing_of_somebody_elses_is_touched(explainer, tmp_path, monkeypatch):
    scan(explainer, tmp_path / "out", min_kl=0.05)
    held = content(tmp_path / "out")
    with pytest.raises(InputError, match="another question"):
        scan(explainer, tmp_path / "out", min_kl=0.05, budget=3)
    monkeypatch.setattr(explainer, "session", with_names(explainer.session, class_names=("w", "x", "y", "z")))
    with pytest.raises(InputError, match="nothing was changed there"):
        scan(explainer, tmp_path / "out", min_kl=0.05)
    assert content(tmp_path / "out") == held
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Expected a folder"):
        scan(explainer, tmp_path / "file")


TAKEN = [
    "moved.parquet",
    "too_large.parquet",
    "changes.parquet",
    "nodes.parquet",
    "blamed.parquet",
    "flips.parquet",
    "summary.json",
    "parts",
    ".lock",
    "parts/part-000000.parquet",
    "parts/part-000003.sha256",
]


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_is_taken_is_refused_before_anything_is_made(explainer, tmp_path, name):
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("chapter 1")
    with pytest.raises(InputError, match=f"{mine.name} is something else.*nothing was changed there"):
        scan(explainer, tmp_path)
    assert content(tmp_path) == {name: hashlib.sha256(b"chapter 1").hexdigest()}


ODD = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "link to nowhere": lambda path: path.symlink_to("/no/such/place"),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.system
@pytest.mark.parametrize("began", [False, True])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_plain_file_is_somebodys(tmp_path, kind, began):
    """Nothing is waited for, and nothing taken away, also where the scan is whole but for this."""
    torch.manual_seed(0)
    small = axiompath.Explainer(GCN(8, 4, 2, 3).eval(), *evolving_graph(60, 6))
    whole = tmp_path / "whole"
    scan(small, whole, workers=1)
    names = [name for name in (*content(whole), "parts", "") if began or not name.startswith("parts/")]
    for name in [name for name in names if not (began and name in ("", "parts"))]:
        folder = tmp_path / f"{names.index(name)}"
        if began:
            shutil.copytree(whole, folder)
            (folder / name).unlink()
        elif name:
            folder.mkdir()
        ODD[kind](folder / name)
        held = os.lstat(folder / name)
        if kind == "folder" and name in ("", "parts"):
            continue
        with pytest.raises(InputError, match=r"is something else.*nothing was changed there|Expected a folder"):
            scan(small, folder, workers=1)
        assert os.lstat(folder / name).st_ino == held.st_ino, name


FOREIGN = ["parts/part-000002.parquet", "moved.parquet", "too_large.parquet", "changes.parquet", "nodes.parquet"]


@pytest.mark.system
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_refused_in_a_folder_that_this_scan_began(explainer, tmp_path, undisturbed, name):
    scan(explainer, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    unfinished = {key: value for key, value in manifest.items() if key not in ("parts", "tables")}
    (tmp_path / "manifest.json").write_text(json.dumps({**unfinished, "complete": False}))
    mine, record = tmp_path / name, (tmp_path / name).with_suffix(".sha256")
    ours, digest = mine.read_bytes(), record.read_bytes() if record.exists() else None
    mine.write_text("chapter 1")
    record.unlink(missing_ok=True)
    held = content(tmp_path)
    with pytest.raises(InputError, match=f"{mine.name} is something else"):
        scan(explainer, tmp_path)
    assert content(tmp_path) == held
    mine.write_bytes(ours)  # as it is where the scan was killed just before its manifest
    if digest is not None:
        record.write_bytes(digest)
    scan(explainer, tmp_path)
    assert content(tmp_path) == undisturbed


def test_other_files_and_drafts_are_left_alone(explainer, tmp_path, undisturbed):
    (tmp_path / "parts").mkdir()
    names = (".DS_Store", "readme.md", "parts/notes.txt", "download.iso.part", "parts/mine.part")
    ours = [tmp_path / "manifest.json.0123456789ab.part", tmp_path / "parts" / "part-000003.parquet.0123456789ab.part"]
    strangers = [tmp_path / name for name in names]
    for path in (*strangers, *ours):
        path.write_text("mine")
    scan(explainer, tmp_path)
    assert [path.read_text() for path in strangers] == ["mine"] * len(strangers)
    assert not any(path.exists() for path in ours)
    for path in strangers:
        path.unlink()
    assert content(tmp_path) == undisturbed


@pytest.mark.parametrize("cut", [False, True])
def test_a_part_that_was_changed_is_noticed_and_made_again(explainer, tmp_path, cut):
    found = scan(explainer, tmp_path, min_kl=0.01)
    part = next(tmp_path.glob("parts/*.parquet"))
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    assert part.with_suffix(".sha256").read_text() == f"{digest}  {part.name}\n"  # as sha256sum has it
    part.write_bytes(part.read_bytes()[:-100]) if cut else flip(part, random.Random(0))
    for read in (list, axiompath.Scan.to_frame, axiompath.Scan.failures):
        with pytest.raises(InputError, match="missing or was changed"):
            read(found)
    with pytest.raises(InputError, match=r"found no manifest\.json"):
        axiompath.read_scan(tmp_path / "parts")
    with pytest.warns(Notice, match=r"part-000000.parquet the first; they are computed again"):
        assert len(list(scan(explainer, tmp_path, min_kl=0.01))) == len(found)


@pytest.mark.parametrize("finished", [True, False])
def test_a_damaged_part_is_made_again_and_never_blessed(explainer, tmp_path, undisturbed, finished):
    scan(explainer, tmp_path)
    parts = sorted(tmp_path.glob("parts/*.parquet"))
    rng = random.Random(0)
    for part in parts[:6]:
        flip(part, rng)
    parts[6].with_suffix(".sha256").write_text("no digest")
    parts[7].with_suffix(".sha256").unlink()
    if not finished:
        lose_the_manifest(tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in parts[8:]}
    with pytest.warns(Notice, match="8 of .* parts"):
        scan(explainer, tmp_path)
    assert content(tmp_path) == undisturbed
    assert {path: path.stat().st_mtime_ns for path in parts[8:]} == kept


def bytes_of(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::axiompath.errors.Notice")
def test_a_rerun_mends_a_flipped_bit_in_any_file(small, tmp_path):
    """Digests and counts of the manifest too: afterwards each byte is as it was."""
    rng = random.Random(0)
    scan(small, tmp_path, flip_seconds=60)
    whole = bytes_of(tmp_path)
    assert len(whole) == 11  # the manifest, the summary, five tables, two parts and their records
    for path, held in whole.items():
        for place in [rng.randrange(len(held)) for _ in range(examples(60) if path.suffix == ".json" else 1)]:
            path.write_bytes(held[:place] + bytes([held[place] ^ 1 << rng.randrange(8)]) + held[place + 1 :])
            scan(small, tmp_path, flip_seconds=60)
            assert bytes_of(tmp_path) == whole, (path.name, place)


@pytest.mark.filterwarnings("ignore::axiompath.errors.Notice")
def test_a_rerun_mends_counts_and_tables_of_blame(small, tmp_path):
    scan(small, tmp_path, workers=1, only_flips=True, blame=1)
    whole = bytes_of(tmp_path)
    flip(next(tmp_path.glob("blame/facts-*.parquet")), random.Random(0))
    with pytest.warns(Notice, match=r"1 of 1 parts in .*blame are damaged, facts-000000.parquet"):
        scan(small, tmp_path, workers=1, only_flips=True)
    assert bytes_of(tmp_path) == whole
    flip(tmp_path / "blamed.parquet", random.Random(0))
    scan(small, tmp_path, workers=1, only_flips=True, blame=1)
    assert bytes_of(tmp_path) == whole
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["blame"]["num_sampled"] += 1
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    scan(small, tmp_path, workers=1, only_flips=True, blame=1)
    assert bytes_of(tmp_path) == whole


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "dask"}, "Expected an engine among local, ray"),
        ({"workers": 0}, "Expected 1 worker or more"),
        ({"memory": "1MB"}, r"at least 200 MB for a scan \(got 1 MB\): a worker"),
        ({"min_kl": -1.0}, "0 or more, in nats"),
        ({"min_kl": float("nan")}, "0 or more, in nats"),
        ({"budget": -1}, "Expected a budget"),
    ],
)
def test_bad_options_get_a_sentence(explainer, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        scan(explainer, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# Memory


@pytest.fixture(scope="module")
def crowded():
    """Two hubs with 360,000 altered paths each, among many nodes with few."""
    wide, fans = 600, 100
    inner, outer = np.arange(2, 2 + wide), np.arange(2 + wide, 2 + 2 * wide)
    fan = np.arange(2 + 2 * wide, 2 + 2 * wide + fans)
    u = np.concatenate([inner, inner, np.tile(outer, wide), np.zeros(fans, int)])
    v = np.concatenate([np.zeros(wide, int), np.ones(wide, int), np.repeat(inner, wide), fan])
    edges = np.stack([u, v])
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(fan[-1] + 1, 8)).astype(np.float32))
    after = np.concatenate([edges, np.array([[2 + wide, 3 + wide], [0, 1]])], axis=1)
    torch.manual_seed(0)
    return axiompath.Explainer(
        GCN(8, 16, 2, 8).eval(), *(Data(x=x, edge_index=torch.from_numpy(e)) for e in (edges, after))
    )


def test_targets_too_large_are_listed_with_their_counts(crowded, tmp_path, monkeypatch):
    monkeypatch.setattr(walks, "PRICED_PATHS", 10**9)  # a list of all paths, or nothing
    counts = crowded.num_paths
    assert counts[0] > 360_000
    small, large = (scan(crowded, tmp_path / name, memory=name) for name in ("200MB", "4GB"))
    left_out = small.too_large()
    missing = {e.target for e in large} - {e.target for e in small}
    assert set(left_out.target) == missing == {0, 1}
    assert len(large.too_large()) == 0
    for node, name, num_paths, size in left_out.itertuples(index=False):
        assert name == str(node)
        assert num_paths == counts[node]
        assert size > 64e6


@pytest.mark.system
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("method", ["convex", "exact", "topk", "gnnlrp", "grad"])
def test_a_worker_stays_within_what_its_part_was_said_to_need(crowded, tmp_path, method, monkeypatch):
    monkeypatch.setattr(plan, "PART_TARGETS", 1)  # each hub is a part, and each small target
    question = Question(10, method)
    made = plan.make_plan(
        crowded.change, crowded.session.moved_rows(), crowded.num_paths, crowded.num_bytes, question,
        plan.Thresholds(0.0), 1e10, NO_NAMES,
    )  # fmt: skip
    load = work.Workload(
        work.share_change(crowded.change), question, made.walks, made.indptr, made.digest, tmp_path, NO_NAMES
    )
    largest = int(np.argmax([load.need_of(part) for part in range(made.num_parts)]))
    smallest = int(np.argmin([load.need_of(part) for part in range(made.num_parts)]))
    for part in (largest, smallest):
        assert peak_of(load, part) <= load.need_of(part)


PRIVATE = re.compile(rb"^(Private_Dirty|Anonymous|Swap): +([0-9]+) kB", re.MULTILINE)


def _private(process):
    """Bytes that a process alone holds and that are on no disk: of a file that is mapped, the pages it wrote to.

    Pages of a file that were written a moment ago, by whom ever, count as dirty in all processes that read them.
    """
    try:
        found = PRIVATE.findall(Path(f"/proc/{process.pid}/smaps").read_bytes())
    except OSError:
        return 0
    kinds = [
        [int(value) for kind, value in found if kind == name] for name in (b"Private_Dirty", b"Anonymous", b"Swap")
    ]
    return sum(min(dirty, anonymous) + swap for dirty, anonymous, swap in zip(*kinds, strict=True)) * 1024


def most_private(run):
    """The private memory of all workers together while it runs, at most."""
    seen, over = [0], threading.Event()

    def watch():
        while not over.is_set():
            with contextlib.suppress(psutil.NoSuchProcess):
                seen.append(sum(map(_private, psutil.Process().children())))
            time.sleep(0.003)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        over.set()
        watcher.join()
    return max(seen)


@pytest.mark.system
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("kind", "method", "least"), [("hubs", "exact", 30e6), ("hubs", "topk", 30e6), ("full batches", "topk", 60e6)]
)
def test_all_workers_together_stay_within_the_budget(crowded, tmp_path, kind, method, least, monkeypatch):
    """The private memory of everybody below this process: hubs by one worker, or full batches by two."""
    run.end_idle()  # what tests before this one did to theirs is not looked at
    measured, memory = crowded, work.PROCESS_BYTES + 54e6
    if kind == "full batches":  # parts of many targets, and a change as large as a batch in the file that they map
        monkeypatch.setattr(plan, "PART_TARGETS", 200)
        torch.manual_seed(0)
        measured = axiompath.Explainer(GCN(8, 128, 2, 20).eval(), *evolving_graph(4000, 300))
        memory = 2 * (work.PROCESS_BYTES + 64e6)
    options = {"memory": memory, "method": method, "workers": 2, "min_kl": 1e-4 if measured is not crowded else 0.0}
    most = most_private(lambda: scan(measured, tmp_path / "out", **options))
    found = axiompath.read_scan(tmp_path / "out")
    assert len(found) > 100
    assert any("Found among" in e.status for e in found) == (kind == "hubs")
    assert least < most <= memory


def test_no_more_parts_run_at_a_time_than_the_budget_holds(crowded, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "PART_TARGETS", 1)
    memory, most, running = 500e6, [], {}

    class Watched(run.LocalWorkers):
        def submit(self, kind, number):
            needs[number] = loads[0].need_of(number)
            running[number] = needs[number]
            most.append(sum(running.values()) + (self.size - len(running)) * self.idle_bytes)
            found = super().submit(kind, number)
            found.add_done_callback(lambda _: running.pop(number))
            return found

    needs, loads, run_parts = {}, [], run.run_parts

    def watched_run(load, *given):
        loads.append(load)
        return run_parts(load, *given)

    monkeypatch.setattr(run, "LocalWorkers", Watched)
    monkeypatch.setattr(run, "run_parts", watched_run)
    found = scan(crowded, tmp_path, memory=memory, workers=3)
    assert len(found) > 100
    assert max(most) <= memory
    assert max(most) > memory / 2


def test_the_most_expensive_part_that_fits_is_handed_out():
    class Load:
        def need_of(self, part):
            return [1.0, 5.0, 9.0][part]

    left = [0, 1, 2]
    assert [run.take(left, Load(), room) for room in (6.0, 6.0, 6.0, 9.0, 9.0)] == [1, 0, None, 2, None]


def test_a_batch_fits_into_the_room():
    sizes = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 2.0, 2.0])
    planned = walks.plan_listing(np.arange(8), sizes, 10.0)
    assert [batch.tolist() for batch in planned.batches()] == [[0, 1, 2, 3], [4], [5, 6, 7]]


def test_parts_hold_a_bounded_cost():
    costs = np.array([3e6, 1e6, 9e5, 2e5, *[500.0] * 120])
    bounds = plan.cut_parts(costs).tolist()
    assert bounds == [0, 1, 3, 53, 103, 124]
    assert plan.cut_parts(np.zeros(0)).tolist() == [0]


# Along a sequence


def test_a_sequence_is_scanned_step_by_step(tmp_path):
    before, after = evolving_graph(300, 20)
    _, later = evolving_graph(300, 30)
    torch.manual_seed(0)
    model = GCN(8, 16, 2, 4).eval()
    options = {"min_kl": 0.0, "progress": False}
    scans = list(axiompath.scan_sequence(model, [before, after, later], tmp_path, **options))
    assert [s.folder.name for s in scans] == ["step-0001", "step-0002"]
    for found, pair in zip(scans, ((before, after), (after, later)), strict=True):
        assert found.moved().equals(axiompath.Explainer(model, *pair).moved())
    with pytest.raises(ValueError, match="Expected two graphs or more"):
        axiompath.scan_sequence(model, [before], tmp_path)


def test_nothing_moved_is_an_answer(tmp_path):
    before, _ = evolving_graph(50, 10)
    found = axiompath.Explainer(GCN(8, 4, 2, 3).eval(), before, before).scan(tmp_path, progress=False)
    assert len(found) == 0
    assert list(found) == []
    assert found.to_frame().empty
    assert found.summary.startswith("0 predictions moved")


def test_stored_graphs_are_scanned_as_any_other(tmp_path):
    before, after = evolving_graph(800, 6)
    np.save(tmp_path / "x.npy", before.x.numpy())
    for name, data, features in (("before", before, "nodes"), ("after", after, "features_of")):
        np.save(tmp_path / f"{name}.npy", data.edge_index.numpy())
        source = tmp_path / ("x.npy" if features == "nodes" else "before")
        axiompath.convert_graph(tmp_path / f"{name}.npy", tmp_path / name, **{features: source})
    torch.manual_seed(0)
    model = GCN(8, 16, 2, 4).eval()
    stored = axiompath.Explainer(model, *(axiompath.open_graph(tmp_path / name) for name in ("before", "after")))
    found = {e.target: e for e in scan(stored, tmp_path / "stored")}
    expected = {e.target: e for e in scan(axiompath.Explainer(model, before, after), tmp_path / "memory")}
    assert found.keys() == expected.keys()
    assert len(found) > 100
    for target, explanation in found.items():
        assert explanation.num_paths == expected[target].num_paths
        assert explanation.kl_bound == pytest.approx(expected[target].kl_bound, abs=1e-12)
