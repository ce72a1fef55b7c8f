"""A target + a Question with a depth -> chosen units: groups of paths that end alike, or paths; what groups hold.

No path is in two units. A depth of k hops: the units are all ends of k hops, and the paths that start at a bias nearer
to the target. They are the paths of the change above (see `change.cut`), chosen from as paths are.

`auto`: the units are at first the ends of one hop, and a choice among them is made. Then groups are opened, each into
the ends one hop longer, and the choice is made again, with the same budget: a slot may go to another unit as well as to
a part of what was opened. Of all openings that are tried, that which leaves least is kept, as long as it explains WORTH
more of the change; so a choice never leaves more than the one among ends of one hop did. Tried are

    the chosen groups       what they hold besides may matter less than what their best part leaves room for
    along the best paths    of all paths of the target, those with the best prices by the slope of the divergence (see
                            `paths.search`); the groups that hide them are opened, one hop or all the way down

The certificate is that of the last choice: no choice of as many of these units leaves less than its bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..arrays import IntArray
from ..change.comparison import Change
from ..change.states import REWEIGHTED
from ..graphs.labels import ANY
from ..paths.bundles import count_hops, count_members, depth_of, is_group, open_groups, split_causes
from ..paths.search import Limits, search_of
from ..paths.table import PathTable, concatenate
from .candidates import Candidates, ListedPaths
from .choices import Choices, choose_listed
from .explanation import Group
from .question import Question
from .remains import slopes_at, wholes_of

WORTH = 1e-3  # of the whole change: openings that explain less more than the choice so far are not made
PATHS_TRIED = 12  # whose groups are opened on trial
MOVES_TRIED = 32  # openings that a round tries
MAX_OPENINGS = 64
SHOWN = 5  # paths of a group that are listed
SHORT_SEARCH = Limits(200_000, 20_000, 1 << 15)  # of the search for them

Key = bytes  # of an end: its nodes


def choose_units(source: Candidates, question: Question) -> Choices:
    """The choice among units of any depth of one target's paths; the kinds of groups are those of their ends."""
    change, row = source.change, int(source.rows[0])
    openings = _Openings(change, row)
    everything = np.array([*[ANY] * count_hops(change), row])
    units = openings.children([everything])[everything.tobytes()]
    choice = _choose_from(source, question, [units])
    left, num_opened = WORTH * float(wholes_of(change, source.rows, question.objective)[0]), 0
    for _ in range(MAX_OPENINGS):
        if choice.kl_residual[0] <= left or len(units.paths) == 0:
            break
        moves = list(_list_moves(source, question, units, choice.chosen))[:MOVES_TRIED]
        openings.children([group for move in moves for group in move])
        trials = [openings.apply(units, move) for move in moves]
        if not trials:
            break
        found = _choose_from(source, question, trials)
        best = int(found.kl_residual.argmin())
        if not found.kl_residual[best] < choice.kl_residual[0] - left:
            break
        units, choice = trials[best], found.take(np.array([best]))
        num_opened += len(moves[best])
    notes = (
        f" The bound is that of a choice among {len(units.paths):,} units: groups of paths that end alike, opened "
        f"{num_opened:,} time{'s' * (num_opened != 1)}, and paths."
    )
    return replace(choice, status=choice.status + notes)


def _choose_from(source: Candidates, question: Question, pools: Sequence[PathTable]) -> Choices:
    """The choice from each of these, in one compiled call."""
    size = len(pools)
    rows, causes = np.repeat(source.rows, size), np.repeat(source.causes, size, axis=0)
    listed = ListedPaths(source.change, rows, np.repeat(source.num_paths, size), causes, concatenate(pools))
    return choose_listed(listed, question)


