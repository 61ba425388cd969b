"""Mixed precision: `rl.amp`, torch's module of that name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.core.backends import KINDS
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.func.tree import mapped
from rushlight.core.ops.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from rushlight.core.optim.grad_scaler import GradScaler
from rushlight.core.tensor.tensor import Tensor

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` knows this kind of device."""
    return device_type in KINDS


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: DType | str | None = None) -> Any:
    """Decorator of the forward of an `rl.autograd.Function`.

    With cast_inputs, within autocast: floating tensors of the device are cast to it, and forward
    runs as outside of autocast. Without, it runs as it is called. `custom_bwd` does the same again.

    `fwd` is the forward, `device_type` "cpu" or "webgpu". It raises nothing of its own.
    """
    if fwd is None:
        return lambda fn: custom_fwd(fn, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def call(ctx: Any, *args: Any, **options: Any) -> Any:
        on = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **options)
        goal = as_dtype(cast_inputs)

        def change(x: Any) -> Any:
            fits = isinstance(x, Tensor) and x.device.type == device_type
            fits = fits and x.dtype.kind == "f" and x.dtype.itemsize < 8
            return x.to(goal) if fits else x

        with autocast(device_type, enabled=False):
            return fwd(ctx, *mapped(change, args), **mapped(change, options))

    return call


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorator of the backward of an `rl.autograd.Function`: in the mode of its forward."""
    if bwd is None:
        return lambda fn: custom_bwd(fn, device_type=device_type)
    function = bwd

    @wraps(function)
    def call(ctx: Any, *args: Any, **options: Any) -> Any:
        with autocast(device_type, ctx._dtype, ctx._fwd_used_autocast):
            return function(ctx, *args, **options)

    return call
