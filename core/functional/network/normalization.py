"""Group, batch, instance and local response normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.network.pooling import avg_pool2d
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.declare import network
from rushlight.core.ops.movement import pad
from rushlight.core.ops.norm import layer_norm
from rushlight.core.tensor import autograd

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each row normalized over its own elements (Ulyanov et al., 2016).

    `input` is (n, channels, ...); `weight` and `bias` (channels,) scale and shift. `running_mean`
    and `running_var` move by `momentum`, or are used without `use_input_stats`. `eps` keeps the
    root from zero. Raises ValueError for one value per channel, ShapeError for shapes that do not
    fit.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, c = input.shape[:2]
    rows = input.reshape(1, n * c, *input.shape[2:])
    mean = None if running_mean is None else running_mean.repeat(n)
    var = None if running_var is None else running_var.repeat(n)
    out = batch_norm(rows, mean, var, None, None, True, momentum, eps).reshape(*input.shape)
    for running, current in ((running_mean, mean), (running_var, var)):
        if running is not None and current is not None:
            running.copy_(current.reshape(n, c).mean(0))
    shape = [-1 if d == 1 else 1 for d in range(input.ndim)]
    out = out if weight is None else out * weight.reshape(*shape)
    return out if bias is None else out + bias.reshape(*shape)


@network
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * the mean square of `size` neighbouring channels)^beta.

    `input` is (n, channels, ...) (Krizhevsky et al., 2012). Raises ShapeError for less than 3 dims.
    """
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm: x is {input.shape}; it must have 3 dims or more")
    if not input.numel():
        return input
    squares = input.square()
    n, c = input.shape[:2]
    flat = squares.reshape(n, 1, c, -1)
    padded = pad(flat, (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(padded, (size, 1), 1).reshape(*input.shape)
    return input / (mean * alpha + k) ** beta


@network
@casts(accelerator="float32")
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance over groups of channels (Wu and He, 2018); same shape.

    input: (n, channels, ...); weight and bias (channels,) scale and shift. ValueError if the groups
    do not divide the channels.

    `num_groups` divides the channels; `eps` keeps the root from zero.
    """
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {num_groups} groups do not divide dim 1 of {input.shape}")
    size = input.numel() // max(input.shape[0] * num_groups, 1)
    rows = input.reshape(input.shape[0], num_groups, size)
    out = layer_norm(rows, size, eps=eps).reshape(*input.shape)
    if weight is not None:
        out = out * _per_channel(input, weight)
    return out if bias is None else out + _per_channel(input, bias)


@network
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance per channel (Ioffe and Szegedy, 2015); same shape.

    input: (n, channels, ...). Training uses the batch's mean and variance and moves the running
    values (channels,) toward them by `momentum`, in place. Otherwise the running values are used.
    An empty input, (0,) too, gives an empty result and moves nothing. ValueError for an input
    without channels, for one value per channel in training, or for missing running values
    otherwise.

    `running_mean` and `running_var` are (channels,) or None, `weight` and `bias` (channels,) scale
    and shift; `eps` keeps the root from zero.
    """
    if not input.numel():
        scale_, shift = (0.0 if p is None else p.sum() for p in (weight, bias))
        return input * scale_ + shift
    if input.ndim < 2:
        raise ShapeError(f"batch_norm: input is {input.shape}; it must be (n, channels, ...)")
    if training:
        dims = (0, *range(2, input.ndim))
        count = input.numel() // input.shape[1]
        if count < 2:
            raise ShapeError(f"batch_norm: {input.shape} gives one value per channel to train on")
        mean = input.mean(dims, True)
        var = (input - mean).square().mean(dims, True)
        with autograd.no_grad():
            for running, now, scale in (
                (running_mean, mean, 1.0),
                (running_var, var, count / (count - 1)),
            ):
                if running is not None:
                    flat = now.detach().reshape(-1).to(running.dtype)
                    running.mul_(1 - momentum).add_(flat * (momentum * scale))
    elif running_mean is None or running_var is None:
        raise ValueError("batch_norm: running values are missing; only training can omit them")
    else:
        mean, var = _per_channel(input, running_mean), _per_channel(input, running_var)
    scale_ = (var + eps).rsqrt()
    if weight is not None:
        scale_ = scale_ * _per_channel(input, weight)
    out = (input - mean) * scale_
    return out if bias is None else out + _per_channel(input, bias)


def _per_channel(x: Tensor, values: Tensor) -> Tensor:
    """A (channels,) tensor reshaped to broadcast along dim 1 of `x`."""
    return values.to(x.dtype).reshape(1, -1, *[1] * (x.ndim - 2))
