"""Every Python block of the README and of docs/ runs; every link to a file of the repository leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]

# A block after a comment `<!-- not run: why -->` is only shown.
BLOCK = re.compile(r"(<!-- not run:[^>]*-->\s*)?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [match for match in BLOCK.finditer(text) if match[1] is None]
    if not blocks:
        pytest.skip("no Python here")
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__main__"}
    for block in blocks:
        line = text[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block[2], str(ROOT / page), "exec"), space)


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_lead_somewhere(page):
    folder = (ROOT / page).parent
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    dead = [link for link in links if "://" not in link and not (folder / link).exists()]
    assert dead == []


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page for page in PAGES[1:] if f" {page.removeprefix('docs/')}" not in menu]
    assert missing == []
