"""Explanation -> the same as pictures show it: paths that end at what is predicted, two classes for a yes or no."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import FloatArray, IntArray
from ..explain.explanation import Explanation
from ..explain.hops import drop_edges
from ..graphs.places import NODE_UNIT, Target
from ..outputs import BINARY, CLASSES_OUTPUT, LABELS

PLACE = 2**53 - 1  # stands for the graph or the link at the end of a path; the largest number that JavaScript counts to


def as_drawn(explanation: Explanation) -> Explanation:
    """A graph or a link becomes the last station of its paths; a logit becomes the class yes against the class no."""
    e = explanation
    if e.edge_places:
        groups = tuple(replace(group, paths=drop_edges(group.paths, e.hops)) for group in e.groups)
        e = replace(e, paths=drop_edges(e.paths, e.hops), groups=groups, node_names=dict(e.names), edge_places={})
    if e.unit != NODE_UNIT:
        paths = _reach_place(e.paths)
        groups = tuple(replace(group, paths=_reach_place(group.paths)) for group in e.groups)
        called = e.name if isinstance(e.target, tuple) else f"{e.unit} {e.name}"
        names = {**e.node_names, PLACE: called}
        e = replace(e, paths=paths, groups=groups, target=PLACE, node_names=names, unit=NODE_UNIT)
    if e.output.kind not in (BINARY, LABELS):
        return e
    column = e.output.column(e.class_after)
    classes = (e.class_name(0), e.class_name(1))
    if e.output.kind == LABELS:
        classes = (f"not {e.column_name(column)}", e.column_name(column))
    logits = [_beside_nothing(z[None, column])[0] for z in (e.logits_before, e.logits_after)]
    chances = [np.array([1.0 - p[column], p[column]]) for p in (e.prob_before, e.prob_after)]
    return replace(
        e,
        class_before=int(logits[0][1] > 0),
        class_after=int(logits[1][1] > 0),
        prob_before=chances[0],
        prob_after=chances[1],
        logits_before=logits[0],
        logits_after=logits[1],
        contributions=_beside_nothing(e.contributions[:, column]),
        groups=tuple(
            replace(group, contributions=_beside_nothing(group.contributions[:, column])) for group in e.groups
        ),
        causes={kind: _beside_nothing(part[None, column])[0] for kind, part in e.causes.items()},
        class_names=classes,
        output=CLASSES_OUTPUT,
    )


def _reach_place(paths: IntArray) -> IntArray:
    """The same with what is predicted as their last station."""
    return np.concatenate([paths, np.full((len(paths), 1), PLACE)], axis=1) if len(paths) else paths


def key_of(target: Target) -> int | str:
    """What stands for a target in the address of its page."""
    return f"{target[0]}-{target[1]}" if isinstance(target, tuple) else target


def _beside_nothing(column: FloatArray) -> FloatArray:
    """[n] -> [n, 2]: the logit of no is 0."""
    return np.stack([np.zeros_like(column), column], axis=1)
