"""Every command of research on a page is one; Python blocks that import it run."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from research.cli.app import app
from research.cli.reproduction import repeat_flags

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "research" / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"^    python -m research (.*)$|`python -m research\s+(reproduce\s[^`]*|benchmark\s[^`]*)`", re.MULTILINE
)
COMMANDS = [(page, shown or said) for page, text in PAGES.items() for shown, said in COMMAND.findall(text)]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_every_command_is_one(page, line):
    """Its options exist and its values are of their kinds."""
    command, words = typer.main.get_command(app), repeat_flags(shlex.split(line, comments=True))
    while hasattr(command, "get_command"):
        command, words = command.get_command(None, words[0]), words[1:]
        assert command is not None, (page, line)
    if words != ["..."]:
        command.make_context("research", words)


def test_pages_have_commands():
    assert {"docs/results.md", "docs/field.md"} <= {p for p, _ in COMMANDS}


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "from research" in text])
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__main__"}
    for block in BLOCK.finditer(PAGES[page]):
        line = PAGES[page][: block.start()].count("\n") + 1
        exec(compile("\n" * line + block[1], page, "exec"), space)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [line for page, line in COMMANDS if page == "docs/field.md" and line.startswith("benchmark ")]
)
def test_every_command_of_the_benchmark_runs(line, tmp_path, monkeypatch, call):
    method = BLOCK.search(PAGES["docs/field.md"])
    (tmp_path / "my_explainer.py").write_text(method[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, _, error = call(*shlex.split(line, comments=True))
    assert code == 0, error
