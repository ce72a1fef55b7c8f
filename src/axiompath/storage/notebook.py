"""Sentences and a table -> what a notebook shows of a record; and where it shows a bar."""

from __future__ import annotations

import html
import importlib.util
import sys
from typing import Any

ROWS_IN_NOTEBOOK = 10
WIDTH_IN_NOTEBOOK = 80


def show(text: str, frame: Any = None) -> str:
    """HTML: the text with its lines, and the first rows of a table; names in them command nothing."""
    shown = f'<div style="white-space:pre-wrap">{html.escape(text)}</div>'
    if frame is None or not len(frame):
        return shown
    more = f"<p>{len(frame) - ROWS_IN_NOTEBOOK:,} further rows.</p>" if len(frame) > ROWS_IN_NOTEBOOK else ""
    return shown + str(frame.head(ROWS_IN_NOTEBOOK).to_html(index=False)) + more


def bar_console(stderr: bool = False) -> Any:
    """Where bars are drawn. A notebook without ipywidgets, in which rich draws none, gets them as a terminal would."""
    from rich.console import Console  # here, because importing axiompath is to take no time

    if "ipykernel" in sys.modules and importlib.util.find_spec("ipywidgets") is None:
        return Console(stderr=stderr, force_jupyter=False, force_terminal=True, width=WIDTH_IN_NOTEBOOK)
    return Console(stderr=stderr)
