"""model + before + after -> Case: their change, and everything that is said of it beside its numbers.

What opens a pair of graphs lies here, below the doors: Explainer, stories and scans of sequences all ask a Case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special
from torch_geometric.data import Data

from ..arrays import BoolArray, FloatArray, IntArray
from ..change.comparison import Change, with_roots
from ..change.region import Region, find_pair_changes, open_graphs
from ..errors import InputError, TooLarge, WrongKind
from ..graphs.changes import add_model_row
from ..graphs.data_fields import Fields, node_numbers
from ..graphs.labels import ABSENT, ANY, label_targets, target_column
from ..graphs.names import NameIndex, Names, index_names, read_class_names, read_names
from ..graphs.places import Target
from ..graphs.relation_names import name_relations
from ..graphs.snapshot import find_numbers, read_snapshot
from ..graphs.targets import read_pairs, with_links
from ..network.digests import digest_graphs, digest_network
from ..network.layers import Network
from ..network.relations import OfType
from ..origin import RELEASE, Origin
from ..outputs import BINARY
from ..paths.attribution import Attribution, split_by_target
from ..paths.bundles import count_hops
from ..readers import AS_IT_IS, Usage
from ..readers.provision import give_pairs
from ..readers.trial import copy_model, run_model
from ..readers.typed import prepare_types
from ..rivals import RIVALS
from ..selection import METHODS
from .answer import answer, explain_rows, open_batch, pool_bytes
from .edges import add_newcomers, exchange_edges, without_edges
from .explanation import Caption, Explanation
from .hops import edges_of_paths, hops_of
from .moved import find_moved
from .question import Question
from .replay import own_paths, replay_paths
from .walks import (
    Walks,
    count_all_paths,
    estimate_all_bytes,
    find_asked,
    plan_listing,
    plan_walks,
    refuse_large,
    walk_rows,
)

# What a softmax or sigmoid at a model's end was given, from what it gave; of a softmax up to a constant.
BEFORE_END: dict[str, Callable[[FloatArray], FloatArray]] = {
    "softmax": np.log,
    "sigmoid": special.logit,
    "logsigmoid": lambda values: -np.log(np.expm1(-values)),
    "log_sigmoid": lambda values: -np.log(np.expm1(-values)),
}


@dataclass(frozen=True, eq=False)
class Case:
    """How a model's predictions changed from one graph to another."""

    model: Any
    usage: Usage
    fields: Fields
    region: Region  # the graphs, and the part of them that the change reaches
    change: Change
    node_names: Mapping[int, str]
    class_names: tuple[str, ...]
    model_before: Any = None  # where it is another one; `change.under_before` is its change

    def __post_init__(self) -> None:
        """Hold the names against the network."""
        num_classes = num_named(self.change.network)
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
        return count_all_paths(self.change)

    @cached_property
    def num_bytes(self) -> FloatArray:
        """Memory that explaining each node takes at most."""
        return estimate_all_bytes(self.change, self.num_paths)

    @cached_property
    def origin(self) -> Origin:
        """What every record of this Explainer is of: the release, the model and both graphs, by their digests."""
        before, after = digest_graphs(*self.region.pair.graphs)
        digests = {"model": digest_network(self.change.network), "before": before, "after": after}
        if self.change.under_before is not None:
            digests["model before"] = digest_network(self.change.under_before.network)
        return Origin(RELEASE, digests)

    def moved(self) -> pd.DataFrame:
        """Every node that an altered path reaches: its classes, KL(after || before) and number of altered paths.

        Columns: target, name, class_before, class_after (and their names where classes have any), kl, num_paths;
        largest KL first. Nodes that exist in one snapshot alone have no change of prediction and are left out.
        """
        return find_moved(self.change, self.num_paths, self.node_names, self.class_names).drop(columns="row")

    def unmatched(self) -> pd.DataFrame:
        """Nodes, graphs or pairs that one snapshot alone has: target, name, snapshot."""
        change = self.change
        sides = {"before": change.before.predicted.present, "after": change.after.predicted.present}
        rows = np.flatnonzero(sides["before"] != sides["after"])
        targets = change.root_ids[rows]
        names = self.node_names if self.change.unit != "graph" else {}
        return pd.DataFrame(
            {
                "target": target_column(targets),
                "name": label_targets(targets, names),
                "snapshot": np.where(sides["before"][rows], "before", "after"),
            }
        )

    def changes(self, *, directed: bool = False, open_nodes: bool = False) -> pd.DataFrame:
        """What happened to the graph, one row a change: id, kind, src and dst with their names, both weights.

        Kinds: node added, node removed, features changed, edge added, edge removed, edge reweighted, edge features
        changed (of a model that takes them; its weight may be another one, too). Two
        directions of an edge that changed alike are one change, unless `directed`. A node that comes or goes is
        one change with its edges (`num_edges`); with `open_nodes` these have rows of their own. Ids count the rows of
        this very call, ordered by kind, then by src and dst. Where the model is another one, a last row says so.
        """
        found = find_pair_changes(self.region.pair, self.node_names, directed=directed, open_nodes=open_nodes)
        return found if self.change.under_before is None else add_model_row(found)

    @cached_property
    def index(self) -> NameIndex:
        """Which node a name means; names of stored graphs are looked up on disk."""
        pair = self.region.pair
        look_up = pair.number if pair.on_disk else None
        return index_names(self.node_names.items(), look_up, self.change.before.schema)

    def called(self, target: Any) -> str:
        """A target in a message: its name, and its number where that is another word."""
        if np.min(target) < 0:  # a number that no node has: what it stands for on a path is not meant
            return str(target)
        schema = self.change.before.schema
        if schema is not None and np.ndim(target) == 0 and int(target) not in self.node_names:
            return str(schema.node(int(target)))
        name = label_targets(np.asarray([target]), self.node_names if self.change.unit != "graph" else {})[0]
        return str(target) if str(target) == name else f"{name!r}, {self.change.unit} {target}"

    @cached_property
    def caption(self) -> Caption:
        """What is written on every record, beside its numbers."""
        relations = name_relations(self.change.before, self.change.after)
        return Caption(self.origin, self.node_names, self.class_names, relations=relations)

    def explain(self, rows: IntArray, question: Question, memory: float) -> Iterator[Explanation]:
        """One Explanation a row, in order and lazily; MemoryError, at once, for a row that the memory cannot hold."""
        self.check(question)
        walks = self._checked(self.walks(rows, memory, question))
        return chain.from_iterable(explain_rows(self.change, walks, question, self._caption_with_graphs))

    def frontier(self, row: int, questions: Sequence[Question], memory: float) -> list[Explanation]:
        """One Explanation a question about one row; the questions differ in their budgets alone."""
        if not questions:
            return []
        self.check(questions[0])
        largest = max(questions, key=lambda question: question.budget)
        walks = self._checked(self.walks(np.array([row]), memory, largest))
        batch = open_batch(self.change, walks.rows, walks.counts)
        return list(answer(self.change, batch, questions, self._caption_with_graphs))

    def attribute(self, rows: IntArray, memory: float) -> Iterator[Attribution]:
        """One Attribution a row, in order and lazily; MemoryError, at once, for a row that the memory cannot hold."""
        walks = self._checked(plan_listing(rows, self.num_bytes[rows], memory))

        def walk() -> Iterator[Attribution]:
            for places in walks.batches():
                found = walk_rows(self.change, walks.rows[places])
                of_all = found.rows, found.table, found.causes
                yield from split_by_target(self.change, *of_all, self.node_names, self.class_names)
                del found, of_all  # before the next batch is walked

        return walk()

    def walks(self, rows: IntArray, memory: float, question: Question) -> Walks:
        """How these rows are walked to answer a question."""
        if self.change.under_before is not None:
            return plan_listing(rows, self.num_bytes[rows], memory)
        beside = pool_bytes(self.change, question)
        num_paths, sizes = self.num_paths[rows], self.num_bytes[rows]
        priced = find_asked(self.change, num_paths, question, sizes <= memory)
        return plan_walks(rows, sizes, num_paths, priced, memory, beside)

    def check(self, question: Question) -> None:
        """What can be asked of this change: rankings and groups are of the paths of one model."""
        if self.change.under_before is not None and (question.method in RIVALS or question.depth is not None):
            asked = f"{question.method!r}" if question.depth is None else f"depth={question.depth!r}"
            raise InputError(
                f"Expected a method among {', '.join(METHODS)} and whole paths where the model was retrained "
                f"(got {asked}, which is of the paths of one model, and two have no groups or ranks in common); ask "
                "each model by itself, Explainer(model, before, after): the data's share is the mean of both."
            )
        num_hops = count_hops(self.change)
        if isinstance(question.depth, int) and question.depth > num_hops:
            raise InputError(
                f"Expected a depth of at most {num_hops} hops, those of a whole path (got {question.depth}); leave it "
                "out for whole paths."
            )

    @cached_property
    def of_model_after(self) -> Case:
        """The data's change alone, under the model after."""
        return replace(self, model_before=None, change=replace(self.change, under_before=None))

    @cached_property
    def of_model_before(self) -> Case:
        """The data's change alone, under the model before."""
        assert self.change.under_before is not None
        return replace(self, model=self.model_before, model_before=None, change=self.change.under_before)

    def under(self, model: str) -> Case:
        """The data's change alone under one of two models, named by `before` or `after`."""
        if model not in ("before", "after"):
            raise InputError(f"Expected `under` to be before or after (got {model!r}).")
        if self.change.under_before is None:
            return self
        return self.of_model_before if model == "before" else self.of_model_after

    def refusals(self, rows: IntArray, question: Question, memory: float) -> list[str]:
        """For each row, the sentence that says why it cannot be explained within this memory; empty where it can."""
        return refuse_large(self.change, self.walks(rows, memory, question), self.num_paths)

    def _checked(self, walks: Walks) -> Walks:
        for sentence in filter(None, refuse_large(self.change, walks, self.num_paths)):
            raise TooLarge(sentence)
        return walks

    @cached_property
    def _caption_with_graphs(self) -> Caption:
        before, after = self.region.graphs
        return replace(self.caption, graph_before=before, graph=after)

    def replay(self, target: Target, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] of the target on `after` with these paths undone; or on `before` with them added."""
        case, (row,) = self.find([target])
        chosen, several = np.unique(case.read_paths(paths, int(row)), axis=0), case.change.under_before is not None
        case = case.under(under)
        chosen, _ = own_paths(case.change, chosen, altered=several)
        job = np.zeros(len(chosen), dtype=np.int64)
        logits = replay_paths(case.change, np.array([row]), job, chosen, add=add)
        return np.asarray(logits[0])

    def replay_edges(self, target: Target, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] that the user's own model gives the target on a real graph: `after` with the edges of
        these paths put back to what they were in `before`; or `before` with them as they are in `after`."""
        case, (row,) = self.find([target])
        chosen, case = case.read_paths(paths, int(row)), case.under(under)
        steps = case.change.numbers(own_paths(case.change, chosen)[0])
        # A node of stored graphs has a part of them cut out; what else is predicted lies in memory, whole.
        before, after = case.region.surroundings(case.change.network, target if isinstance(target, int) else -1)
        base, other = (before, after) if add else (after, before)
        hops, weights = hops_of(case.change.network), case.fields.weights
        edges = edges_of_paths(steps, hops, case.change.edges_on(steps))
        mixed = exchange_edges(base, other, edges, weights)
        return case.run_own(mixed, base, target)

    def run_own(self, data: Data, like: Data, target: Target) -> FloatArray:
        """Logits [num_classes] that the user's own model gives the target on a graph with the rows of `like`."""
        if isinstance(target, tuple):
            data, place = give_pairs(data, np.array([target])), 0
        elif self.change.before.places is None:
            place = int(np.flatnonzero(node_numbers(like) == target)[0])
        else:
            place = int(np.flatnonzero(read_snapshot(like, "graph").listed_graphs == target)[0])
        answer = run_model(copy_model(self.model), data, self.usage.call).double()
        own = np.asarray(answer.reshape(-1, self.change.network.num_classes)[place])
        return np.asarray(BEFORE_END.get(self.change.network.end, np.asarray)(own))

    def read_paths(self, paths: Any, row: int) -> IntArray:
        """Paths as the user writes them -> rows of the aligned snapshots, checked, with the root at their end."""
        num_positions = self.change.num_positions - (self.change.before.places is not None)
        given = np.asarray(paths)
        if given.size == 0:
            return np.zeros((0, self.change.num_positions), dtype=np.int64)
        if given.ndim != 2 or given.shape[1] != num_positions or not np.issubdtype(given.dtype, np.integer):
            raise InputError(
                f"Expected paths of {num_positions} node numbers each, leaf first, -1 before a bias source "
                f"and {ANY} before the end of a group (got {given.dtype} of shape {given.shape})."
            )
        rows, known = find_numbers(self.change.before.node_ids, given)
        none = (given == -1) | (given == (ANY if self.change.under_before is None else ABSENT))
        known |= none
        chosen = np.where(none, given, rows)
        if self.change.before.places is not None:
            chosen = np.concatenate([chosen, np.full((len(chosen), 1), row)], axis=1)
        wrong = ~known.all(axis=1) | (chosen[:, -1] != row)
        if wrong.any():
            raise InputError(
                f"Expected paths that end at the target and name nodes of the graphs (got {given[wrong][0].tolist()})."
            )
        exist = np.zeros(len(chosen), dtype=np.bool_)
        for side in filter(None, (self.change, self.change.under_before)):
            exist[own_paths(side, chosen)[1]] = True
        for path in given[~exist][:1]:
            raise InputError(
                f"Expected paths along edges of `before` or of `after` (got {path.tolist()}, which neither graph has); "
                "`attribute(target).paths` holds those that changed."
            )
        return chosen

    def only_graph(self) -> int:
        """The number of the graph, where there is one alone to be predicted."""
        if not self.change.of_graphs or len(self.change.root_ids) != 1:
            raise InputError(
                f"Expected a target to be named (got none, of {len(self.change.root_ids):,} {self.change.unit}s); "
                "`moved()` lists those whose prediction moved."
            )
        return int(self.change.root_ids[0])

    def find(self, targets: Iterable[Target]) -> tuple[Case, IntArray]:
        """Where these targets are explained, and their rows there: of nodes, graphs or pairs.

        Pairs that were not given at the beginning, and nodes that `after` alone has, have a Case of their own.
        """
        wanted = list(targets)
        if self.change.of_links:
            return self._find_pairs(wanted)
        numbers = np.asarray(wanted)
        if numbers.size == 0:
            return self, np.zeros(0, dtype=np.int64)
        unit = self.change.unit
        if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
            got = numbers.dtype if numbers.ndim == 1 else f"{wanted[0]!r}, more than one number for a {unit}"
            raise WrongKind(f"Expected targets to be {unit} numbers, integers, or names (got {got}).")
        rows, known = find_numbers(self.change.root_ids, numbers)
        if self.change.before.places is None:
            known &= self.region.reached[rows]
            for node in numbers[~known & self.region.pair.has(numbers)][:1]:
                raise InputError(
                    f"Expected a target that the change reaches (got {self.called(node)}, whose prediction is the same "
                    "on both graphs); `moved()` lists those that it does."
                )
        if self.change.before.places is None and (known & ~self.change.before.present[rows]).any():
            return self.newcomers.find(wanted)
        for number in numbers[~known][:1]:
            among = self.region.pair.all_nodes if unit == "node" else f"{len(self.change.root_ids)} graphs"
            raise InputError(f"Expected a target among the {among} (got {self.called(number)}).")
        self._check_types(rows)
        self._check_in_both(rows)
        return self, rows.astype(np.int64)

    def _check_types(self, rows: IntArray) -> None:
        """Targets must be of types that the model answers for."""
        schema, types = self.change.before.schema, self.change.before.node_types
        answered = {rule.node_type for rule in self.change.network.layers[-1].rules if isinstance(rule, OfType)}
        if schema is None or types is None or not answered:
            return
        for row in rows[~np.isin(types[rows], list(answered))][:1].tolist():
            raise InputError(
                f"Expected a target of type {' or '.join(schema.node_types[kind] for kind in sorted(answered))}, which "
                f"the model answers for (got {schema.node(int(self.change.root_ids[row]))})."
            )

    def locate(self, targets: Sequence[Target]) -> tuple[IntArray, BoolArray]:
        """Rows of these targets among all that are predicted, and which of them are there."""
        if self.change.of_links:
            found = [self._row_of_pair.get(target, -1) for target in targets if isinstance(target, tuple)]
            rows = np.array(found, dtype=np.int64)
            return np.maximum(rows, 0), rows >= 0
        rows, known = find_numbers(self.change.root_ids, np.array(targets, dtype=np.int64))
        return np.where(known, rows, 0), known

    @cached_property
    def has_newcomers(self) -> bool:
        """Whether nodes that `after` alone has stand in `before` already, or there are none."""
        before, after = self.change.before, self.change.after
        return bool((before.present | ~after.present).all())

    @cached_property
    def newcomers(self) -> Case:
        """The same with every node that `after` alone has standing in `before` by itself, without an edge."""
        before, after = (side.data for side in (self.region.pair.before, self.region.pair.after))
        if before is None or after is None:
            raise InputError(
                "Expected targets that both graphs have (got one that `after` alone has, and stored graphs are read as "
                "they are: `before` cannot be given the node, to stand there without edges); give Data, such as "
                "axiompath.read_graph makes of the files that they were converted from."
            )
        usage = self.usage
        if self.change.of_links:
            usage = replace(usage, links=self.change.root_ids)
        return open_case(
            self.model,
            add_newcomers(before, after),
            after,
            model_before=self.model_before,
            node_names=dict(self.node_names),
            class_names=self.class_names,
            usage=usage,
        )

    def _find_pairs(self, wanted: Sequence[Any]) -> tuple[Case, IntArray]:
        """Pairs among those that were given, else a Case with exactly these."""
        for target in [one for one in wanted if np.shape(one) != (2,)][:1]:
            raise WrongKind(
                f"Expected a pair of nodes, such as (3, 8), as a target of a model of links (got {target!r})."
            )
        pairs = read_pairs(wanted)
        if not self.has_newcomers and not np.isin(pairs, self.region.pair.before.numbers).all():
            return self.newcomers._find_pairs(wanted)
        schema = self.change.before.schema
        if schema is not None:
            for pair in pairs[(pairs % len(schema.node_types) != schema.link_ends).any(axis=1)][:1].tolist():
                kinds = " and ".join(schema.node_types[end] for end in schema.link_ends)
                raise InputError(
                    f"Expected a pair of {kinds}, which the model answers for (got {tuple(map(schema.node, pair))})."
                )
        case = self.with_pairs(pairs)
        rows = np.array([case._row_of_pair[pair] for pair in map(tuple, pairs.tolist())], dtype=np.int64)
        case._check_in_both(rows)
        return case, rows

    def with_pairs(self, pairs: IntArray) -> Case:
        """The same with these pairs [num_pairs, 2] among those that are predicted: as it is where they are already."""
        asked = list(dict.fromkeys(map(tuple, pairs.tolist())))
        if all(pair in self._row_of_pair for pair in asked):
            return self
        sides = with_links(self.change.before, self.change.after, np.array(asked, dtype=np.int64).reshape(-1, 2))
        return replace(self, change=with_roots(self.change, *sides))

    @cached_property
    def _row_of_pair(self) -> dict[tuple[int, ...], int]:
        return {pair: row for row, pair in enumerate(map(tuple, self.change.root_ids.tolist()))}

    def _check_in_both(self, rows: IntArray) -> None:
        for snapshot, name in ((self.change.before, "before"), (self.change.after, "after")):
            for row in rows[~snapshot.predicted.present[rows]][:1].tolist():
                raise InputError(
                    "Expected a target that exists in both snapshots (got "
                    f"{self.called(self.change.target(row))}, which `{name}` does not have); a prediction that was "
                    "never made cannot have changed."
                )


