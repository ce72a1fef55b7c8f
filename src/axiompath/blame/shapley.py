"""v: subsets of players -> logits; v -> each player's share: Shapley values, Owen values, interactions.

    share[i] = sum over S without i of  |S|! (k - |S| - 1)! / k!  (v(S + i) - v(S))

All subsets where these are few; else random orders, each with its reverse: along an order the players join one by one,
and what each adds at its turn sums to v(all) - v(none) by itself. The standard error is that of the means of such
pairs. With groups, orders are those in which no group is interrupted: Owen values, which sum to the groups' shares.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InputError
from ..explain.question import is_number

Values = Callable[[BoolArray], FloatArray]  # [num_subsets, num_players] -> [num_subsets, num_columns]

MOST_EXACT = 1 << 16  # subsets that are all evaluated rather than sampled
FIRST_PAIRS = 16  # orders, each with its reverse, before the errors are trusted
LEAST_PAIRS = 2  # of which the time is taken first; with fewer there is no error to report
MOST_PAIRS = 1 << 17
MOST_TRUTHS = 1 << 26  # of who has joined, in all subsets that are evaluated together


@dataclass(frozen=True, eq=False)
class PlayerShares:
    """What each player has of v(all) - v(none)."""

    values: FloatArray  # [num_players, num_columns]
    errors: FloatArray  # [num_players, num_columns]: standard errors, 0 where exact
    exact: bool
    num_evaluations: int
    none: FloatArray  # [num_columns]: v(none)
    all: FloatArray  # [num_columns]: v(all)

    @property
    def residual(self) -> float:
        """Largest difference between the sum of the shares and the change of a column."""
        return float(np.abs(self.values.sum(axis=0) - (self.all - self.none)).max(initial=0.0))

    def beside(self, share: FloatArray, **known: Any) -> PlayerShares:
        """The same with one more share, of something besides; `known` is what else becomes of it."""
        values = np.concatenate([self.values, share[None]])
        return replace(self, values=values, errors=np.concatenate([self.errors, 0.0 * share[None]]), **known)


@dataclass(frozen=True)
class Effort:
    """How long to sample, where not all subsets can be tried."""

    seed: int = 0
    seconds: float = 10.0
    tolerance: float = 0.01  # of the largest change of a column
    most_exact: int = MOST_EXACT
    most_pairs: int = MOST_PAIRS

    def __post_init__(self) -> None:
        """Check here, before any work."""
        check_seconds(self.seconds)
        if not is_number(self.tolerance) or not self.tolerance > 0:
            raise InputError(f"Expected `tolerance` to be a share of the change above 0 (got {self.tolerance!r}).")
        if not isinstance(self.seed, (int, np.integer)) or isinstance(self.seed, bool) or self.seed < 0:
            raise InputError(f"Expected `seed` to be a whole number of 0 or more (got {self.seed!r}).")


def check_seconds(seconds: object) -> None:
    """Refuse what is no time."""
    if not is_number(seconds) or not seconds >= 0:  # type: ignore[operator]  # a number, as was just asked
        raise InputError(f"Expected `seconds` to be a number of 0 or more (got {seconds!r}).")


def all_subsets(num_players: int) -> BoolArray:
    """Every subset, subset number i by the bits of i. [2^num_players, num_players]."""
    numbers = np.arange(1 << num_players, dtype=np.int64)
    subsets = np.empty((len(numbers), num_players), dtype=np.bool_)
    for player in range(num_players):  # column by column, for memory's sake
        subsets[:, player] = numbers >> player & 1
    return subsets


def exact_shares(values: Values, num_players: int) -> PlayerShares:
    """The shares by all subsets."""
    subsets = all_subsets(num_players)
    found = values(subsets)
    shares = np.zeros((num_players, found.shape[1]))
    for player in range(num_players):
        shares[player] = shapley_weights(subsets, player) @ found
    return PlayerShares(shares, np.zeros_like(shares), True, len(subsets), found[0], found[-1])


def shapley_weights(subsets: BoolArray, player: int) -> FloatArray:
    """What v of each of all subsets counts for a player's share. [num_subsets]."""
    k = subsets.shape[1]
    size = subsets.sum(axis=1)
    weight = np.array([1.0 / (k * math.comb(k - 1, s)) for s in range(k)] + [0.0])
    return np.asarray(np.where(subsets[:, player], weight[size - 1], -weight[size]))


def interactions_of(values: FloatArray, num_players: int) -> FloatArray:
    """The Shapley interaction of every pair, from v of all subsets. [num_players, num_players, num_columns].

    I[i, j] = sum over S without i, j of |S|! (k - |S| - 2)! / (k - 1)! (v(S+i+j) - v(S+i) - v(S+j) + v(S)).
    """
    subsets = all_subsets(num_players)
    size = subsets.sum(axis=1)
    found = np.zeros((num_players, num_players, values.shape[1]))
    weight = np.array([1.0 / ((num_players - 1) * math.comb(num_players - 2, s)) for s in range(num_players - 1)])
    for i in range(num_players):
        for j in range(i):
            some = np.flatnonzero(~subsets[:, i] & ~subsets[:, j])
            pair = values[some | 1 << i | 1 << j] - values[some | 1 << i] - values[some | 1 << j] + values[some]
            found[i, j] = found[j, i] = weight[size[some]] @ pair
    return found


def count_owen(groups: IntArray) -> int:
    """Evaluations that exact Owen values take."""
    sizes = np.bincount(groups)
    return int(sum(2 ** int(size) for size in sizes) * 2 ** (len(sizes) - 1)) if len(sizes) else 1


