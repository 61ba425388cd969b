"""torch.testing: assert_close and make_tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight.core.functional.declared as f
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# torch's relative and absolute tolerances.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Sequences and dicts are compared item by item. The tolerances are torch's for the dtype; of
    other dtypes values must be equal. Shapes, dtypes and devices must be equal.
    """
    if isinstance(expected, dict):
        _check(actual.keys() == expected.keys(), f"keys differ: {list(actual)}, {list(expected)}")
        pairs = [(actual[key], expected[key]) for key in expected]
    elif isinstance(expected, list | tuple):
        _check(len(actual) == len(expected), f"lengths differ: {len(actual)}, {len(expected)}")
        pairs = list(zip(actual, expected, strict=True))
    else:
        _check_pair(actual, expected, rtol, atol, equal_nan, check_device, check_dtype, msg)
        return
    for a, b in pairs:
        assert_close(
            a,
            b,
            rtol=rtol,
            atol=atol,
            equal_nan=equal_nan,
            check_device=check_device,
            check_dtype=check_dtype,
            msg=msg,
        )


def _check(holds: bool, why: str) -> None:
    if not holds:
        raise AssertionError(why)


def _check_pair(
    actual: Any,
    expected: Any,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_device: bool,
    check_dtype: bool,
    msg: Any,
) -> None:
    a, b = (x if isinstance(x, Tensor) else tensor(x) for x in (actual, expected))
    _check(a.shape == b.shape, f"shapes differ: {a.shape}, {b.shape}")
    if check_device:
        _check(a.device is b.device, f"devices differ: {a.device}, {b.device}")
    if check_dtype:
        _check(a.dtype is b.dtype, f"dtypes differ: {a.dtype}, {b.dtype}")
    known = [_TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (a, b)]
    r = max(k[0] for k in known) if rtol is None else rtol
    t = max(k[1] for k in known) if atol is None else atol
    x, y = (_wide(v) for v in (a, b))
    with np.errstate(invalid="ignore"):
        near = (x == y) | (np.isfinite(y) & (np.abs(x - y) <= t + r * np.abs(y)))
    if equal_nan:
        near |= np.isnan(x) & np.isnan(y)
    if not near.all():
        count, worst = int((~near).sum()), float(np.nanmax(np.abs(x - y)))
        text = (
            f"values differ at {count} of {near.size} places; greatest difference {worst}, "
            f"allowed {t} + {r} * |expected|"
        )
        raise AssertionError(msg(text) if callable(msg) else msg or text)


def _wide(x: Tensor) -> np.ndarray[Any, Any]:
    """The values in float64 or complex128, or as integers."""
    if x.dtype.kind == "c":
        return x.detach().cpu().numpy().astype(np.complex128)
    if x.dtype.is_floating_point:
        return (
            x.detach().cpu().float().numpy().astype(np.float64)
            if x.dtype.itemsize < 8
            else (x.detach().cpu().numpy())
        )
    return x.detach().cpu().numpy().astype(np.int64)


assert_allclose = assert_close


def make_tensor(
    *shape: Any,
    dtype: DType | str,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Random values from low to high: by default -9 to 9, of unsigned integers 0 to 9."""
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    kind = as_dtype(dtype)
    if kind.name == "bool":
        return f.randint(0, 2, size, device=device).bool()
    least = (0 if kind.kind == "u" else -9) if low is None else low
    most = 10 if high is None else high
    if kind.is_floating_point or kind.kind == "c":
        values = f.rand(*size, dtype=kind, device=device) * (most - least) + least
    else:
        values = f.randint(int(least), int(most), size, device=device).to(kind)
    if exclude_zero:
        values = f.where(values == 0, f.ones_like(values), values)
    if noncontiguous and values.numel() > 1:
        values = values.repeat_interleave(2, dim=-1)[..., ::2]
    return values.detach().requires_grad_() if requires_grad else values
