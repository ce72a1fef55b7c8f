"""What a run gave, and what it was: its table, and as JSON seeds, versions, machine, accuracies, wall-clock."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import pandas as pd
import torch
from llvmlite import binding

from axiompath.native.threads import num_cores
from axiompath.storage.origin import RELEASE
from axiompath.storage.writing import write_text

from .job_parts import write_table

PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "pandas", "pyarrow")


def describe_machine() -> dict[str, Any]:
    """Cores, what the processor can do and software, nothing that names the computer.

    `torch` is the width of vectors that torch's kernels are picked for, `numba` the processor that loops are compiled
    for: what rounds differently from machine to machine does so by these two.
    """
    return {
        "cores": num_cores(),
        "processor": platform.machine(),
        "system": platform.system(),
        "torch": torch.backends.cpu.get_cpu_capability(),
        "numba": numba.config.CPU_NAME or binding.get_host_cpu_name(),
    }


def write_results(out: Path, name: str, table: pd.DataFrame, facts: Mapping[str, Any]) -> None:
    """A run's table as parquet, and beside it its facts, with versions and machine."""
    write_table(table, out / f"{name}.parquet")
    whole = {
        **facts,
        "versions": {
            "python": platform.python_version(),
            "axiompath": RELEASE,
            **{name: version(name) for name in PACKAGES},
        },
        "machine": describe_machine(),
    }
    write_text(out / f"{name}.json", json.dumps(whole, indent=1))
