"""model + before + after -> Case: their change, and everything that is said of it beside its numbers.

What opens a pair of graphs lies here, below the doors: Explainer, stories and scans of sequences all ask a Case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change, find_change
from ..change.region import Region, find_pair_changes, open_graphs
from ..errors import InputError, TooLarge, WrongKind
from ..graphs.names import Names, read_class_names, read_names
from ..graphs.snapshot import Fields
from ..network.digests import digest_graph, digest_network
from ..origin import RELEASE, Origin
from ..paths.attribution import Attribution, estimate_bytes, split_by_target
from ..paths.walk import count_paths
from ..readers import ModelCall
from ..readers.trial import copy_model, run_model
from .answer import answer, explain_rows, open_batch, pool_bytes
from .edges import exchange_edges
from .explanation import Caption, Explanation
from .hops import edges_of_paths, hops_of, node_numbers
from .moved import find_moved
from .question import Question
from .replay import exist_in_either, replay_paths
from .walks import Walks, plan_walks, refuse_large


@dataclass(frozen=True, eq=False)
class Case:
    """How a model's predictions changed from one graph to another."""

    model: Any
    call: ModelCall | None
    fields: Fields
    region: Region  # the graphs, and the part of them that the change reaches
    change: Change
    node_names: Mapping[int, str]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Hold the names against the network."""
        num_classes = self.change.network.num_classes
        if self.class_names and len(self.class_names) != num_classes:
            raise InputError(
                f"Expected a name for each of the {num_classes} classes (got {len(self.class_names)} names)."
            )

    @property
    def num_nodes(self) -> int:
        """Nodes of both graphs together, whether the change reaches them or not."""
        return self.region.pair.num_nodes

    @property
    def num_shared_nodes(self) -> int:
        """Nodes that both graphs have: those whose prediction could have changed."""
        return self.region.pair.num_shared_nodes

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
        pair = self.region.pair
        digests = {
            "model": digest_network(self.change.network),
            "before": digest_graph(pair.before.graph),
            "after": digest_graph(pair.after.graph),
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
        return find_pair_changes(self.region.pair, self.node_names, directed=directed, open_nodes=open_nodes)

    @cached_property
    def caption(self) -> Caption:
        """What is written on every record, beside its numbers."""
        return Caption(self.origin, self.node_names, self.class_names)

    def explain(self, rows: IntArray, question: Question, memory: float) -> Iterator[Explanation]:
        """One Explanation a row, in order and lazily; MemoryError, at once, for a row that the memory cannot hold."""
        walks = self._checked(self.walks(rows, memory, pool_bytes(self.change, question)))
        return explain_rows(self.change, walks, question, self._caption_with_graphs)

    def frontier(self, row: int, questions: Sequence[Question], memory: float) -> list[Explanation]:
        """One Explanation a question about one row; the questions differ in their budgets alone."""
        if not questions:
            return []
        largest = max(questions, key=lambda question: question.budget)
        walks = self._checked(self.walks(np.array([row]), memory, pool_bytes(self.change, largest)))
        source = open_batch(self.change, walks.batch(np.array([0])))
        return answer(self.change, source, questions, self._caption_with_graphs)

    def attribute(self, rows: IntArray, memory: float, *, whole: bool = True) -> Iterator[Attribution]:
        """One Attribution a row, in order and lazily; or, where it need not be `whole`, one a piece of its paths."""
        walks = self._checked(self.walks(rows, memory, None if whole else 0.0))

        def walk() -> Iterator[Attribution]:
            for places in walks.batches():
                for found, shares in walks.batch(places).walk(self.change):
                    for one in split_by_target(self.change, found, shares):
                        yield replace(one, node_names=self.node_names, class_names=self.class_names)
                    del found, shares  # before the next batch is walked

        return walk()

    def walks(self, rows: IntArray, memory: float, beside: float | None) -> Walks:
        """How these rows are walked; in pieces only where it is said what is held `beside` a piece."""
        return plan_walks(self.change, rows, self.num_bytes[rows], memory, beside)

    def refusals(self, rows: IntArray, question: Question, memory: float) -> list[str]:
        """For each row, the sentence that says why it cannot be explained within this memory; empty where it can."""
        walks = self.walks(rows, memory, pool_bytes(self.change, question))
        return refuse_large(self.change, walks, self.num_paths)

    def _checked(self, walks: Walks) -> Walks:
        for sentence in filter(None, refuse_large(self.change, walks, self.num_paths)):
            raise TooLarge(sentence)
        return walks

    @cached_property
    def _caption_with_graphs(self) -> Caption:
        before, after = self.region.graphs
        return replace(self.caption, graph_before=before, graph=after)

    def replay(self, target: int, paths: Any, *, add: bool = False) -> FloatArray:
        """Logits [num_classes] of the target on `after` with these paths undone; or on `before` with them added."""
        (row,) = self.rows_of([target])
        chosen = self._path_rows(paths, int(row))
        job = np.zeros(len(chosen), dtype=np.int64)
        logits = replay_paths(self.change, np.array([row]), job, chosen, add=add)
        return np.asarray(logits[0])

    def replay_edges(self, target: int, paths: Any, *, add: bool = False) -> FloatArray:
        """Logits [num_classes] that the user's own model gives the target on a real graph: `after` with the edges of
        these paths put back to what they were in `before`; or `before` with them as they are in `after`."""
        (row,) = self.rows_of([target])
        chosen = self._path_rows(paths, int(row))
        steps = np.where(chosen < 0, -1, self.change.before.node_ids[chosen])
        before, after = self.region.surroundings(self.change.network, target)
        base, other = (before, after) if add else (after, before)
        edges = edges_of_paths(steps, hops_of(self.change.network))
        mixed = exchange_edges(base, other, edges, self.fields.weights)
        row = np.flatnonzero(node_numbers(base) == target)[0]
        return np.asarray(run_model(copy_model(self.model), mixed, self.call)[row].double())

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

    def rows_of(self, targets: Iterable[int]) -> IntArray:
        """Rows of the aligned snapshots that these nodes have."""
        wanted = np.asarray(list(targets))
        if wanted.size == 0:
            return np.zeros(0, dtype=np.int64)
        if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
            raise WrongKind(f"Expected targets to be node numbers, integers (got {wanted.dtype}).")
        ids = self.change.before.node_ids
        order = np.argsort(ids, kind="stable")
        rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
        known = (ids[rows] == wanted) & self.region.reached[rows]
        for node in wanted[~known & self.region.pair.has(wanted)][:1]:
            raise InputError(
                f"Expected a target that the change reaches (got {node}, whose prediction is the same on both "
                "graphs); `moved()` lists those that it does."
            )
        for node in wanted[~known][:1]:
            raise InputError(f"Expected a target among the {self.region.pair.all_nodes} (got {node}).")
        for snapshot, name in ((self.change.before, "before"), (self.change.after, "after")):
            for node in wanted[~snapshot.present[rows]][:1]:
                raise InputError(
                    f"Expected a target that exists in both snapshots (got {node}, which `{name}` does not have); "
                    "a prediction that was never made cannot have changed."
                )
        return rows.astype(np.int64)


def open_case(
    model: Any,
    before: Any,
    after: Any,
    *,
    node_names: Names | None = None,
    class_names: Collection[str] | None = None,
    call: ModelCall | None = None,
) -> Case:
    """Read and check everything; see Explainer for what may be given."""
    opened = open_graphs(model, before, after, call)
    region = opened.region
    numbers = [] if node_names is None else [region.pair.before.numbers, region.pair.after.numbers]
    names = read_names(node_names, numbers) or region.pair.names(region.before.node_ids)
    classes = read_class_names(class_names) or region.pair.class_names
    change = find_change(opened.network, region.before, region.after, opened.before_pass, opened.after_pass)
    return Case(model, call, opened.fields, region, change, names, classes)
