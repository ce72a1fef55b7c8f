"""Explanation -> sentences: what happened, how much is explained, what the network itself answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import FloatArray
from ..graphs.labels import ABSENT, ANY, ONE_WAY, TO
from ..graphs.places import GRAPHS, LINKS, NODE_UNIT, UNIT_OF
from ..outputs import BINARY, CLASSES, LABELS, VALUE, show_apart
from .hops import TO_EDGE

if TYPE_CHECKING:
    from .explanation import Explanation

WORDS = {"path": "path", "edge": "edge", "layer_edge": "layer edge"}  # what is chosen, by `by`
ENDS = {UNIT_OF[GRAPHS]: "the graph", UNIT_OF[LINKS]: "the link"}  # what paths end at that is no node


def view(e: Explanation) -> tuple[str, FloatArray]:
    """What shares are shares of, in words and as weights of the columns [num_classes].

    Of classes the logit of the new one against the old one, of a label its logit, of values the column itself. Where
    the class stayed, its probability: its logit may go up while that goes down.
    """
    old, new = e.class_before, e.class_after
    if e.output.kind == CLASSES and old == new:
        return f"the probability of {_class(e, new)}", chance_weights(e)
    weights = e.output.weights(old, new, len(e.logits_before))
    if e.output.kind == CLASSES:
        return f"the logit of {_class(e, new)} against {_class(e, old)}", weights
    column = e.output.column(new)
    if e.output.kind == BINARY:
        return f"the logit of {e.class_name(1)}", weights
    return ("the logit of " * (e.output.kind == LABELS) + e.column_name(column)), weights


def _class(e: Explanation, label: int) -> str:
    """A class within a sentence: a bare number would be read as a count."""
    name = e.class_name(label)
    return f"class {label}" if name == str(label) else name


def chance_weights(e: Explanation) -> FloatArray:
    """Weights of the columns [num_classes] that make shares of the new class's probability of shares of the logits."""
    ends = e.logits_before[None], e.logits_after[None]
    return np.asarray(e.output.slopes(np.array([e.class_after]), *ends)[0])


def headline(e: Any) -> str:
    """What happened to the prediction of a record, with both answers and their probabilities; without a full stop."""
    shown = f"{e.unit.capitalize()} {e.name}"
    old, new = e.class_before, e.class_after
    column = e.output.column(new)

    def called(label: int) -> str:
        return str(e.output.class_name(label, e.class_names))

    named = e.output.column_name(column, e.class_names, len(e.logits_before))
    if e.output.kind == VALUE:
        low, high = float(e.logits_before[column]), float(e.logits_after[column])
        quantity, (before, after) = named, show_apart([low, high], 4, "g")
        return f"{shown}: {quantity} went from {before} to {after} ({high - low:+.3g})"
    before, after = show_apart([float(e.prob_before[column]), float(e.prob_after[column])])
    if e.output.kind == LABELS:
        others = int(((e.logits_before > 0) != (e.logits_after > 0)).sum())
        others -= bool((e.logits_before[column] > 0) != (e.logits_after[column] > 0))
        more = f"; {others} other label{'s' * (others != 1)} changed" if others else ""
        return f"{shown}: {named} went from {before} to {after}{more}"
    if e.output.kind == BINARY:
        became = f"stayed {called(new)}" if old == new else f"went from {called(old)} to {called(new)}"
        return f"{shown} {became} (probability of {called(1)}: {before} before, {after} after)"
    if old == new:
        return f"{shown} stayed in class {called(new)} ({before} before, {after} after)"
    return (
        f"{shown} went from class {called(old)} ({e.prob_before[old]:.2f}) "
        f"to class {called(new)} ({e.prob_after[new]:.2f})"
    )


def verdict(e: Explanation) -> str:
    """The same and how much of it is explained, with a full stop."""
    if e.retrained is not None:
        return _verdict_of_models(e)
    if e.num_paths == 0:
        return f"{headline(e)}; nothing that reaches it changed."
    if len(e.paths) == 0:
        return f"{headline(e)}; none of its {_count(e, e.num_paths)} was chosen."
    if not np.isfinite(e.explained):
        return f"{headline(e)}; its distribution did not change, and only the chosen {WORDS[e.by]}s would change it."
    return f"{headline(e)}. {chosen_explain(e)} {100 * e.explained:.0f} % of the change."


