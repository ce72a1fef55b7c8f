"""What several commands ask for, each said once; and groups of options that commands take as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Model = Annotated[
    str, typer.Argument(help="A folder that axiompath.save_model wrote, or package.module:function, whose code is run.")
]
Before = Annotated[
    Path,
    typer.Argument(help="The graph before: .npz, .pt, an edge list or a folder of tables; or a folder of snapshots."),
]
After = Annotated[Path | None, typer.Argument(help="The graph after; none with a folder of snapshots.")]
Later = Annotated[list[Path] | None, typer.Argument(help="Further graphs, in order.", show_default=False)]
Weights = Annotated[Path | None, typer.Option(help="Weights (.safetensors) of a package.module:function.")]
Nodes = Annotated[Path | None, typer.Option(help="Node table of an edge list.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else.")]
OutputKind = Annotated[str, typer.Option(help="What columns mean: auto, classes, binary, labels or value.")]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", "-t", help="A node's name or number (of a link u,v; of a graph its number); or more."),
]
OpenNodes = Annotated[
    bool, typer.Option("--open-nodes", help="Give edges of nodes that came or went shares of their own.")
]
Seconds = Annotated[float, typer.Option(min=0, help="Time to spend, where not everything can be tried.")]
WithPaths = Annotated[bool, typer.Option("--paths/--no-paths", help="Read the model, or run it as it is.")]
Depth = Annotated[
    str | None, typer.Option(help="auto: groups of paths that end alike, opened where it matters; or a number of hops.")
]
FirstBlame = Annotated[
    bool, typer.Option("--blame/--no-blame", help="Begin with which changes did it, and the undoing.")
]
Limit = Annotated[int, typer.Option(min=1, help="Rows to print.")]


@dataclass(frozen=True)
class Sources:
    """What is read besides the model and the graphs, and how much memory there is."""

    weights: Weights = None
    nodes: Nodes = None
    memory: Annotated[str, typer.Option(help="Memory that paths may take, beside the graphs.")] = "2GB"
    output: OutputKind = "auto"
    model_before: Annotated[
        str | None,
        typer.Option(help="The model of the graph before, where it is another; code is run as for the model."),
    ] = None
    weights_before: Annotated[Path | None, typer.Option(help="Weights of that model, as --weights.")] = None
    links: Annotated[Path | None, typer.Option(help="Pairs of nodes to predict for, one a line: u,v.")] = None
    step: Annotated[
        int | None, typer.Option(min=1, help="Of a folder of snapshots: which step, from 1; else the last, or all.")
    ] = None


FlipSeconds = Annotated[
    float, typer.Option(min=0, help="Seconds a step for what did each flip and what would undo it; 0: none of that.")
]
FailIf = Annotated[
    list[str] | None,
    typer.Option("--fail-if", help="Exit with status 3 if this holds at a step, such as 'flips>50'; or several."),
]


@dataclass(frozen=True)
class EventColumns:
    """What an event list calls its columns, and how its events become graphs."""

    src: Annotated[str | None, typer.Option(help="Column of the sender; else found by its name.")] = None
    dst: Annotated[str | None, typer.Option(help="Column of the receiver.")] = None
    time: Annotated[str | None, typer.Option(help="Column of the time: dates or numbers.")] = None
    weight: Annotated[str | None, typer.Option(help="Column of a weight or rating; else edges have none.")] = None
    relation: Annotated[str | None, typer.Option(help="Column of what an event is: edges have types.")] = None
    end: Annotated[str | None, typer.Option(help="Column of when an edge ended; empty where it has not.")] = None
    most_relations: Annotated[
        int | None, typer.Option(min=1, help="As many relations, the commonest at first; all others are one.")
    ] = None
    rule: Annotated[
        str | None,
        typer.Option(help="How a pair's events make one edge: once, count, sum, mean, min, max, first, last"),
    ] = None
    every: Annotated[str | None, typer.Option(help="A snapshot every so often: 30D, 12h, or a number.")] = None
    window: Annotated[str | None, typer.Option(help="Of the events of so long: 90D; all: of all so far.")] = None
    nodes: Annotated[Path | None, typer.Option(help="Table of the nodes: id, perhaps label, and features.")] = None
    features: Annotated[
        list[str] | None, typer.Option(help="Made here: degrees, constant, codes or one-hot; or several.")
    ] = None
    directed: Annotated[bool, typer.Option("--directed", help="Edges go from sender to receiver alone.")] = False
    keep: Annotated[str, typer.Option(help="Nodes of a snapshot: seen so far, active in its window, or all.")] = "seen"
    start: Annotated[str | None, typer.Option(help="Where the first window begins; else with the first event.")] = None
    until: Annotated[str | None, typer.Option(help="Up to when the events are complete; else up to the last.")] = None


@dataclass(frozen=True)
class Manner:
    """How paths are chosen."""

    # `selection.DEFAULT_METHOD`, whose import takes seconds that a page of help should not; a test holds them equal.
    method: Annotated[str, typer.Option(help="convex, exact, linear, topk, deeplift, gnnlrp or grad.")] = "exact"
    objective: Annotated[str, typer.Option(help="sufficiency or necessity.")] = "sufficiency"


@dataclass(frozen=True)
class Wanted(Manner):
    """How paths are chosen, and how many."""

    budget: Annotated[int, typer.Option(min=0, help="Paths in an explanation; of a sequence, in each step's.")] = 10


def read_depth(text: str | None) -> int | str | None:
    """A number of hops, or a word."""
    return int(text) if text is not None and text.isdecimal() else text


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes groups -> the same with their fields as options, which is what the parser understands."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    found: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        asked = [(name, hints[name], parameter.default)]
        if name in groups:
            kinds = get_type_hints(groups[name], include_extras=True)
            asked = [(field.name, kinds[field.name], field.default) for field in fields(groups[name])]
        for key, kind, default in asked:
            found[key] = inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **values)

    run.__signature__ = inspect.Signature(list(found.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in found.items()}
    return run
