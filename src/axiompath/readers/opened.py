"""Operations of features that are recorded as the smaller ones they are made of: norms, statistics, bilinear maps.

Each function is the formula in plain torch, and its calls are recorded in place of the operation; NotImplemented leaves
the operation as it is. That it is the right formula is seen where the recording is compared with a plain call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

Dims = int | Sequence[int] | None


def _all(x: Tensor, dim: Dims) -> list[int]:
    if dim is None or dim == []:
        return list(range(x.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def _norm(x: Tensor, order: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The order-th root of the sum of powers."""
    dims = _all(x, dim)
    if order == inf:
        return x.abs().amax(dims, keepdim)
    if order == 1:
        return x.abs().sum(dims, keepdim)
    if order == 2:
        return (x * x).sum(dims, keepdim).sqrt()
    return x.abs().pow(order).sum(dims, keepdim).pow(1 / order)


def _var_mean(x: Tensor, dim: Any = None, *, correction: float | None = 1, keepdim: bool = False) -> Any:
    dims = _all(x, dim)
    size = 1
    for d in dims:
        size *= x.shape[d]
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    var = (centred * centred).sum(dims, keepdim) / max(size - (1 if correction is None else correction), 0)
    return var, mean if keepdim else mean.sum(dims)


def _var(x: Tensor, dim: Any = None, **options: Any) -> Tensor:
    found: Tensor = _var_mean(x, dim, **options)[0]
    return found


def _std(x: Tensor, dim: Any = None, **options: Any) -> Tensor:
    return _var(x, dim, **options).sqrt()


def _normed(x: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    var, mean = _var_mean(x, dims, correction=0, keepdim=True)
    scale = (var + eps).rsqrt()
    return (x - mean) * scale, mean, scale


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Each channel, the second dimension, times its weight plus its bias."""
    shape = [1, -1] + [1] * (x.dim() - 2)
    x = x if weight is None else x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


def _batch_norm(
    x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Of a norm that takes its mean and deviation from all rows, and keeps no running ones."""
    if not training or mean is not None:
        return NotImplemented
    found, mean, scale = _normed(x, [d for d in range(x.dim()) if d != 1], eps)
    return _affine(found, weight, bias), mean.flatten(), scale.flatten()


def _group_norm(x: Tensor, weight: Any, bias: Any, n: int, c: int, size: int, groups: int, eps: float) -> Any:
    found, mean, scale = _normed(x.reshape(n, groups, -1), [2], eps)
    return _affine(found.view(x.shape), weight, bias), mean.view(n, groups), scale.view(n, groups)


def _trilinear(
    a: Tensor, b: Tensor, c: Tensor, expand1: Any, expand2: Any, expand3: Any, over: Any, unroll_dim: int = 1
) -> Tensor:
    """A product of three tensors, added up over some dimensions."""
    found = []
    for tensor, dims in ((a, expand1), (b, expand2), (c, expand3)):
        for d in sorted(dims):
            tensor = tensor.unsqueeze(d)
        found.append(tensor)
    return (found[0] * found[1] * found[2]).sum(over)


def _max_pool(x: Tensor, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), *rest: Any) -> Any:
    """The largest of each window; where it was is not said."""
    if any(padding) or set(dilation) != {1} or any(rest):
        return NotImplemented
    for d, (size, step) in enumerate(zip(kernel, stride or kernel, strict=True), x.dim() - 2):
        x = x.unfold(d, size, step)
    found = x.amax((-2, -1))
    return found, torch.zeros(found.shape, dtype=torch.long)


def _pad(x: Tensor, pad: Sequence[int], value: float = 0.0) -> Any:
    """A constant put before and after what is there, the last dimension first."""
    if min(pad) < 0:
        return NotImplemented
    for i, size in enumerate(pad):
        shape = list(x.shape)
        shape[-1 - i // 2] = size
        beside = torch.full(shape, value, dtype=x.dtype)
        x = torch.cat([x, beside] if i % 2 else [beside, x], -1 - i // 2) if size else x
    return x


OPENED: dict[str, Callable[..., Any]] = {
    "linalg_vector_norm": _norm,
    "var": _var,
    "std": _std,
    "var_mean": _var_mean,
    "native_batch_norm": _batch_norm,
    "native_group_norm": _group_norm,
    "_trilinear": _trilinear,
    "max_pool2d_with_indices": _max_pool,
    "constant_pad_nd": _pad,
    "logsumexp": lambda x, dim, keepdim=False: x.exp().sum(dim, keepdim).log(),
    "logit": lambda x, eps=None: (x / (1 - x)).log() if eps is None else NotImplemented,
    "dot": lambda a, b: (a * b).sum(),
}
