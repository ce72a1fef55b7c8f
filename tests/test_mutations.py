"""Thousands of damaged and hostile files: none crashes, hangs, takes much memory, runs code, or is called our fault."""

import pytest

from hostile import HOSTILE
from mutations import BAD, FORMATS, list_cases, list_slice, run_cases, tell

pytestmark = pytest.mark.system


def check(cases, folder, capsys):
    num_cases = len(cases)
    found = list(run_cases(cases, folder))
    with capsys.disabled():
        print(f"\n{tell(found)}")
    assert len(found) == num_cases
    assert [case for case in found if case["ended"] not in ("fine", "refused")] == []
    # The engine damages what it says it does: most files can no longer be used, and some still can.
    ends = [case["ended"] for case in found]
    assert ends.count("refused") > num_cases / 2
    assert ends.count("fine") > num_cases / 50


def test_397_damaged_files(tmp_path, capsys):
    assert len(list_slice()) == 397
    check(list_slice(), tmp_path, capsys)


@pytest.mark.slow
def test_10_000_damaged_files(tmp_path, capsys):
    check(list_cases(10_000), tmp_path, capsys)


def test_10_000_cases_reach_every_file_made_by_hand():
    assert {(name, n) for name, made in HOSTILE.items() for n in range(len(made))} <= set(list_cases(10_000))
    assert {name for name, _ in list_slice()} == set(FORMATS)
    assert set(HOSTILE) <= set(FORMATS)
    assert "crash" in BAD
