"""The command that serves pages on this machine, until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .output import Terminal


def serve(
    folder: Annotated[Path, typer.Argument(help="The folder of a scan, of the scans of a sequence, or of a watch.")],
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8765,
    by: Annotated[str | None, typer.Option(help="Group changes by a column of the changes.")] = None,
) -> None:
    """Serve the page of a scan, with a page for every explanation, on this machine only.

    Example: axiompath serve scan
    """
    from ..report.server import LocalServer

    with LocalServer(folder, port, by=by, step_names=step_names(folder)) as server:
        line = f"Open {server.address} in a browser on this machine; Ctrl-C ends it."
        Terminal().print(line, soft_wrap=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            Terminal(stderr=True).print("Ended.")


def step_names(folder: Path) -> list[str] | None:
    """Names of the steps of a watch, the end of each; None for another folder."""
    from ..scan.folder import MANIFEST
    from ..sequences.watch_folder import WATCH, read_watch, step_folder

    if not (folder / WATCH).is_file():
        return None
    steps = read_watch(folder).progress.steps
    for place in (step_folder(folder, number) for number in range(1, len(steps) + 1)):
        if place.is_symlink() or not (place / MANIFEST).is_file():
            raise InputError(
                f"Expected the scan of every step that the watch in {folder} did (got no {place.relative_to(folder)}); "
                "put that folder back, or run the same watch again."
            )
    return [step.after for step in steps]
