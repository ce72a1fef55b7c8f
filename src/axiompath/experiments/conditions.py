"""What a run was: seeds, versions, machine, accuracies, wall-clock; written beside its table as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import torch
from llvmlite import binding

from ..origin import RELEASE
from ..threads import num_cores
from ..writing import write_text

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


def write_record(path: Path, facts: Mapping[str, Any]) -> None:
    """The facts of a run, with versions and machine; the file appears when it is whole."""
    whole = {
        **facts,
        "versions": {
            "python": platform.python_version(),
            "axiompath": RELEASE,
            **{name: version(name) for name in PACKAGES},
        },
        "machine": describe_machine(),
    }
    write_text(path, json.dumps(whole, indent=1))
