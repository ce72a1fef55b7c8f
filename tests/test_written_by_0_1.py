"""What 0.1.0 wrote can still be read: explanations, stories and scans, number for number."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import axiompath

FOLDER = Path(__file__).parent / "written_by_0_1"
EXPLANATIONS = sorted(FOLDER.glob("explanation-*.json"))
SCANS = [FOLDER / "scan", FOLDER / "sequence" / "step-0001", FOLDER / "sequence" / "step-0002"]


def check(explanation, written):
    """Every number and every name of a record is what the file says."""
    for key, value in written.items():
        if key in ("paths", "contributions", "weights") or key.startswith(("logits", "prob")):
            assert np.array_equal(np.asarray(getattr(explanation, key)), np.asarray(value)), key
        elif key == "causes":
            assert {kind: part.tolist() for kind, part in explanation.causes.items() if part.any()} == {
                kind: part for kind, part in value.items() if any(part)
            }
        elif key == "node_names":
            assert explanation.node_names == {int(node): name for node, name in value.items()}
        elif key in ("kinds", "class_names"):
            assert getattr(explanation, key) == tuple(value)
        elif key not in ("format", "version"):
            assert getattr(explanation, key) == value, key


@pytest.mark.parametrize("path", EXPLANATIONS, ids=lambda path: path.stem)
def test_explanations(path, tmp_path):
    written = json.loads(path.read_text())
    assert written["version"] == 1
    found = axiompath.Explanation.load(path)
    check(found, written)
    assert found.origin is None  # 0.1 did not say what a record was of
    assert found.name_of(found.target) in found.summary()
    assert "The network itself" in found.summary() or "the network itself" in found.summary()
    found.save(tmp_path / "again.json")  # in the format of today
    assert json.loads((tmp_path / "again.json").read_text())["version"] == 5
    check(axiompath.Explanation.load(tmp_path / "again.json"), written)


@pytest.mark.parametrize("target", [1, 4])
def test_stories(target, tmp_path):
    path = FOLDER / f"story-{target}.json"
    written = json.loads(path.read_text())
    story = axiompath.Story.load(path)
    assert (story.target, story.name) == (target, f"member {target}")
    assert story.snapshot_names == ("Monday", "Tuesday", "Friday")
    assert np.array_equal(story.logits, np.asarray(written["logits"]))
    for explanation, part in zip(story.explanations, written["explanations"], strict=True):
        check(explanation, part)
    assert story.residual < 1e-12
    assert story.origin is None
    assert story.method is None
    assert story.to_frame().class_after_name.tolist() == ["green", "green"]
    assert f"Node member {target}" in story.summary()
    story.save(tmp_path / "again.json")
    assert axiompath.Story.load(tmp_path / "again.json").summary() == story.summary()


@pytest.mark.parametrize("folder", SCANS, ids=lambda folder: folder.name)
def test_scans(folder):
    scan = axiompath.read_scan(folder)
    assert scan.manifest["version"] == 1
    assert scan.origin is None
    rows = pq.read_table(folder / "parts" / "part-000000.parquet").to_pylist(maps_as_pydicts="strict")
    found = list(scan)
    assert len(scan) == len(found) == len(rows) > 0
    for explanation, row in zip(found, rows, strict=True):
        del row["problem"]
        check(explanation, row)
    frame = scan.to_frame()
    assert frame.name.tolist() == [f"member {target}" for target in frame.target]
    assert set(frame.class_after_name) <= {"red", "green", "blue"}
    moved = scan.moved()
    assert list(moved.columns) == ["target", "name", "class_before", "class_after", "kl", "num_paths"]
    assert moved.target.tolist() == pq.read_table(folder / "moved.parquet")["node"].to_pylist()
    assert list(scan.too_large().columns) == ["target", "name", "num_paths", "bytes"]
    assert list(scan.failures().columns) == ["target", "name", "problem"]
