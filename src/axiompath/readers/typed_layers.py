"""PyG convolution that tells edges of several relations apart -> Form: one channel a relation."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag
from torch_geometric.nn import FastRGCNConv, RGCNConv

from ..arrays import FloatArray
from ..network.relations import OfRelation
from .calls import Call, array, register_reader, vector
from .convolutions import sum_or_mean
from .forms import Form


@register_reader(RGCNConv, FastRGCNConv)
def read_rgcn_conv(conv: RGCNConv, call: Call) -> Form:
    """sum over relations of the mean (or sum) of X over its edges, times W of the relation;  + X W_root + b."""
    if not call.typed:
        call.refuse("expected the field `edge_type` of the data, the relation of each edge; pass it.")
    rule = sum_or_mean(conv, call)
    parts = [call.aggregate(call.x, OfRelation(rule, r)) @ weight for r, weight in enumerate(_weights(conv))]
    out = sum(parts[1:], parts[0])
    out = out + call.x @ array(conv.root) if conv.root is not None else out
    return out + vector(conv.bias)


def _weights(conv: RGCNConv) -> list[FloatArray]:
    """A map [inputs, outputs] for each relation, written out where they are made of bases or blocks."""
    weight = array(conv.weight)
    if conv.num_bases is not None:
        return list(np.tensordot(array(conv.comp), weight, axes=1))
    return [block_diag(*blocks) for blocks in weight] if conv.num_blocks is not None else list(weight)
