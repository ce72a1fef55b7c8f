"""Every benchmark runs, at a size that takes seconds, and puts its tables into the pages that tell of it."""

import re
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "tables")
BLOCK = re.compile(r"<!-- benchmark: (.*?) -->\n(.*?)<!-- end of \1 -->", re.DOTALL)
BESIDE_SHAP = "blame beside shap"  # which the extra `benchmarks` brings
FOLDERS = {"scan": "--out", "stored": "--folder"}
BLOCKS = {
    "attribution": ["attribution", "attribution memory"],
    "blame": ["blame", "blame of many changes", BESIDE_SHAP],
    "cold_start": ["cold start"],
    "hubs": ["hubs", "groups"],
    "retrained": ["retrained"],
    "scan": ["scan"],
    "selection": ["selection", "selection of many"],
    "stored": ["conversion", "stored graphs"],
    "tasks": ["tasks"],
    "windows": ["windows"],
}


def test_every_benchmark_is_known_here():
    assert sorted(BLOCKS) == SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_finds_what_it_measures(script, monkeypatch):
    """What it imports is there under this name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    assert callable(runpy.run_path(str(ROOT / "benchmarks" / f"{script}.py"), run_name="read")["main"])


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_runs_and_writes_its_tables_and_nothing_else(script, tmp_path):
    if script == "stored" and not Path("/proc/self/clear_refs").exists():
        pytest.skip("memory is measured as Linux tells it")
    page, names = "benchmarks.md", BLOCKS[script]
    names = [name for name in names if name != BESIDE_SHAP or find_spec("shap")]
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    held = (ROOT / "docs" / page).read_text(encoding="utf-8")
    command = [sys.executable, ROOT / "benchmarks" / f"{script}.py", "--tiny", "--docs", tmp_path / "docs"]
    command += [FOLDERS[script], tmp_path / "out"] if script in FOLDERS else []
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "docs" / page).read_text(encoding="utf-8")
    found = {name: text for name, text in BLOCK.findall(written) if name in names}
    assert list(found) == names
    assert BLOCK.sub("", written) == BLOCK.sub("", held)
    kept = [block for block in BLOCK.findall(held) if block[0] not in names]
    assert kept == [block for block in BLOCK.findall(written) if block[0] not in names]
    for text in found.values():
        head, rule, *rows = text.strip().split("\n\n")[0].splitlines()
        assert set(rule) <= set("|-: ")
        assert rows
        assert {row.count("|") for row in (head, rule, *rows)} == {head.count("|")}
        assert "cores.*" in text
    others = [path for path in (ROOT / "docs").glob("*.md") if path.name != page]
    assert all((tmp_path / "docs" / path.name).read_bytes() == path.read_bytes() for path in others)
