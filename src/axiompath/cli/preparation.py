"""Commands that make something to ask about: a demonstration, snapshots, a graph sorted on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson, EventColumns, spread
from .output import Terminal, aside, print_json, records, written_to


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the graphs and the model.")] = Path(
        "axiompath-demo"
    ),
    large: Annotated[bool, typer.Option("--large", help="Thousands of nodes, five snapshots.")] = False,
    json: AsJson = False,
) -> None:
    """Explain a change in the karate club, and write a report. Example: axiompath demo --out demo"""
    from .demo import check_room, run_demo, run_large_demo

    console = Terminal(quiet=json)
    with written_to(out):
        check_room(out)
        found = run_large_demo(console, out, aside()) if large else run_demo(console, out)
    if json:
        print_json(found)


def convert(
    edges: Annotated[Path, typer.Argument(help="Edges: .parquet, .csv, .tsv, edge_index.npy, or a graph: .npz, .pt.")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist yet.")],
    nodes: Annotated[Path | None, typer.Option(help="Node table, or x.npy with nodes named by their row.")] = None,
    features_of: Annotated[
        Path | None, typer.Option(help="Instead of --nodes: a stored graph with the same nodes and features.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="edge_weight.npy of an edge_index.npy.")] = None,
    memory: Annotated[str, typer.Option(help="Memory that sorting may take.")] = "2GB",
    json: AsJson = False,
) -> None:
    """Sort a graph into a folder that is opened without reading it into memory.

    Example: axiompath convert edges.parquet --nodes nodes.parquet --out before --memory 500MB
    """
    from ..files import convert_graph

    with written_to(out):
        graph = convert_graph(
            edges, out, nodes=nodes, features_of=features_of, weights=weights, memory=memory, progress=aside()
        )
    if json:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        print_json({"graph": str(out), **sizes, "weighted": graph.weights is not None})
    else:
        told = f"Stored {graph.num_nodes:,} nodes and {graph.num_edges:,} edges in {out}."
        Terminal().print(told, soft_wrap=True, highlight=False, markup=False)


@spread
def snapshots(
    events: Annotated[Path, typer.Argument(help="Dated events: .csv, .csv.gz, .tsv or .parquet.")],
    *,
    out: Annotated[Path, typer.Option(help="The folder to write; every command takes it for its graphs.")],
    columns: EventColumns,
    json: AsJson = False,
) -> None:
    """Make graphs of dated events, one every so often, for every other command to take.

    Example: axiompath snapshots events.csv --every 30D --window 90D --out months
    """
    from ..files.snapshots import save_snapshots
    from ..files.snapshots import snapshots as make

    with aside().status("Making snapshots"):
        found = make(events, **vars(columns))
        with written_to(out):
            save_snapshots(found, out)
    if json:
        rows = records(found.to_frame().astype({"start": str, "end": str}))
        print_json({"folder": str(out), "rule": found.rule, "waiting": found.waiting, "snapshots": rows})
        return
    Terminal().print(repr(found), markup=False, highlight=False, soft_wrap=True)
    Terminal().print(f"Written to {out}.", soft_wrap=True, markup=False, highlight=False)
