"""Workload + parts -> each part's file written, by processes on this machine; and what became of every part.

Workers (see workers.py) read the graph in memory that they share, and each has a pipe of its own, so that it is known
which part a worker was at when it died. Parts are handed out largest first, and no more at a time than the memory
budget holds.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from ..errors import Notice
from ..threads import num_cores
from .work import PROCESS_BYTES, Load
from .workers import BEAT, MAX_KILLED, HandoverError, Killed, end_branch, end_stems, num_handed, start_branch

MAX_DEATHS = 3  # of workers at one part, before its targets are tried one by one
PART_BYTES = 5e8  # that are handed over in the time of a part: fewer parts are done here before anybody else has begun
SILENCE = 120.0  # seconds without any processor time, after which a worker at work is replaced


@dataclass(eq=False)
class Worker:
    """A process and our end of its pipe."""

    number: int
    pipe: connection.Connection
    task: tuple[str, int] | None = None
    silent: float = 0.0  # seconds since it showed life


@dataclass
class Queue:
    """Parts that are still to be done, the most expensive last; and how often a worker died at each."""

    parts: list[int]
    deaths: dict[int, int] = field(default_factory=dict)

    def take(self, load: Load, room: float) -> int | None:
        """The most expensive part that fits into the room."""
        for i in range(len(self.parts) - 1, -1, -1):
            if load.need_of(self.parts[i]) <= room:
                return self.parts.pop(i)
        return None


def order_parts(parts: Iterable[int], costs: Callable[[int], float]) -> list[int]:
    """Cheapest first, so that the end of the list is what to start with."""
    return sorted(parts, key=lambda part: (costs(part), -part))


def run_local(load: Load, parts: list[int], memory: float, workers: int | None) -> Generator[int, None, None]:
    """Yield each part when its file is there; `parts` as `order_parts` gives them."""
    if not parts:
        return
    if not hasattr(os, "fork") or not sys.executable:
        yield from _run_here(load, parts)
        return
    try:
        if num_handed(load) > len(parts) * PART_BYTES:
            yield from _run_here(load, parts)
            return
        pool = _Pool(load, min(workers or num_cores(), len(parts)))
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
        yield from pool.run(Queue(list(parts)), memory)
    except BaseException:
        pool.close()
        end_stems()  # this process may be about to end, and nobody is to outlive it
        raise
    pool.close()


def _run_here(load: Load, parts: list[int]) -> Iterator[int]:
    for part in reversed(parts):
        load.do("part", part)
        yield part


class _Pool:
    """Workers; one that dies, or shows no life, is replaced, and its part done again."""

    def __init__(self, load: Load, size: int) -> None:
        self.load, self.size = load, size
        self.workers: list[Worker] = []
        self.branch = start_branch(load)
        self.looked = time.monotonic()

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
                else:
                    left -= 1
                    yield part
            if lonely and not any(worker.task for worker in self.workers):
                part = lonely.pop()
                self.load.rescue(part, self._alone)
                left -= 1
                yield part

    def close(self) -> None:
        """Stop everybody at once; they are gone when this returns."""
        with suppress(OSError):
            end_branch(*self.branch)
        for worker in self.workers:
            worker.pipe.close()
        self.workers = []

    def _hand_out(self, queue: Queue, memory: float) -> None:
        while queue.parts:
            busy = [worker.task[1] for worker in self.workers if worker.task]
            if len(busy) == self.size:
                return
            room = memory - sum(self.load.need_of(p) for p in busy)
            part = queue.take(self.load, room)
            if part is None:
                return
            self._send_home(room - self.load.need_of(part))
            self._give(("part", part))

    def _send_home(self, room: float) -> None:
        """End idle workers that have no room beside those at work; one of them is about to be given a part."""
        idle = [worker for worker in self.workers if worker.task is None]
        for worker in idle[1 + int(room // PROCESS_BYTES) :]:
            self._end(worker)

    def _give(self, task: tuple[str, int]) -> None:
        worker = next((worker for worker in self.workers if worker.task is None), None) or self._start()
        worker.task, worker.silent = task, 0.0
        with suppress(ConnectionError):  # died while it was idle: the next wait says so
            worker.pipe.send(task)

    def _start(self) -> Worker:
        ours, theirs = connection.Pipe()
        for _ in range(MAX_KILLED):
            try:
                worker = Worker(self.branch[0].fork(theirs.fileno()), ours)
            except OSError:  # somebody killed the branch, and its workers with it
                self.branch = start_branch(self.load)
                continue
            theirs.close()
            self.workers.append(worker)
            return worker
        raise Killed

    def _wait(self) -> Iterator[tuple[Worker, Any]]:
        """Workers that have answered, each with its answer; None from one that died."""
        busy = {worker.pipe: worker for worker in self.workers if worker.task}
        ready = connection.wait(list(busy), timeout=BEAT) if busy else ()
        now = time.monotonic()
        # No more than a beat or two at a time: while this process was stopped itself, nobody was silent.
        passed, self.looked = min(now - self.looked, 2 * BEAT), now
        for pipe, worker in busy.items():
            if pipe in ready:
                worker.silent = 0.0
                yield from self._hear(worker)
            else:
                worker.silent += passed
                if worker.silent > SILENCE:
                    self._end(worker)
                    yield worker, None

    def _hear(self, worker: Worker) -> Iterator[tuple[Worker, Any]]:
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, OSError):  # also in the middle of an answer
            self._end(worker)
            yield worker, None
            return
        if kind == "error":
            raise value
        if kind == "done":
            yield worker, value

    def _end(self, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.pipe.close()
        with suppress(OSError):
            self.branch[0].end(worker.number)

    def _alone(self, place: int) -> Any:
        """One target, by a worker of its own choosing; None where it dies."""
        self._give(("target", place))
        answers: list[tuple[Worker, Any]] = []
        while not answers:
            answers = list(self._wait())
        ((worker, answer),) = answers
        worker.task = None
        return answer
