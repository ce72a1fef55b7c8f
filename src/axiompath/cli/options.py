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
After = Annotated[Path | None, typer.Argument(help="The graph after; omit it with a folder of snapshots.")]
Later = Annotated[list[Path] | None, typer.Argument(help="Further graphs, oldest first.", show_default=False)]
Weights = Annotated[Path | None, typer.Option(help="Weights (.safetensors) of a package.module:function.")]
Nodes = Annotated[Path | None, typer.Option(help="Node table of an edge list.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
OutputKind = Annotated[str, typer.Option(help="Meaning of the output columns: auto, classes, binary, labels or value.")]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", "-t", help="Name or number of a node; for a link, u,v; for a graph, its number. Repeatable."
    ),
]
OpenNodes = Annotated[
    bool, typer.Option("--open-nodes", help="Give each edge of an added or removed node its own share.")
]
Seconds = Annotated[float, typer.Option(min=0, help="Time limit if not every combination can be tried.")]
WithPaths = Annotated[bool, typer.Option("--paths/--no-paths", help="Read the model's layers, or only run the model.")]
Depth = Annotated[
    str | None,
    typer.Option(help="Group paths by their last hops: a number of hops, or auto to open groups where it matters."),
]
FirstBlame = Annotated[bool, typer.Option("--blame/--no-blame", help="Begin with blame and undo.")]
Limit = Annotated[int, typer.Option(min=1, help="Rows to print.")]


@dataclass(frozen=True)
class Sources:
    """What is read besides the model and the graphs, and how much memory there is."""

    weights: Weights = None
    nodes: Nodes = None
    memory: Annotated[str, typer.Option(help="Memory for paths, in addition to the graphs.")] = "2GB"
    output: OutputKind = "auto"
    model_before: Annotated[
        str | None,
        typer.Option(help="The model for the graph before, if it differs; same forms as the model, its code is run."),
    ] = None
    weights_before: Annotated[Path | None, typer.Option(help="Weights for --model-before.")] = None
    links: Annotated[Path | None, typer.Option(help="File of node pairs to predict for, one u,v per line.")] = None
    step: Annotated[
        int | None,
        typer.Option(min=1, help="Step within a folder of snapshots, from 1. Default: the last one, or all."),
    ] = None
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Of a model that looks back: how many snapshots it reads, the latest last."),
    ] = None
    still: Annotated[
        str, typer.Option(help="What a window shows where time passes and nothing comes: repeat, or empty.")
    ] = "repeat"

    @property
    def num_graphs(self) -> int:
        """Of one step: two, or those of two windows."""
        return (self.window or 1) + 1


FlipSeconds = Annotated[
    float, typer.Option(min=0, help="Seconds per step for the cause and the undo of each flip; 0 skips both.")
]
FailIf = Annotated[
    list[str] | None,
    typer.Option("--fail-if", help="Exit with status 3 if this holds at a step, such as 'flips>50'. Repeatable."),
]


@dataclass(frozen=True)
class EventColumns:
    """What an event list calls its columns, and how its events become graphs."""

    src: Annotated[str | None, typer.Option(help="Column of the sender. Default: found by its name.")] = None
    dst: Annotated[str | None, typer.Option(help="Column of the receiver.")] = None
    time: Annotated[str | None, typer.Option(help="Column of the time, as dates or numbers.")] = None
    weight: Annotated[str | None, typer.Option(help="Column of a weight or rating. Default: edges have no weight.")] = (
        None
    )
    relation: Annotated[
        str | None, typer.Option(help="Column of the kind of event, which becomes the type of the edge.")
    ] = None
    end: Annotated[str | None, typer.Option(help="Column of the time at which an edge ended; empty if it has not.")] = (
        None
    )
    most_relations: Annotated[
        int | None,
        typer.Option(min=1, help="Number of relations kept, the most common at first; all others become one."),
    ] = None
    rule: Annotated[
        str | None,
        typer.Option(help="How the events of a pair become one edge: once, count, sum, mean, min, max, first, last"),
    ] = None
    every: Annotated[str | None, typer.Option(help="Time between snapshots: 30D, 12h, or a number.")] = None
    window: Annotated[
        str | None, typer.Option(help="Time span of the events in a snapshot: 90D; or all events so far: all.")
    ] = None
    nodes: Annotated[Path | None, typer.Option(help="Table of the nodes: id, optionally label, and features.")] = None
    features: Annotated[
        list[str] | None, typer.Option(help="Features to generate: degrees, constant, codes or one-hot. Repeatable.")
    ] = None
    directed: Annotated[bool, typer.Option("--directed", help="Edges go only from sender to receiver.")] = False
    keep: Annotated[str, typer.Option(help="Nodes of a snapshot: seen so far, active in its window, or all.")] = "seen"
    start: Annotated[str | None, typer.Option(help="Start of the first window. Default: the first event.")] = None
    until: Annotated[
        str | None, typer.Option(help="Time up to which the events are complete. Default: the last event.")
    ] = None


@dataclass(frozen=True)
class PathOptions:
    """How paths are chosen."""

    # `selection.DEFAULT_METHOD`, whose import takes seconds that a page of help should not; a test holds them equal.
    method: Annotated[str, typer.Option(help="convex, exact, linear, topk, deeplift, gnnlrp or grad.")] = "exact"
    objective: Annotated[str, typer.Option(help="sufficiency or necessity.")] = "sufficiency"


@dataclass(frozen=True)
class BudgetOptions(PathOptions):
    """How paths are chosen, and how many."""

    budget: Annotated[int, typer.Option(min=0, help="Paths per explanation; for a sequence, per step.")] = 10


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
