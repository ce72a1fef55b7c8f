"""Real series -> what moves the forecasts of models that look back: legs, dated changes, undo, and the choice of still.

    python -m research.experiments.windows --root ../shared/data

Three series, each with a small recurrent network that is trained on its first three quarters and beside it the naive
forecast, that the next step is as the last; then a table of explanations of random forecasts of the last quarter.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import axiompath
from axiompath.errors import Notice

EPOCHS, WIDTH = 40, 16
NINE_TENTHS = 0.9


class Forecaster(nn.Module):
    """What the last step showed, plus what a GRU over graph convolutions of all steps adds to it."""

    def __init__(self, num_features: int, width: int = WIDTH) -> None:
        super().__init__()
        self.conv, self.cell, self.head = (
            GCNConv(num_features, width),
            nn.GRUCell(2 * width, width),
            nn.Linear(width, 1),
        )
        self.own = nn.Linear(num_features, width)

    def forward(self, window: list[Data]) -> torch.Tensor:
        """The next value of the first feature of every node."""
        h = None
        for data in window:
            seen = torch.cat([self.conv(data.x, data.edge_index, data.edge_weight), self.own(data.x)], dim=1).relu()
            h = self.cell(seen, h)
        return window[-1].x[:, :1] + self.head(h)


@dataclass(frozen=True)
class Series:
    """Snapshots in order, and how a forecast is told in the units of the data."""

    name: str
    days: list[Data]  # x[:, 0] is what is forecast, one step ahead
    size: int  # steps of a window
    period: int  # after which a series resembles itself: a week, a day, a year
    threshold: float  # of the forecast, in the units of x, that somebody watches


def england_covid(root: Path) -> Series:
    """Reported cases in 129 regions, and how many people moved between them, day by day."""
    held = np.load(root / "england_covid.npz")
    x = np.log1p(held["cases"])
    return Series("england_covid", list(_days(x[..., None], held)), 7, 7, float(np.log1p(20)))


def twitter_tennis(root: Path) -> Series:
    """Mentions among 1,000 accounts, hour by hour."""
    held = np.load(root / "twitter_tennis_rg17.npz")
    x = np.concatenate([np.log1p(held["mentions"])[..., None], np.log1p(held["x"][..., :1])], axis=-1)
    return Series("twitter_tennis_rg17", list(_days(x, held)), 4, 24, float(np.log1p(10)))


def chickenpox(root: Path) -> Series:
    """Cases in 20 counties, week by week; their neighbourhood stays as it is."""
    held = np.load(root / "chickenpox.npz")
    x = np.sqrt(np.maximum(held["cases"] - min(held["cases"].min(), 0), 0))
    edges = torch.from_numpy(held["edge_index"].astype(np.int64))
    days = [
        Data(
            x=torch.from_numpy(one[:, None]).float(),
            edge_index=edges,
            edge_weight=torch.ones(edges.shape[1]),
            time=week,
        )
        for week, one in enumerate(x)
    ]
    return Series("chickenpox", days, 4, 52, float(np.quantile(x, 0.9)))


def _days(x: Any, held: Any) -> Iterator[Data]:
    weight = np.log1p(held["edge_weight"]).astype(np.float32)
    for day, one in enumerate(x):
        here = held["edge_time"] == day
        edges = torch.from_numpy(held["edge_index"][:, here].astype(np.int64))
        found = Data(x=torch.from_numpy(one).float(), edge_index=edges, edge_weight=torch.from_numpy(weight[here]))
        found = found.coalesce()
        found.time = day
        yield found


def windows_of(series: Series, last: int) -> list[Data]:
    """The window whose last snapshot has this place."""
    return series.days[last - series.size + 1 : last + 1]


def train(series: Series, seed: int = 0) -> Forecaster:
    """Least squares on windows of the first three quarters."""
    torch.manual_seed(seed)
    model = Forecaster(series.days[0].x.shape[1])
    with torch.no_grad():
        model.head.weight.mul_(0.1)
        model.head.bias.zero_()
    rate = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4)
    places = np.arange(series.size - 1, first_tested(series) - 1)
    rng = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        for last in rng.permutation(places).tolist():
            rate.zero_grad()
            error = model(windows_of(series, last)) - series.days[last + 1].x[:, :1]
            error.square().mean().backward()
            rate.step()
    return model.double().eval()


def first_tested(series: Series) -> int:
    """The first snapshot that training never saw."""
    return 3 * len(series.days) // 4


def score(series: Series, model: nn.Module) -> tuple[float, float]:
    """Root mean squared errors of the model and of the naive forecast, on the last quarter."""
    errors: list[tuple[float, float]] = []
    for last in range(first_tested(series) - 1, len(series.days) - 1):
        window, then = [in_double(one) for one in windows_of(series, last)], series.days[last + 1].x[:, :1].double()
        with torch.no_grad():
            errors.append(
                (float((model(window) - then).square().mean()), float((window[-1].x[:, :1] - then).square().mean()))
            )
    ours, naive = np.sqrt(np.mean(errors, axis=0)).tolist()
    return ours, naive


def in_double(data: Data) -> Data:
    """As the model of float64 takes it."""
    found = data.clone()
    found.x, found.edge_weight = data.x.double(), data.edge_weight.double()
    return found


@dataclass(frozen=True)
class Findings:
    """What was measured of one series."""

    name: str
    model_error: float
    naive_error: float
    num_forecasts: int
    time: float  # mean absolute size of each leg, in the units of the data
    news: float
    news_larger: float  # share of forecasts whose news is larger than time
    news_larger_of_most_moved: float  # the same of the tenth that moved the most
    median_changes: float  # rows of the timeline, largest first, that account for nine tenths of the news
    median_things: float  # of how many
    still_correlation: float  # of the news between still="repeat" and the snapshot one period earlier
    crossings: int  # of the threshold
    undone: int  # crossings that undoing changes took back
    by_time: int  # crossings that time alone made
    median_undo: float  # how many changes that took
    completeness: float  # largest difference between all shares and the change


def measure(series: Series, model: nn.Module, *, steps: int, targets: int, undos: int, seed: int = 0) -> Findings:
    """Explain random forecasts of the last quarter."""
    rng, days = np.random.default_rng(seed), [in_double(one) for one in series.days]
    double = Series(series.name, days, series.size, series.period, series.threshold)
    legs, counts, others, complete, crossed = list[Any](), list[Any](), list[Any](), 0.0, list[Any]()
    places = rng.choice(
        np.arange(max(first_tested(series), series.size + series.period), len(days)), steps, replace=False
    )
    for last in sorted(places.tolist()):
        pair = windows_of(double, last - 1), windows_of(double, last)
        explainer = axiompath.Explainer(model, *pair, output="value")
        moved = explainer.moved()
        legs.append(moved[["time", "news"]].to_numpy())
        for target in rng.choice(moved.target.to_numpy(), min(targets, len(moved)), replace=False).tolist():
            found = explainer.timeline(target)
            complete = max(complete, found.completeness)
            counts.append(count_needed(found.rows[found.rows.leg == "news"].share.to_numpy()))
        waited = axiompath.Explainer(model, *pair, output="value", still=[days[last - series.period]], paths=False)
        other = waited.moved().set_index("target").news.reindex(moved.target).to_numpy()
        others.append(np.stack([moved.news.to_numpy(), other]))
        low, high = moved.value_before.to_numpy(), moved.value_after.to_numpy()
        risen = moved.target[(low < series.threshold) & (high >= series.threshold)].tolist()
        for target in risen[: max(undos - len(crossed), 0)]:
            crossed.append(explainer.undo(target, below=series.threshold, seconds=10.0))
    sizes, news = np.abs(np.concatenate(legs)), np.concatenate(others, axis=1)
    news = news[:, np.isfinite(news).all(axis=0)]
    total = np.abs(np.concatenate(legs).sum(axis=1))
    most = total >= np.quantile(total, 0.9)
    larger = sizes[:, 1] > sizes[:, 0]
    undone = [one for one in crossed if one.restored]
    needed = np.array(counts)
    return Findings(
        series.name, *score(series, model), len(sizes), *sizes.mean(axis=0).tolist(), float(larger.mean()),
        float(larger[most].mean()), *np.median(needed, axis=0).tolist(), float(np.corrcoef(news)[0, 1]), len(crossed),
        len(undone), sum("time alone" in str(one) for one in crossed),
        float(np.median([len(one.changes) for one in undone])) if undone else float("nan"), complete,
    )  # fmt: skip


def count_needed(shares: Any) -> tuple[int, int]:
    """How many, in the direction of their sum and largest first, make nine tenths of it; and of how many."""
    if not len(shares):  # no news reached it
        return 0, 0
    total = shares.sum()
    towards = np.sort(shares * np.sign(total))[::-1]
    return int(np.argmax(np.cumsum(towards) >= NINE_TENTHS * abs(total))) + 1, len(shares)


SERIES: dict[str, Callable[[Path], Series]] = {
    "england_covid": england_covid,
    "twitter_tennis_rg17": twitter_tennis,
    "chickenpox": chickenpox,
}


def main() -> None:
    """Every series, as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--series", nargs="*", default=list(SERIES))
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--targets", type=int, default=8)
    parser.add_argument("--undos", type=int, default=4)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", Notice)
    for name in asked.series:
        series = SERIES[name](asked.root)
        found = measure(series, train(series), steps=asked.steps, targets=asked.targets, undos=asked.undos)
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
