"""What makes a choice of paths right, in formulas that know no solver.

Each function takes the problem as the user states it, (C, z0, z1, n), and an answer, and returns numbers.
Everything is plain numpy, written for reading, and shares no code with the package.
"""

import dataclasses
from itertools import combinations

import mpmath
import numpy as np

PRECISE_DIGITS = 100  # logits of 1e19, changes of 1e-17 and their squares, with room


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def log_softmax(z):
    return z - z.max() - np.log(np.exp(z - z.max()).sum())


def kl(z_target, z_other):
    """KL(softmax(z_target) || softmax(z_other))."""
    return float(softmax(z_target) @ (log_softmax(z_target) - log_softmax(z_other)))


def problem(C, z0, z1, objective):
    """(rows, start, target): add weighted rows to start and come close to target."""
    return (C, z0, z1) if objective == "sufficiency" else (-C, z1, z0)


def value(C, z0, z1, x, objective="sufficiency"):
    """The divergence that the weights x leave."""
    rows, start, target = problem(C, z0, z1, objective)
    return kl(target, start + rows.T @ x)


def infeasibility(x, n, at_most=False):
    """How far x is from 0 <= x <= 1, sum x = n (or <= n)."""
    over = x.sum() - n
    box = max(0.0, *(-x), *(x - 1.0)) if len(x) else 0.0
    return max(box, over if at_most else abs(over))


def num_fractional(x):
    return int(((x > 0) & (x < 1)).sum())


def dual_value(C, z0, z1, n, p, objective="sufficiency", at_most=False):
    """A lower bound on every choice's divergence, from any distribution p.

    The divergence is  constant - q.y + logsumexp(s + y)  and  logsumexp(v) = max over p of p.v + entropy(p):

        KL >= sum_j q_j log q_j - q.s  + p.s + entropy(p) + min over x of (p - q).C'x,

    the last being the sum of the n smallest entries of C (p - q) (of the negative ones for "at most").
    """
    rows, s, target = problem(C, z0, z1, objective)
    log_q = log_softmax(target)
    q = np.exp(log_q)
    prices = np.sort(rows @ (p - q))[:n]
    if at_most:
        prices = prices[prices < 0]
    log_p = np.log(np.maximum(p, 1e-300))
    # Both logit vectors are shifted by the same constant, which changes nothing but the rounding.
    s = s - s.max()
    return float(q @ log_q - p @ log_p + (p - q) @ s + prices.sum())


def duality_gap(C, z0, z1, n, x, objective="sufficiency", at_most=False):
    """Divergence of x minus the bound at x's own distribution: zero exactly at a minimiser."""
    rows, start, _ = problem(C, z0, z1, objective)
    p = softmax(start + rows.T @ x)
    return value(C, z0, z1, x, objective) - dual_value(C, z0, z1, n, p, objective, at_most)


