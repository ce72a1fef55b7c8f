import time

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axiompath.selection import select, select_budgets, select_many
from support.certificates import (
    brute_force,
    dual_value,
    duality_gap,
    infeasibility,
    kl,
    make_problem,
    num_fractional,
    same,
    softmax,
    value,
)
from support.effort import examples

METHODS = ("convex", "exact", "linear", "topk", "deeplift")


def degenerate_problems():
    """500 problems of m <= 60 with a budget each: ordinary, tied, empty, tiny, huge, flat."""
    rng = np.random.default_rng(7)
    for k in range(500):
        m, c = int(rng.integers(1, 61)), int(rng.integers(2, 9))
        n = int(rng.integers(0, m + 1))
        scale = float(rng.choice([1e-3, 0.3, 3.0, 30.0]))
        C, z0, z1 = make_problem(rng, m, c, scale, heavy=bool(k % 2))
        kind = k % 20
        if kind == 0:
            n = 0
        elif kind == 1:
            n = m
        elif kind == 2:
            n = m + int(rng.integers(1, 5))
        elif kind == 3:
            C = np.zeros_like(C)
        elif kind == 4:
            C = np.repeat(C[:1], m, axis=0)
        elif kind == 5:
            C = C[rng.integers(0, max(1, m // 3), size=m)]
        elif kind == 6:
            C = np.repeat(C[:, :1], c, axis=1)
        elif kind == 7:
            C, z0, z1 = C[:, :2], z0[:2], z1[:2]
        elif kind == 8:
            C = np.round(C * 4)
        elif kind == 9:
            C, z0, z1 = make_problem(rng, m, c, 1e3, z_scale=1e4)
        elif kind == 10:
            C, z0 = C * 1e4 / max(scale, 1e-9), 1e4 * z0
            z1 = z0 + C.sum(0)
        elif kind == 11:
            z1 = 1e4 * rng.normal(size=c)
        elif kind == 12:
            C[:, -1] = C[:, 0]
        elif kind == 13:
            z1 = rng.normal(size=c) * 5
        elif kind == 14:
            C[rng.random(m) < 0.5] = 0.0
        yield C, z0, z1, n


def clarabel_value(C, z0, z1, n, objective="sufficiency", at_most=False):
    """The relaxation's optimum by cvxpy and Clarabel, as a divergence; None where Clarabel gives up."""
    rows, s, t = (C, z0, z1) if objective == "sufficiency" else (-C, z1, z0)
    m = len(C)
    x = cvxpy.Variable(m)
    y = rows.T @ x
    total = cvxpy.sum(x)
    constraints = [x >= 0, x <= 1, total <= min(n, m) if at_most else total == min(n, m)]
    relaxation = cvxpy.Problem(cvxpy.Minimize(-softmax(t) @ y + cvxpy.log_sum_exp(s + y)), constraints)
    try:
        relaxation.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, max_iter=200)
    except cvxpy.SolverError:
        return None
    if relaxation.status != "optimal":
        return None
    point = np.clip(x.value, 0, 1)
    if abs(point.sum() - min(n, m)) > 1e-8 and not at_most:
        return None
    return value(C, z0, z1, point, objective)


@pytest.mark.system
def test_relaxation_is_never_worse_than_clarabel_on_500_problems():
    select(*make_problem(np.random.default_rng(0), 5, 3), 2)
    judged = 0
    start = time.process_time()
    for k, (C, z0, z1, n) in enumerate(degenerate_problems()):
        objective = "necessity" if k % 3 == 2 else "sufficiency"
        answer = select(C, z0, z1, n, "convex", objective)
        size = min(n, len(C))
        ours = value(C, z0, z1, answer.weights, objective)
        unit = max(1.0, ours)
        assert infeasibility(answer.weights, size) <= 1e-9, k
        assert num_fractional(answer.weights) <= C.shape[1] + 1, k
        assert len(answer.chosen) == len(set(answer.chosen.tolist())) == size, k
        # Judged without any solver: the relaxation's value and the bound enclose its optimum.
        assert ours - answer.kl_bound <= 2e-9 * unit, (k, ours, answer.kl_bound)
        assert answer.status.startswith("optimal"), (k, answer.status)
        theirs = clarabel_value(C, z0, z1, n, objective)
        if theirs is not None:
            judged += 1
            assert ours <= theirs + 1e-8 * unit, (k, ours, theirs)
            assert answer.kl_bound <= theirs + 1e-9 * unit, (k, answer.kl_bound, theirs)
    assert judged >= 350
    assert time.process_time() - start < 60


@pytest.mark.long
def test_at_most_is_never_worse_than_clarabel():
    for k, (C, z0, z1, n) in enumerate(degenerate_problems()):
        if k % 5 != 3 and k % 20 > 2:
            continue
        answer = select(C, z0, z1, n, at_most=True)
        ours = value(C, z0, z1, answer.weights)
        unit = max(1.0, ours)
        assert infeasibility(answer.weights, n, at_most=True) <= 1e-9
        assert num_fractional(answer.weights) <= C.shape[1] + 1
        assert len(answer.chosen) <= n
        assert ours - answer.kl_bound <= 2e-9 * unit, (k, ours, answer.kl_bound)
        theirs = clarabel_value(C, z0, z1, n, at_most=True)
        if theirs is not None:
            assert ours <= theirs + 1e-8 * unit, (k, ours, theirs)


@pytest.mark.parametrize("at_most", [False, True])
def test_bound_is_below_every_choice(at_most):
    rng = np.random.default_rng(3)
    for _ in range(150):
        m, c = int(rng.integers(1, 11)), int(rng.integers(2, 6))
        n = int(rng.integers(0, m + 1))
        C, z0, z1 = make_problem(rng, m, c, float(rng.choice([0.3, 3, 30])))
        objective = str(rng.choice(["sufficiency", "necessity"]))
        best = brute_force(C, z0, z1, n, objective, at_most)
        for method in ("convex", "exact") if at_most else METHODS:
            answer = select(C, z0, z1, n, method, objective, at_most)
            assert 0 <= answer.kl_bound <= best + 1e-12
            assert answer.kl_residual >= best - 1e-12
            assert answer.gap == pytest.approx(answer.kl_residual - answer.kl_bound, abs=1e-15)
            x = np.zeros(m)
            x[answer.chosen] = 1.0
            assert answer.kl_residual == pytest.approx(value(C, z0, z1, x, objective), rel=1e-9, abs=1e-12)


def test_gap_of_our_relaxation_by_the_primal_formula_alone():
    rng = np.random.default_rng(5)
    for m, c, n in ((30, 7, 5), (300, 7, 12), (2000, 4, 30), (50, 40, 8)):
        C, z0, z1 = make_problem(rng, m, c)
        x = select(C, z0, z1, n).weights
        assert duality_gap(C, z0, z1, n, x) <= 1e-4
        p = softmax(z0 + C.T @ x)
        assert dual_value(C, z0, z1, n, p) <= value(C, z0, z1, x) + 1e-12


def test_shortlisting_solves_large_problems_to_the_same_certificate():
    rng = np.random.default_rng(11)
    for m, n, scale in ((6000, 10, 0.3), (20_000, 25, 3.0), (20_000, 40, 100.0), (5000, 2000, 3.0)):
        C, z0, z1 = make_problem(rng, m, 7, scale)
        for at_most in (False, True) if n < 100 else (False,):
            answer = select(C, z0, z1, n, "convex", at_most=at_most)
            assert answer.status.startswith("optimal")
            assert value(C, z0, z1, answer.weights) - answer.kl_bound <= 1e-9
            assert infeasibility(answer.weights, n, at_most) <= 1e-9
            assert num_fractional(answer.weights) <= 8


def test_introduction_of_the_paper_one_path_beats_two():
    """-9, +10 and +1 change a logit by 2: of at most two paths, {+1} is the simplest and most accurate."""
    C = np.array([[-9.0, 0.0], [10.0, 0.0], [1.0, 0.0]])
    answer = select(C, [0.0, 0.0], [2.0, 0.0], 2, method="exact", at_most=True)
    assert answer.chosen.tolist() == [2]
    assert answer.kl_residual == pytest.approx(kl(np.array([2.0, 0.0]), np.array([1.0, 0.0])))
    exactly = select(C, [0.0, 0.0], [2.0, 0.0], 2, method="exact")
    assert sorted(exactly.chosen.tolist()) == [0, 1]
    assert select(C, [0.0, 0.0], [2.0, 0.0], 2, method="topk").chosen.tolist() == [1, 2]


@pytest.mark.parametrize("at_most", [False, True])
def test_exact_equals_brute_force(at_most):
    rng = np.random.default_rng(23)
    hits, cases = 0, 150
    for k in range(cases):
        m, c = int(rng.integers(1, 17 if k % 5 else 21)), int(rng.integers(2, 8))
        n = int(rng.integers(1, m + 1))
        C, z0, z1 = make_problem(rng, m, c, float(rng.choice([0.3, 3, 30, 1000])), heavy=bool(k % 2))
        answer = select(C, z0, z1, n, "exact", at_most=at_most)
        best = brute_force(C, z0, z1, n, at_most=at_most)
        assert answer.kl_residual <= select(C, z0, z1, n, "convex", at_most=at_most).kl_residual + 1e-12
        hits += answer.kl_residual <= best + 1e-11 * max(1.0, best)
    assert hits >= 0.99 * cases


def test_exact_is_never_worse_than_any_other_method():
    rng = np.random.default_rng(29)
    for _ in range(100):
        m, c, n = int(rng.integers(20, 200)), int(rng.integers(2, 11)), int(rng.integers(1, 15))
        C, z0, z1 = make_problem(rng, m, c, float(rng.choice([0.3, 3, 30, 3000])))
        objective = str(rng.choice(["sufficiency", "necessity"]))
        best = select(C, z0, z1, n, "exact", objective)
        assert best.kl_residual <= select(C, z0, z1, n, "convex", objective).kl_residual
        assert best.kl_bound <= best.kl_residual


def test_rankings_follow_their_formula_and_break_ties_by_index():
    rng = np.random.default_rng(31)
    C, z0, z1 = make_problem(rng, 50, 6)
    C = np.concatenate([C, C])
    z1 = z0 + C.sum(0)
    new, old = z1.argmax(), z0.argmax()
    p1, p0 = softmax(z1), softmax(z0)
    expected = {
        ("linear", "sufficiency"): C @ p1,
        ("linear", "necessity"): -C @ p0,
        ("topk", "sufficiency"): C.sum(1),
        ("deeplift", "sufficiency"): C[:, new] - C[:, old],
    }
    for (method, objective), score in expected.items():
        answer = select(C, z0, z1, 9, method, objective)
        chosen = np.lexsort((np.arange(100), np.round(-score, 12)))[:9]
        assert answer.chosen.tolist() == chosen.tolist()
        assert answer.weights.sum() == 9
        assert set(np.flatnonzero(answer.weights)) == set(chosen.tolist())


def test_ties_go_to_the_lower_index():
    C = np.ones((6, 1)) @ np.array([[0.5, -0.5]])
    for method in METHODS:
        assert sorted(select(C, [0.0, 1.0], [3.0, -2.0], 3, method).chosen.tolist()) == [0, 1, 2], method


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("objective", ["sufficiency", "necessity"])
def test_many_equals_one_by_one_bit_for_bit(method, objective):
    rng = np.random.default_rng(37)
    problems = [make_problem(rng, int(rng.integers(0, 60)), 5) for _ in range(40)]
    budgets = [int(rng.integers(0, 12)) for _ in problems]
    before = np.array([z0 for _, z0, _ in problems])
    after = np.array([z1 for _, _, z1 in problems])
    single = [select(C, z0, z1, n, method, objective) for (C, z0, z1), n in zip(problems, budgets, strict=True)]
    offsets = np.cumsum([0] + [len(C) for C, _, _ in problems])
    packed = np.concatenate([C for C, _, _ in problems])
    for workers in (1, 2, 5):
        listed = select_many([C for C, _, _ in problems], before, after, budgets, method, objective, workers=workers)
        stacked = select_many(packed, before, after, budgets, method, objective, offsets=offsets, workers=workers)
        assert all(map(same, single, listed))
        assert all(map(same, single, stacked))


@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("m", [40, 4000])
def test_budgets_warm_equal_cold(m, at_most):
    C, z0, z1 = make_problem(np.random.default_rng(41), m, 6)
    budgets = [3, 5, 0, 20, 7, 7, 60 if at_most else m, 1]  # at most n solves every size up to n
    for n, warm in zip(budgets, select_budgets(C, z0, z1, budgets, at_most=at_most), strict=True):
        cold = select(C, z0, z1, n, at_most=at_most)
        assert warm.budget == n
        assert value(C, z0, z1, warm.weights) == pytest.approx(value(C, z0, z1, cold.weights), abs=1e-9)
        assert infeasibility(warm.weights, n, at_most) <= 1e-9


def test_edges_no_paths_no_budget_and_no_change():
    for method in METHODS:
        none = select(np.empty((0, 3)), np.zeros(3), np.zeros(3), 4, method)
        assert none.chosen.shape == (0,)
        assert none.kl_residual == 0.0
        C, z0, z1 = make_problem(np.random.default_rng(2), 7, 3)
        assert select(C, z0, z1, 0, method).kl_residual == pytest.approx(kl(z1, z0))
        everything = select(C, z0, z1, 100, method)
        assert sorted(everything.chosen.tolist()) == list(range(7))
        assert everything.kl_residual == pytest.approx(0.0, abs=1e-14)
        assert everything.budget == 100
        assert select(np.zeros((4, 3)), z0, z0, 2, method).gap == pytest.approx(0.0, abs=1e-15)
    assert select(np.zeros((4, 3)), z0, z0, 2, "exact", at_most=True).chosen.size == 0
    assert select_many([], np.empty((0, 3)), np.empty((0, 3)), []) == []
    assert select_budgets(C, z0, z1, []) == []


def left(start, target, shift):
    """What is said to be left by a choice that moves the logits by `shift`."""
    return select([shift], start, target, 1, "linear").kl_residual


def test_divergence_is_accurate_when_tiny_and_when_huge():
    z = np.array([0.3, -1.2, 2.0])
    for size in (1e-3, 1e-6, 1e-9, 1e-12):
        d = size * np.array([1.0, -2.0, 0.5])
        q = softmax(z)
        second_order = 0.5 * (q @ d**2 - (q @ d) ** 2)
        assert left(z, z, d) == pytest.approx(second_order, rel=4 * size + 1e-12)
    assert left(np.array([1e4, 0.0]), np.array([0.0, 1e4]), np.zeros(2)) == pytest.approx(1e4)
    assert left(np.array([1e4, 0.0]), np.array([1e4, 5.0]), np.zeros(2)) == pytest.approx(0.0, abs=1e-300)
    assert left(np.array([1e4, 0.0]), np.array([0.0, 0.0]), np.zeros(2)) == pytest.approx(5e3 - np.log(2), rel=1e-14)
    assert left(np.array([0.0, 0.0]), np.array([1e4, 0.0]), np.zeros(2)) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.ones(3), np.ones(3), np.ones(3), 1), "expected contributions of shape"),
        ((np.ones((4, 3)), np.ones(2), np.ones(3), 1), "the columns of the contributions are the classes"),
        ((np.ones((4, 0)), np.ones(0), np.ones(0), 1), "c >= 1"),
        (
            (np.full((4, 3), np.nan), np.ones(3), np.ones(3), 1),
            "expected finite contributions below 1e100, got nan at",
        ),
        ((np.ones((4, 3)), np.array([0, np.inf, 0]), np.ones(3), 1), "expected finite logits_before"),
        ((np.ones((4, 3)), np.ones(3), np.ones(3), -1), "at least 0, got -1"),
        ((np.ones((4, 3)), np.ones(3), np.ones(3), 1.5), "expected a whole number as budget, got 1.5"),
        ((np.ones((4, 3)), np.ones(3), np.ones(3), True), "expected a whole number as budget"),
        (
            (np.ones((4, 3)), np.ones(3), np.ones(3), 1, "best"),
            "convex, exact, linear, topk, deeplift, got 'best'",
        ),
        ((np.ones((4, 3)), np.ones(3), np.ones(3), 1, "convex", "beauty"), "'sufficiency' or 'necessity'"),
        (
            (np.ones((4, 3)), np.ones(3), np.ones(3), 1, "topk", "sufficiency", True),
            "at_most=False with method",
        ),
        (("abc", np.ones(3), np.ones(3), 1), "array of numbers"),
        ((np.ones((4, 1)), np.zeros(1), np.ones(1), 1), "two classes or more, got one column; .*'binary'.*'value'"),
    ],
)
def test_errors_say_what_was_expected(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        select(*arguments)


def test_errors_of_many():
    C, z = np.ones((4, 3)), np.zeros((2, 3))
    with pytest.raises(ValueError, match="expected 2 arrays of contributions"):
        select_many([C], z, z, 1)
    with pytest.raises(ValueError, match="expected 2 budgets"):
        select_many([C, C], z, z, [1])
    with pytest.raises(ValueError, match="rising from 0"):
        select_many(C, z, z, 1, offsets=[0, 3, 2])
    with pytest.raises(ValueError, match="shape of logits_before"):
        select_many([C, C], z, z[:1], 1)
    with pytest.raises(ValueError, match="at least 1 worker"):
        select_many([C, C], z, z, 1, workers=0)


def test_large_finite_input_is_accepted_up_to_the_stated_limit():
    assert select(np.full((3, 2), 1e99), np.zeros(2), np.zeros(2), 1).kl_residual == 0.0
    with pytest.raises(ValueError, match="below 1e100, got 1e\\+300"):
        select(np.full((3, 2), 1e300), np.zeros(2), np.zeros(2), 1)


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 25), st.integers(2, 6), st.booleans())
def test_order_of_the_paths_does_not_matter(seed, m, c, at_most):
    rng = np.random.default_rng(seed)
    C, z0, z1 = make_problem(rng, m, c)
    n = int(rng.integers(0, m + 1))
    order = rng.permutation(m)
    first = select(C, z0, z1, n, at_most=at_most)
    second = select(C[order], z0, z1, n, at_most=at_most)
    assert value(C, z0, z1, first.weights) == pytest.approx(value(C[order], z0, z1, second.weights), abs=1e-9)
    assert first.kl_bound == pytest.approx(second.kl_bound, abs=1e-9)


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 25), st.integers(2, 6))
def test_more_paths_or_a_larger_budget_never_raise_the_at_most_bound(seed, m, c):
    rng = np.random.default_rng(seed)
    C, z0, z1 = make_problem(rng, m, c)
    n = int(rng.integers(0, m + 1))
    bound = select(C, z0, z1, n, at_most=True).kl_bound
    more = np.concatenate([C, rng.normal(size=(1, c))])
    assert select(more, z0, z1, n, at_most=True).kl_bound <= bound + 1e-9
    assert select(C, z0, z1, n + 1, at_most=True).kl_bound <= bound + 1e-9
    assert bound <= select(C, z0, z1, n).kl_bound + 1e-9


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 25), st.integers(2, 6), st.floats(-50, 50))
def test_a_constant_added_to_all_classes_changes_nothing(seed, m, c, shift):
    rng = np.random.default_rng(seed)
    C, z0, z1 = make_problem(rng, m, c)
    n = int(rng.integers(0, m + 1))
    moved = C + rng.normal(size=(m, 1))
    first, second = select(C, z0, z1, n), select(moved, z0 + shift, z1 - shift, n)
    assert first.kl_bound == pytest.approx(second.kl_bound, abs=1e-9)


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 25), st.integers(2, 6))
def test_necessity_is_sufficiency_backwards(seed, m, c):
    rng = np.random.default_rng(seed)
    C, z0, z1 = make_problem(rng, m, c)
    n = int(rng.integers(0, m + 1))
    for method in ("convex", "exact", "linear"):
        forth, back = select(C, z0, z1, n, method, "necessity"), select(-C, z1, z0, n, method)
        assert forth.chosen.tolist() == back.chosen.tolist()
        assert forth.kl_residual == back.kl_residual


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(0, 40), st.integers(2, 6), st.sampled_from(["convex", "exact"]), st.booleans(), st.booleans())
def test_at_most_n_is_never_worse_than_exactly_n_nor_than_at_most_fewer(seed, m, c, method, tiny, necessity):
    rng = np.random.default_rng(seed)
    C, z0, z1 = make_problem(rng, m, c, float(rng.choice([0.3, 3.0, 30.0])))
    if tiny:
        C, z1 = 1e-7 * C, z0 + 1e-7 * C.sum(0)
    objective = "necessity" if necessity else "sufficiency"
    fewer = np.inf
    for n in sorted({0, 1, 2, *rng.integers(0, m + 1, size=3).tolist(), m, m + 2}):
        exactly = select(C, z0, z1, n, method, objective)
        answer = select(C, z0, z1, n, method, objective, at_most=True)
        assert len(answer.chosen) <= n
        assert answer.kl_residual <= exactly.kl_residual
        assert answer.kl_residual <= fewer
        assert answer.kl_bound <= answer.kl_residual
        fewer = answer.kl_residual


@pytest.mark.parametrize("method", ["convex", "exact"])
def test_at_most_all_is_as_good_as_all(method):
    C, z0, z1 = make_problem(np.random.default_rng(4), 40, 4)
    everything = select(C, z0, z1, 40, method)
    assert everything.kl_residual < 1e-25
    assert select(C, z0, z1, 40, method, at_most=True).kl_residual <= everything.kl_residual


def test_at_most_is_the_best_of_exactly_as_many_and_the_fewest_among_equals():
    rng = np.random.default_rng(6)
    for method in ("convex", "exact"):
        for _ in range(10):
            C, z0, z1 = make_problem(rng, 25, 4)
            C = np.concatenate([C, np.zeros((3, 4))])  # paths that do nothing are not taken
            answer = select(C, z0, z1, 12, method, at_most=True)
            each = [select(C, z0, z1, n, method) for n in range(13)]
            values = [one.kl_residual for one in each]
            assert answer.kl_residual == min(values)
            assert len(answer.chosen) == int(np.argmin(values))
