"""Explanations -> things to look at.

page.py        frontiers of Explanations -> plain values: everything a page shows, and nothing it does not
html.py        plain values -> one self-contained HTML file (template.html, report.css, one script per part)
document.py    blocks of plain values -> an HTML page that is whole without script (base.html, document.html), for lists
               that lead elsewhere, such as the index of a watch
story_page.py  Stories -> the same for a sequence of snapshots (story.html and story.js besides)
terminal.py    Story -> a table for the terminal
graph_plot.py  Neighbourhood -> the same, and plain values for a page
plots.py       Blame, Undo, Story and the paths of an Explanation -> matplotlib axes
survey.py      Scan -> Survey: what a scan says as a whole; moves.py: which change carried how much of which move;
               statements.py: the few that carried most, in words
scan_page.py   Surveys -> one HTML file (scan.html, scan.js, and grid.js for its long table)
server.py      the local server: the same page, and every explanation on demand
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ..explainer import Explainer
from ..scan.scan import Scan
from ..sequences.stories import Stories
from ..storage.writing import check_page, write_text
from .html import build_explainer_report
from .scan_page import build_scan_report
from .story_page import build_story_report

Subject: TypeAlias = Explainer | Scan | Sequence[Scan] | Stories

__all__ = ["build_report", "save_report"]


def build_report(subject: Subject, *given: Any, **options: Any) -> str:
    """HTML text of one page: for the targets of an Explainer, for a scan or the scans of a sequence, or for stories.

    Further arguments are those of `build_explainer_report`, `build_scan_report` and `build_story_report`.
    """
    if isinstance(subject, Stories):
        return build_story_report(subject, *given, **options)
    if isinstance(subject, Explainer):
        return build_explainer_report(subject, *given, **options)
    return build_scan_report(subject, *given, **options)


def save_report(path: str | Path, subject: Subject, *given: Any, **options: Any) -> Path:
    """Write the page and return its path; an existing file is replaced only when the new one is complete."""
    check_page(path)
    return write_text(path, build_report(subject, *given, **options))
