"""The benchmark of explanations of change: rankings, places in the table, submissions, rivals, stability."""

import contextlib
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from axiompath import Explainer
from axiompath.errors import InputError
from research.datasets.planted import plant
from research.experiments.contenders import (
    OUR_METHODS,
    SIMPLE_RIVALS,
    PlacesOfChanges,
    both_ends,
    by_blame,
    by_edges,
    direction_of,
)
from research.experiments.league import LeagueSettings, describe_places, run_league, summarise_league
from research.experiments.league_page import write_page
from research.experiments.levels import (
    EDGE_SIZES,
    LAYER_EDGE_SIZES,
    LEVEL_METHODS,
    LevelSettings,
    run_levels,
    sizes_of,
    summarise_levels,
)
from research.experiments.puzzles import NUM_RANDOM, Puzzle, open_puzzles
from research.experiments.pyg_rivals import pyg_contenders
from research.experiments.ranked import MOST_LEFT, judge, judge_failure, order_of
from research.experiments.slices import Figure, read_figure
from research.experiments.stability import (
    StabilitySettings,
    compare_rankings,
    run_stability,
    summarise_stability,
    toggle_unrelated,
)
from research.experiments.submission import make_contender, read_scores

PERFECT = """
from research.datasets.planted import plant

def explain(model, before, after, target, changes, seed):
    return plant("hub", seed, num_random={random}).cause.rows_of(changes).astype(float)
"""
BROKEN = """
def explain(model, before, after, target):
    return [float("nan")]
"""


@pytest.fixture(scope="module")
def hubs():
    return open_puzzles("hub", 3)


