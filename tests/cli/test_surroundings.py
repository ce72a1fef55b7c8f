"""Where it runs: caches that cannot be written or are damaged, poor terminals, closed pipes, signals, others' state."""

import errno
import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from rich.progress import track
from torch_geometric.nn import GCN

import axiompath
from axiompath.cli import app as cli
from axiompath.storage.notebook import bar_console
from support.processes import start
from support.scans import evolving_graph

pytestmark = pytest.mark.system


def python(code, **environment):
    """A script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


# Terminals, notebooks and pipes


class ZMQInteractiveShell:
    """By its name rich knows a notebook."""


def test_a_notebook_without_widgets_shows_a_bar(monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr("rich.console.get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ipywidgets" else found(name))
    assert Console().is_jupyter
    assert list(track([1, 2], "Explaining", console=bar_console(), transient=True)) == [1, 2]
    assert "Explaining" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_cannot_show_an_arrow_gets_plain_characters(monkeypatch, files, encoding):
    shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "argv", ["axiompath", "explain", *map(str, files), "-t", "13"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code
    text = shown.buffer.getvalue().decode(encoding)
    assert ("member 8 → member 13" if encoding == "utf-8" else "member 8 > member 13") in text
    rows = [line for line in text.splitlines() if "member 8 " in line and line.startswith(("|", "│"))]
    assert len({len(line) for line in rows}) == 1


def test_a_reader_who_has_gone_ends_it_quietly_as_other_tools(files):
    reading, writing = os.pipe()
    process = start("diff", files[1], files[2], stdout=writing)
    os.close(writing)
    os.close(reading)
    _, error = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGPIPE
    assert error == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_is_the_devices_fault(files):
    with open("/dev/full", "w") as full:
        process = start("diff", files[1], files[2], stdout=full)
        _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "Expected a device with room" in error
    assert "No space left on device" in error
    assert "Traceback" not in error
    assert "Exception" not in error


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_nobodys(tmp_path, closed):
    """Nor does a file that is opened later take its number, and with it what is meant for the terminal."""
    (tmp_path / "look.py").write_text(
        "import os, sys, axiompath.cli\n"
        "axiompath.cli._open_streams()\n"
        "file = open('file', 'w')\n"
        "[print('told', file=stream, flush=True) for stream in (sys.stdout, sys.stderr)]\n"
        "[os.write(number, b'told') for number in (1, 2)]\n"
        "file.write(sys.stdin.read() and 'something')\n"
    )
    command = f"{sys.executable} look.py {'< /dev/null' if '<' not in closed else ''} {closed}"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, (tmp_path / "file").read_text()) == (0, "")
    assert done.stdout == ("" if ">&-" in closed.replace("2>&-", "") else "told\ntold")
    assert done.stderr == ("" if "2>&-" in closed else "told\ntold")


def test_a_folder_that_was_removed_is_said_to_be(tmp_path):
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && {sys.executable} -m axiompath.cli --help"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "Error: Expected a folder to work in (this one has been removed); go to another one.\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE, errno.EBADF])
def test_what_cannot_be_said_changes_no_exit_code(monkeypatch, number):
    class Nobody(io.StringIO):
        def write(self, text):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sys, "argv", ["axiompath", "diff", "none.npz", "none.npz"])
    monkeypatch.setattr(sys, "stderr", Nobody())
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2


def catches(pid, number):
    """Whether a process has a handler for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("SigCgt:")), 16) >> (number - 1) & 1


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.5])
def test_stopped_while_it_is_still_loading(tmp_path, number, seconds):
    process = start("demo", "--large", "--out", tmp_path, stdout=subprocess.PIPE)
    # The last that it learns to handle; before, it is Python that starts, which takes as long as the machine likes.
    deadline = time.monotonic() + 60
    while not catches(process.pid, signal.SIGHUP) and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert error == "Stopped.\n"


# What is the user's


def test_the_import_changes_nothing_of_the_users():
    done = python("""
import os, random, sys, warnings
held = random.getstate(), dict(os.environ), list(warnings.filters)
import axiompath
for name in axiompath.__all__:
    getattr(axiompath, name)
assert "torch_geometric" in sys.modules
assert (random.getstate(), dict(os.environ), list(warnings.filters)) == held
import matplotlib
backend = matplotlib.rcParams._get_backend_or_none()
import axiompath.report.plots
assert matplotlib.rcParams._get_backend_or_none() == backend
print("nothing")
""")
    assert done.stdout == "nothing\n", done.stderr


def test_hooks_of_the_users_run_on_the_copy_and_stay_on_the_model():
    model, seen = GCN(8, 16, 2, 4).eval(), []
    model.convs[0].register_forward_hook(lambda module, inputs, output: seen.append(module))
    axiompath.Explainer(model, *evolving_graph(50, 10))
    assert seen
    assert all(module is not model.convs[0] for module in seen)
    assert len(model.convs[0]._forward_hooks) == 1
    assert torch.is_grad_enabled()
