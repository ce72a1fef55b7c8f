"""Workload + parts -> each part's file written, by processes on this machine; and what became of every part.

Workers are forked: they read the graph in this process's own memory, which is never copied, and each has a pipe of its
own, so that it is known which part a worker was at when it died. Parts are handed out largest first, and no more at a
time than the memory budget holds.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, get_all_start_methods, get_context
from multiprocessing.process import BaseProcess
from typing import Any

from ..errors import InputError
from ..threads import limit_cores, num_cores
from .parts import write_part
from .work import Workload, run_part, run_task

MAX_DEATHS = 3  # of workers at one part, before its targets are tried one by one


@dataclass(eq=False)
class Worker:
    """A process and our end of its pipe."""

    process: BaseProcess
    pipe: connection.Connection
    task: tuple[str, int] | None = None


@dataclass
class Queue:
    """Parts that are still to be done, the most expensive last; and how often a worker died at each."""

    parts: list[int]
    deaths: dict[int, int] = field(default_factory=dict)

    def take(self, load: Workload, room: float) -> int | None:
        """The most expensive part that fits into the room."""
        for i in range(len(self.parts) - 1, -1, -1):
            if load.need_of(self.parts[i]) <= room:
                return self.parts.pop(i)
        return None


def order_parts(parts: Iterable[int], costs: Callable[[int], float]) -> list[int]:
    """Cheapest first, so that the end of the list is what to start with."""
    return sorted(parts, key=lambda part: (costs(part), -part))


def run_local(load: Workload, parts: list[int], memory: float, workers: int | None) -> Generator[int, None, None]:
    """Yield each part when its file is there; `parts` as `order_parts` gives them."""
    if "fork" not in get_all_start_methods():
        for part in reversed(parts):
            run_part(load, part)
            yield part
        return
    pool = _Pool(load, min(workers or num_cores(), max(len(parts), 1)))
    try:
        yield from pool.run(Queue(list(parts)), memory)
    finally:
        pool.close()


class _Pool:
    """Forked workers; a worker that dies is replaced, and its part done again."""

    def __init__(self, load: Workload, size: int) -> None:
        self.load, self.size = load, size
        self.workers: list[Worker] = []

    def run(self, queue: Queue, memory: float) -> Iterator[int]:
        left = len(queue.parts)
        lonely: list[int] = []  # parts at which workers keep dying
        while left:
            self._hand_out(queue, memory)
            for worker, answer in self._wait():
                assert worker.task is not None
                part = worker.task[1]
                worker.task = None
                if answer is None:
                    queue.deaths[part] = queue.deaths.get(part, 0) + 1
                    (lonely if queue.deaths[part] >= MAX_DEATHS else queue.parts).append(part)
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    left -= 1
                    yield part
            if lonely and not any(worker.task for worker in self.workers):
                part = lonely.pop()
                self._run_one_by_one(part)
                left -= 1
                yield part

    def close(self) -> None:
        """Stop everybody at once."""
        for worker in self.workers:
            worker.pipe.close()
            worker.process.kill()
            worker.process.join()
        self.workers = []

    def _hand_out(self, queue: Queue, memory: float) -> None:
        while queue.parts:
            busy = [worker.task[1] for worker in self.workers if worker.task]
            if len(busy) == self.size:
                return
            part = queue.take(self.load, memory - sum(self.load.need_of(p) for p in busy))
            if part is None:
                return
            self._give(("part", part))

    def _give(self, task: tuple[str, int]) -> None:
        worker = next((worker for worker in self.workers if worker.task is None), None) or self._start()
        worker.task = task
        with suppress(BrokenPipeError):  # died while it was idle: the next wait says so
            worker.pipe.send(task)

    def _start(self) -> Worker:
        ours, theirs = connection.Pipe()
        inherited = [ours, *(worker.pipe for worker in self.workers)]
        process = get_context("fork").Process(target=_work, args=(self.load, theirs, inherited), daemon=True)
        process.start()
        theirs.close()
        worker = Worker(process, ours)
        self.workers.append(worker)
        return worker

    def _wait(self) -> Iterator[tuple[Worker, Any]]:
        """Workers that have answered, each with its answer; None from one that died."""
        busy = {worker.pipe: worker for worker in self.workers if worker.task}
        for pipe in connection.wait(list(busy)) if busy else ():
            assert isinstance(pipe, connection.Connection)
            worker = busy[pipe]
            try:
                answer = pipe.recv()
            except (EOFError, ConnectionResetError):
                answer = None
                self.workers.remove(worker)
                pipe.close()
                worker.process.join()
            yield worker, answer

    def _run_one_by_one(self, part: int) -> None:
        """Each target in a worker of its own choosing: one at which it dies is recorded, the others are explained."""
        found = []
        for place in self.load.places_of(part).tolist():
            self._give(("target", place))
            ((worker, answer),) = self._wait()
            worker.task = None
            if isinstance(answer, BaseException):
                raise answer
            if answer is None:
                answer = self.load.lost(place)
            found.append(answer)
        write_part(self.load.file_of(part), found, self.load.notes_of(part))


def _work(load: Workload, pipe: connection.Connection, inherited: list[Any]) -> None:
    """A worker's life: tasks in, answers out, until the pipe is closed or whoever holds its other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    for other in inherited:
        other.close()
    limit_cores(1)
    with suppress(EOFError, BrokenPipeError):
        while True:
            kind, number = pipe.recv()
            try:
                answer: Any = run_task(load, kind, number)
            except Exception as error:
                answer = _portable(error)
            pipe.send(answer)
    os._exit(0)


def _portable(error: Exception) -> Exception:
    """The error as something that can be sent through a pipe."""
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    if isinstance(error, InputError):
        return InputError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