class _Openings:
    """What groups of one target are opened into, each found once."""

    def __init__(self, change: Change, row: int) -> None:
        self.change, self.row = change, row
        self.known: dict[Key, PathTable] = {}

    def children(self, groups: Sequence[IntArray]) -> dict[Key, PathTable]:
        """Open these, all of one depth in one go."""
        new = {group.tobytes(): group for group in groups if group.tobytes() not in self.known}
        for depth in sorted({int(depth_of(group[None])[0]) for group in new.values()}):
            together = np.stack([group for group in new.values() if depth_of(group[None])[0] == depth])
            found, parents = open_groups(self.change, self.row, together)
            for i, group in enumerate(together):
                self.known[group.tobytes()] = found.take_rows(parents == i)
        return self.known

    def apply(self, units: PathTable, move: Sequence[IntArray]) -> PathTable:
        """The units with these groups opened, one within the other."""
        for group in move:
            stay = (units.paths != group).any(axis=1)
            units = concatenate([units.take_rows(stay), self.known[group.tobytes()]]).as_one()
        return units


def _list_moves(
    source: Candidates, question: Question, units: PathTable, chosen: PathTable
) -> Iterator[list[IntArray]]:
    """Groups to be opened together, each within the one before it."""
    change, row = source.change, int(source.rows[0])
    groups = chosen.paths[is_group(chosen.paths)]
    seen = {group.tobytes() for group in groups}
    prices = slopes_at(change, row, question.objective, chosen.contributions.sum(axis=0))
    best = search_of(change).find(row, prices, PATHS_TRIED).nodes
    held = {path.tobytes() for path in units.paths}
    for path in best:
        move: list[IntArray] = []
        for depth in range(1, min(int(depth_of(path[None])[0]), count_hops(change) - 1) + 1):
            end = path.copy()
            end[: len(path) - 1 - depth] = ANY
            if move or end.tobytes() in held:
                move.append(end)
                if end.tobytes() not in seen:
                    seen.add(end.tobytes())
                    yield list(move)
    yield from ([group] for group in groups)


def merge_units(change: Change, row: int, units: PathTable) -> PathTable:
    """The same units with a group of one path as that path, and groups of the kind that most of them is.

    A group whose end exists in only one snapshot is gained or lost, as a path is; any other is the largest of its
    causes (by the sum over classes of |share|).
    """
    paths, kinds, contributions = units.paths.copy(), units.kinds.copy(), units.contributions.copy()
    for i in np.flatnonzero(is_group(paths) & (count_members(change, paths) == 1)).tolist():
        while is_group(paths[i : i + 1]).any():
            only, _ = open_groups(change, row, paths[i : i + 1])
            paths[i], kinds[i], contributions[i] = only.paths[0], only.kinds[0], only.contributions[0]
    depths = np.where(is_group(paths) & (kinds >= REWEIGHTED), depth_of(paths), 0)
    for depth in np.unique(depths[depths > 0]).tolist():
        here = np.flatnonzero(depths == depth)
        sizes = np.abs(split_causes(change, paths[here], contributions[here])).sum(axis=2)
        kinds[here] = np.where(sizes.max(axis=1) > 0, sizes.argmax(axis=1), REWEIGHTED)
    return replace(units, paths=paths, kinds=kinds, contributions=contributions)


def find_groups(source: Candidates, units: PathTable) -> tuple[Group, ...]:
    """The groups among the units chosen for one target, each with the paths that add most to its share."""
    rows = np.flatnonzero(is_group(units.paths))
    if len(rows) == 0:
        return ()
    change, row = source.change, int(source.rows[0])
    before, after = change.before_pass.logits[row], change.after_pass.logits[row]
    weights = change.output.weights(*change.output.label_pair(before, after), len(before))
    sizes = count_members(change, units.paths[rows])
    signs = np.where(units.contributions[rows] @ weights < 0, -1.0, 1.0)
    search = search_of(change)
    found = [
        search.find(row, -sign * weights, SHOWN, SHORT_SEARCH, units.paths[i]).nodes
        for i, sign in zip(rows.tolist(), signs.tolist(), strict=True)
    ]
    best = source.find(np.concatenate(found))
    groups, start = [], 0
    for i, size, nodes in zip(rows.tolist(), sizes.tolist(), found, strict=True):
        own = best.take_rows(np.arange(start, start + len(nodes)))
        start += len(nodes)
        groups.append(Group(i, int(size), change.numbers(own.paths), own.contributions, own.kind_names))
    return tuple(groups)
