"""torch function -> what it does to forms: tables by the function's name.

`relu`, `F.relu`, `Tensor.relu_` and `nn.ReLU` all arrive here under one name, so each needs one line. A function of
the table AFFINE takes the call's own arguments, with a Form wherever the features were, so that defaults and keywords
mean what they mean in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from ..arrays import FloatArray
from ..network.attention import InverseLength
from ..network.coefficients import Rule
from ..network.readouts import End, Pooled, PooledType
from ..network.statistics import Moments
from .bases import Bases
from .calls import array, vector
from .elementwise import Unsupported
from .forms import Form, concatenate, one_type
from .norms import normalise_graphs, normalise_nodes, standardise


@dataclass(frozen=True, eq=False)
class Stack:
    """Forms of one width along a new dimension of their own: the layers that a model is about to add up."""

    forms: tuple[Form, ...]
    dim: int  # 0, 1 or 2


@dataclass(frozen=True, eq=False)
class Place:
    """Where a function is called: what it may add bases to, and the shape of what it gave."""

    bases: Bases
    num_nodes: int
    shape: tuple[int, ...]
    looks_up: bool = False  # the model looks rows up by whole numbers, so that features may be some


Value: TypeAlias = Form | Stack

MEMBERS, SIZES, ENDS = "members", "sizes", "ends"


@dataclass(frozen=True)
class Marker:
    """A value that features do not go into, by what it means: which graph a node belongs to, sizes, ends of pairs."""

    kind: str
    number: int = -1  # of the end; -1 for both


def form_of(value: Any) -> Form:
    """The value, if it is one row of features a node."""
    if isinstance(value, Form):
        return value
    raise Unsupported(
        "expected features of shape [num_nodes, width] as its input "
        f"(got {'stacked layers' if isinstance(value, Stack) else type(value).__name__})."
    )


def constant_of(value: Any) -> float | FloatArray:
    """A number, or one number per feature; what differs from node to node is no constant of the model."""
    if not isinstance(value, torch.Tensor):
        return float(value)
    values = array(value)
    if values.size == 1:
        return float(values.item())
    rows = values.reshape(-1, values.shape[-1])
    if values.ndim > 2 or (rows != rows[0]).any():
        raise Unsupported(
            f"combines features with a tensor of shape {tuple(values.shape)} that belongs to single nodes, which the "
            "other snapshot may not have; make it a part of `x`."
        )
    return np.asarray(rows[0])


def _broadcast(form: Form, other: Form | float | FloatArray) -> Form:
    """A single column is repeated where the other side has more, as torch does."""
    width = other.width if isinstance(other, Form) else np.size(other)
    return form @ np.ones((1, width)) if form.width == 1 < width else form


def add(place: Place, x: Any, y: Any, *, alpha: float = 1.0) -> Value:
    """x + alpha y."""
    if not isinstance(x, Form):
        return add(place, mul(place, y, alpha), x)
    form = form_of(x)
    other = form_of(y) * alpha if isinstance(y, (Form, Stack)) else alpha * constant_of(y)
    form = _broadcast(form, other)
    return place.bases.of_one_kind(form + (_broadcast(other, form) if isinstance(other, Form) else other))


def sub(place: Place, x: Any, y: Any, *, alpha: float = 1.0) -> Value:
    """x - alpha y."""
    return add(place, x, y, alpha=-alpha)


def mul(place: Place, x: Any, y: Any) -> Value:
    """x times a constant, or times another value of the same node."""
    if not isinstance(x, (Form, Stack)):
        x, y = y, x
    if isinstance(y, (Form, Stack)):
        x, y = form_of(x), form_of(y)
        return place.bases.multiply([_broadcast(x, y), _broadcast(y, x)])
    if isinstance(x, Stack):
        return _scale_stack(x, y)
    constant = constant_of(y)
    return _broadcast(form_of(x), constant) * constant


def div(place: Place, x: Any, y: Any, *, rounding_mode: str | None = None) -> Value:
    """x over a constant; a sum over graphs over their sizes is a mean."""
    if isinstance(y, Marker) and y.kind == SIZES:
        return _mean_of(place, form_of(x))
    if isinstance(y, torch.Tensor) and isinstance(x, Form) and place.shape[:1] == (1,) and (y == place.num_nodes).all():
        with suppress(Unsupported):  # counted on a batch of zeros, which the model makes itself for one graph
            return _mean_of(place, x)
    if isinstance(y, (Form, Stack, Marker)) or rounding_mode is not None:
        raise Unsupported("divides by features, or rounds; only features over a constant can be read.")
    return mul(place, x, 1.0 / (y.detach().double() if isinstance(y, torch.Tensor) else y))


def matmul(place: Place, x: Any, weight: Any) -> Form:
    """x @ weight."""
    if not isinstance(weight, torch.Tensor) or weight.dim() != 2:
        raise Unsupported(
            "expected features times a matrix of the model (got another product); a matrix on the left of the features "
            "mixes nodes, which only a convolution may."
        )
    return form_of(x) @ array(weight)


def linear(place: Place, input: Any, weight: Any, bias: Any = None) -> Form:
    """x @ weight' + bias."""
    return matmul(place, input, weight.t() if isinstance(weight, torch.Tensor) else weight) + vector(bias)


