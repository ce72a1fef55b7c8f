"""Records: the answers for the targets of one batch, as columns; an Explanation of any of them is made when it is read.

Everything that explains comes by here. Whoever wants the answers one by one reads them as a sequence; whoever writes
thousands of them into a file takes the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..change.comparison import Change
from ..change.states import name_causes
from ..graphs.labels import FIRST_EDGE, label_targets
from ..graphs.places import EdgePlace, as_target
from ..paths.table import PathTable
from .choices import Choices
from .explanation import Caption, Explanation
from .hops import hops_of
from .question import Question
from .retrained import Measured, Retrained

OF_A_CHOICE = ("budget", "num_paths", "kl_residual", "kl_bound", "status", "groups")  # named alike in both


@dataclass(frozen=True, eq=False)
class Records(Sequence[Explanation]):
    """Answers in order."""

    columns: Mapping[str, NDArray[Any]]  # field of an Explanation -> [num_answers, ...]: what each has of its own
    common: Mapping[str, Any]  # field of an Explanation -> what it is in all of them
    targets: IntArray  # [num_answers], of links [num_answers, 2]: the user's numbers
    chosen: PathTable  # in the user's numbers
    causes: FloatArray  # [num_answers, len(KINDS), num_classes]; the model last, if it differs
    left_out: FloatArray  # [num_answers, 2]; nan where it is not known
    caption: Caption
    named: bool  # whether the nodes' names are those of the targets
    retrained: Retrained | None  # of all answers, if the model differs
    edge_places: Mapping[int, EdgePlace]  # on the paths of all answers, by their numbers

    @cached_property
    def names(self) -> NDArray[np.object_]:
        """What the targets are called, [num_answers]."""
        return label_targets(self.targets, self.caption.node_names if self.named else {})

    @cached_property
    def shown(self) -> tuple[IntArray, IntArray]:
        """All paths that answers show, those of groups too: the answer that each is of, and its nodes."""
        groups = [(i, group.paths) for i, some in enumerate(self.columns["groups"]) for group in some]
        owner = np.concatenate([self.chosen.owner, *(np.full(len(paths), i) for i, paths in groups)])
        return owner, np.concatenate([self.chosen.paths, *(paths for _, paths in groups)])

    @cached_property
    def mentioned(self) -> tuple[IntArray, IntArray]:
        """Nodes of each answer that have names of the user's, ascending: where those of each begin, and all of them."""
        size, (owner, paths) = len(self), self.shown
        if not self.caption.node_names:
            return np.zeros(size + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        where, nodes = [np.repeat(owner, paths.shape[1])], [paths.ravel()]
        for i, edges in enumerate(self.edges_of_each if self.edge_places else ()):
            where.append(np.full(2 * len(edges), i))
            nodes.append(np.array([end for edge in edges.values() for end in edge[:2]], dtype=np.int64))
        if self.named:
            ends = self.targets.reshape(size, -1)
            where.append(np.repeat(np.arange(size), ends.shape[1]))
            nodes.append(ends.ravel())
        every, place = np.unique(np.concatenate(nodes), return_inverse=True)
        known = np.fromiter((node in self.caption.node_names for node in every.tolist()), np.bool_, len(every))
        pairs = np.unique((np.concatenate(where) * len(every) + place)[known[place]])
        return np.searchsorted(pairs // len(every), np.arange(size + 1)), every[pairs % len(every)]

    @cached_property
    def edges_of_each(self) -> list[dict[int, EdgePlace]]:
        """The edges on the paths of each answer, by the numbers that stand for them."""
        found: list[dict[int, EdgePlace]] = [{} for _ in range(len(self))]
        owner, paths = self.shown
        if self.edge_places:
            pairs = np.stack([np.repeat(owner, paths.shape[1]), paths.ravel()], axis=1)
            for i, code in np.unique(pairs[pairs[:, 1] <= FIRST_EDGE], axis=0).tolist():
                found[i][code] = self.edge_places[code]
        return found

    def __len__(self) -> int:
        """The number of answers."""
        return len(self.targets)

    @overload
    def __getitem__(self, i: int) -> Explanation: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Explanation]: ...
    def __getitem__(self, i: int | slice) -> Explanation | Sequence[Explanation]:
        """One of them as a record of its own, which keeps nothing of the others."""
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        chosen, nodes = self.chosen.one(i), self.mentioned[1][slice(*self.mentioned[0][i : i + 2])]
        up, down = self.left_out[i].tolist()
        own: dict[str, Any] = {name: _plain(column[i]) for name, column in self.columns.items()}
        return Explanation(
            **own,
            **self.common,
            target=as_target(self.targets[i]),
            paths=chosen.paths.copy(),
            contributions=chosen.contributions.copy(),
            weights=chosen.weights.copy(),
            kinds=chosen.kind_names,
            causes=name_causes(self.causes[i : i + 1])[0],
            left_out=None if np.isnan([up, down]).any() else (up, down),
            node_names={node: self.caption.node_names[node] for node in nodes.tolist()},
            retrained=None if self.retrained is None else self.retrained.take(i),
            relations=self._relations_of(i),
            edge_places=dict(self.edges_of_each[i]),
        )

    @cached_property
    def steps(self) -> tuple[IntArray, IntArray, list[str]]:
        """Steps of paths along edges that have types: where each answer's begin, their ends [n, 2], what they are."""
        size, known = len(self), self.caption.relations
        if known is None:
            return np.zeros(size + 1, dtype=np.int64), np.zeros((0, 2), dtype=np.int64), []
        owner, paths = self.shown
        every = [np.stack([owner, paths[:, hop], paths[:, hop + 1]], axis=1) for hop in range(paths.shape[1] - 1)]
        rows = np.unique(np.concatenate([np.zeros((0, 3), dtype=np.int64), *every]), axis=0)
        rows = rows[(rows[:, 1] >= 0) & (rows[:, 1] != rows[:, 2])]
        pairs, place = np.unique(rows[:, 1:], axis=0, return_inverse=True)
        named = {(u, v): name for u, v, name in known.of((u, v) for u, v in pairs.tolist())}
        names = np.array([named.get((u, v), "") for u, v in pairs.tolist()], dtype=object)[place.reshape(-1)]
        kept = names != ""
        starts = np.searchsorted(rows[kept, 0], np.arange(size + 1))
        return starts, rows[kept, 1:], names[kept].tolist()

    def _relations_of(self, i: int) -> tuple[tuple[int, int, str], ...]:
        starts, ends, names = self.steps
        own = slice(*starts[i : i + 2])
        return tuple((u, v, name) for (u, v), name in zip(ends[own].tolist(), names[own], strict=True))

    def __iter__(self) -> Iterator[Explanation]:
        """All of them, in order."""
        return (self[i] for i in range(len(self)))


def make_records(change: Change, choices: Choices, question: Question, measured: Measured, caption: Caption) -> Records:
    """Records of the choices that this question got, which are asked with other budgets at most."""
    rows, chosen, causes, output = choices.rows, choices.chosen, choices.causes, change.output
    before, after = (np.ascontiguousarray(logits[rows]) for logits in (change.logits_before, change.logits_after))
    class_before, class_after = output.label_pairs(before, after)
    numbered = change.numbers(chosen.paths)
    shown = [group.paths.ravel() for groups in choices.groups for group in groups]
    # What `exact` searched with are the weights of a relaxation; what it chose are whole paths.
    weights = np.ones(len(numbered)) if question.method == "exact" else chosen.weights
    return Records(
        columns={
            **{name: getattr(choices, name) for name in OF_A_CHOICE},
            "class_before": class_before,
            "class_after": class_after,
            "prob_before": output.means(before),
            "prob_after": output.means(after),
            "logits_before": before,
            "logits_after": after,
            "kl": output.divergence(after, before),
            "gap": choices.kl_residual - choices.kl_bound,
            "fidelity_minus": measured.minus,
            "fidelity_plus": measured.plus,
            "completeness": np.abs(causes.sum(axis=1) - (after - before)).max(axis=1),
        },
        common={
            **{name: getattr(question, name) for name in ("method", "objective", "until")},
            **{name: getattr(caption, name) for name in ("class_names", "origin", "graph", "graph_before")},
            "unit": change.unit,
            "output": output,
            "hops": hops_of(max(change.by_model[::-1], key=lambda one: one.network.num_positions).network),
        },
        targets=change.root_ids[rows],
        chosen=replace(chosen, paths=numbered, weights=weights),
        causes=causes,
        left_out=choices.left_out,
        caption=caption,
        named=not change.of_graphs,
        retrained=measured.retrained,
        edge_places=change.edges_on(np.concatenate([numbered.ravel(), *shown])),
    )


def _plain(value: Any) -> Any:
    """An item of a column that keeps nothing of the others."""
    return value.item() if isinstance(value, np.generic) else value.copy() if isinstance(value, np.ndarray) else value
