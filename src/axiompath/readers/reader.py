"""Two traces of one model -> Values, read backwards from the output: only what is asked for is ever read.

A coefficient needs nothing but its numbers on each graph, so however it was computed, it needs no rule. Both traces
must agree on what is read as values; what is computed beside them may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..network.activations import Activation
from ..network.readouts import End
from .bases import Base, Bases
from .forms import Form, base_form
from .refusals import UnreadableModel
from .rows import EDGES, GRAPHS, LINKS, NODES, Axis, Recorded, choose, send
from .trace import FEATURE, PARAMETER, Number, Operation, Trace, refuse, rows_numbered, run_again
from .values import InRows, Pair, Value, in_rows, on_each, rule_of, same_in_all, scaled

Both = tuple[Number, Number]  # one value, by its number in each trace


INSIDE = "graphs inside"
LEARNT = "a row learnt for each node"
MOST_CHOICES = 64  # of columns that rows may choose from


class GraphsAreInside(Exception):
    """What a graph holds goes on to other rows: it needs places of its own, as messages have them."""


class Line(NamedTuple):
    """How one line of the forward pass was read."""

    place: str
    operation: str
    how: str


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of both traces."""

    reader: Reader
    value: Both
    operations: tuple[Operation, Operation]
    inputs: tuple[Both, ...]
    features: tuple[int, ...]  # which inputs depend on features

    @property
    def name(self) -> str:
        """Of the operation."""
        return self.operations[1].name

    @property
    def shapes(self) -> tuple[torch.Size, torch.Size]:
        """Of what it gives."""
        return self.reader.shape(self.value, 0), self.reader.shape(self.value, 1)

    def argument(self, place: int, name: str, default: Any = None, side: int = 1) -> Any:
        """A plain argument by its place or name."""
        operation = self.operations[side]
        return operation.args[place] if len(operation.args) > place else operation.kwargs.get(name, default)

    def run(self, side: int, instead: dict[int, torch.Tensor]) -> torch.Tensor:
        """The operation on one graph, with other tensors for some of its inputs."""
        found = run_again(self.reader.traces[side], self.operations[side], instead)
        return found.to_dense() if found.layout != torch.strided else found

    def form(self, place: int) -> Value:
        """One of its inputs, read."""
        return self.reader.read(self.inputs[place])

    def like(self, place: int, side: int, number: float, width: int | None = None) -> torch.Tensor:
        """A tensor of one number, of the shape of an input, or of another width."""
        shape = self.reader.shape(self.inputs[place], side)
        return torch.full(shape if width is None else (*shape[:-1], width), number, dtype=torch.float64)

    def move(self, side: int, tensors: dict[int, torch.Tensor]) -> torch.Tensor:
        """The operation on whole numbers that stand for its inputs: it must only move them."""
        return self.run(side, tensors)

    def refuse(self, reason: str) -> UnreadableModel:
        """A refusal at its line."""
        return refuse(self.operations[1].place, reason)


