"""What is certified holds for the numbers as given: changes of 1e-3 down to 1e-20 nats, logits up to 1e19.

The referee enumerates every choice with a hundred digits.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axiompath.metrics import kl_divergence
from axiompath.selection import select
from support.certificates import precise_best, precise_kl, precise_value
from support.effort import examples

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, max_examples=examples(60))
seeds = st.integers(0, 2**32 - 1)


def tiny_problem(rng, m, c, scale, logit_scale=1.0, cancelling=0.0):
    """Contributions of size `scale` that sum up to the change; with `cancelling`, pairs of large ones among them."""
    C = scale * rng.normal(size=(m, c)) * np.exp(rng.normal(size=(m, 1)))
    if cancelling and m > 1:
        large = cancelling * rng.normal(size=c)
        C[0] += large
        C[1] -= large
    z0 = logit_scale * rng.normal(size=c)
    return C, z0, z0 + C.sum(0)


def left(start, target):
    """What is said to be left by no choice at all."""
    return select(np.empty((0, len(start))), start, target, 0).kl_residual


@settings(relaxed, max_examples=examples(200))
@given(seeds, st.integers(2, 6), st.floats(-12, 4), st.floats(-1, 6))
def test_a_divergence_has_all_its_digits(seed, c, size, logit_size):
    rng = np.random.default_rng(seed)
    target = 10.0**logit_size * rng.normal(size=c)
    other = target + 10.0**size * rng.normal(size=c)
    expected = float(precise_kl(target, other))
    for found in (kl_divergence(target, other), left(other, target)):
        # Below 1e-280 a class's own probability may be a number too small to have all its digits.
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-280)


def test_divergences_of_huge_logits_are_finite_and_right():
    for target, other in (
        ([1e19, 0.0, -3e18], [0.0, 1e19, 5.0]),
        ([1e19, 1e19], [0.0, 1e3]),
        ([3e18, 1e19, 2e18], [1e19, 4e18, 9e18]),
        ([0.0, 800.0], [800.0, 0.0]),
    ):
        target, other = np.array(target), np.array(other)
        expected = float(precise_kl(target, other))
        assert float(kl_divergence(target, other)) == pytest.approx(expected, rel=1e-12)
        assert left(other, target) == pytest.approx(expected, rel=1e-12)


@settings(relaxed)
@given(
    seeds,
    st.integers(1, 8),
    st.integers(2, 5),
    st.floats(-9.5, -1.5),
    st.sampled_from([1.0, 30.0, 1e4]),
    st.sampled_from([0.0, 0.0, 1e-3, 3.0, 50.0]),
    st.sampled_from(["sufficiency", "necessity"]),
    st.booleans(),
)
def test_bounds_and_words_hold_for_changes_of_any_size(seed, m, c, size, logits, cancelling, objective, at_most):
    rng = np.random.default_rng(seed)
    C, z0, z1 = tiny_problem(rng, m, c, 10.0**size, logits, cancelling)
    n = int(rng.integers(0, m + 1))
    best = precise_best(C, z0, z1, n, objective, at_most)
    whole = precise_value(C, z0, z1, (), objective)
    noise = 1e-15 * (np.abs(z0).max() + np.abs(C).sum()) ** 2 * 1e-15 + 1e-300
    for method in ("convex", "exact") if at_most else ("convex", "exact", "linear", "topk", "deeplift"):
        answer = select(C, z0, z1, n, method, objective, at_most)
        left = precise_value(C, z0, z1, answer.chosen.tolist(), objective)
        assert 0 <= answer.kl_bound <= best * (1 + 1e-15) + 1e-320
        # Sums of contributions are rounded before anything is computed of them.
        grain = 1e-15 * (np.abs(z1 - z0).max() + np.abs(C).sum())
        assert abs(answer.kl_residual - left) <= 1e-9 * left + 10 * grain * (float(left) ** 0.5 + grain) + noise
        if answer.status.startswith("optimal: no choice"):
            assert left - best <= 2e-10 * max(whole, best) + 10 * grain * (float(left) ** 0.5 + grain)


@pytest.mark.parametrize("scale", [1e-4, 1e-6, 1e-8, 1e-9])
def test_exact_finds_the_best_of_tiny_changes(scale):
    rng = np.random.default_rng(3)
    for _ in range(12):
        C, z0, z1 = tiny_problem(rng, 8, 3, scale)
        answer = select(C, z0, z1, 4, "exact")
        assert answer.status.startswith("optimal: no choice")
        assert answer.kl_residual == pytest.approx(float(precise_best(C, z0, z1, 4)), rel=1e-6, abs=1e-10 * scale**2)


@settings(relaxed, max_examples=examples(30))
@given(seeds, st.integers(1, 7), st.integers(2, 4), st.floats(5, 19), st.booleans())
def test_huge_logits_give_finite_numbers_and_true_bounds(seed, m, c, size, at_most):
    rng = np.random.default_rng(seed)
    C, z0, z1 = tiny_problem(rng, m, c, 10.0**size, 10.0**size)
    n = int(rng.integers(0, m + 1))
    best = precise_best(C, z0, z1, n, at_most=at_most)
    whole = float(precise_value(C, z0, z1, ()))
    for method in ("convex", "exact"):
        answer = select(C, z0, z1, n, method, at_most=at_most)
        assert np.isfinite([answer.kl_residual, answer.kl_bound, answer.gap]).all()
        assert 0 <= answer.kl_bound <= best * (1 + 1e-15)
        if answer.status.startswith("optimal: no choice"):
            left = precise_value(C, z0, z1, answer.chosen.tolist())
            assert left - best <= 2e-10 * max(whole, float(best)) + 1e-14 * np.abs(C).sum()


def test_a_change_within_the_rounding_of_the_logits_is_called_so():
    z0 = 1e6 + np.array([0.3, -0.2, 0.1])
    z1 = z0.copy()
    z1[0] = np.nextafter(z0[0], np.inf)
    C = np.array([[1e-10, 0.0, 0.0], [0.0, 6e-11, 3e-11]])
    for method in ("convex", "exact", "linear"):
        assert select(C, z0, z1, 1, method).status.startswith("unresolved: ")
    small = z0 - 1e6
    assert select(C, small, small + C.sum(0), 1, "exact").status.startswith("optimal: ")
    # Nothing changed at all, and nothing is left: that much is known.
    assert select(np.zeros((2, 3)), z0, z0, 1).status.startswith("optimal: ")
