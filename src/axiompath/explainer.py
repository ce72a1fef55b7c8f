"""Explainer: model + before + after, and every question one can ask of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, track
from torch_geometric.data import Data

from .arrays import FloatArray, IntArray
from .change.comparison import find_change
from .change.region import Region, cut_differing, cut_region, cut_rings, find_sight
from .errors import InputError, TooLarge, WrongKind
from .explain.answer import Choice, Question, choose_batch, choose_budgets
from .explain.edges import replay_edges
from .explain.explanation import Caption, Explanation, with_caption
from .explain.hops import hops_of
from .explain.moved import find_moved
from .explain.replay import exist_in_either, replay_paths
from .graphs.changes import list_changes, snapshot_edges
from .graphs.names import Names, read_class_names, read_names
from .graphs.pair import StoredPair, match_stored
from .graphs.sample import dtype_of, sample_pair, to_data
from .graphs.snapshot import align_snapshots, read_snapshot
from .graphs.stored import StoredGraph
from .memory import BATCH_BYTES, cut_runs, parse_memory
from .network.digests import digest_graph, digest_network
from .network.update import run_pair
from .origin import RELEASE, Origin
from .paths.attribution import Attribution, attribute_paths, estimate_bytes, split_by_target
from .paths.walk import count_paths, walk_paths
from .readers import ModelCall, read_network, read_samples
from .scan import Scan, Thresholds, run_aside, run_scan
from .selection import DEFAULT_METHOD


class Explainer:
    """Explains how a trained GNN's predictions changed from one snapshot of a graph to another.

    Nodes are named by their row, or by `n_id` where both graphs carry it. The model is copied, never altered.
    Two stored graphs (`axiompath.open_graph`) may be larger than memory: only what the change reaches is computed.
    """

    def __init__(
        self,
        model: Any,
        before: Any,
        after: Any,
        *,
        memory: str | float = "2GB",
        node_names: Names | None = None,
        class_names: Collection[str] | None = None,
        call: ModelCall | None = None,
    ) -> None:
        """Read and check everything; `memory` bounds what walking the paths may take at a time.

        A mapping of names goes by node number, names in a row (a list, an array, a Series) by the snapshot's rows.
        The model is called with the fields of Data that its forward's arguments are named after, or with the whole
        Data where it takes one object; `call=lambda model, data: ...` says it otherwise.
        """
        self.memory = parse_memory(memory)
        self._stored: StoredPair | None = None
        self._region: Region | None = None
        if isinstance(before, StoredGraph) != isinstance(after, StoredGraph):
            raise WrongKind("Expected two stored graphs or two Data objects (got one of each); convert the other, too.")
        if isinstance(before, StoredGraph):
            self._stored = match_stored(before, after)
            network, self.fields = read_samples(model, *sample_pair(self._stored), call)
            self._region = cut_region(network, self._stored)
            snapshots = self._region.before, self._region.after
            passes = list(run_pair(network, *snapshots))
            self.class_names = read_class_names(class_names) or before.class_names or after.class_names
            numbers = [] if node_names is None else [self._stored.before.numbers, self._stored.after.numbers]
            self.node_names = read_names(node_names, numbers) or self._stored.names(snapshots[0].node_ids)
        else:
            given = read_snapshot(before, "before"), read_snapshot(after, "after")
            self.class_names = read_class_names(class_names)
            self.node_names = read_names(node_names, [snapshot.node_ids for snapshot in given])
            read = read_network(model, *align_snapshots(*given), before, after, call)
            network, self.fields, snapshots = read.network, read.fields, (read.before, read.after)
            passes = [read.before_pass, read.after_pass]
        self.change = find_change(network, *snapshots, *passes)
        if self.class_names and len(self.class_names) != network.num_classes:
            raise InputError(
                f"Expected a name for each of the {network.num_classes} classes (got {len(self.class_names)} names)."
            )
        self._model, self._before, self._after, self._call = model, before, after, call

    @property
    def num_nodes(self) -> int:
        """Nodes of both graphs together, whether the change reaches them or not."""
        return self.change.num_nodes if self._region is None else self._region.num_nodes

    @property
    def num_shared_nodes(self) -> int:
        """Nodes that both graphs have: those whose prediction could have changed."""
        if self._stored is not None:
            return self._stored.num_nodes - len(self._stored.numbers_of_one)
        return int((self.change.before.present & self.change.after.present).sum())

    @cached_property
    def _graphs(self) -> tuple[Data, Data]:
        """`before` and `after` as the user gave them; of stored graphs, the part that the change reaches."""
        if self._region is None:
            return self._before, self._after
        sides = (self._region.before, self._before), (self._region.after, self._after)
        before, after = (to_data(part, dtype_of(graph.x)) for part, graph in sides)
        return before, after

    @cached_property
    def num_paths(self) -> IntArray | NDArray[np.object_]:
        """Number of altered paths of every node, counted without walking them."""
        return count_paths(self.change)

    @cached_property
    def num_bytes(self) -> FloatArray:
        """Memory that explaining each node takes at most."""
        return estimate_bytes(self.change, self.num_paths)

    @cached_property
    def origin(self) -> Origin:
        """What every record of this Explainer is of: the release, the model and both graphs, by their digests."""
        stored = None if self._stored is None else (self._before, self._after)
        before, after = stored or (self.change.before, self.change.after)
        digests = {
            "model": digest_network(self.change.network),
            "before": digest_graph(before),
            "after": digest_graph(after),
        }
        return Origin(RELEASE, digests)

    def moved(self) -> pd.DataFrame:
        """Every node that an altered path reaches: its classes, KL(after || before) and number of altered paths.

        Columns: target, name, class_before, class_after (and their names where classes have any), kl, num_paths;
        largest KL first. Nodes that exist in one snapshot alone have no change of prediction and are left out.
        """
        return find_moved(self.change, self.num_paths, self.node_names, self.class_names).drop(columns="row")

    def changes(self, *, directed: bool = False, open_nodes: bool = False) -> pd.DataFrame:
        """What happened to the graph, one row a change: id, kind, src and dst with their names, both weights.

        Kinds: node added, node removed, features changed, edge added, edge removed, edge reweighted. Where every edge
        of both graphs has one back, the two directions are one change, unless `directed`. A node that comes or goes is
        one change with its edges (`num_edges`); with `open_nodes` these have rows of their own. Ids count the rows of
        this very call, ordered by kind, then by src and dst.
        """
        if self._stored is None:
            snapshots, names = (self.change.before, self.change.after), self.node_names
            graphs = [snapshot_edges(snapshot) for snapshot in snapshots]
        else:
            snapshots = cut_differing(self._stored)
            names = {**self._stored.names(snapshots[0].node_ids), **self.node_names}
            graphs = [side.pieces() for side in (self._stored.before, self._stored.after)]
        return list_changes(snapshots, graphs, names, directed=directed, open_nodes=open_nodes)

    def attribute(self, target: int) -> Attribution:
        """Every altered path of one node and its share of the change of every logit."""
        return next(self.attribute_many([target]))

    def attribute_many(self, targets: Iterable[int]) -> Iterator[Attribution]:
        """The same for many nodes, in order, walked in batches that fit into the memory budget."""
        rows = self._walkable(targets)

        def attribute() -> Iterator[Attribution]:
            for batch in self._batches(rows):
                found = walk_paths(self.change, batch)
                shares = attribute_paths(self.change, found)
                for one in split_by_target(self.change, found, shares):
                    yield replace(one, node_names=self.node_names, class_names=self.class_names)
                del found, shares  # before the next batch is walked

        return attribute()

    def explain(
        self,
        target: int,
        budget: int = 10,
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        *,
        at_most: bool = False,
    ) -> Explanation:
        """The `budget` paths that explain the change of one node best, and how well they do.

        Methods: convex, exact, linear, topk, deeplift, gnnlrp, grad. Objectives: sufficiency (the paths carry `before`
        to `after`), necessity (`after` without them is `before`). With at_most, fewer paths if fewer serve better.
        """
        question = Question(budget, method, objective, at_most)
        return next(self._explain_batches(self._walkable([target]), question))

    def explain_many(
        self,
        targets: Iterable[int],
        budget: int = 10,
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        *,
        at_most: bool = False,
        progress: bool = True,
    ) -> Iterator[Explanation]:
        """The same for many nodes, in order and lazily, with a progress bar."""
        question = Question(budget, method, objective, at_most)
        rows = self._walkable(targets)
        explanations = self._explain_batches(rows, question)
        if not progress:
            return explanations
        return iter(track(explanations, description="Explaining", total=len(rows), transient=True))

    def scan(
        self,
        out: str | Path | None = None,
        budget: int = 10,
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        *,
        at_most: bool = False,
        min_kl: float = 1e-3,
        only_flips: bool = False,
        workers: int | None = None,
        memory: str | float | None = None,
        engine: str = "local",
        ray_address: str | None = None,
        progress: bool = True,
    ) -> Scan:
        """Explain every node whose class changed, or whose KL is at least `min_kl`; with `only_flips` the former alone.

        Results are written to the folder `out` in parts (without one, to a temporary folder that goes with the Scan); a
        scan that was stopped goes on there, and the same scan always writes the same bytes. Engines: local (processes
        on this machine, one a core or as many as `workers` says) and ray. `memory` bounds what all workers on this
        machine take together beside the graphs; without it, that of the Explainer does.
        """
        question = Question(budget, method, objective, at_most)
        thresholds = Thresholds(min_kl, only_flips)
        budgeted = self.memory if memory is None else parse_memory(memory)
        with Progress(console=Console(stderr=True), transient=True, disable=not progress) as bar:
            task = bar.add_task("Scanning", total=None)

            def run(folder: Path) -> Scan:
                return run_scan(
                    self.change,
                    self.num_paths,
                    self.num_bytes,
                    question,
                    thresholds,
                    folder,
                    memory=budgeted,
                    workers=workers,
                    engine=engine,
                    ray_address=ray_address,
                    caption=Caption(self.origin, self.node_names, self.class_names),
                    report=lambda done, total: bar.update(task, completed=done, total=total),
                )

            return run_aside(run) if out is None else run(Path(out))

    def frontier(
        self,
        target: int,
        budgets: Sequence[int],
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        *,
        at_most: bool = False,
    ) -> list[Explanation]:
        """One Explanation a budget, each solved from where the one before it ended."""
        questions = [Question(budget, method, objective, at_most) for budget in budgets]
        batch = self._walkable([target])
        found = walk_paths(self.change, batch)
        shares = attribute_paths(self.change, found)
        return self._named(choose_budgets(self.change, found, shares, questions))

    def replay(self, target: int, paths: Any, *, add: bool = False) -> FloatArray:
        """Logits [num_classes] of the target on `after` with these paths undone; or on `before` with them added."""
        (row,) = self._rows_of([target])
        chosen = self._path_rows(paths, int(row))
        job = np.zeros(len(chosen), dtype=np.int64)
        logits = replay_paths(self.change, np.array([row]), job, chosen, add=add)
        return np.asarray(logits[0])

    def replay_edges(self, target: int, paths: Any, *, add: bool = False) -> FloatArray:
        """Logits [num_classes] that the user's own model gives the target on a real graph: `after` with the edges of
        these paths put back to what they were in `before`; or `before` with them as they are in `after`."""
        (row,) = self._rows_of([target])
        chosen = self._path_rows(paths, int(row))
        steps = np.where(chosen < 0, -1, self.change.before.node_ids[chosen])
        before, after = self._before, self._after
        if self._stored is not None:
            before, after = self._surroundings(target)
        base, other = (before, after) if add else (after, before)
        hops, weights = hops_of(self.change.network), self.fields.weights
        return replay_edges(self._model, base, other, target, steps, hops, weights, self._call)

    def _explain_batches(self, rows: IntArray, question: Question) -> Iterator[Explanation]:
        for batch in self._batches(rows):
            found = walk_paths(self.change, batch)
            shares = attribute_paths(self.change, found)
            yield from self._named(choose_batch(self.change, found, shares, question))
            del found, shares

    def _surroundings(self, target: int) -> tuple[Data, Data]:
        """All of two stored graphs that decides the model's logits of one node, one ring beyond the hops included."""
        assert self._stored is not None
        if find_sight(self.change.network) is None:
            start, depth = np.ones(self._stored.num_nodes, dtype=np.bool_), 0
        else:
            start, depth = np.arange(self._stored.num_nodes) == target, self.change.network.num_hops
        before, after = cut_rings(self._stored, start, depth, depth)
        return to_data(before, dtype_of(self._before.x)), to_data(after, dtype_of(self._after.x))

    def _named(self, choices: list[Choice]) -> list[Explanation]:
        explanations = [choice.to_explanation(self.change, *self._graphs) for choice in choices]
        caption = Caption(self.origin, self.node_names, self.class_names)
        return [with_caption(explanation, caption) for explanation in explanations]

    def _walkable(self, targets: Iterable[int]) -> IntArray:
        """Rows of these targets, each checked to fit into the memory budget on its own."""
        rows = self._rows_of(targets)
        for i in np.flatnonzero(self.num_bytes[rows] > self.memory)[:1]:
            needed = self.num_bytes[rows[i]] / 1e9
            raise TooLarge(
                f"Node {self.change.before.node_ids[rows[i]]} has {self.num_paths[rows[i]]:,} altered paths, about "
                f"{needed:.1f} GB to walk, more than the budget of {self.memory / 1e9:.1f} GB; "
                f'pass `memory="{np.ceil(needed):.0f}GB"` to Explainer, or explain a node with fewer paths.'
            )
        return rows

    def _batches(self, rows: IntArray) -> Iterator[IntArray]:
        """Consecutive targets that together fit into the budget; at least one a batch."""
        bounds = cut_runs(self.num_bytes[rows], min(self.memory, BATCH_BYTES))
        return (rows[start:stop] for start, stop in pairwise(bounds))

    def _path_rows(self, paths: Any, row: int) -> IntArray:
        """Paths as the user writes them -> rows of the aligned snapshots, checked."""
        num_positions = self.change.network.num_hops + 1
        given = np.asarray(paths)
        if given.size == 0:
            return np.zeros((0, num_positions), dtype=np.int64)
        if given.ndim != 2 or given.shape[1] != num_positions or not np.issubdtype(given.dtype, np.integer):
            raise InputError(
                f"Expected paths of {num_positions} node numbers each, leaf first, -1 before a bias source "
                f"(got {given.dtype} of shape {given.shape})."
            )
        ids = self.change.before.node_ids
        order = np.argsort(ids, kind="stable")
        rows = order[np.minimum(np.searchsorted(ids, given, sorter=order), len(ids) - 1)]
        known = (ids[rows] == given) | (given == -1)
        chosen = np.where(given == -1, -1, rows)
        wrong = ~known.all(axis=1) | (chosen[:, -1] != row)
        if wrong.any():
            raise InputError(
                f"Expected paths that end at the target and name nodes of the graphs (got {given[wrong][0].tolist()})."
            )
        for path in given[~exist_in_either(self.change, chosen)][:1]:
            raise InputError(
                f"Expected paths along edges of `before` or of `after` (got {path.tolist()}, which neither graph has); "
                "`attribute(target).paths` holds those that changed."
            )
        return np.unique(chosen, axis=0)

    def _rows_of(self, targets: Iterable[int]) -> IntArray:
        """Rows of the aligned snapshots that these nodes have."""
        wanted = np.asarray(list(targets))
        if wanted.size == 0:
            return np.zeros(0, dtype=np.int64)
        if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
            raise WrongKind(f"Expected targets to be node numbers, integers (got {wanted.dtype}).")
        ids = self.change.before.node_ids
        order = np.argsort(ids, kind="stable")
        rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
        if self._region is not None:
            known = (ids[rows] == wanted) & self._region.reached[rows]
            for node in wanted[~known & (wanted >= 0) & (wanted < self.num_nodes)][:1]:
                raise InputError(
                    f"Expected a target that the change reaches (got {node}, whose prediction is the same on both "
                    "graphs); `moved()` lists those that it does."
                )
            for node in wanted[~known][:1]:
                raise InputError(f"Expected a target among the nodes 0 to {self.num_nodes - 1} (got {node}).")
        for node in wanted[ids[rows] != wanted][:1]:
            raise InputError(f"Expected a target among the {len(ids):,} nodes {ids.min()} to {ids.max()} (got {node}).")
        for snapshot, name in ((self.change.before, "before"), (self.change.after, "after")):
            for node in wanted[~snapshot.present[rows]][:1]:
                raise InputError(
                    f"Expected a target that exists in both snapshots (got {node}, which `{name}` does not have); "
                    "a prediction that was never made cannot have changed."
                )
        return rows.astype(np.int64)
