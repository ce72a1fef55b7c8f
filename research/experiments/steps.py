"""Is one edge at a time the same as all at once? Shares of paths by steps, in several orders, beside those of one shot.

The paper attributes the addition of one edge and says that several "can be decomposed into multiple steps of adding one
edge". A path's share by steps is the sum of what each step gives it. Only the edges in sight of a target move it, so
its steps are taken on its own neighbourhood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from axiompath.arrays import FloatArray, IntArray
from axiompath.change.comparison import find_change
from axiompath.explainer import Explainer
from axiompath.graphs.data_fields import to_torch_csr
from axiompath.graphs.snapshot import Snapshot, read_snapshot
from axiompath.network.layers import Network, run_network
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import walk_paths

from .fidelity import evolve_job, find_targets
from .job_parts import Job
from .trained import SEED

PathShares: TypeAlias = dict[tuple[int, ...], FloatArray]  # path -> [num_classes]
DRAWN = 3  # orders drawn at random, beside that of the list and its reverse
MOST_STEPS = 40  # a target that sees more new edges is left out, and counted


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What decides one target: its neighbourhood without the new edges, and these, both directions of each one step."""

    before: Data
    added: IntArray  # [num_steps, 2]: rows of the neighbourhood
    place: int  # row of the target


def run_steps(
    job: Job, *, max_targets: int = 30, root: str | Path | None = None, cache: str | Path | None = None
) -> pd.DataFrame:
    """A row for each target and order: how far shares by steps are from those of one shot, and complete."""
    model, before, after = evolve_job(job, root, cache)
    explainer = Explainer(model, before, after)
    targets = find_targets(explainer).target.to_numpy()
    if len(targets) > max_targets:
        targets = np.sort(np.random.default_rng(SEED).choice(targets, max_targets, replace=False))
    rows, skipped = [], 0
    for target in targets.tolist():
        seen = look_around(before, after, target, len(model.convs))
        if len(seen.added) > MOST_STEPS:
            skipped += 1
            continue
        rows += [{**asdict(job), "target": target, **row} for row in compare_orders(explainer.change.network, seen)]
    frame = pd.DataFrame(rows)
    frame.attrs = {"targets": len(targets) - skipped, "skipped": skipped}
    return frame


def look_around(before: Data, after: Data, target: int, hops: int) -> Surroundings:
    """The nodes and edges that a sum over neighbours, so many times, lets the target see."""
    nodes, edges, place, _ = k_hop_subgraph(target, hops, after.edge_index, relabel_nodes=True)
    snapshot = read_snapshot(before, "before")
    size = len(nodes)
    known = snapshot.edge_index[0] * snapshot.num_nodes + snapshot.edge_index[1]
    whole = nodes[edges].numpy()
    old = np.isin(whole[0] * snapshot.num_nodes + whole[1], known)
    pairs = np.unique(np.sort(edges.numpy()[:, ~old], axis=0), axis=1).T
    x = snapshot.x[nodes.numpy()]
    dense = torch.from_numpy(x) if isinstance(x, np.ndarray) else to_torch_csr(x, torch.float64)
    assert dense.shape[0] == size
    return Surroundings(Data(x=dense, edge_index=edges[:, torch.from_numpy(old)]), pairs, int(place))


def compare_orders(network: Network, seen: Surroundings) -> Iterator[dict[str, object]]:
    """One shot against steps, in the order of the list, its reverse, and some drawn at random."""
    count = len(seen.added)
    once = attribute_steps(network, seen, [np.arange(count)])
    rng = np.random.default_rng(SEED)
    orders = {"listed": np.arange(count), "reversed": np.arange(count)[::-1]}
    orders |= {f"drawn {i + 1}": rng.permutation(count) for i in range(DRAWN)}
    whole = sum(once.values(), np.zeros(network.num_classes))
    size = sum(np.abs(share).sum() for share in once.values())
    for name, order in orders.items():
        found = attribute_steps(network, seen, [order[i : i + 1] for i in range(count)])
        off = sum(np.abs(share - found.get(path, 0.0)).sum() for path, share in once.items())
        off += sum(np.abs(share).sum() for path, share in found.items() if path not in once)
        yield {
            "order": name,
            "num_steps": count,
            "num_paths": len(once),
            "difference": float(off / size) if size else 0.0,
            "rank_correlation": _correlate(once, found),
            "incomplete": float(np.abs(sum(found.values(), np.zeros_like(whole)) - whole).max()),
        }


def attribute_steps(network: Network, seen: Surroundings, steps: list[IntArray]) -> PathShares:
    """Shares of the target's paths, summed over steps that each add some of the new edges."""
    total: PathShares = {}
    held = seen.before.edge_index
    low = _snapshot(seen, held)
    low_pass = run_network(network, low)
    for step in steps:
        pairs = torch.from_numpy(seen.added[step].T.copy())
        held = torch.cat([held, pairs, pairs.flip(0)], dim=1)
        high = _snapshot(seen, held)
        high_pass = run_network(network, high)
        change = find_change(network, low, high, low_pass, high_pass)
        found = walk_paths(change, np.array([seen.place]))
        shares = attribute_paths(change, found).contributions
        for path, share in zip(map(tuple, found.paths.tolist()), shares, strict=True):
            total[path] = total[path] + share if path in total else share
        low, low_pass = high, high_pass
    return total


def summarise_steps(table: pd.DataFrame) -> pd.DataFrame:
    """By data set and depth: how far orders are from one shot and from each other, where a target sees several edges.

    A target's difference is the mean over orders; the error is the standard error over targets.
    """
    rows = []
    for (name, layers), part in table.groupby(["dataset", "layers"], sort=False):
        targets = part[part.num_steps > 1].groupby(["repeat", "target"], sort=False)
        differences = targets.difference.mean()
        rows.append(
            {
                "dataset": name,
                "layers": layers,
                "targets": part.groupby(["repeat", "target"]).ngroups,
                "several_edges": len(differences),
                "difference_mean": differences.mean(),
                "difference_error": differences.sem(),
                "difference_largest": targets.difference.max().max(),
                "between_orders": (targets.difference.max() - targets.difference.min()).mean(),
                "least_rank_correlation": targets.rank_correlation.min().min(),
                "incomplete": part.incomplete.max(),
            }
        )
    return pd.DataFrame(rows)


def _snapshot(seen: Surroundings, edges: torch.Tensor) -> Snapshot:
    return read_snapshot(Data(x=seen.before.x, edge_index=edges), "after")


def _correlate(once: PathShares, found: PathShares) -> float:
    """Spearman's, of what each path has of all logits together, in size."""
    sizes = [[float(np.abs(shares.get(path, np.zeros(1))).sum()) for path in once] for shares in (once, found)]
    if len(once) < 2 or min(np.ptp(size) for size in sizes) == 0:
        return 1.0
    return float(stats.spearmanr(*sizes).statistic)