class Reader:
    """Reads values on demand; one that some use needs as a layer of its own is one for all of its uses."""

    def __init__(self, traces: tuple[Trace, Trace], functions: dict[str, Callable[[Step], Value]]) -> None:
        self.traces, self.functions = traces, functions
        self.forced: set[Both] = set()
        self.graphs_inside = False  # whether graphs are rows that further rows are computed from
        self.begin()

    def begin(self) -> None:
        """Forget what was read."""
        self.read_already: dict[Both, Value] = {}
        self.held: set[Both] = set(self.forced)
        self.pair_of: dict[int, tuple[Form, Both]] = {}
        self.bases = Bases()
        self.leaves: dict[int, tuple[Axis, tuple[FloatArray, FloatArray], str]] = {}
        self.lines: list[Line] = []
        self.wholes: list[Both] = []  # what modules gave that readers of the user's own describe
        self.coefficients: list[Both] = []  # values of features that others were multiplied by
        self.axes: dict[Any, Axis] = {}
        self.fields: dict[str, Form] = {}  # leaves that several steps fill
        self.given = [{name: Number(number) for number, name in trace.fields.items()} for trace in self.traces]
        self.nodes = self.axes[NODES] = Axis(NODES, (self.traces[0].num_nodes, self.traces[1].num_nodes))

    def read_output(self, output: Both) -> Value:
        """The output, read until no value is held that was not from the beginning."""
        while True:
            try:
                found = self.read(output)
            except GraphsAreInside:
                self.graphs_inside = True
                self.begin()
                continue
            if self.held == self.forced:
                return self._from_inside(found)
            self.forced = self.held
            self.begin()

    def _from_inside(self, value: Value) -> Value:
        """The output, whose rows are graphs that are predicted, too."""
        if value.axis.root is not self.axes.get(INSIDE):
            return value
        axis = self.axes.setdefault(GRAPHS, Axis(GRAPHS, value.axis.sizes))
        first, second = (np.arange(size) for size in axis.sizes)
        return replace(value, form=self.gathered(value, (first, second), axis), axis=axis, origin=None)

    # What is known of a value

    def tensor(self, value: Both, side: int) -> torch.Tensor:
        """Its numbers on one graph."""
        found = self.traces[side].values[value[side]]
        return found if found.layout == torch.strided else found.to_dense()

    def shape(self, value: Both, side: int = 1) -> torch.Size:
        """Its shape on one graph."""
        return self.traces[side].shape(value[side])

    def kind(self, value: Both) -> int:
        """What it depends on."""
        return max(self.traces[side].kinds[value[side]] for side in (0, 1))

    def step(self, value: Both) -> Step | None:
        """What made it, on both graphs alike; None for what was given."""
        if all(number in trace.learnt for trace, number in zip(self.traces, value, strict=True)):
            return None
        first, second = (trace.operations[number] for trace, number in zip(self.traces, value, strict=True))
        if first is None and second is None:
            return None
        if first is None or second is None or first.name != second.name or first.output != second.output:
            place = (second or first).place  # type: ignore[union-attr]
            names = [one.name if one is not None else "an input" for one in (first, second)]
            raise refuse(
                place,
                f"the model goes different ways on the two graphs (aten.{names[0]} on `before`, aten.{names[1]} on "
                "`after`); its way must not depend on the graph.",
            )
        inputs = tuple(zip(first.numbers, second.numbers, strict=False))
        if len(first.numbers) != len(second.numbers):
            raise refuse(second.place, "the model combines another number of values on each of the two graphs.")
        features = tuple(i for i, one in enumerate(inputs) if self.kind(one) == FEATURE)
        return Step(self, value, (first, second), inputs, features)

    # Reading

    def read(self, value: Both) -> Value:
        """What a value that depends on features holds."""
        if value not in self.read_already:
            step = self.step(value)
            if step is None:
                found = self._given(value)
            elif step.name not in self.functions:
                raise step.refuse(
                    f"aten.{step.name} of features has no exact reading here; write it with sums, products, linear "
                    "maps, element-wise functions, gathers and scatters."
                )
            else:
                try:
                    found = self.functions[step.name](step)
                except UnreadableModel:
                    raise
                except InputError as error:
                    raise step.refuse(f"aten.{step.name} {error.args[0]}") from error
                except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
                    raise step.refuse(
                        f"aten.{step.name} is used here in a way that has no reading ({type(error).__name__}: "
                        f"{error}); please report it."
                    ) from error
                where = value[1] if step is None else step.operations[1].name
                found = replace(found, form=replace(found.form, name=f"{step.operations[1].place} ({where})"))
            if value in self.forced:
                found = self.hold(found)
            self.pair_of[id(found.form)] = found.form, value
            self.read_already[value] = found
        return self.read_already[value]

    def note(self, step: Step, how: str) -> None:
        """Write down how a line was read."""
        self.lines.append(Line(step.operations[1].place, step.name, how))

    def _given(self, value: Both) -> Value:
        name = self.traces[1].fields.get(value[1], LEARNT)
        tensors = [self.tensor(value, side) for side in (0, 1)]
        some = [self.traces[side].rows.get(value[side]) for side in (0, 1)]
        rows = [one for one in some if one is not None]
        if not rows:
            return self.leaf(tensors, self.nodes, name)
        width = int(np.prod(tensors[1].shape[1:]))
        columns = self.traces[1].columns.get(value[1], slice(0, width))
        if name not in self.fields:  # one leaf of all steps, or of all types
            size = max([width, *(one.stop for one in self.traces[1].columns.values() if name == "x")])
            tables = np.zeros((self.nodes.sizes[0], size)), np.zeros((self.nodes.sizes[1], size))
            self.fields[name] = self.leaf_form(self.nodes, tables, name)
        (term,) = self.fields[name].terms
        for side in (0, 1):
            table = self.leaves[term.base][1][side]
            table[rows[side], columns] = tensors[side].to(torch.float64).reshape(-1, width).numpy()
        form = self.fields[name]
        form = form if form.width == width else form.select(np.arange(columns.start, columns.stop))
        if all(one.dim() == 2 for one in tensors):
            return Value(form, self.nodes, InRows((rows[0], rows[1]), width))
        first, second = (in_rows(len(rows[side]), tensors[side].shape, rows=rows[side]) for side in (0, 1))
        return Value(form, self.nodes, (first, second))

    def leaf(self, tensors: Any, axis: Axis, name: str) -> Value:
        """Numbers of each row as they are, rows first."""
        dense = [one.to_dense() if one.layout != torch.strided else one for one in tensors]
        tables = tuple(one.to(torch.float64).reshape(one.shape[0], -1).numpy() for one in dense)
        places: Any = tuple(in_rows(size, one.shape) for size, one in zip(axis.sizes, dense, strict=True))
        if all(one.dim() == 2 for one in dense):
            places = InRows((np.arange(axis.sizes[0]), np.arange(axis.sizes[1])), tables[0].shape[1])
        return Value(self.leaf_form(axis, (tables[0], tables[1]), name), axis, places)

    def leaf_form(self, axis: Axis, tables: tuple[FloatArray, FloatArray], name: str) -> Form:
        """The same of a table."""
        width = tables[0].shape[1]
        self.bases.all.append(Base(None, None, width, 0, None, axis.root.kind == EDGES))
        base = len(self.bases.all) - 1
        self.leaves[base] = axis, tables, name
        return base_form(base, width, name)

    def hold(self, value: Value) -> Value:
        """The value as a base."""
        if value.form.is_base:
            return value
        known = self.pair_of.get(id(value.form))
        if known is not None:
            self.held.add(known[1])
        return replace(value, form=self.bases.hold(value.form), origin=None)

    # Crossing rows

    def ready(self, value: Value, *, in_flight: bool = False) -> Value:
        """The value, held if another crossing cannot be joined to those that it has."""
        rules = [rule for rule in map(rule_of, value.form.terms) if rule is not None]
        flying = in_flight and any(rule.crosses and not rule.arrived for rule in rules)
        busy = any(rule.arrived or (rule.of_features and not rule.crosses) for rule in rules)
        if value.form.bias is not None or (busy and not flying):
            return self.hold(value)
        return value

    def gathered(self, value: Value, rows: tuple[IntArray, IntArray], axis: Axis) -> Form:
        """The form of rows chosen from those of a value."""
        ready = self.ready(value, in_flight=True)
        made: dict[Any, Recorded] = {}
        terms = []
        for term in ready.form.terms:
            if term.coefficients not in made:
                rule = rule_of(term)
                if rule is None:
                    made[term.coefficients] = Recorded(axis, value.axis, on_each(choose, rows, value.axis.sizes))
                else:
                    found = on_each(lambda matrix, own: matrix[own], rule.matrices, rows)
                    made[term.coefficients] = Recorded(axis, rule.source, found, rule.of_features)
            terms.append(replace(term, coefficients=made[term.coefficients]))
        return Form(tuple(terms), None, ready.width, value.form.name)

    def sent(
        self, value: Value, rows: tuple[IntArray, IntArray], targets: tuple[IntArray, IntArray], axis: Axis
    ) -> Form:
        """The form of rows of a value added up by where each goes."""
        ready = self.ready(value)
        made: dict[Any, Recorded] = {}
        terms = []
        for term in ready.form.terms:
            if term.coefficients not in made:
                rule = rule_of(term)
                held: Any = value.axis.sizes if rule is None else rule.matrices

                def lead(held: Any, own: IntArray, to: IntArray, size: int) -> sparse.csr_array:
                    return send(choose(own, held) if isinstance(held, int) else held[own], to, size)

                found = on_each(lead, held, rows, targets, axis.sizes)
                source, of_features = (value.axis, False) if rule is None else (rule.source, rule.of_features)
                made[term.coefficients] = Recorded(axis, source, found, of_features)
            terms.append(replace(term, coefficients=made[term.coefficients]))
        return Form(tuple(terms), None, ready.width, value.form.name)

    def multiplied(self, value: Value, matrices: Any, axis: Axis, *, of_features: bool) -> Form:
        """The form of a matrix times the rows of a value."""
        ready = self.ready(value)
        if any(rule_of(term) is not None for term in ready.form.terms):
            ready = self.hold(ready)
        rule = Recorded(axis, value.axis, matrices, of_features)
        return replace(ready.form, terms=tuple(replace(term, coefficients=rule) for term in ready.form.terms))

    def edges_from(self, parent: Axis, index: tuple[IntArray, IntArray]) -> Axis:
        """The edge list whose rows an index vector makes; the same for the same index."""
        key = (EDGES, id(parent.root), index[0].tobytes(), index[1].tobytes())
        if key not in self.axes:
            self.axes[key] = Axis(EDGES, (len(index[0]), len(index[1])))
            self.axes[key].senders.append((parent, index))
        return self.axes[key]

    def target_of(self, index: Both | None, sizes: tuple[int, int]) -> tuple[Axis, tuple[IntArray, IntArray]]:
        """The axis of the rows that an index numbers, and which of its rows they are."""
        fields = set() if index is None else self.traces[1].fields_of(index[1])
        if index is not None and self.traces[1].types:
            first, second = (rows_numbered(self.traces[side], index[side], sizes[side]) for side in (0, 1))
            if first is not None and second is not None:
                return self.nodes, (first, second)
        every = np.arange(sizes[0]), np.arange(sizes[1])
        if "batch" in fields or (sizes == (1, 1) and self.nodes.sizes != (1, 1)):
            return self._graphs(sizes), every
        if sizes == self.nodes.sizes:
            return self.nodes, every
        if index is not None:
            some = [self.traces[side].rows_of(index[side]) for side in (0, 1)]
            if some[0] is not None and some[1] is not None and sizes == (len(some[0]), len(some[1])):
                return self.nodes, (some[0], some[1])
        raise InputError(
            f"adds rows up into {sizes[1]} rows that are neither the nodes nor the graphs of the data; number them by "
            "`edge_index` or `batch`."
        )

    def graph_of(self, rows: tuple[IntArray, IntArray]) -> tuple[Axis, tuple[int, int]]:
        """The axis of graphs, and the one that these nodes are all nodes of; else they stand for the whole."""
        if all("batch" in given for given in self.given):
            batches = [self.batch(side) for side in (0, 1)]
            sizes = tuple(int(one.max(initial=0)) + 1 for one in batches)
            own = tuple(int(one[rows[side]].min(initial=sizes[side])) for side, one in enumerate(batches))
            if all(np.array_equal(rows[side], np.flatnonzero(one == own[side])) for side, one in enumerate(batches)):
                return self._graphs((sizes[0], sizes[1])), (own[0], own[1])
        return self._graphs((1, 1)), (0, 0)

    def batch(self, side: int) -> IntArray:
        """The graph of each node."""
        trace = self.traces[side]
        found = trace.batch if trace.batch is not None else trace.values[self.given[side]["batch"]].numpy()
        return np.asarray(found)

    def _graphs(self, sizes: tuple[int, int]) -> Axis:
        kind, rows = (INSIDE, EDGES) if self.graphs_inside else (GRAPHS, GRAPHS)
        axis = self.axes.setdefault(kind, Axis(rows, sizes, of_graphs=True))
        if axis.sizes != sizes:
            raise InputError("adds up rows of one graph, and elsewhere rows of all graphs together.")
        return axis

    def pairs(self, sizes: tuple[int, int]) -> Axis:
        """The links that are asked for."""
        return self.axes.setdefault(LINKS, Axis(LINKS, sizes))

    # Scaling and shifting

    def scale(self, value: Value, tensors: Pair, *, of_features: bool, plain: bool = False) -> Value:
        """Each element times its own number; `plain` where the numbers come only from parameters."""
        value = value.arranged()
        tables = value.table(tensors)
        same = None if of_features else same_in_all(tables, (value.listed(0), value.listed(1)))
        if same is not None and plain:
            return value.mapped(np.diag(np.broadcast_to(same, value.width)))
        rules = [rule for rule in map(rule_of, value.form.terms) if rule is not None]
        at_ends = any(isinstance(term.coefficients, End) for term in value.form.terms)
        busy = of_features and any(rule.arrived or rule.of_features for rule in rules)
        if value.form.bias is not None or at_ends or busy:
            value = self.hold(value)
        return replace(value, form=scaled(value.form, value.axis, tables, of_features=of_features), origin=None)

    def shift(self, value: Value, tensors: Pair, kind: int, name: str) -> Value:
        """Each element plus its own number: a bias if it is of parameters and the same in all rows, else a leaf."""
        if not any(bool(tensor.any()) for tensor in tensors):
            return value
        value = value.arranged()
        tables = value.table(tensors)
        same = same_in_all(tables, (value.listed(0), value.listed(1)))
        if kind == PARAMETER and same is not None:
            same = np.broadcast_to(same, value.width)
            if value.origin is not None:
                return self.chosen(value, value.origin.form + same)
            return replace(value, form=value.form + same)
        wide = [np.broadcast_to(table, (len(table), value.width)) for table in tables]
        leaf = self.leaf_form(value.axis, (wide[0], wide[1]), name)
        return replace(value, form=value.form + leaf, origin=None)

    def activate(self, value: Value, activation: Activation) -> Value:
        """An element-wise function; of chosen rows, before they are chosen."""
        if value.origin is not None:
            return self.chosen(value, self.bases.add(value.origin.form, activation))
        return replace(value, form=self.bases.add(value.form, activation))

    def chosen(self, value: Value, form: Form) -> Value:
        """Chosen rows of another form than before."""
        assert value.origin is not None
        origin = replace(value.origin, form=form)
        whole = Value(form, origin.axis, value.places)
        return replace(value, form=self.gathered(whole, origin.rows, value.axis), origin=origin)

    def aligned(self, value: Value) -> Value:
        """Rows that take other columns than others do: a sum over all choices of columns, of which each row has one."""
        if value.table_rows is not None:
            return value
        tables, orders = [], []
        for side in (0, 1):
            rows = value.rows(side).reshape(-1)
            count = np.unique(rows, return_counts=True)[1]
            if not len(count) or (count != count[0]).any():
                return value
            orders.append(np.argsort(rows, kind="stable"))
            tables.append(value.columns(side).reshape(-1)[orders[side]].reshape(len(count), -1))
        if len({table.shape[1] for table in tables}) > 1:
            return value
        choices, owner = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
        if not 1 < len(choices) <= MOST_CHOICES:
            return value
        value = self.hold(value) if value.form.bias is not None else value
        width, places = choices.shape[1], []
        owners = np.split(np.repeat(owner.reshape(-1), width), [tables[0].size])
        for side, order in enumerate(orders):
            rank = np.empty(len(order), dtype=np.int64)
            rank[order] = np.tile(np.arange(width), len(tables[side]))
            own = np.empty(len(order), dtype=np.int64)
            own[order] = owners[side]
            owners[side] = own
            flat = value.rows(side).reshape(-1) * width + rank
            places.append(torch.from_numpy(flat.reshape(value.places[side].shape)))
        forms = []
        for number, columns in enumerate(choices):
            mine = [torch.from_numpy((own == number).astype(np.float64)) for own in owners]
            masks = mine[0].reshape(places[0].shape), mine[1].reshape(places[1].shape)
            part = replace(value, form=value.form.select(columns), places=(places[0], places[1]), origin=None)
            forms.append(self.scale(part, masks, of_features=False).form)
        return Value(sum(forms[1:], forms[0]), value.axis, (places[0], places[1]))

    def level(self, values: list[Value], shapes: tuple[torch.Size, torch.Size]) -> list[Value]:
        """Values broadcast to one shape, arranged alike, their rows the same."""
        found = [value.arranged() for value in self.spread_alike([value.expanded(shapes) for value in values])]
        own = [value.table_rows for value in found]
        if any(one is None for one in own):
            own = [(value.rows(0), value.rows(1)) for value in found]
        latest = max((one for one in own if one is not None), key=lambda one: int(one[1].max(initial=-1)))
        found = [self.carried(value, one, latest) for value, one in zip(found, own, strict=True) if one is not None]
        if all(value.table_rows is not None and all(map(np.array_equal, value.table_rows, latest)) for value in found):
            for value in found[1:]:
                found[0].axis.join(value.axis)
            return found
        for value in found[1:]:
            for side in (0, 1):
                if not np.array_equal(value.rows(side), found[0].rows(side)):
                    raise InputError(
                        "combines rows that are not the same: a value for each pair of rows, or one row spread over "
                        "all, which has no exact reading."
                    )
            found[0].axis.join(value.axis)
        return found

    def carried(self, value: Value, own: tuple[IntArray, IntArray], rows: tuple[IntArray, IntArray]) -> Value:
        """What nodes hold, given to other nodes, one to one: `own` rows to those that stand beside them."""
        if value.axis.root is not self.nodes or all(np.array_equal(a, b) for a, b in zip(own, rows, strict=True)):
            return value
        if any(one.shape != other.shape for one, other in zip(own, rows, strict=True)):
            return value
        there: list[IntArray] = []  # the row that each row is given to
        for side in (0, 1):
            there.append(np.full(self.nodes.sizes[side], -1))
            there[side][own[side].reshape(-1)] = rows[side].reshape(-1)
            taken = there[side][there[side] >= 0]
            if not np.array_equal(there[side][own[side]], rows[side]) or len(np.unique(taken)) != len(taken):
                return value  # not one to one

        def lead(there: IntArray) -> sparse.csr_array:
            given = np.flatnonzero(there >= 0)
            return send(choose(given, len(there)), there[given], len(there))

        form = self.multiplied(value, on_each(lead, there), self.nodes, of_features=False)
        if value.table_rows is not None:
            first, second = (there[side][value.table_rows[side]] for side in (0, 1))
            return replace(value, form=form, places=InRows((first, second), value.width), origin=None)
        places = [
            torch.from_numpy(there[side][value.rows(side)] * value.width + value.columns(side)) for side in (0, 1)
        ]
        return replace(value, form=form, places=(places[0], places[1]), origin=None)

    def spread_alike(self, values: list[Value]) -> list[Value]:
        """Rows of graphs that stand beside rows of nodes or messages are given to each of these."""
        if not any(value.axis.root.of_graphs for value in values):
            return values
        most = max(values, key=lambda value: len(value.listed(1)))
        found = []
        for value in values:
            if not value.axis.root.of_graphs or most.axis.root.of_graphs:
                found.append(value)
                continue
            index = []
            for side in (0, 1):
                rows = np.zeros(most.axis.sizes[side], dtype=np.int64)
                rows[most.rows(side).reshape(-1)] = value.rows(side).reshape(-1)
                if not np.array_equal(rows[most.rows(side)], value.rows(side)):
                    raise InputError("combines each row with several graphs, which has no exact reading.")
                index.append(rows)
            spread = self.spread(value, (index[0], index[1]), most.axis)
            places = [torch.from_numpy(most.rows(side) * value.width + value.columns(side)) for side in (0, 1)]
            found.append(replace(spread, places=(places[0], places[1])))
        return found

    def spread(self, value: Value, rows: tuple[IntArray, IntArray], axis: Axis) -> Value:
        """What graphs hold, given to each of these rows: those that were added up send to each of them."""
        rules = [rule_of(term) for term in value.form.terms]
        if not self.graphs_inside and any(rule is None or rule.local for rule in rules):
            raise GraphsAreInside
        if self.graphs_inside:
            return replace(value, form=self.gathered(value, rows, axis), axis=axis, origin=None)
        made: dict[Any, Recorded] = {}
        for rule in rules:
            assert rule is not None
            first, second = (rule.matrices[side][rows[side]] for side in (0, 1))
            made.setdefault(rule, Recorded(axis, rule.source, (first, second), rule.of_features))
        terms = tuple(replace(term, coefficients=made[term.coefficients]) for term in value.form.terms)
        return replace(value, form=replace(value.form, terms=terms), axis=axis, origin=None)
