"""Where the data sets are (AXIOMPATH_DATA, else a `shared/data` folder beside the repository), and a browser."""

import os
import shutil
import sys
from pathlib import Path

import pytest

# Workers that share all cores wait for each other's threads: each keeps to one, before libraries count the cores.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    CORES = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {CORES[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % len(CORES)]})

from support import effort

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if "AXIOMPATH_DATA" not in os.environ and BESIDE.is_dir():
    os.environ["AXIOMPATH_DATA"] = str(BESIDE)


def pytest_collection_modifyitems(items):
    """Whatever opens a browser is a check of the whole system; `make quick` runs few."""
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker(pytest.mark.system)
        if "demo" in item.fixturenames:
            item.add_marker(pytest.mark.long)
    if effort.FEW:
        items[:] = effort.pick_few(items)


@pytest.fixture(scope="session")
def data_root():
    root = os.environ.get("AXIOMPATH_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("no data sets here: set AXIOMPATH_DATA to the folder of the .npz files")
    return Path(root)


FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    found = os.environ.get("AXIOMPATH_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("AXIOMPATH_REQUIRE_BROWSER"):
            pytest.fail("AXIOMPATH_REQUIRE_BROWSER is set, and no Chromium was found")
        pytest.skip("no browser here: install chromium, or name one with AXIOMPATH_BROWSER")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def call(monkeypatch, capsys):
    """The command line within this process: exit code, stdout, stderr."""
    from axiompath.cli import app as cli

    def call(*arguments, columns=100):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["axiompath", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            sys.exit(cli.main())
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out, shown.err

    return call


@pytest.fixture(scope="module")
def open_page(browser):
    """A function that opens a file in a new tab, which notes every complaint and every request."""

    def open_page(path, **options):
        opened = browser.new_page(**options)
        opened.set_default_timeout(60_000)
        opened.complaints, opened.requests = [], []
        opened.on("console", lambda message: opened.complaints.append(message.text))
        opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.on("dialog", lambda dialog: (opened.complaints.append("dialog"), dialog.dismiss()))
        opened.on("request", lambda request: opened.requests.append(request.url))
        opened.goto(path if isinstance(path, str) else path.as_uri())
        return opened

    return open_page
