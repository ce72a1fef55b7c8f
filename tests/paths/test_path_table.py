"""PathTable: what it takes, joins and finds, held against plain lists of rows."""

import numpy as np
import pytest

from axiompath.paths.table import UNCHANGED, PathTable, concatenate, find_unique


def draw(rng, num_targets):
    """A table with targets that have no rows, and rows that some targets have in common; each once in a target."""
    rows = [np.unique(rng.integers(-1, 3, size=(rng.integers(0, 6), 3)), axis=0) for _ in range(num_targets)]
    paths = np.concatenate(rows)
    ends = np.cumsum([0, *map(len, rows)])
    size = len(paths)
    return PathTable(
        ends, paths, rng.normal(size=(size, 2)), rng.integers(0, 3, size).astype(np.int8), rng.random(size)
    )


def spell(table):
    """Target by target, its rows as plain values."""
    columns = (part.tolist() for part in (table.paths, table.contributions, table.kinds, table.weights))
    rows = list(zip(*columns, strict=True))
    return [rows[a:b] for a, b in zip(table.indptr[:-1], table.indptr[1:], strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_tables_take_and_join_as_lists_do(seed):
    rng = np.random.default_rng(seed)
    table, other = draw(rng, 6), draw(rng, 6)
    rows, others = spell(table), spell(other)
    places = rng.integers(0, 6, 4)
    assert spell(table.take(places)) == [rows[i] for i in places]
    assert [spell(table.one(i)) for i in range(6)] == [[some] for some in rows]
    kept = rng.random(len(table.paths)) < 0.5
    flags = [kept[table.rows_of(i)] for i in range(6)]
    wanted = [[row for row, here in zip(*pair, strict=True) if here] for pair in zip(rows, flags, strict=True)]
    assert spell(table.take_rows(kept)) == spell(table.take_rows(np.flatnonzero(kept))) == wanted
    assert spell(concatenate([table, other])) == rows + others
    assert table.owner.tolist() == [i for i, some in enumerate(rows) for _ in some]
    for mine, more, joined in zip(rows, others, spell(table.join(other)), strict=True):
        known = [path for path, *_ in mine]
        expected = mine + [row for row in more if row[0] not in known]
        order = sorted(expected, key=lambda row: (-sum(node < 0 for node in row[0]), row[0][::-1]))
        assert joined == order


def test_paths_that_a_target_does_not_have_are_unchanged():
    table = PathTable(np.array([0, 2]), np.array([[0, 1], [2, 1]]), np.array([[1.0], [2.0]]), np.array([1, 2], np.int8))
    assert table.weights.tolist() == [1.0, 1.0]
    found = table.find(np.array([[2, 1], [3, 1], [0, 1]]))
    assert found.contributions.ravel().tolist() == [2.0, 0.0, 1.0]
    assert found.kinds.tolist() == [2, UNCHANGED, 1]
    assert found.kind_names == ("reweighted", "unchanged", "lost")
    first, place = find_unique([np.array([3, 1, 3, 1]), np.array([0, 0, 0, 1])])
    assert first.tolist() == [1, 0, 3]
    assert place.tolist() == [1, 0, 1, 2]
