"""How long until the first answer: a fresh environment, step by step.

    python benchmarks/cold_start.py [--here] [--tiny] [--docs docs]

Each step is a process of its own: an empty virtual environment, the installation (what pip has in its cache is not
fetched again), `import axiompath`, `axiompath --help`, the first explanation, which compiles into an empty folder, and
the same again. Beside the seconds by the clock stand those of the processor, which other programs do not lengthen as
much. With --here the first two steps are left out and the rest is done by this interpreter; --tiny leaves the compiled
loops of this interpreter in place besides.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tables import make_parser, publish, to_markdown

ROOT = Path(__file__).resolve().parents[1]
FIRST = """
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN
import axiompath
torch.manual_seed(0)
edges = torch.randint(0, 500, (2, 2000))
before = Data(x=torch.randn(500, 16), edge_index=edges)
after = Data(x=before.x, edge_index=torch.cat([edges, torch.tensor([[3], [5]])], dim=1))
print(axiompath.Explainer(GCN(16, 16, 2, 4).eval(), before, after).explain(5))
"""


def timed(name: str, command: list[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Run a step; its seconds by the clock and of the processor."""
    held = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"a step failed: {name}\n{done.stderr}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - held.ru_utime - held.ru_stime
    row = {"step": name, "seconds": f"{seconds:.2f}", "of the processor": f"{processor:.2f}"}
    print(row, flush=True)
    return row


def main() -> None:
    """Run all steps and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--here", action="store_true", help="this interpreter, without an installation")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        python, environment = sys.executable, dict(os.environ)
        if not (options.here or options.tiny):
            place = Path(folder) / "venv"
            rows.append(timed("an empty environment", [sys.executable, "-m", "venv", str(place)]))
            python = str(place / "bin" / "python")
            pip = [python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(ROOT)]
            rows.append(timed("`pip install`", pip))
        rows.append(timed("`import axiompath`", [python, "-c", "import axiompath"], environment))
        rows.append(timed("`axiompath --help`", [python, "-m", "axiompath.cli", "--help"], environment))
        rows.append(timed("first explanation, of a script", [python, "-c", FIRST], environment))
        rows.append(timed("the same again", [python, "-c", FIRST], environment))
    publish(options.docs, "benchmarks.md", "cold start", to_markdown(rows))


if __name__ == "__main__":
    main()
