"""The page on everything that moved: what it says is in the folder, it adds up, and it takes thousands of rows."""

import base64
import json
import re
import shutil
import zlib

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath.change.states import CAUSE_WORDS
from axiompath.explain.explanation import Explanation
from axiompath.paths.table import PathTable
from axiompath.report import scan_page
from axiompath.report.credits import UNIT_KINDS, Credits, credit_facts, credit_paths, index_changes, match_paths
from axiompath.report.patterns import code_paths, pattern_words, read_nodes
from axiompath.report.scan_page import find_unusual, tell_coverage
from axiompath.report.statements import Credited, find_statements
from axiompath.report.survey import BY_BLAME, BY_PATHS, survey_scan
from axiompath.scan.flat import Flat, read_flat
from axiompath.scan.scan import read_blame_of
from support.references import credit_paths_literally
from support.scans import CLASSES, EVIL, evolved


@pytest.fixture(scope="module")
def explainer():
    torch.manual_seed(0)
    before, after = evolved()
    names = {i: f"person {i}" for i in range(260)} | {3: EVIL}
    return axiompath.Explainer(GCN(3, 16, 2, 3).eval(), before, after, node_names=names, class_names=CLASSES)


@pytest.fixture(scope="module")
def scan(explainer, tmp_path_factory):
    return explainer.scan(
        tmp_path_factory.mktemp("scan") / "scan", 5, min_kl=1e-7, workers=1, progress=False, blame=True
    )


@pytest.fixture(scope="module")
def survey(scan):
    return survey_scan(scan)


def flats(scan):
    return [read_flat(path) for path, _ in scan.files()]


def test_flat_arrays_are_the_explanations(scan):
    assert len(scan) > 200  # several groups of rows
    assert scan.manifest["num_flipped"] > 0
    rows = iter(scan)
    for flat in flats(scan):
        for place in range(len(flat.targets)):
            e = next(rows)
            mine = flat.chosen.one(place)
            assert flat.targets[place].tolist() == [e.target]
            assert flat.classes[place].tolist() == [e.class_before, e.class_after]
            np.testing.assert_array_equal(mine.paths, e.paths)
            np.testing.assert_array_equal(mine.contributions, e.contributions)
            assert mine.kind_names == e.kinds
            for cause, values in zip(CAUSE_WORDS, flat.causes[place], strict=True):
                np.testing.assert_array_equal(values, e.causes.get(cause, np.zeros(3)))
    assert next(rows, None) is None


def test_one_row_is_read_alone(scan):
    everything = list(scan)
    for place in (0, 99, 100, 101, len(everything) - 1):
        assert scan.at(place).to_dict() == everything[place].to_dict()
    with pytest.raises(axiompath.InputError, match="Expected a place below"):
        scan.at(len(everything))


def test_tables_of_the_graphs_are_those_of_the_explainer(scan, explainer):
    kinds = {"kind": object, "src": "Int64"}
    pd.testing.assert_frame_equal(scan.changes().astype(kinds), explainer.changes().astype(kinds), check_dtype=False)
    nodes = scan.nodes().set_index("node")
    after = explainer.session.pair.after.data
    classes = explainer.change.logits_after.argmax(axis=1)
    for node in (0, 7, 100):
        senders = after.edge_index[0][(after.edge_index[1] == node) & (after.edge_index[0] != node)].numpy()
        assert nodes.degree_after[node] == len(senders)
        assert nodes.num_own_after[node] == (classes[senders] == classes[node]).sum()
        assert nodes.class_after[node] == classes[node]


