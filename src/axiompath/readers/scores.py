"""Shares of a softmax over neighbours -> the attention that gives them: its scores are read as any value is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from ..arrays import FloatArray, IntArray
from ..errors import InputError
from ..network.activations import Product
from ..network.attention import AdditiveAttention, DotAttention
from ..network.coefficients import Factor, Identity, Rule
from ..network.relations import OfRelation
from .bases import Base, Bases
from .forms import Form, Term, base_form, concatenate
from .reader import Both, GraphsAreInside, Reader
from .refusals import UnreadableModel
from .rows import EDGES, NODES, Indices, Recorded
from .values import Value, rule_of

SAME = 1e-9  # largest difference of a coefficient, relative to the largest one
PASSING = {
    "view", "unsqueeze", "squeeze", "reshape", "_unsafe_view", "expand", "clone", "alias", "detach", "native_dropout",
    "_to_copy", "index_select", "permute", "t", "transpose",
}  # fmt: skip


class Unknown(Exception):
    """Some coefficients are those of no rule."""


class Ways(NamedTuple):
    """Where messages run that a softmax is taken over."""

    loops: bool  # whether every node has a loop in place of its own
    flow: str
    of: OfRelation | None  # along whose edges alone


FindWays: TypeAlias = Callable[[Recorded], Ways]  # ends of messages -> where they run


def same(ours: sparse.csr_array, theirs: sparse.csr_array) -> bool:
    """Whether two matrices have the same entries, and in them the same numbers."""
    if ours.shape != theirs.shape or ours.nnz != theirs.nnz:
        return False
    ours.sort_indices()
    if not (np.array_equal(ours.indptr, theirs.indptr) and np.array_equal(ours.indices, theirs.indices)):
        return False
    scale = float(np.abs(theirs.data).max(initial=0.0))
    return bool(np.abs(ours.data - theirs.data).max(initial=0.0) <= SAME * scale)


class _Shares(NamedTuple):
    """What one softmax over neighbours gave, and what its scores were made of."""

    senders: Indices
    receivers: Indices
    numbers: tuple[FloatArray, FloatArray]  # [num_edges, heads] on each graph
    pattern: Recorded
    rules: list[tuple[Rule, int]]  # of each head; with the base that it reads


class Attended:
    """Shares of neighbours that a model took a softmax for: the scores are read as values, as any other."""

    def __init__(self, reader: Reader, bases: Bases, needed: set[int]) -> None:
        self.reader = copy.copy(reader)
        self.reader.bases, self.reader.read_already = bases, dict(reader.read_already)
        self.reader.held, self.reader.lines, self.reader.leaves = set(reader.held), [], dict(reader.leaves)
        self.bases, self.needed = bases, needed
        self.found: dict[Both, list[_Shares]] = {}
        self.used: set[tuple[Both, int]] = set()

    def find(self, recorded: Recorded, ways: FindWays) -> tuple[Rule, int]:
        """The attention that gives these coefficients."""
        for value in self.reader.coefficients:
            if value not in self.found:
                self.found[value] = self._read(value, ways)
            for shares in self.found[value]:
                for head, found in enumerate(shares.rules):
                    if (value, head) not in self.used and all(_is_head(recorded, shares, head, i) for i in (0, 1)):
                        self.used.add((value, head))
                        return found
        raise Unknown

    def _read(self, value: Both, ways: FindWays) -> list[_Shares]:
        score = self._score_of(value)
        if score is None:
            return []
        try:
            read = self.reader.read(score).arranged()
            return [self._shares(value, read, ways)]
        except (UnreadableModel, InputError, Unknown, GraphsAreInside):
            return []

    def _score_of(self, value: Both) -> Both | None:
        """What the softmax was taken of: exp(score - maximum) over a sum of the same."""
        reader = self.reader
        step = reader.step(value)
        while step is not None and step.name in PASSING:
            value = step.inputs[0]
            step = reader.step(value)
        if step is None or step.name != "div":
            return None
        step = reader.step(step.inputs[0])
        while step is not None and step.name in PASSING:
            step = reader.step(step.inputs[0])
        if step is None or step.name != "exp":
            return None
        inner = reader.step(step.inputs[0])
        return inner.inputs[0] if inner is not None and inner.name == "sub" else step.inputs[0]

    def _shares(self, value: Both, read: Value, ways: FindWays) -> _Shares:
        axis = read.axis.root
        if 0 in axis.sizes:  # no messages on one of the graphs, so no shares to compare
            raise Unknown
        numbers = [self.reader.tensor(value, side).double().numpy().reshape(axis.sizes[side], -1) for side in (0, 1)]
        receivers = [index for parent, index in axis.receivers if parent.root.kind == NODES]
        receivers = [index for index in receivers if all(_sum_to_one(numbers[i], index[i]) for i in (0, 1))]
        if axis.kind != EDGES or not receivers:
            raise Unknown
        into = receivers[0]
        out = [
            index
            for parent, index in axis.senders
            if parent.root.kind == NODES and not all(np.array_equal(index[i], into[i]) for i in (0, 1))
        ]
        if not out:
            raise Unknown
        nodes = self.reader.nodes
        ones = []
        for side in (0, 1):
            size = nodes.sizes[side]
            ends = into[side], out[0][side]
            ones.append(sparse.csr_array(sparse.coo_array((np.ones(len(ends[0])), ends), shape=(size, size)).tocsr()))
        pattern = Recorded(nodes, nodes, (ones[0], ones[1]))
        found = ways(pattern)
        if any(one.shape[1] != read.width for one in numbers):
            raise Unknown
        rules = [self._within(self._head(read, head, out[0], into, found), found) for head in range(read.width)]
        return _Shares(out[0], into, (numbers[0], numbers[1]), pattern, rules)

    @staticmethod
    def _within(found: tuple[Rule, int], ways: Ways) -> tuple[Rule, int]:
        return (found[0] if ways.of is None else replace(ways.of, rule=found[0])), found[1]

    def _head(self, read: Value, head: int, out: Indices, into: Indices, ways: Ways) -> tuple[Rule, int]:
        """The rule of one column of the scores."""
        form = read.form.select(np.array([head]))
        if form.bias is not None or len(form.terms) != 1 or form.terms[0].coefficients != Identity():
            raise Unknown
        (term,) = form.terms
        base, direction = self.bases.all[term.base], term.dense_weight[:, 0]
        if base.form is None or base.activation is None:
            raise Unknown
        if isinstance(base.activation, Product):
            return self._products(base, direction, out, into, ways)
        slope = -float(base.activation.value(np.array([-1.0]))[0])
        if not base.activation.piecewise_linear or float(base.activation.value(np.array([1.0]))[0]) != 1.0:
            raise Unknown
        own = np.flatnonzero(direction)
        reads, (sender, receiver, bias) = self._ends(base.form.select(own), out, into)
        return AdditiveAttention(sender, receiver, bias, direction[own], slope, ways.loops, ways.flow), reads

    def _products(self, base: Base, direction: FloatArray, out: Indices, into: Indices, ways: Ways) -> tuple[Rule, int]:
        """Queries times keys, added up over the columns of a head."""
        assert base.form is not None
        size = base.width // 2
        if ways.loops or base.width != 2 * size or not np.array_equal(direction[:size], direction[size:]):
            raise Unknown
        own = np.flatnonzero(direction[:size])
        plain = replace(base.form, terms=tuple(replace(t, coefficients=_without_factor(t)) for t in base.form.terms))
        both = concatenate([plain.select(own), plain.select(own + size)])
        reads, (sender, receiver, bias) = self._ends(both, out, into)
        width = len(own)
        halves = [(sender[:, i : i + width], receiver[:, i : i + width]) for i in (0, width)]
        for key, query, first in ((0, 1, width), (1, 0, 0)):
            if halves[key][1].any() or halves[query][0].any():
                continue
            scale = direction[own]
            query_bias, key_bias = bias[first : first + width] * scale, bias[width - first :][:width]
            return DotAttention(halves[query][1] * scale, query_bias, halves[key][0], key_bias, ways.flow), reads
        raise Unknown

    def _ends(self, form: Form, out: Indices, into: Indices) -> tuple[int, tuple[FloatArray, FloatArray, FloatArray]]:
        """Maps of the senders' and the receivers' values, all columns of one base, and what is added."""
        bias = np.zeros(form.width) if form.bias is None else form.bias.copy()
        waiting, maps = list(form.terms), dict[tuple[int, bool], FloatArray]()
        while waiting:
            term = waiting.pop()
            rule = rule_of(term)
            wide = np.zeros((self.bases.all[term.base].width, form.width))
            wide[:, term.start : term.start + term.width] = term.dense_weight
            if rule is None or any((one.data != 1).any() or (np.diff(one.indptr) != 1).any() for one in rule.matrices):
                raise Unknown
            inner = self.bases.all[term.base].form
            activation = self.bases.all[term.base].activation
            if term.base not in self.needed and inner is not None and activation is None:
                if any(below.coefficients != Identity() for below in inner.terms):
                    raise Unknown
                bias += 0.0 if inner.bias is None else inner.bias @ wide
                waiting += [replace(below.mapped(wide), coefficients=rule) for below in inner.terms]
                continue
            chosen = [one.indices for one in rule.matrices]
            is_sender = all(np.array_equal(chosen[side], out[side]) for side in (0, 1))
            if not is_sender and not all(np.array_equal(chosen[side], into[side]) for side in (0, 1)):
                raise Unknown
            key = term.base, is_sender
            maps[key] = maps.get(key, 0.0) + wide
        shown = sorted({base for base, _ in maps})
        none = {base: np.zeros((self.bases.all[base].width, form.width)) for base in shown}
        sender, receiver = (
            np.concatenate([maps.get((base, way), none[base]) for base in shown]) for way in (True, False)
        )
        return self._shown(shown), (sender, receiver, bias)

    def _shown(self, shown: list[int]) -> int:
        """The base that holds what scores are made of."""
        if len(shown) == 1:
            return shown[0]
        parts = [base_form(base, self.bases.all[base].width, "scores") for base in shown]
        return self.bases.add(concatenate(parts), None).terms[0].base


def _sum_to_one(shares: FloatArray, receivers: IntArray) -> bool:
    """Whether these are shares of the messages to each receiver."""
    totals = np.bincount(receivers, weights=shares[:, 0]) if shares.size else np.ones(1)
    return bool(np.abs(totals[np.unique(receivers)] - 1).max(initial=0.0) <= SAME)


def _is_head(recorded: Recorded, shares: _Shares, head: int, side: int) -> bool:
    """Whether these coefficients are a column of the shares."""
    ends, size = (shares.receivers[side], shares.senders[side]), recorded.matrices[side].shape
    found = sparse.csr_array(sparse.coo_array((shares.numbers[side][:, head], ends), shape=size).tocsr())
    theirs = sparse.csr_array(recorded.matrices[side])
    theirs.sort_indices()
    return same(found, theirs)


def _without_factor(term: Term) -> Rule:
    return term.coefficients.rule if isinstance(term.coefficients, Factor) else term.coefficients
