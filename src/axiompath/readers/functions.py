"""Name of a tensor operation -> how it is read."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..network.activations import prelu
from . import columns, crossing, elementwise, factors, largest, registered
from .reader import Step
from .statistics import normed
from .trace import FEATURE
from .values import Value, same_in_all


def _activation(step: Step) -> Value:
    if len(step.features) != 1:
        raise step.refuse("is applied to several values of features.")
    value = step.form(step.features[0])
    found = step.reader.activate(value, elementwise.activation_of(step))
    step.reader.note(step, "activation")
    return found


def _prelu(step: Step) -> Value:
    """One slope for each column."""
    reader, value = step.reader, step.form(0).expanded(step.shapes).arranged()
    slopes = tuple(-step.run(side, {0: step.like(0, side, -1.0)}).to(torch.float64) for side in (0, 1))
    same = same_in_all(value.table((slopes[0], slopes[1])), (value.listed(0), value.listed(1)))
    if same is None or 1 in step.features:
        raise step.refuse("has slopes that differ from row to row.")
    return reader.activate(value, prelu(same))


def _times(step: Step) -> Value:
    if len(step.features) == 2:
        return normed(step) or factors.two_factors(step)
    if step.name == "div" and 1 in step.features:
        root = elementwise.root_of(step.reader, step.value)
        if root is None:
            raise step.refuse("divides by features, which has no exact reading.")
        return step.reader.activate(step.reader.read(root), elementwise.of_calls(step.reader, step.value, root))
    return columns.affine(step)


def _difference(step: Step) -> Value:
    return normed(step) or columns.affine(step)


def _where(step: Step) -> Value:
    """Chosen by structure: element-wise affine. Chosen by features: an activation of one value."""
    decides = {"where": 0, "masked_fill": 1}[step.name]
    if step.reader.kind(step.inputs[decides]) != FEATURE:
        return columns.affine(step)
    root = elementwise.root_of(step.reader, step.value)
    if root is None:
        raise step.refuse("chooses by the values of features, which has no exact reading.")
    return step.reader.activate(step.reader.read(root), elementwise.of_calls(step.reader, step.value, root))


def _batch_norm(step: Step) -> Value:
    training = step.argument(5, "training", False)
    if training is True and step.name != "_native_batch_norm_legit_no_training":
        raise step.refuse(
            "takes its mean and deviation from all rows of this graph (a BatchNorm without running statistics, or in "
            "training mode); train it with track_running_stats=True."
        )
    if step.operations[1].output != 0:
        raise step.refuse("uses the statistics of a norm by themselves.")
    return columns.affine(step)


def _same(step: Step) -> Value:
    return step.form(step.features[-1])


def _copy(step: Step) -> Value:
    """One tensor written over all of another."""
    if 1 not in step.features:
        return columns.affine(step)
    return step.form(1).expanded(step.shapes)


def _lookup(step: Step) -> Value:
    """Rows of a table named by whole numbers that are features: each row's own numbers."""
    reader = step.reader
    if 0 in step.features:
        return crossing.gather(step)
    inner = reader.read(step.inputs[1])
    tensors = tuple(reader.tensor(step.value, side) for side in (0, 1))
    if inner.row_dimension() != 0:
        raise step.refuse("looks up numbers that are not one row each.")
    return reader.leaf(tensors, inner.axis, "looked up")


FUNCTIONS: dict[str, Callable[[Step], Value]] = {
    **dict.fromkeys(
        ("add", "rsub", "neg", "lerp", "addcmul", "addcdiv", "native_dropout", "fill", "positive"),
        columns.affine,
    ),
    "sub": _difference,
    **dict.fromkeys(("mul", "div"), _times),
    **dict.fromkeys(("where", "masked_fill"), _where),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit_no_training"), _batch_norm),
    **dict.fromkeys(("detach", "alias", "clone", "lift_fresh", "contiguous", "_to_copy"), _same),
    **dict.fromkeys(
        [
            "view",
            "_unsafe_view",
            "reshape",
            "_reshape_alias",
            "unsqueeze",
            "squeeze",
            "permute",
            "t",
            "transpose",
            "unbind",
            "select",
            "slice",
            "split",
            "split_with_sizes",
            "unsafe_split",
            "chunk",
            "cat",
            "stack",
            "repeat",
            "expand",
            "as_strided",
            "as_strided_scatter",
            "diagonal",
            "slice_scatter",
            "select_scatter",
            "constant_pad_nd",
            "flip",
            "roll",
            "unfold",
        ],
        columns.view,
    ),
    **dict.fromkeys(("sum", "mean"), columns.reduce),
    **dict.fromkeys(
        ("convolution", "cumsum", "avg_pool2d", "_adaptive_avg_pool2d", "upsample_nearest1d", "upsample_linear1d"),
        columns.linear_in_rows,
    ),
    **dict.fromkeys(("index_select", "index", "gather"), crossing.gather),
    "embedding": _lookup,
    "copy": _copy,
    **dict.fromkeys(
        ("scatter_add", "index_add", "index_put", "_index_put_impl", "scatter", "scatter_reduce", "index_copy"),
        crossing.scatter,
    ),
    **dict.fromkeys(
        ("mm", "addmm", "bmm", "baddbmm", "_sparse_mm", "_sparse_addmm", "addmv", "mv", "linear"), crossing.matrix
    ),
    **dict.fromkeys((*elementwise.KNOWN, *elementwise.OTHERS), _activation),
    "_prelu_kernel": _prelu,
    "pow": factors.power,
    **dict.fromkeys(("_softmax", "_safe_softmax"), factors.softmax),
    "native_layer_norm": factors.layer_norm,
    **dict.fromkeys(("maximum", "minimum"), factors.highest),
    **dict.fromkeys(("max", "min", "amax", "amin"), largest.over_columns),
    "glu": factors.gated_linear_unit,
    "registered": registered.read_registered,
}