def cat(place: Place, tensors: Sequence[Any], dim: int = 0) -> Form:
    """Features side by side; constants among them become columns of one value."""
    if dim not in (1, -1):
        raise Unsupported("puts nodes below one another; only features can be concatenated, along the last dimension.")
    parts = []
    for part in tensors:
        if isinstance(part, torch.Tensor):
            width = part.shape[-1]
            parts.append(Form((), np.broadcast_to(constant_of(part), (width,)).copy(), width, "x"))
        else:
            parts.append(form_of(part))
    one_type(*parts)
    return place.bases.of_one_kind(concatenate(parts or [Form((), None, 0, "x")]))


def stack(place: Place, tensors: Sequence[Any], dim: int = 0) -> Value:
    """Layers to be added up; or single columns side by side."""
    if len(place.shape) == 2 and dim in (1, -1):
        return cat(place, tensors, 1)
    return Stack(tuple(form_of(part) for part in tensors), dim % 3)


def total(place: Place, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Form:
    """The sum of stacked layers, or of a node's own features."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if isinstance(x, Stack) and len(dims) == 1 and dims[0] % 3 == x.dim and not keepdim:
        return sum(x.forms[1:], x.forms[0])
    if isinstance(x, Form) and dims in ((1,), (-1,)):
        return x @ np.ones((x.width, 1))  # one column, whether the dimension is kept or not
    if isinstance(x, Form) and dims in ((0,), (-2,)):
        return pool(place, x)
    raise Unsupported("adds up over everything; only sums over features, or over the nodes of a graph, can be read.")


def mean(place: Place, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Form:
    """The mean of stacked layers, or of a node's own features."""
    form = total(place, x, dim, keepdim)
    if isinstance(x, Form) and dim in (0, -2, (0,), (-2,), [0], [-2]):
        return _mean_of(place, form)
    return form * (1.0 / (len(x.forms) if isinstance(x, Stack) else x.width))


def chunk(place: Place, x: Any, chunks: int, dim: int = 0) -> tuple[Form, ...]:
    """Ranges of columns, nearly equal."""
    return split(place, x, -(-form_of(x).width // chunks), dim)


def split(place: Place, x: Any, split_size: Any, dim: int = 0) -> tuple[Form, ...]:
    """Ranges of columns of the given sizes."""
    form = form_of(x)
    if dim not in (1, -1):
        raise Unsupported("splits the nodes; only features can be split, along the last dimension.")
    step = split_size if isinstance(split_size, int) else None
    sizes = [min(step, form.width - i) for i in range(0, form.width, step)] if step else list(split_size)
    ends = np.cumsum(sizes)
    return tuple(form.select(np.arange(end - size, end)) for end, size in zip(ends, sizes, strict=True))


def get_item(place: Place, x: Any, index: Any) -> Form:
    """x[:, columns], or x at one end of the pairs."""
    form = form_of(x)
    if isinstance(index, Marker) and index.kind == ENDS:
        return replace(place.bases.aggregate(form, End(index.number)), node_type=None)
    if isinstance(index, Marker) and index.kind == MEMBERS:
        raise Unsupported(
            "gives every node what its graph made of all of its nodes, as attention over a graph does, which does not "
            "split into paths; only a sum, mean, maximum or minimum over each graph can be read."
        )
    whole = (slice(None), Ellipsis)
    if isinstance(index, tuple) and len(index) == 2 and any(index[0] is w or index[0] == w for w in whole):
        columns = np.arange(form.width)[np.asarray(index[1]) if not isinstance(index[1], slice) else index[1]]
        return form.select(np.atleast_1d(columns))
    raise Unsupported("picks nodes, or adds a dimension; only a choice of columns, x[:, a:b], can be read.")


def index_select(place: Place, input: Any, dim: int, index: Any) -> Form:
    """x at one end of the pairs, or some columns."""
    return get_item(place, input, index if dim in (0, -2) else (slice(None), index))


def scatter_add(place: Place, zeros: Any, dim: int, index: Any, src: Any) -> Form:
    """The sum over the nodes of each graph."""
    one = isinstance(index, torch.Tensor) and place.shape[0] == 1 and len(index) == place.num_nodes  # a batch of zeros
    if dim in (0, -2) and (one or (isinstance(index, Marker) and index.kind == MEMBERS)):
        return pool(place, form_of(src))
    raise Unsupported(
        "adds up nodes outside of a convolution; only a sum or mean over each graph, by `batch`, can be read; else put "
        "it into a MessagePassing module and register a reader."
    )


def pool(place: Place, form: Form, within: Callable[[Rule], Rule] = lambda rule: rule) -> Form:
    """The sum over the nodes of each graph, or what `within` makes of that; where nodes have types, over one type."""
    rule = Pooled() if form.node_type is None else PooledType(form.node_type)
    return replace(place.bases.aggregate(form, within(rule)), node_type=None)


def _mean_of(place: Place, form: Form) -> Form:
    """Sums over graphs, over the graphs' sizes."""
    form = place.bases.opened(form)
    sums = [term.coefficients for term in form.terms]
    if form.bias is not None or not all(isinstance(rule, (Pooled, PooledType)) and not rule.mean for rule in sums):
        raise Unsupported("divides something else than a sum over graphs by the sizes of the graphs.")
    means = [replace(rule, mean=True) for rule in sums if isinstance(rule, (Pooled, PooledType))]
    terms = tuple(replace(term, coefficients=rule) for term, rule in zip(form.terms, means, strict=True))
    return replace(form, terms=terms)


def reshape(place: Place, x: Any, *_: Any, **__: Any) -> Form:
    """Shapes that leave everything as it was; one column may lose its dimension, or have one more."""
    form = form_of(x)
    if place.shape[-1:] == (form.width,) and len(place.shape) == 2:
        return form
    if form.width == 1 and len(place.shape) == 1:
        return form
    raise Unsupported(f"gives features another shape, {place.shape}; only [num_nodes, width] can be read.")


def batch_norm(
    place: Place, input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Form:  # fmt: skip
    """Affine with the statistics that training has left; without any, those of the nodes."""
    form = form_of(input)
    if training or running_mean is None or running_var is None:
        moments = Moments(form.width, eps=eps)
        return normalise_graphs(place.bases, form, moments, vector(weight), vector(bias))
    return standardise(form, array(running_mean), array(running_var), eps, vector(weight), vector(bias))


def layer_norm(
    place: Place, input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Form:
    """Over the features of each node."""
    form = _whole_rows(input, normalized_shape)
    return normalise_nodes(place.bases, form, eps, vector(weight), vector(bias), centred=True)


def rms_norm(place: Place, input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: Any = None) -> Form:
    """LayerNorm without centring."""
    if eps is None:
        raise Unsupported("leaves eps to the dtype; give it a number.")
    form = _whole_rows(input, normalized_shape)
    return normalise_nodes(place.bases, form, eps, vector(weight), None, centred=False)


def normalize(place: Place, input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Form:
    """Features of length 1: the length of each node is a coefficient."""
    if p != 2 or dim not in (1, -1):
        raise Unsupported(f"gives length 1 by another norm than the Euclidean one of each node (p={p}, dim={dim}).")
    return place.bases.aggregate(form_of(input), InverseLength(eps))


def _whole_rows(input: Any, normalized_shape: Sequence[int]) -> Form:
    form = form_of(input)
    if tuple(normalized_shape) != (form.width,):
        raise Unsupported(f"normalises over {tuple(normalized_shape)}; only the features of a node can be read.")
    return form


def _scale_stack(layers: Stack, factor: Any) -> Stack:
    """Each layer times its own constant; the factor is a number or a tensor that torch would broadcast."""
    if not isinstance(factor, torch.Tensor):
        return Stack(tuple(form * float(factor) for form in layers.forms), layers.dim)
    shape = (1,) * (3 - factor.dim()) + tuple(factor.shape)
    nodes = 1 if layers.dim == 0 else 0
    if len(shape) != 3 or shape[nodes] != 1:
        raise Unsupported("multiplies stacked layers by something that differs from node to node.")
    parts = (
        factor.detach()
        .reshape(shape)
        .expand(*(len(layers.forms) if dim == layers.dim else size for dim, size in enumerate(shape)))
    )
    return Stack(
        tuple(form * constant_of(parts.select(layers.dim, i)) for i, form in enumerate(layers.forms)), layers.dim
    )


def unchanged(place: Place, x: Any, *args: Any, **kwargs: Any) -> Form:
    """Functions that leave their first argument as it is."""
    for setting in (*args, *kwargs.values()):
        if isinstance(setting, torch.dtype) and not setting.is_floating_point and not _are_numbers(place, x):
            raise Unsupported(f"rounds features to {setting}; keep them floating-point numbers.")
    return form_of(x)


def _refuse(reason: str) -> Callable[..., Form]:
    def refuse(*_: Any, **__: Any) -> Form:
        raise Unsupported(reason)

    return refuse


_kinds = ("to", "float", "double", "half", "bfloat16", "type", "type_as", "cpu")
_same = ("contiguous", "clone", "detach", "data", "requires_grad", "retain_grad", *_kinds)
_shapes = ("view", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "view_as", "expand_as", "reshape_as")
_ranks = ("topk", "sort", "median", "argmax", "argmin", "kthvalue")
_scatters = ("scatter", "segment_reduce", "index_reduce")

# Functions that leave every number as it was, but for shape or precision.
COPIES = frozenset((*_same, *_shapes, "long"))


def _whole(place: Place, x: Any, *_: Any, **__: Any) -> Form:
    """Of features that are whole numbers, for rows to be looked up."""
    if not _are_numbers(place, x):
        raise Unsupported("turns features into whole numbers; keep them floating-point.")
    return form_of(x)


def _are_numbers(place: Place, x: Any) -> bool:
    return place.looks_up and isinstance(x, Form) and place.bases.is_given(x)


AFFINE: dict[str, Callable[..., Value | tuple[Form, ...]]] = {
    "add": add,
    "sub": sub,
    "subtract": sub,
    "__rsub__": lambda place, x, y: sub(place, y, x),
    "rsub": lambda place, x, y: sub(place, y, x),
    "neg": lambda place, x: -form_of(x),
    "mul": mul,
    "multiply": mul,
    "div": div,
    "true_divide": div,
    "matmul": matmul,
    "mm": matmul,
    "addmm": lambda place, input, mat1, mat2: add(place, matmul(place, mat1, mat2), input),
    "linear": linear,
    "cat": cat,
    "concat": cat,
    "concatenate": cat,
    "hstack": lambda place, tensors: cat(place, tensors, 1),
    "stack": stack,
    "sum": total,
    "mean": mean,
    "chunk": chunk,
    "split": split,
    "__getitem__": get_item,
    "index_select": index_select,
    "scatter_add": scatter_add,
    "index_add": scatter_add,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "normalize": normalize,
    **dict.fromkeys(_same, unchanged),
    **dict.fromkeys(("long", "int", "short", "bool"), _whole),
    **dict.fromkeys(_shapes, reshape),
    **dict.fromkeys(
        _ranks,
        _refuse(
            "puts features in an order of their size, which does not split into paths; use a maximum or attention."
        ),
    ),
    **dict.fromkeys(
        _scatters,
        _refuse("adds up nodes outside of a convolution; put it into a MessagePassing module and register a reader."),
    ),
    "__setitem__": _refuse("writes into a part of a tensor; build the new one with torch.cat or torch.where instead."),
}
