"""Pages of the documentation -> notebooks: the same words, the same code. Run it after editing one of PAGES."""

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGES = ("tutorial", "how-to-blame", "how-to-events", "how-to-follow-a-node", "how-to-pyg", "how-to-scan")
# A block after a comment `<!-- not run: why -->` stays among the words.
BLOCK = re.compile(r"(?<!-->\n)^```python\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
INSTALL = "%pip install -q axiompath"


def to_cells(text: str) -> list[tuple[str, str]]:
    """Words and code, in turn; the first cell installs what is needed."""
    cells = [("code", INSTALL)]
    end = 0
    for block in BLOCK.finditer(text):
        cells += [("markdown", text[end : block.start()].strip()), ("code", block[1].strip())]
        end = block.end()
    return [cell for cell in [*cells, ("markdown", text[end:].strip())] if cell[1]]


def to_notebook(text: str) -> dict[str, Any]:
    """A notebook of format 4.5, without outputs."""
    cells: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(to_cells(text)):
        # Links and pictures lead from docs/notebooks to docs/.
        source = re.sub(r"\]\((?=[\w-]+\.md|figures/)", "](../", source) if kind == "markdown" else source
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    """Write all of them."""
    for page in PAGES:
        notebook = to_notebook((HERE.parent / f"{page}.md").read_text(encoding="utf-8"))
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        (HERE / f"{page}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