def test_parts_by_cause_and_by_change_sum_to_everything(scan, survey):
    assert sum(survey.causes.values()) == pytest.approx(1, abs=1e-9)
    rows = survey.rows
    told = [e.prob_after[e.class_after] - e.prob_before[e.class_after] for e in scan]
    np.testing.assert_allclose(rows["moved"], told, atol=1e-12)
    np.testing.assert_allclose(rows["explained"], [e.explained for e in scan], atol=1e-9)
    assert survey.found_by == BY_BLAME
    facts, tables = read_blame_of(scan)
    moved_by = (tables[1].told_after - tables[1].told_before).to_numpy()
    credits = credit_facts(facts, moved_by)
    sums = np.bincount(credits.targets, weights=credits.carried, minlength=len(moved_by))
    np.testing.assert_allclose(sums, np.abs(moved_by), atol=1e-9)
    assert sum(flow[2] for flow in survey.flows) == scan.manifest["num_flipped"]


def test_paths_are_credited_as_the_literal_twin_does(scan):
    changes = scan.changes()
    index = index_changes(changes)
    rng = np.random.default_rng(0)
    for flat in flats(scan):
        carried = rng.normal(size=len(flat.chosen.paths))
        found = credit_paths(index, flat, match_paths(index, flat), carried)
        got = {}
        for unit, owner, share in zip(*found, strict=True):
            got[unit, owner] = got.get((unit, owner), 0.0) + share
        literal = credit_paths_literally(changes, flat, carried)
        literal = {
            (
                key
                if isinstance(key, int)
                else index.nobody
                if key is None
                else index.touched[index.nodes == key[0]][0],
                o,
            ): s
            for (key, o), s in literal.items()
        }
        assert got.keys() == literal.keys()
        for key, share in literal.items():
            assert got[key] == pytest.approx(share, abs=1e-12)


def hand_made(kinds, ends, classes):
    names = tuple([str(n) for n in column] for column in np.array(ends).T)
    numbers = np.array([UNIT_KINDS.index(kind) for kind in kinds])
    return Credited(numbers, np.array(ends), names, np.array(classes), {0: "red", 1: "blue"})


def test_the_smallest_group_that_carries_as_much_is_named():
    ends = [[9, n] for n in range(6)] + [[20, 21], [22, 23], [24, 25]]
    kinds = ["edge added"] * 6 + ["edge removed"] * 3
    units = hand_made(kinds, ends, [[0, n % 2] for n in range(6)] + [[1, 1]] * 3)
    targets = np.arange(9)
    credits = Credits(np.arange(9), targets, np.array([2.0] * 6 + [1.0, 1.0, 0.1]))
    first, second = find_statements(units, credits, np.abs(credits.carried))[:2]
    assert first.text == "6 edges added at 9"
    assert first.carried == pytest.approx(12 / 14.1)
    assert (first.num_changes, first.num_predictions) == (6, 6)
    assert second.text == "3 edges removed within blue"
    assert len(second.parts) == 3
    # One change that carries nearly everything is named alone.
    alone = find_statements(units, Credits(np.arange(9), targets, np.array([30.0] + [0.1] * 8)), np.ones(9))
    assert alone[0].text == "edge added 9 – 0"
    # What held predictions back is no cause.
    back = find_statements(units, Credits(np.arange(9), targets, -np.ones(9)), np.ones(9))
    assert back == []


def test_changes_spread_over_many_classes_are_told_of_by_class():
    # Of each of ten classes 4 edges come, 3 go: twenty groups that carry about as much.
    kinds, ends, classes = [], [], []
    for label in range(10):
        first = 100 * label
        kinds += ["edge added"] * 4 + ["edge removed"] * 3
        ends += [[first + n, first + n + 50] for n in range(7)]
        classes += [[label, label]] * 7
    units, size = hand_made(kinds, ends, classes), len(kinds)
    credits = Credits(np.arange(size), np.arange(size), np.ones(size))
    found = find_statements(units, credits, np.ones(size))
    assert sum(one.carried for one in found) == pytest.approx(1.0)
    assert found[0].text == "4 edges added and 3 edges removed within red"
    assert found[0].num_changes == 7
    told = [("4 edges added", 4 / size), ("3 edges removed", 3 / size)]
    assert [(text, pytest.approx(part)) for text, part in told] == list(found[0].parts)
    # Where the added ones carry enough, they are told of by themselves.
    large = Credits(np.arange(size), np.arange(size), np.where(units.kinds == UNIT_KINDS.index("edge added"), 5.0, 1.0))
    assert find_statements(units, large, large.carried)[0].text == "4 edges added within red"


