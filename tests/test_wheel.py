"""What is published works by itself: a wheel, in an environment that has nothing else, without extras."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.repository import BLOCK, ROOT

pytestmark = pytest.mark.system

SOURCES = ("src", "research", "pyproject.toml", "setup.py", "README.md", "LICENSE")


def run(*command, more=None, **options):
    # Nothing of this environment or of this clone may help.
    surroundings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    surroundings |= more or {}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=surroundings, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that nothing is left in the clone."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", folder)
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    kinds = {".py", ".so", ".html", ".css", ".js", ".typed"}
    files = [path for path in (ROOT / "src" / "axiompath").rglob("*") if path.is_file()]
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if not {"__pycache__", "README.md"} & set(path.parts) and path.suffix not in {".pyx", ".pxd", ".h"}
    }
    assert {Path(name).suffix for name in wanted} == kinds
    assert wanted <= held
    assert "axiompath/py.typed" in held
    assert all(name.startswith(("axiompath/", "axiompath-")) for name in held)
    assert not [name for name in held if "experiments" in name or "research" in name or "planted" in name]


@pytest.mark.slow
def test_the_wheel_runs_the_readme_the_tutorial_and_the_demo_twice_in_an_empty_environment(wheel, tmp_path):
    """The second time with what the first has left in caches."""
    run(sys.executable, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    where, extras = run(
        python, "-c",
        "import axiompath, importlib.util as u; print(axiompath.__file__);"
        "print([n for n in ('ray', 'pytest', 'cvxpy', 'psutil', 'mkdocs') if u.find_spec(n)])",
        cwd=tmp_path,
    ).splitlines()  # fmt: skip
    assert Path(where).is_relative_to(tmp_path / "env")
    assert "ray" not in extras
    assert "pytest" not in extras
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    for page, words in 2 * [("README.md", "altered paths explain"), ("docs/tutorial.md", "No smaller set is enough")]:
        blocks = BLOCK.finditer((ROOT / page).read_text(encoding="utf-8"))
        (tmp_path / "page.py").write_text("\n".join(one[2] for one in blocks if not one[1]), encoding="utf-8")
        assert words in run(python, "page.py", cwd=tmp_path, more=home)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    for _ in range(2):
        run(tmp_path / "env" / "bin" / "axiompath", "demo", "--out", "demo", cwd=tmp_path, more=home)
    assert (tmp_path / "demo" / "model").is_dir()
    assert list((tmp_path / "demo").glob("*.html"))
