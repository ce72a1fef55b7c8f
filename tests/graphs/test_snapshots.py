"""Events -> snapshots: every kind of table, odd ones too; windows, edges and names against a literal twin."""

import gzip
import json
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import torch_geometric
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Data, TemporalData
from torch_geometric.datasets import KarateClub

import axiompath
from axiompath import InputError, Snapshots, save_graph, save_snapshots, snapshots
from axiompath.cli.inputs import spell_out
from axiompath.cli.options import Sources
from axiompath.errors import MissingFile, Notice, TooLarge
from axiompath.files.snapshots import read_snapshots
from axiompath.graphs.clock import is_same_period, show_period, show_time
from axiompath.graphs.windows import RULES
from axiompath.storage import safe
from support.effort import examples
from support.references import literal_snapshot

COLUMNS = ["source", "target", "time", "weight"]
ROWS = ["Ann,Bob,2024-01-01", "Bob,Cy,2024-01-20", "Cy,Dee,2024-02-10", "Ann,Bob,2024-02-20", "Ann,Dee,2024-03-15"]


def written(tmp_path, text, name="events.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_text(text, encoding=encoding)
    return path


def edges_of(data):
    names = data.node_names
    weights = data.edge_weight.tolist() if "edge_weight" in data else [None] * data.edge_index.shape[1]
    return {(names[u], names[v]): w for (u, v), w in zip(data.edge_index.T.tolist(), weights, strict=True)}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 6)] * 2, st.integers(0, 20), st.integers(-3, 3)), min_size=1, max_size=40),
    st.integers(1, 5), st.integers(1, 9), st.sampled_from(RULES), st.booleans(),
    st.sampled_from(["seen", "window", "all"]),
)  # fmt: skip
def test_windows_hold_what_a_literal_reading_finds(rows, every, window, rule, directed, keep):
    events = [(f"n{u}", f"n{v}", time, weight) for u, v, time, weight in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        try:
            found = snapshots(
                events,
                every,
                window,
                weight=None if rule == "once" else "weight",
                rule=rule,
                directed=directed,
                keep=keep,
            )
        except InputError as refused:
            assert any(word in str(refused) for word in ("fill a window", "two ends and a time", "in every window"))  # noqa: PT017
            return
    times = [time for u, v, time, _ in events if u != v]
    assert [end for _, end in found.bounds] == list(range(min(times) + window, max(times) + 2, every))
    numbers = {}
    for data, (start, end) in zip(found, found.bounds, strict=True):
        nodes, edges = literal_snapshot(events, start, end, rule, directed, keep)
        assert set(data.node_names) == nodes
        assert len(data.node_names) == len(nodes) == data.num_nodes == len(data.x)
        assert edges_of(data) == pytest.approx(edges)
        for name, number in zip(data.node_names, data.n_id.tolist(), strict=True):
            assert numbers.setdefault(name, number) == number  # the same in every snapshot
    assert found.waiting == sum(time >= found.bounds[-1][1] for time in times)


def test_new_events_change_no_snapshot_that_is_there():
    rng = np.random.default_rng(0)
    events = pd.DataFrame(
        {"source": rng.integers(0, 30, 300), "target": rng.integers(30, 60, 300), "time": np.arange(300)}
    )
    short, long = (snapshots(part, 20, 60, features=["degrees", "codes"]) for part in (events[:200], events))
    assert len(short) < len(long)
    for before, after in zip(short, long, strict=False):
        assert before.node_names == after.node_names
        assert torch.equal(before.edge_index, after.edge_index)
        assert torch.equal(before.x, after.x)


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
@pytest.mark.parametrize("packed", [False, True])
def test_csv_of_every_kind(tmp_path, separator, packed):
    text = "\ufeffFrom , TO,When\n".replace(",", separator) + "\n".join(ROWS).replace(",", separator)
    path = tmp_path / ("e.csv.gz" if packed else "e.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = snapshots(path, "30D", "60D")
    assert found.names == ("2024-03-01",)
    assert set(edges_of(found[0])) == {
        pair for u, v in [("Ann", "Bob"), ("Bob", "Cy"), ("Cy", "Dee")] for pair in ((u, v), (v, u))
    }


def test_tables_in_memory_and_on_disk_say_the_same(tmp_path):
    frame = pd.DataFrame([row.split(",") for row in ROWS], columns=["source", "target", "time"])
    dated = frame.assign(time=pd.to_datetime(frame.time))
    dated.to_parquet(tmp_path / "e.parquet")
    seconds = frame.assign(time=dated.time.astype("datetime64[s]").astype("int64"))
    kinds = [
        frame, dated, dated.assign(time=dated.time.dt.tz_localize("UTC")), seconds, pa.Table.from_pandas(dated),
        tmp_path / "e.parquet", [tuple(row.split(",")) for row in ROWS], frame.astype("category"), frame.iloc[::-1],
        frame.to_dict("list"), frame.assign(time=frame.time.str.replace("-", "")),
        frame.assign(time=dated.time.dt.strftime("%d.%m.%Y")),
    ]  # fmt: skip
    first = snapshots(kinds[0], "20D", "40D")
    for other in kinds[1:]:
        found = snapshots(other, "20D", "40D")
        assert found.names == first.names
        assert [edges_of(data) for data in found] == [edges_of(data) for data in first]


def test_odd_rows_are_left_out_and_counted(tmp_path):
    rows = ['"Lee, A.",007,2024-01-01T23:00:00-05:00', "7,7,2024-01-05", ",7,2024-01-06", "7,8,"]
    rows += ["007,7,2024-01-09", "7,8,2024-01-31"]
    path = written(tmp_path, "src,dst,time\n" + "\n".join(rows))
    with pytest.warns(Notice, match=r"Of 6 rows of .*: 2 with an empty cell, 1 from a node to itself"):
        found = snapshots(path, "10D", "20D")
    assert found[0].node_names == ["Lee, A.", "007", "7"]  # names as they are written
    assert found.bounds[0][0] == pd.Timestamp("2024-01-02").value  # in UTC
    assert found.waiting == 1
    with pytest.warns(Notice):
        assert ("7", "7") in edges_of(snapshots(path, "10D", "20D", loops=True)[0])


def test_rows_of_any_kind():
    rows = [(0, 1, 0), (1, 2, 3), (2, 0, 9)]
    expected = [edges_of(data) for data in snapshots(rows, 2, 4)]
    for held in (np.array(rows), torch.tensor(rows), [list(row) for row in rows]):
        assert [edges_of(data) for data in snapshots(held, 2, 4)] == expected
    with pytest.warns(Notice, match="Of 5 rows of the list of events .* 2 with an empty cell"):
        holes = snapshots([*rows, (None, 1, 2), (2, 1, None)], 2, 4)
    assert [edges_of(data) for data in holes] == expected


def test_an_empty_window_has_its_nodes_and_no_edge():
    rows = [("a", "b", 0), ("b", "c", 9)]
    found = snapshots(rows, 2, 2)
    assert [data.edge_index.shape[1] for data in found] == [2, 0, 0, 0, 2]
    assert [data.num_nodes for data in found] == [2, 2, 2, 2, 3]
    with pytest.raises(InputError, match=r'an event in every window .* or keep="seen"'):
        snapshots(rows, 2, 2, keep="window")


@pytest.mark.parametrize("every", [2**63 - 1, "9223372036854775807", 10**20])
def test_a_step_of_more_than_64_bits_makes_one_window(every):
    found = axiompath.snapshots([("a", "b", 0), ("b", "c", 1), ("c", "d", 2)], every, 2)
    assert [data.num_nodes for data in found] == [3]


def test_graphs_in_a_list():
    before, after = nx.Graph([("a", "b"), ("b", "c")]), nx.Graph([("b", "c")])
    after.add_node("z")
    found = snapshots([before, after])
    assert [data.node_names for data in found] == [["a", "b", "c"], ["b", "c", "z"]]
    assert found[1].n_id.tolist() == [1, 2, 3]
    pairs = snapshots([[("a", "b"), ("b", "c")], [("b", "c")]])
    assert [edges_of(data) for data in pairs] == [edges_of(data) for data in found]
    matrix = sparse.csr_array(np.array([[0, 2, 0], [0, 0, 1], [0, 0, 0]]))
    directed, mirrored = snapshots([matrix, matrix]), snapshots([matrix + matrix.T, matrix + matrix.T])
    assert edges_of(directed[0]) == {("0", "1"): 2.0, ("1", "2"): 1.0}
    assert edges_of(mirrored[0]) == edges_of(directed[0]) | {("1", "0"): 2.0, ("2", "1"): 1.0}
    club = KarateClub()[0]
    same = snapshots([club, club.clone()])
    assert torch.equal(same[1].x, club.x)
    assert same[1].n_id.tolist() == list(range(34))
    tensors = snapshots([torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0], [2]])], directed=True)
    assert edges_of(tensors[1]) == {("0", "2"): None}
    weighted = snapshots([[("a", "b", 2.0), ("b", "c", 1.0)], [("a", "b", 3.0)]], directed=True)
    assert edges_of(weighted[0]) == {("a", "b"): 2.0, ("b", "c"): 1.0}
    frames = [
        pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "weight": [2, 1]}),
        pd.DataFrame(nx.to_pandas_edgelist(before)),
    ]
    assert edges_of(snapshots(frames[:1] * 2, directed=True)[1]) == edges_of(weighted[0])
    assert edges_of(snapshots(frames[1:] * 2)[0]) == edges_of(found[0])
    with pytest.raises(InputError, match=r"that in place 1 has none, and so no node\); give keep=\"all\""):
        snapshots([[("a", "b")], []])
    with pytest.raises(InputError, match="all edges of a list alike"):
        snapshots([[("a", "b"), ("b", "c", 1)], [("a", "b")]])


