"""On real daily data no dated change is reported on a second day; compared by position, most are."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import axiompath
from support.windows import CELLS, WIDTH

SIZE, DAYS, REGIONS = 3, 6, 129

pytestmark = pytest.mark.filterwarnings("ignore::axiompath.errors.Notice")


@pytest.fixture(scope="module")
def days(data_root):
    held = np.load(data_root / "england_covid.npz")
    found = []
    for day in range(20, 20 + DAYS):
        here = held["edge_time"] == day
        x = np.stack([np.log1p(held["cases"][day - lag]) for lag in range(3)], axis=1)  # as many as the cell takes
        edges = torch.from_numpy(held["edge_index"][:, here].astype(np.int64))
        weight = torch.from_numpy(np.log1p(held["edge_weight"][here].astype(np.float64)))
        data = Data(x=torch.from_numpy(x).double(), edge_index=edges, edge_weight=weight, time=day)
        found.append(data.coalesce())
    return found


def test_no_dated_change_is_reported_twice(days):
    torch.manual_seed(0)
    model = axiompath.unroll(CELLS["lstm"][0](), head=nn.Linear(WIDTH, 1), state=(WIDTH, WIDTH)).double()
    reported = {True: Counter(), False: Counter()}
    for first in range(DAYS - SIZE):
        windows = days[first : first + SIZE], days[first + 1 : first + 1 + SIZE]
        after = np.array([data.time for data in windows[1]])
        for by_date, dates in ((True, None), (False, (range(SIZE), range(SIZE)))):
            explainer = axiompath.Explainer(model, *windows, output="value", dates=dates, paths=False)
            listed = explainer.changes()
            date = listed.date.to_numpy() if by_date else after[listed.date.astype(int)].astype(str)
            ends = listed[["src", "dst"]].fillna(-1).to_numpy()
            for when, (src, dst) in zip(date.tolist(), ends.tolist(), strict=True):
                reported[by_date][when, src, dst] += 1
    assert len(reported[True]) > 1000
    assert set(reported[True].values()) == {1}
    inner = [number for (when, *_), number in reported[False].items() if int(when) == 20 + SIZE]
    assert np.mean(inner) > 2  # of the day that every window on its way has
