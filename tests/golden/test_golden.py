"""The quick part of the golden record: the answers are those that were recorded."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
def test_answers_are_those_recorded():
    if not (HERE / "answers.golden").is_file():
        pytest.skip("no record here: see tests/golden/README.md")
    command = [sys.executable, str(HERE / "record.py"), "--check", "--quick"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
