"""model + snapshots in order of time -> one Scan a step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..explain.case import open_case
from ..graphs.names import Names, read_names
from ..graphs.snapshot import read_snapshot
from ..graphs.stored import StoredGraph
from ..memory import parse_memory
from ..readers import ModelCall
from ..scan.scan import Scan, read_settings, scan_case


def scan_sequence(
    model: Any,
    snapshots: Sequence[Any],
    out: str | Path,
    *,
    node_names: Names | None = None,
    class_names: Collection[str] | None = None,
    memory: str | float = "2GB",
    call: ModelCall | None = None,
    **options: Any,
) -> Iterator[Scan]:
    """Scan each step from one snapshot to the next, lazily and in order; `options` are those of `Explainer.scan`.

    Each step has a folder of its own in `out`. A sequence that was stopped goes on where it was. `call` says how the
    model is called, as in Explainer.
    """
    folders = step_folders(out, len(snapshots))
    if node_names is not None and not any(isinstance(snapshot, StoredGraph) for snapshot in snapshots):
        # Names in a row are of the rows of a snapshot, which need not be one of the two of each step.
        rows = [read_snapshot(data, f"snapshots[{i}]").node_ids for i, data in enumerate(snapshots)]
        node_names = read_names(node_names, rows)

    settings = read_settings(parse_memory(memory), **options)

    def scan() -> Iterator[Scan]:
        for (before, after), folder in zip(pairwise(snapshots), folders, strict=True):
            case = open_case(model, before, after, node_names=node_names, class_names=class_names, call=call)
            yield scan_case(case, folder, settings)

    return scan()


def step_folders(out: str | Path, num_snapshots: int) -> list[Path]:
    """Where the steps go: two snapshots into `out` itself, more into numbered folders below it."""
    if num_snapshots < 2:
        raise InputError(f"Expected two graphs or more, in order of time (got {num_snapshots}).")
    if num_snapshots == 2:
        return [Path(out)]
    return [Path(out) / f"step-{step:04d}" for step in range(1, num_snapshots)]
