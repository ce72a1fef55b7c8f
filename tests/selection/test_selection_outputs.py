"""Paths of labels and values: chosen, bounded and called optimal by the same rules as those of classes."""

import cvxpy
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axiompath.selection import select, select_budgets, select_many
from support.certificates import (
    all_values,
    apart_best,
    apart_value,
    infeasibility,
    make_problem,
    num_fractional,
    precise_apart,
    precise_apart_value,
    problem,
    same,
)
from support.effort import examples

METHODS = ("convex", "exact", "linear", "topk", "deeplift")
OBJECTIVES = ("sufficiency", "necessity")
thorough = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(["labels", "value"])


def some_scales(rng, output, c):
    return np.exp(rng.normal(size=c)) if output == "value" else np.ones(c)


def ask(output, scales, *arguments, **more):
    return select(*arguments, output=output, scales=scales if output == "value" else None, **more)


def clarabel_point(output, C, z0, z1, n, objective, at_most, scales):
    """The relaxation's minimiser by cvxpy and Clarabel; None where Clarabel gives up."""
    rows, s, t = problem(C, z0, z1, objective)
    x = cvxpy.Variable(len(C))
    v = s + rows.T @ x
    total = cvxpy.sum(x)
    limits = [x >= 0, x <= 1, total <= n if at_most else total == n]
    if output == "value":
        goal = cvxpy.sum_squares(cvxpy.multiply(v - t, 1 / scales)) / 2
    else:
        goal = cvxpy.sum(cvxpy.logistic(v)) - np.exp(-np.logaddexp(0, -t)) @ v
    relaxation = cvxpy.Problem(cvxpy.Minimize(goal), limits)
    try:
        relaxation.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, max_iter=200)
    except cvxpy.SolverError:
        return None
    point = np.clip(x.value, 0, 1) if relaxation.status == "optimal" else None
    return point if point is not None and infeasibility(point, n, at_most) <= 1e-8 else None


