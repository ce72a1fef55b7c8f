"""Workload -> workers: processes of their own, which end when this one does.

A process whose other threads hold locks (the compiler's, an allocator's) must not be forked: the child would wait for
them for ever. So the user's process never is. A fresh interpreter, which never runs the user's script, imports what
workers need and has one thread; it is forked for each scan, that child reads the workload from a file that is mapped
into memory, and is forked in turn for each worker, so that workers share all of it and start at once:

    this process  ->  stem, one a process  ->  branch, one a scan  ->  workers

Stem and branch do nothing but wait for orders on a socket. When its other end is gone, however that came about, they
end their children, then themselves; while it still imports what workers need, the stem looks once a second.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection
from typing import IO, Any, Literal, NoReturn

from numba.core.registry import cpu_target

from ..errors import InputError
from ..threads import limit_cores
from .work import Load

# Importing takes seconds, many on a busy machine: whoever asked for it may be gone before it is done.
# The path comes first: Python would import all but `sys` from the current folder, where anybody's modules may lie.
START = """
import sys
sys.path[:] = {path!r}
import os, select, signal
other_end = select.poll()
other_end.register({descriptor}, 0)  # nothing but that it is gone
signal.signal(signal.SIGALRM, lambda *_: other_end.poll(0) and os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
from axiompath.scan.workers import serve
serve({descriptor})
"""
# Workers compute with one thread each, and the process they are forked from has no other either.
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
ORDER = struct.Struct("<q")
FORK, READY, FAILED = 0, 1, -1  # any other order is the number of a child to end
BEAT = 2.0  # seconds between signs of life
MOVED = 1e-3  # seconds of processor time between two beats that count as life
PATIENCE = 10.0  # seconds that a branch may take to end its workers
ALIGNED = 64
MAX_KILLED = 3  # times that a process which forks is started for the same purpose


class Killed(InputError):
    """The processes that fork workers are killed whenever they are started."""

    def __init__(self) -> None:
        super().__init__(
            f"Expected the scan's own processes to live (they were killed {MAX_KILLED} times, by the system for want "
            "of memory as a rule); free some memory, or use fewer workers or a smaller memory budget, and run it "
            "again: it goes on where it stopped."
        )


class HandoverError(Exception):
    """The workload holds something that another process cannot read."""


class Forker:
    """Our end of a process that forks when it is told to."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel, self.lock = channel, threading.Lock()

    def fork(self, *descriptors: int) -> int:
        """A new child of that process, which has these; returns its number."""
        return self._ask(FORK, *descriptors)

    def end(self, child: int) -> None:
        """Kill a child of that process, if it lives; it is gone when this returns."""
        self._ask(child)

    def close(self) -> None:
        """That process ends its children and itself."""
        self.channel.close()

    def hear(self) -> int:
        """The next answer."""
        answer = self.channel.recv(ORDER.size, socket.MSG_WAITALL)
        if len(answer) < ORDER.size:
            raise ConnectionError("the process that forks workers is gone")
        return int(ORDER.unpack(answer)[0])

    def _ask(self, order: int, *descriptors: int) -> int:
        with self.lock:
            socket.send_fds(self.channel, [ORDER.pack(order)], descriptors)
            return self.hear()


_stems: list[tuple[Forker, subprocess.Popen[bytes]]] = []
_lock = threading.Lock()


def start_branch(load: Load) -> tuple[Forker, int]:
    """A process that has the workload and forks workers; and its number, by which `end_branch` ends it."""
    for _ in range(MAX_KILLED):
        with suppress(ConnectionError):  # somebody killed it, or the stem
            return _try_branch(load)
    raise Killed


def _try_branch(load: Load) -> tuple[Forker, int]:
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile(prefix="axiompath-") as file:
        _write_load(file, load)
        number = _fork_stem(theirs.fileno(), file.fileno())
    branch = Forker(ours)
    if branch.hear() != READY:
        end_branch(branch, number)
        raise HandoverError("a worker cannot import a part of the model")
    return branch, number


def end_branch(branch: Forker, number: int) -> None:
    """Close it and wait until it and its workers are gone."""
    with suppress(OSError):
        branch.channel.settimeout(PATIENCE)
        branch.channel.shutdown(socket.SHUT_WR)
        branch.channel.recv(ORDER.size)  # it closes its end when its workers are gone
    branch.close()
    with _lock, suppress(OSError):
        if _stems:
            _stems[0][0].end(number)


def _fork_stem(*descriptors: int) -> int:
    with _lock:
        if _stems:
            with suppress(OSError):
                return _stems[0][0].fork(*descriptors)
            end_stems()  # somebody killed it
        _start_stem()
        return _stems[0][0].fork(*descriptors)


def _start_stem() -> None:
    ours, theirs = socket.socketpair()
    with theirs, _deaf():
        code = START.format(path=sys.path, descriptor=theirs.fileno())
        stem = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **ONE_THREAD},
        )
    _stems.append((Forker(ours), stem))


