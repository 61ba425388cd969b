"""The functions of the standard as tables: its name and arguments, and torch's function of it.

MAIN, LINALG and FFT are the namespace and its two extensions. A result is a tensor where the
standard says array.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from rushlight.core.array_api.common import F, Function, dtype_of, promoted
from rushlight.core.backends import HOST
from rushlight.core.ops.declare import FFT as _T
from rushlight.core.ops.declare import LINALG as _L
from rushlight.core.tensor.convert import as_tensor, from_dlpack, tensor
from rushlight.core.tensor.tensor import Tensor

MAIN: dict[str, Function] = {"from_dlpack": from_dlpack}

# Elementwise functions. Of integers there is nothing to round.

_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf "
    "isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit "
    "sin sinh square sqrt tan tanh trunc bitwise_invert=bitwise_not"
)
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide equal=eq floor_divide greater greater_equal hypot less less_equal logaddexp "
    "logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow "
    "remainder subtract"
)
# Where torch's functions take real numbers only.
_COMPLEX: dict[str, Function] = {
    "round": lambda z: F["complex"](F["round"](z.real), F["round"](z.imag)),
    "sign": F["sgn"],
}


def _unary(name: str, fn: Function) -> Function:
    def call(x: Tensor, /) -> Any:
        if name in ("ceil", "floor", "round", "trunc") and x.dtype.kind in "ui":
            return x.clone()
        return _COMPLEX.get(name, fn)(x) if x.dtype.kind == "c" else fn(x)

    return call


def _binary(name: str, fn: Function) -> Function:
    def call(x1: Any, x2: Any, /) -> Any:
        return fn(*promoted(x1, x2))

    return call


for _make, _names in ((_unary, _UNARY), (_binary, _BINARY)):
    for _name in _names.split():
        _name, _, _torch = _name.partition("=")
        MAIN[_name] = _make(_name, F[_torch or _name])


def _clip(x: Tensor, /, min: Any = None, max: Any = None) -> Any:
    low, high = (b.to(x.dtype) if isinstance(b, Tensor) else b for b in (min, max))
    return x.clone() if low is high is None else F["clip"](x, low, high).to(x.dtype)


MAIN |= {
    "clip": _clip,
    "sign": _unary("sign", lambda x: F["where"](x == x, F["sign"](x), x)),  # nan stays
}

# Functions that make tensors.


def _asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Tensor:
    if not isinstance(obj, (Tensor, np.ndarray)) and hasattr(obj, "__dlpack__"):
        obj = from_dlpack(obj)
    there = device or (obj.device if isinstance(obj, Tensor) else HOST)
    if copy:
        return tensor(obj, dtype=dtype, device=there)
    out = as_tensor(obj, dtype=dtype, device=there)
    shares = isinstance(obj, Tensor) and out.storage is obj.storage
    shares = shares or (isinstance(obj, np.ndarray) and np.may_share_memory(out, obj))
    if copy is False and not shares:
        raise ValueError("asarray: this cannot be a tensor without a copy; use copy=None")
    return out


def _arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Any:
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step <= 0:  # torch refuses a stop that lies the other way
        start, stop, step = start, start, abs(step)
    return F["arange"](start, stop, step, dtype=dtype, device=device or HOST)


def _maker(name: str) -> Function:
    def call(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return F[name](_size(shape), dtype=dtype or "float32", device=device or HOST)

    return call


def _like(name: str) -> Function:
    def call(x: Tensor, /, *values: Any, dtype: Any = None, device: Any = None) -> Any:
        return F[name](x, *values, dtype=dtype, device=device)

    return call


def _size(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Any:
    ones = MAIN["ones"]((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    return F["tril"](F["triu"](ones, k), k)


def _linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Any:
    if isinstance(start, complex) or isinstance(stop, complex):
        steps = _linspace(0, 1, num, device=device, endpoint=endpoint)
        return (start + (stop - start) * steps).to(dtype=dtype)
    count = num if endpoint else num + 1
    kind = dtype or "float32"
    return F["linspace"](start, stop, count, dtype=kind, device=device or HOST)[:num]


MAIN |= {name: _maker(name) for name in ("empty", "ones", "zeros")}
MAIN |= {name: _like(name) for name in ("empty_like", "full_like", "ones_like", "zeros_like")}
MAIN |= {
    "arange": _arange,
    "asarray": _asarray,
    "eye": _eye,
    "full": lambda shape, fill_value, *, dtype=None, device=None: F["full"](
        _size(shape), fill_value, dtype=dtype, device=device or HOST
    ),
    "linspace": _linspace,
    "meshgrid": lambda *arrays, indexing="xy": list(F["meshgrid"](*arrays, indexing=indexing)),
    "tril": lambda x, /, *, k=0: F["tril"](x, k),
    "triu": lambda x, /, *, k=0: F["triu"](x, k),
}

# Shapes, joining, indexing.


def _dims(axis: Any, x: Tensor) -> tuple[int, ...]:
    """`axis` as dims that count from zero; None for all."""
    listed = range(x.ndim) if axis is None else _size(axis)
    for d in listed:
        if not -x.ndim <= d < x.ndim:
            raise IndexError(f"axis {d} is out of range for {x.ndim} dims")
    return tuple(d % x.ndim for d in listed)


def _one_dim(name: str, axis: int | None, x: Tensor) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError(f"{name}: shape {x.shape} has {x.ndim} dims; say which by axis=")
    return axis or 0


def _astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    if x.dtype.kind == "c" and dtype_of(dtype).kind not in "cb":
        raise TypeError(f"astype: {x.dtype.name} to {dtype_of(dtype).name}; take real or imag")
    return x.to(dtype=dtype, device=device, copy=copy)


def _concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    parts = promoted(*arrays)
    return F["concat"]([p.reshape(-1) for p in parts] if axis is None else parts, axis or 0)


def _squeeze(x: Tensor, /, axis: Any) -> Tensor:
    for d in _dims(axis, x):
        if x.shape[d] != 1:
            raise ValueError(f"squeeze: dim {d} of shape {x.shape} is not of size 1")
    return x.squeeze(_dims(axis, x))


def _reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    out = x.reshape(tuple(shape))
    if copy is False and out.storage is not x.storage:
        raise ValueError(f"reshape: {x.shape} with strides {x.stride()} is no view of {shape}")
    return out.clone() if copy and out.storage is x.storage else out


def _roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    each = isinstance(axis, tuple) and isinstance(shift, int)
    return x.roll((shift,) * len(axis) if each else shift, axis)


MAIN |= {
    "astype": _astype,
    "broadcast_arrays": lambda *arrays: list(F["broadcast_tensors"](*arrays)),
    "broadcast_to": lambda x, /, shape: x.expand(tuple(shape)),
    "concat": _concat,
    "expand_dims": lambda x, /, axis=0: x.unsqueeze(axis),
    "flip": lambda x, /, *, axis=None: x.flip(_dims(axis, x)),
    "matrix_transpose": lambda x, /: x.mT,
    "moveaxis": lambda x, source, destination, /: x.moveaxis(source, destination),
    "permute_dims": lambda x, /, axes: x.permute(tuple(axes)),
    "repeat": lambda x, repeats, /, *, axis=None: x.repeat_interleave(repeats, axis),
    "reshape": _reshape,
    "roll": _roll,
    "squeeze": _squeeze,
    "stack": lambda arrays, /, *, axis=0: F["stack"](promoted(*arrays), axis),
    "take": lambda x, indices, /, *, axis=None: x.index_select(_one_dim("take", axis, x), indices),
    "take_along_axis": lambda x, indices, /, *, axis=-1: x.take_along_dim(indices.long(), axis),
    "tile": lambda x, repetitions, /: x.tile(tuple(repetitions)),
    "unstack": lambda x, /, *, axis=0: tuple(x.unbind(axis)),
}

# Reductions, searching, sorting, sets.


def _sum_dtype(x: Tensor) -> Any:
    """The dtype of sums of unsigned integers, uint64 where the device has it; else None."""
    return "uint64" if x.dtype.kind == "u" and x.device is HOST else None


def _reduction(name: str, fn: Function) -> Function:
    def call(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, **kw: Any) -> Any:
        over = _dims(axis, x)
        if name == "sum" and kw.get("dtype") is None:
            kw["dtype"] = _sum_dtype(x)
        x = x != 0 if name in ("all", "any", "count_nonzero") else x
        return fn(x, over, keepdim=keepdims, **kw)

    return call


def _spread(name: str) -> Function:
    def call(
        x: Tensor, /, *, axis: Any = None, correction: Any = 0.0, keepdims: Any = False
    ) -> Any:
        return F[name](x, _dims(axis, x), keepdim=keepdims, correction=correction)

    return call


def _arg(name: str) -> Function:
    def call(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
        out = F[name](x.reshape(-1) if axis is None else x, axis or 0, keepdims)
        return out.reshape((1,) * x.ndim) if axis is None and keepdims else out

    return call


def _cumulative(name: str, torch: str, first: str) -> Function:
    def call(
        x: Tensor, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
    ) -> Any:
        axis = _one_dim(name, axis, x)
        out = F[torch](x, axis, dtype=dtype or _sum_dtype(x))
        if include_initial:
            first_shape = [1 if d == axis % x.ndim else n for d, n in enumerate(x.shape)]
            out = F["cat"]([F[first](first_shape, dtype=out.dtype, device=x.device), out], axis)
        return out

    return call


def _prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    for d in sorted(_dims(axis, x), reverse=True):
        x = x.prod(d, keepdims, dtype=dtype or _sum_dtype(x))
    return x


def _nonzero(x: Tensor, /) -> Any:
    if not x.ndim:
        raise ValueError("nonzero: a 0-d tensor has no index")
    return F["nonzero"](x, as_tuple=True)


_All = namedtuple("unique_all", "values indices inverse_indices counts")  # type: ignore[name-match]
_Counts = namedtuple("unique_counts", "values counts")  # type: ignore[name-match]
_Inverse = namedtuple("unique_inverse", "values inverse_indices")  # type: ignore[name-match]


def _unique_all(x: Tensor, /) -> Any:
    values, inverse, counts = F["unique"](x.reshape(-1), return_inverse=True, return_counts=True)
    order = F["argsort"](inverse, 0, stable=True)
    return _All(values, order[F["cumsum"](counts, 0) - counts], inverse.reshape(x.shape), counts)


for _name in "all any count_nonzero=sum max=amax mean min=amin sum".split():
    _name, _, _torch = _name.partition("=")
    MAIN[_name] = _reduction(_name, F[_torch or _name])
MAIN |= {name: _spread(name) for name in ("std", "var")}
MAIN |= {name: _arg(name) for name in ("argmax", "argmin")}
MAIN |= {
    "argsort": lambda x, /, *, axis=-1, descending=False, stable=True: F["argsort"](
        x, axis, descending, stable=stable
    ),
    "cumulative_prod": _cumulative("cumulative_prod", "cumprod", "ones"),
    "cumulative_sum": _cumulative("cumulative_sum", "cumsum", "zeros"),
    "diff": lambda x, /, *, axis=-1, n=1, prepend=None, append=None: F["diff"](
        x, n, axis, prepend, append
    ),
    "nonzero": _nonzero,
    "prod": _prod,
    "searchsorted": lambda x1, x2, /, *, side="left", sorter=None: F["searchsorted"](
        *promoted(x1, x2), side=side, sorter=sorter
    ),
    "sort": lambda x, /, *, axis=-1, descending=False, stable=True: F["sort"](
        x, axis, descending, stable=stable
    )[0],
    "unique_all": _unique_all,
    "unique_counts": lambda x, /: _Counts(*_unique_all(x)[::3]),
    "unique_inverse": lambda x, /: _Inverse(*_unique_all(x)[::2]),
    "unique_values": lambda x, /: _unique_all(x)[0],
    "where": lambda condition, x1, x2, /: F["where"](condition, *promoted(x1, x2)),
}

# Linear algebra.


def _vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Any:
    a, b = promoted(x1, x2)
    return _L["vecdot"](a, b, dim=axis).to(a.dtype)


def _matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return _L["matrix_norm"](x, "fro" if ord is None else ord, keepdim=keepdims)


def _solve(x1: Tensor, x2: Tensor, /) -> Any:
    a, b = promoted(x1, x2)
    if b.ndim > 1:  # torch would take a stack of vectors for one where the shapes allow it
        b = b.reshape((1,) * (a.ndim - b.ndim) + tuple(b.shape))
    return _L["solve"](a, b)


LINALG: dict[str, Function] = {
    "matmul": lambda x1, x2, /: F["matmul"](*promoted(x1, x2)),
    "matrix_transpose": MAIN["matrix_transpose"],
    "tensordot": lambda x1, x2, /, *, axes=2: F["tensordot"](*promoted(x1, x2), axes),
    "vecdot": _vecdot,
}
MAIN |= LINALG
LINALG |= {name: _L[name] for name in "det eigh eigvalsh inv slogdet svdvals".split()}
LINALG |= {
    "cholesky": lambda x, /, *, upper=False: _L["cholesky"](x, upper=upper),
    "cross": lambda x1, x2, /, *, axis=-1: _L["cross"](*promoted(x1, x2), dim=axis),
    "diagonal": lambda x, /, *, offset=0: _L["diagonal"](x, offset=offset),
    "matrix_norm": _matrix_norm,
    "matrix_power": lambda x, n, /: _L["matrix_power"](x, n),
    "matrix_rank": lambda x, /, *, rtol=None: _L["matrix_rank"](x, rtol=rtol),
    "outer": lambda x1, x2, /: F["outer"](*promoted(x1, x2)),
    "pinv": lambda x, /, *, rtol=None: _L["pinv"](x, rtol=rtol),
    "qr": lambda x, /, *, mode="reduced": _L["qr"](x, mode),
    "solve": _solve,
    "svd": lambda x, /, *, full_matrices=True: _L["svd"](x, full_matrices),
    "trace": lambda x, /, *, offset=0, dtype=None: _L["diagonal"](x, offset=offset).sum(
        -1, dtype=dtype or _sum_dtype(x)
    ),
    "vector_norm": lambda x, /, *, axis=None, keepdims=False, ord=2: _L["vector_norm"](
        x, ord, axis, keepdims
    ),
}

# Fourier transforms.


def _one(fn: Function) -> Function:
    return lambda x, /, *, n=None, axis=-1, norm="backward": fn(x, n, axis, norm)


def _many(fn: Function) -> Function:
    return lambda x, /, *, s=None, axes=None, norm="backward": fn(x, s, axes, norm)


def _shift(fn: Function) -> Function:
    return lambda x, /, *, axes=None: fn(x, axes)


def _frequencies(fn: Function) -> Function:
    return lambda n, /, *, d=1.0, dtype=None, device=None: fn(
        n, d, dtype=dtype or "float32", device=device or HOST
    )


FFT: dict[str, Function] = {
    name: _one(_T[name]) for name in "fft ifft rfft irfft hfft ihfft".split()
}
FFT |= {name: _many(_T[name]) for name in ("fftn", "ifftn", "rfftn", "irfftn")}
FFT |= {name: _shift(_T[name]) for name in ("fftshift", "ifftshift")}
FFT |= {name: _frequencies(_T[name]) for name in ("fftfreq", "rfftfreq")}
