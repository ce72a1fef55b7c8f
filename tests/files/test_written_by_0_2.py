"""What 0.2.0 wrote can still be read: every kind of record and folder, number for number.

Fields that later versions brought have their defaults.
"""

import json

import pytest

import axiompath
from support.written import FOLDER, KINDS, RECORDS, updated


def read(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records(path, tmp_path):
    written = read(path)
    cls = KINDS[written["format"].removeprefix("axiompath.")]
    found = cls.load(path)
    assert json.dumps(found.to_dict(), sort_keys=True) == json.dumps(updated(written), sort_keys=True)  # nan is nan
    assert found.summary()
    found.save(tmp_path / "again.json")
    assert json.dumps(cls.load(tmp_path / "again.json").to_dict()) == json.dumps(found.to_dict())


def test_there_is_a_record_of_every_kind():
    assert {read(path)["format"].removeprefix("axiompath.") for path in RECORDS} == set(KINDS)


def test_scans():
    scan = axiompath.read_scan(FOLDER / "scan")
    assert [found.to_dict() for found in scan] == [updated(held) for held in read(FOLDER / "scan.json")]
    assert (len(scan.moved()), len(scan.too_large()), len(scan.changes())) == (5, 0, 3)
    assert scan.origin.release == "0.2.0"
    assert scan.blame().summary()


def test_graphs_models_and_watches():
    stored = axiompath.read_graph(FOLDER / "stored").data
    assert (stored.num_nodes, stored.num_edges, stored.class_names) == (12, 24, ("no", "maybe", "yes"))
    made = axiompath.snapshots(FOLDER / "snapshots")
    assert (made.names, made.bounds, made.waiting) == (("8", "16", "24"), ((0, 8), (8, 16), (16, 24)), 0)
    assert sum(part.numel() for part in axiompath.load_model(FOLDER / "model").parameters()) == 31
    watch = axiompath.read_watch(FOLDER / "watch")
    written = read(FOLDER / "watch" / "watch.json")["steps"]  # 0.2 called every edge that was gone removed
    unknown = {"edges_expired": 0, "num_reached": 0, "by_time": 0.0, "moved_by": 0.0, "answer": ""}
    unknown |= {"causes": "", "num_causes": 0, "is_tie": False}
    assert watch.to_frame().to_dict("records") == [step | unknown for step in written]
    assert watch.facts == read(FOLDER / "watch" / "watch.json")["facts"]