def spread_literally(changes):
    """Of each node at which edges came or went, the changes that what is renormalised there is credited to."""
    found = {}
    edges = changes[changes.kind.isin(["edge added", "edge removed", "edge reweighted", "edge features changed"])]
    for node in {*edges.src} | {*edges.dst}:
        here = edges[(edges.src == node) | (edges.dst == node)]
        net = (here.kind == "edge added").sum() - (here.kind == "edge removed").sum()
        wrong = {0: None, 1: "edge removed", -1: "edge added"}[int(np.sign(net))]
        found[int(node)] = set(here.index[here.kind != wrong])
    return found


def test_what_is_renormalised_is_with_the_edges_that_made_the_degree(scan):
    changes = scan.changes().reset_index(drop=True)
    index = index_changes(changes)
    got = {}
    for unit, change in index.spread:
        node = int(index.nodes[index.touched == unit][0])
        got.setdefault(node, set()).add(int(change))
    assert got == spread_literally(changes)
    assert any(len(rows) > 1 for rows in got.values())


def test_a_node_hands_its_credits_on():
    # Two edges came at node 9, one went: the two that came share what is renormalised there, for every prediction.
    units = hand_made(["edge added", "edge added", "edge removed", "renormalised"], [[9, 1], [9, 2], [9, 3], [9, -1]],
                      [[0, 0], [0, 0], [1, 1], [0, -1]])._replace(spread=np.array([[3, 0], [3, 1]]))  # fmt: skip
    credits = Credits(np.array([0, 3, 3]), np.array([0, 0, 1]), np.array([1.0, 2.0, 4.0]))
    (found,) = find_statements(units, credits, np.array([3.0, 4.0]))
    assert (found.text, found.num_changes, found.num_predictions) == ("2 edges added at 9", 2, 2)
    assert found.carried == pytest.approx(1.0)
    assert found.moved == ((1, pytest.approx(4.0)), (0, pytest.approx(3.0)))
    assert [part for _, part in found.parts] == [pytest.approx(4 / 7), pytest.approx(3 / 7)]


def test_statements_do_not_overlap_and_carry_what_they_say(scan, survey):
    facts, tables = read_blame_of(scan)
    moved_by = (tables[1].told_after - tables[1].told_before).to_numpy()
    credits = credit_facts(facts, moved_by)
    used = np.concatenate([one.units for one in survey.statements])
    assert len(np.unique(used)) == len(used)
    for one in survey.statements:
        mine = np.isin(credits.units, one.units)
        assert one.carried == pytest.approx(credits.carried[mine].sum() / np.abs(moved_by).sum(), abs=1e-9)
    assert f"of {len(scan.changes()):,} changes" in tell_coverage(survey)


def test_patterns_are_told_by_place_and_role():
    frame = pd.DataFrame({"node": np.arange(30)})
    frame["class_before"] = [0, 0, 1] + [2] * 27
    frame["class_after"] = frame.class_before
    frame["degree_before"], frame["degree_after"] = 1, [1, 1, 50] + [1] * 27
    frame["num_own_before"], frame["num_own_after"] = 1, 0
    nodes = read_nodes(frame)
    changes = pd.DataFrame(
        {"kind": ["edge removed", "edge added"], "src": [0, 0], "dst": [1, 2], "directed": [False, False]}
    )
    paths = np.array([[1, 1, 0], [2, 2, 0], [5, 1, 0], [0, 0, 0], [6, 6, 6]])
    kinds = np.array([CAUSE_WORDS.index(kind) for kind in ("lost", "gained", "lost", "reweighted", "feature")])
    size = (2, 3)
    flat = Flat(
        np.arange(2), np.array([[0], [6]]), None, np.array([[0, 0], [2, 2]]), *np.zeros((3, 2)),
        np.zeros(size), np.zeros(size), np.zeros((2, len(CAUSE_WORDS), 3)),
        PathTable(np.array([0, 4, 5]), paths, np.zeros((5, 3)), kinds),
    )  # fmt: skip
    codes = code_paths(nodes, flat, match_paths(index_changes(changes), flat))
    assert [pattern_words(int(code), {1: "blue"}) for code in codes] == [
        "a lost link to its last neighbour of its own class",
        "a new link to a hub of blue",
        "a lost link to its last neighbour of its own class",
        "its own links renormalised, as it gained or lost others",
        "its own features",
    ]


