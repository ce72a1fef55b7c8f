"""Explanations -> things to look at.

page.py        frontiers of Explanations -> plain values: everything a page shows, and nothing it does not
html.py        plain values -> one self-contained HTML file (template.html, report.css, report.js)
plots.py       Explanation -> matplotlib figure
movers.py      which edges moved the most predictions
"""

from .html import build_report, save_report

__all__ = ["build_report", "save_report"]
