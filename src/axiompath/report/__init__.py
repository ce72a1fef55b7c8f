"""Explanations -> things to look at.

page.py        frontiers of Explanations -> plain values: everything a page shows, and nothing it does not
html.py        plain values -> one self-contained HTML file (template.html, report.css, a script a part)
document.py    blocks of plain values -> an HTML page that is whole without script (base.html, document.html), for lists
               that lead elsewhere, such as the index of a watch
story_page.py  Stories -> the same for a sequence of snapshots (story.html and story.js besides)
terminal.py    Story -> a table for the terminal
plots.py       Explanation -> matplotlib figure
graph_plot.py  Neighbourhood -> the same, and plain values for a page
movers.py      which edges moved the most predictions
survey.py      Scan -> Survey: what a scan says as a whole; credits.py: which change carried how much of which move;
               statements.py: the few that carried most, in words; patterns.py: what many explanations share
scan_page.py   Surveys -> one HTML file (scan.html, scan.js, and grid.js for its long table)
server.py      the local server: the same page, and every explanation on demand
"""

from .html import build_report, save_report
from .scan_page import build_scan_report, save_scan_report
from .story_page import build_story_report, save_story_report

__all__ = [
    "build_report",
    "build_scan_report",
    "build_story_report",
    "save_report",
    "save_scan_report",
    "save_story_report",
]
