"""Workload + parts -> each part's file written, by processes on this machine or by tasks on a Ray cluster.

Workers never run the user's script: loky starts them as fresh interpreters. They read the workload from one file that
they map into memory, so that its arrays exist once. Parts are handed out largest first, no more at a time than the
memory budget holds. Which worker dies is not known when several work: all parts under way are then done again, one at a
time; a part at which a worker dies again is done target by target.
"""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from loky import process_executor
from loky.backend import resource_tracker
from loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from ..errors import InputError, Notice
from ..native.threads import limit_cores, num_cores
from ..storage.memory import show_bytes
from .work import PROCESS_BYTES, Load

ENGINES = ("local", "ray")
MIN_MEMORY = 200e6  # bytes: a worker, and something to work with
PART_BYTES = 5e8  # that are handed over in the time of a part: fewer parts are done here before anybody else has begun
MAX_STARTS = 3  # times that workers which die before they have done anything are started
KEPT_BYTES = 2e8  # of a workload that workers may keep while they have nothing to do
IDLE_SECONDS = 300.0  # after which workers that have nothing to do end
WATCH_SECONDS = 0.5  # between two looks at whether the process that workers work for is still there
MAX_RETRIES = 3  # of a task on Ray whose worker died
IN_FLIGHT = 4  # tasks handed to a cluster at a time, for each of its cores
ALIGNED, SIZE = 64, struct.Struct("<q")
# Workers compute with one thread each, and import nothing from the current folder.
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"),
    "PYTHONSAFEPATH": "1",
}
Packed = tuple[bytes, list[Any]]


class Killed(InputError):
    """Workers die whenever they are started."""

    def __init__(self) -> None:
        super().__init__(
            f"Expected the scan's own processes to live (they were killed {MAX_STARTS} times, most likely "
            "because memory ran out); free some memory, or use fewer workers or a smaller memory budget, and run it "
            "again: it continues where it stopped."
        )


class HandoverError(Exception):
    """The workload holds something that another process cannot read."""


class Workers(Protocol):
    """Processes, here or elsewhere, that do parts and targets of a workload."""

    size: int  # tasks that are handed out at a time
    memory: float  # bytes for all tasks under way
    idle_bytes: float  # of a worker that has nothing to do
    died: type[Exception]  # what a task raises whose worker died

    def submit(self, kind: str, number: int) -> Future[Any]:
        """Have a part or a target done."""

    def restart(self) -> None:
        """Make good what died."""


@dataclass(frozen=True)
class Engine:
    """Who runs a scan, and with how much memory for all workers of a machine."""

    name: str
    memory: float  # bytes
    workers: int | None = None
    ray_address: str | None = None

    def __post_init__(self) -> None:
        """Check here, before any work."""
        if self.name not in ENGINES:
            raise InputError(f"Expected an engine among {', '.join(ENGINES)} (got {self.name!r}).")
        workers = self.workers
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise InputError(f"Expected 1 worker or more (got {workers!r}).")
        if self.memory < MIN_MEMORY:
            raise InputError(
                f"Expected a memory budget of at least {show_bytes(MIN_MEMORY, up=True)} for a scan (got "
                f"{show_bytes(self.memory)}): a worker takes {show_bytes(PROCESS_BYTES)} before it has explained "
                "anything."
            )

    def run(self, load: Load, parts: list[int]) -> Generator[int, None, None]:
        """Yield each part when its file is there."""
        if self.name == "ray":
            return run_ray(load, parts, self.memory, self.workers, self.ray_address)
        return run_local(load, parts, self.memory, self.workers)

    def finish(self, load: Load, parts: list[int]) -> None:
        """The same, when all of them are there."""
        with closing(self.run(load, parts)) as finished:
            for _ in finished:
                pass


def order_parts(parts: Iterable[int], costs: Callable[[int], float]) -> list[int]:
    """Cheapest first, so that the end of the list is what to start with."""
    return sorted(parts, key=lambda part: (costs(part), -part))


def run_parts(load: Load, parts: list[int], workers: Workers) -> Iterator[int]:
    """Yield each part when its file is there; `parts` as `order_parts` gives them."""
    left, suspects = list(parts), list[int]()
    running: dict[Future[Any], int] = {}
    while left or running or suspects:
        while not suspects and len(running) < workers.size:
            idle = workers.idle_bytes * (workers.size - len(running) - 1)
            part = take(left, load, workers.memory - idle - sum(load.need_of(part) for part in running.values()))
            if part is None:
                break
            running[workers.submit("part", part)] = part
        if not running:
            workers.restart()
            for part in suspects:
                if _try(workers, "part", part) is None:
                    load.rescue(part, lambda place: _try(workers, "target", place))
                yield part
            suspects = []
            continue
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            part = running.pop(done)
            try:
                done.result()
            except workers.died:
                suspects.append(part)
            else:
                yield part


