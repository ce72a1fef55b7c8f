"""The demo, run once."""

import pytest

from support.processes import run


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """What `axiompath demo` wrote, and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    result = run("demo", "--out", folder, columns=80)
    assert result.returncode == 0, result.stderr
    return folder, result


@pytest.fixture(scope="session")
def files(demo):
    folder = demo[0]
    return folder / "model", folder / "before.npz", folder / "after.npz"