def test_a_step_far_above_the_others_is_unusual():
    assert find_unusual([1.0, 1.1, 0.9, 5.0, 1.0]) == [3]
    assert find_unusual([1.0, 1.1, 0.9, 1.05, 1.0]) == []
    assert find_unusual([1.0, 9.0]) == []


def test_a_scan_without_blame_or_tables_says_so(scan, explainer, tmp_path):
    plain = explainer.scan(tmp_path / "plain", 5, workers=1, progress=False)
    found = survey_scan(plain)
    assert found.found_by == BY_PATHS
    assert "Found from the chosen paths" in tell_coverage(found)
    assert 0 < found.coverage <= found.known + 1e-6
    shutil.copytree(plain.folder, tmp_path / "old")
    manifest = json.loads((tmp_path / "old" / "manifest.json").read_text())
    for name in ("changes", "nodes"):
        del manifest["tables"][f"{name}.parquet"], manifest[f"num_{name}"]
    (tmp_path / "old" / "manifest.json").write_text(json.dumps(manifest))
    old = survey_scan(axiompath.read_scan(tmp_path / "old"))
    assert "holds no table of changes" in tell_coverage(old)
    assert old.total == pytest.approx(found.total)


def test_a_scan_that_explains_nothing_has_its_page(open_page, tmp_path):
    graph = evolved()[0]
    same = axiompath.Explainer(GCN(3, 16, 2, 3).eval(), graph, graph.clone())
    scan = same.scan(tmp_path / "scan", 5, workers=1, progress=False)
    page = open_page(scan.report(tmp_path / "scan.html"))
    assert scan.summary in page.inner_text("#told")
    assert page.complaints == []
    page.close()


def test_groups_of_the_users_own_are_named(scan):
    found = survey_scan(scan, by=lambda row: "monday" if row.id % 2 else "tuesday")
    assert any(one.text.startswith(("monday: ", "tuesday: ")) for one in found.statements)


def test_columns_travel_in_as_few_bytes_as_hold_them(survey):
    blocks = scan_page._arrays([survey])
    for key, values in survey.rows.items():
        if key == "place":
            continue
        kind, size = blocks[f"column-{key}"]["type"], len(values)
        planes = np.frombuffer(zlib.decompress(base64.b64decode(blocks[f"column-{key}"]["data"])), np.uint8)
        found = np.ascontiguousarray(planes.reshape(-1, size).T).view(scan_page.TYPES[kind])[:, 0]
        if kind == "f4":
            np.testing.assert_allclose(found, values, rtol=2**-15, atol=1e-30)
        else:
            np.testing.assert_array_equal(found, values)
    names = zlib.decompress(base64.b64decode(blocks["column-name"]["data"])).decode().split("\n")
    assert names == [name.replace("\n", " ") for name in survey.names]
    sizes = ([0, 255], "u1"), ([0.0, 256.0], "u2"), ([-1, 3], "i4"), ([2**40], "f8"), ([0.5], "f4"), ([np.inf], "f4")
    assert [scan_page._kind_of(np.array(values)) for values, _ in sizes] == [kind for _, kind in sizes]


# ---- in a browser ---------------------------------------------------------------------------------------------------


@pytest.fixture
def page(open_page, scan, tmp_path):
    path = scan.report(tmp_path / "scan.html", num_pages=20)
    opened = open_page(path, viewport={"width": 1280, "height": 900})
    opened.wait_for_selector("#grid tbody tr:nth-child(5)")
    yield opened
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    opened.close()


