"""The command line in a process of its own."""

import os
import signal
import subprocess
import sys


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "axiompath.cli", *map(str, arguments)], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options,
    )  # fmt: skip


def run(*arguments, columns=100, cwd=None, **environment):
    """The program in a process of its own, its output piped."""
    return subprocess.run(
        [sys.executable, "-m", "axiompath.cli", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, timeout=300, check=False,
        env={**os.environ, "COLUMNS": str(columns), "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip
