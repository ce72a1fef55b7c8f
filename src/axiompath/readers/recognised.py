"""Recorded coefficients -> the rule of structure that gives the same numbers, so that other graphs can be evaluated.

How a model computed its coefficients needs no rule to be read; but only a rule knows them on a graph that the model was
not recorded on. A rule is taken where it gives the recorded numbers on both graphs, entry by entry; whoever evaluates
another graph compares the rules with the model there first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..arrays import IntArray
from ..graphs.snapshot import Snapshot
from ..network.attention import InverseDeviation
from ..network.coefficients import (
    SOURCE_TO_TARGET,
    Degree,
    Factor,
    Identity,
    Mean,
    Rule,
    Sum,
    SymmetricNorm,
    TargetNorm,
)
from ..network.degrees import Looped, WeightedMean
from ..network.layers import ForwardPass
from ..network.maxima import Extreme
from ..network.readouts import End, Pooled
from ..network.relations import OfRelation, OfType
from .bases import Base, Bases, bases_of
from .forms import Term
from .reader import Reader
from .refusals import UnreadableModel
from .rows import EDGES, GRAPHS, LINKS, NODES, Recorded
from .scores import Attended, Unknown, Ways, same

FLOWS = (SOURCE_TO_TARGET, "target_to_source")


@dataclass(frozen=True, eq=False)
class Recognised:
    """The bases of a network of rules, and the recorded coefficients that each rule made of features stands for."""

    bases: list[Base]
    replaced: list[tuple[Rule, Recorded]]


def recognise(reader: Reader, sides: tuple[Snapshot, Snapshot]) -> Recognised:
    """The same bases with rules for all recorded coefficients; Unknown, with the line, where some are those of none."""
    try:
        return _Finder(reader, sides).run()
    except UnreadableModel as error:
        raise Unknown from error


def stands_for(found: Recognised, passes: tuple[ForwardPass, ForwardPass], sides: tuple[Snapshot, Snapshot]) -> bool:
    """Whether rules that read features gave the recorded coefficients, too, when the network was run."""
    for side, computed in enumerate(passes):
        of_rule = {
            _innermost(rule): matrix
            for layer, matrices in zip(computed.layers, computed.coefficients, strict=True)
            for rule, matrix in zip(layer.rules, matrices, strict=True)
        }
        for rule, recorded in found.replaced:
            if not same(of_rule[_innermost(rule)], _lifted(recorded, side, sides[side])):
                return False
    return True


def _innermost(rule: Rule) -> Rule:
    while not isinstance(rule, Looped) and isinstance(inner := getattr(rule, "rule", None), Rule):
        rule = inner
    return rule


def _lifted(recorded: Recorded, side: int, snapshot: Snapshot) -> sparse.csr_array:
    return recorded.lift(side, recorded.target.places[side], recorded.source.places[side], snapshot)


class _Finder:
    def __init__(self, reader: Reader, sides: tuple[Snapshot, Snapshot]) -> None:
        self.reader, self.sides = reader, sides
        self.known: dict[Recorded, tuple[Rule, int | None]] = {}  # with the base that the rule reads
        self.replaced: list[tuple[Rule, Recorded]] = []
        self.matrices: dict[tuple[Rule, int], sparse.csr_array] = {}

    def run(self) -> Recognised:
        main = self.reader.bases.all
        needed = _needed(main)
        self.bases = Bases()
        self.bases.all = list(main)
        self.attended = Attended(self.reader, self.bases, needed)
        number = len(main) - 1  # the output, which is above all that its rules read
        for i in sorted(needed):
            form = self.bases.all[i].form
            if form is not None:
                try:
                    terms = tuple(self._term(term) for term in form.terms)
                except Unknown as error:
                    raise Unknown(form.name) from error
                self.bases.all[i] = replace(self.bases.all[i], form=replace(form, terms=terms))
        for i in needed:
            base = self.bases.all[i]
            below = bases_of(base.form) if base.form is not None and not base.local else set[int]()
            if any(self.bases.all[j].num_hops >= base.num_hops for j in below):
                raise Unknown
        if len(self.bases.all) == len(main):
            return Recognised(self.bases.all, self.replaced)
        return Recognised(_in_order(self.bases.all, number), self.replaced)

    def _term(self, term: Term) -> Term:
        rule, reads = self._rule(term.coefficients, term)
        return replace(term, coefficients=rule, reads=reads)

    def _rule(self, rule: Rule, term: Term) -> tuple[Rule, int | None]:
        if isinstance(rule, (Factor, Extreme)):
            inner, reads = self._rule(rule.rule, term)
            return replace(rule, rule=inner), term.reads if reads is None else reads
        if not isinstance(rule, Recorded):
            if rule.recorded or rule.of_edges:
                raise Unknown
            return rule, term.reads
        if rule not in self.known:
            self.known[rule] = self._find(rule, term)
        return self.known[rule]

    def _find(self, recorded: Recorded, term: Term) -> tuple[Rule, int | None]:
        if EDGES in (recorded.target.root.kind, recorded.source.root.kind):
            raise Unknown
        if not recorded.of_features:
            fitting = [
                rule for rule in self._structural(recorded) if all(self._equal(rule, recorded, side) for side in (0, 1))
            ]
            if not fitting or self._differ_when_mixed(fitting, recorded):
                raise Unknown
            return fitting[0], None
        found = self._scale(recorded, term) if recorded.local else self.attended.find(recorded, self._ways)
        self.replaced.append((found[0], recorded))
        return found

    def _structural(self, recorded: Recorded) -> Iterator[Rule]:
        """Rules that may be meant, the likelier first."""
        kind = recorded.target.root.kind
        if recorded.local and kind == NODES:
            yield from (OfType(number) for number in range(len(self._types)))
            for flow in FLOWS:
                yield from (Degree(weighted, flow) for weighted in self._weighted)
        elif kind == NODES:
            yield from self._of_relations()
            for flow in FLOWS:
                for weighted in self._weighted:
                    yield from (Sum(weighted, flow), SymmetricNorm(weighted, 1.0, flow), Mean(weighted, flow))
                    yield SymmetricNorm(weighted, None, flow)
                    yield from (SymmetricNorm(weighted, 2.0, flow), Looped(Sum(weighted, flow), False))
                yield from self._over_degrees(recorded, flow)
                yield from (WeightedMean(True) for weighted in self._weighted if weighted and flow == SOURCE_TO_TARGET)
                yield from (Looped(rule(False, flow), beside) for rule in (Sum, Mean) for beside in (False, True))
        elif not recorded.local and kind == GRAPHS:
            yield from (Pooled(False), Pooled(True))
        elif not recorded.local and kind == LINKS:
            yield from (End(0), End(1))

    def _of_relations(self) -> Iterator[Rule]:
        """Those of one relation alone, along or against its edges; loops are of nodes of its one type."""
        for of in self._relations:
            for flow in FLOWS:
                yield from (replace(of, rule=rule(False, flow)) for rule in (Sum, Mean))
                yield from (replace(of, rule=SymmetricNorm(False, loops, flow)) for loops in (1.0, None))

    @cached_property
    def _relations(self) -> list[OfRelation]:
        """The relations of the graph, none of which has a rule yet."""
        side = self.sides[1]
        if side.edge_types is None:
            return []
        ends = side.schema.ends if side.schema is not None else ()
        count = len(ends) or int(side.edge_types.max(initial=-1)) + 1
        return [OfRelation(Identity(), number, ends[number] if ends else None) for number in range(count)]

    @cached_property
    def _types(self) -> tuple[str, ...]:
        """The node types of the graph, where it has several."""
        return self.sides[1].schema.node_types if self.sides[1].schema is not None else ()

    def _over_degrees(self, recorded: Recorded, flow: str) -> Iterator[Rule]:
        """One over the degree, loops times a number of their own, which is that of any loop."""
        theirs = _lifted(recorded, 1, self.sides[1]).diagonal()
        for single in (False, True):
            plain = TargetNorm(0.0, single, flow)
            loops = self._matrix(plain, 1).diagonal()
            if loops.any():
                some = int(np.flatnonzero(loops)[0])
                yield replace(plain, diag_lambda=round(float(theirs[some] / loops[some]) - 1.0, 7 if single else 12))

    @cached_property
    def _weighted(self) -> tuple[bool, ...]:
        return (False,) if self.sides[1].edge_weight is None else (True, False)

    def _equal(self, rule: Rule, recorded: Recorded, side: int) -> bool:
        theirs = _lifted(recorded, side, self.sides[side])
        if isinstance(rule, OfType):
            theirs.eliminate_zeros()
        return same(self._matrix(rule, side), theirs)

    def _matrix(self, rule: Rule, side: int) -> sparse.csr_array:
        key = rule, side
        if key not in self.matrices:
            self.matrices[key] = rule.matrix(self.sides[side], np.zeros((self.sides[side].num_nodes, 0)))
        return self.matrices[key]

    def _differ_when_mixed(self, rules: list[Rule], recorded: Recorded) -> bool:
        """Whether rules that agree on both graphs, as sum and mean over one neighbour do, differ on their union."""
        if len(rules) < 2 or recorded.target.root.kind != NODES or self._union is None:
            return False
        none = np.zeros((self._union.num_nodes, 0))
        first, *others = (rule.matrix(self._union, none) for rule in rules)
        return not all(same(first, other) for other in others)

    @cached_property
    def _union(self) -> Snapshot | None:
        """The edges of `after` and those that only `before` has; None for samples, which have nothing in common."""
        before, after = self.sides
        if before.num_nodes != after.num_nodes or not np.array_equal(before.node_ids, after.node_ids):
            return None
        keys = np.concatenate([_keys_of(before), _keys_of(after)])
        _, numbers = np.unique(keys, axis=0, return_inverse=True)
        gone = ~np.isin(numbers[: len(before.edge_index[0])], numbers[len(before.edge_index[0]) :])

        def both(of_before: Any, of_after: Any) -> Any:
            return None if of_after is None or of_before is None else np.concatenate([of_after, of_before[gone]])

        return Snapshot(
            after.x,
            np.concatenate([after.edge_index, before.edge_index[:, gone]], axis=1),
            both(before.edge_weight, after.edge_weight),
            after.node_ids,
            before.present | after.present,
            edge_types=both(before.edge_types, after.edge_types),
            node_types=after.node_types,
            schema=after.schema,
            relation_names=after.relation_names,
        )

    def _scale(self, recorded: Recorded, term: Term) -> tuple[Rule, int | None]:
        """One over the deviation of each row, as LayerNorm takes it."""
        names = [operation for operation in self.reader.traces[1].operations if operation is not None]
        small = {operation.args[4] for operation in names if operation.name == "native_layer_norm"}
        if len(small) != 1:
            raise Unknown
        return InverseDeviation(float(small.pop())), term.base

    def _ways(self, pattern: Recorded) -> Ways:
        """Whether messages of these ends run over renewed loops, too, which way, and along which relation."""
        for of in (None, *self._relations):
            for flow in FLOWS:
                for loops, rule in ((False, Sum(False, flow)), (True, Looped(Sum(False, flow), False))):
                    within = rule if of is None else replace(of, rule=rule)
                    if all(self._equal(within, pattern, side) for side in (0, 1)):
                        return Ways(loops, flow, of)
        raise Unknown


def _keys_of(side: Snapshot) -> IntArray:
    """What tells edges apart: both ends, and the relation. [num_edges, 2 or 3]."""
    return np.column_stack([*side.edge_index, *([] if side.edge_types is None else [side.edge_types])])


def _needed(bases: list[Base]) -> set[int]:
    """The bases that the last one is made of, itself included."""
    needed = {len(bases) - 1}
    for i in range(len(bases) - 1, -1, -1):
        form = bases[i].form
        if i in needed and form is not None:
            needed |= bases_of(form)
    return needed


def _in_order(bases: list[Base], output: int) -> list[Base]:
    """The same bases, each behind those that it is made of, the output last."""
    order: list[int] = []

    def visit(number: int) -> None:
        if number not in order:
            form = bases[number].form
            for below in sorted(bases_of(form)) if form is not None else ():
                visit(below)
            order.append(number)

    for i, base in enumerate(bases):
        if base.form is None:
            visit(i)
    visit(output)
    place = {old: new for new, old in enumerate(order)}
    found = []
    for old in order:
        base = bases[old]
        if base.form is not None:
            terms = tuple(
                replace(term, base=place[term.base], reads=None if term.reads is None else place[term.reads])
                for term in base.form.terms
            )
            base = replace(base, form=replace(base.form, terms=terms))
        found.append(base)
    return found
