"""Every Python block, command and notebook of the README and of docs/ runs; every link to a file leads somewhere.

Blocks and commands of research/ are run by its own tests.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from support.repository import BLOCK, ROOT

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


MADE = runpy.run_path(str(ROOT / "docs" / "notebooks" / "from_pages.py"))


def script_of(page):
    """The blocks of a page, each on the lines that it has there; nothing where there is none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return "" if "from research" in text else MADE["to_script"](text)  # research has its own tests


def words_printed(text):
    """Without the numbers, whose last digits depend on the processor, and without the width of columns."""
    return re.sub(r"[-+−]?\b\d[\d.,e+-]*|\s+|-{3,}", " ", text).split()


def run_page(page, folder, **settings):
    """In a process of its own, where nothing was imported or patched before."""
    script = folder / "page.py"  # what messages call it
    script.write_text(script_of(page), encoding="utf-8")
    command = [sys.executable, script.name]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


WITH_CODE = [page for page in PAGES if script_of(page)]


@pytest.mark.system
@pytest.mark.parametrize("page", WITH_CODE)
def test_every_python_block_runs_after_an_installation(page, tmp_path):
    """And prints what the page says that it prints."""
    text = (ROOT / page).read_text(encoding="utf-8")
    filled = MADE["fill"](text, run_page(page, tmp_path))
    for said, printed in zip(MADE["shown"](text), MADE["shown"](filled), strict=True):
        if said is not None:
            assert words_printed(said) == words_printed(printed), "run docs/notebooks/from_pages.py"


@pytest.mark.slow
def test_eight_lines_lead_from_a_real_list_to_a_report(data_root, tmp_path, monkeypatch):
    text = (ROOT / "docs/how-to-events.md").read_text(encoding="utf-8")
    (code,) = [match[2] for match in BLOCK.finditer(text) if match[1] is not None and "bitcoinotc.npz" in match[2]]
    assert len([line for line in code.splitlines() if line.strip()]) <= 8
    shutil.copy(Path(data_root) / "bitcoinotc.npz", tmp_path)
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__main__"}
    exec(compile(code, "how-to-events.md", "exec"), space)
    assert len(space["found"]) == 28
    assert (tmp_path / "otc" / "report.html").is_file()


