"""Two checkouts side by side: python tests/golden/speed.py OLD/src NEW/src [--rounds 3] [--data FOLDER]

Each round runs both in processes of their own, in turn. A first run of each, which may compile, is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCN

import axiompath
from axiompath.selection import select

NUM_CHANGES, NUM_TARGETS, EPOCHS = 150, 1500, 60
DATA = Path(os.environ.get("AXIOMPATH_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def photo(folder: Path) -> tuple[Any, Any, Any]:
    """A trained GCN, Amazon Photo, and the same with as many edges removed as added."""
    held = np.load(folder / "amazon_photo.npz", allow_pickle=False)
    parts = (held["x_data"], held["x_indices"], held["x_indptr"])
    x = torch.from_numpy(sparse.csr_matrix(parts, shape=tuple(held["x_shape"])).toarray().astype(np.float32))
    x = x / x.sum(dim=1, keepdim=True).clamp(min=1)
    edges, y = held["edge_index"].astype(np.int64), torch.from_numpy(held["y"].astype(np.int64))
    rng, upper = np.random.default_rng(0), edges[:, edges[0] < edges[1]]
    kept = np.delete(upper, rng.choice(upper.shape[1], NUM_CHANGES, replace=False), axis=1)
    new = np.sort(rng.integers(0, len(y), size=(2, NUM_CHANGES)), axis=0)
    later = np.unique(np.concatenate([kept, new[:, new[0] < new[1]]], axis=1), axis=1)
    before, after = (Data(x=x, edge_index=torch.from_numpy(np.concatenate([e, e[::-1]], 1))) for e in (upper, later))
    return trained(before, y, 8), before, after


def karate() -> tuple[Any, Any, Any]:
    """The demonstration: member 8 of the karate club loses two friends and makes three."""
    before = KarateClub()[0]
    edges = {tuple(pair) for pair in before.edge_index.T.tolist()}
    edges ^= {pair for end in (33, 32, 1, 3, 13) for pair in ((8, end), (end, 8))}
    after = before.clone()
    after.edge_index = torch.tensor(sorted(edges)).T.contiguous()
    return trained(before, before.y, 4), before, after


def trained(data: Any, y: Any, num_classes: int) -> Any:
    torch.manual_seed(1)
    model = GCN(data.num_features, 16, 2, num_classes)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(data.x, data.edge_index), y).backward()
        optimiser.step()
    return model.eval()


def timed(run: Callable[[], Any], times: int = 1) -> list[float]:
    """Seconds by the clock and of processor time: the least of some runs."""
    found = []
    for _ in range(times):
        began, spent = time.perf_counter(), time.process_time()
        run()
        found.append((time.perf_counter() - began, time.process_time() - spent))
    return [min(column) for column in zip(*found, strict=True)]


def work(data: Path) -> dict[str, list[float]]:
    case, (model, before, after) = photo(data), karate()
    explainer = axiompath.Explainer(*case)
    moved = explainer.moved()
    targets = moved[moved.num_paths <= 20_000].target.tolist()[:NUM_TARGETS]
    rng = np.random.default_rng(0)
    shares, logits = 0.01 * rng.normal(size=(30_000, 6)) * rng.exponential(size=(30_000, 1)), rng.normal(size=6)
    club = axiompath.Explainer(model, before, after)
    return {
        "explainer of Photo": timed(lambda: axiompath.Explainer(*case).moved(), 2),
        "scan of Photo": timed(lambda: explainer.scan(min_kl=1e-5, workers=1, progress=False), 2),
        f"{len(targets)} attributed": timed(lambda: [len(a.paths) for a in explainer.attribute_many(targets)], 2),
        "select of 30,000": timed(lambda: select(shares, logits, logits + shares.sum(axis=0), 10), 5),
        "blame of the demo": timed(lambda: club.blame(8), 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    if not args.sources:
        print(json.dumps(work(args.data)))
        return
    runs: list[list[Any]] = [[], []]
    for turn in range(args.rounds + 1):
        for side, source in enumerate(args.sources[:2]):
            environment = os.environ | {"PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--data", str(args.data)]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            if turn:
                runs[side].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{'':22} {'old: clock, processor':>24} {'new: clock, processor':>24} {'ratio':>14}")
    for name in runs[0][0]:
        old, new = (np.min([run[name] for run in side], axis=0) for side in runs)
        sides = "  ".join(f"{one[0]:12.3f} {one[1]:9.3f} s" for one in (old, new))
        print(f"{name:22} {sides} {new[0] / old[0]:7.2f} {new[1] / old[1]:6.2f}")


if __name__ == "__main__":
    main()
