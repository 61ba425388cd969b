"""Settings that PyTorch programs make: the default dtype and device, determinism, precision.

Results here are the same in each run and with any number of threads, and float32 products are
float32 products. What asks for that is accepted; what asks for less changes nothing.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.basis.dtype import set_default_dtype
from rushlight.core.functional.attributes import legacy_dtype
from rushlight.core.settings import amp, backends, cuda, mps, random

__all__ = [
    "amp", "are_deterministic_algorithms_enabled", "backends", "cuda",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "mps", "random",
    "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "typename",
    "use_deterministic_algorithms",
]  # fmt: skip

_PRECISIONS = ("highest", "high", "medium")
_asked: dict[str, Any] = {
    "deterministic": False,
    "warn_only": False,
    "precision": "highest",
    "warn_always": False,
}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: every op gives the same bits in every run."""
    _asked.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """What was last asked for."""
    return bool(_asked["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What was last asked for."""
    return bool(_asked["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same as `use_deterministic_algorithms`: "default" or 0, "warn" or 1, "error" or 2."""
    modes: dict[int | str, int] = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in modes:
        raise ValueError(
            f"set_deterministic_debug_mode: {debug_mode!r} is not supported; supported: "
            '"default", "warn", "error"'
        )
    number = modes[debug_mode]
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 (warn) or 2 (error)."""
    return (1 if _asked["warn_only"] else 2) if _asked["deterministic"] else 0


def set_float32_matmul_precision(precision: str) -> None:
    """ "highest", "high" or "medium": accepted; products of float32 stay in float32.

    `rl.set_linear_mode` sets how quantized weights are multiplied. ValueError for other names.
    """
    if precision not in _PRECISIONS:
        raise ValueError(
            f"set_float32_matmul_precision: {precision!r} is not supported; supported: "
            f"{', '.join(_PRECISIONS)}"
        )
    _asked["precision"] = precision


def get_float32_matmul_precision() -> str:
    """What was last asked for."""
    return str(_asked["precision"])


def set_num_interop_threads(n: int) -> None:
    """Accepted; ops run one after another. `set_num_threads` sets the threads within an op."""
    if n < 1:
        raise ValueError(f"set_num_interop_threads: {n} must be at least 1")


def get_num_interop_threads() -> int:
    """1: ops run one after another."""
    return 1


def set_flush_denormal(mode: bool) -> bool:
    """False: small numbers are kept as they are."""
    return False


def set_warn_always(b: bool) -> None:
    """Accepted; warnings are given by Python's own rules."""
    _asked["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What was last asked for."""
    return bool(_asked["warn_always"])


def set_default_tensor_type(t: Any) -> None:
    """The older form of `set_default_dtype`: a type such as rl.DoubleTensor, or its name."""
    set_default_dtype(legacy_dtype(t))


def typename(obj: Any) -> str:
    """The name of a tensor's or object's type, such as "torch.FloatTensor"."""
    if hasattr(obj, "storage_offset"):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
