"""What is named on the command line -> graphs, model, Explainer or Stories. Imports are late: help must not wait."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..graphs.places import NODE_UNIT, Target
from .output import Terminal, aside

NUMBER = re.compile(r"[+-]?[0-9]+")

if TYPE_CHECKING:
    import pandas as pd

    from ..explainer import Explainer
    from ..sequences.steps import Step as OpenedStep
    from ..sequences.stories import Stories
    from .options import BudgetOptions, Sources


class Graphs:
    """Two graphs or more, numbered alike, and their nodes' names."""

    def __init__(self, graphs: Sequence[Any], numbered: bool) -> None:
        """`numbered`: the files give nodes numbers of their own; else a number is a row, or made up to match names."""
        from torch_geometric.data import HeteroData

        from ..graphs.names import index_names
        from ..graphs.pair import Pair, match_stored
        from ..graphs.stack import find_schema
        from ..graphs.stored import StoredGraph
        from ..graphs.typed_names import name_nodes

        self.data = [graph.data for graph in graphs]
        self.before, self.after = self.data[:2]
        is_stored = isinstance(self.before, StoredGraph)
        self.stored: Pair | None = match_stored(self.before, self.after) if is_stored else None
        self.typed = isinstance(self.before, HeteroData)
        pairs = [pair for graph in graphs for pair in graph.node_names.items()]
        schema = find_schema(self.data) if self.typed else None
        if schema is not None:
            pairs = list(name_nodes(None, self.data, schema).items())
        self.names: dict[int, str] = dict(pairs)
        self.index = index_names(pairs, None if self.stored is None else self.stored.number, schema)
        self.numbered = numbered
        self.step: Step | None = None
        self.dates: Sequence[str] = ()  # of windows
        self.class_names = next((graph.class_names for graph in graphs if graph.class_names), ())

    @property
    def user_names(self) -> dict[int, str] | None:
        """Names to be given along; nodes of several types are named by the graphs themselves."""
        return None if self.typed else self.names

    def changes(self, *, directed: bool) -> tuple[pd.DataFrame, dict[str, int]]:
        """What happened to the graph, as `Explainer.changes` lists it; and how often, edges of new nodes included."""
        from ..change.region import find_pair_changes
        from ..graphs.changes import count_changes
        from ..graphs.pair import open_pair
        from ..graphs.stack import find_schema, stack_all

        both = stack_all(self.data[:2], find_schema(self.data[:2])) if self.typed else (self.before, self.after)
        pair = self.stored or open_pair(*both)

        def look(*, open_nodes: bool) -> pd.DataFrame:
            return find_pair_changes(pair, self.names, directed=directed, open_nodes=open_nodes)

        return look(open_nodes=False), count_changes(look(open_nodes=True))

    def targets(self, texts: Sequence[str] | None, unit: str = NODE_UNIT) -> list[Target]:
        """The nodes, graphs or links that are named on the command line; none where none is."""
        if unit == NODE_UNIT:
            return [self.number(text) for text in texts or ()]
        return [self.link(text) if unit == "link" else _number_of_graph(text) for text in texts or ()]

    def link(self, text: str) -> tuple[int, int]:
        """The two nodes of u,v."""
        ends = text.split(",")
        if len(ends) != 2:
            raise InputError(f"Expected the two ends of a link with a comma between them, u,v (got {text!r}).")
        return self.number(ends[0].strip()), self.number(ends[1].strip())

    def links(self, file: Path | None) -> list[tuple[int, int]] | None:
        """The pairs of a file, one u,v per line; None if there is none."""
        from ..storage.safe import read_lines

        return None if file is None else [self.link(line) for line in read_lines(file)]

    def number(self, text: str) -> int:
        """The node that a name or a number on the command line means.

        A number that no node is called is a node's own number, or its row; but where nodes are called by numbers of
        their own, such as 100 to 400, none is meant by its row.
        """
        if self.typed or self.index.find(text) or not NUMBER.fullmatch(text) or abs(int(text)) >= 2**63:
            return self.index.number(text)
        called = (name for name in self.index.numbers if NUMBER.fullmatch(name))
        numeric = next(called, None) if self.stored is None else self.stored.name_that_is_a_number()
        return int(text) if self.numbered or numeric is None else self.index.number(text)


def _number_of_graph(text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"Expected the number of a graph after --target (got {text!r}).")
    return int(text)


