"""One model, or the model before and the one after, + two graphs -> Session: opened and aligned once.

The path engine answers questions about paths; it is absent where the model is not read. The subset engine answers those
about subsets of the changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from .arrays import IntArray
from .blame.engine import ModelEvaluator, SubsetEngine
from .blame.own_model import OwnModel
from .blame.root import Root
from .blame.unread import OwnAnswers, answer_unread
from .change.region import find_pair_changes, open_graphs
from .errors import InputError, WrongKind
from .explain.edges import add_newcomers, without_edges
from .explain.engine import BEFORE_END, PathEngine, num_named
from .explain.explanation import Caption, Explanation
from .explain.moved import find_moved
from .explain.neighbourhood import Neighbourhood, gather, look_around
from .explain.targets import check_ends, find_only_graph, find_pairs, find_rows, with_pairs
from .graphs.changes import add_row
from .graphs.data_fields import Fields
from .graphs.labels import label_targets, target_column
from .graphs.names import NameIndex, Names, index_names, read_class_names, read_names
from .graphs.pair import Pair
from .graphs.places import LINKS, UNIT_OF, Target
from .graphs.snapshot import find_numbers
from .network.digests import digest_network
from .outputs import BINARY, LINKED, Output
from .readers import AS_IT_IS, Usage
from .readers.packed import pack_edge_sets
from .readers.typed import prepare_types


@dataclass(frozen=True, eq=False)
class Session:
    """Everything that one opening of a model and two graphs is asked for."""

    models: tuple[Any, ...]  # the user's own: the model before, where there are two, then the model after
    class_names: tuple[str, ...]
    path_engine: PathEngine | None  # None where the model is not read
    own_answers: OwnAnswers | None  # where it is not read

    @property
    def paths(self) -> PathEngine:
        """What answers questions about paths."""
        if self.path_engine is None:
            raise InputError(
                "Expected an Explainer that reads the model, as paths require (got one with paths=False); "
                "`moved`, `changes`, `blame`, `undo` and `what_if` answer without."
            )
        return self.path_engine

    @cached_property
    def subsets(self) -> SubsetEngine:
        """What answers questions about subsets of the changes."""
        if self.own_answers is not None:
            return self.own_answers.subsets
        call, evaluators = self.paths.usage.call, []
        for model, change in zip(self.models, self.paths.changes, strict=True):
            own = OwnModel(model, call, BEFORE_END.get(change.network.end, np.asarray))
            links = change.root_ids if change.of_links else None
            evaluators.append(ModelEvaluator(own, self.pair, change.unit, change.output, change.network, links=links))
        evaluators[-1] = replace(evaluators[-1], output=self.output)
        return SubsetEngine(tuple(evaluators), self.node_names)

    @property
    def pair(self) -> Pair:
        """Both graphs."""
        return self.paths.region.pair if self.own_answers is None else self.own_answers.subsets.pair

    @property
    def num_nodes(self) -> tuple[int, int]:
        """Nodes of both graphs together, and those that both have."""
        return self.pair.num_nodes, self.pair.num_shared_nodes

    @property
    def unit(self) -> str:
        """What is predicted: a node, a graph or a link."""
        return self.paths.change.unit if self.own_answers is None else self.own_answers.subsets.unit

    @property
    def output(self) -> Output:
        """What the columns of the logits mean."""
        return self.paths.change.output if self.own_answers is None else self.own_answers.subsets.output

    @property
    def node_names(self) -> Mapping[int, str]:
        """The user's names of nodes, by number."""
        return self.paths.node_names if self.own_answers is None else self.own_answers.subsets.node_names

    @cached_property
    def caption(self) -> Caption:
        """What is written on every record, beside its numbers."""
        if self.own_answers is None:
            return self.paths.caption
        return Caption(self.own_answers.origin, self.node_names, self.class_names)

    @cached_property
    def index(self) -> NameIndex:
        """Which node a name means; names of stored graphs are looked up on disk."""
        pair = self.pair
        look_up = pair.number if pair.on_disk else None
        return index_names(self.node_names.items(), look_up, pair.before.graph.schema)

    def moved_rows(self) -> pd.DataFrame:
        """Every target that an altered path reaches; with `row`, that of the change."""
        paths = self.paths
        return find_moved(paths.change, paths.num_paths, paths.node_names, paths.class_names)

    def moved(self) -> pd.DataFrame:
        """Every target whose prediction can have moved, see `Explainer.moved`."""
        if self.own_answers is not None:
            return self.own_answers.moved(self.class_names)
        return self.moved_rows().drop(columns="row")

    def unmatched(self) -> pd.DataFrame:
        """Nodes, graphs or pairs that only one snapshot has: target, name, snapshot."""
        change = self.paths.change
        sides = {"before": change.before.predicted.present, "after": change.after.predicted.present}
        rows = np.flatnonzero(sides["before"] != sides["after"])
        targets = change.root_ids[rows]
        names = self.node_names if change.unit != "graph" else {}
        return pd.DataFrame(
            {
                "target": target_column(targets),
                "name": label_targets(targets, names),
                "snapshot": np.where(sides["before"][rows], "before", "after"),
            }
        )

    def changes(self, *, directed: bool = False, open_nodes: bool = False) -> pd.DataFrame:
        """What happened to the graph, see `Explainer.changes`; another model is the last row."""
        found = find_pair_changes(self.pair, self.node_names, directed=directed, open_nodes=open_nodes)
        return found if len(self.models) == 1 else add_row(found)

    def locate(self, targets: Iterable[Target]) -> tuple[PathEngine, IntArray]:
        """The engine that explains these targets, and their rows there: of nodes, graphs or pairs.

        Pairs that were not given at the beginning, and nodes that only `after` has, have an engine of their own.
        """
        engine, wanted = self.paths, list(targets)
        if engine.change.of_links:
            pairs = find_pairs(wanted)
            if self._has_new_nodes and not np.isin(pairs, self.pair.before.numbers).all():
                engine = self.with_newcomers
            check_ends(engine, pairs)
            engine = with_pairs(engine, pairs)
        elif engine.change.before.places is None and self._is_new(wanted):
            engine = self.with_newcomers
        return engine, find_rows(engine, wanted)

    def root(self, target: Target) -> Root:
        """The nodes that a prediction is read off, and its logits under each model."""
        if self.own_answers is not None:
            return self.own_answers.root(target)
        engine, (row,) = self.locate([target])
        passes = [(change.before_pass, change.after_pass) for change in engine.changes]
        ends = tuple((before.logits[row], after.logits[row]) for before, after in passes)
        change = self.paths.change
        if change.of_graphs:
            owners = [snapshot.places.nodes for snapshot in (change.before, change.after) if snapshot.places]
            members = np.flatnonzero((np.stack(owners) == row).any(axis=0))
            return Root(target, members, np.zeros(0, dtype=np.int64), ends)
        ids = np.atleast_1d(np.asarray(target, dtype=np.int64))
        numbers = self.pair.numbers_of(ids)
        return Root(target, numbers, np.unique(numbers[self.pair.before.rows_of(numbers) < 0]), ends)

    def only_target(self) -> int:
        """The number of the graph, if only one is predicted."""
        return 0 if self.own_answers is not None else find_only_graph(self.paths)

    def neighbourhood(self, explanation: Explanation, changes: pd.DataFrame | None = None) -> Neighbourhood:
        """Around the target of an Explanation; `changes` are those with open nodes, where they are at hand."""
        explanation.need_paths("draw")
        changes = self.changes(open_nodes=True) if changes is None else changes
        engine, (row,) = self.locate([explanation.target])
        return gather(explanation, look_around(engine.change, int(row), changes), self.node_names)

    def _is_new(self, wanted: Sequence[Any]) -> bool:
        """Whether a node that only `after` has, and that the change reaches, is among these."""
        numbers, change = np.asarray(wanted), self.paths.change
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            return False  # refused where rows are looked up
        rows, known = find_numbers(change.root_ids, numbers)
        known &= self.paths.region.reached[rows]
        return bool((known & ~change.before.present[rows]).any())

    @cached_property
    def _has_new_nodes(self) -> bool:
        before, after = self.paths.change.before, self.paths.change.after
        return bool((after.present & ~before.present).any())

    @cached_property
    def with_newcomers(self) -> PathEngine:
        """Every node that only `after` has stands in `before` by itself, without an edge."""
        before, after = (side.data for side in (self.pair.before, self.pair.after))
        if before is None or after is None:
            raise InputError(
                "Expected targets that both graphs have (got one that only `after` has, and stored graphs are read as "
                "they are: `before` cannot be given the node, to stand there without edges); give Data, such as "
                "axiompath.read_graph makes of the files that they were converted from."
            )
        engine = self.paths
        usage = replace(engine.usage, links=engine.change.root_ids) if engine.change.of_links else engine.usage
        graphs = add_newcomers(before, after), after
        return open_paths(self.models, graphs, usage, dict(self.node_names), self.class_names)


