"""What columns mean: divergences to all their digits against a hundred-digit twin, and what is told of a change."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axiompath.metrics import kl_divergence, kl_of_logits
from axiompath.outputs import Output, scales_of, show_apart
from support.certificates import precise_apart
from support.effort import examples
from support.references import slopes_by_small_steps

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(200))
seeds = st.integers(0, 2**32 - 1)


@relaxed
@given(seeds, st.integers(1, 5), st.floats(-12, 3), st.floats(-1, 2.8))
def test_a_divergence_of_logits_has_all_its_digits(seed, c, size, logit_size):
    rng = np.random.default_rng(seed)
    p = np.clip(10.0**logit_size * rng.normal(size=c), -700, 700)
    q = p + 10.0**size * rng.normal(size=c)
    expected = [float(precise_apart("labels", [a], [b], [1.0])) for a, b in zip(p, q, strict=True)]
    np.testing.assert_allclose(kl_of_logits(p, q), expected, rtol=1e-9, atol=1e-300)
    for kind in ("labels", "binary"):
        assert Output(kind).divergence(p, q) == pytest.approx(sum(expected), rel=1e-9, abs=1e-300)


@relaxed
@given(seeds, st.integers(1, 5), st.floats(-6, 3))
def test_a_divergence_of_values_has_all_its_digits(seed, c, size):
    rng = np.random.default_rng(seed)
    p = 1e6 + rng.normal(size=c)
    q = p + 10.0**size * rng.normal(size=c)
    scales = np.exp(rng.normal(size=c))
    found = Output("value", scales).divergence(p, q)
    assert found == pytest.approx(float(precise_apart("value", p, q, scales)), rel=1e-13)


def test_divergences_of_certain_logits_are_finite_and_right():
    for p, q in ((700.0, -700.0), (-700.0, 700.0), (0.0, 1e4), (40.0, 40.001), (-745.0, 3.0), (1e6, -1e6)):
        expected = float(precise_apart("labels", [p], [q], [1.0]))
        assert float(kl_of_logits(np.array(p), np.array(q))) == pytest.approx(expected, rel=1e-9, abs=1e-320)


def test_divergences_broadcast_over_rows():
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(7, 3)), rng.normal(size=3)
    for output in (Output("labels"), Output("value", np.array([1.0, 2.0, 0.5])), Output("classes")):
        assert output.divergence(p, q) == pytest.approx([float(output.divergence(row, q)) for row in p])


def test_numbers_have_the_digits_that_tell_them_apart():
    assert show_apart([0.2, 0.9]) == ["0.20", "0.90"]
    assert show_apart([0.4999, 0.5001]) == ["0.4999", "0.5001"]
    assert show_apart([0.5, 0.5]) == ["0.50", "0.50"]
    assert show_apart([0.98, 0.98 * (1 + 1e-15)]) == ["0.98", "0.98"], "rounding is no difference"
    assert show_apart([1e-30, 3e-30]) == ["1e-30", "3e-30"]
    assert show_apart([12.3456, 12.3459], 3, "g") == ["12.3456", "12.3459"]
    assert show_apart([0.1, 0.50001, 0.50002]) == ["0.10000", "0.50001", "0.50002"]


def test_half_of_a_distance_is_half_explained():
    assert Output("value").explained(2.0, 0.5) == pytest.approx(0.5)
    assert Output("labels").explained(2.0, 0.5) == pytest.approx(0.75)
    assert Output("value").explained(0.0, 0.0) == 1.0
    assert np.isnan(Output("value").explained(0.0, 1.0))


def test_a_flip_is_a_label_that_came_or_went_and_never_of_values():
    before, after = np.array([[1.0, -1.0], [2.0, 3.0]]), np.array([[1.5, 0.5], [1.0, 4.0]])
    assert Output("labels").flipped(before, after).tolist() == [True, False]
    assert Output("value").flipped(before, after).tolist() == [False, False]
    assert Output("labels").label_pair(before[0], after[0]) == (1, 1)
    assert Output("binary").label_pair(np.array([-1.0]), np.array([2.0])) == (0, 1)


def test_a_unit_is_how_much_a_column_varies_and_1_where_it_does_not():
    assert scales_of(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist() == [1.0, 1.0]
    assert scales_of(np.array([[1.0], [5.0]])).tolist() == [2.0]
    assert scales_of(np.empty((0, 2))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("apart", [0.0, 1e-9, 1e-3, 1.0, 40.0, 900.0])
def test_divergences_of_many_rows_are_those_of_each_to_the_last_bit(apart):
    rng = np.random.default_rng(0)
    p = rng.normal(size=(5000, 7)) * max(1.0, apart)
    q = p + apart * rng.normal(size=p.shape)
    many = kl_divergence(p, q)
    rows = [*range(0, 5000, 97), 2047, 2048, 4999]
    assert [many[row] for row in rows] == [float(kl_divergence(p[row], q[row])) for row in rows]


@settings(deadline=None, max_examples=20)
@given(seeds, st.sampled_from(["classes", "binary", "labels", "value"]))
def test_slopes_make_shares_of_probability_that_sum_to_its_change(seed, kind):
    rng = np.random.default_rng(seed)
    width = 1 if kind == "binary" else int(rng.integers(2, 6))
    output = Output(kind, np.ones(width) if kind == "value" else None)
    before = rng.normal(size=(3, width)) * rng.choice([0.1, 1, 5])
    after = before + rng.normal(size=(3, width)) * rng.choice([0, 1e-6, 1, 5])
    labels = rng.integers(0, 2 if kind == "binary" else width, 3)
    columns = np.zeros(3, dtype=int) if kind == "binary" else labels
    slopes = output.slopes(labels, before, after)
    moved = (output.means(after) - output.means(before))[np.arange(3), columns]
    np.testing.assert_allclose((slopes * (after - before)).sum(axis=1), moved, rtol=1e-9, atol=1e-12)
    literal = slopes_by_small_steps(output, columns, before, after)
    np.testing.assert_allclose(slopes, literal, atol=2e-3)
