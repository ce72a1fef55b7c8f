"""The door for the terminal: parse, call one function, print.

app.py           all commands; errors -> sentences and exit codes
questions.py     explain, story, report, scan
inspection.py    check, diff
preparation.py   demo, convert, warmup
reproduction.py  reproduce: the paper's experiments
options.py       what several commands ask for
inputs.py        names on the command line -> graphs, model, Explainer
output.py        JSON and tables
"""

from .app import main

__all__ = ["main"]
