"""Steps -> a Scan of each, in a folder of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch_geometric.data import HeteroData

from ..errors import InputError
from ..files.named import take_names
from ..graphs.dated import REPEAT
from ..graphs.names import Names, read_names
from ..graphs.sequence import Snapshots
from ..graphs.snapshot import read_snapshot
from ..graphs.stored import StoredGraph
from ..outputs import AUTO
from ..readers import ModelCall
from ..scan.scan import Scan
from .steps import model_of_each, steps


def scan_sequence(
    model: Any,
    snapshots: Sequence[Any],
    out: str | Path,
    *,
    node_names: Names | None = None,
    class_names: Collection[str] | None = None,
    memory: str | float = "2GB",
    call: ModelCall | None = None,
    window: int | None = None,
    still: Any = REPEAT,
    output: str = AUTO,
    **options: Any,
) -> Iterator[Scan]:
    """Scan each step from one snapshot to the next, lazily and in order; `options` are those of `Explainer.scan`.

    Each step has its own folder in `out`. An interrupted sequence resumes. The model may be a list with one model per
    snapshot. If it looks back over a `window` of so many snapshots, each step leads from one window to the next;
    `still` is as for Explainer.
    """
    models = model_of_each(model, len(snapshots))
    folders = step_folders(out, len(snapshots) - (window or 1) + 1)
    names = snapshots.names if isinstance(snapshots, Snapshots) else None
    if node_names is not None:
        snapshots = take_names(snapshots).graphs  # numbered alike, as the names are
    if node_names is not None and not any(isinstance(snapshot, (StoredGraph, HeteroData)) for snapshot in snapshots):
        # Names in a row are of the rows of a snapshot, which need not be one of the two of each step.
        rows = [read_snapshot(data, f"snapshots[{i}]").node_ids for i, data in enumerate(snapshots)]
        node_names = read_names(node_names, rows)
    opened = steps(
        models, snapshots, names=names, window=window, node_names=node_names, class_names=class_names, memory=memory,
        call=call, still=still, output=output,
    )  # fmt: skip
    return (step.explainer.scan(folder, **options) for step, folder in zip(opened, folders, strict=True))


def step_folders(out: str | Path, num_snapshots: int) -> list[Path]:
    """Where the steps go: two snapshots into `out` itself, more into numbered folders below it."""
    if num_snapshots < 2:
        raise InputError(f"Expected two graphs or more, in order of time (got {num_snapshots}).")
    if num_snapshots == 2:
        return [Path(out)]
    return [Path(out) / f"step-{step:04d}" for step in range(1, num_snapshots)]
