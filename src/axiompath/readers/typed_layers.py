"""PyG convolution over several relations -> Form: one channel per relation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag
from torch import Tensor
from torch_geometric.nn import FastRGCNConv, HANConv, HGTConv, RGATConv, RGCNConv

from ..arrays import FloatArray
from ..network.activations import gelu, leaky_relu, relu
from ..network.attention import AdditiveAttention
from ..network.messages import RECEIVER, SENDER, Delivered, Gathered
from ..network.relations import OfRelation
from ..network.softmaxes import ScoreSoftmax
from ..network.typed_attention import JointAttention, RelationScores, RelationShare
from .aggregations import gather
from .calls import Call, TypedModule, array, register_reader, transposed, vector
from .convolutions import require_sum
from .edge_messages import edge_features, require_types
from .forms import Form, concatenate


@register_reader(RGCNConv, FastRGCNConv)
def read_rgcn_conv(conv: RGCNConv, call: Call) -> Form:
    """sum over relations of the mean (or another aggregation) of X over its edges, times W of it;  + X W_root + b."""
    require_types(call)
    weights = _weights(conv.weight, conv.comp if conv.num_bases is not None else None, conv.num_blocks)
    parts = [gather(conv, call.within(r), call.sent) @ weight for r, weight in enumerate(weights)]
    out = sum(parts[1:], parts[0])
    out = out + call.x @ array(conv.root) if conv.root is not None else out
    return out + vector(conv.bias)


@register_reader(RGATConv)
def read_rgat_conv(conv: RGATConv, call: Call) -> Form:
    """For each head, the softmax of leaky_relu(h[V] q + h[U] k + E W_e e) times h[U],  h = X W of the relation."""
    require_sum(conv, call)
    require_types(call)
    if conv.mod is not None or conv.attention_mode != "additive-self-attention":
        call.refuse(
            "scales attention by degrees or multiplies its scores; train with mod=None and "
            'attention_mode="additive-self-attention".'
        )
    based, relations = conv.num_bases is not None, range(conv.num_relations)
    weights = _weights(conv.basis if based else conv.weight, conv.att if based else None, conv.num_blocks)

    def at(end: str) -> Form:
        parts = [call.aggregate(call.x @ weights[r], OfRelation(Gathered(end, conv.flow), r)) for r in relations]
        return call.hold(sum(parts[1:], parts[0]))

    sent = at(SENDER)
    scores = at(RECEIVER) @ array(conv.q) + sent @ array(conv.k)
    if call.argument("edge_attr") is not None:
        scores = scores + call.linear(conv.lin_edge, edge_features(call)) @ array(conv.e)
    scores = call.activate(scores, leaky_relu(conv.negative_slope))
    into, heads = Delivered(flow=conv.flow), []
    for head in range(conv.heads):
        own, score = (
            sent.select(np.arange(conv.out_channels) + head * conv.out_channels),
            scores.select(np.array([head])),
        )
        if conv.attention_mechanism == "across-relation":
            heads.append(call.aggregate(own, ScoreSoftmax(into), reads=score))
            continue
        parts = [call.aggregate(own, OfRelation(ScoreSoftmax(into), r), reads=score) for r in relations]
        heads.append(sum(parts[1:], parts[0]))
    out = concatenate(heads) if conv.concat else (1.0 / len(heads)) * sum(heads[1:], heads[0])
    return out + vector(conv.bias)


@register_reader(HGTConv)
def read_hgt_conv(conv: HGTConv, call: TypedModule) -> dict[str, Form]:
    """For each head, over all relations:  softmax(p Q[V] . K[U] A) (X W_v + b_v) M;  gelu, W_out + b, a skip."""
    heads, size = conv.heads, conv.out_channels // conv.heads
    shown = call.hold(concatenate(list(call.forms.values())))
    first = dict(zip(call.forms, np.cumsum([0, *(form.width for form in call.forms.values())]).tolist(), strict=False))
    keys, queries, values = ({kind: _third(conv, kind, part) for kind in call.forms} for part in range(3))

    def spread(kind: str, weight: FloatArray) -> FloatArray:
        found = np.zeros((shown.width, weight.shape[1]))
        found[first[kind] : first[kind] + len(weight)] = weight
        return found

    def scores(relation: tuple[str, str, str], head: int) -> RelationScores:
        columns = slice(head * size, (head + 1) * size)
        within = array(conv.k_rel.weight)[head * len(conv.edge_types) + conv.edge_types_map[relation]]
        scale = float(conv.p_rel["__".join(relation)][0, head].detach()) / np.sqrt(size)
        (key, key_bias), (query, query_bias) = keys[relation[0]], queries[relation[2]]
        return RelationScores(
            call.along[relation].relation,
            call.along[relation].ends or (0, 0),
            spread(relation[2], query[:, columns]) * scale,
            query_bias[columns] * scale,
            spread(relation[0], key[:, columns] @ within),
            key_bias[columns] @ within,
        )

    # A type that no relation of this graph leads to, though the model knows one, is given sums of nothing.
    reached = {end for _, _, end in call.along}
    sums: dict[str, list[Form]] = {
        kind: [Form((), np.zeros(conv.out_channels), conv.out_channels, form.name, form.node_type)]
        for kind, form in call.forms.items()
        if kind in conv.dst_node_types and kind not in reached
    }
    for kind in call.forms:
        into = [relation for relation in call.along if relation[2] == kind]
        for head in range(heads) if into else ():
            parts = tuple(scores(relation, head) for relation in into)
            found = []
            for place, relation in enumerate(into):
                weight, bias = values[relation[0]]
                within = array(conv.v_rel.weight)[head * len(conv.edge_types) + conv.edge_types_map[relation]]
                columns = slice(head * size, (head + 1) * size)
                sent = call.hold(call.forms[relation[0]] @ (weight[:, columns] @ within) + bias[columns] @ within)
                found.append(call.receive(sent, JointAttention(parts, place), call.along[relation], shown))
            sums.setdefault(kind, []).append(sum(found[1:], found[0]))
    out = {}
    for kind in [kind for kind in call.forms if kind in sums]:
        heard = concatenate(sums[kind])
        out[kind] = call.linear(conv.out_lin.lins[kind], call.activate(heard, gelu()) if heard.terms else heard)
        if out[kind].width == call.forms[kind].width:
            share = float(conv.skip[kind].detach().sigmoid())
            out[kind] = share * out[kind] + (1.0 - share) * call.forms[kind]
    return out


def _third(conv: HGTConv, kind: str, part: int) -> tuple[FloatArray, FloatArray]:
    """W and b of keys, queries or values."""
    linear, size = conv.kqv_lin.lins[kind], conv.out_channels
    columns = slice(part * size, (part + 1) * size)
    bias = np.zeros(3 * size) if linear.bias is None else array(linear.bias)
    return transposed(linear.weight)[:, columns], bias[columns]


@register_reader(HANConv)
def read_han_conv(conv: HANConv, call: TypedModule) -> dict[str, Form]:
    """For each relation, relu(attention(h) h),  h = X W + b;  weighed by softmax(mean of q . tanh(W_k . + b))."""
    heads, size = conv.heads, conv.out_channels // conv.heads
    held = {kind: call.hold(call.linear(conv.proj[kind], form)) for kind, form in call.forms.items()}
    outs: dict[str, list[Form]] = {}
    for relation, within in call.along.items():
        source, _, target = relation
        own = source == target
        shown = held[source] if own else call.hold(concatenate([held[source], held[target]]))
        key = "__".join(relation)
        ends = array(conv.lin_src[key])[0], array(conv.lin_dst[key])[0]
        found = []
        for head in range(heads):
            columns = np.arange(head * size, (head + 1) * size)
            sender, receiver = (np.zeros(shown.width) for _ in range(2))
            sender[columns] += ends[0][head]
            receiver[columns + (0 if own else held[source].width)] += ends[1][head]
            rule = AdditiveAttention(sender, receiver, conv.negative_slope, False)
            sent = held[source].select(columns)
            found.append(call.receive(sent, replace(within, rule=rule), within, shown))
        outs.setdefault(target, []).append(call.activate(concatenate(found), relu()))
    weight, bias, direction = transposed(conv.k_lin.weight), array(conv.k_lin.bias), array(conv.q)[0]
    result = {}
    for kind in call.forms:
        parts = outs.get(kind, [])
        if not parts:
            continue
        shown = call.hold(concatenate(parts))
        number = parts[0].node_type
        assert number is not None
        shares = [RelationShare(weight, bias, direction, place, number) for place in range(len(parts))]
        weighed = [call.aggregate(part, share, reads=shown) for part, share in zip(parts, shares, strict=True)]
        result[kind] = sum(weighed[1:], weighed[0])
    return result


def _weights(maps: Tensor, shares: Tensor | None, blocks: int | None) -> list[FloatArray]:
    """A map [inputs, outputs] for each relation, written out where they are shares of bases, or blocks."""
    if shares is not None:
        return list(np.tensordot(array(shares), array(maps), axes=1))
    return list(array(maps)) if blocks is None else [block_diag(*parts) for parts in array(maps)]
