"""Autocast: within it, functions choose the dtype that they compute in, as torch's do.

A function that is declared (declare.py) goes through `listed`, which
costs one look at the thread's mode. What a function does is said above it (`casts`), as PyTorch's
page "Automatic Mixed Precision" lists it for cpu and for accelerators.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rushlight.core.backends import HOST, KINDS, Device
from rushlight.core.basis.dtype import DType, as_dtype, bfloat16, float16, float32
from rushlight.core.jit import capture
from rushlight.core.tensor import op
from rushlight.core.tensor.grad_mode import is_grad_enabled, mode, without_autocast

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
LOW, HIGH, WIDEST, REFUSED, INSIDE = "low", "float32", "widest", "refused", "inside"


POLICIES = frozenset((LOW, HIGH, WIDEST, REFUSED, INSIDE))


def casts(
    both: str | None = None, *, cpu: str | None = None, accelerator: str | None = None
) -> Callable[[F], F]:
    """What torch's list of a kind of device says of a function: cpu's, accelerators', or both.

    "low": it computes in autocast's dtype, "float32": in that, "widest": in the widest of its
    operands' dtypes. "inside": torch runs it as the functions that it consists of. "refused": it
    raises. A composite that is on no list counts as one op, another function does nothing.
    """
    kinds = (both or cpu, both or accelerator)
    if wrong := [kind for kind in kinds if kind not in (None, *POLICIES)]:
        raise ValueError(f"casts: {wrong[0]!r}; supported: {', '.join(sorted(POLICIES))}")

    def enter(fn: F) -> F:
        vars(fn)["casts"] = kinds
        return fn

    return enter


class _Casts(threading.local):
    """The casts of parameters, whether they are kept, and how many contexts are entered."""

    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}
        self.cached, self.depth = True, 0


_casts = _Casts()


def listed(fn: F) -> F:
    """`fn`, which does in autocast what `casts` said of it."""
    name = fn.__name__
    usual = "one" if fn.__module__.startswith("rushlight.core.functional") else None
    rows = [kind or usual for kind in vars(fn).get("casts", (None, None))]
    if rows == [None, None] or rows == [INSIDE, INSIDE] or hasattr(fn, "listed"):
        return fn
    cpu, other = rows

    @wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        if not mode.dtypes:
            return fn(*args, **options)
        where = _device(args) or _device(options.values())
        dtype = None if where is None else mode.dtypes.get(where.type)
        policy = cpu if where is HOST else other
        if dtype is None or policy in (None, INSIDE):
            return fn(*args, **options)
        if policy == REFUSED:
            raise RuntimeError(
                f"{name} and its module are unsafe to autocast: a probability near 1 is 1 in half "
                f"precision; use {name}_with_logits, or autocast(enabled=False) around it"
            )
        if policy != "one":
            change = _change(policy, dtype, args, options)
            args = tuple(_mapped(a, change) for a in args)
            options = {key: _mapped(a, change) for key, a in options.items()}
        with without_autocast():
            return fn(*args, **options)

    call.listed = fn  # type: ignore[attr-defined]
    return cast(F, call)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, op.tensor_class[0]):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _device(values: Any) -> Device | None:
    """The device of the first floating tensor."""
    return next((t.device for t in _tensors(values) if t.dtype.kind == "f"), None)


def _eligible(x: Tensor) -> bool:
    return x.dtype.kind == "f" and x.dtype.itemsize < 8


def _change(policy: str, dtype: DType, args: Any, options: Any) -> Callable[[Tensor], Tensor]:
    if policy == HIGH and (options.get("dtype") or any(isinstance(a, DType) for a in args)):
        return lambda x: x  # the dtype is asked for
    if policy == WIDEST:
        dtypes = {t.dtype for t in _tensors((*args, *options.values())) if _eligible(t)}
        if len(dtypes) < 2:
            return lambda x: x
    goal = dtype if policy == LOW else float32
    return lambda x: _cast(x, goal) if _eligible(x) and x.dtype is not goal else x


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, op.tensor_class[0]):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)([_mapped(v, change) for v in value])
    return value


def _cast(x: Tensor, goal: DType) -> Tensor:
    """`x` in another dtype; the cast of a weight is made once, until it is written to."""
    weight = x.needs_grad and x.node is None and not x.is_view
    if not (weight and goal is not float32 and _casts.depth and _casts.cached):
        return x.to(goal)
    hooks = capture.current() if capture.active else None
    casts = _casts.kept if hooks is None else hooks.casts  # a replay casts the weight of its time
    key = id(x), goal.name, is_grad_enabled()
    narrow = casts.get(key)
    if narrow is None or narrow[0] is not x or narrow[1] != x.storage.version:
        narrow = casts[key] = x, x.storage.version, x.to(goal)
    result: Tensor = narrow[2]
    return result


def recurrent_dtype(mode_name: str, x: Tensor) -> DType | None:
    """The dtype in which autocast runs a recurrent module over `x`; None where it leaves it alone.

    As torch has it: on cpu layers of "LSTM" alone, elsewhere every kind, and cells.
    """
    dtype = mode.dtypes.get(x.device.type) if mode.dtypes and _eligible(x) else None
    return None if x.device is HOST and mode_name != "LSTM" else dtype


def narrowed(values: Any, dtype: DType | None) -> Any:
    """Tensors, or tuples and lists of them, in this dtype; None leaves them."""
    if dtype is None:
        return values
    return _mapped(values, lambda x: _cast(x, dtype) if _eligible(x) else x)


class autocast(ContextDecorator):  # noqa: N801  torch's name
    """Context manager and decorator: products in a narrow dtype, what needs range in float32.

    device_type: whose tensors it is about, "cpu" or "webgpu"; others are left alone. dtype: float16
    or bfloat16; the default is bfloat16 on cpu, float16 elsewhere. Which function computes in
    which dtype is as in torch on cpu, and on webgpu as in torch on CUDA: products and convolutions
    in `dtype`, losses (there also softmax, norms, exp, sums) in float32, others in the dtype of
    their inputs. In-place functions and out= stay as they are. Parameters keep their dtype, and
    so do their gradients; backward belongs outside. cache_enabled: a parameter is cast once until
    the outermost context ends, or it is written to. Narrow numbers are stored as such and
    computed with in float32 where the device does not compute in them. "cuda" and "mps", which no
    device here is, warn and change nothing, as does another dtype. RuntimeError for other names.

    Without `enabled` nothing is cast.
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | str | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"autocast: device_type is a {type(device_type).__name__}; it must be "
                "a name such as 'cpu'"
            )
        if device_type not in (*KINDS, "cuda", "mps"):
            raise RuntimeError(
                f"autocast: unsupported autocast device_type {device_type!r}; "
                f"supported: {', '.join(KINDS)}"
            )
        self.device_type = self.device = device_type
        self.fast_dtype = default_dtype(device_type) if dtype is None else as_dtype(dtype)
        self._enabled = bool(enabled)
        self._cache_enabled = _casts.cached if cache_enabled is None else bool(cache_enabled)
        if enabled and device_type in ("cuda", "mps"):
            warnings.warn(
                f"autocast: {device_type} is not available; nothing changes. Supported: "
                f"{', '.join(KINDS)}",
                stacklevel=2,
            )
            self._enabled = False
        elif enabled and self.fast_dtype not in (float16, bfloat16):
            warnings.warn(
                f"autocast: {self.fast_dtype.name} is not supported; nothing changes. "
                "Supported: float16, bfloat16",
                stacklevel=2,
            )
            self._enabled = False
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
        self._before.append((mode.dtypes, _casts.cached))
        modes = {k: v for k, v in mode.dtypes.items() if k != self.device_type}
        mode.dtypes = {**modes, self.device_type: self.fast_dtype} if self._enabled else modes
        _casts.cached = self._cache_enabled
        _casts.depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        mode.dtypes, _casts.cached = self._before.pop()
        _casts.depth -= 1
        if not _casts.depth:
            clear_autocast_cache()

    def _recreate_cm(self) -> autocast:
        # Each call of a decorated function gets its own: calls may be on several threads.
        with warnings.catch_warnings(action="ignore"):
            return autocast(self.device_type, self.fast_dtype, self._enabled, self._cache_enabled)


def default_dtype(device_type: str) -> DType:
    """What autocast takes without a dtype."""
    return bfloat16 if device_type == HOST.type else float16


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this thread is in an autocast for this kind of device; by default for any."""
    return device_type in mode.dtypes if device_type is not None else bool(mode.dtypes)


def get_autocast_dtype(device_type: str) -> DType:
    """The narrow dtype of this thread's autocast; outside of one the default."""
    return mode.dtypes.get(device_type, default_dtype(device_type))


def clear_autocast_cache() -> None:
    """Forget the casts of parameters."""
    _casts.kept.clear()
    hooks = capture.current() if capture.active else None
    if hooks is not None:
        hooks.casts.clear()