def test_a_perfect_oracle_is_first_and_random_last(tmp_path, call, monkeypatch):
    """By the command, on planted graphs; a method that fails has its sentence, its count, and comes after random."""
    monkeypatch.delenv("AXIOMPATH_DATA", raising=False)
    (tmp_path / "perfect.py").write_text(PERFECT.format(random=NUM_RANDOM["hub"]))
    (tmp_path / "broken.py").write_text(BROKEN)
    files = tmp_path / "perfect.py", tmp_path / "broken.py"
    code, out, _ = call("benchmark", *files, "--datasets", "hub", "--puzzles", "4", "--json")
    assert code == 0
    rows = {row["method"]: row for row in json.loads(out)}
    assert rows["perfect"]["place"] == 1
    assert rows["perfect"]["found"] == 1.0
    assert rows["perfect"]["failed"] == 0
    assert rows["random"]["found"] < 0.6
    assert rows["broken"]["place"] >= rows["random"]["place"] >= len(rows) - 1
    assert rows["broken"]["failed"] == 4
    code, out, error = call("benchmark", files[1], "--datasets", "hub", "--puzzles", "1")
    assert code == 0, error
    assert "broken is number" in out
    assert "failed in 1 of 1" in out
    assert "Expected finite scores" in out
    assert "Only planted causes" in out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", "function `explain"),
        ("raise KeyError('a')", "your own code failed: KeyError"),
        (None, "which is none"),
    ],
)
def test_a_file_that_is_no_method_is_refused(tmp_path, call, text, sentence):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    code, _, error = call("benchmark", tmp_path / "mine.py", "--datasets", "hub")
    assert code == 2
    assert sentence in " ".join(error.split())


DEEP = """
import pandas as pd

def explain(model, before, after, target, changes):
    return changes["no such column"]
"""


def test_an_error_in_a_method_is_located_in_its_file(tmp_path, call):
    """In the line of the user's that called a library, not in the library."""
    (tmp_path / "mine.py").write_text(DEEP)
    code, out, error = call("benchmark", tmp_path / "mine.py", "--datasets", "hub", "--puzzles", "1")
    assert code == 0, error
    assert "KeyError: 'no such column' (mine.py, line 5)" in " ".join(out.split())
    (tmp_path / "mine.py").write_text("import json\n\njson.loads('{')\n")
    code, _, error = call("benchmark", tmp_path / "mine.py", "--datasets", "hub")
    assert code == 2
    assert "(mine.py, line 3)" in " ".join(error.split())


def test_what_a_method_may_return(hubs):
    changes = hubs[0].evaluator.players.changes
    plain = np.arange(len(changes), dtype=float)
    assert (read_scores(plain, changes) == plain).all()
    assert (read_scores(torch.from_numpy(plain), changes) == plain).all()
    some = read_scores({2: 0.5, 1: -3}, changes)
    assert some[2] == 0.5
    assert some[1] == -3
    assert (np.delete(some, [1, 2]) < -3).all()
    ranked = read_scores(pd.DataFrame({"id": [4, 0]}), changes)
    assert ranked.argmax() == 4
    assert ranked[0] > np.delete(ranked, [0, 4]).max()
    assert read_scores(pd.DataFrame({"id": [4, 0], "score": [1, 9]}), changes).argmax() == 0
    for wrong, words in (
        (plain[:-1], "one score for each"),
        ("yes", "numbers"),
        ({10**6: 1.0}, "ids of the"),
        (plain * np.nan, "finite"),
        (pd.DataFrame({"a": [1]}), "column `id`"),
        (None, "one score for each"),
        (plain * 1j, "numbers"),
        ([10**400] * len(plain), "numbers"),
    ):
        with pytest.raises(InputError, match=words):
            read_scores(wrong, changes)
    assert (read_scores(torch.from_numpy(plain).bfloat16().to_sparse(), changes) == plain).all()
    for odd in (pd.DataFrame({"id": [[1]], "score": [1.0]}), torch.ones(3, device="meta")):
        with pytest.raises(InputError, match=r"Expected scores \(got a "):
            make_contender(lambda *_, odd=odd: odd, 5.0)(hubs[0], 0)


def test_a_method_that_catches_everything_is_out_of_time_too(hubs):
    def stubborn(model, before, after, target):
        with contextlib.suppress(BaseException):
            time.sleep(20)
        time.sleep(20)

    began = time.monotonic()
    with pytest.raises(InputError, match=r"within 0\.05 seconds"):
        make_contender(stubborn, 0.05)(hubs[0], 0)
    assert time.monotonic() - began < 10


def test_a_method_gets_copies_its_seed_and_its_time(hubs):
    puzzle = hubs[0]
    held = puzzle.after.x.clone()
    weights = [value.clone() for value in puzzle.model.parameters()]

    def spoil(model, before, after, target, changes, seed, arguments):
        after.x.zero_()
        with torch.no_grad():
            for value in model.parameters():
                value.zero_()
        assert target == puzzle.target
        assert arguments == [{}, {}]
        changes["id"] = 0
        return np.full(len(changes), float(seed))

    assert (make_contender(spoil, 5.0)(puzzle, 7) == 7).all()
    assert torch.equal(puzzle.after.x, held)
    assert all(torch.equal(a, b) for a, b in zip(weights, puzzle.model.parameters(), strict=True))
    assert puzzle.evaluator.players.changes.id.is_unique

    def sleep(model, before, after, target):
        while True:
            pass

    with pytest.raises(InputError, match=r"within 0\.2 seconds"):
        make_contender(sleep, 0.2)(puzzle, 0)
    with pytest.raises(InputError, match="the method failed: ZeroDivisionError"):
        make_contender(lambda model, before, after, target: 1 / 0, 1.0)(puzzle, 0)


def test_a_ranking_is_judged_by_what_if(hubs):
    """The judge's numbers are those that `what_if` gives for the same changes."""
    puzzle = hubs[0]
    scores = SIMPLE_RIVALS["random"](puzzle, 3)
    found, evaluator = judge(puzzle, scores), puzzle.evaluator
    order = evaluator.rows[order_of(puzzle, scores)]
    before, after = both_ends(evaluator)
    divergence = evaluator.output.divergence
    for size in (1, 2):
        applied = puzzle.explainer.what_if(puzzle.target, apply=order[:size].tolist())
        undone = puzzle.explainer.what_if(puzzle.target, undo=order[:size].tolist())
        left = divergence(after, applied) / divergence(after, before)
        assert abs(found[f"applied_{size}"] - min(left, MOST_LEFT)) < 1e-9
        left = divergence(before, undone) / divergence(before, after)
        assert abs(found[f"undone_{size}"] - min(left, MOST_LEFT)) < 1e-9
    restored = puzzle.explainer.what_if(puzzle.target, undo=order[: found["restore"]].tolist())
    assert evaluator.output.decide(restored) == evaluator.output.decide(before)
    assert judge_failure(puzzle)["found"] == 0.0


def test_equal_scores_are_ranked_at_random(hubs):
    for puzzle in hubs:
        order = order_of(puzzle, np.zeros(len(puzzle.evaluator.players)))
        assert sorted(order.tolist()) == list(range(puzzle.evaluator.num_changes))
    orders = {tuple(order_of(puzzle, np.zeros(10**4))[:3].tolist()) for puzzle in open_hubs(hubs)}
    assert len(orders) > 1


def open_hubs(hubs):
    first = hubs[0]
    fields = first.explainer, first.model, first.before, first.after, first.target
    return [Puzzle("hub", number, *fields, truth=first.truth) for number in range(5)]


def test_shares_sum_to_both_divergences(hubs):
    """Of blame exactly; of edges all but what is merely reweighted, which is no change."""
    puzzle = hubs[0]
    before, after = both_ends(puzzle.evaluator)
    whole = (after - before) @ direction_of(puzzle.evaluator)
    assert abs(by_blame(puzzle, 0).sum() - whole) < 1e-9 * abs(whole)
    divergence = puzzle.evaluator.output.divergence
    assert abs(divergence(after, before) + divergence(before, after) - whole) < 1e-9 * abs(whole)
    assert by_edges(puzzle, 0).sum() > 0.3 * whole


def test_edges_find_their_changes():
    changes = pd.DataFrame(
        {
            "kind": ["node added", "features changed", "edge added", "edge removed"],
            "src": [9, 4, 1, 3],
            "dst": pd.array([None, None, 2, 5], dtype="Int64"),
            "directed": [True, True, False, True],
        }
    )
    places = PlacesOfChanges(changes)
    src = np.array([1, 2, 3, 5, 9, 7, 4, 9, 4, 100, -1])
    dst = np.array([2, 1, 5, 3, 4, 9, -1, -1, 3, 1, 2])
    assert places.find(src, dst).tolist() == [2, 2, 3, -1, 0, 0, 1, 0, -1, -1, -1]
    assert places.add(src, dst, np.ones(len(src))).tolist() == [3.0, 1.0, 2.0, 1.0]


def test_every_contender_ranks_or_says_why(hubs):
    """Explainers of torch_geometric among them; the ones that see the model find a hub, chance does not."""
    every = {
        **OUR_METHODS,
        **SIMPLE_RIVALS,
        **{name: one for name, one in pyg_contenders().items() if "GNN" not in name},
    }
    table = run_league(every, LeagueSettings(("hub",), 1))
    failed = {name for name, own in table.groupby("method") if own.failed.any()}
    assert failed <= {name for name in every if "Attention" in name or "Integrated" in name or "Saliency" in name}
    assert all(table.reason[table.failed].str.contains("AttentionExplainer|captum|cannot be run"))
    summary = summarise_league(table)
    assert {*summary.method} == {*every}
    found = summary.set_index("method").found
    assert (found[[*OUR_METHODS, "oracle", "leave one out"]] == 1.0).all()
    assert describe_places(summary, "blame")[0].startswith("blame is number")


def test_unrelated_edges_leave_the_changes_alone():
    planted = plant("hub", 0, num_random=10)
    # Of nodes that both graphs have: those of the new one come with it.
    old = planted.before.num_nodes
    after = planted.after.subgraph(torch.arange(old))
    before, other = toggle_unrelated(planted.before, after, np.random.default_rng(0))
    first = Explainer(planted.model, planted.before, after).changes()
    again = Explainer(planted.model, before, other).changes()
    columns = ["kind", "src", "dst"]
    pd.testing.assert_frame_equal(first[columns], again[columns])
    same, toggled = ({*map(tuple, data.edge_index.T.tolist())} for data in (planted.before, before))
    assert 0 < len(same ^ toggled) <= 0.03 * len(same)


def test_correlations_of_rankings(hubs):
    puzzle = next(one for one in hubs if one.evaluator.num_changes >= 3)
    scores = SIMPLE_RIVALS["random"](puzzle, 0)
    assert compare_rankings((puzzle, scores), (puzzle, 2 * scores + 1))["kendall"] == pytest.approx(1.0)
    assert compare_rankings((puzzle, scores), (puzzle, -scores))["spearman"] == pytest.approx(-1.0)
    flat = compare_rankings((puzzle, scores), (puzzle, 0 * scores))
    assert flat["spearman"] == 0.0
    frame = pd.DataFrame([{"setting": "hub", "shake": "seed", "method": "random", **flat}] * 2)
    assert summarise_stability(frame).spearman.tolist() == [0.0]


def test_answers_of_a_real_graph_hold_when_unrelated_edges_change(data_root):
    contenders = {name: SIMPLE_RIVALS[name] for name in ("leave one out", "random")}
    table = run_stability(StabilitySettings(("bitcoinalpha",), 2), contenders, root=data_root)
    assert {*table["shake"]} == {"seed", "edges"}  # the authors' weights are given, not trained
    means = summarise_stability(table).set_index(["shake", "method"]).spearman
    assert means["seed", "leave one out"] == pytest.approx(1.0)
    assert means["edges", "leave one out"] > 0.5
    assert abs(means["seed", "random"]) < 0.5


def test_levels_are_the_authors_sizes(data_root, tmp_path):
    assert sizes_of("bitcoinotc", LAYER_EDGE_SIZES, 401) == (24, 28, 32, 36, 40)
    assert sizes_of("uci", LAYER_EDGE_SIZES, 10**6) == (4, 8, 12, 16, 20)
    assert sizes_of("bitcoinalpha", EDGE_SIZES, 100) == (1, 2, 3, 4, 5)
    table = run_levels(LevelSettings(("mutag",), 2, 0.2), tmp_path, root=data_root)
    assert {*table.method} == {*LEVEL_METHODS}
    left = table.pivot(index=["target", "level"], columns="method", values="left")
    assert (left.enough <= left["real edges"] + 1e-12).all()  # of all sets of so many, theirs is one
    assert (left.enough <= left.blame + 1e-12).all()
    last = table[(table.level == 5) & (table.method == "blame")]
    assert (last.left < 1e-9 * last.kl).all()  # all four changes
    assert (summarise_levels(table).nothing > 0).all()
    with pytest.raises(InputError, match="settings among uci"):
        LevelSettings(("cora",))


def test_figures_are_read_off_a_page():
    page = """# Title
| a | b |
|---|---:|
| x | 1,234 |
## One
| set | n | left |
|---|---:|---:|
| `u` | 2 | **0.5** ± 0.1 |
| u | 3 | 1.5e-14 |
"""
    assert read_figure(page, Figure("", "", ("x",), "b", 0)) == 1234
    assert read_figure(page, Figure("", "One", ("u", "2"), "left", 0)) == 0.5
    assert read_figure(page, Figure("", "One", ("u", "3"), "left", 0)) == 1.5e-14
    for row, column in ((("u", "4"), "left"), (("u", "3"), "right")):
        with pytest.raises(InputError, match="a number in column"):
            read_figure(page, Figure("", "One", row, column, 0))


def test_the_page_tells_every_loss():
    # Two puzzles, three ways to rank; the rival leaves less than blame, by 0.1 and 0.3, at every size but the last.
    left = {"blame": (0.4, 0.6), "oracle": (0.1, 0.1), "Saliency, after": (0.3, 0.3), "PGExplainer, after": (1.0, 1.0)}
    rows = []
    for method, shares in left.items():
        for puzzle, share in enumerate(shares):
            sizes = {f"{way}_{n}": share for way in ("applied", "undone") for n in (1, 2, 3, 5)}
            last = {f"{way}_10": 0.0 for way in ("applied", "undone")}
            record = {"in_sight": 12, "restore": None, "first": None, "found": None, "seconds": 0.1, "left": share}
            record |= {"setting": "mutag", "part": "real", "method": method, "puzzle": puzzle}
            rows.append({**record, **sizes, **last})
    table = pd.DataFrame(rows).assign(failed=lambda t: t.method == "PGExplainer, after")
    page = write_page(table)
    assert "2 puzzles, 12 to 12 changes in sight (median 12), 0 flips." in page
    assert "PGExplainer" not in page  # it never ranked anything
    assert read_figure("# page\n" + page, Figure("", "mutag", ("blame",), "left", 0)) == 0.5
    assert "| mutag | Saliency, after | 0.500 | 0.300 | 0.200 ± 0.100 |" in page
    assert "| mutag | undone 5 | blame 0.500 | Saliency, after 0.300 | 0.200 ± 0.100 |" in page
    assert "| mutag | applied 1 | blame 0.500 | oracle 0.100 | 0.400 ± 0.100 |" in page
    assert "applied 10 |" not in page.split("### mutag")[1].split("\n\n", 2)[2]  # no loss where nothing is left


@pytest.mark.slow
def test_a_slice_of_every_table_is_what_the_pages_say(data_root, tmp_path, call):
    """`make results-quick`."""
    docs = Path(__file__).parent.parent / "docs"
    code, out, error = call("reproduce", "quick", "--docs", docs, "--out", tmp_path)
    assert code == 0, out + error
