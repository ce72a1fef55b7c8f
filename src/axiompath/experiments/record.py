"""What a run was: seeds, versions, machine, accuracies, wall-clock; written beside its table as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..origin import RELEASE
from ..threads import num_cores
from ..writing import write_text

PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "pandas", "pyarrow")


def describe_machine() -> dict[str, Any]:
    """Cores and software, nothing that names the computer."""
    return {"cores": num_cores(), "processor": platform.machine(), "system": platform.system()}


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