def chosen_explain(e: Explanation) -> str:
    """What was chosen of how much, and the verb that goes with it."""
    return f"{_chosen(e)} {_explain(e)}"


def _chosen(e: Explanation) -> str:
    num_groups, num_held = len(e.groups), sum(e.sizes)
    if num_groups == 0:
        return _of_all(e)
    parts = [f"{num_groups:,} group{'s' * (num_groups != 1)} of paths"]
    if num_groups < len(e.paths):
        parts.append(f"{len(e.paths) - num_groups:,} single path{'s' * (len(e.paths) - num_groups != 1)}")
    return f"{' and '.join(parts)} (together {num_held:,} of {e.num_paths:,} altered paths)"


def _of_all(e: Explanation) -> str:
    return f"{len(e.paths):,} of {_count(e, e.num_paths)}"


def _count(e: Explanation, number: int) -> str:
    """So many of what was chosen from."""
    kind = "altered" if e.by == "path" else "changed"
    return f"{number:,} {kind} {WORDS[e.by]}{'s' * (number != 1)}"


def _explain(e: Explanation) -> str:
    """What the chosen do, be they one or many."""
    return "explains" if len(e.paths) == 1 else "explain"


def unit_name(e: Explanation, i: int) -> str:
    """A chosen path by its nodes, a group by how its paths end and how many there are, an edge by its ends."""
    if e.layers is not None:
        return _edge_name(e, i, int(e.layers[i]))
    nodes = path_name(e, e.paths[i].tolist())
    if not (e.paths[i] == ANY).any():
        return nodes
    end = nodes if e.unit == NODE_UNIT else f"{nodes} → {ENDS[e.unit]}"
    size = e.sizes[i]
    return f"any path that ends {end} ({size:,} path{'s' * (size != 1)})"


def _edge_name(e: Explanation, i: int, layer: int) -> str:
    """An edge, with an arrow where it has a direction; or the features of a leaf."""
    src, dst = e.paths[i].tolist()
    if e.kinds[i] == "feature":
        return f"features of {e.name_of(src)}"
    ends = [f"the {e.unit}" if end < 0 else e.name_of(end) for end in (src, dst)]
    named = any((u, v) == (src, dst) for u, v, _ in e.relations)
    between = ONE_WAY if e.directed and e.directed[i] else TO
    return f"{(e.step(src, dst) if named else between).join(ends)}{f', layer {layer}' if layer else ''}"


def path_name(e: Explanation, path: Sequence[int]) -> str:
    """The nodes of a path; of its edges those that say more: its first place, one of several, what a receiver adds."""
    shown = []
    for p, node in enumerate(path):
        last, following = path[p - 1] if p else None, path[p + 1] if p + 1 < len(path) else None
        edge = e.edge_places.get(node)
        stays = e.edge_places and node == last and (node < 0 or e.hops[p - 1].flow == TO_EDGE)
        over = edge is not None and edge.among == 1 and last != following and {last, following} == {edge.src, edge.dst}
        if node not in (ANY, ABSENT) and not stays and not over:
            shown.append(node)
    return "".join(f"{e.step(shown[p - 1], node) if p else ''}{e.name_of(node)}" for p, node in enumerate(shown))


def _verdict_of_models(e: Explanation) -> str:
    """The same if the model differs: how much is the model's, how much the data's."""
    about, weights = view(e)
    model, data, both = (float(part @ weights) for part in (e.model_share, e.data_share, e.interaction))
    sentence = (
        f"{headline(e)}. The model was retrained: of the change of {about}, {model + data:+.3f}, the model "
        f"accounts for {model:+.3f} and the data for {data:+.3f}"
    )
    if e.num_paths == 0:
        return f"{sentence}; nothing that reaches it changed in the graph."
    sentence = f"{sentence} (an interaction of {both:+.3f} is split evenly)."
    if len(e.paths) == 0:
        return f"{sentence} None of its {_count(e, e.num_paths)} was chosen."
    if not np.isfinite(e.explained):
        return f"{sentence} Its distribution did not change, and only the chosen {WORDS[e.by]}s would change it."
    return f"{sentence} {_of_all(e)}, with the model's share, {_explain(e)} {100 * e.explained:.0f} % of the change."