def grid_column(page, place):
    return page.locator(f"#grid tbody tr:not(.spacer) td:nth-child({place})").all_inner_texts()


def test_the_page_says_what_the_survey_found(page, survey):
    text = page.inner_text("#told")
    assert survey.scan.summary in text
    assert "By cause: " in text
    heads = page.locator("#statements > li .head b").all_inner_texts()
    assert heads == [one.text for one in survey.statements]
    assert page.inner_text("#coverage") == tell_coverage(survey)
    assert page.locator("#patterns tbody tr").count() == len(survey.patterns)
    assert page.locator("#class-flow .band").count() == len(survey.flows)
    assert f"of {len(survey.scan):,}" in page.inner_text("#grid-note")
    assert page.evaluate("document.querySelectorAll('main img, nav img').length") == 0


def test_the_table_sorts_filters_and_opens_pages(page, survey):
    rows = pd.DataFrame({key: survey.rows[key] for key in ("moved", "kl", "before", "after")})
    page.click("#grid th[data-key=moved] button")
    shown = [float(v.replace("−", "-").replace("+", "")) for v in grid_column(page, 4)]
    expected = rows.moved.sort_values(ascending=False).head(len(shown))
    np.testing.assert_allclose(shown, expected, atol=6e-4)
    page.click("#grid th[data-key=moved] button")
    shown = [float(v.replace("−", "-").replace("+", "")) for v in grid_column(page, 4)]
    np.testing.assert_allclose(shown, rows.moved.sort_values().head(len(shown)), atol=6e-4)
    page.check("#grid-flips")
    flips = int((rows.before != rows.after).sum())
    assert page.inner_text("#grid-note").startswith(f"{flips} of")
    page.uncheck("#grid-flips")
    page.fill("#grid-find", "<b>")
    assert page.inner_text("#grid-note").startswith("1 of")
    assert "onerror" in grid_column(page, 1)[0]
    page.fill("#grid-find", "person 1")
    assert all("person 1" in name for name in grid_column(page, 1))
    page.fill("#grid-find", "")
    page.evaluate("document.getElementById('grid').scrollTop = 1e9")
    page.wait_for_timeout(200)
    last = page.locator("#grid tbody tr:not(.spacer)").last
    assert int(last.get_attribute("aria-rowindex")) == len(rows) + 1
    page.evaluate("document.getElementById('grid').scrollTop = 0")
    page.click("#grid th[data-key=kl] button")
    page.locator("#grid tbody .link").first.click()
    page.wait_for_selector("#waterfall .bars")
    assert page.is_visible("#around-picture .spot >> nth=0")
    first = next(iter(survey.scan))
    assert first.name in page.inner_text("#headline")


def test_a_band_filters_the_table_by_keyboard(page, survey):
    old, new, count = survey.flows[0]
    page.locator("#class-flow .band").first.focus()
    page.keyboard.press("Enter")
    assert page.input_value("#grid-from") == str(old)
    assert page.input_value("#grid-to") == str(new)
    rows = survey.rows
    assert page.inner_text("#grid-note").startswith(
        f"{int(((rows['before'] == old) & (rows['after'] == new)).sum())} of"
    )
    assert count >= 1


