"""How fast is a path? Attribution of all changed nodes, beside two yardsticks in the same run.

(a) the literal twin of tests/support/references.py, which follows the definition one path at a time;
(b) one dense float64 matrix product with as many multiply-adds as the paths need.

Beside them the bytes that a path moves at the least, and what share of the machine's bandwidth, measured by copying,
that comes to.

Also shows that peak memory follows the batch and not the number of targets. Run with AXIOMPATH_DATA set (not needed for
--tiny):

    python benchmarks/attribution.py [--tiny] [--docs docs] [--keep folder]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import axiompath
from axiompath.explain.walks import plan_listing
from axiompath.native.threads import run_in_pieces
from axiompath.paths.attribution import attribute_paths
from axiompath.paths.walk import walk_paths
from research import datasets
from support.references import LiteralAttribution
from tables import best_time, kept, make_parser, publish, to_markdown


def load(name: str) -> Data:
    """A data set, or `random`: a graph of 300 nodes."""
    if name != "random":
        return datasets.load(name)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(300, 8, generator=generator), torch.randint(4, (300,), generator=generator)
    pairs = torch.randint(300, (2, 600), generator=generator)
    return Data(x=x, y=y, edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))


def network(widths: list[int], normalize: bool) -> GCN:
    """The paper's network (element-wise sum, ReLU, no bias), or the same with GCN's normalisation; random weights."""
    torch.manual_seed(0)
    return GCN(widths[0], widths[1], len(widths) - 1, widths[-1], bias=False, normalize=normalize).double()


def multiply_adds(explainer: axiompath.Explainer, batches: list[np.ndarray]) -> float:
    """What the paths need at least: [num_classes, width] times a vector a leaf, times a matrix a partial path."""
    network, total = explainer.change.network, 0.0
    lowest = explainer.change.lowest_hop
    for batch in batches:
        found = walk_paths(explainer.change, batch)
        total += len(found.paths) * network.num_classes * network.layers[lowest].width
        for t, level in found.levels.items():
            if t > lowest:
                total += len(level.node) * network.num_classes * network.layers[t].width * network.layers[t - 1].width
    return total


def dense_product_seconds(num_multiply_adds: float) -> float:
    """Time of dense square matrix products (float64) that make up this many multiply-adds."""
    size = 1024
    a, b = np.random.default_rng(0).normal(size=(2, size, size))
    each = best_time(lambda: a @ b) / size**3
    return each * num_multiply_adds


def bytes_a_path(explainer: axiompath.Explainer) -> float:
    """What is read and written at the least: the leaf's message and entry; nodes, states, kind, and contributions,
    which are written once and read once more to be summed up by cause."""
    network = explainer.change.network
    entry = 4 + 2 * 8 * len(network.layers[explainer.change.lowest_hop].rules)
    message = 8 * explainer.change.messages[1].shape[1]
    return entry + message + 8 * network.num_positions + 8 + 1 + 1 + 2 * 8 * network.num_classes


def bandwidth() -> float:
    """Bytes a second that all cores together read and write when they copy what no cache holds."""
    source = np.ones(1 << 25)
    target = np.empty_like(source)

    def copy(start: int, stop: int) -> None:
        target[start:stop] = source[start:stop]

    return 2 * source.nbytes / best_time(lambda: run_in_pieces(copy, len(source), float(len(source))))


def literal_seconds_per_path(explainer: axiompath.Explainer, seconds: float) -> float:
    """The twin on targets of few paths; forward passes and the search for nodes that differ are not timed."""
    change = explainer.change
    twin = LiteralAttribution(change.network, change.before, change.after)
    twin.known = {(v, t): bool(d) for t, differs in enumerate(change.differs) for v, d in enumerate(differs)}
    frame = explainer.moved().sort_values("num_paths", kind="stable")
    small = frame[(frame.num_paths >= 10) & (frame.num_paths <= 3000)].target
    num_paths = spent = 0.0
    for target in small.sample(frac=1.0, random_state=0):
        start = time.perf_counter()
        num_paths += len(twin(int(target)))
        spent += time.perf_counter() - start
        if spent > seconds:
            break
    return spent / num_paths


def compare(name: str, hidden: int, depth: int, normalize: bool, seconds: float, most: float) -> dict[str, str]:
    """One row of the table; `most` is the machine's bandwidth."""
    before = load(name)
    after = datasets.evolve(before, added=200, seed=0)
    widths = [before.x.shape[1], *[hidden] * (depth - 1), int(before.y.max()) + 1]
    explainer = axiompath.Explainer(network(widths, normalize), before, after)
    targets = explainer.moved().target.to_numpy()
    rows = explainer.session.locate(targets)[1]
    walks = plan_listing(rows, explainer.num_bytes[rows], explainer.memory)
    batches = [walks.rows[places] for places in walks.batches()]
    num_paths = 0

    def attribute_all() -> None:
        nonlocal num_paths
        num_paths = 0
        for batch in batches:
            found = walk_paths(explainer.change, batch)
            num_paths += len(attribute_paths(explainer.change, found).contributions)

    ours = best_time(attribute_all)
    through_explainer = best_time(lambda: sum(1 for _ in explainer.attribute_many(targets)))
    product = dense_product_seconds(multiply_adds(explainer, batches))
    literal = literal_seconds_per_path(explainer, seconds)
    return {
        "graph": name,
        "layers": f"{depth}",
        "hidden": f"{hidden}",
        "coefficients": "normalised" if normalize else "sum",
        "targets": f"{len(targets):,}",
        "paths": f"{num_paths:,}",
        "ns per path": f"{1e9 * ours / num_paths:,.0f}",
        "the same, one object a target": f"{1e9 * through_explainer / num_paths:,.0f}",
        "twin / ours": f"{literal / (ours / num_paths):,.0f}",
        "ours / product": f"{ours / product:,.1f}",
        "bytes per path": f"{bytes_a_path(explainer):,.0f}",
        "of the bandwidth": f"{100 * bytes_a_path(explainer) * num_paths / ours / most:.0f} %",
    }