def test_a_temporal_data_and_a_graph_with_times():
    data = TemporalData(
        src=torch.tensor([0, 1, 0]),
        dst=torch.tensor([1, 2, 1]),
        t=torch.tensor([0, 1, 1]),
        msg=torch.tensor([[1.0], [2], [5]]),
    )
    found = snapshots(data, 1, 2, weight="msg", rule="mean", directed=True)
    assert edges_of(found[0]) == {("0", "1"): 3.0, ("1", "2"): 2.0}
    graph = nx.DiGraph()
    graph.add_edge("x", "y", day=0)
    graph.add_edge("y", "z", day=1)
    assert edges_of(snapshots(graph, 1, 2, directed=True)[0]) == {("x", "y"): None, ("y", "z"): None}
    with pytest.raises(InputError, match="Expected times on the edges of the networkx graph"):
        snapshots(nx.path_graph(3), 1, 2)


def test_features_and_labels(tmp_path):
    rows = [("a", "b", 0), ("a", "c", 0), ("b", "c", 1)]
    degrees = snapshots(rows, 1, 1)[0].x
    assert torch.allclose(degrees, torch.log1p(torch.tensor([[2.0, 0], [0, 1], [0, 1]])))
    assert snapshots(rows, 1, 1, features="one-hot")[0].x.to_dense().tolist() == np.eye(3).tolist()
    both = snapshots(rows, 1, 1, features=["constant", lambda moment: moment.nodes * 2.0])[0].x
    assert both.tolist() == [[1, 0], [1, 2], [1, 4]]
    codes = snapshots(rows, 1, 1, features="codes")
    assert torch.equal(codes[0].x, codes[1].x)
    nodes = written(tmp_path, "id;label;age;pay\nc;blue;3;1.5\nb;;2;1\na;red;1;0\nq;red;9;9\n", "nodes.csv")
    table = snapshots(rows, 1, 1, nodes=nodes)
    assert table[0].x.tolist() == [[1, 0], [2, 1], [3, 1.5]]
    assert table[0].y.tolist() == [1, -1, 0]
    assert table.class_names == ("blue", "red")
    everyone = snapshots(rows, 1, 1, nodes=nodes, keep="all")[0]
    assert everyone.node_names == ["a", "b", "c", "q"]
    assert snapshots(rows, 1, 1, nodes={"a": 2, "b": 0, "c": 1})[0].y.tolist() == [2, 0, 1]
    with pytest.raises(InputError, match=r"every node of the events in the node table, for its features \(got 'b'"):
        snapshots(rows, 1, 1, nodes=pd.DataFrame({"id": ["a"], "age": [1]}))
    with pytest.raises(InputError, match="Expected finite numbers from the function"):
        snapshots(rows, 1, 1, features=lambda moment: np.full(len(moment.nodes), np.nan))
    with pytest.raises(InputError, match=r"shape \[3, num_features\].*got int64 of shape \(2, 1\)"):
        snapshots(rows, 1, 1, features=lambda moment: np.arange(2))


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("6,2,4,1289241911\n6,5,2,1289241941\n", {}, "its first line must name the columns"),
        ("a,b,c\nx,y,2024-01-01\n", {}, "Expected a column such as 'source' in .* say which it is with `src`"),
        ("source,target,c\nx,y,2024-01-01\n", {}, "Expected a column such as 'time'"),
        ("src,dst,time\nx,y,01/02/2024\n", {}, "read in one way .*day or month first"),
        ("src,dst,time\nx,,2024-01-01\nx,y,2024-01-01\nx,y,soon\n", {}, "row 3 has 'soon'.*or leave it empty"),
        ("Ann,Bob,2024-01-01\nx,y,2024-01-01\n", {}, "its first line must name the columns"),
        ("src,dst,time\nx,y,2024-01-01\ny,z,2024-01-01\n", {"every": None}, "events at two times or more"),
        ("src,dst,time\nx,y,2024-01-01\n", {"every": "1D"}, "Expected events that fill a window of 3D"),
        ("src,dst,time\nx,y,1\nx,y,2\n", {"every": "1D"}, "seconds since 1970, for a period in words"),
        ("src,dst,time\nx,y,2024-01-01\n", {"every": 3}, 'a period in days or hours, such as "30D"'),
        ("src,dst,time\nx,y,2024-01-01\n", {"every": "-3D"}, 'a period in days or hours, such as "30D"'),
        ("src,dst,time\nx,y,1\nx,y,2\n", {"every": 1e-6}, "at most 10,000 snapshots"),
        ("src,dst,time\nx,y,1924-01-01\nx,y,2024-01-01\ny,z,2024-01-02\n", {"every": "10D"},
         r"of few events 1,000 .*got 3,65. of 3 events, one every 10D from 1924-01-01 on\).*mend a time that lies far"),
        ("src,dst,time\nx,y,2024-01-01\nx,y,2024-01-09\n", {"start": "NaT"}, "Expected a date as `start` \\(got 'NaT'"),
        ("src,dst,time\nx,y,1e308\nx,y,-1e308\n", {"every": None}, r"Expected times below 2\^63 .*-1e\+308 to 1e\+308"),
        (f"src,dst,time\nx,y,{2**64 - 1}\nx,y,1\n", {"every": 1}, "Expected times below 2"),
        ("src,dst,time\nx,y,03:00\nx,y,04:00\n", {}, "Expected a date such as 2024-01-31 .*row 1 has '03:00'"),
        ("src,dst,time\nx,y,Monday\nx,y,Tuesday\n", {}, "Expected a date such as 2024-01-31 .*row 1 has 'Monday'"),
        ("src,dst,time\nx,y,0\nx,y,5e-324\n", {"every": None}, "Expected events at two times or more"),
        ("src,dst,time\nx,y,0\nx,y,1\n", {"every": 1e-320, "window": 1}, "Expected a step that the time from 0 to"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"every": 1, "rule": "most"}, "Expected a rule among once, count"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"every": 1, "rule": "mean"}, "Expected weights for the rule 'mean'"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"every": 1, "keep": "none"}, "`keep` among seen, window, all"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"every": 1, "features": "best"}, "Expected features among degrees"),
        ("src,dst,time,w\nx,y,1,2\nx,y,9,many\n", {"every": 1, "weight": "w"}, "column of weights .*row 2 has 'many'"),
        ("src,dst,time\n", {}, "Expected events in .*got 0 rows"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"dst": "src"}, r"for each of `src` and `dst` in .*got 'src' for both"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"src": "time"}, "for each of `src` and `time` in"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"weight": "TIME"}, "for each of `time` and `weight` in"),
        ("src,dst,time\nx,y,1\nx,y,9\n", {"relation": "dst"}, "for each of `dst` and `relation` in"),
        ("src,dst,time,DST\nx,y,1,z\nx,y,9,z\n", {}, r"columns of different names in .*got 'dst' twice"),
        ("src,dst,time\nx,y,1\nx,y\0,9\n", {"every": 1}, r"do not end with a NUL character in .*got 'y.x00'"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Of 3 rows")
def test_refusals_say_what_to_do(tmp_path, text, arguments, words):
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=words):
        snapshots(path, **{"every": "1D"} | arguments)


