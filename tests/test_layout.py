"""The data's way through the program is the list of packages below: each imports only from lines above its own."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import axiompath
from support.repository import FILES, SOURCE

# One line a floor of the house; names on one line do not import each other.
FLOORS = [
    "errors arrays",
    "native",
    "storage",
    "metrics datasets",
    "outputs",
    "graphs",
    "files",
    "network",
    "readers",
    "change",
    "paths",
    "selection baselines",
    "explain",
    "blame",
    "session",
    "windows",
    "scan",
    "explainer",
    "sequences",
    "pyg",
    "report",
    "cli",
]
ORDER = [name for floor in FLOORS for name in floor.split()]

# A record draws itself when asked to: the only imports that point down, each inside a method.
LATE = {
    ("explain.explanation", "report"),
    ("explain.neighbourhood", "report"),
    ("explain.timeline", "report"),
    ("scan.scan", "report"),
    ("blame.blame", "report"),
    ("blame.undo", "report"),
    ("sequences.watch", "report"),
    ("sequences.story", "report"),
}


def imports(path):
    """(package of the import, whether it is made inside a function) for every import from axiompath in a file."""
    here = list(path.relative_to(SOURCE).parent.parts)
    tree = ast.parse(path.read_text())
    early = set(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or node.module.split(".")[0] == "axiompath"):
            module = node.module.split(".") if node.module else []
            base = here[: len(here) - node.level + 1] + module if node.level else module[1:]
            for first in [base[0]] if base else [alias.name for alias in node.names]:
                yield first, node not in early


def test_every_package_has_its_floor():
    assert {name.split(".")[0] for name in FILES} - {""} == set(ORDER)


@pytest.mark.parametrize("name", sorted(FILES))
def test_imports_point_upwards(name):
    own = name.split(".")[0]
    floor = next((i for i, names in enumerate(FLOORS) if own in names.split()), len(FLOORS))
    allowed = {above for names in FLOORS[:floor] for above in names.split()} | {own}
    for package, late in imports(FILES[name]):
        assert package in allowed or (late and (name, package) in LATE), f"{name} imports {package}"


def test_the_package_and_its_tests_need_nothing_of_research():
    """What is in research/ is not installed, and imports the package, not the other way round."""
    found = [
        path.name
        for path in (*FILES.values(), *Path(__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        )
        if name.split(".")[0] == "research"
    ]  # fmt: skip
    assert found == []
    assert len(FILES["datasets"].read_text().splitlines()) <= 150


def test_no_test_module_imports_another():
    """What tests share lies in tests/support and beside the models that they read."""
    tests = Path(__file__).parent
    names = {path.stem for path in tests.rglob("test_*.py")}
    found = [
        f"{path.relative_to(tests)} imports {node.module}"
        for path in tests.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and names & {*(node.module or "").split(".")}
    ]
    assert found == []


def test_folders_of_tests_are_those_of_the_package():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir()} | {"support", "windows"}
    assert {path.name for path in Path(__file__).parent.iterdir() if any(path.glob("**/*.py"))} <= packages


def test_every_refusal_is_an_input_error():
    """What is raised with a sentence is the user's to mend, and says so by its type; the rest are assertions."""
    builtin = {"ValueError", "TypeError", "MemoryError", "FileNotFoundError", "KeyError", "IndexError", "RuntimeError"}
    found = [
        f"{name}, line {node.lineno}: {node.exc.func.id}"
        for name, path in FILES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in builtin
    ]  # fmt: skip
    assert found == []


def test_the_package_alone_loads_nothing_heavy():
    seen = "import sys, axiompath; print({'torch', 'pandas', 'matplotlib'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_public_names_are_the_same_for_people_and_for_type_checkers():
    tree = ast.parse(FILES[""].read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    promised = {(node.module, alias.name) for node in typed.body for alias in node.names}
    assert promised == {(module, name) for name, module in axiompath._HOME_OF.items()}
    assert sorted(axiompath._HOME_OF) == sorted(axiompath.__all__)
    assert set(axiompath.__all__) <= set(dir(axiompath))
    for name in axiompath.__all__:
        assert getattr(axiompath, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'KINDS'"):
        axiompath.KINDS  # noqa: B018


def test_every_type_that_a_public_method_returns_is_public():
    """What a record holds, its fields and properties, has names of its own."""
    assert len(axiompath.__all__) <= 40
    nodes = [node for path in FILES.values() for node in ast.walk(ast.parse(path.read_text()))]
    ours = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    for name in axiompath.__all__:
        item = getattr(axiompath, name)
        parts = vars(item).items() if isinstance(item, type) else [(name, item)]
        for word, part in parts:
            returned = getattr(getattr(part, "__func__", part), "__annotations__", {}).get("return", "")
            hidden = ours & {*re.findall(r"\w+", str(returned))} - {*axiompath.__all__}
            assert word.startswith("_") or not hidden, f"{name}.{word} returns {hidden}"


def test_names_of_the_release_before_still_serve():
    for name in axiompath._FORMER:
        with pytest.warns(DeprecationWarning, match="the old name goes with the next release"):
            assert getattr(axiompath, name) is not None


def test_the_root_holds_ten_files():
    assert len(list(SOURCE.glob("*.py"))) <= 10


def test_the_way_through_the_code_names_what_is_there():
    """CONTRIBUTING leads from a call to its answer: every file and function that it names exists."""
    text = (SOURCE.parent.parent / "CONTRIBUTING.md").read_text()
    ways, changes = text.split("## Three ways through the code")[1].split("## Five first changes")
    for way in ways.split("### ")[1:]:
        hops = re.findall(r"^\d+\. `([\w/]+\.py)`: `([\w.]+)`", way, re.MULTILINE)
        assert 4 <= len(hops) == len(re.findall(r"^\d+\. ", way, re.MULTILINE)) <= 8
        assert len({file for file, _ in hops}) == len(hops), "a module is entered twice"
        for file, function in hops:
            tree = ast.parse((SOURCE / file).read_text())
            assert function.split(".")[-1] in {getattr(node, "name", "") for node in ast.walk(tree)}, (file, function)
    assert changes.count("### ") == 5
    for change in changes.split("### ")[1:]:
        files = re.findall(r"^- `([\w/.]+)`: ", change, re.MULTILINE)
        assert 1 <= len(files) <= 3
        assert all((SOURCE.parent.parent / file).is_file() for file in files), files
    for file in re.findall(r"`([a-z_]+/[\w/]+\.py)`", ways):
        assert (SOURCE / file).is_file(), file