def take(left: list[int], load: Load, room: float) -> int | None:
    """The most expensive part that fits into the room."""
    for place in range(len(left) - 1, -1, -1):
        if load.need_of(left[place]) <= room:
            return left.pop(place)
    return None


def _try(workers: Workers, kind: str, number: int) -> Any:
    """One task with nobody else at work; None where its worker dies."""
    try:
        return workers.submit(kind, number).result()
    except workers.died:
        workers.restart()
        return None


# On this machine


def run_local(load: Load, parts: list[int], memory: float, workers: int | None) -> Generator[int, None, None]:
    """Yield each part when its file is there; `parts` as `order_parts` gives them."""
    if not parts:
        return
    # Whether this process may not start others, or cannot.
    in_process = multiprocessing.current_process().daemon or not sys.executable
    try:
        packed = pack(load, pickle)
        if in_process or sum(map(len, packed[1])) > len(parts) * PART_BYTES:
            yield from _run_here(load, parts)
            return
        largest = max(map(load.need_of, parts))
        size = min(workers or num_cores(), len(parts), 1 + int((memory - largest) // load.idle_bytes))
        local = LocalWorkers(packed, max(size, 1), memory, load.idle_bytes)
    except HandoverError as error:
        warnings.warn(
            f"This scan runs on one core, in this process: workers of its own cannot read the model ({error}); define "
            "rules and activations of your own in a module that can be imported.",
            Notice,
            stacklevel=2,
        )
        yield from _run_here(load, parts)
        return
    try:
        yield from run_parts(load, parts, local)
    except BaseException:
        local.kill()  # this process may be about to end, and nobody is to outlive it
        raise
    local.close()


def _run_here(load: Load, parts: list[int]) -> Iterator[int]:
    for part in reversed(parts):
        load.do("part", part)
        yield part


_idle: dict[tuple[int, int], ProcessPoolExecutor] = {}  # workers that earlier scans of a process left, by their number


class LocalWorkers:
    """Processes on this machine; they stay for a while for the next scan."""

    died = BrokenProcessPool

    def __init__(self, packed: Packed, size: int, memory: float, idle_bytes: float) -> None:
        self.size, self.memory, self.idle_bytes = size, memory, idle_bytes
        self.path = _write_load(packed)
        self.executor: ProcessPoolExecutor | None = _idle.pop((os.getpid(), size), None)
        try:
            end_idle()
            self.restart()
        except BaseException:
            self.kill()
            raise

    def submit(self, kind: str, number: int) -> Future[Any]:
        """Have a part or a target done."""
        return self._submit(_do, str(self.path), kind, number)

    def _submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        assert self.executor is not None
        try:
            with _unheard():  # this starts workers
                found: Future[Any] = self.executor.submit(function, *given)
        except self.died as error:  # while nobody had anything to do
            found = Future()
            found.set_exception(error)
        return found

    def restart(self) -> None:
        """Workers that have read the workload; they are started where there are none, or they are broken."""
        for _ in range(MAX_STARTS):
            if self.executor is None:
                self.executor = ProcessPoolExecutor(
                    self.size, timeout=IDLE_SECONDS, initializer=_begin, initargs=(os.getpid(),), env=ENVIRONMENT
                )
            try:
                with _safe_path():
                    asked = self._submit(_read_held, str(self.path))
                asked.result()
                return
            except self.died:
                self.executor = None
            except (ImportError, AttributeError) as error:  # something that only the user's script can name
                raise HandoverError("a worker cannot import a part of the model") from error
        raise Killed

    def close(self) -> None:
        """Leave the workers to the next scan."""
        if self.path.stat().st_size > KEPT_BYTES:
            return self.kill()
        assert self.executor is not None
        _idle[os.getpid(), self.size] = self.executor
        resource_tracker.maybe_unlink(str(self.path), "file")

    def kill(self) -> None:
        """End the workers at once; they are gone when this returns."""
        if self.executor is not None:
            self.executor.shutdown(wait=True, kill_workers=True)
        resource_tracker.maybe_unlink(str(self.path), "file")


def end_idle() -> None:
    """End the workers that earlier scans of this process left."""
    for key in [key for key in _idle if key[0] == os.getpid()]:
        _idle.pop(key).shutdown(wait=True, kill_workers=True)


@contextmanager
def _unheard() -> Iterator[None]:
    """Processes that start meanwhile do not hear Ctrl-C or the end of the terminal, which this process handles."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that start meanwhile, those beside workers too, import nothing from the current folder."""
    held = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if held is not None:
            os.environ["PYTHONSAFEPATH"] = held


def _begin(parent: int) -> None:
    """The start of a worker: one core, and an end when the process that it works for is gone."""
    limit_cores(1)
    process_executor._USE_PSUTIL = False  # else a workload that is mapped into memory counts as a leak

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_held: dict[Any, Load] = {}  # the workload that this worker has, by where it is from


def _read_held(path: str) -> None:
    """Read the workload, unless this worker has it already."""
    if path not in _held:
        _held.clear()
        _held[path] = read_load(path)


def _do(path: str, kind: str, number: int) -> Any:
    """A task: one part or one target."""
    _read_held(path)
    return _held[path].do(kind, number)


def pack(load: Load, pickler: Any) -> Packed:
    """The structure of the workload, and its arrays as they lie in memory."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        structure = pickler.dumps(load, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise HandoverError(str(error)) from error
    return structure, [buffer.raw() for buffer in buffers]


def _write_load(packed: Packed) -> Path:
    """A file of the structure, then the arrays; it goes with the scan, also where this process is killed."""
    structure, views = packed
    number, name = tempfile.mkstemp(prefix="axiompath-")
    with _safe_path():
        resource_tracker.register(name, "file")
    with open(number, "wb") as file:
        head = pickle.dumps((structure, [len(view) for view in views]))
        file.write(SIZE.pack(len(head)))
        file.write(head)
        for view in views:
            file.write(b"\0" * (-file.tell() % ALIGNED))
            file.write(view)
    return Path(name)


def read_load(path: str) -> Load:
    """The workload again, its arrays where they lie in the file; whoever wrote to these would write to a copy."""
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    start = SIZE.size + SIZE.unpack(mapped[: SIZE.size])[0]
    structure, sizes = pickle.loads(mapped[SIZE.size : start])
    views = []
    for size in sizes:
        start += -start % ALIGNED
        views.append(mapped[start : start + size])
        start += size
    load = pickle.loads(structure, buffers=views)
    assert isinstance(load, Load)
    return load


# On a cluster


def run_ray(
    load: Load, parts: list[int], memory: float, workers: int | None, address: str | None
) -> Generator[int, None, None]:
    """Yield each part when its file is there; workers write the files, so all machines must reach the folder.

    `memory` bounds what runs on each machine of the cluster. A cluster that is connected already is used as it is.
    """
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "Expected Ray to be installed for engine='ray' (found none); pip install 'axiompath[ray]'."
        ) from error
    started = not ray.is_initialized()
    if started:
        local = {"address": "local", "num_cpus": workers or num_cores()}
        options: dict[str, Any] = {"address": address} if address else local
        try:
            _knock(address)
            ray.init(log_to_driver=False, include_dashboard=False, **options)
        except (ConnectionError, OSError) as error:
            raise InputError(
                f"Expected a Ray cluster at {address} (found none); start one with `ray start --head`, or leave the "
                "address out to start one on this machine."
            ) from error
    try:
        yield from run_parts(load, parts, RayWorkers(ray, load, memory, workers))
    finally:
        if started:
            ray.shutdown()


def _knock(address: str | None) -> None:
    """Is anybody there? Ray itself would ask for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


class RayWorkers:
    """Tasks on a cluster; the workload is put into the object store once, where all workers of a machine map it."""

    idle_bytes = 0.0  # workers that have nothing to do are the cluster's

    def __init__(self, ray: Any, load: Load, memory: float, workers: int | None) -> None:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cores = int(sum(machine.get("CPU", 0) for machine in machines)) or 1
        self.size, self.memory = min(workers or cores, cores) * IN_FLIGHT, memory * len(machines)
        self.died = ray.exceptions.WorkerCrashedError
        # A cluster that says it has less memory than the budget would wait for ever; the budget is the user's.
        self.largest = max(machine.get("memory", 0) for machine in machines)
        self.load = load
        structure, views = pack(load, ray.cloudpickle)
        self.packed = ray.put((structure, [np.frombuffer(view, dtype=np.uint8) for view in views]))
        self.task = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_do_packed)

    def submit(self, kind: str, number: int) -> Future[Any]:
        """Have a part or a target done; a target, which is asked for by itself, is tried once."""
        options: dict[str, Any] = {"max_retries": 0}
        if kind == "part":
            need = min(self.load.need_of(number), self.largest)
            options = {"name": f"part-{number:06d}", "memory": int(need)}
        found: Future[Any] = self.task.options(**options).remote(self.packed, kind, number).future()
        return found

    def restart(self) -> None:
        """Ray does that."""


def unpack(packed: Packed) -> Load:
    """The workload again, its arrays where they lie: nothing is copied.

    The store's memory is read-only, and kernels take arrays that can be written to; they write to none of these.
    """
    structure, buffers = packed
    views = [(ctypes.c_ubyte * len(b)).from_address(b.ctypes.data) if len(b) else bytearray() for b in buffers]
    load = pickle.loads(structure, buffers=views)
    assert isinstance(load, Load)
    load.__dict__["_store"] = packed  # the arrays live as long as the workload
    return load


def _do_packed(packed: Packed, kind: str, number: int) -> Any:
    """A task: unpack the workload, unless this worker has it already, and do one part or one target."""
    if packed[0] not in _held:
        limit_cores(1)
        _held.clear()
        _held[packed[0]] = unpack(packed)
    return _held[packed[0]].do(kind, number)