def exact_owen(values: Values, groups: IntArray) -> PlayerShares:
    """Owen values by all subsets that matter: some whole groups, and a part of one more. groups: [num_players]."""
    num_groups = int(groups.max()) + 1
    member = groups[None] == np.arange(num_groups)[:, None]  # [num_groups, num_players]
    asked, rows = [], []
    for number in range(num_groups):
        mine, others = np.flatnonzero(member[number]), np.delete(np.arange(num_groups), number)
        outside, inside = all_subsets(num_groups - 1), all_subsets(len(mine))
        weight = np.array([1 / (num_groups * math.comb(num_groups - 1, s)) for s in range(num_groups)])
        there = (outside.astype(np.int64) @ member[others].astype(np.int64)) > 0
        subsets = np.repeat(there, len(inside), axis=0)
        subsets[:, mine] = np.tile(inside, (len(outside), 1))
        within = np.stack([shapley_weights(inside, player) for player in range(len(mine))])
        factor = np.kron(weight[outside.sum(axis=1)], within)  # [len(mine), len(subsets)]
        asked.append(subsets)
        rows.append((mine, factor))
    ends = np.stack([np.zeros(len(groups), dtype=np.bool_), np.ones(len(groups), dtype=np.bool_)])
    every = np.concatenate([*asked, ends])
    unique, inverse = np.unique(np.packbits(every, axis=1), axis=0, return_inverse=True)
    distinct = np.unpackbits(unique, axis=1, count=len(groups)).astype(np.bool_)
    found = values(distinct)[inverse.reshape(-1)]
    shares, start = np.zeros((len(groups), found.shape[1])), 0
    for mine, factor in rows:
        stop = start + factor.shape[1]
        shares[mine] = factor @ found[start:stop]
        start = stop
    return PlayerShares(shares, np.zeros_like(shares), True, len(distinct), found[-2], found[-1])


def sampled_shares(values: Values, num_players: int, effort: Effort, groups: IntArray | None = None) -> PlayerShares:
    """Shares by random orders and their reverses, until the errors are small or the time is spent."""
    rng = np.random.default_rng(effort.seed)
    start, num_pairs, num_evaluations = time.monotonic(), 0, 2
    total = squares = np.zeros(0)
    ends = values(np.arange(2)[:, None] > np.zeros(num_players))  # none, all
    batch = LEAST_PAIRS
    while True:
        means, used = _pairs(values, _orders(rng, batch, num_players, groups), ends)
        num_evaluations += used
        num_pairs += batch
        total = means.sum(axis=0) if total.size == 0 else total + means.sum(axis=0)
        # Squares about the first mean would be better conditioned; shares are of the size of their spread.
        squares = (means**2).sum(axis=0) if squares.size == 0 else squares + (means**2).sum(axis=0)
        shares = total / num_pairs
        spread = np.maximum(squares / num_pairs - shares**2, 0.0) * num_pairs / max(num_pairs - 1, 1)
        errors = np.sqrt(spread / num_pairs)
        spent = time.monotonic() - start
        wanted = effort.tolerance * max(float(np.abs(ends[1] - ends[0]).max(initial=0.0)), np.finfo(np.float64).tiny)
        worst = float(errors.max(initial=0.0))
        trusted = num_pairs >= FIRST_PAIRS and worst <= wanted
        if trusted or spent >= effort.seconds or num_pairs >= effort.most_pairs:
            return PlayerShares(shares, errors, False, num_evaluations, ends[0], ends[1])
        # As many as the tolerance asks for, as far as the time allows, and not more than have been seen already.
        asked = num_pairs * ((worst / wanted) ** 2 - 1.0) * 1.1 + 1
        allowed = num_pairs * (effort.seconds - spent) / max(spent, 1e-9)
        asked = max(asked, FIRST_PAIRS - num_pairs)
        most = max(2 * num_pairs, FIRST_PAIRS - num_pairs)
        batch = int(max(1, min(asked, allowed, most, effort.most_pairs - num_pairs)))


def _orders(rng: np.random.Generator, number: int, num_players: int, groups: IntArray | None) -> IntArray:
    """Random orders; of players of one group side by side. [number, num_players]."""
    if groups is None:
        return rng.permuted(np.tile(np.arange(num_players), (number, 1)), axis=1)
    turn = rng.permuted(np.tile(np.arange(int(groups.max()) + 1), (number, 1)), axis=1)
    within = rng.random((number, num_players))
    return np.lexsort((within, turn[:, groups]), axis=1)


def _pairs(values: Values, orders: IntArray, ends: FloatArray) -> tuple[FloatArray, int]:
    """What each player adds at its turn, mean of an order and its reverse; evaluations. ends: v(none) and v(all)."""
    number, k = orders.shape
    both = np.concatenate([orders, orders[:, ::-1]])
    turn: NDArray[np.int64] = np.argsort(both, axis=1)
    columns = ends.shape[1]
    along = np.empty((2 * number, k + 1, columns))
    along[:, 0], along[:, k] = ends
    every, length = np.divmod(np.arange(2 * number * (k - 1)), max(k - 1, 1))
    for some in np.array_split(np.arange(len(every)), math.ceil(len(every) * k / MOST_TRUTHS) or 1):
        joined = turn[every[some]] <= length[some, None]
        along[every[some], length[some] + 1] = values(joined)
    added = np.diff(along, axis=1)  # by turn
    by_player = np.take_along_axis(added, turn[:, :, None], axis=1)
    return 0.5 * (by_player[:number] + by_player[number:]), len(every)
