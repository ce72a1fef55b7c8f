"""Nodes by number, by name and by row: whose name is whose, on data as a stranger would bring it."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.nn import GCN

import axiompath
from axiompath.errors import InputError, MatchedByRow
from axiompath.graphs.names import read_class_names, read_names

IDS = [300, 100, 400, 200]
NAMES = ["Cid", "Ann", "Dan", "Ben"]  # of the rows whose n_id are IDS
CALLED = {100: "Ann", 200: "Ben", 300: "Cid", 400: "Dan"}
SETTINGS = {"in_channels": 3, "hidden_channels": 4, "num_layers": 2, "out_channels": 2}
FEATURES = {node: torch.randn(3, generator=torch.Generator().manual_seed(node)) for node in range(100, 700, 100)}
IN_A_ROW = {
    "list": list,
    "tuple": tuple,
    "ndarray": np.array,
    "objects": lambda names: np.array(names, dtype=object),
    "Series": pd.Series,
    "Series with labels": lambda names: pd.Series(names, index=[7, 3, 1, 100][: len(names)]),
    "Index": pd.Index,
    "Categorical": pd.Categorical,
    "values": lambda names: dict(enumerate(names)).values(),
}


def graph(ids, edges, numbered=True):
    """A graph whose rows are these nodes, in this order; edges name nodes by id."""
    row = {node: i for i, node in enumerate(ids)}
    ends = torch.tensor([[row[u], row[v]] for u, v in edges], dtype=torch.long).reshape(-1, 2).T
    data = Data(x=torch.stack([FEATURES[node] for node in ids]), edge_index=ends)
    if numbered:
        data.n_id = torch.tensor(ids)
    return data


OLD, NEW = [(100, 200), (200, 300)], [(100, 200), (200, 300), (400, 200)]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return GCN(**SETTINGS).eval()


@pytest.fixture(scope="module")
def saved_model(model, tmp_path_factory):
    return axiompath.save_model(model, tmp_path_factory.mktemp("names") / "model", SETTINGS)


@pytest.mark.parametrize("kind", IN_A_ROW)
def test_names_come_in_any_row(kind):
    assert read_names(IN_A_ROW[kind](NAMES), [np.array(IDS)] * 2) == CALLED
    assert read_names(IN_A_ROW[kind](NAMES), [np.arange(4)]) == dict(enumerate(NAMES))
    assert read_class_names(IN_A_ROW[kind](["no", "yes"])) == ("no", "yes")


def test_names_in_a_row_are_of_rows_not_of_ids(model):
    explainer = axiompath.Explainer(
        model, graph(IDS, OLD), graph(IDS, NEW), node_names=NAMES, class_names=["no", "yes"]
    )
    assert (explainer.node_names, explainer.class_names) == (CALLED, ("no", "yes"))
    text = explainer.explain(300, 3).summary()
    assert text.startswith("Node Cid ")
    assert "Dan → Ben → Cid" in text
    before, after = graph(IDS, OLD, numbered=False), graph(IDS, NEW, numbered=False)
    assert axiompath.Explainer(model, before, after, node_names=NAMES).explain(0, 3).name_of(2) == "Dan"
    assert axiompath.build_stories(model, [before, after], class_names=["no", "yes"])[0].class_names == ("no", "yes")


def test_rows_in_another_order_need_a_mapping(model):
    before, after = graph(IDS, OLD), graph(sorted(IDS), NEW)
    with pytest.raises(InputError, match=r"mapping from `n_id` to name \(got 4 names in a row.*whose `n_id` differ\)"):
        axiompath.Explainer(model, before, after, node_names=NAMES)
    remedy = dict(zip(before.n_id.tolist(), NAMES, strict=True))
    assert axiompath.Explainer(model, before, after, node_names=remedy).node_names == CALLED
    by_series = pd.Series(CALLED).to_dict()
    assert axiompath.Explainer(model, before, after, node_names=by_series).node_names == CALLED


def test_names_go_with_the_snapshot_of_as_many_rows(model):
    before, after = graph([400, 100, 300, 200], OLD), graph([500, *IDS], [*NEW, (500, 100)])
    explainer = axiompath.Explainer(model, before, after, node_names=["Eve", *NAMES])
    assert explainer.node_names == {**CALLED, 500: "Eve"}
    explainer = axiompath.Explainer(model, before, after, node_names=["Dan", "Ann", "Cid", "Ben"])
    assert explainer.node_names == CALLED
    with pytest.raises(InputError, match=r"each row of a snapshot, 4 or 5 of them \(got 6 names\)"):
        axiompath.Explainer(model, before, after, node_names=["x"] * 6)


def test_a_name_may_be_missing(model):
    names = pd.Series(["Cid", None, float("nan"), pd.NA], dtype=object)
    explainer = axiompath.Explainer(model, graph(IDS, OLD), graph(IDS, NEW), node_names=names)
    assert explainer.node_names == {300: "Cid"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("abcd", r"`node_names` in a row: a list, an array or a Series \(got str\)"),
        (set(NAMES), r"in a row.*\(got set\)"),
        (iter(NAMES), r"in a row.*\(got list_iterator\)"),
        (np.array([NAMES]), r"in a row.*\(got ndarray of shape \(1, 4\)\)"),
        (np.array("abcd"), r"in a row.*\(got ndarray of shape \(\)\)"),
        (pd.DataFrame({"name": NAMES}), r"in a row.*\(got DataFrame of shape \(4, 1\)\)"),
        ({"100": "Ann"}, r"node numbers as the keys of `node_names` \(got '100', of type str\)"),
        ({True: "Ann"}, r"node numbers as the keys"),
    ],
)
def test_what_is_no_row_of_names_is_refused(model, tmp_path, names, words):
    with pytest.raises(InputError, match=words):
        axiompath.Explainer(model, graph(IDS, OLD), graph(IDS, NEW), node_names=names)
    with pytest.raises(InputError, match=words):
        axiompath.save_graph(tmp_path / "graph", graph(IDS, OLD), names)


@pytest.mark.parametrize("names", ["ab", {0: "no", 1: "yes"}])
def test_what_is_no_row_of_class_names_is_refused(model, names):
    with pytest.raises(InputError, match=r"`class_names` in a row"):
        axiompath.Explainer(model, graph(IDS, OLD), graph(IDS, NEW), class_names=names)


@pytest.mark.parametrize("names", [*(make(NAMES) for make in IN_A_ROW.values()), CALLED])
def test_a_saved_graph_names_the_nodes_that_an_explainer_names(tmp_path, names):
    path = axiompath.save_graph(tmp_path / "graph.npz", graph(IDS, OLD), names, np.array(["no", "yes"]))
    found = axiompath.read_graph(path)
    assert found.node_names == CALLED
    assert found.class_names == ("no", "yes")


def test_a_saved_graph_has_a_name_for_every_node_and_each_once(tmp_path):
    path = axiompath.save_graph(tmp_path / "graph.npz", graph(IDS, OLD), {100: "Ann"})
    assert axiompath.read_graph(path).node_names == {100: "Ann", 200: "200", 300: "300", 400: "400"}
    with pytest.raises(InputError, match=r"every name once in `node_names` \(got 'a' twice\)"):
        axiompath.save_graph(tmp_path / "graph.npz", graph(IDS, OLD), list("abca"))
    with pytest.raises(InputError, match=r"each row of a snapshot, 4 of them \(got 2 names\)"):
        axiompath.save_graph(tmp_path / "graph.npz", graph(IDS, OLD), ["a", "b"])


def test_sequences_take_names_of_whichever_snapshot_has_as_many_rows(model, tmp_path):
    snapshots = [graph(IDS, OLD), graph(IDS[::-1], NEW), graph([500, *IDS], [*NEW, (500, 100)])]
    names = np.array(["Eve", *NAMES])
    (story,) = axiompath.build_stories(model, snapshots, [300], 3, node_names=names)
    assert story.name == "Cid"
    assert story.explanations[0].name_of(400) == "Dan"
    scans = list(axiompath.scan_sequence(model, snapshots, tmp_path, node_names=names, min_kl=0, workers=1))
    found = {node: name for scan in scans for e in scan for node, name in e.node_names.items()}
    assert found == {**CALLED, 500: "Eve"}
    for ask in (axiompath.build_stories, lambda *given, **named: axiompath.scan_sequence(*given, tmp_path, **named)):
        with pytest.raises(InputError, match=r"names in a row, which fit the rows of several snapshots"):
            ask(model, snapshots, node_names=NAMES)


# ---- which node is which ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bare", ["before", "after"])
def test_ids_on_one_side_alone_are_refused(model, bare):
    graphs = {"before": graph(IDS, OLD), "after": graph(IDS, NEW)}
    del graphs[bare].n_id
    with pytest.raises(InputError, match=rf"carry `n_id`, or neither \(`{bare}` has none\); give it to both"):
        axiompath.Explainer(model, **graphs)


def test_pyg_gives_no_ids_so_before_must_have_none(model):
    settings = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = PyGExplainer(
        model, axiompath.pyg.PyGAlgorithm(graph(IDS, OLD)), explanation_type="model", edge_mask_type="object",
        model_config=settings,
    )  # fmt: skip
    after = graph(IDS, NEW)
    with pytest.raises(InputError, match=r"carry `n_id`, or neither \(`after` has none\)"):
        explainer(after.x, after.edge_index, index=0)


def test_graphs_of_different_sizes_matched_by_row_are_warned_of(model):
    larger = graph([*IDS, 500], NEW, numbered=False), graph([*IDS, 500, 600], NEW, numbered=False)
    with pytest.warns(MatchedByRow, match=r"before has 4 nodes and the graph after 5.*row 4 of the graph after as new"):
        axiompath.Explainer(model, graph(IDS, OLD, numbered=False), larger[0])
    with pytest.warns(
        UserWarning, match=r"before has 6 .* after 4.*rows 4 to 5 of the graph before as gone; .* `n_id`"
    ):
        axiompath.Explainer(model, larger[1], graph(IDS, OLD, numbered=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axiompath.Explainer(model, graph(IDS, OLD), graph([*IDS, 500], NEW))
        axiompath.Explainer(model, graph(IDS, OLD, numbered=False), graph(IDS, NEW, numbered=False))


def test_a_sequence_is_warned_of_once(model):
    snapshots = [graph([*IDS, 500, 600][:size], OLD, numbered=False) for size in (4, 5, 6)]
    with pytest.warns(MatchedByRow) as told:
        axiompath.build_stories(model, snapshots, [0], 2)
    assert [str(warning.message)[:38] for warning in told] == ["The snapshots have 4, 5, 6 nodes and n"]
    assert told[0].filename == __file__


def stored(tmp_path, name, data, node_names=None):
    file = axiompath.save_graph(tmp_path / f"{name}.npz", data, node_names)
    return axiompath.convert_graph(file, tmp_path / name)


def test_stored_graphs_without_names_are_warned_of_too(model, tmp_path):
    before = stored(tmp_path, "before", graph(IDS, OLD, numbered=False))
    after = stored(tmp_path, "after", graph([*IDS, 500], [*NEW, (500, 200)], numbered=False))
    with pytest.warns(
        MatchedByRow, match=r"before has 4 nodes and the graph after 5.*convert both with a table"
    ) as told:
        axiompath.Explainer(model, before, after)
    assert len(told) == 1
    assert told[0].filename == __file__
    named = stored(tmp_path, "named", graph([*IDS, 500], [*NEW, (500, 200)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axiompath.Explainer(model, stored(tmp_path, "less", graph(IDS, OLD)), named)


def test_stored_graphs_take_names_by_row(model, tmp_path):
    before = stored(tmp_path, "before", graph(IDS, OLD))
    after = stored(tmp_path, "after", graph([500, 100, 200, 300, 400], NEW))
    explainer = axiompath.Explainer(model, before, after, node_names=pd.Series(["Eve", "Ann", "Ben", "Cid", "Dan"]))
    assert [explainer.node_names[number] for number in range(5)] == [*NAMES, "Eve"]
    assert "Dan → Ben → Cid" in explainer.explain(0, 3).summary()


def test_names_that_are_not_stored_are_still_names(model, tmp_path):
    """Nodes called 0 to N - 1 in order have no names on disk; beside a graph that has, their names are their rows."""
    features = {node: torch.full((3,), float(node)) for node in range(6)}

    def numbered(ids, edges):
        row = {node: i for i, node in enumerate(ids)}
        ends = torch.tensor([[row[u], row[v]] for u, v in edges]).T
        x = torch.stack([features[node] for node in ids])
        return Data(x=x, edge_index=ends, n_id=torch.tensor(ids))

    before = stored(tmp_path, "before", numbered([5, 0, 1], [(5, 0)]))
    after = stored(tmp_path, "after", numbered([0, 1, 2, 3], [(2, 0), (3, 1)]))
    assert after.names is None
    explainer = axiompath.Explainer(model, before, after)
    assert explainer.node_names == {0: "5", 1: "0", 2: "1", 3: "2", 4: "3"}


# ---- the command line ---------------------------------------------------------------------------------------------
def saved(tmp_path, kind):
    """Two graphs of nodes called 100 to 400 in different orders, in files of one kind; and options to read them."""
    if kind == "tables":
        for name, ids, edges in (("before", IDS, OLD), ("after", sorted(IDS), NEW)):
            folder = tmp_path / name
            folder.mkdir()
            rows = [f"{node},{','.join(str(float(v)) for v in FEATURES[node])}" for node in ids]
            (folder / "nodes.csv").write_text("\n".join(["id,a,b,c", *rows]))
            (folder / "edges.csv").write_text("\n".join(["source,target", *(f"{u},{v}" for u, v in edges)]))
        return tmp_path / "before", tmp_path / "after"
    graphs = graph(IDS, OLD), graph(sorted(IDS), NEW)
    if kind == "stored":
        return tuple(stored(tmp_path, name, data).folder for name, data in zip(("b", "a"), graphs, strict=True))
    names = CALLED if kind == "named" else None
    return tuple(axiompath.save_graph(tmp_path / f"{i}.npz", data, names) for i, data in enumerate(graphs))


@pytest.mark.parametrize("kind", ["ids", "named", "tables", "stored"])
def test_a_target_is_never_a_row_where_nodes_have_numbers(call, saved_model, tmp_path, kind):
    files = saved(tmp_path, kind)
    code, text, error = call("explain", saved_model, *files, "-t", 300, "--json")
    assert code == 0, error
    (found,) = json.loads(text)
    assert found["node_names"].get(str(found["target"]), str(found["target"])) == ("Cid" if kind == "named" else "300")
    code, text, error = call("explain", saved_model, *files, "-t", 200)
    assert text.startswith(f"Node {'Ben' if kind == 'named' else '200'} ")
    tries = [("explain", saved_model, *files), ("report", saved_model, *files, "--out", tmp_path / "r.html")]
    if kind != "stored":
        tries += [("story", saved_model, *files)]
        tries += [("report", saved_model, *files, files[0], "--out", tmp_path / "r.html")]
    for command in tries:
        for row in (0, 3, "+3", "03") if command is tries[0] else (0,):
            code, text, error = call(*command, "--target", row)
            assert (code, text) == (2, ""), command
            assert "Expected" in error
            assert "got" in error
    assert not (tmp_path / "r.html").exists()


def test_a_name_of_two_nodes_is_refused(call, saved_model, tmp_path):
    before = axiompath.save_graph(tmp_path / "before.npz", graph(IDS, OLD), NAMES)
    after = axiompath.save_graph(tmp_path / "after.npz", graph(IDS, NEW), NAMES[::-1])
    code, _, error = call("explain", saved_model, before, after, "-t", "Cid")
    assert code == 2
    assert "got 'Cid', which the nodes 200 and 300 have" in error


@pytest.mark.parametrize("kind", ["arrays", "stored"])
def test_the_command_line_warns_on_stderr_once(call, saved_model, tmp_path, kind):
    graphs = graph(IDS, OLD, numbered=False), graph([*IDS, 500], [*NEW, (500, 200)], numbered=False)
    if kind == "stored":
        files = [stored(tmp_path, name, data).folder for name, data in zip(("b", "a"), graphs, strict=True)]
    else:
        files = [axiompath.save_graph(tmp_path / f"{i}.npz", data) for i, data in enumerate(graphs)]
    commands = [
        ("explain", saved_model, *files), ("diff", *files), ("diff", *files, "--model", saved_model),
        ("scan", saved_model, *files, "--out", tmp_path / "scan", "--workers", 1),
        ("report", saved_model, *files, "--out", tmp_path / "r.html"),
    ]  # fmt: skip
    if kind == "arrays":
        commands.append(("story", saved_model, *files, files[0]))
    for command in commands:
        code, text, error = call(*command, "--json")
        assert code == 0, error
        json.loads(text)
        assert error.count("Warning: The ") == 1, (command, error)
        assert "row i of one is taken" in error
        assert ".py" not in error


def explainers(model, tmp_path, kind):
    """Explainers whose nodes have names, however these came along."""
    before, after = graph(IDS, OLD), graph(sorted(IDS), NEW)
    if kind == "given":
        return axiompath.Explainer(model, before, after, node_names=CALLED)
    if kind == "unread":
        return axiompath.Explainer(model, before, after, node_names=CALLED, paths=False)
    if kind == "stored":
        opened = [stored(tmp_path, f"{i}", data, CALLED) for i, data in enumerate((before, after))]
        return axiompath.Explainer(model, *opened)
    read = []
    for place, data in enumerate((before, after)):
        read.append(axiompath.read_graph(axiompath.save_graph(tmp_path / f"{place}.npz", data, CALLED, ["no", "yes"])))
    if kind == "fields":
        for file in read:
            file.data.node_names = list(file.row_names)
        read = [file.data for file in read]
    return axiompath.Explainer(model, *read)


@pytest.mark.parametrize("kind", ["given", "unread", "stored", "files", "fields"])
def test_every_question_takes_a_name(model, tmp_path, kind):
    explainer = explainers(model, tmp_path, kind)
    number = explainer.session.index.number("Ben")
    assert explainer.blame("Ben").to_frame().equals(explainer.blame(number).to_frame())
    assert explainer.blame("Ben").target == number
    assert np.array_equal(explainer.what_if("Ben", undo=[0]), explainer.what_if(number, undo=[0]))
    assert explainer.happened("Ben").summary() == explainer.happened(number).summary()
    assert "Ben" in explainer.moved().name.tolist()
    with pytest.raises(InputError, match=r"the name or number of a node \(got 'Bem', and no node is called that"):
        explainer.blame("Bem")
    if kind == "unread":
        return
    assert explainer.explain("Ben").to_dict() == explainer.explain(number).to_dict()
    assert explainer.explain("Ben").name == "Ben"
    assert [one.name for one in explainer.explain_many(["Ben", number], progress=False)] == ["Ben", "Ben"]
    assert explainer.explain("Ben", by="edge").target == number
    frame = explainer.attribute("Ben").to_frame()
    assert set(frame.name) == {"Ben"}
    assert explainer.frontier("Ben", [1, 2])[1].name == "Ben"
    paths = explainer.explain("Ben", 2).paths
    words = [[{-1: "bias"}.get(node, explainer.node_names.get(node)) for node in path] for path in paths.tolist()]
    assert np.array_equal(explainer.replay("Ben", words), explainer.replay(number, paths))
    assert np.array_equal(explainer.replay_edges("Ben", words), explainer.replay_edges(number, paths))
    assert explainer.features("Ben").equals(explainer.features(number))


def test_names_that_graphs_bring_along_go_into_stories_and_scans(model, tmp_path):
    rows = [("Ann", "Ben", 0), ("Ben", "Cid", 1), ("Cid", "Dan", 1), ("Ann", "Dan", 2), ("Ann", "Cid", 3)]
    sequence = axiompath.snapshots(rows, 1, 2, features=lambda moment: np.eye(4, model.in_channels)[moment.nodes])
    told = axiompath.build_stories(model, sequence, ["Ben"])
    assert told["Ben"].name == "Ben"
    assert told[0].snapshot_names == sequence.names
    with pytest.raises(InputError, match="Expected the name of a target that has a story: 'Ben'"):
        told["Zoe"]
    for scan in axiompath.scan_sequence(model, sequence, tmp_path / "scan", progress=False, workers=1, min_kl=0):
        assert set(scan.moved().name) <= {"Ann", "Ben", "Cid", "Dan"}
        assert set(scan.moved().name)
    assert axiompath.check(model, sequence[0]).readable


def test_a_message_says_the_name(call, saved_model, tmp_path):
    graphs = graph([*IDS, 500], OLD), graph(IDS, NEW)
    names = CALLED | {500: "Eve"}
    files = [axiompath.save_graph(tmp_path / f"{i}.npz", data, names) for i, data in enumerate(graphs)]
    code, _, error = call("explain", saved_model, *files, "-t", "Eve")
    assert (code, "got 'Eve', node 500, which `after` does not have" in error) == (2, True), error
    code, _, error = call("explain", saved_model, *files, "-t", "Cit")
    assert "got 'Cit', and no node is called that; they are called 'Cid'" in error


def test_classes_of_a_graph_are_taken_where_they_fit_the_model(model, tmp_path):
    file = axiompath.save_graph(tmp_path / "g.npz", graph(IDS, OLD), CALLED, ["a", "b", "c", "d", "e", "f", "g"])
    other = axiompath.save_graph(tmp_path / "h.npz", graph(IDS, NEW), CALLED)
    assert axiompath.Explainer(model, axiompath.read_graph(file), axiompath.read_graph(other)).class_names == ()
