"""Blame and undo of every flip of a scan: the summary, its table, and what the time leaves out."""

import json
import re
from dataclasses import fields

import pandas as pd
import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath import InputError
from axiompath.blame.brief import Cause
from axiompath.datasets import drifting_events
from axiompath.explain.moved import find_flipped
from axiompath.scan import flips as flips_file
from support.repository import ROOT


@pytest.fixture(scope="module")
def explainer():
    events, _ = drifting_events()
    made = axiompath.snapshots(events, every="30D", window="60D", features=["constant", "codes"])
    torch.manual_seed(0)
    return axiompath.Explainer(GCN(33, 8, 2, 4), *made[2:4])


def test_every_flip_has_its_brief(explainer, tmp_path):
    scan = explainer.scan(tmp_path / "s", 2, flip_seconds=600, workers=1, progress=False)
    moved = scan.moved()
    flipped = moved[find_flipped(moved)]
    found = scan.flips()
    assert found.num_flipped == found.num_reached == len(found.flips) == len(flipped) > 2
    assert {brief.target: brief.name for brief in found.flips} == dict(zip(flipped.target, flipped.name, strict=True))
    assert [brief.rank for brief in found.flips] == sorted(brief.rank for brief in found.flips)
    assert 0 < found.by_time <= found.moved * 1.5
    assert found.changes["edge expired"] == (scan.changes().kind == "edge expired").sum()
    table = pd.read_parquet(scan.folder / "flips.parquet")
    assert table.columns.tolist() == flips_file.FLIP_COLUMNS.names
    assert table.headline.tolist() == [brief.headline for brief in found.flips]
    held = json.loads((scan.folder / "summary.json").read_text())
    assert held["flips"][0]["sentences"][0] == found.flips[0].headline
    assert scan.figures()["flips"] == len(flipped)


def test_the_same_scan_writes_the_same_flips(explainer, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder, workers in zip(folders, (1, 2), strict=True):
        explainer.scan(folder, 2, flip_seconds=600, workers=workers, progress=False)
    for name in flips_file.FLIP_FILES:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    when = (folders[0] / "summary.json").stat().st_mtime_ns
    explainer.scan(folders[0], 2, flip_seconds=600, progress=False)
    assert (folders[0] / "summary.json").stat().st_mtime_ns == when


def test_what_the_time_does_not_hold_is_counted(explainer, tmp_path):
    scan = explainer.scan(tmp_path / "s", 2, flip_seconds=1e-9, workers=1, progress=False)
    found = scan.flips()
    assert found.num_reached == 1 < found.num_flipped
    without = explainer.scan(tmp_path / "t", 2, flip_seconds=0, progress=False)
    assert without.flips() is None
    later = explainer.scan(tmp_path / "t", 2, flip_seconds=600, workers=1, progress=False)
    assert later.flips().num_reached == found.num_flipped
    with pytest.raises(InputError, match="Expected `flip_seconds` to be a number of 0 or more"):
        explainer.scan(tmp_path / "u", flip_seconds=-1)


def test_a_damaged_summary_is_refused(explainer, tmp_path):
    scan = explainer.scan(tmp_path / "s", 2, flip_seconds=600, workers=1, progress=False)
    (scan.folder / "summary.json").write_text("{}")
    with pytest.raises(InputError, match="as the scan wrote it"):
        scan.flips()
    (scan.folder / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"summary.json is something else"):
        explainer.scan(tmp_path / "s", 2, flip_seconds=600, workers=1, progress=False)


def test_the_fields_of_the_files_are_documented():
    page = (ROOT / "docs" / "how-to-scan.md").read_text()
    told = page[page.index("### For other programs") :].split("\n## ")[0]
    first, second = told.split("`flips.parquet` has one row per flip.")

    def names(table):
        rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
        return {name: row[2].strip() for row in rows for name in re.findall(r"`(\w+)`", row[1])}

    assert {*names(first)} == {*flips_file.SUMMARY_FORM.head, *(field.name for field in fields(flips_file.StepSummary))}
    listed = names(second)
    assert {*listed} == {*flips_file.FLIP_COLUMNS.names}
    for field in flips_file.FLIP_COLUMNS:
        assert listed[field.name].startswith("list") or listed[field.name] == str(field.type)
    row = next(line for line in second.splitlines() if line.startswith("| `causes`"))
    assert {*re.findall(r"`(\w+)`", row)} - {"causes"} == {field.name for field in fields(Cause)}
