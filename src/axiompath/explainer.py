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
from .graphs.dated import REPEAT, Windows, read_windows
from .graphs.names import Asked, Names, index_names, read_names
from .graphs.places import LINKS, UNIT_OF, Target, as_target
from .outputs import AUTO
from .paths.attribution import Attribution
from .readers import ModelCall, Usage
from .scan.flips import FLIP_SECONDS, check_flip_seconds
from .scan.plan import Thresholds
from .scan.scan import Engine, Scan, scan_session
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

    Nodes are numbered by their row, or by `n_id` where both graphs carry it; where they have names (`node_names`, or
    those that graphs of `snapshots` and `read_graph` bring along), every question takes a name in place of a number.
    Those of a HeteroData are named by their type besides, as ("author", 5). The model is copied, never altered.
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
        `model_before` is the model that predicted on `before`, where it is another one: of any depth or kind, as long
        as it predicts the same thing; what changed is then split between the model and the data.

        Of a model that looks back, `before` and `after` are windows: lists of as many snapshots, oldest first, with the
        same nodes. They are aligned by date: `data.time`, the names of `snapshots(...)`, or `dates=([..], [..])`.
        `still` says what the passing of time means, see `timeline`: "repeat", "empty", snapshots, or a function.
        """
        self.memory = parse_memory(memory)
        if isinstance(before, Sequence) or isinstance(after, Sequence):
            self.session: Session = self._open_windows(
                model, read_windows(before, after, still, dates), model_before, node_names, class_names,
                Usage(call, links, output, scales), paths=paths,
            )  # fmt: skip
            return
        (before, after), brought, offered = take_names((before, after))
        node_names = brought if node_names is None else node_names
        links = _with_numbers(links, node_names, (before, after))
        self.session = open_session(
            model,
            before,
            after,
            model_before=model_before,
            node_names=node_names,
            class_names=class_names,
            offered=offered,
            usage=Usage(call, links, output, scales),
            paths=paths,
        )

    def __repr__(self) -> str:
        """What it is of, and how many predictions changed their answer."""
        session = self.session
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
        """What changed, and both passes of the network."""
        return self.session.paths.change

    @property
    def node_names(self) -> Mapping[int, str]:
        """The user's names of nodes, by number."""
        return self.session.node_names

    @property
    def class_names(self) -> tuple[str, ...]:
        """The user's names of classes; empty without."""
        return self.session.class_names

    @property
    def num_nodes(self) -> int:
        """Nodes of both graphs together, whether the change reaches them or not."""
        return self.session.paths.region.pair.num_nodes

    @property
    def num_shared_nodes(self) -> int:
        """Nodes that both graphs have: those whose prediction could have changed."""
        return self.session.paths.region.pair.num_shared_nodes

    @property
    def num_shared(self) -> int:
        """Nodes, graphs or pairs whose prediction could have changed: those that both snapshots have."""
        return self.num_shared_nodes if self.change.before.places is None else int(self.change.in_both.sum())

    @property
    def num_paths(self) -> IntArray | NDArray[np.object_]:
        """Number of altered paths of every node, counted without walking them."""
        return self.session.paths.num_paths

    @property
    def num_bytes(self) -> FloatArray:
        """Memory that explaining each node takes at most, where its paths are walked as a whole."""
        return self.session.paths.num_bytes

    @property
    def origin(self) -> Origin:
        """What every record of this Explainer is of: the release, the model and both graphs, by their digests."""
        return self.session.paths.origin

    def moved(self) -> pd.DataFrame:
        """Every node that an altered path reaches: its classes, KL(after || before) and number of altered paths.

        Where the model is another one, every node whose logits it moved; what was predicted then is compared with what
        is predicted now. num_paths is then that of the model that has more, or of both where their depths differ.
        Columns: target, name, class_before, class_after (and their names where classes have any), kl, num_paths;
        largest KL first. Nodes that exist in one snapshot alone have no change of prediction and are left out. Of a
        model that is not read, all whose answer is another one are listed, without num_paths.
        """
        return self.session.moved()

    def timeline(self, target: Asked | None = None) -> Timeline:
        """What moved the prediction of a window, one row per changed thing and date; they sum to every logit's change.

        The change has three legs, in this order: *revised*, the dates that both windows have and whose data differ;
        *time*, what the passing of time does while nothing happens (`still`), one row; *news*, the rest. A row is what
        a date's features, or edge, has of it. No path is walked. `plot()` draws a strip.
        """
        if not isinstance(self.session, WindowSession):
            raise InputError(
                "Expected an Explainer of two windows for a timeline (got one of two graphs); give `before` and "
                "`after` as lists of dated snapshots."
            )
        return self.session.timeline(self._only(target))

    def unmatched(self) -> pd.DataFrame:
        """Nodes, graphs or pairs that one snapshot alone has, and so cannot have moved: target, name, snapshot.

        A node that `after` alone has can be explained all the same, against itself without any edge in `before`; so can
        a pair with such an end.
        """
        return self.session.unmatched()

    def changes(self, *, directed: bool = False, open_nodes: bool = False) -> pd.DataFrame:
        """What happened to the graph, one row a change: id, kind, src and dst with their names, both weights.

        Kinds: node added, node removed, features changed, edge added, edge removed, edge reweighted. Two
        directions of an edge that changed alike are one change, unless `directed`. A node that comes or goes is
        one change with its edges (`num_edges`); with `open_nodes` these have rows of their own. Ids count the rows of
        this very call, ordered by kind, then by src and dst. Where the model is another one, a last row says so.
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
        """Which changes moved a prediction, and by how much: the Shapley value of each change in sight.

        The model runs on the real graph with subsets of the changes applied: all subsets of up to 16 changes, more
        where `seconds` allow, else random orders, until the standard errors are below `tolerance` of the change. `by`
        groups changes: a column of `changes()`, a dict of ids, a function of a row, one label a row, or "node"; with
        `opened` each change has its share of its group's (Owen values). `open_nodes` gives the edges of nodes that came
        or went shares of their own. `interactions` adds what each pair does together alone.
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
        """The fewest changes whose undoing gives the old class back, judged by the user's own model on the real graph.

        `to` asks for another class, by number or name, `below` for a probability of the new one (a value) below this.
        Changes in `keep` may not be undone; `costs` (id -> cost, 1 where none is given) makes it the cheapest set.
        `every` lists all sets of that size. `starts` are further orders of changes to search along, such as another
        explainer's. The search ends within a second of `seconds`, or with the evaluation that is under way.
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
        """The fewest changes that, applied to `before` alone, carry the share `until` of the prediction's change.

        With a `budget`, the set of at most so many changes that carries the most of it, whatever `until` is.
        """
        return enough_of_target(
            *self._for_subsets(target), until=until, budget=budget, open_nodes=open_nodes, seconds=seconds
        )

    def happened(self, target: Asked | None = None, *, seconds: float = 1.0) -> Happened:
        """What did it and the least to undo, for one target, in about as many seconds: what a report shows first.

        `blame` and `undo` take the time that they are given, and say more.
        """
        return find_happened(*self._for_subsets(target), seconds)

    def what_if(
        self, target: Asked | None = None, *, undo: Any = None, apply: Any = None, open_nodes: bool = False
    ) -> FloatArray:
        """Logits [num_logits] of a target on `after` with exactly these changes undone, or on `before` with them alone.

        Changes are ids of `changes()`; several rows of them give [num_sets, num_logits] in one call.
        """
        session = self.session
        return try_changes(
            session.subsets, session.root(self._only(target)), undo=undo, apply=apply, open_nodes=open_nodes
        )

    @staticmethod
    def _open_windows(
        model: Any, windows: Windows, model_before: Any, node_names: Any, class_names: Any, usage: Usage, *, paths: bool
    ) -> WindowSession:
        graphs, brought, offered = take_names((*windows.before, *windows.after))
        size = len(windows.before)
        return open_windows(
            model,
            replace(windows, before=list(graphs[:size]), after=list(graphs[size:])),
            model_before=model_before,
            node_names=brought if node_names is None else node_names,
            class_names=class_names,
            offered=offered,
            usage=usage,
            paths=paths,
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
        return next(self.attribute_many([target]))

    def attribute_many(self, targets: Iterable[Asked]) -> Iterator[Attribution]:
        """The same for many nodes, in order, walked in batches that fit into the memory budget."""
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
        """The fewest paths, at most 20, that explain the share `until` of the change of one target; with a `budget`,
        the so many that explain it best, whatever `until` is. And how well they do.

        A target is a node, a graph of a batch or a pair of nodes, by number or name; the only graph need not be named.
        Methods: convex, exact, linear, topk, deeplift, gnnlrp, grad. Objectives: sufficiency (the paths carry `before`
        to `after`), necessity (`after` without them is `before`). With at_most, fewer paths if fewer serve better.

        With depth="auto" a chosen unit may be a group, all paths that end alike, with their exact sum: coarse where the
        rest does not matter, opened where that explains more; with a number, all units are ends of so many hops. The
        budget of groups is 10 where none is given. With by="layer_edge" or by="edge", changed edges are chosen instead.
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
        """The `budget` best paths of each of many nodes, in order and lazily, with a progress bar."""
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
        """Which columns of changed features moved a prediction, and by how much; with paths, those of their leaves.

        Columns: node, name, column (and its name), before, after, share (of the new class's logit against the old
        one's) and the share of every logit; largest first. Without paths all shares sum to the cause *feature*, and no
        path is walked. With paths (as `explain` and `attribute` have them) `path` is the place of each, and the shares
        of one sum to its contribution. A column of -1 is what no column did: a bias, or coefficients that a layer makes
        of its own inputs. `feature_names` name the columns, by node type where nodes have types.
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
        """Explain every node whose class changed, or whose KL is at least `min_kl`; with `only_flips` the former alone.

        Results are written to the folder `out` in parts (without one, to a temporary folder that goes with the Scan); a
        scan that was stopped goes on there, and the same scan always writes the same bytes. Engines: local (processes
        on this machine, one a core or as many as `workers` says) and ray. `memory` bounds what all workers on this
        machine take together beside the graphs; without it, that of the Explainer does. With `blame`, what each change
        does to all of these predictions is written too (`Scan.blame`); blame=1000 looks at those that moved the most.
        Of each flip, what did it and the least to undo are written (`Scan.flips`), the largest first, in at most
        `flip_seconds`; 0 leaves them out.
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
        """One Explanation a budget, each solved from where the one before it ended."""
        questions = [Question(budget, method, objective, at_most, depth=depth) for budget in budgets]
        engine, (row,) = self.session.locate([self.session.index.target(target)])
        return engine.frontier(int(row), questions, self.memory)

    def neighbourhood(self, target: Asked | Explanation | None = None) -> Neighbourhood:
        """What lies around a target in both graphs, as a picture: `plot()`, `save("x.svg")`, or shown by a notebook.

        Given an Explanation, its paths are drawn; else those of `explain(target)`.
        """
        found = target if isinstance(target, Explanation) else self.explain(target)
        return self.session.neighbourhood(found)

    def replay(self, target: Asked, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] of the target on `after` with these paths undone; or on `before` with them added.

        Where the model is another one, `under` says which answers: that of `after`, or of `before`.
        """
        engine, (row,) = self.session.locate([self._only(target)])
        return engine.replay(int(row), self.session.index.paths(paths), add=add, under=under)

    def replay_edges(self, target: Asked, paths: Any, *, add: bool = False, under: str = "after") -> FloatArray:
        """Logits [num_classes] that the user's own model gives the target on a real graph: `after` with the edges of
        these paths put back to what they were in `before`; or `before` with them as they are in `after`."""
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
