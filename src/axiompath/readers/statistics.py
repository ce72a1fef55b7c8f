"""A norm over the nodes of a graph -> a scale and a shift of every node, so that no node has a path to every other.

What a model subtracts from the nodes of a graph, and what it divides them by, is made of these very nodes. With h what
is normed, such a norm gives s h + t, s and t being numbers of the graph, which are taken as the model computed them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..arrays import FloatArray, IntArray
from ..graphs.data_fields import Features
from ..graphs.snapshot import Snapshot
from ..network.statistics import GraphScale, GraphShift, Moments
from .forms import Form, concatenate
from .reader import Reader, Step
from .refusals import UnreadableModel
from .rows import Axis
from .trace import FEATURE
from .values import Value

COMBINING = {"sub", "add", "mul", "div"}
SUMMING = {"sum", "mean", "scatter_add", "index_add", "scatter_reduce"}
DEVIATING = {"sqrt", "rsqrt", "pow"}
# By what a graph's numbers may be made of its nodes: nothing learnt but factors of columns.
MAKING = COMBINING | SUMMING | DEVIATING | {
    "rsub", "neg", "reciprocal", "clamp", "clamp_min", "index_select", "index", "gather", "view", "_unsafe_view",
    "reshape", "expand", "unsqueeze", "squeeze", "clone", "alias", "detach", "_to_copy",
}  # fmt: skip
ALIKE = 1e-9  # relative difference of a graph's numbers from node to node: rounding


@dataclass(frozen=True, eq=False)
class RecordedMoments(Moments):
    """mu and s as a model computed them on each of two graphs; they are known on no other."""

    axis: Axis
    rows: tuple[IntArray, IntArray]  # of the axis, before and after, that are normed
    found: tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]  # mu and s of these, [rows, width] each
    recorded: bool = True

    def members(self, snapshot: Snapshot) -> IntArray:
        """Where the rows are in this snapshot."""
        assert snapshot.recording is not None
        return np.asarray(self.axis.places[snapshot.recording][self.rows[snapshot.recording]])

    def find(self, snapshot: Snapshot, inputs: Features) -> tuple[FloatArray, FloatArray]:
        """mu and s of every node and column; 0 and 1 of nodes that are not normed."""
        assert snapshot.recording is not None
        members, (mu, s) = self.members(snapshot), self.found[snapshot.recording]
        every = np.zeros((snapshot.num_nodes, mu.shape[1])), np.ones((snapshot.num_nodes, mu.shape[1]))
        every[0][members], every[1][members] = mu, s
        return every


def normed(step: Step) -> Value | None:
    """What a norm over the nodes of a graph gives in its last operation; None where it is none."""
    reader = step.reader
    chain = _chain(step)
    if not chain:
        return None
    last, place = chain[-1]
    value = reader.read(last.inputs[place]).arranged()
    if value.axis.root is not reader.nodes or 0 in value.axis.sizes:
        return None
    rows = value.listed(0), value.listed(1)
    scales, shifts = (
        value.table((before, after)) for before, after in zip(*(_numbers(chain, i) for i in (0, 1)), strict=True)
    )
    found = []
    for side in (0, 1):
        scale, shift = scales[side][rows[side]], shifts[side][rows[side]]
        if not _is_of_graphs(reader, side, rows[side], [scale, shift]):
            return None
        found.append((-shift / scale, scale))
    held = reader.hold(value)
    moments = RecordedMoments(value.axis, rows, (found[0], found[1]))
    ones = Form((), np.ones(held.width), held.width, held.form.name)
    rules = [GraphScale(moments, held.width), GraphShift(moments, held.width)]
    form = reader.bases.combine(concatenate([held.form, ones]), rules, held.width)
    reader.note(step, "norm over the nodes of a graph: statistics")
    return Value(form, held.axis, held.places)


def _chain(step: Step) -> list[tuple[Step, int]]:
    """The operations of a norm, the last first, each with the input that leads to what is normed."""
    reader, found, complete = step.reader, list[tuple[Step, int]](), 0
    one: Step | None = step
    while one is not None and one.name in COMBINING:
        place = _inner(one)
        if place is None:
            break
        found.append((one, place))
        if len(one.features) == 2:
            complete = len(found)
        try:
            one = reader.step(one.inputs[place])
        except UnreadableModel:  # made otherwise on the two graphs
            break
    return found[:complete] if len(step.features) == 2 else []


def _inner(step: Step) -> int | None:
    """The input that each element of the result is made of, beside numbers of its graph, if there is such a one."""
    reader = step.reader
    for place in step.features:
        same = all(reader.shape(step.inputs[place], i) == shape for i, shape in enumerate(step.shapes))
        if not same or (step.name == "div" and place == 1):
            continue
        others = [i for i in step.features if i != place]
        if all(_is_statistic(step, place, other) for other in others):
            return place
    return None


def _is_statistic(step: Step, place: int, other: int) -> bool:
    """Whether one input is a mean of the other over nodes, or, in a product, one over a deviation."""
    trace, start = step.reader.traces[1], step.inputs[other][1]
    inner = {step.inputs[place][1]}
    below = trace.operations[step.inputs[place][1]]
    while below is not None and below.name in COMBINING:  # factors of columns stand between
        features = [one for one in below.numbers if trace.kinds[one] == FEATURE]
        if len(features) != 1:
            break
        inner.add(features[0])
        below = trace.operations[features[0]]
    names, waiting, seen = set[str](), [start], set[int]()
    while waiting:
        number = waiting.pop()
        if number in inner or number in seen:
            continue
        seen.add(number)
        operation = trace.operations[number]
        if operation is None or operation.name not in MAKING:
            return False
        names.add(operation.name)
        waiting += [one for one in operation.numbers if trace.kinds[one] == FEATURE]
    summed = bool(names & SUMMING)
    return summed and ((step.name == "sub" and place == 0) or (step.name in ("mul", "div") and bool(names & DEVIATING)))


def _numbers(chain: list[tuple[Step, int]], side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What each element is multiplied by, and what is added to it."""
    scale = torch.ones(chain[0][0].shapes[side], dtype=torch.float64)
    shift = torch.zeros_like(scale)
    for step, place in reversed(chain):
        nothing, one = (step.run(side, {place: step.like(place, side, number)}).double() for number in (0.0, 1.0))
        scale, shift = scale * (one - nothing), shift * (one - nothing) + nothing
    return scale, shift


def _is_of_graphs(reader: Reader, side: int, rows: IntArray, tables: list[FloatArray]) -> bool:
    """Whether all nodes of a graph have the same numbers, and no scale is 0."""
    graphs = reader.batch(side)[rows] if "batch" in reader.given[side] else np.zeros(len(rows), dtype=np.int64)
    _, first, own = np.unique(graphs, return_index=True, return_inverse=True)
    alike = all(np.allclose(table, table[first][own.reshape(-1)], rtol=ALIKE, atol=ALIKE) for table in tables)
    return alike and all(bool(np.isfinite(table).all()) for table in tables) and bool((tables[0] != 0).all())
