"""Network -> Links: which columns of a layer's inputs reach the logits, and over which rules.

A path exists where a sequence of channels carries columns from its leaf to the logits. A channel carries a column of
its inputs to a column of its outputs where its map has an entry that is not 0 (the identity: to the same one). Seen
from the logits, columns fall into classes: two columns that the same rules carry to the same classes above are
reached by the same walks, so that one set of states does for both. Most layers have one class; concatenations, skips
and propagations that remember their start have two or three. Columns that no channel carries anywhere have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import BoolArray, IntArray
from ..network.layers import Channel, Layer, Network


@dataclass(frozen=True, eq=False)
class Links:
    """How the sets of states at a layer's output decide those at its input."""

    groups: tuple[tuple[int, ...], ...]  # rules that act together; a link's marks are those of one group
    links: IntArray  # [num_links, 3]: class above, class below, group
    num_below: int  # classes of the layer's inputs
    biased: BoolArray  # [classes above]: the layer's bias is a source there
    local: bool


def find_links(network: Network, lowest_hop: int) -> tuple[Links | None, ...]:
    """One a layer, None below the lowest hop, whose inputs are one class: a leaf is a leaf by any of its columns."""
    found: list[Links | None] = [None] * len(network.layers)
    classes = [np.ones(network.num_classes, dtype=np.bool_)]  # columns of each
    for t in range(len(network.layers) - 1, lowest_hop - 1, -1):
        layer = network.layers[t]
        ways = _find_ways(layer, classes, network.layers[t - 1].width if t else network.num_features)
        if t == lowest_hop:
            ways = {way: np.array([columns.any()]) for way, columns in ways.items()}
        found[t], classes = _link(layer, classes, ways)
    return tuple(found)


def _find_ways(layer: Layer, classes: list[BoolArray], width: int) -> dict[tuple[int, int], BoolArray]:
    """(family of rules, class above) -> which columns of the inputs its channels carry there, [width]."""
    ways: dict[tuple[int, int], BoolArray] = {}
    for channel, rule in zip(layer.channels, layer.rule_numbers, strict=True):
        for c, columns in enumerate(classes):
            way = layer.families[rule], c
            carried = ways.setdefault(way, np.zeros(width, dtype=np.bool_))
            carried[channel.inputs] |= _carried(channel, columns[channel.outputs])
    return ways


def _carried(channel: Channel, columns: BoolArray) -> BoolArray:
    """Which of a channel's inputs it carries to one of these columns of its outputs."""
    if channel.weight is None:
        return columns
    return np.asarray((channel.weight[:, columns] != 0).any(axis=1))


def _link(
    layer: Layer, classes: list[BoolArray], ways: dict[tuple[int, int], BoolArray]
) -> tuple[Links, list[BoolArray]]:
    """Columns that go the same ways are one class; those that go none are left out."""
    names = list(ways)
    patterns, member = np.zeros((0, 0), dtype=np.bool_), np.zeros(0, dtype=np.int64)
    if names:
        patterns, member = np.unique(np.stack([ways[way] for way in names]), axis=1, return_inverse=True)
    below: list[BoolArray] = []
    groups: dict[tuple[int, ...], int] = {}
    links = []
    for number, pattern in enumerate(patterns.T):
        if not pattern.any():
            continue
        for c in range(len(classes)):
            families = {family for (family, above), goes in zip(names, pattern, strict=True) if goes and above == c}
            rules = tuple(rule for rule, family in enumerate(layer.families) if family in families)
            if rules:
                links.append((c, len(below), groups.setdefault(rules, len(groups))))
        below.append(member.reshape(-1) == number)
    bias = np.zeros(layer.width) if layer.bias is None else layer.bias
    biased = np.array([bool(bias[columns].any()) for columns in classes], dtype=np.bool_)
    shape = np.array(links, dtype=np.int64).reshape(-1, 3)
    return Links(tuple(groups), shape, len(below), biased, layer.local), below
