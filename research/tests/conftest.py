"""Where the data sets are (AXIOMPATH_DATA, else a `shared/data` folder beside the repository), and the command line."""

import os
import sys
from pathlib import Path

import pytest

# Workers that share all cores wait for each other's threads: each keeps to one, before libraries count the cores.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    CORES = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {CORES[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % len(CORES)]})

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
if "AXIOMPATH_DATA" not in os.environ and BESIDE.is_dir():
    os.environ["AXIOMPATH_DATA"] = str(BESIDE)


@pytest.fixture(scope="session")
def data_root():
    root = os.environ.get("AXIOMPATH_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("no data sets here: set AXIOMPATH_DATA to the folder of the .npz files")
    return Path(root)


@pytest.fixture
def call(monkeypatch, capsys):
    """The command line within this process: exit code, stdout, stderr."""
    from research.cli import app as cli

    def call(*arguments):
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(sys, "argv", ["research", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            sys.exit(cli.main())
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out, shown.err

    return call