def test_names_that_end_with_nul_are_not_written(tmp_path):
    data = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(InputError, match="do not end with a NUL character in `node_names`"):
        save_graph(tmp_path / "g.npz", data, ["a", "a\0"])
    assert list(tmp_path.iterdir()) == []


def test_dates_are_no_weights():
    days = pd.date_range("2024-01-01", periods=40)
    events = pd.DataFrame({"source": ["a"] * 40, "target": ["b"] * 40, "time": days, "paid": days})
    with pytest.raises(InputError, match="Expected numbers in the column of weights"):
        snapshots(events, "10D", weight="paid")


def test_what_is_no_event_list_is_refused(tmp_path):
    with pytest.raises(MissingFile, match="Expected a file at"):
        snapshots(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"as \.csv, \.csv\.gz, \.tsv or \.parquet"):
        snapshots(written(tmp_path, "x", "events.txt"))
    for held, got in ((42, "int"), ([], "an empty list"), (["a"], "a list that begins with 'a'")):
        with pytest.raises(InputError, match=rf"as a path, a DataFrame, an Arrow table.*\(got {got}\)"):
            snapshots(held)
    with pytest.raises(InputError, match="got a Series that is none"):
        snapshots(pd.Series([1, 2]))
    (tmp_path / "latin.csv").write_bytes("from,to,when\nZoë,Bob,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"Expected text in UTF-8 at .*save it as UTF-8"):
        snapshots(tmp_path / "latin.csv")
    bomb = tmp_path / "bomb.csv.gz"
    with gzip.open(bomb, "wb", compresslevel=9) as stream:
        stream.write(b"src,dst,time\n" + b"a,b,1\n" * 1000)
        for _ in range(100):
            stream.write(b"\n" * (1 << 20))
    with pytest.raises(InputError, match="at most 500 MB in memory"):
        snapshots(bomb, 1)


def test_a_sequence_shows_itself_and_comes_back_from_its_folder(tmp_path):
    frame = pd.DataFrame([row.split(",") for row in ROWS], columns=["source", "target", "time"])
    found = snapshots(frame, "20D", "40D", nodes={"Ann": "x", "Bob": "y"}, weight=None)
    text = repr(found)
    assert "events of the last 40D, every 20D; undirected, one edge a pair; nodes seen so far" in text
    assert "1 event waits" in repr(snapshots(frame, "30D", "60D"))
    assert "<table" in found._repr_html_()
    assert isinstance(found[1:], Snapshots)
    assert found.to_frame().edges.tolist() == [data.edge_index.shape[1] // 2 for data in found]
    read = read_snapshots(save_snapshots(found, tmp_path / "folder"))
    assert repr(read) == text
    assert read.class_names == found.class_names == ("x", "y")
    assert read.node_names == found.node_names
    for one, other in zip(read, found, strict=True):
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)
    (tmp_path / "folder" / "snapshots.json").write_text('{"format": "axiompath.snapshots", "version": 9}')
    with pytest.raises(InputError, match=r"version 1 of the format in .*make them again"):
        read_snapshots(tmp_path / "folder")
    held = {"format": "axiompath.snapshots", "version": 1, "files": ["../../x.npz"], "names": ["x"], "rule": ""}
    held |= {"bounds": [], "dated": False, "waiting": 0}
    (tmp_path / "folder" / "snapshots.json").write_text(json.dumps(held))
    with pytest.raises(InputError, match=r"graphs called 0000\.npz"):
        read_snapshots(tmp_path / "folder")
    with pytest.raises(InputError, match="an empty folder, or one of snapshots"):
        save_snapshots(found, tmp_path)


@pytest.mark.parametrize(
    "commands",
    [
        ["diff", "story", "explain"],
        pytest.param(["check", "report", "blame", "undo", "scan"], marks=pytest.mark.slow),
    ],
)
def test_the_command_line_makes_a_folder_that_every_command_takes(call, tmp_path, commands):
    rng = np.random.default_rng(1)
    rows = [f"p{u},p{(u + 1 + v) % 12},{t}" for t, (u, v) in enumerate(rng.integers(0, 11, (120, 2)))]
    path = written(tmp_path, "who,whom,at\n" + "\n".join(rows))
    columns = ["--src", "who", "--dst", "whom", "--time", "at"]
    code, out, err = call("snapshots", path, *columns, "--every", 30, "--window", 60, "--out", tmp_path / "s")
    assert (code, "3 snapshots of up to 12 nodes: events of the last 60, every 30" in out) == (0, True), err
    torch.manual_seed(0)
    arguments = {"in_channels": 2, "hidden_channels": 8, "num_layers": 2, "out_channels": 3}
    model = axiompath.save_model(axiompath_gcn(arguments), tmp_path / "model", arguments)
    names = read_snapshots(tmp_path / "s").names
    for command in [[name] if name == "diff" else [name, model] for name in commands]:
        to = {"report": ["--out", tmp_path / "r.html"], "scan": ["--out", tmp_path / "scan", "--workers", 1]}
        code, out, err = call(*command, tmp_path / "s", *to.get(command[0], []))
        assert code == 0, (command, err)
        if command[0] in ("story", "scan"):
            assert all(name in out for name in names)
    steps = [json.loads(call("explain", model, tmp_path / "s", "--step", n, "--json", "-t", "p3")[1]) for n in (1, 2)]
    assert steps[0] != steps[1]
    assert call("explain", model, tmp_path / "s", "--step", 3)[0] == 2
    assert call("explain", model, tmp_path / "s" / "0000.npz")[0] == 2


def test_a_target_that_did_not_change_says_at_which_step_it_last_did(call, tmp_path):
    first = [("a", "b"), ("b", "c"), ("x", "y"), ("y", "z")]
    save_snapshots(snapshots([first, [*first, ("a", "c")], [*first, ("a", "c"), ("x", "z")]]), tmp_path / "s")
    arguments = {"in_channels": 2, "hidden_channels": 8, "num_layers": 2, "out_channels": 3}
    torch.manual_seed(0)
    model = axiompath.save_model(axiompath_gcn(arguments), tmp_path / "model", arguments)
    names = read_snapshots(tmp_path / "s").names
    for command in ("blame", "explain"):
        code, out, err = call(command, model, tmp_path / "s", "-t", "a")
        told = " ".join(out.split())
        assert code == 0, err
        assert told.startswith(f"Step 2 of 2: {names[1]} → {names[2]}")
        assert "stayed" in told
        assert ("None of the 3 changes reaches it." in told) == (command == "blame")
        assert "Nothing smaller" not in told
        assert f"It last changed at step 1 ({names[0]} → {names[1]}): ask with --step 1." in told
    code, _, err = call("undo", model, tmp_path / "s", "-t", "a", "--to", 2)
    assert code == 2
    assert "prediction changed at this step (got 'a'). It last changed at step 1" in err
    assert (
        "It changed at no step before step 1, either."
        in call("blame", model, tmp_path / "s", "--step", 1, "-t", "x")[1]
    )
    for command in (["undo", model], ["diff"], ["blame", model]):
        code, out, err = call(*command, tmp_path / "s", "--step", 1, "--json")
        assert code == 0, err
        assert err.startswith("Step 1 of 2")
        json.loads(out)


def test_moments_of_changes_are_text_in_json(call, tmp_path):
    days = pd.date_range("2024-01-01", periods=40, freq="D", tz="UTC")
    events = pd.DataFrame({"source": list("abcd") * 10, "target": list("bcde") * 10, "time": days})
    axiompath.save_snapshots(axiompath.snapshots(events[:38], "10D", "20D"), tmp_path / "s")
    code, out, err = call("diff", tmp_path / "s", "--json")
    assert code == 0, err
    assert all(row["last_event"].startswith("2024-") for row in json.loads(out)["changes"] if "edge" in row["kind"])


def axiompath_gcn(arguments):
    from torch_geometric.nn import GCN

    return GCN(**arguments).eval()


def test_periods_and_moments_are_written_as_they_are_read():
    for length in (1, 2592000, 1234567, 0.5):
        assert float(show_period(length, False)) == length
    assert float(show_time(1289241911.728, False)) == 1289241911.728
    assert is_same_period("2W", "14D")
    assert is_same_period("100", 100.0)
    assert not is_same_period("30D", 30)
    assert is_same_period("all", "all")


def test_snapshots_take_no_more_memory_than_they_may():
    events = [(f"n{i}", f"n{i + 1}", i) for i in range(2000)]
    with pytest.raises(TooLarge, match=r"at most 1 MB in memory \(got 2,000, of which the first \d+ take more\)"):
        snapshots(events, 1, "all", max_bytes=10**6)
    assert len(snapshots(events, 500, "all", max_bytes=10**6)) == 4
    with pytest.raises(InputError, match=r"dates from 1678 to 2261 .* \(got 1 to 9999\)"):
        snapshots([("a", "b", "0001-01-01"), ("b", "c", "9999-12-31")], "1D", "1D")


def test_many_large_snapshots_of_a_small_file_are_refused(tmp_path, monkeypatch):
    """Every window has all nodes so far: a file of 12 KB would make hundreds of graphs of hundreds of nodes."""
    monkeypatch.setattr(safe, "SMALL", 2 * 10**6)
    monkeypatch.setattr(safe, "GROWTH", 100)
    lines = [f"a{i},b{i},{max(i - 299, 0)}\n" for i in range(700)]
    path = written(tmp_path, "source,target,time\n" + "".join(lines))
    with pytest.raises(InputError, match=r"Expected snapshots of at most 2 MB in memory \(got 39., of which"):
        snapshots(path, 1, 3)
    assert len(snapshots(path, 1, 3, max_bytes=10**9)) == 399
    folder = save_snapshots(snapshots(path, 20, 60), tmp_path / "made")
    # The graphs of a folder are bounded together, by their files.
    assert len(read_snapshots(folder)) == len(spell_out([folder])) == 18
    monkeypatch.setattr(safe, "SMALL", 10**6)
    monkeypatch.setattr(safe, "GROWTH", 1)
    for read in (read_snapshots, lambda path: spell_out([path])):
        with pytest.raises(InputError, match=r"Expected a file of at most 1 MB in memory \(.*made says [1-9]"):
            read(folder)
    assert len(spell_out([folder], Sources(step=1))) == 2


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(*[st.integers(0, 4)] * 2, st.integers(0, 9), st.integers(-3, 3), st.sampled_from("abc")), min_size=1
    ),
    st.sampled_from(RULES), st.booleans(),
)  # fmt: skip
def test_an_edge_a_pair_and_relation_is_what_each_relation_alone_makes(rows, rule, directed):
    events = pd.DataFrame([(f"n{u}", f"n{v}", t, w, r) for u, v, t, w, r in rows], columns=[*COLUMNS, "what"])
    options = {"rule": rule, "directed": directed, "keep": "all", "weight": None if rule == "once" else "weight"}
    events = events[events.source != events.target]
    if events.empty:
        return
    (made,) = snapshots(events, 10, 10, start=0, until=10, relation="what", **options)
    names = made.node_names
    weights = made.edge_weight.tolist() if "edge_weight" in made else [None] * made.num_edges
    found = {}
    for (u, v), kind, weight in zip(made.edge_index.T.tolist(), made.edge_type.tolist(), weights, strict=True):
        assert found.setdefault(made.relation_names[kind], {}).setdefault((names[u], names[v]), weight) == weight
    assert set(found) == set(events.what)
    for kind, part in events.groupby("what"):
        (alone,) = snapshots(part, 10, 10, start=0, until=10, **options)
        assert edges_of(alone) == found[kind]


def test_rare_relations_are_one_and_later_events_change_none(tmp_path):
    rng = np.random.default_rng(0)
    events = pd.DataFrame({"source": rng.integers(0, 9, 200), "target": rng.integers(9, 19, 200), "time": range(200)})
    events["what"] = [f"r{min(int(k), 6)}" for k in rng.exponential(1.5, 200)]
    events.loc[150:, "what"] = "new"
    first = snapshots(events[:150], 50, 50, relation="what", most_relations=2)
    made = snapshots(events, 50, 50, relation="what", most_relations=2)
    assert made[0].relation_names == first[0].relation_names == ["r0", "r1", "other"]
    assert [torch.equal(a.edge_type, b.edge_type) for a, b in zip(first, made, strict=False)] == [True] * 3
    assert set(made[3].edge_type.tolist()) == {2}
    assert "3 relations" in made.rule
    back = read_snapshots(save_snapshots(made, tmp_path / "s"))
    assert back[0].relation_names == made[0].relation_names
    assert torch.equal(back[3].edge_type, made[3].edge_type)
    assert back.to_frame().equals(made.to_frame())


def graphs_of(days):
    return snapshots([("Ann", "Bob", day) for day in range(days)], 2, 4)


@pytest.mark.parametrize(("name", "asked"), [("0002.npz", (8, 12, 20)), ("0004.npz", (8, 12)), ("0007.npz", (20,))])
def test_a_folder_of_snapshots_is_written_anew_and_nothing_else_in_it_is_touched(tmp_path, name, asked):
    folder = save_snapshots(graphs_of(12), tmp_path / "s")
    assert len(read_snapshots(folder)) == 5
    theirs = {"2024.npz": "mine", "0099.npz": "mine", "readme.txt": "mine"}
    for file, text in theirs.items():
        (folder / file).write_text(text)
    assert len(read_snapshots(save_snapshots(graphs_of(8), folder))) == 3
    assert not (folder / "0003.npz").exists()
    assert {file: (folder / file).read_text() for file in theirs} == theirs
    save_snapshots(graphs_of(12), folder)
    (folder / name).write_text("mine")  # in place of one of ours, or where one would be
    held = {path: path.read_bytes() for path in folder.iterdir()}
    for days in asked:
        with pytest.raises(InputError, match=rf"where {name} is something else.* nothing was changed there"):
            save_snapshots(graphs_of(days), folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == held


@pytest.mark.parametrize("text", ['{"format": "mine"}', "mine", '{"format": "axiompath.snapshots", "version": 1}'])
def test_a_list_that_is_somebody_elses_is_left_alone(tmp_path, text):
    (tmp_path / "snapshots.json").write_text(text)
    (tmp_path / "0000.npz").write_text("mine")
    with pytest.raises(InputError, match=r"snapshots\.json"):
        save_snapshots(graphs_of(8), tmp_path)
    assert (tmp_path / "0000.npz").read_text() == "mine"
    outside = {"format": "axiompath.snapshots", "version": 1, "unfinished": ["../x.npz"]}
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "snapshots.json").write_text(json.dumps(outside))
    (tmp_path / "x.npz").write_text("mine")
    with pytest.raises(InputError, match="Expected the names of graphs"):
        save_snapshots(graphs_of(8), tmp_path / "s")
    assert (tmp_path / "x.npz").read_text() == "mine"