def open_session(
    model: Any,
    before: Any,
    after: Any,
    *,
    model_before: Any = None,
    node_names: Names | None = None,
    class_names: Collection[str] | None = None,
    offered: tuple[str, ...] = (),
    usage: Usage = AS_IT_IS,
    paths: bool = True,
) -> Session:
    """Read and check everything; see Explainer for what may be given.

    `offered` are the names of classes that a graph brings along, which are taken where they fit the model.
    """
    models = (model,) if model_before is None else (model_before, model)
    before, after, usage = pack_edge_sets(model, before, after, usage)
    if not paths:
        answers = answer_unread(models, before, after, usage, node_names)
        classes = read_class_names(class_names)
        if class_names is None and len(offered) == answers.ends[-1][1].shape[1]:
            classes = offered
        if not classes and answers.subsets.unit == UNIT_OF[LINKS] and answers.subsets.output.kind == BINARY:
            classes = LINKED
        return Session(models, classes, None, answers)
    ready = prepare_types(model, (before, after), usage, node_names)
    before, after = ready.graphs
    if before is None:
        if not isinstance(after, Data):
            raise WrongKind(
                "Expected a torch_geometric.data.Data to be explained against itself without edges "
                f"(got {type(after).__name__})."
            )
        before = without_edges(after)
    engine = open_paths(models, (before, after), ready.usage, ready.node_names, class_names, offered)
    return Session(engine.models, engine.class_names, engine, None)