@pytest.mark.parametrize("output", ["labels", "value"])
def test_relaxation_is_never_worse_than_clarabel_on_200_problems(output):
    rng = np.random.default_rng(7)
    judged = 0
    for k in range(200):
        m, c = int(rng.integers(1, 61)), k % 8 + 1
        n = int(rng.integers(0, m + 1))
        C, z0, z1 = make_problem(rng, m, c, float(rng.choice([1e-2, 0.3, 3.0, 30.0])), heavy=bool(k % 2))
        if k % 20 == 3:
            C = C[rng.integers(0, max(1, m // 3), size=m)]
        elif k % 20 == 7:
            z1 = 5 * rng.normal(size=c)
        elif k % 20 == 11:
            C[rng.random(m) < 0.5] = 0.0
        objective, at_most, scales = OBJECTIVES[k // 2 % 2], k % 3 == 2, some_scales(rng, output, c)
        answer = ask(output, scales, C, z0, z1, n, "convex", objective, at_most)
        rule = {"objective": objective, "scales": scales}
        ours = apart_value(output, C, z0, z1, answer.weights, **rule)
        unit = max(1.0, ours, apart_value(output, C, z0, z1, np.zeros(m), **rule) if output == "value" else 0.0)
        assert infeasibility(answer.weights, n, at_most) <= 1e-9, k
        assert num_fractional(answer.weights) <= c + 1, k
        assert -1e-9 * unit <= ours - answer.kl_bound <= 2e-9 * unit, (k, ours, answer.kl_bound)
        assert answer.status.startswith("optimal"), (k, answer.status)
        point = clarabel_point(output, C, z0, z1, n, objective, at_most, scales)
        if point is not None:
            judged += 1
            theirs = apart_value(output, C, z0, z1, point, **rule)
            assert ours <= theirs + 1e-8 * unit, (k, ours, theirs)
            assert answer.kl_bound <= theirs + 1e-9 * unit, (k, answer.kl_bound, theirs)
    assert judged >= 150


@settings(thorough, max_examples=examples(200))
@given(kinds, seeds, st.integers(1, 14), st.integers(1, 6), st.sampled_from(OBJECTIVES), st.booleans())
def test_bounds_are_below_every_choice_and_optimal_is_the_best_of_all(output, seed, m, c, objective, at_most):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, m + 1))
    C, z0, z1 = make_problem(rng, m, c, float(rng.choice([0.3, 3, 30, 300])), z_scale=float(rng.choice([1, 5])))
    scales = some_scales(rng, output, c)
    rule = {"objective": objective, "scales": scales}
    best = apart_best(output, C, z0, z1, n, at_most=at_most, **rule)
    whole = apart_value(output, C, z0, z1, np.zeros(m), **rule)
    # What the sums of the reference itself are rounded to: logits may be thousands here.
    rounded = 4 * np.finfo(np.float64).eps * max(np.abs(z).max() for z in (C, z0, z1))
    grain = 1e-13 * max(1.0, whole) + rounded
    for method in ("convex", "exact") if at_most else METHODS:
        answer = ask(output, scales, C, z0, z1, n, method, objective, at_most)
        x = np.zeros(m)
        x[answer.chosen] = 1.0
        assert 0 <= answer.kl_bound <= best + grain
        assert answer.kl_residual >= best - grain
        assert answer.kl_residual == pytest.approx(apart_value(output, C, z0, z1, x, **rule), rel=1e-9, abs=grain)
        assert len(answer.chosen) <= n if at_most else len(answer.chosen) == n
        if answer.status.startswith("optimal: no choice"):
            assert answer.kl_residual <= best + 2e-10 * max(whole, best) + grain
        else:
            assert method != "exact", answer.status
        assert method == "exact" or answer.status.startswith("optimal" if method == "convex" else "ranked")


@pytest.mark.parametrize("output", ["classes", "labels", "value"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_exact_is_the_best_of_all_sets_at_every_scale_and_says_so(output, objective):
    rng = np.random.default_rng(5)
    judged = 0
    for _ in range(12):
        m, c, scale = int(rng.integers(2, 15)), int(rng.integers(1 + (output == "classes"), 5)), rng.uniform(-5, 2)
        C = rng.normal(size=(m, c)) * rng.exponential(size=(m, 1)) ** 2 * 10.0**scale
        z0 = rng.normal(size=c) * 10.0 ** rng.uniform(-1, 1.5)
        z1 = z0 + C.sum(axis=0)
        values, sizes = all_values(output, C, z0, z1, objective)
        for at_most in (False, True):
            for n, answer in enumerate(
                select_budgets(C, z0, z1, range(m + 1), "exact", objective, at_most, output=output)
            ):
                if answer.status.startswith("unresolved"):
                    continue
                judged += 1
                best = values[sizes <= n if at_most else sizes == n].min()
                unit = max(values[0] if output == "value" else min(1.0, values[0]), best)
                assert answer.status.startswith("optimal: no choice")
                assert answer.kl_residual <= best + 2e-10 * unit
                assert answer.kl_bound <= best + 1e-11 * unit
                # A proved bound allows for the rounding of what is added to a logit: its slope is at most sqrt(2 c D).
                rounding = 2e-15 * np.abs(C).sum() * np.sqrt(2.0 * c * float(best))
                assert 0 <= answer.gap <= 1.01e-10 * unit + rounding
    assert judged > 150


@pytest.mark.parametrize("output", ["labels", "value"])
def test_exact_proves_the_best_of_all_of_small_problems(output):
    rng = np.random.default_rng(23)
    for k in range(60):
        m, c = int(rng.integers(2, 17)), int(rng.integers(1, 8))
        n = int(rng.integers(1, m))
        C, z0, z1 = make_problem(rng, m, c, float(rng.choice([0.3, 3, 30])), heavy=bool(k % 2))
        answer = ask(output, None, C, z0, z1, n)
        best = apart_best(output, C, z0, z1, n)
        assert answer.status.startswith("optimal: no choice")
        assert answer.kl_residual == pytest.approx(
            best, rel=1e-9, abs=1e-10 * apart_value(output, C, z0, z1, np.zeros(m))
        )


@pytest.mark.parametrize("output", ["labels", "value"])
def test_large_problems_are_solved_from_shortlists(output):
    rng = np.random.default_rng(11)
    for m, n, scale in ((3000, 10, 0.3), (20_000, 25, 3.0), (20_000, 40, 100.0)):
        C, z0, z1 = make_problem(rng, m, 5, scale)
        for at_most in (False, True):
            answer = ask(output, None, C, z0, z1, n, "convex", at_most=at_most)
            assert answer.status.startswith("optimal")
            assert apart_value(output, C, z0, z1, answer.weights) - answer.kl_bound <= 1e-9 * max(1, scale**2)
            assert num_fractional(answer.weights) <= 6


def test_labels_of_thousands_are_solved():
    rng = np.random.default_rng(1)
    for k in range(150):
        m, c = int(rng.integers(2, 40)), int(rng.integers(1, 9))
        C, z0, z1 = make_problem(rng, m, c, 1000.0, heavy=bool(k % 2), z_scale=float(rng.choice([1, 30, 300])))
        answer = ask("labels", None, C, z0, z1, int(rng.integers(1, m)), "convex", at_most=k % 3 == 0)
        assert answer.status.startswith("optimal"), (k, answer.status)


@settings(thorough, max_examples=examples(100))
@given(
    kinds, seeds, st.integers(1, 6), st.integers(1, 4), st.floats(-8, 2.5), st.sampled_from([1.0, 30.0, 300.0]),
    st.sampled_from(OBJECTIVES), st.booleans(),
)  # fmt: skip
def test_tiny_changes_and_huge_logits_are_certified_for_the_numbers_as_given(
    output, seed, m, c, size, logits, objective, at_most
):
    rng = np.random.default_rng(seed)
    C = 10.0**size * rng.normal(size=(m, c)) * np.exp(rng.normal(size=(m, 1)))
    z0 = np.clip(logits * rng.normal(size=c), -700, 700) + (1e6 if output == "value" and seed % 2 else 0.0)
    z1 = z0 + C.sum(0)
    n = int(rng.integers(0, m + 1))
    scales = some_scales(rng, output, c)

    def left_by(members):
        return precise_apart_value(output, C, z0, z1, members, objective, scales)

    masks = [[i for i in range(m) if k >> i & 1] for k in range(2**m)]
    best = min(left_by(s) for s in masks if (len(s) <= n if at_most else len(s) == n))
    whole = left_by([])
    reach = 1e-15 * (np.abs((z1 - z0) / scales).max() + np.abs(C / scales).sum())
    for method in ("convex", "exact") if at_most else METHODS:
        answer = ask(output, scales, C, z0, z1, n, method, objective, at_most)
        left = left_by(answer.chosen.tolist())
        rounded = 10 * reach * (float(left) ** 0.5 + reach)
        assert 0 <= answer.kl_bound <= best * (1 + 1e-15) + 1e-320
        assert abs(answer.kl_residual - left) <= 1e-9 * left + rounded
        if answer.status.startswith("optimal: no choice"):
            assert left - best <= 2e-10 * max(whole, best) + rounded


@settings(thorough, max_examples=examples(200))
@given(seeds, st.integers(1, 4), st.floats(-12, 3), st.floats(-1, 2.8), kinds)
def test_a_divergence_has_all_its_digits(seed, c, size, logit_size, output):
    rng = np.random.default_rng(seed)
    target = np.clip(10.0**logit_size * rng.normal(size=c), -700, 700) + (1e6 if output == "value" else 0.0)
    other = target + 10.0**size * rng.normal(size=c)
    scales = some_scales(rng, output, c)
    expected = float(precise_apart(output, target, other, scales))
    left = ask(output, scales, np.empty((0, c)), other, target, 0).kl_residual
    assert left == pytest.approx(expected, rel=1e-11, abs=1e-300)


@settings(thorough, max_examples=examples(60))
@given(seeds, st.integers(1, 18), st.sampled_from(OBJECTIVES), st.booleans(), st.sampled_from([1e-6, 0.3, 3.0, 30.0]))
def test_two_classes_are_one_logit_of_their_difference(seed, m, objective, at_most, scale):
    rng = np.random.default_rng(seed)
    C, z0, _ = make_problem(rng, m, 2, scale)
    # Multiples of 2^-44, so that differences of the two columns are exact.
    C, z0 = (np.round(array * 2.0**44) / 2.0**44 for array in (C, z0))
    z1 = z0 + C.sum(0)
    n = int(rng.integers(0, m + 1))
    alone = [array[..., 1:] - array[..., :1] for array in (C, z0, z1)]
    two = select(C, z0, z1, n, "exact", objective, at_most)
    one = select(*alone, n, "exact", objective, at_most, "binary")
    whole = select(C, z0, z1, 0, "exact", objective).kl_residual
    rounding = 1e-15 * np.abs(C).sum() * (two.kl_residual**0.5 + 1e-15 * np.abs(C).sum())
    same_choice = select(C[one.chosen], z0, z1, len(one.chosen), "topk", objective)
    assert one.kl_residual == pytest.approx(same_choice.kl_residual, rel=1e-12, abs=10 * rounding)
    if one.status == two.status and one.status.startswith("optimal"):
        assert one.kl_residual == pytest.approx(two.kl_residual, rel=1e-12, abs=2e-10 * max(whole, two.kl_residual))
    assert one.kl_bound == pytest.approx(two.kl_bound, abs=2e-10 * max(whole, two.kl_residual))
    if not at_most:
        deeplift = [
            select(*given, n, "deeplift", output=kind) for given, kind in (((C, z0, z1), "classes"), (alone, "binary"))
        ]
        assert deeplift[0].chosen.tolist() == deeplift[1].chosen.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_units_of_values_change_nothing_but_the_numbers_given(method):
    rng = np.random.default_rng(5)
    for _ in range(30):
        m, c = int(rng.integers(1, 60)), int(rng.integers(1, 6))
        C, z0, z1 = make_problem(rng, m, c)
        n, scales = int(rng.integers(0, m + 1)), np.exp(rng.normal(size=c))
        plain = select(C, z0, z1, n, method, output="value", scales=scales)
        units = 2.0 ** rng.integers(-30, 30, size=c)
        other = select(C * units, z0 * units, z1 * units, n, method, output="value", scales=scales * units)
        assert same(plain, other) or method == "topk"  # which sums up columns as they are
        larger = select(C * 2.0**20, z0 * 2.0**20, z1 * 2.0**20, n, method, output="value", scales=scales)
        assert larger.chosen.tolist() == plain.chosen.tolist()
        assert larger.kl_residual == 2.0**40 * plain.kl_residual
        assert larger.kl_bound == 2.0**40 * plain.kl_bound
        assert larger.status == plain.status


def test_rankings_follow_their_formula():
    rng = np.random.default_rng(31)
    C, z0, z1 = make_problem(rng, 80, 6, 30.0)
    scales = np.exp(rng.normal(size=6))
    yes = 1 / (1 + np.exp(-z1))
    flip = (z1 > 0).astype(float) - (z0 > 0)
    assert np.abs(flip).sum() >= 2
    expected = {
        ("labels", "linear", "sufficiency"): C @ yes,
        ("labels", "linear", "necessity"): -C @ (1 / (1 + np.exp(-z0))),
        ("labels", "topk", "sufficiency"): C.sum(1),
        ("labels", "deeplift", "sufficiency"): C @ flip,
        ("value", "linear", "sufficiency"): C @ (z1 / scales**2),
        ("value", "linear", "necessity"): -C @ (z0 / scales**2),
        ("value", "topk", "necessity"): C.sum(1),
        ("value", "deeplift", "necessity"): (C / scales) @ ((z1 - z0) / scales),
    }
    for (output, method, objective), score in expected.items():
        answer = ask(output, scales, C, z0, z1, 9, method, objective)
        assert answer.chosen.tolist() == np.argsort(-score, kind="stable")[:9].tolist(), (output, method)
        assert answer.status.startswith("ranked")


@pytest.mark.parametrize("output", ["binary", "labels", "value"])
@pytest.mark.parametrize("method", METHODS)
def test_many_and_several_budgets_equal_one_by_one(output, method):
    rng = np.random.default_rng(37)
    c = 1 if output == "binary" else 4
    scales = some_scales(rng, output, c) if output == "value" else None
    problems = [make_problem(rng, int(rng.integers(0, 60)), c) for _ in range(20)]
    budgets = [int(rng.integers(0, 12)) for _ in problems]
    rule = {"method": method, "output": output, "scales": scales}
    before, after = (np.array([p[k] for p in problems]) for k in (1, 2))
    single = [select(*p, n, **rule) for p, n in zip(problems, budgets, strict=True)]
    assert all(map(same, single, select_many([p[0] for p in problems], before, after, budgets, **rule, workers=2)))
    C, z0, z1 = make_problem(rng, 300, c)
    for n, warm in zip((3, 20, 0, 7), select_budgets(C, z0, z1, [3, 20, 0, 7], **rule), strict=True):
        cold = select(C, z0, z1, n, **rule)
        assert warm.kl_bound == pytest.approx(cold.kl_bound, abs=1e-8)


def test_binary_is_labels_of_one_column():
    C, z0, z1 = make_problem(np.random.default_rng(3), 30, 1)
    for method in METHODS:
        assert same(select(C, z0, z1, 6, method, output="binary"), select(C, z0, z1, 6, method, output="labels"))


def test_a_value_that_moved_within_its_rounding_is_called_so():
    z0 = np.array([1e6, 0.3])
    z1 = np.array([np.nextafter(1e6, np.inf), 0.3])
    C = np.array([[6e-11, 0.0], [5.6e-11, 0.0]])
    for method in ("convex", "exact", "linear"):
        assert select(C, z0, z1, 1, method, output="value").status.startswith("unresolved: ")
    moved = select(np.array([[6e-4, 0.0], [4e-4, 0.0]]), z0, z0 + np.array([1e-3, 0.0]), 1, output="value")
    assert moved.status.startswith("optimal: ")
    assert moved.kl_residual == pytest.approx(8e-8, rel=1e-5)  # 1e6 + 1e-3 is rounded, by 1e-7 of the change


@pytest.mark.parametrize(
    ("columns", "more", "words"),
    [
        (1, {}, "two classes or more, got one column; .*'binary'.*'value'"),
        (2, {"output": "binary"}, "one column for output 'binary', got 2; .*'labels'"),
        (2, {"output": "colours"}, "output among classes, binary, labels, value, got 'colours'"),
        (2, {"output": "labels", "scales": [1.0, 1.0]}, "no scales for output 'labels'"),
        (2, {"output": "value", "scales": [1.0]}, "2 scales above 0, one per column"),
        (2, {"output": "value", "scales": [1.0, 0.0]}, "2 scales above 0, one per column"),
        (2, {"output": "value", "scales": [1.0, np.nan]}, "2 scales above 0, one per column"),
        (2, {"output": "value", "scales": "wide"}, "array of numbers"),
    ],
)
def test_errors_say_what_was_expected(columns, more, words):
    C, z = np.ones((3, columns)), np.zeros(columns)
    with pytest.raises((ValueError, TypeError), match=words):
        select(C, z, z, 1, **more)
    with pytest.raises((ValueError, TypeError), match=words):
        select_many([C], z[None], z[None], 1, **more)
    with pytest.raises((ValueError, TypeError), match=words):
        select_budgets(C, z, z, [1, 2], **more)
