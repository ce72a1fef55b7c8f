"""Chosen units of a target -> the groups among them: kinds, sizes, and their largest paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..change.comparison import Change
from ..change.states import REWEIGHTED
from ..paths.bundles import count_members, depth_of, is_group, open_groups, split_causes
from ..paths.search import Limits, search_of
from ..paths.table import PathTable
from .candidates import Candidates
from .explanation import Group

SHOWN = 5  # paths of a group that are listed
SHORT_SEARCH = Limits(200_000, 20_000, 1 << 15)  # of the search for them


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
