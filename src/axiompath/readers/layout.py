"""Bases -> layers: which layer holds which value, in which columns.

Bases with the same number of hops below them share a layer if they aggregate, or one of the local layers after it if
they do not, so that a Network has as many hops as its longest way needs. A base that a later layer still needs is
passed through the layers between on columns of its own, by the identity.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..network.attention import ReadColumns
from ..network.coefficients import Identity, Rule
from ..network.families import Column, ColumnRule
from ..network.layers import Block, Channel, Layer
from .bases import Base, bases_of
from .forms import Form, Term


def lay_out(bases: list[Base]) -> tuple[Layer, ...]:
    """Layers up to the last base, which is the model's output; bases that it does not need are left out."""
    levels = _find_levels(bases)
    bases, levels = _narrow(bases, levels)
    last_use = _find_last_use(bases, levels)
    layers: list[Layer] = []
    given = [i for i, base in enumerate(bases) if base.form is None]
    starts = np.cumsum([0, *(bases[i].width for i in given)]).tolist()
    columns = {i: slice(start, start + bases[i].width) for i, start in zip(given, starts, strict=False)}
    for level in range(1, max(levels.values()) + 1):
        held = [i for i in sorted(last_use) if levels[i] == level or levels[i] < level < last_use[i]]
        ends = np.cumsum([bases[i].width for i in held])
        places = {i: slice(int(end) - bases[i].width, int(end)) for i, end in zip(held, ends, strict=True)}
        fresh = {i for i in held if levels[i] == level}
        layers.append(_make_layer(bases, fresh, places, columns))
        columns = places
    return tuple(layers)


def _find_levels(bases: list[Base]) -> dict[int, int]:
    """Level of each base that the output needs, counted from 0 for the node features."""
    needed = {len(bases) - 1}
    for i in range(len(bases) - 1, -1, -1):  # a base is made of earlier ones
        form = bases[i].form
        if i in needed and form is not None:
            needed |= bases_of(form)
    steps = {i: (0, 0) for i in needed if bases[i].form is None}  # hops below, then local layers since the last hop
    steps[-1] = (0, 0)  # the features, whether or not the output needs any
    for i in sorted(needed - steps.keys()):
        base = bases[i]
        assert base.form is not None
        since_hop = 0
        if base.local:
            below = [steps[j] for j in bases_of(base.form)]
            since_hop = 1 + max((local for hops, local in below if hops == base.num_hops), default=0)
        steps[i] = (base.num_hops, since_hop)
    order = {step: level for level, step in enumerate(sorted(set(steps.values())))}
    del steps[-1]
    return {i: order[step] for i, step in steps.items()}


def _find_last_use(bases: list[Base], levels: dict[int, int]) -> dict[int, int]:
    """The highest level that needs each base; the output is needed where it is."""
    output = max(levels, key=lambda i: levels[i])
    last_use = {output: levels[output]}
    for i, level in levels.items():
        form = bases[i].form
        for below in bases_of(form) if form is not None else ():
            last_use[below] = max(last_use.get(below, 0), level)
    return last_use


def _narrow(bases: list[Base], levels: dict[int, int]) -> tuple[list[Base], dict[int, int]]:
    """Map a wide value on the first step of its way to later layers, if they need fewer columns than it has.

    Concatenated layers in front of a Linear layer, or wide features beside hidden ones, are then carried at the width
    of what becomes of them.
    """
    bases, levels = list(bases), dict(levels)
    for i in sorted(levels):
        forms = {j: form for j in levels if (form := bases[j].form) is not None and levels[j] > levels[i] + 1}
        far = [(j, term) for j, form in forms.items() for term in form.terms if i in (term.base, term.reads)]
        needed = any(term.weight is None or term.reads == i for _, term in far)  # by someone, as it is
        if not far or needed or sum(term.width for _, term in far) >= bases[i].width:
            continue
        for j, term in far:
            carried = Form((Term(i, Identity(), term.weight, term.width),), None, term.width, forms[j].name)
            bases.append(Base(carried, None, term.width, bases[i].num_hops, None))
            levels[len(bases) - 1] = levels[i] + 1
            form = bases[j].form
            assert form is not None
            moved = replace(term, base=len(bases) - 1, weight=None)
            terms = tuple(moved if other is term else other for other in form.terms)
            bases[j] = replace(bases[j], form=replace(form, terms=terms))
    return bases, levels


def _make_layer(bases: list[Base], fresh: set[int], places: dict[int, slice], columns: dict[int, slice]) -> Layer:
    width = max(place.stop for place in places.values())
    channels: list[Channel] = []
    blocks: list[Block] = []
    bias = np.zeros(width)
    for i, place in places.items():
        base = bases[i]
        if i not in fresh:
            channels.append(Channel(Identity(), None, columns[i], place))
            continue
        assert base.form is not None
        rules: dict[tuple[Rule, int | None], Rule] = {}
        for term in base.form.terms:
            start = place.start + term.start
            if isinstance(term.coefficients, ColumnRule):
                channels += _columns_of(term, term.coefficients, columns, start)
                continue
            rule = rules.setdefault((term.coefficients, term.reads), _rule_of(term, columns))
            channels.append(Channel(rule, term.weight, columns[term.base], slice(start, start + term.width)))
        if base.form.bias is not None:
            bias[place] = base.form.bias
        blocks.append(Block(place, base.activation, base.form.name, base.recorded))
    return Layer(tuple(channels), bias if bias.any() else None, tuple(blocks), width)


def _columns_of(term: Term, rule: ColumnRule, columns: dict[int, slice], start: int) -> list[Channel]:
    """One channel per column, each with a rule of its own."""
    assert term.weight is None
    first = columns[term.base].start + rule.first
    return [
        Channel(
            _rule_of(replace(term, coefficients=Column(rule, d)), columns),
            None,
            slice(first + d, first + d + 1),
            slice(start + d, start + d + 1),
        )
        for d in range(term.width)
    ]


def _rule_of(term: Term, columns: dict[int, slice]) -> Rule:
    if term.reads is None:
        return term.coefficients
    shown = columns[term.reads]
    if shown == slice(0, max(place.stop for place in columns.values())):
        return term.coefficients
    return ReadColumns(term.coefficients, shown.start, shown.stop)
