"""Bases -> layers: which layer holds which value, in which columns.

Bases with the same number of hops below them share a layer if they aggregate, or one of the local layers after it if
they do not, so that a Network has as many hops as its longest way needs. A base that a later layer still needs is
passed through the layers between on columns of its own, by the identity.
"""

from __future__ import annotations

import numpy as np

from ..attention import ReadColumns
from ..coefficients import Coefficients, Identity
from ..network import Block, Channel, Layer
from .bases import INPUT, Base, bases_of
from .forms import Term


def lay_out(bases: list[Base]) -> tuple[Layer, ...]:
    """Layers up to the last base, which is the model's output; bases that it does not need are left out."""
    levels = _find_levels(bases)
    last_use = {len(bases) - 1: levels[len(bases) - 1]}
    for i in sorted(levels, key=lambda i: -levels[i]):
        form = bases[i].form
        for below in bases_of(form) if form is not None and i in last_use else ():
            last_use[below] = max(last_use.get(below, 0), levels[i])
    used = sorted({levels[i] for i in last_use} - {0})
    layers: list[Layer] = []
    columns = {INPUT: slice(0, bases[INPUT].width)}
    for level in used:
        held = [i for i in sorted(last_use) if levels[i] == level or levels[i] < level < last_use[i]]
        ends = np.cumsum([bases[i].width for i in held])
        places = {i: slice(int(end) - bases[i].width, int(end)) for i, end in zip(held, ends, strict=True)}
        fresh = {i for i in held if levels[i] == level}
        layers.append(_make_layer(bases, fresh, places, columns))
        columns = places
    return tuple(layers)


def _find_levels(bases: list[Base]) -> dict[int, int]:
    """Level of each base, counted from 0 for the node features."""
    steps = {INPUT: (0, 0)}  # hops below, then local layers since the last hop
    for i, base in enumerate(bases[1:], start=1):
        assert base.form is not None
        since_hop = 0
        if base.local:
            below = [steps[j] for j in bases_of(base.form)]
            since_hop = 1 + max((local for hops, local in below if hops == base.num_hops), default=0)
        steps[i] = (base.num_hops, since_hop)
    order = {step: level for level, step in enumerate(sorted(set(steps.values())))}
    return {i: order[step] for i, step in steps.items()}


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
        rules: dict[tuple[Coefficients, int | None], Coefficients] = {}
        for term in base.form.terms:
            rule = rules.setdefault((term.coefficients, term.reads), _rule_of(term, columns))
            start = place.start + term.start
            channels.append(Channel(rule, term.weight, columns[term.base], slice(start, start + term.width)))
        if base.form.bias is not None:
            bias[place] = base.form.bias
        blocks.append(Block(place, base.activation, base.form.name, base.recorded))
    return Layer(tuple(channels), bias if bias.any() else None, tuple(blocks), width)


def _rule_of(term: Term, columns: dict[int, slice]) -> Coefficients:
    if term.reads is None:
        return term.coefficients
    shown = columns[term.reads]
    if shown == slice(0, max(place.stop for place in columns.values())):
        return term.coefficients
    return ReadColumns(term.coefficients, shown.start, shown.stop)
