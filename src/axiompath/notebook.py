"""Sentences and a table -> what a notebook shows of a record."""

from __future__ import annotations

import html
from typing import Any

ROWS_IN_NOTEBOOK = 10


def show(text: str, frame: Any = None) -> str:
    """HTML: the text with its lines, and the first rows of a table; names in them command nothing."""
    shown = f'<div style="white-space:pre-wrap">{html.escape(text)}</div>'
    if frame is None or not len(frame):
        return shown
    more = f"<p>{len(frame) - ROWS_IN_NOTEBOOK:,} further rows.</p>" if len(frame) > ROWS_IN_NOTEBOOK else ""
    return shown + str(frame.head(ROWS_IN_NOTEBOOK).to_html(index=False)) + more
