"""Compiled loops read and write only what is theirs: a small run of all of them with every index checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow  # two minutes of compiling; the gate runs it besides
def test_no_compiled_loop_leaves_its_arrays(tmp_path):
    # A cache of its own: what is compiled without the check would be taken from the usual one, and the other way round.
    # Unoptimised code is checked just as well and compiles in a fraction of the time.
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"}
    script = Path(__file__).parent / "support" / "bounds_checked.py"
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
