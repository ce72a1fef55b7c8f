"""Change + one target with more paths than memory holds -> Choice: its paths walked piece by piece, several times.

A piece is what reaches the target by a few of its first steps. Rankings (linear, topk, deeplift) hold the best n paths
so far, which loses nothing. The relaxation is solved on a pool of candidates: with y = C'x its solution there and
r the gradient of the divergence D at y, every choice x* of n among all paths satisfies, D being convex,

    D(C'x*)  >=  D(y) - r.y + the n smallest of C r        (computed as in selection/objective.py)

and the right-hand side needs one more pass. Where it meets D(y), the pool's solution is the solution; until then the
paths with the smallest prices C r join the pool. The bound is true whenever we stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import KINDS
from ..memory import cut_runs
from ..metrics import kl_divergence
from ..paths.attribution import attribute_paths, estimate_step_bytes, sum_up
from ..paths.walk import find_rows, first_steps, walk_paths
from ..selection import Selection, select
from ..selection.batch import INACCURATE, PROVED, SEARCHED
from ..selection.choice import STATUS
from ..selection.convex import TOLERANCE as PROOF
from ..selection.objective import fixed_part, normal_form, remainder, rounding_of, tilt
from .answer import RIVALS, Choice, Question, replay_choices

PIECE_BYTES = 64e6  # a constant: pieces must not depend on who has how much memory
POOL_PATHS = 2000  # candidates, or twenty times the budget
MAX_PASSES = 40
TOLERANCE = 1e-9  # of the whole change, or of what is left where that is more


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates, each known by its place among all altered paths of the target."""

    place: IntArray  # [size], ascending
    paths: IntArray  # [size, num_hops + 1]
    contributions: FloatArray  # [size, num_classes]
    kinds: NDArray[np.int8]  # [size]

    def take(self, rows: NDArray[Any]) -> Pool:
        """Some of them."""
        return Pool(self.place[rows], self.paths[rows], self.contributions[rows], self.kinds[rows])

    def join(self, other: Pool) -> Pool:
        """Both, each path once."""
        place, rows = np.unique(np.concatenate([self.place, other.place]), return_index=True)
        return Pool(
            place,
            np.concatenate([self.paths, other.paths])[rows],
            np.concatenate([self.contributions, other.contributions])[rows],
            np.concatenate([self.kinds, other.kinds])[rows],
        )


def cut_pieces(change: Change, targets: IntArray) -> list[tuple[IntArray, float]]:
    """Of each target: bounds of the pieces among its first steps, [num_pieces + 1], and the bytes of the largest."""
    if len(targets) == 0 or change.network.num_hops < 2:
        return [(np.array([0]), np.inf) for _ in targets]
    steps = first_steps(change, targets)
    sizes = estimate_step_bytes(change, steps)
    ends = np.searchsorted(steps.target, np.arange(len(targets) + 1))
    found = []
    for start, stop in pairwise(ends.tolist()):
        bounds = cut_runs(sizes[start:stop], PIECE_BYTES)
        found.append((bounds, float(np.add.reduceat(sizes[start:stop], bounds[:-1]).max(initial=0.0))))
    return found


def pool_bytes(change: Change, question: Question) -> float:
    """What the candidates take at most, those of one piece on their way in included."""
    numbers = change.network.num_classes + change.network.num_hops + 3
    return 4.0 * 8.0 * numbers * _pool_size(question)


def choose_streaming(change: Change, target: int, bounds: IntArray, question: Question) -> Choice:
    """One Choice, its numbers those of all altered paths."""
    before, after = change.before_pass.logits[target], change.after_pass.logits[target]
    stream = Stream(change, target, bounds)
    if question.method in RIVALS:
        return _choose_rival(stream, question)
    sign = 1.0 if question.objective == "sufficiency" else -1.0
    start, goal = (before, after) if sign > 0 else (after, before)
    pool, _ = stream.best(_first_prices(question, before, after, sign, start, goal), _pool_size(question))
    relaxed = question.method in ("convex", "exact")
    empty: FloatArray = np.empty((0, len(before)))
    reached = normal_form(empty, before, after, sign < 0, empty.copy(), np.empty(0))
    bound, value, passes, enough = 0.0, 0.0, 1, 0.0
    while passes < MAX_PASSES:
        weights = _select(pool, question, before, after, "convex" if relaxed else question.method).weights
        y = sign * (weights @ pool.contributions)
        y -= y[goal.argmax()]  # what all classes have in common means nothing
        w, p, r = reached.start + y - reached.q @ y, np.empty(len(y)), np.empty(len(y))
        value = remainder(reached.q, reached.log_q, w)
        tilt(reached, w, p, r)
        offered, prices = stream.best(sign * r, _pool_size(question))
        smallest = np.minimum(prices, 0.0) if question.at_most else prices
        rounding = rounding_of(reached, w, r, stream.reach(question.budget))
        bound = max(bound, fixed_part(reached, w, r) + float(smallest[: question.budget].sum()) - rounding)
        passes += 1
        enough = max(TOLERANCE * max(reached.whole, value), 4 * rounding)
        if not relaxed or value - bound <= enough:
            break
        pool = pool.take(weights > 0).join(offered)
    selection = _select(pool, question, before, after, question.method)
    chosen = selection.chosen
    status, found = selection.status, ""
    if relaxed and value - bound > 2 * enough:
        status = STATUS[INACCURATE]
        found = f"; the relaxation was left {value - bound:.1e} from its bound"
    elif status == STATUS[PROVED] and selection.kl_residual - bound > PROOF * max(reached.whole, value):
        status = STATUS[SEARCHED]  # the best of the candidates, and others may be better by the gap
    choice = Choice(
        question,
        paths=pool.paths[chosen],
        contributions=pool.contributions[chosen],
        weights=selection.weights[chosen],
        kinds=tuple(KINDS[kind] for kind in pool.kinds[chosen]),
        kl_residual=selection.kl_residual,
        kl_bound=min(bound, selection.kl_residual),
        status=f"{status} Streamed in {passes} passes over {stream.num_paths:,} paths{found}.",
        **stream.whole(),
    )
    return replay_choices(change, [choice])[0]