class NamedFile(NamedTuple):
    """The file of one graph of a sequence, in which it may stand more than once, and what to call it."""

    path: Path
    name: str


class Step(NamedTuple):
    """One step of a folder of snapshots."""

    number: int  # from 1
    files: list[NamedFile]  # of all snapshots

    def __str__(self) -> str:
        """Which one, of how many, between which snapshots."""
        before, after = self.files[self.number - 1 : self.number + 1]
        return f"Step {self.number} of {len(self.files) - 1}: {before.name} → {after.name}"


def list_files(given: Sequence[Path | None]) -> tuple[list[NamedFile], list[Path]]:
    """The files of these graphs, of a folder of snapshots all of its graphs; and which of them are such folders."""
    from ..files.snapshots import is_snapshots, read_held

    files: list[NamedFile] = []
    folders = [path for path in given if path is not None and is_snapshots(path)]
    for path in given:
        if path in folders and path is not None:
            held = read_held(path)
            files += [NamedFile(path / file, name) for file, name in zip(held.files, held.names, strict=True)]
        elif path is not None:
            files.append(NamedFile(path, path.stem))
    return files, folders


def find_step(given: Sequence[Path | None], sources: Sources) -> Step | None:
    """The step that is asked about, the last where none is named; None where the graphs are in no folder of them."""
    files, folders = list_files(given)
    files, step = files[sources.num_graphs - 2 :], sources.step
    return Step(step or len(files) - 1, files) if folders and len(files) > 1 else None


def say_step(step: Step | None, *, json: bool) -> None:
    """Say which step the answer is about; beside JSON, on stderr."""
    if step is not None:
        Terminal(stderr=json).print(str(step), soft_wrap=True)


def spell_out(given: Sequence[Path | None], sources: Sources | None = None) -> list[NamedFile]:
    """The files of these graphs and what to call each; a folder of snapshots is all its graphs, or those of a step."""
    from ..files.graph_file import check_together

    files, folders = list_files(given)
    step, width = (None, 2) if sources is None else (sources.step, sources.num_graphs)
    if len(files) < width > 2:
        raise InputError(f"Expected {width} graphs or more to go with --window {width - 1} (got {len(files)}).")
    if step is not None and not 0 < step <= len(files) - width + 1:
        raise InputError(f"Expected a step from 1 to {len(files) - width + 1} after --step (got {step}).")
    files = files if step is None else files[step - 1 : step - 1 + width]
    check_together([file.path for file in files if file.path.parent in folders])
    stems = Counter(file.name for file in set(files))
    return [file if stems[file.name] == 1 else NamedFile(file.path, str(file.path)) for file in files]


def read_pair(before: Path, after: Path | None, sources: Sources) -> Graphs:
    """Two graphs, or those of two windows; of a folder of snapshots a step's, the last one's where none is named."""
    pair = read_graphs(spell_out([before, after], sources)[-sources.num_graphs :], sources.nodes)
    pair.step = find_step([before, after], sources)
    return pair


def describe_last_change(model: str, sources: Sources, pair: Graphs, text: str) -> str:
    """Of a target that did not change at a step: at which step it last did, in a sentence; nothing without steps."""
    if pair.step is None or sources.window is not None:
        return ""
    for number in range(pair.step.number - 1, 0, -1):
        earlier = Step(number, pair.step.files)
        graphs = read_graphs(earlier.files[number - 1 : number + 1], sources.nodes)
        explainer = open_explainer(model, graphs, sources, paths=False)
        with suppress(InputError):  # it was not there yet
            if graphs.targets([text], explainer.unit)[0] in set(explainer.moved().target):
                return f"It last changed at step {number} ({str(earlier).split(': ', 1)[1]}): ask with --step {number}."
    return f"It changed at no step before step {pair.step.number}, either."


def read_graphs(files: Sequence[NamedFile], nodes: Path | None) -> Graphs:
    """Two graphs or more, numbered alike."""
    from ..files import match_graphs, read_graph

    if len(files) < 2:
        given = ", ".join(str(file.path) for file in files)
        raise InputError(f"Expected two graphs, before and after, or a folder of snapshots (got only {given}).")
    with aside().status("Reading the graphs"):
        graphs = [read_graph(file.path, nodes) for file in files]
        found = Graphs(match_graphs(*graphs), all(graph.numbered for graph in graphs))
        found.dates = [file.name for file in files]
        return found


