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
    large: Annotated[bool, typer.Option("--large", help="Use thousands of nodes and five snapshots.")] = False,
    json: AsJson = False,
) -> None:
    """Explain a change in Zachary's karate club and write a report. Example: axiompath demo --out demo"""
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
    nodes: Annotated[Path | None, typer.Option(help="Node table, or x.npy whose rows number the nodes.")] = None,
    features_of: Annotated[
        Path | None, typer.Option(help="Stored graph with the same nodes and features, instead of --nodes.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="edge_weight.npy for an edge_index.npy.")] = None,
    memory: Annotated[str, typer.Option(help="Memory for sorting.")] = "2GB",
    json: AsJson = False,
) -> None:
    """Store a graph in a folder that opens without loading it into memory.

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
        line = f"Stored {graph.num_nodes:,} nodes and {graph.num_edges:,} edges in {out}."
        Terminal().print(line, soft_wrap=True)


@spread
def snapshots(
    events: Annotated[Path, typer.Argument(help="Dated events: .csv, .csv.gz, .tsv or .parquet.")],
    *,
    out: Annotated[Path, typer.Option(help="The folder to write; every command accepts it in place of graphs.")],
    columns: EventColumns,
    json: AsJson = False,
) -> None:
    """Cut dated events into a folder of snapshots, which every other command accepts.

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
    Terminal().print(repr(found), soft_wrap=True)
    Terminal().print(f"Written to {out}.", soft_wrap=True)
