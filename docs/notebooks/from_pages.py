"""Pages of the documentation -> what their code prints, and notebooks. Run it after editing a page or a sentence.

    python docs/notebooks/from_pages.py                 run every page, fill in what it prints, write the notebooks
    python docs/notebooks/from_pages.py how-to-blame    the same for these pages

A block of `text` directly after one of `python` holds what that one prints; in a notebook it is the cell's output.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NOTEBOOKS = ("tutorial", "how-to-blame", "how-to-events", "how-to-follow-a-node", "how-to-scan")
# A block after a comment `<!-- not run: why -->` stays among the words.
BLOCK = re.compile(r"(?<!-->\n)^```python\n(.*?)^```\n(\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
WIDTH = 110  # of what a page shows
INSTALL = "%pip install -q axiompath"
BETWEEN = "\x1e"  # stands between what two blocks print


def to_script(text: str) -> str:
    """The blocks of a page, each on the lines that it has there; every one begins by printing the separator."""
    script = ""
    for block in BLOCK.finditer(text):
        script += "\n" * (text[: block.start()].count("\n") - script.count("\n"))
        script += f"print({BETWEEN!r})\n{block[1]}"
    return script


def shown(text: str) -> list[str | None]:
    """What the page says that each of its blocks prints; None where it does not say."""
    return [block[3] for block in BLOCK.finditer(text)]


def wrap_line(line: str) -> str:
    """A sentence on lines that a page can show without scrolling; tables stay as they are."""
    if "   " in line.strip():
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, WIDTH, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False)


def fill(text: str, stdout: str) -> str:
    """The page with what its blocks printed."""
    printed = iter(stdout.split(BETWEEN + "\n")[1:])

    def replace(block: re.Match[str]) -> str:
        output = next(printed)
        lines = "\n".join(wrap_line(line.rstrip()) for line in output.strip("\n").splitlines())
        return block[0] if block[2] is None else f"```python\n{block[1]}```\n\n```text\n{lines}\n```\n"

    return BLOCK.sub(replace, text)


def run(text: str, folder: Path) -> str:
    """What the page prints, in a process of its own."""
    (folder / "page.py").write_text(to_script(text), encoding="utf-8")
    command = [sys.executable, "page.py"]
    return subprocess.run(command, cwd=folder, env={**os.environ}, stdout=subprocess.PIPE, text=True, check=True).stdout


def to_cells(text: str) -> list[tuple[str, str, str]]:
    """Kind, source and output of each cell; the first installs what is needed."""
    cells = [("code", INSTALL, "")]
    end = 0
    for block in BLOCK.finditer(text):
        cells += [("markdown", text[end : block.start()].strip(), ""), ("code", block[1].strip(), block[3] or "")]
        end = block.end()
    return [cell for cell in [*cells, ("markdown", text[end:].strip(), "")] if cell[1]]


def to_notebook(text: str) -> dict[str, Any]:
    """A notebook of format 4.5."""
    cells: list[dict[str, Any]] = []
    for number, (kind, source, output) in enumerate(to_cells(text)):
        # Links and pictures lead from docs/notebooks to docs/.
        source = re.sub(r"\]\((?=[\w-]+\.md|figures/)", "](../", source) if kind == "markdown" else source
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        if kind == "code":
            stream = {"name": "stdout", "output_type": "stream", "text": output.splitlines(keepends=True)}
            cell |= {"execution_count": None, "outputs": [stream] if output else []}
        cells.append(cell)
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def main(names: list[str]) -> None:
    """Fill in these pages, or all that say what they print, and write the notebooks."""
    for file in sorted(HERE.parent.glob("*.md")):
        text = file.read_text(encoding="utf-8")
        if (file.stem in names) if names else any(block is not None for block in shown(text)):
            with tempfile.TemporaryDirectory() as folder:
                text = fill(text, run(text, Path(folder)))
            file.write_text(text, encoding="utf-8")
        if file.stem in NOTEBOOKS:
            notebook = json.dumps(to_notebook(text), indent=1, ensure_ascii=False) + "\n"
            (HERE / f"{file.stem}.ipynb").write_text(notebook, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
