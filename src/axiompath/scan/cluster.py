"""Workload + parts -> each part's file written, by tasks on a Ray cluster.

Graph, features and network are put into the object store once; every node of the cluster maps that one copy into its
workers. A task is a part, and asks the cluster for the memory that the part takes. Workers write the files themselves,
so the folder must be one that all of them reach.
"""

from __future__ import annotations

import ctypes
import pickle
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..threads import limit_cores, num_cores
from .engines import Queue
from .work import Load

MAX_RETRIES = 3  # of a task whose worker died
IN_FLIGHT = 4  # tasks handed to the cluster at a time, for each of its cores


def run_ray(
    load: Load, parts: list[int], memory: float, workers: int | None, address: str | None
) -> Generator[int, None, None]:
    """Yield each part when its file is there; the most expensive are handed out first.

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
        alone = {"address": "local", "num_cpus": workers or num_cores()}
        options: dict[str, Any] = {"address": address} if address else alone
        try:
            _knock(address)
            ray.init(log_to_driver=False, include_dashboard=False, **options)
        except (ConnectionError, OSError) as error:
            raise InputError(
                f"Expected a Ray cluster at {address} (found none); start one with `ray start --head`, or leave the "
                "address out to start one on this machine."
            ) from error
    try:
        yield from _run(ray, load, parts, memory, workers)
    finally:
        if started:
            ray.shutdown()


def _knock(address: str | None) -> None:
    """Is anybody there? Ray itself would ask for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _run(ray: Any, load: Load, parts: list[int], memory: float, workers: int | None) -> Generator[int, None, None]:
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = int(sum(machine.get("CPU", 0) for machine in machines)) or 1
    largest = max(machine.get("memory", 0) for machine in machines)
    packed = ray.put(pack(load, ray.cloudpickle))
    task = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_run_packed)
    queue = Queue(list(parts))
    running: dict[Any, int] = {}
    while queue.parts or running:
        while queue.parts and len(running) < min(workers or cores, cores) * IN_FLIGHT:
            room = memory * len(machines) - sum(load.need_of(part) for part in running.values())
            part = queue.take(load, room)
            if part is None:
                break
            # A cluster that says it has less memory than the budget would wait for ever; the budget is the user's.
            need = min(load.need_of(part), largest)
            running[task.options(name=f"part-{part:06d}", memory=int(need)).remote(packed, "part", part)] = part
        ready, _ = ray.wait(list(running), num_returns=1)
        for ref in ready:
            part = running.pop(ref)
            try:
                ray.get(ref)
            except ray.exceptions.WorkerCrashedError:
                load.rescue(part, partial(_alone, ray, task, packed))
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            yield part


def _alone(ray: Any, task: Any, packed: Any, place: int) -> Any:
    """One target, by a worker that has nothing else to do; None where it dies."""
    try:
        return ray.get(task.options(max_retries=0).remote(packed, "target", place))
    except ray.exceptions.WorkerCrashedError:
        return None


def pack(load: Load, pickler: Any) -> tuple[bytes, list[np.ndarray[Any, np.dtype[np.uint8]]]]:
    """The workload as a small text of its structure, and its arrays as they lie in memory."""
    buffers: list[pickle.PickleBuffer] = []
    structure = pickler.dumps(load, protocol=5, buffer_callback=buffers.append)
    return structure, [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]


def unpack(packed: tuple[bytes, list[np.ndarray[Any, np.dtype[np.uint8]]]]) -> Load:
    """The workload again, its arrays where they lie: nothing is copied.

    The store's memory is read-only, for which every compiled loop would have to be compiled again; we write to none of
    these arrays, so they are passed as if they could be written to.
    """
    structure, buffers = packed
    views = [(ctypes.c_ubyte * len(b)).from_address(b.ctypes.data) if len(b) else bytearray() for b in buffers]
    load = pickle.loads(structure, buffers=views)
    assert isinstance(load, Load)
    return load


_held: tuple[bytes, Load] | None = None


def _run_packed(packed: tuple[bytes, list[np.ndarray[Any, np.dtype[np.uint8]]]], kind: str, number: int) -> Any:
    """A task: unpack the workload, unless this worker has it already, and do one part or one target."""
    global _held
    if _held is None or _held[0] != packed[0]:
        limit_cores(1)
        _held = packed[0], unpack(packed)
        _held[1].__dict__["_store"] = packed  # the arrays live as long as the workload
    return _held[1].do(kind, number)
