"""Explainer: model + before + after, and every question one can ask of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from .activations import FloatArray, IntArray
from .attribution import Attribution, attribute_paths, estimate_bytes, split_by_target
from .change import find_change
from .paths import count_paths, walk_paths
from .readers import read_network
from .snapshot import align_snapshots, read_snapshot

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

# Larger batches are no faster (their multipliers leave the cache) and take more memory.
BATCH_BYTES = 64e6


class Explainer:
    """Explains how a trained GNN's predictions changed from one snapshot of a graph to another.

    Nodes are named by their row, or by `n_id` where both graphs carry it. The model is copied, never altered.
    """

    def __init__(self, model: Any, before: Any, after: Any, *, memory: str | float = "2GB") -> None:
        """Read and check everything; `memory` bounds what walking the paths may take at a time."""
        self.memory = parse_memory(memory)
        snapshots = align_snapshots(read_snapshot(before, "before"), read_snapshot(after, "after"))
        network, *passes = read_network(model, *snapshots, before, after)
        self.change = find_change(network, *snapshots, *passes)

    @cached_property
    def num_paths(self) -> IntArray | NDArray[np.object_]:
        """Number of altered paths of every node, counted without walking them."""
        return count_paths(self.change)

    @cached_property
    def _bytes(self) -> FloatArray:
        return estimate_bytes(self.change)

    def changes(self) -> pd.DataFrame:
        """Every node that an altered path reaches: its classes, KL(after || before) and number of altered paths.

        Largest KL first. Nodes that exist in one snapshot alone have no change of prediction and are left out.
        """
        change = self.change
        nodes = np.flatnonzero((self.num_paths > 0) & change.before.present & change.after.present)
        log_before = special.log_softmax(change.before_pass.logits[nodes], axis=1)
        log_after = special.log_softmax(change.after_pass.logits[nodes], axis=1)
        kl = np.maximum((np.exp(log_after) * (log_after - log_before)).sum(axis=1), 0.0)
        frame = pd.DataFrame(
            {
                "node": change.before.node_ids[nodes],
                "class_before": log_before.argmax(axis=1),
                "class_after": log_after.argmax(axis=1),
                "kl": kl,
                "num_paths": self.num_paths[nodes],
            }
        )
        return frame.sort_values("kl", ascending=False, kind="stable", ignore_index=True)

    def attribute(self, target: int) -> Attribution:
        """Every altered path of one node and its share of the change of every logit."""
        return next(self.attribute_many([target]))

    def attribute_many(self, targets: Iterable[int]) -> Iterator[Attribution]:
        """The same for many nodes, in order, walked in batches that fit into the memory budget."""
        rows = self._rows_of(targets)
        for i in np.flatnonzero(self._bytes[rows] > self.memory)[:1]:
            needed = self._bytes[rows[i]] / 1e9
            raise MemoryError(
                f"Node {self.change.before.node_ids[rows[i]]} has {self.num_paths[rows[i]]:,} altered paths, about "
                f"{needed:.1f} GB to walk, more than the budget of {self.memory / 1e9:.1f} GB; "
                f'pass `memory="{np.ceil(needed):.0f}GB"` to Explainer, or explain a node with fewer paths.'
            )
        return self._attribute_batches(rows)

    def _attribute_batches(self, rows: IntArray) -> Iterator[Attribution]:
        for batch in self._batches(rows):
            found = walk_paths(self.change, batch)
            yield from split_by_target(self.change, found, attribute_paths(self.change, found))

    def _batches(self, rows: IntArray) -> Iterator[IntArray]:
        """Consecutive targets that together fit into the budget; at least one a batch."""
        limit = min(self.memory, BATCH_BYTES)
        total = np.concatenate([[0.0], np.cumsum(self._bytes[rows])])
        start = 0
        while start < len(rows):
            stop = max(start + 1, int(np.searchsorted(total, total[start] + limit, side="right")) - 1)
            yield rows[start:stop]
            start = stop

    def _rows_of(self, targets: Iterable[int]) -> IntArray:
        """Rows of the aligned snapshots that these nodes have."""
        wanted = np.asarray(list(targets))
        if wanted.size == 0:
            return np.zeros(0, dtype=np.int64)
        if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
            raise TypeError(f"Expected targets to be node numbers, integers (got {wanted.dtype}).")
        ids = self.change.before.node_ids
        order = np.argsort(ids, kind="stable")
        rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
        for node in wanted[ids[rows] != wanted][:1]:
            raise ValueError(f"Expected a target among the {len(ids):,} nodes {ids.min()} to {ids.max()} (got {node}).")
        for snapshot, name in ((self.change.before, "before"), (self.change.after, "after")):
            for node in wanted[~snapshot.present[rows]][:1]:
                raise ValueError(
                    f"Expected a target that exists in both snapshots (got {node}, which `{name}` does not have); "
                    "a prediction that was never made cannot have changed."
                )
        return rows.astype(np.int64)


def parse_memory(memory: str | float) -> float:
    """Bytes in "2GB", "500 MB" or a plain number of bytes."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([KMGT]?B?)\s*", str(memory), re.IGNORECASE)
    try:
        size = float(match[1]) * UNITS[match[2].upper()] if match else 0.0
    except (ValueError, KeyError):
        size = 0.0
    if size <= 0:
        raise ValueError(f'Expected a memory budget such as "2GB" or a number of bytes (got {memory!r}).')
    return size
