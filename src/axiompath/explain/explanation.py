"""Explanation: the frozen record of why one prediction changed; JSON in and out. Drawing is report/'s, loaded late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..change.states import KINDS, MODEL, are_causes, tell_causes
from ..errors import InputError, WrongKind
from ..graphs.data_fields import node_numbers
from ..graphs.labels import ABSENT, ANY, FIRST_EDGE, TO, name_edges, name_node, name_step
from ..graphs.places import GRAPHS, LINKS, NODE_UNIT, UNIT_OF, EdgePlace, Target
from ..graphs.relation_names import RelationNames
from ..origin import Origin
from ..outputs import BINARY, CLASSES_OUTPUT, Output
from ..saved import FileForm, Saved, rebuild
from ..trust import read_words
from ..writing import write_text
from . import sentences
from .group import Group
from .hops import FLOWS, Hop, place_shares
from .retrained import Retrained

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data
    from torch_geometric.explain import Explanation as PyGExplanation

EXPLANATION_VERSION = 5
FIELDS_SINCE = {
    "origin": 2,
    "hops": 2,
    "unit": 3,
    "output": 3,
    "groups": 4,
    "retrained": 4,
    "until": 4,
    "edge_places": 4,
    "relations": 4,
    "left_out": 5,
}  # field -> the version of the format that brought it
UNSAVED = frozenset({"graph", "graph_before"})

# Where the sums claim so much more of the change than the network itself, run with these paths, makes of it, the reader
# is warned. Both are shares of a whole change; a quarter is far beyond what activations make of a good choice.
DISAGREEMENT = 0.25


@dataclass(frozen=True, eq=False)
class Explanation(Saved):
    """Why the prediction of one target changed: the chosen paths, how well they do, and what they were chosen from."""

    form: ClassVar = FileForm("explanation", EXPLANATION_VERSION, FIELDS_SINCE, UNSAVED)
    drawn_by: ClassVar = "plot().savefig(path) or save_html(path)"

    target: Target
    method: str
    objective: str
    budget: int
    class_before: int  # of one logit 1 for yes and 0 for no; of labels and values twice the column that moved most
    class_after: int
    prob_before: FloatArray  # [num_classes]: probabilities; values themselves, where the output is values
    prob_after: FloatArray  # [num_classes]
    logits_before: FloatArray  # [num_classes]
    logits_after: FloatArray  # [num_classes]
    kl: float  # KL(P_after || P_before)
    num_paths: int  # altered paths in all
    paths: IntArray  # [n, num_hops + 1], leaf first, -1 before a bias, -2 before a group's end; most important first
    contributions: FloatArray  # [n, num_classes]
    weights: FloatArray  # [n]: of the relaxation (convex), else 1
    kinds: tuple[str, ...]  # [n]: gained, lost, reweighted, feature, or unchanged (a rival's choice)
    causes: dict[str, FloatArray]  # cause -> [num_classes]: the whole change; over all altered paths, and of the model
    kl_residual: float  # KL(P_after || P(before with the paths)), or KL(P_before || P(after without)) for necessity
    kl_bound: float  # no choice of this size leaves less; with a depth, no choice of as many of its units
    gap: float  # kl_residual - kl_bound
    fidelity_minus: float  # KL(P(after, paths undone) || P_before) / kl; under the model after, where it is another one
    fidelity_plus: float  # KL(P(before, paths added) || P_after) / KL(P_before || P_after); under the model before
    completeness: float  # largest difference between the sum of all contributions and the change of a logit
    status: str
    node_names: dict[int, str] = field(default_factory=dict)  # of the nodes mentioned, where the user has names
    class_names: tuple[str, ...] = ()
    origin: Origin | None = None  # what it is of; None where 0.1 wrote it
    unit: str = NODE_UNIT  # what the target is: a node, a graph or a link
    output: Output = CLASSES_OUTPUT  # what the columns of the logits mean
    hops: tuple[Hop, ...] = ()  # [num_hops], the leaf's first: which way messages flow; empty for along the edges
    groups: tuple[Group, ...] = ()  # those among `paths` that stand for all paths that end so
    retrained: Retrained | None = None  # where the model is another one than before: what each says by itself
    until: float | None = None  # the share that the fewest paths were to explain; None where a budget was given
    relations: tuple[tuple[int, int, str], ...] = ()  # of steps of paths, where edges have types: from, to, and what
    edge_places: dict[int, EdgePlace] = field(default_factory=dict)  # those on `paths`, by what stands for them there
    left_out: tuple[float, float] | None = None  # what altered paths not chosen add to `view`, and take away from it
    graph: Data | None = field(default=None, repr=False)  # `after`, for to_pyg; not saved
    graph_before: Data | None = field(default=None, repr=False)  # `before`, likewise

    @property
    def explained(self) -> float:
        """Share of the change of the distribution that the chosen paths account for; 0 where none is chosen.

        Sufficiency: 1 - KL(P_after || P(before with them)) / KL(P_after || P_before). Necessity, the mirror image:
        1 - KL(P_before || P(after without them)) / KL(P_before || P_after). Below 0 where the paths leave more than
        choosing none would; where nothing changed, 1 if they leave it so and nan if not.
        """
        ends = (self.logits_after, self.logits_before)
        whole = float(self.output.divergence(*(ends if self.objective == "sufficiency" else ends[::-1])))
        return self.output.explained(whole, self.kl_residual)

    @property
    def network_share(self) -> float:
        """Share of the way that the network itself goes with the chosen paths: 1 - fidelity_plus (added to `before`),
        or 1 - fidelity_minus for necessity (undone in `after`); nan where nothing changed.

        Of values it is a share of the distance, as `explained` is: a fidelity is a ratio of squares there.
        """
        left = self.fidelity_plus if self.objective == "sufficiency" else self.fidelity_minus
        return self.output.explained(1.0, left)

    @property
    def model_share(self) -> FloatArray:
        """The share of every logit's change that the model itself has; 0 where it is the same one. [num_classes]."""
        return self.causes.get(MODEL, np.zeros(len(self.logits_before)))

    @property
    def data_share(self) -> FloatArray:
        """The share that the graph and its features have: that of all paths together. [num_classes]."""
        return self.logits_after - self.logits_before - self.model_share

    @property
    def interaction(self) -> FloatArray:
        """What model and data do together alone, of which each has half in its share. [num_classes]."""
        if self.retrained is None:
            return np.zeros(len(self.logits_before))
        return self.retrained.interaction(self.logits_before, self.logits_after)

    @property
    def disagrees(self) -> bool:
        """Whether the sums explain much more of the change than the network itself makes of these paths.

        Never where the model is another one: the sums are of both models, and what a network answers is of one.
        """
        return self.retrained is None and len(self.paths) > 0 and self.explained - self.network_share > DISAGREEMENT

    @property
    def sizes(self) -> tuple[int, ...]:
        """Altered paths that each of `paths` stands for, [n]: 1, or the size of a group."""
        held = {group.row: group.size for group in self.groups}
        return tuple(held.get(row, 1) for row in range(len(self.paths)))

    def unit_name(self, row: int) -> str:
        """One of `paths` in words: its nodes, or how the paths of a group end and how many there are."""
        return sentences.unit_name(self, row)

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number; `bias` for -1, `any` for -2; of an edge its ends."""
        return name_node(int(node), self.names)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """What the nodes, and the edges, on paths are called, where that is not their number."""
        return {**self.node_names, **name_edges(self.edge_places, self.node_names)}

    def path_name(self, path: Sequence[int]) -> str:
        """A path in words: its nodes, and the edge that it begins at."""
        return sentences.path_name(self, path)

    def step(self, u: int, v: int) -> str:
        """The arrow from one node of a path to the next, with what the edge is called where edges have types."""
        name = next((name for a, b, name in self.relations if (a, b) == (u, v)), "")
        return name_step(name)

    def class_name(self, label: int) -> str:
        """The user's name of a class, else its number; of one logit `no` and `yes`."""
        return self.output.class_name(label, self.class_names)

    def column_name(self, column: int) -> str:
        """The user's name of a label or value, else what it is with its number."""
        return self.output.column_name(column, self.class_names, len(self.logits_before))

    @property
    def name(self) -> str:
        """The user's name of the target, else its number; of a link both ends."""
        if isinstance(self.target, tuple):
            return TO.join(self.name_of(node) for node in self.target)
        return self.name_of(self.target) if self.unit == NODE_UNIT else str(self.target)

    @property
    def view(self) -> tuple[str, FloatArray]:
        """What shares are told of, in words and as weights of the columns [num_classes]."""
        return sentences.view(self)

    @property
    def headline(self) -> str:
        """What happened to the prediction, without a full stop."""
        return sentences.headline(self)

    @property
    def verdict(self) -> str:
        """The same and how much of it is explained, with a full stop."""
        return sentences.verdict(self)

    @property
    def replayed(self) -> str:
        """What the network itself answers with the chosen paths, in a sentence or two; empty where none were chosen."""
        return sentences.replayed(self)

    @property
    def others(self) -> str:
        """What the altered paths that were not chosen add and take away, in a sentence; empty where all were."""
        return sentences.others(self)

    def summary(self, limit: int = 5) -> str:
        """A few sentences: what happened, how much of it the paths explain, what the network answers, which paths."""
        return sentences.summary(self, limit)

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def __repr__(self) -> str:
        """The headline."""
        return f"Explanation: {self.headline}"

    def to_frame(self) -> pd.DataFrame:
        """One row a chosen path, most important first.

        path (in words), kind, share (of the new class against the old one, or of the value that moved), num_paths
        (more than one where it is a group), then the share of every logit.
        """
        _, weights = self.view
        columns = self.output.table_columns(self.contributions.shape[1], self.class_names)
        frame = pd.DataFrame(
            {
                "path": [self.unit_name(row) for row in range(len(self.paths))],
                "kind": list(self.kinds),
                "share": self.contributions @ weights,
                "num_paths": list(self.sizes),
            }
        )
        return pd.concat([frame, pd.DataFrame(self.contributions, columns=columns)], axis=1)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Explanation:
        """The record again, every field checked; raises InputError with a sentence where one is amiss."""
        return rebuild(cls, values, _rebuild)

    def to_html(self, happened: Any = None) -> str:
        """One self-contained page: flow picture, waterfall, probabilities, table of paths.

        It begins with which changes did it and the least to undo, where these are given: `Explainer.happened(target)`.
        """
        from ..report.html import render_frontier

        return render_frontier([self], happened)

    def save_html(self, path: str | Path, happened: Any = None) -> None:
        """Write that page; a file that is there is replaced only once the new one is whole."""
        write_text(path, self.to_html(happened))

    def plot(self, label: int | None = None) -> Figure:
        """The same as a matplotlib figure; `label` picks the class whose logit is shown, else new against old."""
        from ..report.plots import plot_explanation

        return plot_explanation(self, label)

    def _repr_html_(self) -> str:
        from ..report.plots import to_notebook_html

        return to_notebook_html(self)

    def to_pyg(self, after: Data | None = None, before: Data | None = None) -> PyGExplanation:
        """A torch_geometric Explanation of `after`: each path gives what it adds to the new class to each of its steps.

        Of a label or value it gives what it adds to that. `index` is the node's row, the rows of a link's ends, or the
        number of a graph.

        edge_mask [num_edges] sums that over the edges of `after`, parallel ones sharing it by weight where messages are
        weighted, else equally. lost_edges, (u, v) -> sum in node numbers, has the edges that `after` no longer has, and
        loops [num_nodes] what nodes pass to themselves without an edge. Together they hold all that was given. An
        explanation read from a file has no graphs; pass them then, `before` to tell a lost self-loop from no edge.
        """
        import torch
        from torch_geometric.data import HeteroData
        from torch_geometric.explain import Explanation as PyGExplanation

        graphs = (self.graph_before, self.graph) if after is None else (before, after)
        data = graphs[1]
        if isinstance(data, HeteroData):
            raise WrongKind(
                "Expected one table of nodes (got a HeteroData); ask an explanation that was not read from a file, "
                "whose to_pyg() has the nodes of all types as rows of one graph, by `node_type` and `edge_type`."
            )
        if data is None:
            raise InputError("Expected the graph `after` (this explanation was read from a file); call to_pyg(after).")
        row = np.atleast_1d(self.target)
        if self.unit != UNIT_OF[GRAPHS]:
            row = np.array([found for end in row for found in np.flatnonzero(node_numbers(data) == end)])
        if len(row) < np.size(self.target):
            raise InputError(f"Expected the graph `after` of this explanation (got one without node {self.target}).")
        column = self.output.column(self.class_after)
        hops = self.hops or (Hop(),) * max(self.paths.shape[1] - 1, 0)
        placed = place_shares(self.paths, self.contributions[:, column], hops, (graphs[0], data), self.edge_places)
        return PyGExplanation(
            x=data.x,
            edge_index=data.edge_index,
            edge_mask=torch.from_numpy(placed.on_edges).float(),
            target=torch.tensor([self.class_after]),
            index=torch.tensor(row),
            prediction=torch.from_numpy(self.logits_after)[None],
            **{key: data[key] for key in ("node_type", "edge_type") if data.get(key) is not None},
            # No tensor: PyG would take one of as many entries as there are edges for one of them, and cut it with them.
            lost_edges=placed.on_lost,
            loops=torch.from_numpy(placed.on_loops).float(),
        )