def open_paths(
    models: tuple[Any, ...],
    graphs: tuple[Any, Any],
    usage: Usage,
    node_names: Names | None,
    class_names: Collection[str] | None,
    offered: tuple[str, ...] = (),
) -> PathEngine:
    """Read one model or two on two graphs; two that are the same after all are one."""
    opened = open_graphs(models[-1], *graphs, usage)
    region, fields = opened.region, opened.fields
    numbers = [] if node_names is None else [region.pair.before.numbers, region.pair.after.numbers]
    names = read_names(node_names, numbers) or region.pair.names(region.before.node_ids)
    classes = read_class_names(class_names) or region.pair.class_names
    if class_names is None and not classes and len(offered) == num_named(opened.network):
        classes = offered
    change = opened.compare()
    if not classes and change.of_links and change.output.kind == BINARY:
        classes = LINKED
    engine = PathEngine(models[-1:], usage, fields, region, change, names, classes)
    for model in models[:-1]:
        if region.pair.on_disk:
            raise InputError(
                "Expected graphs in memory to go with `model_before` (got stored ones); axiompath.read_graph reads "
                "them."
            )
        old = open_graphs(model, *graphs, usage)
        if digest_network(old.network) == digest_network(change.network):
            continue
        other = old.compare()
        signatures = [(one.unit, one.network.num_classes, one.network.output) for one in (change, other)]
        if signatures[0] != signatures[1]:
            words = [f"{columns} columns of {kind} for each {unit}" for unit, columns, kind in signatures]
            raise InputError(
                f"Expected `model_before` to predict what the model does, {words[0]} (got {words[1]}); what is not "
                "the same thing cannot have changed."
            )
        if old.fields != fields:
            raise InputError(
                f"Expected `model_before` to take the fields of Data that the model takes, {_listed(fields)} "
                f"(got {_listed(old.fields)})."
            )
        engine = replace(engine, models=models, change=replace(change, earlier=(other,)))
    return engine


def _listed(fields: Fields) -> str:
    return f"{', '.join(fields.features)} and {fields.weights}"