def num_named(network: Network) -> int:
    """How many classes have a name: of one logit, yes and no."""
    return network.num_classes + (network.output == BINARY)


def open_case(
    model: Any,
    before: Any,
    after: Any,
    *,
    model_before: Any = None,
    node_names: Names | None = None,
    class_names: Collection[str] | None = None,
    offered: tuple[str, ...] = (),
    usage: Usage = AS_IT_IS,
) -> Case:
    """Read and check everything; see Explainer for what may be given.

    `offered` are the names of classes that a graph brings along, which are taken where they fit the model.
    """
    ready = prepare_types(model, (before, after), usage, node_names)
    (before, after), usage, node_names = ready.graphs, ready.usage, ready.node_names
    if before is None:
        if not isinstance(after, Data):
            raise WrongKind(
                "Expected a torch_geometric.data.Data to be explained against itself without edges "
                f"(got {type(after).__name__})."
            )
        before = without_edges(after)
    opened = open_graphs(model, before, after, usage)
    region = opened.region
    numbers = [] if node_names is None else [region.pair.before.numbers, region.pair.after.numbers]
    names = read_names(node_names, numbers) or region.pair.names(region.before.node_ids)
    classes = read_class_names(class_names) or region.pair.class_names
    if class_names is None and not classes and len(offered) == num_named(opened.network):
        classes = offered
    change = opened.compare()
    case = Case(model, usage, opened.fields, region, change, names, classes)
    return case if model_before is None else _beside(case, model_before, (before, after))


def _beside(case: Case, model_before: Any, graphs: tuple[Any, Any]) -> Case:
    """The same where `before` was seen by another model; the very same case where that one is the same after all."""
    if case.region.pair.on_disk:
        raise InputError(
            "Expected graphs in memory to go with `model_before` (got stored ones); axiompath.read_graph reads them."
        )
    opened, change = open_graphs(model_before, *graphs, case.usage), case.change
    if digest_network(opened.network) == digest_network(change.network):
        return case
    other = opened.compare()
    told = [(one.unit, one.network.num_classes, one.network.output) for one in (change, other)]
    if told[0] != told[1]:
        words = [f"{columns} columns of {kind} for each {unit}" for unit, columns, kind in told]
        raise InputError(
            f"Expected `model_before` to predict what the model does, {words[0]} (got {words[1]}); what is not "
            "the same thing cannot have changed."
        )
    if opened.fields != case.fields:
        raise InputError(
            f"Expected `model_before` to take the fields of Data that the model takes, {_fields(case.fields)} "
            f"(got {_fields(opened.fields)})."
        )
    return replace(case, model_before=model_before, change=replace(change, under_before=other))


def _fields(fields: Fields) -> str:
    return f"{', '.join(fields.features)} and {fields.weights}"