class GraphFiles(Sequence[Any]):
    """The graphs of these files, each read when it is asked for."""

    def __init__(self, files: Sequence[NamedFile], nodes: Path | None) -> None:
        self.files, self.nodes = files, nodes

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.files)

    def __getitem__(self, place: Any) -> Any:
        """The graph of one file."""
        from ..files import read_graph

        with aside().status("Reading the graphs"):
            return read_graph(self.files[place].path, self.nodes)


def open_steps(model: str, files: Sequence[NamedFile], sources: Sources) -> Iterator[OpenedStep]:
    """Each step from one graph to the next, opened when its turn comes."""
    from ..files import match_graphs, read_model
    from ..sequences.steps import steps

    old = read_model_before(sources, len(files))
    with aside().status("Reading the model"):
        new = read_model(model, sources.weights)

    if sources.window is not None:
        graphs = read_graphs(files, sources.nodes)
        return steps(
            new, graphs.data, names=graphs.dates, window=sources.window, still=sources.still, memory=sources.memory,
            output=sources.output, node_names=graphs.user_names, class_names=graphs.class_names,
        )  # fmt: skip

    def links_of(number: int, *graphs: Any) -> Any:
        return Graphs(match_graphs(*graphs), all(graph.numbered for graph in graphs)).links(sources.links)

    return steps(
        new if old is None else [old, new], GraphFiles(files, sources.nodes), names=[file.name for file in files],
        memory=sources.memory, output=sources.output, links_of=links_of if sources.links else None,
    )  # fmt: skip


def open_stories(
    model: str, files: Sequence[NamedFile], sources: Sources, target: list[str] | None, top: int, wanted: BudgetOptions
) -> Stories:
    """Stories of these targets over the graphs, or of those that moved the most."""
    from ..files import read_model
    from ..sequences.stories import build_stories

    old, new = read_model_before(sources, len(files)), read_model(model, sources.weights)
    graphs = read_graphs(files, sources.nodes)
    links = graphs.links(sources.links)
    targets: list[Target] | None = None
    if target:  # only the model says what they are
        targets = graphs.targets(target, open_explainer(model, graphs, sources).unit)
    return build_stories(
        new if old is None else [old, new], graphs.data, targets, wanted.budget, wanted.method, wanted.objective,
        output=sources.output, links=links, window=sources.window, still=sources.still,
        top=top, memory=sources.memory, node_names=graphs.user_names, class_names=graphs.class_names,
        snapshot_names=[file.name for file in files], progress=aside(),
    )  # fmt: skip


def read_model_before(sources: Sources, num_graphs: int = 2) -> Any:
    """The model of the graph before, if it differs; of two graphs only."""
    from ..files import read_model

    if sources.model_before is None:
        if sources.weights_before is not None:
            raise InputError("Expected --model-before to go with --weights-before (got none); name the model again.")
        return None
    if ":" in sources.model_before and sources.weights is not None and sources.weights_before is None:
        raise InputError(
            "Expected --weights-before to go with --model-before, as --weights goes with the model (got none); without "
            "them the earlier model is untrained."
        )
    if num_graphs > 2:
        raise InputError(
            f"Expected two graphs to go with --model-before (got {num_graphs}); in Python, build_stories and "
            "scan_sequence take a model for each graph."
        )
    return read_model(sources.model_before, sources.weights_before)


def asked_or_most_moved(
    explainer: Explainer, pair: Graphs, texts: Sequence[str] | None, *, flipped: bool = False
) -> list[Target]:
    """The targets that are named on the command line, else the one that moved the most; of those that `flipped`."""
    if texts:
        return pair.targets(texts, explainer.unit)
    from ..explain.moved import find_flipped

    moved = explainer.moved()
    return list((moved[find_flipped(moved)] if flipped else moved).target.head(1))


def open_explainer(model: str, pair: Graphs, sources: Sources, *, paths: bool = True) -> Explainer:
    """The model, read on two graphs; or to be run as it is."""
    from ..explainer import Explainer
    from ..files import read_model
    from ..graphs.dated import slide

    with aside().status("Reading the model"):
        network = read_model(model, sources.weights)
        before, after = pair.before, pair.after
        if sources.window is not None:
            before, after = slide(pair.data, sources.window, pair.dates)[-2:]
        return Explainer(
            network, before, after, still=sources.still,
            memory=sources.memory, node_names=pair.user_names, class_names=pair.class_names, output=sources.output,
            links=pair.links(sources.links), paths=paths, model_before=read_model_before(sources),
        )  # fmt: skip
