"""model + before + after -> Network with the coefficients that the model computed on each, checked against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..graphs.data_fields import EDGE, NODE, PLAIN_FIELDS, Fields, level_of, name_as_given
from ..graphs.snapshot import Snapshot, rows_of
from ..graphs.targets import rows_of_places, with_graphs, with_links
from ..network.coefficients import Rule
from ..network.layers import ForwardPass, Network, run_pair
from .arguments import Usage, compare_arguments, find_arguments
from .bases import Base
from .functions import FUNCTIONS
from .held import Held, hold_bases
from .layout import lay_out
from .output import FINAL, SEPARATE, UNCHANGED, as_logits, decide_output, strip_end
from .reader import Both, Line, Reader
from .recognised import recognise, stands_for
from .recording import is_feature, record_model
from .refusals import UnreadableModel
from .rows import EDGES, GRAPHS, LINKS, NODES, Recorded, place_edges, way_of
from .run import SIDES, TOLERANCES, copy_model, dtype_of_model, run_model, tolerance_of
from .scores import Unknown
from .trace import FEATURE, Trace
from .values import Value

NO_MESSAGES = "The model passes no messages, so no path of the graph reaches its output."
EXACT = TOLERANCES[torch.float64]
NO_RULE = (
    "its coefficients follow no rule that is known on other graphs, such as sums, means, norms of degrees or attention "
    "over neighbours. A graph on disk, or of more than 2,000,000 edges, needs one; load a smaller graph into memory."
)


@dataclass(frozen=True, eq=False)
class ReadModel:
    """A model in the normal form, and its passes over two aligned snapshots of what it takes."""

    network: Network
    fields: Fields
    graphs: tuple[Snapshot, Snapshot]
    sides: tuple[Snapshot, Snapshot]
    passes: tuple[ForwardPass, ForwardPass]
    lines: tuple[Line, ...]
    error: float  # largest difference to the model's own logits, over their largest magnitude
    last: str  # the softmax or sigmoid at the model's end
    used: frozenset[str]  # the fields of the data that the answer depends on


@dataclass(frozen=True, eq=False)
class HeldModel:
    """A model of windows as it was recorded on two of them: what it holds, without layers."""

    held: Held
    fields: Fields
    graphs: tuple[Snapshot, Snapshot]  # without messages as places
    meaning: str  # of the columns of its output


def read_pair(
    model: nn.Module,
    graphs: tuple[Data, Data],
    snapshots_of: Callable[[Fields], tuple[Snapshot, Snapshot]],
    usage: Usage,
    pairs: IntArray | None,
    names: tuple[str, str] = SIDES,
    *,
    samples: bool = False,
) -> ReadModel:
    """Record the model on both graphs, read what it computed, and refuse unless the Network computes the same.

    Of `samples`, which have nothing in common, only rules are of use on other graphs.
    """
    with _recorded(model, graphs, usage, names) as reader:
        read = _read_answer(reader, model, usage, names)
        used = frozenset[str]().union(*(trace.fields_of(trace.output) for trace in reader.traces))
        found, where = None, ""
        for fields in _fields_of(reader, graphs):
            check_fields(used, fields, graphs)
            plain = _with_places(read.value, snapshots_of(fields), pairs)
            _place_rows(reader, plain, graphs)
            try:
                found = read.run_rules(fields, plain)
                break
            except Unknown as unknown:
                where = str(unknown)
        if found is None and samples:
            raise UnreadableModel(f"{where or 'forward'}: {NO_RULE}")
        network, sides, passes, error = found or read.run_recorded(plain, weighted=fields.weights in used)
        for side in (0, 1):
            _check_plain(model, graphs[side], usage, reader.traces[side], names[side])
        return ReadModel(network, fields, plain, sides, passes, tuple(reader.lines), error, read.last, used)


def read_held(
    model: nn.Module,
    graphs: tuple[Data, Data],
    snapshots_of: Callable[[Fields], tuple[Snapshot, Snapshot]],
    usage: Usage,
    last_rows: tuple[IntArray, IntArray],
) -> HeldModel:
    """The same of windows packed in graphs, whose predictions are of `last_rows`, as what each base holds."""
    with _recorded(model, graphs, usage, SIDES) as reader:
        read = _read_answer(reader, model, usage, SIDES)
        used = frozenset[str]().union(*(trace.fields_of(trace.output) for trace in reader.traces))
        *_, fields = _fields_of(reader, graphs)
        check_fields(used, fields, graphs)
        plain = _with_places(read.value, snapshots_of(fields), None)
        _place_rows(reader, plain, graphs)
        held = read.hold(plain, last_rows)
        for side in (0, 1):
            _check_plain(model, graphs[side], usage, reader.traces[side], SIDES[side])
        return HeldModel(held, fields, plain, read.meaning)


@contextmanager
def _recorded(model: nn.Module, graphs: tuple[Data, Data], usage: Usage, names: tuple[str, str]) -> Iterator[Reader]:
    """A reader of what the model computed on both graphs; a refusal says what was read until then."""
    duplicates = copy_model(model), copy_model(model)
    given = [find_arguments(*one, usage.call) for one in zip(duplicates, graphs, names, strict=True)]
    compare_arguments(*given)
    _check_widths(graphs)
    traces = []
    for side in (0, 1):
        elsewhere = set(graphs[1 - side].keys()) - set(graphs[side].keys())
        traces.append(record_model(duplicates[side], given[side], graphs[side], usage, names[side], elsewhere))
        _check_shared(traces[side], graphs, side)
    reader = Reader((traces[0], traces[1]), FUNCTIONS)
    try:
        yield reader
    except UnreadableModel as refusal:
        refusal.lines = tuple(reader.lines)
        raise


def _read_answer(reader: Reader, model: nn.Module, usage: Usage, names: tuple[str, str]) -> _Answer:
    output, last = strip_end(reader, (reader.traces[0].output, reader.traces[1].output))
    if reader.kind(output) != FEATURE:
        raise UnreadableModel(
            "The model's output does not depend on the features of nodes; a model that makes its own, such as one with "
            "an embedding of every node, must be given them as `x`."
        )
    value = as_logits(reader, reader.read_output(output), output)
    meaning = decide_output(last, tuple(value.shapes[1]), usage.output, value.width)
    reader.bases.add(value.form, None)
    return _Answer(reader, value, output, last, meaning, dtype_of_model(model), names)


class _Found(NamedTuple):
    """A Network that computes what the model computes."""

    network: Network
    sides: tuple[Snapshot, Snapshot]
    passes: tuple[ForwardPass, ForwardPass]
    error: float


@dataclass(frozen=True, eq=False)
class _Answer:
    """The output of a model, read."""

    reader: Reader
    value: Value
    output: Both
    last: str  # the softmax or sigmoid at the model's end
    meaning: str  # of its columns
    dtype: torch.dtype  # of the model
    names: tuple[str, str]

    @property
    def end(self) -> str:
        """The softmax or sigmoid, if it is one that is left off."""
        return self.last if self.last in (*FINAL, *SEPARATE) else ""

    def hold(self, plain: tuple[Snapshot, Snapshot], last_rows: tuple[IntArray, IntArray]) -> Held:
        """What every base holds, as far as the predictions need it."""
        reader, bases = self.reader, self.reader.bases.all
        rules = {term.coefficients for base in bases if base.form is not None for term in base.form.terms}
        sides = _place(reader, any(rule.of_edges for rule in rules), list(reader.leaves), plain)
        ends = np.cumsum([0, *(bases[base].width for base in reader.leaves)]).tolist()
        leaves = {base: slice(*pair) for base, pair in zip(reader.leaves, pairwise(ends), strict=True)}
        rows = np.union1d(*(self.value.axis.places[side] for side in (0, 1)))
        if self.value.axis.root is reader.nodes:
            rows = np.union1d(*(reader.nodes.places[side][last_rows[side]] for side in (0, 1)))
        held = hold_bases(bases, leaves, sides, rows, self.end)
        if not any(
            len(own.senders) and not term.coefficients.local
            for one in held.bases
            if one is not None and one.base.form is not None
            for term, own in zip(one.base.form.terms, one.entries, strict=True)
        ):
            raise UnreadableModel(NO_MESSAGES)
        for side in (0, 1):
            for one in held.bases:
                if one is None or one.base.recorded is None:
                    continue
                rows = np.flatnonzero(np.isin(reader.nodes.places[side], one.rows))
                place = np.searchsorted(one.rows, reader.nodes.places[side][rows])
                z = (one.before, one.after)[side][place]
                _check_whole(reader, one.base.recorded, z, rows, side, self.names[side])
            logits = np.zeros((plain[side].num_nodes, held.output.base.width))
            logits[held.output.rows] = (held.output.before, held.output.after)[side]
            _check(reader, self.value, self.output, logits, side, self.names[side])
        return held

    def _network_of(self, bases: list[Base]) -> Network:
        width = sum(base.width for base in bases if base.form is None)
        answered = self.reader.traces[1].answered
        return Network(lay_out(bases), width, self.meaning, answered=answered, end=self.end)

    def _check(self, network: Network, passes: tuple[ForwardPass, ForwardPass]) -> float:
        for side in (0, 1):
            _check_wholes(self.reader, network, passes[side], side, self.names[side])
        logits = passes[0].logits, passes[1].logits
        found = [_check(self.reader, self.value, self.output, logits[side], side, self.names[side]) for side in (0, 1)]
        return max(found)

    def run_recorded(self, plain: tuple[Snapshot, Snapshot], *, weighted: bool) -> _Found:
        """The Network with the coefficients that the model computed."""
        leaves = sorted(self.reader.leaves, key=lambda base: self.reader.leaves[base][0].root.kind == EDGES)
        network = self._network_of(_with_ways(self.reader.bases.all, leaves, plain, weighted=weighted))
        if network.num_hops == 0 and network.rise is None:
            raise UnreadableModel(NO_MESSAGES)
        rules = {rule for layer in network.layers for rule in layer.rules}
        of_edges = any(isinstance(rule, Recorded) and rule.of_edges for rule in rules) or network.takes_edges
        sides = _place(self.reader, of_edges, leaves, plain)
        passes = run_pair(network, *sides)
        return _Found(network, sides, passes, self._check(network, passes))

    def run_rules(self, fields: Fields, plain: tuple[Snapshot, Snapshot]) -> _Found:
        """The same with rules in their place; Unknown where some coefficients are those of none."""
        reader = self.reader
        leaves = [reader.leaves[i] for i, base in enumerate(reader.bases.all) if base.form is None]
        as_given = [name for axis, _, name in leaves if axis.root is reader.nodes]
        if len(as_given) != len(leaves) or tuple(as_given) != fields.features:
            raise Unknown
        found = recognise(reader, plain)
        network = self._network_of(found.bases)
        if network.num_hops == 0 and network.rise is None:
            raise Unknown
        known = _rounded(plain[0], self.dtype), _rounded(plain[1], self.dtype)
        try:
            passes = run_pair(network, *known)
            error = self._check(network, passes)
        except InputError as other:
            raise Unknown from other
        if not stands_for(found, passes, known):
            raise Unknown
        return _Found(network, plain, passes if known == plain else run_pair(network, *plain), error)


def _rounded(snapshot: Snapshot, dtype: torch.dtype) -> Snapshot:
    """The snapshot with numbers as a model of shorter ones receives them."""
    if dtype == torch.float64:
        return snapshot

    def shorter(numbers: FloatArray) -> FloatArray:
        return np.asarray(torch.from_numpy(np.asarray(numbers)).to(dtype).to(torch.float64).numpy())

    x = snapshot.x
    x = shorter(x) if isinstance(x, np.ndarray) else type(x)((shorter(x.data), x.indices, x.indptr), shape=x.shape)
    weights = None if snapshot.edge_weight is None else shorter(snapshot.edge_weight)
    return replace(snapshot, x=x, edge_weight=weights)


def _with_ways(bases: list[Base], leaves: list[int], sides: tuple[Snapshot, Snapshot], *, weighted: bool) -> list[Base]:
    """The same, leaves first in their order, every recorded rule knowing which way it runs along the edges."""
    known: dict[Rule, Rule] = {}
    order = [*leaves, *(i for i, base in enumerate(bases) if base.form is not None)]
    place: dict[int | None, Any] = {None: None, **{old: new for new, old in enumerate(order)}}

    def told(rule: Any) -> Any:
        if not isinstance(rule, Recorded):
            inner = getattr(rule, "rule", None)
            return replace(rule, rule=told(inner)) if isinstance(inner, Rule) else rule
        plain = rule.local or rule.to_edges or rule.rises or rule.source.root.kind not in (NODES, EDGES)
        if rule not in known:
            known[rule] = rule if plain else replace(rule, flow=way_of(rule, sides), weighted=weighted)
        return known[rule]

    found = []
    for base in [bases[i] for i in order]:
        if base.form is not None:
            terms = tuple(
                replace(t, coefficients=told(t.coefficients), base=place[t.base], reads=place[t.reads])
                for t in base.form.terms
            )
            base = replace(base, form=replace(base.form, terms=terms))
        found.append(base)
    return found


def _fields_of(reader: Reader, graphs: tuple[Data, Data]) -> Iterator[Fields]:
    """The fields of the data that the answer depends on, as far as changes of them are listed.

    A column for each edge may be meant as weights, or as features: what it is shows by what the model does with it.
    """
    used = reader.traces[1].fields_of(reader.traces[1].output)
    numbers = [name for name in sorted(used - {"x", "edge_index", "batch"}) if _is_of_edges(graphs[1], name)]
    features = [name for name in sorted(used) if name != "x" and _is_feature_of(graphs, name)]
    if "schema" in graphs[1]:
        numbers = [name for name in numbers if graphs[1][name].is_floating_point()]
        weights = [name for name in numbers if name == "edge_weight" or _is_weight(reader.traces[1], graphs[1], name)]
        key = weights[0].split(" ")[-1] if weights else PLAIN_FIELDS.weights
        further = [name for name in numbers if name not in weights or name.split(" ")[-1] != key]
        yield Fields(("x", *features), key, tuple(further))
        return
    kinds = [name for name in numbers if graphs[1][name].dim() == 1 and not graphs[1][name].is_floating_point()]
    types = next((name for name in kinds if "type" in name or "rel" in name), None)
    numbers = [name for name in numbers if name != types]
    weights = [name for name in numbers if name == "edge_weight" or (graphs[1][name].dim() == 1 and name not in kinds)]
    columns = [name for name in numbers if name not in weights and graphs[1][name].shape[1:] == (1,)]
    if graphs[1].get("relation_names") is not None and "edge_type" in graphs[1]:
        types = "edge_type"
    plain = "edge_weight" if "edge_weight" in weights else weights[0] if weights else PLAIN_FIELDS.weights
    for chosen in [*([] if weights else columns), plain]:
        yield Fields(("x", *features), chosen, tuple(name for name in numbers if name != chosen), types)


def _is_weight(trace: Trace, data: Data, name: str) -> bool:
    """Whether a number of each edge is never multiplied by weights of the model, as features of edges are."""
    if data[name].numel() != len(data[name]):
        return False
    found = {number for number, field in trace.fields.items() if field == name}
    for number, operation in enumerate(trace.operations):
        if operation is not None and found.intersection(operation.numbers):
            if operation.name in ("mm", "addmm", "bmm", "linear", "cat"):
                return False
            if operation.name in UNCHANGED or operation.name in ("view", "squeeze", "unsqueeze", "select", "reshape"):
                found.add(number)
    return True


def _check_widths(graphs: tuple[Data, Data]) -> None:
    """Refuse graphs whose edges have features of different widths."""
    for name in sorted(set(graphs[0].keys()) & set(graphs[1].keys())):
        if all(_is_of_edges(data, name) and data[name].dim() == 2 for data in graphs):
            widths = [data[name].shape[1] for data in graphs]
            if widths[0] != widths[1]:
                raise InputError(
                    f"Expected both snapshots to have edge features of the same width (got {widths[0]} in `before` and "
                    f"{widths[1]} in `after`, as `{name_as_given(graphs[1], name)}`); pad or select the columns that "
                    "the model was trained on."
                )


def _is_of_edges(data: Data, name: str) -> bool:
    """Whether a field has one number, or several, for each edge; one number for each of as many nodes is no feature."""
    value = data.get(name)
    plain = isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_complex()
    if not plain or "index" in name or name == "batch":
        return False
    single = value.dim() == 1 and len(value) == data["edge_index"].shape[1]
    return single or (value.dim() == 2 and level_of(data, name) == EDGE)


def _check_shared(trace: Trace, graphs: tuple[Data, Data], side: int) -> None:
    """What the model reads on one graph, the other must have."""
    for name in sorted(trace.fields_of(trace.output)):
        if name in graphs[side] and name not in graphs[1 - side]:
            raise InputError(
                f"Expected `{name_as_given(graphs[side], name)}`, which the model reads, as a field of both graphs "
                f"(`{SIDES[1 - side]}` has none); add it there."
            )


def check_fields(used: frozenset[str], fields: Fields, graphs: tuple[Data, Data]) -> None:
    """Whatever differs between the graphs must be listed as a change."""
    listed = {
        "edge_index",
        "edge_label_index",
        "batch",
        "n_id",
        fields.weights,
        *fields.features,
        *fields.edge_features,
    }
    for name in sorted(used - listed):
        before, after = (data.get(name) for data in graphs)
        if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
            continue
        level = level_of(graphs[1], name)
        if level == EDGE and "index" not in name:
            continue
        if level == NODE and before.shape[0] != after.shape[0]:
            continue
        if before.shape != after.shape or not torch.equal(_dense(before), _dense(after)):
            raise UnreadableModel(
                f"The model reads `{name}`, which differs between the two graphs and is neither their edges, nor their "
                "features, nor weights or features of edges, so that what changed there cannot be listed; give it in "
                "one of these."
            )


def _dense(value: torch.Tensor) -> torch.Tensor:
    return value if value.layout == torch.strided else value.to_dense()


def _is_feature_of(graphs: tuple[Data, Data], name: str) -> bool:
    return all(isinstance(data.get(name), torch.Tensor) and is_feature(data, name) for data in graphs)


def _with_places(value: Value, sides: tuple[Snapshot, Snapshot], pairs: IntArray | None) -> tuple[Snapshot, Snapshot]:
    kind = value.axis.root.kind
    if kind == GRAPHS:
        return with_graphs(*sides)
    if kind == LINKS:
        if pairs is None:
            raise UnreadableModel(
                "The model reads pairs of nodes from `edge_label_index`, which both graphs must have; or give `links`."
            )
        return with_links(*sides, pairs)
    return sides


def _place_rows(reader: Reader, plain: tuple[Snapshot, Snapshot], graphs: tuple[Data, Data]) -> None:
    """Which rows of the aligned snapshots the nodes of the recordings are, and its graphs and pairs."""
    own = []
    for snapshot, data in zip(plain, graphs, strict=True):
        rows = rows_of(snapshot, data)
        own.append(np.arange(snapshot.num_nodes)[rows])
    reader.nodes.place(own[0], own[1])
    for kind in (GRAPHS, LINKS):
        if kind in reader.axes and plain[0].places is not None:
            reader.axes[kind].place(rows_of_places(plain[0]), rows_of_places(plain[1]))


def _place(
    reader: Reader, with_edges: bool, leaves: list[int], plain: tuple[Snapshot, Snapshot]
) -> tuple[Snapshot, Snapshot]:
    """The snapshots that a model runs on: every leaf columns of x, every list of messages rows of its own if it needs
    them."""
    if with_edges:
        plain = place_edges(list(reader.axes.values()), plain)
    of_edges = sum(reader.bases.all[base].width for base in leaves if reader.leaves[base][0].root.kind == EDGES)
    told = np.zeros((0, of_edges)) if of_edges else None
    sides = []
    for side, snapshot in enumerate(plain):
        x = np.hstack([_leaf(reader, base, side, snapshot.num_nodes) for base in leaves])
        sides.append(replace(snapshot, x=x, edge_attr=told, recording=side))
    return sides[0], sides[1]


def _leaf(reader: Reader, base: int, side: int, num_rows: int) -> FloatArray:
    axis, tables, _ = reader.leaves[base]
    found = np.zeros((num_rows, tables[side].shape[1]))
    if axis.root._places is not None and axis.root.kind not in (GRAPHS, LINKS):
        found[axis.places[side]] = tables[side]
    return found


def _check(reader: Reader, value: Value, output: Both, logits: FloatArray, side: int, name: str) -> float:
    """What was read must give what the model gave, in float64."""
    ours = logits[value.axis.places[side]].reshape(-1)[value.places[side].numpy()]
    theirs = reader.traces[side].values[output[side]].to(torch.float64).numpy()
    scale = float(np.abs(theirs).max(initial=0.0)) or 1.0
    error = float(np.abs(ours - theirs).max(initial=0.0)) / scale
    if not error <= EXACT:
        raise UnreadableModel(
            f"What was read from the model gives other logits than the model on `{name}`: they differ by "
            f"{error:.1e} relative (allowed {EXACT:.0e}), so no explanation would be true; please report the model."
        )
    return error


def _check_wholes(reader: Reader, network: Network, computed: ForwardPass, side: int, name: str) -> None:
    """What readers of the user's own say of modules must be what these gave."""
    rows = reader.nodes.places[side]
    for layer, z in zip(network.layers, computed.z, strict=True):
        for block in [one for one in layer.blocks if one.recorded is not None]:
            assert block.recorded is not None
            _check_whole(reader, block.recorded, z[rows][:, block.outputs], slice(None), side, name)


