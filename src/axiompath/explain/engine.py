"""PathEngine: what changed a model's predictions, path by path. Targets + Question -> Explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from torch_geometric.data import Data

from ..arrays import FloatArray, IntArray
from ..baselines import BASELINES
from ..change.comparison import Change
from ..change.region import Region
from ..errors import InputError, TooLarge
from ..graphs.data_fields import Fields, node_numbers
from ..graphs.labels import ABSENT, ANY, label_targets
from ..graphs.places import Target
from ..graphs.relation_names import name_relations
from ..graphs.snapshot import find_numbers, read_snapshot
from ..network.digests import digest_graph, digest_network
from ..network.layers import Network
from ..outputs import BINARY
from ..paths.attribution import Attribution, split_by_target
from ..paths.bundles import count_hops
from ..readers import Usage
from ..readers.provision import give_pairs
from ..readers.run import copy_model, run_model
from ..selection import METHODS
from ..storage.origin import RELEASE, Origin
from .answer import answer, explain_rows, open_batch, pool_bytes
from .edges import exchange_edges
from .explanation import Caption, Explanation
from .hops import edges_of_paths, hops_of
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
class PathEngine:
    """The paths of a change, under one model or under the model before and the one after."""

    models: tuple[Any, ...]  # the user's own: the model before, where there are two, then the model after
    usage: Usage
    fields: Fields
    region: Region  # the graphs, and the part of them that the change reaches
    change: Change
    node_names: Mapping[int, str]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the names of classes against the network."""
        num_classes = num_named(self.change.network)
        if self.class_names and len(self.class_names) != num_classes:
            raise InputError(
                f"Expected a name for each of the {num_classes} classes (got {len(self.class_names)} names)."
            )

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
        before, after = map(digest_graph, self.region.pair.graphs)
        digests = {"model": digest_network(self.change.network), "before": before, "after": after}
        for one in self.change.earlier:
            digests["model before"] = digest_network(one.network)
        return Origin(RELEASE, digests)

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

    @cached_property
    def caption_with_graphs(self) -> Caption:
        """The same for records that are placed on graphs."""
        before, after = self.region.graphs
        return replace(self.caption, graph_before=before, graph=after)

    def explain(self, rows: IntArray, question: Question, memory: float) -> Iterator[Explanation]:
        """One Explanation a row, in order and lazily; MemoryError, at once, for a row that the memory cannot hold."""
        self.check(question)
        walks = self._checked(self.walks(rows, memory, question))
        return explain_rows(self.change, walks, question, self.caption_with_graphs)

    def frontier(self, row: int, questions: Sequence[Question], memory: float) -> list[Explanation]:
        """One Explanation per question about one row; the questions differ only in their budgets."""
        if not questions:
            return []
        self.check(questions[0])
        largest = max(questions, key=lambda question: question.budget)
        walks = self._checked(self.walks(np.array([row]), memory, largest))
        batch = open_batch(self.change, walks.rows, walks.counts)
        return answer(self.change, batch, questions, self.caption_with_graphs)

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
        beside = pool_bytes(self.change, question)
        num_paths, sizes = self.num_paths[rows], self.num_bytes[rows]
        priced = find_asked(self.change, num_paths, question, sizes <= memory)
        return plan_walks(rows, sizes, num_paths, priced, memory, beside)

    def check(self, question: Question) -> None:
        """What can be asked of this change: rankings and groups are of the paths of one model."""
        if self.change.earlier and (question.method in BASELINES or question.depth is not None):
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
    def changes(self) -> tuple[Change, ...]:
        """The data's change under each model by itself, in the order of `models`."""
        return *self.change.earlier, replace(self.change, earlier=())

    def under(self, name: str) -> tuple[Any, Change]:
        """The user's model of `before` or of `after`, and the data's change under that model."""
        if name not in ("before", "after"):
            raise InputError(f"Expected `under` to be before or after (got {name!r}).")
        place = 0 if name == "before" else -1
        return self.models[place], self.changes[place]

    def refusals(self, rows: IntArray, question: Question, memory: float) -> list[str]:
        """For each row, the sentence that says why it cannot be explained within this memory; empty where it can."""
        return refuse_large(self.change, self.walks(rows, memory, question), self.num_paths)

    def _checked(self, walks: Walks) -> Walks:
        for sentence in filter(None, refuse_large(self.change, walks, self.num_paths)):
            raise TooLarge(sentence)
        return walks

    @cached_property
    def row_of_pair(self) -> dict[tuple[int, ...], int]:
        """Row of each pair that is predicted."""
        return {pair: row for row, pair in enumerate(map(tuple, self.change.root_ids.tolist()))}

    def replay(self, row: int, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] of the target on `after` with these paths undone; or on `before` with them added."""
        chosen = np.unique(self.read_paths(paths, row), axis=0)
        _, change = self.under(under)
        chosen, _ = own_paths(change, chosen, altered=len(self.models) > 1)
        job = np.zeros(len(chosen), dtype=np.int64)
        logits = replay_paths(change, np.array([row]), job, chosen, add=add)
        return np.asarray(logits[0])

    def replay_edges(self, row: int, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] that the user's own model gives the target on a real graph: `after` with the edges of
        these paths put back to what they were in `before`; or `before` with them as they are in `after`."""
        chosen, (model, change) = self.read_paths(paths, row), self.under(under)
        steps, target = change.numbers(own_paths(change, chosen)[0]), change.target(row)
        # A node of stored graphs has a part of them cut out; what else is predicted lies in memory, whole.
        before, after = self.region.surroundings(change.network, target if isinstance(target, int) else -1)
        base, other = (before, after) if add else (after, before)
        hops, weights = hops_of(change.network), self.fields.weights
        edges = edges_of_paths(steps, hops, change.edges_on(steps))
        mixed = exchange_edges(base, other, edges, weights)
        return run_own(model, self.usage, change, mixed, base, target)

    def read_paths(self, paths: Any, row: int) -> IntArray:
        """Paths as the user writes them -> rows of the aligned snapshots, checked, with the root at their end."""
        num_positions = self.change.num_positions - (self.change.before.places is not None)
        given = np.asarray(paths)
        if given.size == 0:
            return np.zeros((0, self.change.num_positions), dtype=np.int64)
        if given.ndim != 2 or given.shape[1] != num_positions or given.dtype.kind not in "iu":
            raise InputError(
                f"Expected paths of {num_positions} node numbers each, leaf first, -1 before a bias source "
                f"and {ANY} before the end of a group (got {given.dtype} of shape {given.shape})."
            )
        rows, known = find_numbers(self.change.before.node_ids, given)
        none = (given == -1) | (given == (ABSENT if self.change.earlier else ANY))
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
        for side in self.change.by_model:
            exist[own_paths(side, chosen)[1]] = True
        for path in given[~exist][:1]:
            raise InputError(
                f"Expected paths along edges of `before` or of `after` (got {path.tolist()}, which neither graph has); "
                "`attribute(target).paths` holds those that changed."
            )
        return chosen


def num_named(network: Network) -> int:
    """How many classes have a name: of one logit, yes and no."""
    return network.num_classes + (network.output == BINARY)


def run_own(model: Any, usage: Usage, change: Change, data: Data, like: Data, target: Target) -> FloatArray:
    """Logits [num_classes] that the user's own model gives the target on a graph with the rows of `like`."""
    if isinstance(target, tuple):
        data, place = give_pairs(data, np.array([target])), 0
    elif change.before.places is None:
        place = int(np.flatnonzero(node_numbers(like) == target)[0])
    else:
        place = int(np.flatnonzero(read_snapshot(like, "graph").listed_graphs == target)[0])
    answer = run_model(copy_model(model), data, usage.call).double()
    own = np.asarray(answer.reshape(-1, change.network.num_classes)[place])
    return np.asarray(BEFORE_END.get(change.network.end, np.asarray)(own))