class Stream:
    """The altered paths of one target, a piece at a time; every pass sums up what is said of all of them."""

    def __init__(self, change: Change, target: int, bounds: IntArray) -> None:
        self.change, self.target, self.bounds = change, target, bounds
        self.num_paths = 0
        self.causes: FloatArray | None = None  # [num_kinds, num_classes]
        self.largest, self.total = 0.0, 0.0  # of the paths' largest contributions to a logit

    def pieces(self) -> Iterator[Pool]:
        """One after the other, places counting on."""
        causes = np.zeros((len(KINDS), self.change.network.num_classes))
        place = 0
        for steps in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            found = walk_paths(self.change, np.array([self.target]), steps)
            shares = attribute_paths(self.change, found)
            causes += shares.causes[0]
            yield Pool(place + np.arange(len(found.paths)), found.paths, shares.contributions, shares.kinds)
            place += len(found.paths)
            del found, shares  # before the next piece is walked
        self.num_paths, self.causes = place, causes

    def best(self, prices: FloatArray, size: int) -> tuple[Pool, FloatArray]:
        """The paths with the smallest C @ prices, earlier ones first among equals; and these numbers, ascending."""
        held: Pool | None = None
        self.largest, self.total = 0.0, 0.0
        for piece in self.pieces():
            sizes = np.abs(piece.contributions).max(axis=1, initial=0.0)
            self.largest, self.total = max(self.largest, sizes.max(initial=0.0)), self.total + float(sizes.sum())
            keys = _keys(piece, prices)
            near = piece.take(np.sort(np.argsort(keys, kind="stable")[:size]))
            held = near if held is None else held.join(near)
            held = held.take(np.sort(np.argsort(_keys(held, prices), kind="stable")[:size]))
        assert held is not None
        return held, np.sort(_keys(held, prices))

    def reach(self, n: int) -> float:
        """More than any n paths together can add to a logit."""
        return float(min(self.total, n * self.largest))

    def whole(self) -> dict[str, Any]:
        """What a Choice says of all altered paths."""
        assert self.causes is not None
        return {"row": self.target, **vars(sum_up(self.change, self.target, self.num_paths, self.causes))}


def _keys(pool: Pool, prices: FloatArray) -> FloatArray:
    # Row by row: a product may round a row by how many there are, and a path must have one key in every piece.
    return np.asarray((pool.contributions * prices).sum(axis=1))


def _pool_size(question: Question) -> int:
    return max(POOL_PATHS, 20 * int(question.budget))


def _first_prices(
    question: Question, before: FloatArray, after: FloatArray, sign: float, start: FloatArray, goal: FloatArray
) -> FloatArray:
    """What ranks the paths on the first pass: a method's own order, or the gradient where nothing is chosen yet."""
    if question.method == "topk":
        return -np.ones(len(before))
    if question.method == "deeplift":
        identity: FloatArray = np.eye(len(before))
        return np.asarray(identity[before.argmax()] - identity[after.argmax()])
    if question.method == "linear":
        return np.asarray(-sign * special.softmax(goal))
    return np.asarray(sign * (special.softmax(start) - special.softmax(goal)))


def _select(pool: Pool, question: Question, before: FloatArray, after: FloatArray, method: str) -> Selection:
    return select(
        pool.contributions, before, after, question.budget, method=method, objective=question.objective,
        at_most=question.at_most and method in ("convex", "exact"),
    )  # fmt: skip


def _choose_rival(stream: Stream, question: Question) -> Choice:
    """The rival's own ranking, judged by the shares of those of its paths that are altered."""
    change, target = stream.change, stream.target
    before, after = change.before_pass.logits[target], change.after_pass.logits[target]
    paths, _ = RIVALS[question.method](change, target, int(question.budget), int(after.argmax()))
    shares = np.zeros((len(paths), change.network.num_classes))
    kinds = ["unchanged"] * len(paths)
    for piece in stream.pieces():
        place = find_rows(piece.paths, paths)
        for i in np.flatnonzero(place >= 0):
            shares[i], kinds[i] = piece.contributions[place[i]], KINDS[piece.kinds[place[i]]]
    total = shares.sum(axis=0)
    ends = (after, before + total) if question.objective == "sufficiency" else (before, after - total)
    choice = Choice(
        question,
        paths=paths,
        contributions=shares,
        weights=np.ones(len(paths)),
        kinds=tuple(kinds),
        kl_residual=float(kl_divergence(*ends)),
        kl_bound=0.0,
        status="ranked: chosen by what matters on `after` alone; judged in one pass over streamed paths.",
        **stream.whole(),
    )
    return replay_choices(change, [choice])[0]