@pytest.mark.parametrize("page", [*PAGES, "research/README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_to_files_lead_somewhere(page):
    folder = (ROOT / page).parent
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    dead = [link for link in links if "://" not in link and not (folder / link).exists()]
    assert dead == []


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page for page in PAGES[1:] if f" {page.removeprefix('docs/')}" not in menu]
    assert missing == []


# A command of the command line is indented and begins with the program's name.
COMMAND = re.compile(r"^    (axiompath .*)$", re.MULTILINE)
COMMANDS = [(page, line) for page in PAGES for line in COMMAND.findall((ROOT / page).read_text(encoding="utf-8"))]


def words_of(line):
    return shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_every_command_is_one(page, line):
    """Its options exist and its values are of their kinds; whether it runs, a slow test says."""
    import typer

    from axiompath.cli.app import app

    name, *words = words_of(line)
    command = typer.main.get_command(app).get_command(None, name)
    assert command is not None, (page, line)
    assert not command.hidden, "gone"
    command.make_context("axiompath", words)


@pytest.fixture(scope="module")
def karate_folder(tmp_path_factory):
    """What the commands of the pages speak of, by its names: graphs, models, tables, events."""
    import axiompath
    from axiompath.cli.demo import evolve_karate, karate_arguments, train_karate
    from axiompath.datasets import drifting_events

    folder = tmp_path_factory.mktemp("commands")
    model, before = train_karate()
    graphs = {"before": before, "after": evolve_karate(before)}
    graphs |= {"monday": before, "tuesday": graphs["after"], "wednesday": before, "friday": graphs["after"]}
    for name, data in graphs.items():
        axiompath.save_graph(folder / f"{name}.npz", data)
        edges = pd.DataFrame(data.edge_index.T.numpy(), columns=["source", "target"])
        edges.to_parquet(folder / f"{name}.parquet")
        edges.assign(source="p" + edges.source.astype(str), target="p" + edges.target.astype(str)).to_csv(
            folder / f"{name}.csv", index=False
        )
    nodes = pd.DataFrame(before.x.numpy()).add_prefix("f").assign(id=range(34))
    nodes.to_parquet(folder / "nodes.parquet")
    names = [f"p{i}" for i in range(33)] + ["Ben"]
    nodes.assign(id=names).to_csv(folder / "nodes.csv", index=False)
    for day in ("monday", "tuesday"):
        path = folder / f"{day}.csv"
        path.write_text(path.read_text().replace("p33", "Ben"))
    for name in ("model", "new", "old"):
        axiompath.save_model(model, folder / name, karate_arguments(before))
    events, labels = drifting_events()
    events.columns = ["from", "to", "when"]
    events.replace({"person 1": "Ann"}).to_csv(folder / "events.csv", index=False)
    pd.DataFrame({"id": list(labels), "label": list(labels.values())}).to_csv(folder / "labels.csv", index=False)
    return folder


# Elsewhere: a cluster in test_ray.py, a package of one's own in test_cli.py, a server, which does not end by itself, in
# test_server.py.
ELSEWHERE = ("--ray-address", "mypackage", "axiompath serve")


@pytest.mark.slow
@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in COMMANDS))
def test_every_command_runs(page, karate_folder, tmp_path, monkeypatch, call):
    shutil.copytree(karate_folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    for line in [line for where, line in COMMANDS if where == page]:
        if any(word in line for word in ELSEWHERE):
            continue
        words = words_of(line)
        if words[:3] == ["story", "model", "months"]:  # a model of these events
            words[1] = "watched/model"
            call(
                "watch", "events.csv", "--labels", "labels.csv", "--every", "30D", "--window", "90D", "--out", "watched"
            )
            words[2] = "watched/snapshots"
        code, _, error = call(*words)
        assert code == 0, (line, error)


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_notebooks_are_what_their_pages_say():
    """So that the code of a notebook is that which runs above."""
    assert [path.stem for path in NOTEBOOKS] == sorted(MADE["NOTEBOOKS"])
    for path in NOTEBOOKS:
        page = (ROOT / "docs" / f"{path.stem}.md").read_text(encoding="utf-8")
        assert json.loads(path.read_text(encoding="utf-8")) == MADE["to_notebook"](page), "run from_pages.py"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code[0].startswith("%pip install")
    space = {"__name__": "__main__"}
    for source in code[1:]:
        exec(compile(source, path.name, "exec"), space)


@pytest.mark.system
def test_the_example_runs(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "explain_evolving_graph.py"), "--karate"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Generated explanations in ['edge_mask']" in done.stdout
    assert (tmp_path / "subgraph.png").is_file()


def test_pages_are_short_and_few():
    """At most twenty pages of twenty thousand characters, and a README of 120 lines."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    assert len(PAGES) - 1 <= 20
    assert {page: len(text) for page, text in texts.items() if len(text) > 20_000} == {}
    assert len(texts["README.md"].splitlines()) <= 120


@pytest.mark.parametrize(("words", "most"), [("tell|tells|told|telling", 60), ("alone", 60)])
def test_words_of_our_own_stay_rare(words, most):
    """What people read says "receives", "reports" and "only"."""
    files = [ROOT / "README.md", *(path for name in ("docs", "src", "research") for path in (ROOT / name).rglob("*"))]
    kinds = {".md", ".py", ".pyx", ".js", ".html", ".ipynb"}
    lines = [line for path in files if path.suffix in kinds for line in path.read_text("utf-8").splitlines()]
    assert sum(re.search(rf"\b({words})\b", line, re.IGNORECASE) is not None for line in lines) <= most


@pytest.mark.system
def test_the_site_asks_no_other_host(tmp_path):
    """Whatever its pages load is beside them."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pages = [path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html")]
    assert len(pages) > 15
    loaded = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+")
    assert [found for text in pages for found in loaded.findall(text)] == []
