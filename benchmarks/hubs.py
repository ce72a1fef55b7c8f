"""How many paths are too many? Targets of a million to 10^13 altered paths, explained without listing them.

    python benchmarks/hubs.py [--tiny] [--docs docs] [--keep folder] [--groups]

A GCN with 16 hidden units and random weights on Amazon-Photo and Amazon-Computers, 200 directed edges added, and on the
power-law graph of the scans' benchmark with ten million edges; of each, the target whose number of altered paths is
nearest to what the row says. Every row is a process of its own. Seconds are those of the first explanation, which finds
the bounds that all targets share, and of a second one; memory is what the first took beside the opened graphs. Where a
list is possible, it is made as well and compared. The second table (alone with --groups) has ten units of any depth,
`depth="auto"`, beside ten paths, `exact` both: what each explains and how long it takes, of a graph that is open and
whose bounds are known. Run with AXIOMPATH_DATA set (not needed for --tiny).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

sys.path.insert(0, str(Path(__file__).parent.parent))

import axiompath
from axiompath.explain import walks
from research import datasets
from scan import power_law_pair
from tables import QUESTION, kept, make_parser, publish, to_markdown

NUM_ADDED, HIDDEN = 200, 16
LISTED = 3e6  # paths up to which a list is made to compare with
ROWS = (
    ("amazon_photo", 3, 1e6),
    ("amazon_photo", 4, 1e8),
    ("amazon_photo", 4, 6e8),
    ("amazon_computers", 4, 1e9),
    ("amazon_computers", 5, 1e10),
    ("amazon_computers", 6, 1e12),
    ("power law", 3, 1e8),
)
TINY_ROWS = (("random", 3, 1e4), ("random", 4, 1e6))
GROUP_ROWS = (
    ("amazon_photo", 4, 1e8),
    ("amazon_photo", 4, 6e8),
    ("amazon_computers", 4, 1e9),
    ("amazon_computers", 6, 1e12),
)
GROUPED = {"budget": 10, "method": "exact"}


def load(name: str) -> tuple[Data, Data, int]:
    """Both graphs, and the number of classes."""
    if name == "power law":
        return (*power_law_pair(10**7, 1000), 8)
    rng = np.random.default_rng(2)  # with these edges a target of Amazon-Photo has 600,876,713 altered paths
    if name == "random":
        x, edges, classes = torch.rand(200, 8), torch.from_numpy(rng.integers(0, 200, (2, 3000))), 4
    else:
        data = datasets.load(name)
        x, edges, classes = data.x, data.edge_index, int(data.y.max()) + 1
    new = torch.from_numpy(rng.integers(0, len(x), (2, NUM_ADDED)))
    return Data(x=x, edge_index=edges), Data(x=x, edge_index=torch.cat([edges, new], dim=1)), classes


def measure(name: str, layers: int, wanted: float) -> dict[str, Any]:
    """Open, explain twice, in this process."""
    warm_up(layers)
    explainer, (first, second, *_) = open_case(name, layers, wanted)
    forget_peak()
    held = status("VmRSS")
    start = time.perf_counter()
    found = explainer.explain(first, **QUESTION)
    seconds = time.perf_counter() - start
    peak = status("VmHWM") - held
    start = time.perf_counter()
    explainer.explain(second, **QUESTION)
    again = time.perf_counter() - start
    opened = re.search(r"([\d,]+) suffixes opened", found.status)
    row = {
        "paths": float(found.num_paths), "seconds": seconds, "again": again, "peak": peak, "kl": found.kl,
        "opened": int(opened[1].replace(",", "")) if opened else 0, "residual": found.kl_residual,
        "bound": found.kl_bound, "completeness": found.completeness, "status": found.status,
    }  # fmt: skip
    if found.num_paths <= LISTED:
        walks.PRICED_PATHS = 10**18
        listed = explainer.explain(first, **QUESTION)
        row |= {"listed_bound": listed.kl_bound, "listed_residual": listed.kl_residual}
    return row


def open_case(name: str, layers: int, wanted: float) -> tuple[axiompath.Explainer, list[int]]:
    """An Explainer, and its targets, the one whose number of altered paths is nearest to what is wanted first."""
    before, after, classes = load(name)
    torch.manual_seed(0)
    model = GCN(before.x.shape[1], HIDDEN, layers, classes).eval()
    explainer = axiompath.Explainer(model, before, after)
    counts = explainer.num_paths.astype(np.float64)
    rows = np.argsort(np.abs(np.log(np.maximum(counts, 1.0) / wanted)), kind="stable")
    return explainer, explainer.change.before.node_ids[rows].tolist()


def measure_groups(name: str, layers: int, wanted: float) -> dict[str, Any]:
    """Ten units of any depth and ten paths of the same target, after both of another one, in this process."""
    explainer, (first, second, *_) = open_case(name, layers, wanted)
    row: dict[str, Any] = {}
    for key, depth in (("path", None), ("unit", "auto")):
        explainer.explain(second, **GROUPED, depth=depth)
        start = time.perf_counter()
        found = explainer.explain(first, **GROUPED, depth=depth)
        row |= {f"{key}_seconds": time.perf_counter() - start, f"{key}_explained": found.explained}
        row |= {f"{key}_network": found.network_share}
    hops = [sum(node >= 0 for node in path) - 1 for path in found.paths.tolist()]
    return row | {"paths": float(found.num_paths), "held": float(sum(found.sizes)), "hops": sorted(hops)}


def warm_up(layers: int) -> None:
    """Load the compiled loops."""
    usual, walks.PRICED_PATHS, walks.DEARER = (walks.PRICED_PATHS, walks.DEARER), 1, float("inf")
    before, after, classes = load("random")
    torch.manual_seed(0)
    explainer = axiompath.Explainer(GCN(8, 4, layers, classes).eval(), before, after)
    explainer.explain(int(explainer.num_paths.argmax()), **QUESTION)
    walks.PRICED_PATHS, walks.DEARER = usual


def status(key: str) -> int:
    """Bytes of this process, as Linux tells them; 0 elsewhere."""
    file = Path("/proc/self/status")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0)


def forget_peak() -> None:
    """The largest memory from now on."""
    file = Path("/proc/self/clear_refs")
    if file.exists():
        file.write_text("5")


def ask(what: str, name: str, layers: int, wanted: float) -> dict[str, Any]:
    """A measurement in a process of its own."""
    command = [sys.executable, __file__, "--measure", json.dumps([what, name, layers, wanted])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"a measurement failed: {name}, {layers} layers\n{done.stderr}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def watched_groups(name: str, layers: int, wanted: float) -> dict[str, str]:
    """One row of the table of groups."""
    found = ask("groups", name, layers, wanted)
    hops = sorted(set(found["hops"]))
    row = {
        "graph": name,
        "layers": f"{layers}",
        "altered paths": f"{found['paths']:.3g}",
        "ten paths explain": f"{100 * found['path_explained']:.1f} %",
        "in": f"{found['path_seconds']:.2f} s",
        "ten units explain": f"{100 * found['unit_explained']:.1f} %",
        "the network itself": f"{100 * found['unit_network']:.1f} %",
        "paths in them": f"{found['held']:.3g}",
        "units of hops": ", ".join(f"{found['hops'].count(hop)} of {hop}" for hop in hops),
        "within": f"{found['unit_seconds']:.2f} s",
    }
    print(row, flush=True)
    return row


def watched(name: str, layers: int, wanted: float) -> dict[str, str]:
    """One row of the table of hubs."""
    found = ask("hubs", name, layers, wanted)
    whole = max(found["kl"], 1e-300)
    row = {
        "graph": name,
        "layers": f"{layers}",
        "altered paths": f"{found['paths']:.3g}",
        "first": f"{found['seconds']:.2f} s",
        "another": f"{found['again']:.2f} s",
        "suffixes opened": f"{found['opened']:,}",
        "memory": f"{found['peak'] / 1e6:.0f} MB",
        "KL": f"{found['kl']:.2g}",
        "gap / KL": f"{(found['residual'] - found['bound']) / whole:.1e}",
        "completeness": f"{found['completeness']:.0e}",
        "bound, off a list's": f"{abs(found['bound'] - found['listed_bound']) / whole:.0e}"
        if "listed_bound" in found
        else "",
    }
    print(row, flush=True)
    return row


def main() -> None:
    """Run everything and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--measure", help="one measurement, in this process")
    parser.add_argument("--groups", action="store_true", help="the table of groups alone")
    options = parser.parse_args()
    if options.measure:
        what, *row = json.loads(options.measure)
        print(json.dumps(measure(*row) if what == "hubs" else measure_groups(*row)))
        return
    if not options.groups:
        listed = TINY_ROWS if options.tiny else ROWS
        rows = [kept(options.keep, ["hubs", *row], partial(watched, *row)) for row in listed]
        publish(options.docs, "benchmarks.md", "hubs", to_markdown(rows))
    listed = TINY_ROWS[:1] if options.tiny else GROUP_ROWS
    rows = [kept(options.keep, ["groups", *row], partial(watched_groups, *row)) for row in listed]
    publish(options.docs, "benchmarks.md", "groups", to_markdown(rows))


if __name__ == "__main__":
    main()