def _check_whole(reader: Reader, recorded: int, ours: FloatArray, rows: IntArray | slice, side: int, name: str) -> None:
    """What a module gave in these rows."""
    value = reader.wholes[recorded]
    theirs = reader.tensor(value, side).to(torch.float64).numpy()[rows]
    scale = float(np.abs(theirs).max(initial=0.0)) or 1.0
    error = float(np.abs(ours - theirs).max(initial=0.0)) / scale
    if not error <= EXACT:
        step = reader.step(value)
        assert step is not None
        raise UnreadableModel(
            f"{step.operations[1].place} is the first layer that was read wrongly: on `{name}` its output "
            f"differs from the model's own by {error:.1e} relative (allowed {EXACT:.0e}), so no explanation "
            "would be true; correct its registered reader."
        )


def _check_plain(model: nn.Module, data: Data, usage: Usage, trace: Trace, name: str) -> None:
    """A plain call of the model must give what the recorded one gave."""
    duplicate = copy_model(model)
    theirs = run_model(duplicate, data, usage.call)
    again = run_model(duplicate, data, usage.call)
    recorded = trace.values[trace.output].to(torch.float64)
    allowed = tolerance_of(theirs.dtype)
    scale = float(theirs.abs().max()) if theirs.numel() else 1.0
    errors = [float((one - recorded).abs().max()) / (scale or 1.0) if one.numel() else 0.0 for one in (theirs, again)]
    error = max(errors)
    if not error <= allowed:
        raise UnreadableModel(
            f"The model answers otherwise on `{name}` each time it is asked (by {error:.1e} relative), so no "
            "explanation would be true; a model that keeps a state or a cache from call to call does that."
        )
