"""Files that lie, of every format: none ends the process, hangs, takes much memory or runs code."""

import json
import os
import subprocess
import sys

import pytest

from support.formats import FORMATS
from support.hostile import HOSTILE, NUM_FLIPS, cases
from support.repository import ROOT

pytestmark = pytest.mark.system
NAMES = [f"{name}: {word}" for name, word, _ in cases()]
NUM_BY_HAND = sum(map(len, HOSTILE.values()))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What became of each, in a process of its own."""
    tests = ROOT / "tests"
    run = subprocess.run(
        [sys.executable, tests / "support" / "hostile.py", tmp_path_factory.mktemp("hostile") / "seeds"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tests)},
    )  # fmt: skip
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(NAMES), f"ended with {run.returncode} at {NAMES[len(found)]}: {run.stderr[-2000:]}"
    return found


def test_no_file_does_harm(outcomes):
    assert [name for name, _, _ in outcomes] == NAMES
    assert [outcome for outcome in outcomes if outcome[1] not in ("fine", "refused")] == []


def test_every_file_made_by_hand_is_refused_in_one_sentence(outcomes):
    made = outcomes[:NUM_BY_HAND]
    assert [outcome for outcome in made if outcome[1] != "refused"] == []
    assert [outcome for outcome in made if "Expected" not in outcome[2]] == []
    assert [outcome for outcome in made if "\x1b" in outcome[2]] == []


def test_flipped_bits_are_mostly_found(outcomes):
    ends = [ended for _, ended, _ in outcomes[NUM_BY_HAND:]]
    assert len(ends) == NUM_FLIPS * len(FORMATS)
    assert ends.count("refused") > len(ends) / 2
    assert set(HOSTILE) <= set(FORMATS)
