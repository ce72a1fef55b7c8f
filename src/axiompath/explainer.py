"""Explainer: model + before + after, and every question one can ask of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.progress import track
from torch_geometric.data import Data, HeteroData

from .arrays import FloatArray, IntArray
from .blame.blame import Blame, blame_target
from .blame.engine import SubsetEngine
from .blame.enough import Enough, enough_of_target
from .blame.happened import Happened, find_happened
from .blame.root import Root
from .blame.shapley import Effort
from .blame.undo import Undo, undo_target
from .blame.what_if import try_changes
from .change.comparison import Change
from .errors import InputError, WrongKind
from .explain.arguments import suggest_arguments
from .explain.explanation import Caption, Explanation
from .explain.features import list_features
from .explain.neighbourhood import Neighbourhood
from .explain.question import ENOUGH, MOST_PATHS, MOST_UNITS, Question
from .explain.timeline import Timeline
from .explain.units import explain_units
from .files.named import take_names
from .graphs.data_fields import node_numbers
from .graphs.dated import REPEAT, read_windows
from .graphs.names import Asked, Names, index_names, read_names
from .graphs.places import LINKS, NODE_UNIT, UNIT_OF, Target, as_target
from .outputs import AUTO
from .paths.attribution import Attribution
from .readers import ModelCall, Usage
from .scan.flips import FLIP_SECONDS, check_flip_seconds
from .scan.plan import Thresholds
from .scan.run import Engine
from .scan.scan import Scan, scan_session
from .selection import DEFAULT_METHOD
from .session import Session, open_session
from .storage.memory import parse_memory
from .storage.notebook import bar_console, show
from .storage.origin import Origin
from .windows import WindowSession, open_windows

MOST_LISTED = 10**6  # nodes of a graph whose notebook view lists those that moved


@suggest_arguments
class Explainer:
    """Explains how a trained GNN's predictions changed from one snapshot of a graph to another.

    Nodes are numbered by their row, or by `n_id` if both graphs have it. If nodes have names (`node_names`, or the
    names in graphs of `snapshots` and `read_graph`), every method accepts a name in place of a number. Nodes of a
    HeteroData are pairs of type and number, such as ("author", 5). The model is copied and never altered. Two stored
    graphs (`axiompath.open_graph`) may be larger than memory: only the region that the change reaches is computed.
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
        links: Any = None,
        output: str = AUTO,
        scales: Any = None,
        paths: bool = True,
        model_before: Any = None,
        still: Any = REPEAT,
        dates: Any = None,
    ) -> None:
        """Read and check everything; `memory` bounds what walking the paths may take at a time.

        A mapping of names goes by node number, names in a row (a list, an array, a Series) by the snapshot's rows.
        The model is called with the fields of Data that its forward's arguments are named after, or with the whole
        Data where it takes one object; `call=lambda model, data: ...` says it otherwise. `links` are the pairs of nodes
        that a model of links is asked for first. `output` says what the model's columns mean where its last operation
        does not: classes, binary, labels or value; `scales` what a unit of each value is worth. Without `before`, the
        graph `after` is explained against its own nodes without edges. With paths=False the model is not read: `blame`,
        `undo` and `what_if` run it as it is, whatever it is made of, and nothing that asks for paths can be answered.
        `model_before` is the model that predicted on `before`, if it differs: of any depth or kind, as long
        as it predicts the same thing; what changed is then split between the model and the data.

        Of a model that looks back, `before` and `after` are windows: lists of as many snapshots, oldest first, with the
        same nodes. They are aligned by date: `data.time`, the names of `snapshots(...)`, or `dates=([..], [..])`.
        `still` says what the passing of time means, see `timeline`: "repeat", "empty", snapshots, or a function.
        """
        self.memory = parse_memory(memory)
        given: dict[str, Any] = {"model_before": model_before, "class_names": class_names, "paths": paths}
        given["usage"] = Usage(call, links, output, scales)
        if isinstance(before, Sequence) or isinstance(after, Sequence):
            windows = read_windows(before, after, still, dates)
            graphs, brought, offered = take_names((*windows.before, *windows.after))
            size = len(windows.before)
            windows = replace(windows, before=list(graphs[:size]), after=list(graphs[size:]))
            names = brought if node_names is None else node_names
            self.session: Session = open_windows(model, windows, node_names=names, offered=offered, **given)
            return
        (before, after), brought, offered = take_names((before, after))
        names = brought if node_names is None else node_names
        given["usage"] = replace(given["usage"], links=_with_numbers(links, names, (before, after)))
        self.session = open_session(model, before, after, node_names=names, offered=offered, **given)

    def __repr__(self) -> str:
        """What it is of, and how many predictions changed their answer."""
        session = self.session
        if isinstance(session, WindowSession):
            return session.summary
        if session.path_engine is None:
            return f"Explainer that runs the model as it is: {session.pair.all_nodes}, {session.unit}s are predicted"
        change = self.change
        both = change.in_both
        flipped = int(change.output.flipped(change.logits_before[both], change.logits_after[both]).sum())
        return (
            f"Explainer: {len(change.network.layers)} layers, {self.num_shared:,} {change.unit}s in both snapshots, "
            f"{flipped:,} of them with another answer after. Ask moved(), changes(), blame(target), explain(target)."
        )

    def _repr_html_(self) -> str:
        """In a notebook: what happened, and who moved the most."""
        return show(repr(self), self.moved() if self.session.pair.num_nodes < MOST_LISTED else None)

    @property
    def unit(self) -> str:
        """What is predicted: a node, a graph or a link."""
        return self.session.unit

    @property
    def change(self) -> Change:
        """What changed, and the forward pass on both snapshots."""
        return self.session.paths.change

    @property
    def node_names(self) -> Mapping[int, str]:
        """The user's names of nodes, by number."""
        return self.session.node_names

    @property
    def class_names(self) -> tuple[str, ...]:
        """The user's names of classes; empty if there are none."""
        return self.session.class_names

    @property
    def num_nodes(self) -> int:
        """Nodes of both graphs together, whether the change reaches them or not."""
        return self.session.num_nodes[0]

    @property
    def num_shared_nodes(self) -> int:
        """Nodes that both graphs have: those whose prediction could have changed."""
        return self.session.num_nodes[1]

    @property
    def num_shared(self) -> int:
        """Nodes, graphs or pairs whose prediction could have changed: those that both snapshots have."""
        by_node = self.unit == NODE_UNIT and self.change.before.places is None
        return self.num_shared_nodes if by_node else int(self.change.in_both.sum())

    @property
    def num_paths(self) -> IntArray | NDArray[np.object_]:
        """Number of altered paths of every node, counted without walking them."""
        return self.session.paths.num_paths

    @property
    def num_bytes(self) -> FloatArray:
        """Upper bound of the memory that explaining each node takes if all its paths are listed."""
        return self.session.paths.num_bytes

    @property
    def origin(self) -> Origin:
        """Origin of every record of this Explainer: the release, and digests of the model and both graphs."""
        return self.session.paths.origin

    def moved(self) -> pd.DataFrame:
        """Every node whose prediction can have moved: its classes, KL(after || before) and number of altered paths.

        If `model_before` differs, every node whose logits moved; the old model's prediction on `before` is compared
        with the new model's on `after`. num_paths is then that of the model with more paths, or the sum if the depths
        differ. Columns: target, name, class_before, class_after (and their names, if any), kl, num_paths; largest KL
        first. Nodes that exist in only one snapshot have no change of prediction and are left out. For a model that is
        only run (`paths=False`), and for windows, all nodes with a different answer are listed, without num_paths.
        """
        return self.session.moved()

    def timeline(self, target: Asked | None = None) -> Timeline:
        """What moved the prediction of a window: rows per changed item and date, which sum to every logit's change.

        The change has three legs, in this order: *revised*, dates that both windows have and whose data differ; *time*,
        the effect of time passing without events (`still`), one row; *news*, the rest. No path is walked. `plot()`
        draws a strip.
        """
        if not isinstance(self.session, WindowSession):
            raise InputError(
                "Expected an Explainer of two windows for a timeline (got one of two graphs); give `before` and "
                "`after` as lists of dated snapshots."
            )
        return self.session.timeline(self._only(target))

    def unmatched(self) -> pd.DataFrame:
        """Nodes, graphs or pairs that only one snapshot has, so that they cannot have moved: target, name, snapshot.

        A node that only `after` has can still be explained, against itself without any edge in `before`; so can
        a pair with such an end.
        """
        return self.session.unmatched()

    def changes(self, *, directed: bool = False, open_nodes: bool = False) -> pd.DataFrame:
        """What happened to the graph, one row per change: id, kind, src and dst with their names, both weights.

        Kinds: node added, node removed, features changed, edge added, edge removed, edge reweighted. Two directions of
        an edge that changed alike are one change, unless `directed`. A node that comes or goes is one change with its
        edges (`num_edges`); with `open_nodes`, each of them has its own row. Ids number the rows of this call, ordered
        by kind, then by src and dst. If `model_before` differs, the last row is *model retrained*.
        """
        return self.session.changes(directed=directed, open_nodes=open_nodes)

    def blame(
        self,
        target: Asked | None = None,
        *,
        by: Any = None,
        opened: bool = False,
        open_nodes: bool = False,
        interactions: bool = False,
        seed: int = 0,
        seconds: float = 10.0,
        tolerance: float = 0.01,
    ) -> Blame:
        """Which changes moved a prediction, and by how much: the Shapley value of each change that reaches it.

        The model runs on the real graph with subsets of the changes applied: with all subsets for up to 16 changes, or
        more if `seconds` allow; otherwise along random orders, until the standard errors are below `tolerance` of the
        change. `by` groups changes: a column of `changes()`, a dict of ids, a function of a row, one label per row, or
        "node". `opened` splits the share of each group over its changes (Owen values). `open_nodes` gives each edge of
        an added or removed node its own share. `interactions` adds what each pair of changes does only together.
        """
        return blame_target(
            *self._for_subsets(target),
            by=by,
            opened=opened,
            open_nodes=open_nodes,
            interactions=interactions,
            effort=Effort(seed, seconds, tolerance),
        )

    def undo(
        self,
        target: Asked | None = None,
        *,
        to: int | str | None = None,
        below: float | None = None,
        keep: Iterable[int] | int = (),
        costs: Mapping[int, float] | None = None,
        every: bool = False,
        open_nodes: bool = False,
        seconds: float = 10.0,
        starts: Sequence[Sequence[int]] = (),
    ) -> Undo:
        """The fewest changes to undo to get the old class back, judged by the user's own model on the real graph.

        `to` asks for another class, by number or name; `below` for a probability of the new class (or a value) below
        this. Changes in `keep` are not undone; `costs` (id -> cost, 1 by default) asks for the cheapest set. `every`
        lists all sets of that size. `starts` are further orders of changes to search along, such as another explainer's
        ranking. The search ends within a second after `seconds`, or when the current evaluation ends.
        """
        return undo_target(
            *self._for_subsets(target),
            to=to,
            below=below,
            keep=keep,
            costs=costs,
            every=every,
            open_nodes=open_nodes,
            seconds=seconds,
            starts=starts,
        )

    def enough(
        self,
        target: Asked | None = None,
        *,
        until: float = ENOUGH,
        budget: int | None = None,
        open_nodes: bool = False,
        seconds: float = 10.0,
    ) -> Enough:
        """The fewest changes that, applied to `before` without the others, account for the share `until` of the change.

        With a `budget`, the set of at most that many changes that accounts for most of it; `until` is then ignored.
        """
        return enough_of_target(
            *self._for_subsets(target), until=until, budget=budget, open_nodes=open_nodes, seconds=seconds
        )

    def happened(self, target: Asked | None = None, *, seconds: float = 1.0) -> Happened:
        """Blame and undo of one target in about `seconds`, as a report shows them first.

        `blame` and `undo` take more time and return more detail.
        """
        return find_happened(*self._for_subsets(target), seconds)

    def what_if(
        self, target: Asked | None = None, *, undo: Any = None, apply: Any = None, open_nodes: bool = False
    ) -> FloatArray:
        """Logits [num_logits] of a target on `after` with exactly these changes undone, or on `before` with only them.

        Changes are ids of `changes()`; a list of sets returns [num_sets, num_logits] in one call.
        """
        session = self.session
        return try_changes(
            session.subsets, session.root(self._only(target)), undo=undo, apply=apply, open_nodes=open_nodes
        )

    def _only(self, target: Asked | None) -> Target:
        if isinstance(target, list | set | range | pd.Series) and not (
            self.unit == UNIT_OF[LINKS] and len(target) == 2
        ):
            raise WrongKind(
                f"Expected one target (got {len(target)} in a {type(target).__name__}); for several, use "
                "explain_many(targets), or ask for one after the other."
            )
        target = self.session.index.target(target)
        if target is not None:  # numpy's numbers are taken, and recorded as plain ones
            numbers = np.asarray(target)
            plain: Any = as_target(numbers) if numbers.dtype.kind in "iu" and numbers.shape in ((), (2,)) else target
            found: Target = plain
            return found
        return self.session.only_target()

    def _for_subsets(self, target: Asked | None) -> tuple[SubsetEngine, Root, Caption]:
        session = self.session
        return session.subsets, session.root(self._only(target)), session.caption

    def attribute(self, target: Asked) -> Attribution:
        """Every altered path of one node and its share of the change of every logit."""
        return next(self.attribute_many([self._only(target)]))

    def attribute_many(self, targets: Iterable[Asked]) -> Iterator[Attribution]:
        """The same for many nodes, in order, in batches that fit into the memory budget."""
        engine, rows = self.session.locate(map(self.session.index.target, targets))
        return engine.attribute(rows, self.memory)

    def explain(
        self,
        target: Asked | None = None,
        budget: int | None = None,
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        *,
        until: float = ENOUGH,
        at_most: bool = False,
        depth: int | str | None = None,
        by: str | None = None,
    ) -> Explanation:
        """Explain one target by the fewest paths, at most 20, that account for the share `until` of its change.

        With a `budget`, by that many paths that account for it best.

        A target is a node, a graph of a batch or a pair of nodes, by number or name; it can be omitted for a single
        graph. Methods: convex, exact, linear, topk, deeplift, gnnlrp, grad. Objectives: sufficiency (`before` with the
        paths gives `after`), necessity (`after` without them gives `before`). With at_most, fewer paths if fewer do
        better.

        With depth="auto" a chosen unit may be a group: all paths that end alike, with their exact sum. Groups are
        opened where that explains more. With a number, all units are ends of that many hops. The default budget of
        groups is 10. With by="layer_edge" or by="edge", changed edges are chosen instead.
        """
        most, share = (MOST_PATHS, until) if budget is None else (budget, None)
        if depth is not None:
            most, share = (MOST_UNITS if budget is None else budget), None
        question = Question(most, method, objective, at_most, share, depth)
        engine, rows = self.session.locate([self._only(target)])
        if by is not None:
            found = explain_units(engine, int(rows[0]), by, question, self.memory)
        else:
            found = next(engine.explain(rows, question, self.memory))
        return replace(found, ask=partial(self.happened, found.target))

    def explain_many(
        self,
        targets: Iterable[Asked],
        budget: int = 10,
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        *,
        at_most: bool = False,
        depth: int | str | None = None,
        progress: bool = True,
    ) -> Iterator[Explanation]:
        """Explain many targets with `budget` paths each, in order and lazily, with a progress bar."""
        question = Question(budget, method, objective, at_most, depth=depth)
        engine, rows = self.session.locate(map(self.session.index.target, targets))
        explanations = engine.explain(rows, question, self.memory)
        if not progress:
            return explanations
        return iter(track(explanations, "Explaining", len(rows), console=bar_console(), transient=True))

    def features(
        self,
        target: Asked | None = None,
        paths: Any = None,
        *,
        feature_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    ) -> pd.DataFrame:
        """Which columns of changed features moved a prediction, and by how much; with `paths`, for their leaves only.

        Columns: node, name, column (and its name), before, after, share (of the new class's logit against the old
        one's) and the share of every logit; largest first. Without paths all shares sum to the cause *feature*, and no
        path is walked. With paths (of `explain` or `attribute`), `path` is the index of each, and its shares sum to its
        contribution. Column -1 is what no column did: a bias, or coefficients that a layer computes from its inputs.
        `feature_names` names the columns, by node type if nodes have types.
        """
        engine, (row,) = self.session.locate([self._only(target)])
        return list_features(engine, int(row), self.session.index.paths(paths), feature_names)

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
        blame: bool | int = False,
        flip_seconds: float = FLIP_SECONDS,
    ) -> Scan:
        """Explain every node whose class changed or whose KL is at least `min_kl`; with `only_flips`, only the former.

        Results are written to the folder `out` in parts (by default, to a temporary folder that is deleted with the
        Scan). An interrupted scan resumes there, and the same scan always writes the same bytes. Engines: local
        (`workers` processes on this machine, by default one per core) and ray. `memory` limits all workers on this
        machine together, in addition to the graphs; by default it is that of the Explainer. `blame` also writes what
        each change does to these predictions (`Scan.blame`); blame=1000 covers the thousand that moved most. The cause
        and the undo of each flip are written (`Scan.flips`), largest first, within `flip_seconds`; 0 skips them.
        """
        check_flip_seconds(flip_seconds)
        question, thresholds = Question(budget, method, objective, at_most), Thresholds(min_kl, only_flips)
        runner = Engine(engine, self.memory if memory is None else parse_memory(memory), workers, ray_address)
        return scan_session(
            self.session, out, question, thresholds, runner, progress=progress, blame=blame, flip_seconds=flip_seconds
        )

    def frontier(
        self,
        target: Asked,
        budgets: Sequence[int],
        method: str = DEFAULT_METHOD,
        objective: str = "sufficiency",
        *,
        at_most: bool = False,
        depth: int | str | None = None,
    ) -> list[Explanation]:
        """One Explanation per budget, each solved starting from the one before."""
        questions = [Question(budget, method, objective, at_most, depth=depth) for budget in budgets]
        engine, (row,) = self.session.locate([self._only(target)])
        return engine.frontier(int(row), questions, self.memory)

    def neighbourhood(self, target: Asked | Explanation | None = None) -> Neighbourhood:
        """The surroundings of a target in both graphs: `plot()`, `save("x.svg")`, or displayed in a notebook.

        Draws the paths of `explanation` if given, otherwise those of `explain(target)`.
        """
        found = target if isinstance(target, Explanation) else self.explain(target)
        return self.session.neighbourhood(found)

    def replay(self, target: Asked, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] of the target on `after` with these paths undone; or on `before` with them added.

        If `model_before` differs, `under` selects the model: that of `after` or of `before`.
        """
        engine, (row,) = self.session.locate([self._only(target)])
        return engine.replay(int(row), self.session.index.paths(paths), add=add, under=under)

    def replay_edges(self, target: Asked, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] of the user's own model on a real graph: `after` with the edges of these paths as in
        `before`; or `before` with them as in `after`."""
        engine, (row,) = self.session.locate([self._only(target)])
        return engine.replay_edges(int(row), self.session.index.paths(paths), add=add, under=under)


def _with_numbers(links: Any, node_names: Names | None, graphs: tuple[Any, Any]) -> Any:
    """Pairs that the user names, by number; where nodes have types, that is done with their graphs."""
    if any(isinstance(graph, HeteroData) for graph in graphs):
        return links
    if not isinstance(links, (list, tuple)) or not any(isinstance(end, str) for pair in links for end in pair):
        return links
    rows = [node_numbers(graph) for graph in graphs if isinstance(graph, Data)]
    index = index_names(read_names(node_names, rows).items())
    return [index.target(tuple(pair)) for pair in links]