def test_a_hundred_thousand_rows_sort_and_filter_at_once(open_page, scan, survey, tmp_path):
    many, size, path = 100_000, len(survey.rows["target"]), tmp_path / "many.html"
    # The same columns, repeated: what is measured is the table, not the folder.
    order = np.random.default_rng(0).integers(0, size, many)
    longer = {key: values[order] for key, values in survey.rows.items()}
    names = [survey.names[i] for i in order.tolist()]
    fake = type(survey)(**{**vars(survey), "rows": longer, "names": names})
    blocks = scan_page._arrays([fake])
    index = {"title": "Many", "targets": [], "overview": True, "unit": "node", "values": False, "labels": False,
             "steps": [scan_page.describe_survey(fake, "many")], "causes": list(CAUSE_WORDS), "unusual": [],
             "served": False, "rows": many,
             "named": True}  # fmt: skip
    path.write_text(scan_page.fill_template("scan.html", ["grid", "classes", "scan"], index, blocks), encoding="utf-8")
    opened = open_page(path)
    opened.wait_for_selector("#grid tbody tr:nth-child(5)")
    assert opened.complaints == []
    seconds = opened.evaluate("""() => {
        const timed = (act) => {
            const start = performance.now();
            act();
            document.body.offsetHeight;
            return performance.now() - start;
        };
        const input = document.getElementById("grid-find");
        return {
            sort: timed(() => document.querySelector("#grid th[data-key=kl] button").click()),
            again: timed(() => document.querySelector("#grid th[data-key=kl] button").click()),
            filter: timed(() => { input.value = "person 12"; input.dispatchEvent(new Event("input")); }),
            scroll: timed(() => { document.getElementById("grid").scrollTop = 50000; }),
        };
    }""")
    assert max(seconds.values()) < 1000, seconds  # milliseconds, on a busy machine
    expected = sum("person 12" in name for name in names)
    assert opened.inner_text("#grid-note").startswith(f"{expected:,} of 100,000")
    opened.close()


def test_a_sequence_is_shown_step_by_step(open_page, tmp_path):
    graphs = [evolved(seed, 60)[0] for seed in range(3)]
    torch.manual_seed(0)
    model = GCN(3, 8, 2, 3).eval()
    scans = list(axiompath.scan_sequence(model, graphs, tmp_path / "week", workers=1, progress=False, budget=3))
    assert [len(found) for found in axiompath.read_scans(tmp_path / "week")] == [len(found) for found in scans]
    path = axiompath.save_report(tmp_path / "week.html", scans, step_names=["monday", "tuesday"])
    opened = open_page(path)
    opened.wait_for_selector("#grid tbody tr:nth-child(2)")
    assert opened.locator("#time .step").count() == 2
    assert "Over 2 steps" in opened.inner_text("#told")
    opened.locator("#time .step").nth(1).focus()
    opened.keyboard.press("Enter")
    assert opened.input_value("#step") == "1"
    assert set(grid_column(opened, 2)) == {"tuesday"}
    opened.locator("#grid tbody .link").first.click()
    assert "&step=1" in opened.url
    assert opened.complaints == []
    opened.close()


def test_the_command_writes_the_page_of_a_folder(call, scan, tmp_path):
    code, out, _ = call("report", scan.folder, "--out", tmp_path / "page.html")
    assert code == 0
    assert f"{len(scan):,} explanations" in out
    assert "What did it" in (tmp_path / "page.html").read_text()
    code, _, err = call("report", tmp_path, "--out", tmp_path / "other.html")
    assert code == 2
    assert "Expected the folder of a scan" in err


@pytest.mark.slow
def test_links_values_and_labels_have_their_page(open_page, tmp_path, explainer):
    from torch_geometric.nn import GAE

    before, after = evolved(1, 60)
    torch.manual_seed(0)
    asked = {
        "links": axiompath.Explainer(GAE(GCN(3, 8, 2, 4)).eval(), before, after, links=[(0, 3), (2, 5), (7, 9)]),
        "value": axiompath.Explainer(GCN(3, 8, 2, 2).eval(), before, after, output="value"),
        "labels": axiompath.Explainer(GCN(3, 8, 2, 4).eval(), before, after, output="labels"),
    }
    for name, one in asked.items():
        scan = one.scan(tmp_path / name, 3, min_kl=0, workers=1, progress=False)
        opened = open_page(scan.report(tmp_path / f"{name}.html"))
        opened.wait_for_selector("#grid tbody tr:nth-child(2)")
        opened.locator("#grid tbody .link").first.click()
        opened.wait_for_selector("#waterfall svg")
        assert opened.complaints == []
        if name == "value":
            assert not re.search(r"\bprobability\b", opened.inner_text("#overview"))
        opened.close()
    assert isinstance(scan.at(0), Explanation)
