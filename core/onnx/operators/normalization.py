"""Normalizations over batches, channels, groups of these, last dims, and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional import declared as rl
from rushlight.core.functional.network.tables import resample
from rushlight.core.nn import functional as F
from rushlight.core.onnx.element_types import element_type
from rushlight.core.onnx.registry import Call, operator


def _per_channel(values: Any, x: Any) -> Any:
    """(channels,), or the sizes after the first dim, that broadcasts against `x`."""
    if values.ndim > 1:  # of opset 7 and 8, without `spatial`
        return values.to(x.dtype)
    return values.to(x.dtype).reshape(-1, *[1] * max(x.ndim - 2, 0))


@operator("BatchNormalization", stored=(1, 2, 3, 4))
def batch_normalization(call: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    """Each channel with the mean and variance told; in training its own, and the moved ones."""
    eps, momentum = call.float("epsilon", 1e-5), call.float("momentum", 0.9)
    call.ignore("spatial", "is_test", "consumed_inputs")
    training = call.flag("training_mode") if call.opset >= 14 else any(call.wanted[1:])
    shape = mean.shape
    scale, bias, mean, var = (_per_channel(v, x) for v in (scale, bias, mean, var))
    if not training:
        factor = scale * (var + eps).rsqrt()
        return x * factor + (bias - mean * factor)
    dims = [0] if len(shape) > 1 else [0, *range(2, x.ndim)]
    batch_mean = x.mean(dims, True)
    batch_var = (x - batch_mean).square().mean(dims, True)
    y = (x - batch_mean) * ((batch_var + eps).rsqrt() * scale) + bias
    flat = batch_mean.reshape(*shape), batch_var.reshape(*shape)
    moved = [
        old.reshape(*shape) * momentum + new * (1 - momentum)
        for old, new in zip((mean, var), flat, strict=True)
    ]
    call.result_kinds = [call.kinds[0], call.kinds[3], call.kinds[4], call.kinds[3], call.kinds[4]]
    return [y, *moved, *flat]


@operator("InstanceNormalization", stored=(1, 2))
def instance_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    """Each channel of each row over its own elements (Ulyanov et al., 2016)."""
    eps, (n, c) = call.float("epsilon", 1e-5), x.shape[:2]
    rows = x.reshape(n, c, -1)
    y = F.layer_norm(rows, rows.shape[-1], eps=eps).reshape(*x.shape)
    return y * _per_channel(scale, x) + _per_channel(bias, x)


@operator("GroupNormalization", stored=(1, 2))
def group_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    """Groups of channels over their elements (Wu and He, 2018)."""
    groups, eps = call.int("num_groups"), call.float("epsilon", 1e-5)
    call.ignore("stash_type")
    n, c = x.shape[:2]
    if groups < 1 or c % groups:
        raise call.fail(f"num_groups={groups} does not divide the {c} channels")
    rows = x.reshape(n, groups, -1)
    y = F.layer_norm(rows, rows.shape[-1], eps=eps)
    if call.opset < 21:  # scale and bias are those of groups
        y = y * scale.to(x.dtype).reshape(-1, 1) + bias.to(x.dtype).reshape(-1, 1)
        return y.reshape(*x.shape)
    return y.reshape(*x.shape) * _per_channel(scale, x) + _per_channel(bias, x)


@operator("LayerNormalization", stored=(1, 2))
def layer_normalization(call: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    """The dims from `axis` on (Ba et al., 2016), their mean, and one over their deviation."""
    eps = call.float("epsilon", 1e-5)
    axis = normalize_dim("axis", call.int("axis", -1), x.shape)
    kind = element_type(call.int("stash_type", 1), call.title)
    shape = tuple(x.shape[axis:])
    scale, bias = scale.to(x.dtype), None if bias is None else bias.to(x.dtype)
    fits = tuple(scale.shape) == shape and (bias is None or tuple(bias.shape) == shape)
    if fits:
        y = F.layer_norm(x, shape, scale, bias, eps)
    else:
        y = F.layer_norm(x, shape, eps=eps) * scale
        y = y if bias is None else y + bias
    if not any(call.wanted[1:]):
        return y
    dims = list(range(axis, x.ndim))
    stash = kind.carried if kind.carried is not None else x.dtype
    wide = x.to(stash)
    mean = wide.mean(dims, True)
    inverse = ((wide - mean).square().mean(dims, True) + eps).rsqrt()
    call.result_kinds = [call.kinds[0], kind, kind]
    return [y, mean, inverse]


@operator("RMSNormalization", stored=(1,))
def rms_normalization(call: Call, x: Any, scale: Any) -> Any:
    """The dims from `axis` on, divided by their root mean square (Zhang and Sennrich, 2019)."""
    eps = call.float("epsilon", 1e-5)
    axis = normalize_dim("axis", call.int("axis", -1), x.shape)
    call.ignore("stash_type")
    call.result_kinds = [call.kinds[1]]
    shape, scale = tuple(x.shape[axis:]), scale.to(x.dtype)
    if tuple(scale.shape) == shape:
        return F.rms_norm(x, shape, scale, eps)
    return F.rms_norm(x, shape, eps=eps) * scale


@operator("LRN")
def lrn(call: Call, x: Any) -> Any:
    """x / (bias + alpha / size * the sum of squares of `size` channels around)^beta."""
    size, alpha = call.int("size"), call.float("alpha", 1e-4)
    beta, bias = call.float("beta", 0.75), call.float("bias", 1.0)
    n, c = x.shape[:2]
    places = np.arange(c)[:, None] + np.arange(size) - (size - 1) // 2
    table = np.where((places >= 0) & (places < c), places, -1), np.ones(places.shape)
    squares = resample(x.square().reshape(n, c, -1), [table, None]).reshape(*x.shape)
    return x / (squares * (alpha / size) + bias) ** beta


@operator("LpNormalization")
def lp_normalization(call: Call, x: Any) -> Any:
    """x divided by its p-norm along `axis`; 0 where that is 0."""
    p, axis = call.int("p", 2), call.int("axis", -1)
    if p not in (1, 2):
        raise call.fail(f"p={p} is not supported; supported: 1, 2")
    norm = x.abs().sum(axis, True) if p == 1 else x.square().sum(axis, True).sqrt()
    return rl.where(norm == 0, 0.0, x / rl.where(norm == 0, 1.0, norm)).to(x.dtype)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(call: Call, x: Any) -> Any:
    """Zero mean and unit variance over `axes`."""
    dims = call.ints("axes", None) or [0, 2, 3]
    centred = x - x.mean(dims, True)
    return centred / (centred.square().mean(dims, True).sqrt() + 1e-9)
