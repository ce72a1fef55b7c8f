"""PyG convolution that joins nodes without an edge between them -> Form: hyperedges, attention to a whole graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn
from torch_geometric.nn import GPSConv, HypergraphConv

from ..network.attention import GlobalAttention
from ..network.hyperedges import Incidence
from .calls import READERS, Call, array, register_reader, vector
from .forms import Form


@register_reader(HypergraphConv)
def read_hypergraph_conv(conv: HypergraphConv, call: Call) -> Form:
    """D^-1 H B^-1 H' X W + b,  H[V, e] = 1 where node V is in hyperedge e: edge_index says so."""
    if conv.use_attention:
        call.refuse("use_attention=True needs features of hyperedges, which paths do not know; train without it.")
    if call.argument("hyperedge_weight") is not None:
        call.refuse("hyperedge_weight weighs hyperedges, which paths do not know; train without it.")
    call.argument("num_edges")  # of no consequence: what is in no hyperedge takes nothing
    out = call.linear(conv.lin, call.aggregate(call.x, Incidence()))
    if not conv.concat:
        out = out @ np.tile(np.eye(conv.out_channels) / conv.heads, (conv.heads, 1))
    return out + vector(conv.bias)


@register_reader(GPSConv)
def read_gps_conv(conv: GPSConv, call: Call) -> Form:
    """norm(Z + nn(Z)),  Z = norm(X + conv(X)) + norm(X + attention of every node to all of its graph)."""
    batch = call.argument("batch")
    if not isinstance(conv.attn, nn.MultiheadAttention):
        call.refuse('attn_type="performer" attends by random features; train with attn_type="multihead".')
    if conv.norm_with_batch and conv.norm1 is not None and batch is not None:
        call.refuse('its norm is taken over each graph of a batch; train with norm="batch_norm".')
    x, parts = call.hold(call.x), []
    if conv.conv is not None:
        reader = READERS.get(type(conv.conv))
        if reader is None:
            call.refuse(f"its conv is of type {type(conv.conv).__name__}, for which there is no reader.")
        parts.append(_normed(call, conv.norm1, reader(conv.conv, call) + x, "norm1"))
    parts.append(_normed(call, conv.norm2, attend(conv.attn, call, x, by_graph=batch is not None) + x, "norm2"))
    out = call.hold(sum(parts[1:], parts[0]))
    return _normed(call, conv.norm3, out + call.run(conv.mlp, out, "mlp"), "norm3")


def attend(attention: Any, call: Call, x: Form, *, by_graph: bool) -> Form:
    """For each head  softmax(X W_q . X W_k / sqrt(width)) X W_v;  then all heads times W + b."""
    width, heads = attention.embed_dim, attention.num_heads
    weight, bias = array(attention.in_proj_weight).T, vector(attention.in_proj_bias)
    bias = np.zeros(3 * width) if bias is None else bias
    size, parts = width // heads, []
    for head in range(heads):
        query, key, value = (slice(i * width + head * size, i * width + (head + 1) * size) for i in range(3))
        scale = size**-0.5
        rule = GlobalAttention(
            scale * weight[:, query], scale * bias[query], weight[:, key], bias[key], by_graph=by_graph
        )
        out = array(attention.out_proj.weight).T[head * size : (head + 1) * size]
        # Shares sum to 1, so that what is added to every value comes once.
        parts.append(call.aggregate(x @ weight[:, value], rule, reads=x) @ out + bias[value] @ out)
    return sum(parts[1:], parts[0]) + vector(attention.out_proj.bias)


def _normed(call: Call, norm: Any, form: Form, name: str) -> Form:
    return form if norm is None else call.run(norm, form, name)