def test_snapshots_that_were_stopped_are_no_mixture_and_are_made_again(tmp_path, monkeypatch):
    from axiompath.files import snapshots as module

    folder, left = save_snapshots(graphs_of(12), tmp_path / "s"), [2]

    def save(path, *others):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return module.__dict__["saved"](path, *others)

    monkeypatch.setitem(module.__dict__, "saved", module.save_graph)
    with monkeypatch.context() as patch:
        patch.setattr(module, "save_graph", save)
        with pytest.raises(KeyboardInterrupt):
            save_snapshots(graphs_of(20), folder)
    with pytest.raises(InputError, match="writing them was stopped"):
        read_snapshots(folder)
    assert len(read_snapshots(save_snapshots(graphs_of(20), folder))) == 9


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 5)] * 2, st.integers(0, 20), st.none() | st.integers(0, 9)), min_size=3),
    st.integers(1, 5), st.integers(1, 9), st.booleans(), st.booleans(),
)  # fmt: skip
def test_an_edge_that_grew_old_expired_and_one_that_an_event_ended_was_removed(rows, every, window, directed, counted):
    rows = [(u, v, t, None if end is None else t + end) for u, v, t, end in rows if u != v]
    table = pd.DataFrame(rows, columns=["src", "dst", "time", "end"])
    try:
        rule = "count" if counted else "once"
        made = snapshots(table, every, window, end="end", directed=directed, keep="all", rule=rule)
    except InputError:
        return  # too few events
    model = torch_geometric.nn.GCN(2, 4, 2, 2).eval()
    for place in range(1, len(made)):
        explainer = axiompath.Explainer(model, made[place - 1], made[place], node_names=made.node_names)
        before, after = (_open_edges(rows, made.bounds[i], directed=directed) for i in (place - 1, place))
        start = made.bounds[place][0]
        expected = {}
        for pair in before.keys() | after.keys():
            was, now = before.get(pair), after.get(pair)
            if was is None:
                expected[pair] = ("edge added", max(now), "events")
            elif now is None:
                kind = ("edge expired", max(was), "time") if max(was) < start else ("edge removed", max(was), "events")
                expected[pair] = kind
            elif counted and len(was) != len(now):
                aged = max(was) == max(now)
                expected[pair] = ("edge aged", max(now), "time") if aged else ("edge reweighted", max(now), "events")
        changes = explainer.changes(directed=True)
        found = changes[changes.dst.notna()]
        ends = zip(found.src_name, found.dst_name, strict=True)
        told = dict(zip(ends, zip(found.kind, found.last_event, found.reason, strict=True), strict=True))
        assert told == expected
        row, gone = made.to_frame().iloc[place], [pair for pair in before if pair not in after]
        counts = [sum(told[pair][0] == f"edge {word}" for pair in gone) for word in ("removed", "expired")]
        assert [row.edges_removed, row.edges_expired] == [n if directed else n // 2 for n in counts] or directed


def _open_edges(rows, bounds, *, directed):
    """Times of the events of each pair that count in a window, both ways where edges have no direction."""
    found = {}
    for u, v, time, end in rows:
        if bounds[0] <= time < bounds[1] and (end is None or end >= bounds[1]):
            for pair in {(str(u), str(v)), (str(u), str(v)) if directed else (str(v), str(u))}:
                found.setdefault(pair, []).append(time)
    return found


def test_time_and_new_events_are_told_apart_in_blame_and_in_files(tmp_path):
    table = pd.DataFrame(
        [("Ann", "Bob", 0, None), ("Bob", "Cy", 5, None), ("Ann", "Cy", 5, 11), ("Cy", "Dee", 12, None)],
        columns=["src", "dst", "time", "until"],
    )
    made = snapshots(table, 5, 10, end="until", until=15, keep="all")
    read = read_snapshots(save_snapshots(made, tmp_path / "s"))
    torch.manual_seed(0)
    model = torch_geometric.nn.GCN(2, 4, 2, 2).double().eval()
    for one in (made, read):
        explainer = axiompath.Explainer(model, one[0], one[1])
        changes = explainer.changes().set_index("kind")
        assert changes.loc["edge expired", "last_event"] == 0
        assert changes.loc["edge removed", "last_event"] == 5
        groups = explainer.blame("Bob", by="reason").by_group().set_index("group").share
        assert set(groups.index) == {"time", "events"}
        before, after = (
            explainer.happened("Bob").blame.predicted_before,
            explainer.happened("Bob").blame.predicted_after,
        )
        assert abs(groups.sum() - (after - before)) < 1e-9
    with pytest.raises(InputError, match=r"Expected ends after the times .*row 3 ends before it"):
        snapshots(table.assign(until=[None, None, 3, None]), 5, 10, end="until")


@pytest.mark.parametrize(("scale", "unit"), [(1, "seconds"), (1000, "milliseconds")])
def test_unix_times_are_dates_unless_a_period_is_a_number(scale, unit, tmp_path):
    days = [(1_400_000_000 + 86_400 * day + 60) * scale for day in range(200)]
    log = pd.DataFrame({"source": ["a", "b"] * 100, "target": ["b", "c"] * 100, "time": days, "mood": 1, "who": "x"})
    made = axiompath.snapshots(log)
    assert made.dated
    assert made.names[0].startswith("2014-")
    assert f"times are Unix {unit}, shown in UTC" in made.rule
    assert "columns not used: mood, who" in made.rule
    log.to_csv(tmp_path / "log.csv", index=False)
    assert axiompath.snapshots(tmp_path / "log.csv").rule == made.rule
    assert not axiompath.snapshots(log, every=30 * 86_400 * scale).dated
    assert not axiompath.snapshots(log.assign(time=range(200))).dated
    assert "columns not used" not in axiompath.snapshots(log[["source", "target", "time"]]).rule
