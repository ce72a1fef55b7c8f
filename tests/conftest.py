"""Where the data sets are (AXIOMPATH_DATA, else a `shared/data` folder beside the repository), and a browser."""

import os
import shutil
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if "AXIOMPATH_DATA" not in os.environ and BESIDE.is_dir():
    os.environ["AXIOMPATH_DATA"] = str(BESIDE)


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
