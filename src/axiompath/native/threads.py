"""Kernel + range -> the kernel run on pieces of the range, one per core.

Kernels are compiled with `nogil` and write to disjoint rows, so plain threads run them side by side and the result
does not depend on how the range was cut.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

# Below this many elementary operations (about a millisecond) a second thread costs more than it brings.
MIN_WORK = 3e6
PIECES_PER_CORE = 4


_limit: int | None = None


def limit_cores(number: int) -> None:
    """Use no more than this many cores in this process from now on."""
    global _limit
    _limit = number


def num_cores() -> int:
    """Cores that this process may use."""
    if _limit is not None:
        return _limit
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_cores(), thread_name_prefix="axiompath")


def run_in_pieces(kernel: Callable[..., None], num_rows: int, work: float, *args: Any) -> None:
    """Call kernel(start, stop, *args) so that the pieces cover range(num_rows), which takes about `work` operations."""
    cores = num_cores()
    if cores == 1 or work < MIN_WORK:
        kernel(0, num_rows, *args)
        return
    pieces = min(cores * PIECES_PER_CORE, num_rows)
    bounds = [num_rows * i // pieces for i in range(pieces + 1)]
    pool = _pool(os.getpid())  # a forked child must not wait for its parent's threads
    for done in [pool.submit(kernel, *ends, *args) for ends in itertools.pairwise(bounds)]:
        done.result()
