"""What happens to values that nodes save: hooks that pack them, and anomaly detection.

A node asks for it only while `active` is not zero, so an eager op costs one read of a global.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor.grad_mode import is_grad_enabled

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

active = 0  # the running saved_tensors_hooks and detect_anomaly, on all threads
_lock = threading.Lock()


class _Local(threading.local):
    def __init__(self) -> None:
        self.hooks: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
        self.anomaly = self.check_nan = False


_local = _Local()


def _count(step: int) -> None:
    global active
    with _lock:
        active += step


def packs() -> bool:
    """Whether hooks of this thread pack what is saved."""
    return bool(_local.hooks)


class Packed:
    """A saved value as the innermost hooks keep it, and the history that it had."""

    def __init__(self, value: Tensor) -> None:
        pack, self._unpack = _local.hooks[-1]
        self.node = value.node
        self.leaf = value if value.needs_grad and value.node is None else None
        self.dtype, self.shape = value.dtype, value.shape
        before, _local.hooks = _local.hooks, []  # what a hook computes is not packed
        try:
            self.kept = pack(value)
        finally:
            _local.hooks = before

    def unpack(self) -> Tensor:
        """The value, with its history where gradients are recorded."""
        value = self._unpack(self.kept)
        if not hasattr(value, "storage"):
            raise TypeError(
                f"saved_tensors_hooks: unpack gave a {type(value).__name__}; it must give a tensor"
            )
        if value.dtype is not self.dtype or value.shape != self.shape:
            raise RuntimeError(
                f"saved_tensors_hooks: unpack gave {value.dtype.name} of shape {value.shape}; "
                f"the saved tensor was {self.dtype.name} of shape {self.shape}"
            )
        saved: Tensor = value
        if is_grad_enabled() and self.node is not None:
            return saved.rejoin(self.node)
        if is_grad_enabled() and self.leaf is not None:
            return saved.alias_of(self.leaf)
        return saved.detach()


class saved_tensors_hooks:  # noqa: N801  torch's name
    """Context manager: pack_hook(tensor) is kept in place of what ops inside save for backward.

    unpack_hook(what pack_hook gave) gives the tensor, of its dtype and shape, when backward needs
    it. Neither may write to its argument; a later write to the tensor is not noticed. Hooks do not
    nest: the innermost are called.
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        _local.hooks = [*_local.hooks, (self.pack_hook, self.unpack_hook)]
        _count(1)

    def __exit__(self, *error: object) -> None:
        _local.hooks = _local.hooks[:-1]
        _count(-1)


def is_anomaly_enabled() -> bool:
    """Whether this thread's backward tells which op went wrong."""
    return _local.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether this thread's backward looks for NaN in gradients."""
    return _local.anomaly and _local.check_nan


class set_detect_anomaly:  # noqa: N801  torch's name
    """Switch anomaly detection on or off for this thread; as a context manager, until its end.

    Backward names the line of forward where an op was recorded whose gradient rule raises, or
    with `check_nan` gives NaN (RuntimeError); of a loss that is NaN it names the first op that gave
    one. It reads every result and gradient, so it is slow, and captured functions run as they are.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = _local.anomaly, _local.check_nan
        self._set(mode, check_nan)

    def _set(self, mode: bool, check_nan: bool) -> None:
        _count(mode - _local.anomaly)
        _local.anomaly, _local.check_nan = mode, check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._set(*self.before)


class detect_anomaly(set_detect_anomaly):  # noqa: N801  torch's name
    """Context manager that detects anomalies inside: see `set_detect_anomaly`."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan

    def __enter__(self) -> None:
        super().__init__(True, self.check_nan)


def gave_nan(out: Tensor) -> bool:
    """Whether an op's result holds NaN, if anomalies are detected."""
    if not is_anomaly_check_nan_enabled() or out.dtype.kind != "f":
        return False
    before, _local.anomaly = _local.anomaly, False  # of what is computed here
    try:
        return bool(out.detach().isnan().any())
    finally:
        _local.anomaly = before


def where() -> str:
    """The lines outside the library that led here, if anomalies are detected."""
    if not _local.anomaly:
        return ""
    outside = [
        (frame, line)
        for frame, line in traceback.walk_stack(None)
        if not frame.f_globals.get("__name__", "").startswith("rushlight.")
    ]
    return "".join(traceback.StackSummary.extract(reversed(outside[:8])).format())
