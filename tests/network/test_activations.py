"""Activations: the same as torch's, 0 at 0, and rates that are slopes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from axiompath.network import activations

SAME = {
    "relu": (activations.relu(), F.relu),
    "leaky_relu": (activations.leaky_relu(0.3), lambda z: F.leaky_relu(z, 0.3)),
    "elu": (activations.elu(1.4), lambda z: F.elu(z, 1.4)),
    "celu": (activations.celu(0.5), lambda z: F.celu(z, 0.5)),
    "selu": (activations.selu(), F.selu),
    "gelu": (activations.gelu(), F.gelu),
    "gelu tanh": (activations.gelu("tanh"), lambda z: F.gelu(z, approximate="tanh")),
    "silu": (activations.silu(), F.silu),
    "mish": (activations.mish(), F.mish),
    "tanh": (activations.tanh(), torch.tanh),
    "softsign": (activations.softsign(), F.softsign),
    "sigmoid": (activations.sigmoid(), torch.sigmoid),
    "log_sigmoid": (activations.log_sigmoid(), F.logsigmoid),
    "softplus": (activations.softplus(), F.softplus),
    "softplus steep": (activations.softplus(3.0, 2.0), lambda z: F.softplus(z, 3.0, 2.0)),
    "relu6": (activations.clamp(0.0, 6.0), F.relu6),
    "hardtanh": (activations.clamp(-1.0, 1.0), F.hardtanh),
    "clamp above 0": (activations.clamp(low=0.5), lambda z: z.clamp(min=0.5)),
    "abs": (activations.two_slopes("abs", -1.0), torch.abs),
}


@pytest.mark.parametrize("name", SAME)
def test_an_activation_plus_its_constant_is_torchs_own(name):
    ours, theirs = SAME[name]
    z = np.concatenate([np.linspace(-30, 30, 601), [1e-9, -1e-9, 1e-3, 0.0]])
    expected = theirs(torch.from_numpy(z)).numpy()
    np.testing.assert_allclose(ours.value(z) + ours.constant, expected, rtol=1e-12, atol=1e-14)
    assert ours.value(np.zeros(1))[0] == pytest.approx(0.0, abs=1e-16)


@pytest.mark.parametrize("name", SAME)
def test_rates_times_gaps_are_the_change_of_the_value(name):
    ours, _ = SAME[name]
    rng = np.random.default_rng(0)
    before = rng.normal(size=4000) * 3
    gap = rng.normal(size=4000) * 10.0 ** rng.integers(-12, 2, size=4000)
    after = before + gap
    change = ours.value(after) - ours.value(before)
    np.testing.assert_allclose(ours.rate(before, after) * (after - before), change, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", SAME)
def test_the_rate_where_both_ends_meet_is_the_derivative(name):
    ours, theirs = SAME[name]
    z = torch.linspace(-4.03, 4.07, 50, dtype=torch.float64, requires_grad=True)
    theirs(z).sum().backward()
    points = z.detach().numpy()
    np.testing.assert_allclose(ours.rate(points, points), z.grad.numpy(), rtol=1e-9, atol=1e-12)


SCALES = [10.0**k for k in range(-8, 9)]
SCALED = {
    **{f"celu {scale:g}": activations.celu(scale) for scale in SCALES},
    **{f"elu {scale:g}": activations.elu(scale) for scale in SCALES},
    **{f"softplus {scale:g}": activations.softplus(scale) for scale in SCALES},
    **{f"softplus {scale:g} with a low threshold": activations.softplus(scale, 2.0) for scale in SCALES},
    **{name: ours for name, (ours, _) in SAME.items()},
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", SCALED)
def test_rates_are_complete_at_every_scale(name):
    """From denormal numbers to 1e300, and steps from one ulp to everything: rate * step is the change of the value."""
    ours = SCALED[name]
    rng = np.random.default_rng(0)
    for size in (1e-310, 1e-300, 1e-100, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 3.0, 20.0, 1e3, 1e6, 1e100, 1e290):
        for step in (1e-16, 1e-12, 1e-8, 1e-5, 1e-3, 1e-2, 0.1, 1.0, 1e4):
            before = size * ours.width * rng.normal(size=200)
            after = before + size * ours.width * step * rng.normal(size=200)
            inside = (np.abs(before) < 1e300) & (np.abs(after) < 1e300)
            before, after = before[inside], after[inside]
            rate = ours.rate(before, after)
            assert np.isfinite(rate).all()
            value_before, value_after = ours.value(before), ours.value(after)
            # What rounding the input, or the value, by one unit would change.
            inputs = np.maximum(np.abs(ours.derivative(before) * before), np.abs(ours.derivative(after) * after))
            unit = 2.0**-52 * (np.maximum(np.abs(value_before), np.abs(value_after)) + inputs)
            # Far below 0 the normal distribution function itself has fewer digits.
            unit = np.maximum(unit, 2.0**-52 * 1e-10 * np.abs(after - before)) if "gelu" in name else unit
            miss = np.abs(rate * (after - before) - (value_after - value_before))
            assert (miss <= 16 * unit + 1e-318).all(), (size, step, (miss / unit).max())


@pytest.mark.parametrize("scale", SCALES)
def test_scaled_activations_are_torchs_own(scale):
    z = np.concatenate([np.linspace(-30, 30, 301), np.logspace(-12, 0, 50)]) * scale
    for ours, theirs in (
        (activations.celu(scale), lambda t: F.celu(t, scale)),
        (activations.softplus(1 / scale), lambda t: F.softplus(t, 1 / scale)),
    ):
        expected = theirs(torch.from_numpy(z)).numpy()
        np.testing.assert_allclose(ours.value(z) + ours.constant, expected, rtol=1e-12, atol=1e-15 * scale)
