"""A batch norm of evaluation taken into the layer before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from rushlight.core.nn.module import Module
from rushlight.core.nn.parameter import Parameter
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

M = TypeVar("M", bound=Module)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias that give what the layer gives with the norm after it.

    transpose: the outputs are dim 1 of the weight.

    `conv_w` and `conv_b` are the layer's weight and bias; `bn_rm`, `bn_rv` the norm's running mean
    and variance, `bn_eps`, `bn_w`, `bn_b` its eps, weight and bias. None is for a bias or weight
    that there is not. Raises ShapeError for channels that do not fit.
    """
    bias = bn_rm.zeros_like() if conv_b is None else conv_b
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    with autograd.no_grad():
        scale = (bn_rv + bn_eps).rsqrt()
        scale = scale if bn_w is None else scale * bn_w
        weight = (conv_w * scale.reshape(*shape)).to(conv_w.dtype)
        moved = (bias - bn_rm) * scale
        moved = (moved if bn_b is None else moved + bn_b).to(
            (conv_w if conv_b is None else conv_b).dtype
        )
    return (
        Parameter(weight.detach(), conv_w.requires_grad),
        Parameter(moved.detach(), bias.requires_grad),
    )


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """`fuse_conv_bn_weights` of a linear layer's weight.

    `linear_w` and `linear_b` are the layer's; `bn_rm`, `bn_rv`, `bn_eps`, `bn_w` and `bn_b` the
    norm's. Raises ShapeError for features that do not fit.
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer: M, bn: Any, transpose: bool) -> M:
    if layer.training or bn.training or bn.running_mean is None:
        raise ValueError(
            f"fuse: {type(layer).__name__} and {type(bn).__name__} must be in eval mode, the norm "
            "with running values"
        )
    copied: Any = copy.deepcopy(layer)
    weight, bias = fuse_conv_bn_weights(
        copied.weight,
        copied.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    copied.weight, copied.bias = weight, bias
    fused: M = copied
    return fused


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A copy of a convolution that does the work of the batch norm `bn` after it.

    `conv` is the layer; `transpose`: it is a transposed one. Raises RuntimeError for layers in
    training.
    """
    return _fused(conv, bn, transpose)


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A copy of a linear layer that does the work of the batch norm `bn` after it."""
    outs, features = vars(linear)["out_features"], vars(bn)["num_features"]
    if features not in (outs, 1):
        raise ValueError(f"fuse_linear_bn_eval: {outs} outputs, a norm of {features} features")
    return _fused(linear, bn, False)
