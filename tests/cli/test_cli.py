"""The command line, driven as a person would: what it prints, what it refuses, how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from torch_geometric.nn import SAGEConv

from axiompath import Explainer, Explanation, read_scan, save_model
from axiompath.cli import app as cli
from axiompath.cli.demo import check_room
from axiompath.cli.output import name_options
from axiompath.errors import InputError, MissingFile, TooLarge
from axiompath.readers import UnreadableModel
from support.processes import run

ESCAPE = "\x1b"


@pytest.mark.system
def test_the_demo_explains_and_writes_a_report(demo):
    folder, result = demo
    assert "Node member 8 went from class community 0" in result.stdout
    told = " ".join(result.stdout.split())
    assert 0 < told.index("Undo 2 of the 5 changes") < told.index("altered paths explain"), "what happened comes first"
    assert "member 32" in result.stdout
    assert "report.html" in result.stdout
    assert "<!DOCTYPE html>" in (folder / "report.html").read_text()[:100]
    assert sorted(file.name for file in folder.iterdir()) == ["after.npz", "before.npz", "model", "report.html"]


def test_piped_output_has_no_escape_codes(demo):
    assert ESCAPE not in demo[1].stdout
    assert demo[1].stderr == "", "not even a warning of torch's"


def test_no_line_is_wider_than_the_terminal(demo, files, call, tmp_path):
    """But where it names a file, which is to be copied."""
    from axiompath.datasets import drifting_events

    events, labels = drifting_events()
    events.to_csv(tmp_path / "events.csv", index=False)
    pd.Series(labels, name="label").rename_axis("id").to_csv(tmp_path / "labels.csv")
    names = {"--labels": tmp_path / "labels.csv", "--every": "60D", "--window": "120D", "--out": tmp_path / "w"}
    watched = ["watch", tmp_path / "events.csv", *(word for pair in names.items() for word in pair), "--workers", 1]
    texts = [demo[1].stdout]
    texts += [call(*words, columns=80)[1] for words in (("blame", *files), ("explain", *files), watched)]
    for text in texts:
        lines = [line for line in text.splitlines() if str(demo[0]) not in line and str(tmp_path) not in line]
        assert len(lines) > 5
        assert max(map(len, lines)) <= 80


def test_paths_are_grouped_to_a_depth(call, files):
    given = ("explain", *files, "--target", "member 8", "--budget", 3, "--depth")
    code, shown, _ = call(*given, 1)
    assert code == 0
    assert "any path that ends" in shown
    assert "no choice of as many of these units leaves less than" in shown.replace("\n", " ")
    assert call(*given, "auto")[0] == 0
    code, _, told = call(*given, "deep")
    assert code == 2
    assert "Expected a depth of 1 hop or more" in told


def test_explain_by_name_and_by_number(call, files, tmp_path):
    code, by_name, _ = call("explain", *files, "-t", "member 13", "--budget", 3, "--out", tmp_path / "saved")
    assert code == 0
    assert "Node member 13 stayed in class community 1" in by_name
    assert "member 30 → member 8 → member 13" in by_name
    assert call("explain", *files, "-t", 13, "--budget", 3)[1] == by_name
    assert len(Explanation.load(tmp_path / "saved" / "13.json").paths) == 3
    code, several, _ = call("explain", *files, "-t", 8, "-t", 13, "--method", "exact", "--json")
    assert code == 0
    assert [e["target"] for e in json.loads(several)] == [8, 13]
    code, unasked, _ = call("explain", *files, "--json")
    assert json.loads(unasked)[0]["target"] == 8
    code, twice, _ = call("explain", *files, "-t", "member 13", "-t", "member 13", "--budget", 1, "--json")
    assert [e["target"] for e in json.loads(twice)] == [13, 13]


def test_diff_says_what_changed_and_what_moved(call, files):
    model, before, after = files
    code, text, _ = call("diff", before, after, "--model", model)
    assert code == 0
    assert "Edges: 3 added, 2 removed, 0 reweighted" in text  # each friendship once
    assert "member 1 – member 8" in text
    assert "33 predictions moved, 1 of them to another class" in text
    code, text, _ = call("diff", before, after, "--json")
    found = json.loads(text)
    assert found["edges_added"] == 3
    both = json.loads(call("diff", before, after, "--directed", "--json")[1])
    assert (both["edges_added"], len(both["changes"])) == (6, 10)
    assert found["changes"][0] == {
        "id": 0, "kind": "edge added", "src": 1, "src_name": "member 1", "dst": 8, "dst_name": "member 8",
        "weight_before": None, "weight_after": 1.0, "num_edges": 1, "directed": False,
    }  # fmt: skip
    code, text, _ = call("diff", before, before, "--model", model)
    assert "0 added, 0 removed" in text
    assert "0 predictions moved" in text


def test_report_writes_a_file(call, files, tmp_path):
    out = tmp_path / "r.html"
    code, text, _ = call("report", *files, "--out", out, "--top", 2, "--budget", 4, "--json")
    assert code == 0
    assert json.loads(text) == {"report": str(out), "targets": [8, 13], "bytes": out.stat().st_size}
    assert out.read_text().count('id="page-') == 2
    code, _, error = call("report", *files, "--out", tmp_path / "no" / "r.html")
    assert code == 2
    assert "Expected a file in a folder that exists after --out" in error


def test_check_reads_a_model_or_says_it_cannot(call, files, tmp_path):
    code, text, _ = call("check", *files[:2])
    assert code == 0
    assert "gcn_conv.py:260" in text
    assert "Read exactly" in text
    code, text, _ = call("check", *files[:2], "--json")
    assert json.loads(text)["readable"] is True
    arguments = {"in_channels": 34, "out_channels": 4, "aggr": "median"}
    code, text, _ = call("check", save_model(SAGEConv(**arguments), tmp_path / "median", arguments), files[1])
    assert code == 2
    assert "Cannot be read" in text


@pytest.mark.long
def test_tables_and_ones_own_function_work_end_to_end(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,a,b\nAnn,1,0\nBen,0,1\nZoë,1,1\n")
    (tmp_path / "before.csv").write_text("source,target\nAnn,Ben\n")
    (tmp_path / "after.csv").write_text("source,target\nAnn,Ben\nZoë,Ben\n")
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch_geometric.nn import GCN\n"
        "def build():\n    torch.manual_seed(0)\n    return GCN(2, 4, 2, 2)\n"
    )
    line = "explain mine:build before.csv after.csv --nodes nodes.csv -t Ben"
    result = run(*line.split(), cwd=tmp_path, columns=50)
    assert result.returncode == 0, result.stderr
    assert "Node Ben" in result.stdout
    assert "Zoë" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["MODEL", "BEFORE", "nowhere.npz"], "Expected a file at nowhere.npz (found none)."),
        (["nowhere", "BEFORE", "AFTER"], "Expected a folder with model.json"),
        (["MODEL", "BEFORE", "AFTER", "-t", "nobody"], "(got 'nobody', and no node is called that"),
        (["MODEL", "BEFORE", "AFTER", "-t", "99"], "Expected a target among the 34 nodes"),
        (["MODEL", "BEFORE", "AFTER", "-t", "9" * 20], f"(got '{'9' * 20}', and no node is called that"),
        (["MODEL", "BEFORE", "AFTER", "--method", "best"], "Expected a method among convex, exact"),
        (["MODEL", "BEFORE", "AFTER", "--objective", "beauty"], "Expected an objective among"),
        (["MODEL", "BEFORE", "AFTER", "--memory", "much"], "Expected a memory budget"),
        (["MODEL", "BEFORE", "AFTER", "--memory", "1KB", "-t", "8"], "more than the budget"),
        (["MODEL", "BEFORE", "AFTER", "--budget", "-1"], "--budget"),
        (["MODEL", "BEFORE"], "Expected two graphs, before and after, or a folder of snapshots (got only"),
        (["MODEL", "BEFORE", "AFTER", "--budget", "9" * 20], "Expected a budget of at most 2,147,483,647 paths"),
        (["MODEL", "BEFORE", "AFTER", "--memory", "1e400GB"], "Expected a memory budget"),
        (["MODEL", "BEFORE", "AFTER", "--weights-before", "w"], "Expected --model-before to go with --weights-before"),
        (
            ["MODEL", "BEFORE", "AFTER", "--weights", "w", "--model-before", "net:build"],
            "Expected --weights-before to go with --model-before",
        ),
    ],
)  # fmt: skip
def test_a_wrong_question_is_a_sentence_and_exit_code_2(call, files, arguments, words):
    named = dict(zip(("MODEL", "BEFORE", "AFTER"), files, strict=True))
    code, out, error = call("explain", *(named.get(argument, argument) for argument in arguments))
    assert code == 2
    assert words in " ".join(error.split())
    assert "Traceback" not in error
    assert out == ""


@pytest.mark.parametrize(
    ("command", "words", "told"),
    [
        ("snapshots", "say which it is with `src`.", "say which it is with --src."),
        ("explain", 'pass `memory="2.01 GB"` to Explainer, or', 'pass --memory "2.01 GB", or'),
        ("explain", 'pass output="binary" or', "pass --output binary or"),
        ("blame", "go with paths=False; leave `model_before` out", "go with --no-paths; leave --model-before out"),
        ("undo", "`to=` another, of those that `changes()` lists", "--to another, of those that axiompath diff lists"),
        ("snapshots", 'longer `window`, or keep="seen".', "longer --window, or --keep seen."),
        ("explain", "the columns `source` and `target`", "the columns `source` and `target`"),
        (
            "snapshots",
            "(got data/window=3/e.csv, 'keep=1', until=3/x)",
            "(got data/window=3/e.csv, 'keep=1', until=3/x)",
        ),
    ],
)
def test_arguments_are_called_by_their_options(command, words, told):
    assert name_options(words, cli._options_of(cli.app, command.split())) == told


LONG = "n" * 300
NO_FILE = r"Expected a (name that a file can have|place that can be written to) \(got.*File name too long"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"report MODEL BEFORE AFTER --out {LONG}", NO_FILE),
        (f"serve {LONG}", NO_FILE),
        ("snapshots e.csv --out s", "say which it is with --src."),
        ("undo MODEL BEFORE AFTER --to 9", "Expected --to to be a class between 0 and 3"),
        ("explain MODEL small.npz small.npz", r"could not be run .* \(there are 3 in `x`\)"),
        ("demo --out e.csv/demo", "Expected a place that can be written to"),
    ],
)
def test_errors_of_the_user_are_sentences_that_name_options(call, files, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    Path("e.csv").write_text("a,b,c\nx,y,1\n")
    np.savez("small.npz", x=np.eye(3), edge_index=np.array([[0], [1]]))
    named = dict(zip(("MODEL", "BEFORE", "AFTER"), files, strict=True))
    code, _, error = call(*(named.get(word, word) for word in line.split()))
    assert code == 2
    assert re.search(words, " ".join(error.split()))
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("Expected less of ourselves."), 1),
        (ValueError("too many values to unpack"), 1),
        (FileNotFoundError("Expected a file of our own."), 1),
        (InputError("No such thing."), 2),
        (MissingFile("No such file."), 2),
        (TooLarge("No such room."), 2),
        (UnreadableModel("No such model."), 2),
    ],
)
def test_whose_fault_it_is_follows_from_the_type_alone(call, files, monkeypatch, error, code):
    def fail(self):
        raise error

    monkeypatch.setattr(Explainer, "moved", fail)
    left, _, words = call("explain", *files)
    assert left == code
    assert str(error) in words
    assert (f"An internal error, not your mistake: {type(error).__name__}: " in words) == (code == 1)
    assert "Traceback" not in words


def test_debug_shows_the_traceback(monkeypatch, files):
    monkeypatch.setenv("AXIOMPATH_DEBUG", "")
    monkeypatch.setattr(sys, "argv", ["axiompath", "--debug", "diff", "nowhere.npz", "nowhere.npz"])
    with pytest.raises(InputError, match="found none"):
        cli.main()


@pytest.mark.parametrize(
    "command", ["demo", "check", "diff", "blame", "undo", "explain", "story", "report", "scan", "convert"]
)
def test_every_command_has_help_with_an_example(call, command):
    code, text, _ = call(command, "--help")
    assert code == 0
    assert f"Example: axiompath {command}" in " ".join(text.split())


@pytest.mark.parametrize("line", ["reproduce fidelity --layers 2 3", "benchmark mine.py --pyg", "reproduce --help"])
def test_commands_that_moved_say_where(call, line):
    name = line.split()[0]
    code, _, error = call(*line.split())
    assert code == 2
    assert f"run `python -m research {name} ...` in a clone" in " ".join(error.split())
    assert name not in call("--help")[1]


def test_a_demonstration_overwrites_nothing_of_yours(call, demo, tmp_path):
    (tmp_path / "before.npz").write_text("mine")
    code, _, error = call("demo", "--out", tmp_path)
    assert code == 2
    assert "where before.npz is something else" in error
    assert [path.name for path in tmp_path.iterdir()] == ["before.npz"]
    check_room(demo[0])  # of a demonstration that was there before
    check_room(tmp_path / "new")


def test_scan_writes_a_folder_and_goes_on_where_it_stopped(call, files, tmp_path):
    code, shown, _ = call("scan", *files, "--out", tmp_path / "scan", "--budget", 3)
    assert code == 0
    assert "predictions moved, 1 of them to another class" in shown
    assert "member 8" in shown
    first = read_scan(tmp_path / "scan")
    assert max(len(explanation.paths) for explanation in first) == 3
    part = next((tmp_path / "scan").glob("parts/*"))
    bytes_before = part.read_bytes()
    part.unlink()
    code, shown, error = call("scan", *files, "--out", tmp_path / "scan", "--budget", 3, "--json")
    assert code == 0
    assert error == ""
    (told,) = json.loads(shown)
    assert told["num_explained"] == len(first)
    assert part.read_bytes() == bytes_before
    code, _, error = call("scan", *files, "--out", tmp_path / "scan", "--budget", 4)
    assert code == 2
    assert "nothing was changed there" in " ".join(error.split())


def test_scan_of_a_sequence_has_a_folder_for_each_step(call, files, tmp_path):
    model, before, after = files
    code, shown, _ = call("scan", model, before, after, before, "--out", tmp_path / "week", "--only-flips", "--json")
    assert code == 0
    assert [Path(step["folder"]).name for step in json.loads(shown)] == ["step-0001", "step-0002"]
    there, back = (list(read_scan(tmp_path / "week" / name)) for name in ("step-0001", "step-0002"))
    assert [e.target for e in there] == [e.target for e in back] == [8]
    assert np.abs(there[0].logits_after - back[0].logits_before).max() < 1e-9
    change = sum(sum(e.causes.values()) for e in (there[0], back[0]))
    assert np.abs(change).max() < 1e-9
    assert call("scan", model, before, "--out", tmp_path / "one")[0] == 2


@pytest.mark.slow
def test_a_scan_that_was_killed_goes_on(files, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "axiompath.cli", "scan", *map(str, files), "--min-kl", "0", "--out"]
    process = subprocess.Popen([*command, str(tmp_path / "killed")], env=environment, stdout=subprocess.DEVNULL)
    while not (tmp_path / "killed").exists() and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.wait()
    for name in ("killed", "whole"):
        assert subprocess.run([*command, str(tmp_path / name)], env=environment, capture_output=True).returncode == 0
    trees = [
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("killed", "whole")
    ]
    assert trees[0] == trees[1]


@pytest.mark.system
def test_interrupting_stops_without_a_traceback(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "axiompath.cli", "demo", "--large", "--out", str(tmp_path / "d")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        # A job in the background starts with interrupts ignored, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert "4,000 nodes" in process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    try:
        _, error = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        # An interrupt that falls into a callback of the interpreter's is lost, and a person presses the keys again.
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error


def test_blame_and_undo_of_the_demo(call, files):
    code, text, _ = call("blame", *files)
    assert code == 0
    assert "Exact, over all subsets" in text
    code, text, _ = call("blame", *files, "--by", "kind", "--json")
    assert code == 0
    assert json.loads(text)[0]["format"] == "axiompath.blame"
    code, text, _ = call("undo", *files, "--below", "0.99", "--json")
    assert code == 0
    assert json.loads(text)[0]["restored"]
    code, text, _ = call("blame", *files, "--no-paths")
    assert code == 0
    assert "Exact, over all subsets" in text
    code, text, _ = call("blame", *files, "--no-paths", "--target", "0")
    assert code == 0
