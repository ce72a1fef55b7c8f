"""Where the data sets are: AXIOMPATH_DATA, else a `shared/data` folder beside the repository."""

import os
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