def end_stems() -> None:
    """End what new workers would be forked from, and wait until it is gone."""
    while _stems:
        forker, process = _stems.pop()
        forker.close()
        process.wait()


def _forget_stems() -> None:
    """In a forked child: these are the parent's, and end when the parent does."""
    global _lock
    _lock = threading.Lock()
    while _stems:
        forker, process = _stems.pop()
        forker.close()
        process.returncode = 0


atexit.register(end_stems)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_stems)


@contextmanager
def _deaf() -> Iterator[None]:
    """What is started meanwhile never hears Ctrl-C or the end of the terminal: those are this process's to handle."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def num_handed(load: Load) -> int:
    """Bytes of arrays that workers are handed."""
    return sum(len(view) for view in _pack(load)[1])


def _pack(load: Load) -> tuple[bytes, list[memoryview]]:
    """The structure of the workload, and its arrays as they lie in memory."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        structure = pickle.dumps(load, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise HandoverError(str(error)) from error
    return structure, [buffer.raw() for buffer in buffers]


def _write_load(file: IO[bytes], load: Load) -> None:
    """The structure of the workload, then its arrays."""
    structure, views = _pack(load)
    head = pickle.dumps((structure, [len(view) for view in views]))
    file.write(ORDER.pack(len(head)))
    file.write(head)
    for view in views:
        file.write(b"\0" * (-file.tell() % ALIGNED))
        file.write(view)
    file.flush()


def _read_load(descriptor: int) -> Load:
    """The workload again, its arrays where they lie in the file.

    Compiled loops are compiled for arrays that can be written to; whoever wrote to these would write to a copy.
    """
    mapped = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    start = ORDER.size + ORDER.unpack(mapped[: ORDER.size])[0]
    structure, sizes = pickle.loads(mapped[ORDER.size : start])
    views = []
    for size in sizes:
        start += -start % ALIGNED
        views.append(mapped[start : start + size])
        start += size
    load = pickle.loads(structure, buffers=views)
    assert isinstance(load, Load)
    return load


def serve(descriptor: int) -> NoReturn:
    """The life of the stem, once it has imported everything."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # What numba prepares before the first loop is loaded takes most of a second: once here, not once a worker.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    _fork_on_order(socket.socket(fileno=descriptor), None)


def _fork_on_order(channel: socket.socket, load: Load | None) -> NoReturn:
    children: set[int] = set()
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, ORDER.size, 2)
        if len(message) < ORDER.size:
            break
        (child,) = ORDER.unpack(message)
        if child == FORK:
            parent, child = os.getpid(), os.fork()
            if child == 0:
                channel.close()
                _end_with(parent)
                _live(load, *descriptors)
            children.add(child)
            for held in descriptors:
                os.close(held)
        else:
            children -= {child}
            _end(child)
        with suppress(OSError):
            channel.sendall(ORDER.pack(child))
    for child in children:
        _end(child)
    os._exit(0)


def _end(child: int) -> None:
    # Its number cannot be another's: nobody else waits for it.
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _end_with(parent: int) -> None:
    """End where the parent is killed, too; also where that was before this was asked for."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _live(load: Load | None, *descriptors: int) -> NoReturn:
    """What a forked child does: a branch where there is no workload yet, else a worker."""
    try:
        if load is not None:
            _work(load, connection.Connection(descriptors[0]))
        else:
            channel = socket.socket(fileno=descriptors[0])
            try:
                found = _read_load(descriptors[1])
            except (ImportError, AttributeError):  # something that only the user's script can name
                channel.sendall(ORDER.pack(FAILED))
                os._exit(1)
            os.close(descriptors[1])
            channel.sendall(ORDER.pack(READY))
            _fork_on_order(channel, found)
    finally:
        os._exit(1)


Message = tuple[Literal["life", "done", "error"], Any]


def _work(load: Load, pipe: connection.Connection) -> None:
    """A worker's life: tasks in, answers out, until the pipe is closed or whoever holds its other end is gone."""
    limit_cores(1)
    lock = threading.Lock()

    def send(answer: Message) -> None:
        with lock:
            pipe.send(answer)

    threading.Thread(target=_show_life, args=(send,), daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            kind, number = pipe.recv()
            try:
                answer: Message = ("done", load.do(kind, number))
            except Exception as error:
                answer = ("error", _portable(error))
            send(answer)
    os._exit(0)


def _show_life(send: Any) -> None:
    """A beat now and then, as long as the process computes: one that waits for ever sends none."""
    used = 0.0
    with suppress(OSError):
        while True:
            time.sleep(BEAT)
            now = time.process_time()
            if now - used > MOVED:
                send(("life", None))
            used = now


def _portable(error: Exception) -> Exception:
    """The error as something that can be sent through a pipe."""
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    if isinstance(error, InputError):
        return InputError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
