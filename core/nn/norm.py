"""Normalisation layers: over the last dims, over groups of channels, over the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.dtype import float32, int64
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    local_response_norm,
)
from rushlight.core.nn import init
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor


def _check_channels(name: str, x: Tensor, channels: int) -> None:
    if x.ndim < 2 or x.shape[1] != channels:
        raise ValueError(f"{name}: x is {x.shape}; it must have {channels} channels in dim 1")


def _dims(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (Ba et al., 2016).

    `normalized_shape` is an int or the sizes of the last dims, `eps` keeps the root from zero.
    `elementwise_affine`: weights, and with `bias` also biases, are learned. `device` and
    `dtype` are those of the parameters. A call raises ShapeError for an input that does not end
    in that shape.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.normalized_shape = _dims(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = parameter(*self.normalized_shape) if elementwise_affine else None
        self.bias = parameter(*self.normalized_shape) if elementwise_affine and bias else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Weights one, biases zero."""
        _identity(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape) -> the same."""
        return ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape, eps, and whether there are weights."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dims (Zhang and Sennrich, 2019).

    eps=None is the machine epsilon of the dtype of x, as in torch.

    `normalized_shape` is an int or the sizes of the last dims. `elementwise_affine`: weights
    are learned. `device` and `dtype` are those of the weights. A call raises ShapeError for an
    input that does not end in that shape.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.normalized_shape = _dims(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = parameter(*self.normalized_shape) if elementwise_affine else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Weights one."""
        _identity(self.weight, None)

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape) -> the same."""
        return ops.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape, eps, and whether there are weights."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Zero mean and unit variance over groups of channels (Wu and He, 2018).

    (n, num_channels, ...) -> the same. `num_groups` divides the channels. `eps` keeps the root
    from zero. `affine`: weights, and with `bias` also biases, are learned. `device` and `dtype`
    are those of the parameters. Raises ValueError for groups that do not divide the channels, a
    call for an input of other channels.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Place = None,
        dtype: Kind = None,
        *,
        bias: bool = True,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_groups} groups do not divide {num_channels}")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self.weight = parameter(num_channels) if affine else None
        self.bias = parameter(num_channels) if affine and bias else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Weights one, biases zero."""
        _identity(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(n, num_channels, ...) -> the same."""
        _check_channels("GroupNorm", input, self.num_channels)
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Sizes, eps, and whether there are weights."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _BatchNorm(Module):
    """Zero mean and unit variance per channel over the batch; in eval by running values."""

    ranks: tuple[int, ...] = ()
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Place = None,
        dtype: Kind = None,
        *,
        bias: bool = True,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = parameter(num_features) if affine else None
        self.bias = parameter(num_features) if affine and bias else None
        for name, shape, kind in (
            ("running_mean", (num_features,), float32),
            ("running_var", (num_features,), float32),
            ("num_batches_tracked", (), int64),
        ):
            bare = ops.empty(shape, dtype=kind, device="meta")
            self.register_buffer(name, bare if track_running_stats else None)
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Set weights and running variance to one; biases, running mean and count to zero."""
        _identity(self.weight, self.bias)
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Set the running variance to one, the running mean and the count to zero."""
        _identity(self.running_var, self.running_mean)
        if self.num_batches_tracked is not None:
            init.zeros_(self.num_batches_tracked)

    def forward(self, input: Tensor) -> Tensor:
        """(n, num_features, ...) -> the same."""
        if self.ranks and input.ndim not in self.ranks:
            dims = " or ".join(map(str, self.ranks))
            raise ValueError(
                f"{type(self).__name__}: input is {input.shape}; it must have {dims} dims"
            )
        _check_channels(type(self).__name__, input, self.num_features)
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None and self.running_mean is not None:  # average over all batches
                momentum = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        batch = self.training or self.running_mean is None
        return batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            batch,
            momentum,
            self.eps,
        )

    def extra_repr(self) -> str:
        """Size and options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (n, channels) or (n, channels, length) (Ioffe and Szegedy, 2015).

    `num_features` counts channels, `eps` keeps the root from zero. `momentum` is the share of a
    batch in the running statistics; None takes the mean of all. `affine`: weights, and with
    `bias` also biases, are learned. `track_running_stats`: evaluation uses the running
    statistics. `device` and `dtype` are those of the parameters. A call raises ValueError for
    an input of other dims or channels.
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (n, channels, h, w) (Ioffe and Szegedy, 2015).

    `num_features` counts channels, `eps` keeps the root from zero. `momentum` is the share of a
    batch in the running statistics; None takes the mean of all. `affine`: weights, and with
    `bias` also biases, are learned. `track_running_stats`: evaluation uses the running
    statistics. `device` and `dtype` are those of the parameters. A call raises ValueError for
    an input of other dims or channels.
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (n, channels, d, h, w) (Ioffe and Szegedy, 2015).

    `num_features` counts channels, `eps` keeps the root from zero. `momentum` is the share of a
    batch in the running statistics; None takes the mean of all. `affine`: weights, and with
    `bias` also biases, are learned. `track_running_stats`: evaluation uses the running
    statistics. `device` and `dtype` are those of the parameters. A call raises ValueError for
    an input of other dims or channels.
    """

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (n, channels, ...). There is one process, so nothing to synchronize.

    As in torch where no process group is initialized.

    `num_features` counts channels, `eps` keeps the root from zero. `momentum` is the share of a
    batch in the running statistics; None takes the mean of all. `affine`: weights, and with
    `bias` also biases, are learned. `track_running_stats`: evaluation uses the running
    statistics. `process_group` is kept. `device` and `dtype` are those of the parameters. A
    call raises ValueError for an input of other dims or channels.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Place = None,
        dtype: Kind = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch norm, itself included, as a SyncBatchNorm of its tensors."""
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, _InstanceNorm):
            converted = cls.__new__(cls)
            vars(converted).update(vars(module), process_group=process_group)
        for name, child in module.named_children():
            setattr(converted, name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class _InstanceNorm(_BatchNorm):
    """Each channel of each row normalized over its own elements (Ulyanov et al., 2016)."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Place = None,
        dtype: Kind = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        """(n, num_features, ...) -> the same; also without n."""
        if input.ndim not in self.ranks:
            dims = " or ".join(map(str, self.ranks))
            raise ValueError(
                f"{type(self).__name__}: input is {input.shape}; it must have {dims} dims"
            )
        rows = input if input.ndim == max(self.ranks) else input.unsqueeze(0)
        by_batch = self.training or self.running_mean is None
        out = instance_norm(
            rows,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            by_batch,
            self.momentum or 0.0,
            self.eps,
        )
        return out if rows is input else out.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (n, channels, length).

    `num_features` counts channels, `eps` keeps the root from zero. `momentum` is the share of a
    batch in the running statistics; None takes the mean of all. `affine`: weights, and with
    `bias` also biases, are learned. `track_running_stats`: evaluation uses the running
    statistics. `device` and `dtype` are those of the parameters. A call raises ValueError for an
    input of other dims, and with `affine` of other channels (Ulyanov et al., 2016).
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (n, channels, h, w).

    `num_features` counts channels, `eps` keeps the root from zero. `momentum` is the share of a
    batch in the running statistics; None takes the mean of all. `affine`: weights, and with
    `bias` also biases, are learned. `track_running_stats`: evaluation uses the running
    statistics. `device` and `dtype` are those of the parameters. A call raises ValueError for an
    input of other dims, and with `affine` of other channels (Ulyanov et al., 2016).
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (n, channels, d, h, w).

    `num_features` counts channels, `eps` keeps the root from zero. `momentum` is the share of a
    batch in the running statistics; None takes the mean of all. `affine`: weights, and with
    `bias` also biases, are learned. `track_running_stats`: evaluation uses the running
    statistics. `device` and `dtype` are those of the parameters. A call raises ValueError for an
    input of other dims, and with `affine` of other channels (Ulyanov et al., 2016).
    """

    ranks = (4, 5)


class LocalResponseNorm(Module):
    """`local_response_norm` with fixed options (Krizhevsky et al., 2012).

    x / (k + `alpha` * mean of squares)^`beta`, over `size` neighbouring channels, with `k`
    added. A call raises ValueError for an input of less than 3 dims.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """(n, channels, ...) -> the same."""
        return local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """x / (k + alpha / size * sum of squares)^beta, of `size` neighbouring channels.

    The neighbours are torch's: channel 0 counts for all channels from the window's end on, and
    the window of an even size is one narrower. `LocalResponseNorm` has none of this.
    The gradient is the derivative of that; torch's own backward computes another number.

    `alpha`, `beta` and `k` are the numbers above. A call raises ValueError for other than 4
    dims.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(n, channels, h, w) -> the same."""
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: input is {input.shape}; it must have 4 dims")
        count, reach = input.shape[1], (self.size - 1) // 2
        near = [
            [float(abs(i - j) <= reach or (j == 0 and i > reach)) for j in range(count)]
            for i in range(count)
        ]
        table = of_data(near, dtype=input.dtype, device=input.device)
        sums = (table @ input.square().flatten(2)).reshape(*input.shape)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta


def _identity(weight: Tensor | None, bias: Tensor | None) -> None:
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