def of_paths(e: Explanation) -> str:
    """The verdict without what happened: how much is explained, and of two models whose part is how large."""
    rest = verdict(e).removeprefix(headline(e)).lstrip(".; ")
    return rest[:1].upper() + rest[1:]


def summary(e: Explanation, limit: int = 5) -> str:
    """What happened; which changes did it and the least to undo, where the graphs are at hand; then the paths: how much
    of it these explain, what the network answers, and which they are."""
    if e.num_paths == 0 or len(e.paths) == 0:
        return verdict(e)
    first = [] if e.happened is None else e.happened.describe_lines(limit)
    # Paths of a window begin after time has passed, what happened before that.
    first[:1] = [f"{e.happened.headline or headline(e)}. {line}" for line in first[:1]]
    about, weights = view(e)
    shown = [
        f"  {unit_name(e, i)}  ({kind}, {value:+.3f})"
        for i, (kind, value) in enumerate(zip(e.kinds[:limit], (e.contributions @ weights).tolist(), strict=False))
    ]
    if len(e.paths) > limit:
        shown.append(f"  and {len(e.paths) - limit:,} more")
    begun = of_paths(e) if first else verdict(e)
    said = " ".join(part for part in (begun, replayed(e), others(e)) if part)
    names = f"The {WORDS[e.by]}s, with their shares of {about} in brackets:"
    return "\n".join([*first, said, names, *shown])


def others(e: Explanation) -> str:
    """What the units that were not chosen add and take away, in a sentence; empty where all were.

    The chosen ones can explain all of a change although others are as large, where these cancel.
    """
    number = e.num_paths - sum(size for size, kind in zip(e.sizes, e.kinds, strict=True) if kind != "unchanged")
    if len(e.paths) == 0 or number <= 0:
        return ""
    about, weights = view(e)
    paths = f"The other {number:,} {WORDS[e.by]}{'s' * (number != 1)}"
    verb, ending = ("adds", "takes") if number == 1 else ("add", "take")
    if e.left_out is None:
        net = float((e.data_share - e.contributions.sum(axis=0)) @ weights)
        return f"{paths} {verb} {net:+.3g} to {about} in total; how much cancels among them is not known."
    up, down = e.left_out
    return f"{paths} {verb} {up:.3g} to {about} and {ending} {abs(down):.3g} away."


def replayed(e: Explanation) -> str:
    """What the network itself answers with the chosen paths, in a sentence or two; empty where none were chosen."""
    if len(e.paths) == 0:
        return ""
    if e.retrained is not None:
        return _replayed_of_models(e)
    if np.isnan(e.network_share):
        return ""
    doing, goal = _doing(e)
    share = f"{100 * e.network_share:.0f} %"
    if not e.disagrees:
        goes = f"goes {share} of the way to {goal}" if e.network_share > 0 else f"comes no nearer to {goal}"
        return f"The network itself, run {doing}, {goes}."
    goes = f"goes only {share} of the way to {goal}" if e.network_share > 0 else f"comes no nearer to {goal}"
    return (
        f"But the network itself, run {doing}, {goes}: on their own they meet neurons that the other changes switch. "
        f"Read them with care, or ask for more {WORDS[e.by]}s."
    )


def _doing(e: Explanation) -> tuple[str, str]:
    """What the network is run with, and what it should come to."""
    if e.objective == "necessity":
        how = "with these paths undone in `after`" if e.by == "path" else "on `after` with exactly these put back"
        return how, "`before`"
    how = "with these paths added to `before`" if e.by == "path" else "on `before` with exactly these put in"
    return how, "`after`"


def _replayed_of_models(e: Explanation) -> str:
    """What each model by itself makes of them: undone in `after` it can come to its own answer on `before`."""
    assert e.retrained is not None
    (doing, goal), clauses = _doing(e), []
    found = e.retrained.fidelity_minus if e.objective == "necessity" else e.retrained.fidelity_plus
    for word, left in zip(("old", "new"), found, strict=True):
        share = e.output.explained(1.0, float(left))
        if not np.isnan(share):
            goes = f"goes {100 * share:.0f} % of the way" if share > 0 else "comes no nearer"
            clauses.append(f"the {word} model {goes} to its own answer on {goal}")
    doing = doing.capitalize() if e.by == "path" else f"Run {doing}"
    return f"{doing}, {' and '.join(clauses)}." if clauses else ""
