"""Explanation: the frozen record of why one prediction changed; JSON in and out. Drawing is report/'s, loaded late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..change.states import KINDS, MODEL, are_causes
from ..errors import InputError, WrongKind, renamed
from ..graphs.data_fields import node_numbers
from ..graphs.labels import ABSENT, ANY, FIRST_EDGE, TO, name_edges, name_node, name_step
from ..graphs.places import GRAPHS, NODE_UNIT, UNIT_OF, EdgePlace, Target, Unit, check_target
from ..graphs.relation_names import RelationNames
from ..outputs import BINARY, CLASSES_OUTPUT, Output
from ..paths.table import KIND_WORDS
from ..selection.choice import OBJECTIVES
from ..storage.codec import UNSAVED, Count, FileForm, Finite, Saved, Shape, Share, Text, decode, one_of, require
from ..storage.notebook import show
from ..storage.origin import Origin
from ..storage.writing import check_page, write_text
from . import sentences
from .hops import Hop, place_shares
from .retrained import Retrained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch_geometric.data import Data
    from torch_geometric.explain import Explanation as PyGExplanation

# Where the sums claim so much more of the change than the network itself, run with these paths, makes of it, the reader
# is warned. Both are shares of a whole change; a quarter is far beyond what activations make of a good choice.
DISAGREEMENT = 0.25

PATH, LAYER_EDGE, EDGE = "path", "layer_edge", "edge"  # what is chosen; of paths, also groups of them
EDGE_FORM = FileForm("edge-explanation", 2)  # of files that hold edges; the format was one of its own until version 5
OF_PATHS: dict[str, Any] = {
    "by": PATH,
    "layers": None,
    "directed": [],
    "logits_added": None,
    "logits_undone": None,
    "fewest": "",
}


@dataclass(frozen=True, eq=False)
class Group:
    """All altered paths that end alike: how many, and those with the largest shares."""

    row: Count  # which of the chosen units it is
    size: Count  # altered paths; exact up to 2^53
    paths: Annotated[IntArray, Shape("shown", "places")]  # whole paths, leaf first, the largest first
    contributions: Annotated[FloatArray, Shape("shown", "classes")]
    kinds: Annotated[tuple[Annotated[str, one_of(*KINDS)], ...], Shape("shown")]

    def check(self) -> None:
        """Whole paths have nodes, and a bias at most before them."""
        require(self.paths.min(initial=0) >= -1, "`groups` should have whole paths, of nodes and -1 for a bias")


@dataclass(frozen=True, eq=False)
class Explanation(Saved):
    """Why the prediction of one target changed: the chosen units, how well they do, and what they were chosen from.

    A unit is a path, a group of paths, an edge (in all layers), or an edge of one layer. An edge is a path of one hop:
    `paths` holds its sender and its receiver.
    """

    form: ClassVar = FileForm("explanation", 6, {4: {"left_out": None}, 5: OF_PATHS})
    drawn_by: ClassVar = "plot().figure.savefig(path) or save_html(path)"

    target: Target
    method: Text
    objective: Annotated[str, one_of(*OBJECTIVES)]
    budget: Count
    class_before: Count  # of one logit 1 for yes and 0 for no; of labels and values twice the column that moved most
    class_after: Count
    # Probabilities; values themselves, where the output is values.
    prob_before: Annotated[FloatArray, Shape("classes", finite=True)]
    prob_after: Annotated[FloatArray, Shape("classes", finite=True)]
    logits_before: Annotated[FloatArray, Shape("classes", finite=True)]
    logits_after: Annotated[FloatArray, Shape("classes", finite=True)]
    kl: float  # KL(P_after || P_before)
    num_paths: Count  # altered paths in all; of edges the changed ones, and leaves whose features changed
    # A place a node, leaf first, -1 before a bias, -2 before a group's end; the most important path first.
    # Of an edge sender and receiver; -1 for the predicted graph or link, and beside a leaf whose features changed.
    paths: Annotated[IntArray, Shape("paths", "places")]
    contributions: Annotated[FloatArray, Shape("paths", "classes")]
    weights: Annotated[FloatArray, Shape("paths")]  # of the relaxation (convex), else 1
    kinds: Annotated[tuple[Annotated[str, one_of(*KIND_WORDS)], ...], Shape("paths")]
    # Cause -> the whole change; over all altered paths, and of the model; empty of edges.
    causes: Annotated[dict[Text, FloatArray], Shape("classes")]
    kl_residual: float  # KL(P_after || P(before with the paths)), or KL(P_before || P(after without)) for necessity
    kl_bound: float  # no choice of this size leaves less; with a depth, no choice of as many of its units
    gap: float  # kl_residual - kl_bound
    fidelity_minus: float  # KL(P(after, paths undone) || P_before) / kl; under the model after, if it differs
    fidelity_plus: float  # KL(P(before, paths added) || P_after) / KL(P_before || P_after); under the model before
    completeness: float  # largest difference between the sum of all contributions and the change of a logit
    status: Text
    node_names: dict[int, Text] = field(default_factory=dict)  # of the nodes mentioned, where the user has names
    class_names: tuple[Text, ...] = ()
    origin: Origin | None = None  # what it is of
    unit: Unit = NODE_UNIT  # what the target is: a node, a graph or a link
    output: Output = CLASSES_OUTPUT  # what the columns of the logits mean
    hops: tuple[Hop, ...] = ()  # [num_hops], the leaf's first: which way messages flow; empty for along the edges
    groups: tuple[Group, ...] = ()  # those among `paths` that stand for all paths that end so
    retrained: Retrained | None = None  # if the model differs from the one before: what each says by itself
    until: Share | None = None  # the share that the fewest paths were to explain; None where a budget was given
    relations: tuple[
        tuple[Count, Count, Text], ...
    ] = ()  # of steps of paths, where edges have types: from, to, and what
    edge_places: dict[int, EdgePlace] = field(default_factory=dict)  # those on `paths`, by what stands for them there
    # What altered paths not chosen add to `view`, and take away from it.
    left_out: tuple[Finite, Finite] | None = None
    by: Annotated[str, one_of(PATH, LAYER_EDGE, EDGE)] = PATH  # what was chosen
    # Of edges: 1 for the layer that takes from the leaves; 0 for all of them, and for features. None for paths.
    layers: Annotated[IntArray | None, Shape("paths")] = None
    directed: tuple[bool, ...] = ()  # of edges: whether each is of one direction only; empty where that is not known
    # Of edges: `before` with exactly these coefficients, in these layers, of `after`.
    logits_added: Annotated[FloatArray | None, Shape("classes")] = None
    # `after` with them as in `before`; of two models, each on its own graph.
    logits_undone: Annotated[FloatArray | None, Shape("classes")] = None
    fewest: Text = ""  # as of a Selection: what is known of fewer
    # `after` and `before` for to_pyg, each a Data: workers of scans start faster without torch
    graph: Any = field(default=None, repr=False, metadata=UNSAVED)
    graph_before: Any = field(default=None, repr=False, metadata=UNSAVED)
    # Asks which changes did it and the least to undo, where the Explainer is at hand: () -> Happened, in a second or so
    ask: Any = field(default=None, repr=False, metadata=UNSAVED)

    @cached_property
    def happened(self) -> Any:
        """Which changes did it and the least to undo (see `Explainer.happened`); None for a record read from a file."""
        return None if self.ask is None else self.ask()

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or what another process gets, asks nobody: it would take the model and both graphs along."""
        return {**self.__dict__, "ask": None}

    @property
    def explained(self) -> float:
        """Share of the change of the distribution that the chosen paths account for; 0 if none is chosen.

        Sufficiency: 1 - KL(P_after || P(before with them)) / KL(P_after || P_before). Necessity, the mirror image:
        1 - KL(P_before || P(after without them)) / KL(P_before || P_after). Below 0 if the paths leave more than
        choosing none would. If nothing changed, 1 if they leave it so, otherwise nan.
        """
        ends = (self.logits_after, self.logits_before)
        whole = float(self.output.divergence(*(ends if self.objective == "sufficiency" else ends[::-1])))
        return self.output.explained(whole, self.kl_residual)

    @property
    def network_share(self) -> float:
        """How far the network itself goes with the chosen paths: 1 - fidelity_plus (added to `before`),
        or 1 - fidelity_minus for necessity (undone in `after`); nan if nothing changed.

        For values it is a share of the distance, as `explained` is, because a fidelity is a ratio of squares there.
        """
        left = self.fidelity_plus if self.objective == "sufficiency" else self.fidelity_minus
        return self.output.explained(1.0, left)

    @property
    def edges(self) -> IntArray:
        """Sender and receiver of each chosen edge, [n, 2]; only if edges were chosen."""
        if self.by == PATH:
            raise InputError('Expected an explanation by edges (got one by paths); ask explain(target, by="edge").')
        return self.paths

    @property
    def num_units(self) -> int:
        """Number of units to choose from: altered paths or changed edges."""
        return self.num_paths

    @property
    def model_share(self) -> FloatArray:
        """The share of every logit's change that belongs to the model; 0 if it is the same model. [num_classes]."""
        if self.by == PATH or self.retrained is None:
            return self.causes.get(MODEL, np.zeros(len(self.logits_before)))
        crossed = self.logits_after - self.retrained.logits_after + self.retrained.logits_before - self.logits_before
        return 0.5 * crossed

    @property
    def data_share(self) -> FloatArray:
        """The share that belongs to the graph and its features: that of all paths together. [num_classes]."""
        return self.logits_after - self.logits_before - self.model_share

    @property
    def interaction(self) -> FloatArray:
        """The interaction of model and data, of which each has half in its share. [num_classes]."""
        if self.retrained is None:
            return np.zeros(len(self.logits_before))
        return self.retrained.interaction(self.logits_before, self.logits_after)

    @property
    def disagrees(self) -> bool:
        """Whether the sums explain much more of the change than the network itself does with these paths.

        Never if `model_before` differs: the sums belong to both models, the answer of a network to one.
        """
        return self.retrained is None and len(self.paths) > 0 and self.explained - self.network_share > DISAGREEMENT

    @property
    def sizes(self) -> tuple[int, ...]:
        """Altered paths that each of `paths` stands for, [n]: 1, or the size of a group."""
        held = {group.row: group.size for group in self.groups}
        return tuple(held.get(row, 1) for row in range(len(self.paths)))

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number; `bias` for -1, `any` for -2; of an edge its ends."""
        return name_node(int(node), self.names)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """Names of nodes and edges on paths, unless they are numbers."""
        return {**self.node_names, **name_edges(self.edge_places, self.node_names)}

    def step(self, u: int, v: int) -> str:
        """The arrow from one node of a path to the next, with the name of the relation if edges have types."""
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

    # In words: see the functions.
    view = property(sentences.view)
    headline = property(sentences.headline)
    verdict = property(sentences.verdict)
    replayed = property(sentences.replayed)
    others = property(sentences.others)
    of_paths = property(sentences.of_paths)
    unit_name = sentences.unit_name
    row_name = renamed("row_name", "unit_name")
    path_name = sentences.path_name
    summary = sentences.summary

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def __repr__(self) -> str:
        """The headline."""
        return f"Explanation: {self.headline}"

    def to_frame(self) -> pd.DataFrame:
        """One row per chosen unit, most important first.

        Of paths: path (in words), kind, share (of the new class against the old one, or of the value that moved),
        num_paths (more than one where it is a group). Of edges: unit (in words), layer, src, dst, kind, share. Then the
        share of every logit.
        """
        names = [self.unit_name(row) for row in range(len(self.paths))]
        shown = {"kind": list(self.kinds), "share": self.contributions @ self.view[1]}
        held: dict[str, Any] = {"path": names, **shown, "num_paths": list(self.sizes)}
        if self.by != PATH:
            held = {"unit": names, "layer": self.layers, "src": self.paths[:, 0], "dst": self.paths[:, 1], **shown}
        columns = self.output.table_columns(self.contributions.shape[1], self.class_names)
        return pd.concat([pd.DataFrame(held), pd.DataFrame(self.contributions, columns=columns)], axis=1)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Explanation:
        """The record, with every field checked; raises InputError with a sentence if one is invalid."""
        if not isinstance(values, dict) or values.get("format") != EDGE_FORM.name:
            return super().from_dict(values)
        held = EDGE_FORM.open(values)
        moved = {new: held.pop(old) for new, old in (("num_paths", "num_units"), ("paths", "edges")) if old in held}
        probs = {"prob_before": held.get("logits_before"), "prob_after": held.get("logits_after"), "gap": 0.0}
        added: dict[str, Any] = {
            "causes": {},
            "hops": [],
            "groups": [],
            "edge_places": {},
            "left_out": None,
            "directed": [],
        }
        found = decode(cls, {**held, **moved, **probs, **added}, f"a whole {EDGE_FORM.word}")
        before, after = (found.output.means(logits) for logits in (found.logits_before, found.logits_after))
        return replace(found, prob_before=before, prob_after=after, gap=found.kl_residual - found.kl_bound)

    def check(self) -> None:
        """Paths, groups, causes and hops are consistent, and the classes fit the columns."""
        check_prediction(self)
        marked = np.flatnonzero((self.paths == ANY).any(axis=1)).tolist()
        require(marked == [group.row for group in self.groups], f"`groups` should be one per path that holds {ANY}")
        least, models = (ANY, 1) if self.retrained is None else (ABSENT, 2)
        known = are_causes(self.causes, models=models) if self.by == PATH else not self.causes
        require(known, "`causes` should be those known, each of them")
        edges = self.paths <= FIRST_EDGE
        known = {*np.unique(self.paths[edges]).tolist()} <= {*self.edge_places}
        require(
            known and (edges | (self.paths >= least)).all(), "`paths` should hold nodes, and edges of `edge_places`"
        )
        fits = len(self.hops) in (0, self.paths.shape[1] - 1) or not len(self.paths)
        require(fits, "`hops` should be one for each step of a path")
        up, down = self.left_out or (0.0, 0.0)
        require(down <= 0 <= up, "`left_out` should be what is added and what is taken away")
        by_edge = self.by != PATH
        for name in ("layers", "logits_added", "logits_undone"):
            held = getattr(self, name) is not None
            require(held == by_edge, f"`{name}` should be given where edges are chosen, and nowhere else")
        require(not by_edge or self.paths.shape[1] == 2, "`paths` should be a sender and a receiver of each edge")
        require(len(self.directed) in (0, len(self.paths) * by_edge), "`directed` should be one for each edge, or none")

    def need_paths(self, doing: str) -> None:
        """Refuse what can only be done with paths."""
        if self.by != PATH:
            raise InputError(f"Expected an explanation by paths to {doing} (got one by {self.by}); leave `by` out.")

    def to_html(self, happened: Any = None) -> str:
        """One self-contained page: flow picture, waterfall, probabilities, table of paths.

        It begins with blame and undo. For a record read from a file, pass them: `Explainer.happened(target)`.
        """
        from ..report.html import render_frontier

        self.need_paths("draw")
        return render_frontier([self], self.happened if happened is None else happened)

    def save_html(self, path: str | Path, happened: Any = None) -> None:
        """Write that page; a file that is there is replaced only once the new one is whole."""
        check_page(path)
        write_text(path, self.to_html(happened))

    def __len__(self) -> int:
        """How many paths (or edges) were chosen."""
        return len(self.paths)

    def plot(self, label: int | None = None, ax: Axes | None = None) -> Axes:
        """A waterfall on matplotlib axes, new ones or `ax`: from `before` to `after`, a bar per path.

        `label` picks the class whose logit is shown, else new against old.
        """
        from ..report.plots import plot_paths

        self.need_paths("draw")
        return plot_paths(self, label, ax)

    def _repr_html_(self) -> str:
        from ..report.plots import to_notebook_html

        if self.by != PATH:
            return show(self.summary(), self.to_frame())
        return to_notebook_html(self)

    def to_pyg(self, after: Data | None = None, before: Data | None = None) -> PyGExplanation:
        """A torch_geometric Explanation of `after`: each path adds its share of the new class to each of its edges.

        For a label or value, its share of that. `index` is the node's row, the rows of a link's ends, or the
        number of a graph.

        edge_mask [num_edges] sums that over the edges of `after`, parallel ones sharing it by weight where messages are
        weighted, else equally. lost_edges, (u, v) -> sum in node numbers, has the edges that `after` no longer has, and
        loops [num_nodes] what nodes pass to themselves without an edge. Together they hold the sum of all shares. An
        explanation read from a file has no graphs; pass them then, `before` to distinguish a lost self-loop from no
        edge.
        """
        import torch
        from torch_geometric.data import HeteroData
        from torch_geometric.explain import Explanation as PyGExplanation

        self.need_paths("be placed on edges")
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
    """The fields of every record of one Explainer, other than its numbers."""

    origin: Origin
    node_names: Mapping[int, str] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    graph_before: Data | None = None
    graph: Data | None = None
    relations: RelationNames | None = None  # where edges have types

    def name_of(self, node: int) -> str:
        """The user's name of a node, else its number."""
        return self.node_names.get(node, str(node))


def check_prediction(record: Any) -> None:
    """Require of a record that target and unit, and classes, output and logits, fit each other."""
    check_target(record.target, record.unit)
    width, is_binary = len(record.logits_before), record.output.kind == BINARY
    require(width == 1 or not is_binary, f"`output` should be binary of one logit only; got {width}")
    for name in ("class_before", "class_after"):
        label, number = getattr(record, name), width + is_binary
        require(label < number, f"`{name}` should be a class between 0 and {number - 1}; got {label}")