def measure_memory(name: str) -> Iterator[dict[str, str]]:
    """Peak of traced memory while 1 %, 10 % and 100 % of the targets are attributed, for two batch sizes."""
    before = load(name)
    after = datasets.evolve(before, added=200, seed=0)
    widths = [before.x.shape[1], 16, 16, int(before.y.max()) + 1]
    for memory in ("16MB", "64MB"):
        explainer = axiompath.Explainer(network(widths, False), before, after, memory=memory)
        nodes = explainer.moved().target.to_numpy()
        fits = nodes[explainer.num_bytes[nodes] <= explainer.memory]
        for share in (0.01, 0.1, 1.0):
            chosen = fits[: int(len(fits) * share)]
            list(explainer.attribute_many(chosen[:5]))
            tracemalloc.start()
            num_paths = sum(len(found.paths) for found in explainer.attribute_many(chosen))
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            yield {
                "memory budget": memory, "targets": f"{len(chosen):,}", "paths": f"{num_paths:,}",
                "peak above start": f"{peak:.0f} MB",
            }  # fmt: skip


def main() -> None:
    """Measure every case, then the memory."""
    options = make_parser(__doc__).parse_args()
    # Three normalised layers alter 359 million paths of Amazon-Photo: minutes, and nothing new.
    cases = [
        (n, h, d, z)
        for n in ("cora", "amazon_photo") for d in (2, 3) for h in (16, 64) for z in (False, True)
        if not (n == "amazon_photo" and d == 3 and z)
    ]  # fmt: skip
    if options.tiny:
        cases = [("random", 16, 2, True)]
    rows, most = [], bandwidth()
    print(f"bandwidth: {most / 1e9:.1f} GB/s", flush=True)
    for case in cases:
        seconds = 0.1 if options.tiny else 2.0
        rows.append(kept(options.keep, case, partial(compare, *case, seconds=seconds, most=most)))
        print(rows[-1], flush=True)
    publish(options.docs, "benchmarks.md", "attribution", to_markdown(rows))
    memory = to_markdown(measure_memory("random" if options.tiny else "amazon_photo"))
    publish(options.docs, "benchmarks.md", "attribution memory", memory)


if __name__ == "__main__":
    main()