def brute_force(C, z0, z1, n, objective="sufficiency", at_most=False):
    """The least divergence over all choices of n paths (or at most n)."""
    rows, start, target = problem(C, z0, z1, objective)
    m = len(C)
    best = np.inf
    for size in range(0 if at_most else min(n, m), min(n, m) + 1):
        sets = np.array(list(combinations(range(m), size)), dtype=np.int64)
        logits = start + rows[sets].sum(axis=1)
        logits = logits - logits.max(axis=1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        q = softmax(target)
        best = min(best, float((q @ log_softmax(target) - logs @ q).min()))
    return best


def all_values(output, C, z0, z1, objective):
    """What every set of paths leaves [2^m], and how many it has; with more digits than floats have."""
    rows, start, target = (np.asarray(part, dtype=np.longdouble) for part in problem(C, z0, z1, objective))
    members = np.arange(1 << len(C))[:, None] >> np.arange(len(C)) & 1
    off = start - target + members @ rows
    if output == "value":
        return (off**2).sum(axis=1) / 2, members.sum(axis=1)
    if output == "classes":
        pairs = [(off, np.exp(target - target.max()))]
    else:
        pairs = [
            (np.stack([v, 0 * v], axis=1), np.exp([z, -z] - abs(z))) for v, z in zip(off.T, target / 2, strict=True)
        ]
    values = np.zeros(len(members), dtype=np.longdouble)
    for v, q in pairs:
        q = q / q.sum()
        v = v - (v @ q)[:, None]
        values += np.log1p((q * (np.expm1(v) - v)).sum(axis=1))
    return values, members.sum(axis=1)


def precise_kl(z_target, z_other):
    """KL(softmax(z_target) || softmax(z_other)) of logits given as floats or mpmath numbers, to some fifty digits.

    log(sum q e^v) with q.v = 0, that is log(1 + sum q (e^v - 1 - v)): the terms of a saturated q are products, so that
    they are right even where they are smaller than the digits of the others.
    """
    with mpmath.workdps(PRECISE_DIGITS):
        t, o = [mpmath.mpf(z) for z in z_target], [mpmath.mpf(z) for z in z_other]
        log_total = mpmath.log(mpmath.fsum(mpmath.exp(z - max(t)) for z in t))
        q = [mpmath.exp((z - max(t)) - log_total) for z in t]
        d = [b - a for a, b in zip(t, o, strict=True)]
        mean = mpmath.fsum(p * e for p, e in zip(q, d, strict=True))
        return mpmath.log1p(mpmath.fsum(p * (mpmath.expm1(e - mean) - (e - mean)) for p, e in zip(q, d, strict=True)))


def precise_value(C, z0, z1, members, objective="sufficiency"):
    """The divergence that these paths leave, the numbers taken as they are and nothing rounded."""
    rows, start, target = problem(C, z0, z1, objective)
    with mpmath.workdps(PRECISE_DIGITS):
        reached = [
            mpmath.mpf(s) + mpmath.fsum(mpmath.mpf(float(rows[i, j])) for i in members) for j, s in enumerate(start)
        ]
        return precise_kl(target, reached)


def precise_best(C, z0, z1, n, objective="sufficiency", at_most=False):
    """The least of `precise_value` over all choices of n paths (or at most n)."""
    sizes = range(0 if at_most else min(n, len(C)), min(n, len(C)) + 1)
    return min(precise_value(C, z0, z1, s, objective) for size in sizes for s in combinations(range(len(C)), size))


def apart(output, z_target, z_other, scales=1.0):
    """The divergence of labels (a sigmoid a column) or values (in units of the scales), over the last axis.

    Of labels, A(z) = log(1 + e^z) and D = A(other) - A(target) - A'(target) (other - target) in each column.
    """
    if output == "value":
        return 0.5 * (((z_other - z_target) / scales) ** 2).sum(-1)
    a = np.exp(-np.logaddexp(0, -z_target))
    return (np.logaddexp(0, z_other) - np.logaddexp(0, z_target) - a * (z_other - z_target)).sum(-1)


def apart_value(output, C, z0, z1, x, objective="sufficiency", scales=1.0):
    """The divergence that the weights x leave."""
    rows, start, target = problem(C, z0, z1, objective)
    return float(apart(output, target, start + rows.T @ x, scales))


def apart_best(output, C, z0, z1, n, objective="sufficiency", at_most=False, scales=1.0):
    """The least divergence over all choices of n paths (or at most n)."""
    rows, start, target = problem(C, z0, z1, objective)
    best = np.inf
    for size in range(0 if at_most else min(n, len(C)), min(n, len(C)) + 1):
        sets = list(combinations(range(len(C)), size))
        sets = np.array(sets, dtype=np.int64).reshape(len(sets), size)
        best = min(best, float(apart(output, target, start + rows[sets].sum(axis=1), scales).min()))
    return best


def precise_apart(output, z_target, z_other, scales):
    """`apart` to some fifty digits, of floats or mpmath numbers; a label is a softmax of (0, z)."""
    with mpmath.workdps(PRECISE_DIGITS):
        columns = list(zip(map(mpmath.mpf, z_target), map(mpmath.mpf, z_other), map(mpmath.mpf, scales), strict=True))
        if output == "value":
            return mpmath.fsum(((o - t) / s) ** 2 / 2 for t, o, s in columns)
        return mpmath.fsum(precise_kl([0, t], [0, o]) for t, o, _ in columns)


def precise_apart_value(output, C, z0, z1, members, objective, scales):
    """The divergence that these paths leave, the numbers taken as they are and nothing rounded."""
    rows, start, target = problem(C, z0, z1, objective)
    with mpmath.workdps(PRECISE_DIGITS):
        reached = [mpmath.mpf(s) + mpmath.fsum(float(rows[i, j]) for i in members) for j, s in enumerate(start)]
        return precise_apart(output, target, reached, scales)


def make_problem(rng, m, c, scale=3.0, heavy=True, z_scale=1.0):
    """Many small contributions, heavy tails, strongly correlated columns, logits that they sum up to."""
    C = rng.normal(size=(m, 3)) @ rng.normal(size=(3, c)) + 0.3 * rng.normal(size=(m, c))
    if heavy:
        C *= np.exp(2 * rng.normal(size=(m, 1)))
    if m:
        C *= 10 * scale / np.abs(C).sum()
    z0 = z_scale * rng.normal(size=c)
    return C, z0, z0 + C.sum(0)


def same(a, b):
    names = [field.name for field in dataclasses.fields(a) if field.name != "origin"]  # which one of many does not have
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)
