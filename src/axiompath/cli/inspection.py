"""Commands that look before anything is explained: can the model be read, what changed."""

from __future__ import annotations

from typing import Annotated

import typer

from .inputs import open_explainer, read_pair, say_step, spell_out
from .options import After, AsJson, Before, Limit, Model, Nodes, OutputKind, Sources, Weights, spread
from .output import Terminal, changes_table, moved_table, print_json, records


def check(
    model: Model,
    graph: Before,
    weights: Weights = None,
    nodes: Nodes = None,
    output: OutputKind = "auto",
    json: AsJson = False,
) -> None:
    """Check whether a model can be read, module by module. Example: axiompath check demo/model demo/before.npz"""
    from ..files import read_graph, read_model
    from ..graphs.pair import match_stored
    from ..graphs.sample import sample_pair
    from ..graphs.stored import StoredGraph
    from ..readers import check as check_model

    files = spell_out([graph])
    if len(files) > 1:
        said = f"The last of {len(files)} snapshots: {files[-1].name}"
        Terminal(stderr=json).print(said, soft_wrap=True)
    data = read_graph(files[-1].path, nodes).data
    if isinstance(data, StoredGraph):
        data, _ = sample_pair(match_stored(data, data))
    found = check_model(read_model(model, weights), data, output=output)
    if json:
        facts = {"readable": found.readable, "verdict": found.verdict, "call": found.call}
        lists = {"unused_fields": list(found.unused), "default_arguments": list(found.defaults)}
        print_json({**facts, **lists, "modules": found.to_frame().to_dict("records")})
    else:
        Terminal().print(str(found))
    if not found.readable:
        raise typer.Exit(2)


@spread
def diff(
    before: Before,
    after: After = None,
    *,
    model: Annotated[str | None, typer.Option(help="The model, to list the predictions that moved.")] = None,
    sources: Sources,
    directed: Annotated[bool, typer.Option("--directed", help="List both directions of every edge.")] = False,
    limit: Limit = 10,
    json: AsJson = False,
) -> None:
    """List what changed between two graphs and, with --model, which predictions moved.

    Example: axiompath diff demo/before.npz demo/after.npz --model demo/model
    """
    pair = read_pair(before, after, sources)
    say_step(pair.step, json=json)
    changes, counts = pair.changes(directed=directed)
    explainer = open_explainer(model, pair, sources) if model else None
    moved = None if explainer is None else explainer.moved()
    if json:
        predictions = [] if moved is None else records(moved)
        print_json({**counts, "changes": records(changes), "predictions": predictions})
        return
    console = Terminal()
    aged, expired = counts["edges_aged"], counts["edges_expired"]
    by_time = f" Due only to time: {expired:,} expired, {aged:,} aged." if expired or aged else ""
    console.print(
        f"Edges: {counts['edges_added']:,} added, {counts['edges_removed']:,} removed, "
        f"{counts['edges_reweighted']:,} reweighted.{by_time} Nodes: {counts['nodes_added']:,} added, "
        f"{counts['nodes_removed'] + counts['nodes_expired']:,} removed, "
        f"{counts['features_changed']:,} with other features."
    )
    if len(changes):
        console.print(changes_table(changes, limit))
    if explainer is not None and moved is not None:
        from ..explain.moved import find_flipped

        flipped, flip = int(find_flipped(moved).sum()), explainer.session.output.flip
        of_them = f", {flipped:,} of them {flip}" if flip else ""
        console.print(f"{len(moved):,} prediction{'s' * (len(moved) != 1)} moved{of_them}.")
        console.print(moved_table(moved, limit))
