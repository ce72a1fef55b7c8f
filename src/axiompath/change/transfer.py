"""Change + layer -> Transfer: one step through a layer, in the states delta, after and before.

A walk goes over an entry (V, U) of the layer from one state to another, and what it carries is multiplied by

                 to delta    to after    to before
    from delta   kept        gained      -lost
    from after               after
    from before                          before

Multipliers go down (from z of V, through the maps, to h of U), values go up.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..native.layers import LayerArrays
from .comparison import Change


class Transfer:
    """One layer of a change."""

    def __init__(self, change: Change, layer: int) -> None:
        self.change, self.number = change, layer
        self.layer, self.entries, self.rates = change.network.layers[layer], change.layers[layer], change.rates[layer]
        self.width_below = change.network.layers[layer - 1].width if layer else change.network.num_features
        self.is_lowest = layer == change.lowest_hop

    @cached_property
    def arrays(self) -> LayerArrays:
        """The layer as kernels take it."""
        inputs, outputs = self.layer.lay_out(inputs=True), self.layer.lay_out(inputs=False)
        weights = [np.zeros(0) if c.weight is None else c.weight.ravel() for c in self.layer.channels]
        sizes = np.array([len(weight) for weight in weights])
        firsts = np.where([c.weight is None for c in self.layer.channels], -1, np.cumsum(sizes) - sizes)
        channels = np.column_stack(
            [inputs[:, 3], inputs[:, [1, 2, 0]], outputs[:, [1, 2, 0]], firsts],
        ).astype(np.int64)
        entries, rates = self.entries, self.rates
        return LayerArrays(
            np.ascontiguousarray(entries.indptr),
            np.ascontiguousarray(entries.indices),
            np.ascontiguousarray(entries.before),
            np.ascontiguousarray(entries.after),
            np.ascontiguousarray(entries.kept),
            np.ascontiguousarray(entries.kept_before),
            np.ascontiguousarray(entries.kept_after),
            np.ascontiguousarray(entries.marks),
            np.ascontiguousarray(channels),
            np.concatenate(weights, dtype=np.float64),
            None if rates is None else np.ascontiguousarray(rates.slopes),
            None if rates is None else np.ascontiguousarray(rates.place),
            None if self.layer.bias is None else np.ascontiguousarray(self.layer.bias, dtype=np.float64),
            self.layer.width,
            self.width_below,
            entries.local,
        )