@dataclass(frozen=True, eq=False)
class Caption:
    """What is written on every record of one Explainer, beside its numbers."""

    origin: Origin
    node_names: Mapping[int, str] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    graph_before: Data | None = None
    graph: Data | None = None
    relations: RelationNames | None = None  # where edges have types

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number."""
        return self.node_names.get(node, str(node))


def _rebuild(cls: type[Explanation], values: dict[str, Any]) -> Explanation:
    num_classes = len(values["logits_before"])
    vectors = {
        name: read_array(values[name], np.float64, (num_classes,), name)
        for name in ("prob_before", "prob_after", "logits_before", "logits_after")
    }
    n = len(values["paths"])
    paths = read_array(values["paths"], np.int64, (n, len(values["paths"][0]) if n else 0), "paths")
    kinds, causes = read_words(values["kinds"], "kinds"), values["causes"]
    groups = tuple(Group.from_dict(group, (paths.shape[1], num_classes)) for group in values.get("groups") or ())
    if np.flatnonzero((paths == ANY).any(axis=1)).tolist() != [group.row for group in groups]:
        raise InputError(f"Expected a group for each path that holds {ANY}, in order (got others).")
    retrained = read_retrained(values.get("retrained"), num_classes)
    least, models = (ANY, 1) if retrained is None else (ABSENT, 2)
    known_kinds = len(kinds) == n and {*kinds} <= {*KINDS, "unchanged"} and are_causes(causes, models=models)
    edges = _read_edges(values.get("edge_places"))
    mentioned = {*np.unique(paths[paths <= FIRST_EDGE]).tolist()}
    strange = (paths < least) & (paths > FIRST_EDGE)
    if not known_kinds or strange.any() or not mentioned <= {*edges}:
        raise InputError("Expected paths [n, hops + 1] and n kinds among those known (got something else).")
    if not all(np.isfinite(vector).all() for vector in vectors.values()):
        raise InputError("Expected finite logits and probabilities (got NaN or infinite ones).")
    numbers = {
        name: float(read_array(values[name], np.float64, (), name))
        for name in ("kl", "kl_residual", "kl_bound", "gap", "fidelity_minus", "fidelity_plus", "completeness")
    }
    unit, output = read_task(values)
    output.check_width(len(values["logits_before"]), "the explanation")
    target = read_target(values["target"], unit)
    whole = {name: values[name] for name in ("budget", "class_before", "class_after", "num_paths")}
    if not all(type(value) is int and 0 <= value < 2**63 for value in whole.values()):
        raise InputError(f"Expected whole numbers of 0 or more in {', '.join(whole)} (got something else).")
    if not all(whole[name] < num_classes + (output.kind == BINARY) for name in ("class_before", "class_after")):
        raise InputError(f"Expected classes between 0 and {num_classes - 1} (got {whole}).")
    if output.scales is not None and len(output.scales) != num_classes:
        raise InputError(f"Expected a unit for each of {num_classes} values (got {len(output.scales)}).")
    hops = tuple(Hop(str(hop["flow"]), bool(hop["weighted"])) for hop in values.get("hops") or ())
    if hops and ((n and len(hops) != paths.shape[1] - 1) or {hop.flow for hop in hops} - set(FLOWS)):
        raise InputError(f"Expected a flow among {', '.join(FLOWS)} for each step of a path (got something else).")
    until = values.get("until")
    if until is not None and not (type(until) in (int, float) and 0 < until <= 1):
        raise InputError("Expected a share above 0 and up to 1 in `until` (got something else).")
    method, objective, status = read_words([values[key] for key in ("method", "objective", "status")], "status")
    names = read_words(list(values["node_names"].values()), "node_names")
    left_out = values.get("left_out")
    if left_out is not None:
        up, down = read_array(left_out, np.float64, (2,), "left_out").tolist()
        left_out = (up, down)
        if not (np.isfinite(left_out).all() and down <= 0 <= up):
            raise InputError("Expected what is added and what is taken away in `left_out` (got something else).")
    known: dict[str, Any] = {**whole, **vectors, **numbers}
    return cls(
        **known,
        target=target,
        unit=unit,
        output=output,
        paths=paths,
        contributions=read_array(values["contributions"], np.float64, (n, num_classes), "contributions"),
        weights=read_array(values["weights"], np.float64, (n,), "weights"),
        kinds=kinds,
        causes=tell_causes({kind: read_array(causes[kind], np.float64, (num_classes,), "causes") for kind in causes}),
        method=method, objective=objective, status=status,
        node_names={int(node): name for node, name in zip(values["node_names"], names, strict=True)},
        class_names=read_words(values["class_names"], "class_names"),
        origin=None if values.get("origin") is None else Origin.from_dict(values["origin"]),
        hops=hops, groups=groups,
        retrained=retrained,
        until=until,
        relations=read_relations(values.get("relations") or ()),
        edge_places=edges,
        left_out=left_out,
    )  # fmt: skip


def _read_edges(values: Any) -> dict[int, EdgePlace]:
    found = {int(code): EdgePlace(*edge) for code, edge in (values or {}).items()}
    if not all(type(part) is int and 0 <= part < 2**63 for edge in found.values() for part in edge):
        raise InputError("Expected two ends of 0 and more for each edge on a path (got something else).")
    return found


def read_relations(values: Any) -> tuple[tuple[int, int, str], ...]:
    """Steps and what they are called, of a record."""
    found = []
    for u, v, name in values:
        if not all(type(end) is int and 0 <= end < 2**63 for end in (u, v)):
            raise InputError("Expected node numbers in `relations` (got something else).")
        found.append((u, v, *read_words([name], "relations")))
    return tuple(found)


def read_retrained(values: Any, num_classes: int) -> Retrained | None:
    """What two models say where they are crossed, of a record."""
    if values is None:
        return None
    sizes = {"logits_before": num_classes, "logits_after": num_classes, "fidelity_minus": 2, "fidelity_plus": 2}
    if set(values) != set(sizes):
        raise InputError(f"Expected {', '.join(sizes)} in `retrained` (got something else).")
    return Retrained(**{name: read_array(values[name], np.float64, (size,), name) for name, size in sizes.items()})


def read_task(values: Any) -> tuple[str, Output]:
    """What a target is and what its columns mean, of a record; before there were others, nodes and classes."""
    unit = values.get("unit", NODE_UNIT) if isinstance(values, Mapping) else None
    if not isinstance(unit, str) or unit not in (NODE_UNIT, *UNIT_OF.values()):
        raise InputError("Expected a target that is a node, a graph or a link (got something else).")
    return unit, CLASSES_OUTPUT if values.get("output") is None else Output.from_dict(values["output"])


def read_target(value: Any, unit: str) -> Target:
    """The number of a node or graph, or the two of a link, of a record."""
    numbers = value if isinstance(value, (list, tuple)) else [value]
    count = 2 if unit == UNIT_OF[LINKS] else 1
    if len(numbers) != count or not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise InputError(f"Expected the number of a {unit}, 0 or more (got something else).")
    return (numbers[0], numbers[1]) if count == 2 else numbers[0]


def read_array(value: Any, dtype: type, shape: tuple[int, ...], name: str) -> Any:
    """An array of a record, of this shape and type of numbers."""
    array: Any = np.asarray(value)
    if array.size == 0 and 0 in shape:
        return np.zeros(shape, dtype=dtype)
    if array.shape != shape:
        raise InputError(f"Expected `{name}` of shape {shape} (got {array.shape}).")
    # Whole numbers beyond 64 bits become objects, truth values and text are none, and 1.5 is no node.
    if array.dtype.kind not in ("i" if dtype is np.int64 else "if"):
        raise InputError(f"Expected numbers in `{name}` (got others, or something else).")
    return array.astype(dtype)
