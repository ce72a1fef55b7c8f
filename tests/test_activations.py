"""Activations: the same as torch's, 0 at 0, and rates that are slopes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from axiompath import activations

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
