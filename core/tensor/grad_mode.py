"""The modes of a thread: whether ops are recorded for backward; the dtypes of autocast."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rushlight.core.jit import capture
from rushlight.core.tensor.storage import inference

if TYPE_CHECKING:
    from rushlight.core.basis.dtype import DType
    from rushlight.core.tensor.tensor import Tensor


F = TypeVar("F", bound=Callable[..., Any])


class _Mode(threading.local):
    """enabled: ops are recorded. dtypes: autocast's, by kind of device (core/ops/autocast.py)."""

    def __init__(self) -> None:
        self.enabled = True
        self.dtypes: dict[str, DType] = {}


mode = _mode = _Mode()


@contextmanager
def autocast_of(dtypes: dict[str, DType]) -> Iterator[None]:
    """In the autocast of another place."""
    before, mode.dtypes = mode.dtypes, dtypes
    try:
        yield
    finally:
        mode.dtypes = before


def without_autocast() -> AbstractContextManager[None]:
    """For gradient rules, and within a function that autocast knows."""
    return autocast_of({})


@contextmanager
def no_inference() -> Iterator[None]:
    """What is made inside is kept: autograd may take it."""
    before, inference.on = inference.on, False
    try:
        yield
    finally:
        inference.on = before


def autocast_state() -> Any:
    """What a captured function depends on: hashable, None outside of autocast."""
    return tuple(sorted((k, v.name) for k, v in mode.dtypes.items())) or None


def is_grad_enabled() -> bool:
    """Whether ops of this thread are recorded for backward."""
    return _mode.enabled


def needs_gradient(*tensors: Tensor | None) -> bool:
    """Whether a function of these is recorded for backward."""
    if _mode.enabled:
        for t in tensors:
            if t is not None and t.requires_grad:
                return True
    return False


class GradMode(ContextDecorator):
    """Context manager and decorator that switches recording for this thread."""

    def __init__(self, enabled: bool, before: bool | None = None) -> None:
        self.enabled = enabled
        self._switched = before  # the mode before this object switched it, if it did
        self._before: list[bool] = []

    def __enter__(self) -> None:
        if capture.active and self.enabled != _mode.enabled:
            capture.grad_mode_switched(self.enabled)
        self._before.append(_mode.enabled if self._switched is None else self._switched)
        self._switched = None
        _mode.enabled = self.enabled

    def __exit__(self, *error: object) -> None:
        _mode.enabled = self._before.pop()

    if TYPE_CHECKING:  # the second form: a function that `@no_grad` decorates, as types see it

        @overload
        def __call__(self, function: F) -> F: ...
        @overload
        def __call__(self, *args: Any, **options: Any) -> Any: ...
        def __call__(self, *args: Any, **options: Any) -> Any: ...

    else:

        def __call__(self, function: Any) -> Any:
            return self._decorated(function)

    def _decorated(self, function: Any) -> Any:
        if self._switched is not None:  # `@set_grad_enabled(mode)` switches within the function
            _mode.enabled, self._switched = self._switched, None
        if not inspect.isgeneratorfunction(function):
            return ContextDecorator.__call__(self, function)

        @wraps(function)
        def steps(*args: Any, **options: Any) -> Any:
            generator = function(*args, **options)
            advance, value = generator.send, None
            while True:  # the mode is that of the function only while its code runs
                try:
                    with self._recreate_cm():
                        result = advance(value)
                except StopIteration as end:
                    return end.value
                try:
                    value, advance = (yield result), generator.send
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    value, advance = error, generator.throw

        return steps

    def _recreate_cm(self) -> GradMode:
        # Each call of a decorated function gets its own: calls may be on several threads.
        return GradMode(self.enabled)


class set_grad_enabled(GradMode):  # noqa: N801  torch's name
    """Switch recording on or off for this thread; as a context manager, until its end."""

    def __init__(self, mode: bool) -> None:
        if capture.active and mode != _mode.enabled:
            capture.grad_mode_switched(mode)
        before, _mode.enabled = _mode.enabled, mode
        super().__init__(mode, before)


class _Fixed(GradMode):
    """A mode that is one class; called with a function, it is its decorator."""

    on = False

    def __new__(cls, function: Any = None) -> Any:
        mode = object.__new__(cls)
        mode.enabled, mode._switched, mode._before = cls.on, None, []
        return mode if function is None else mode(function)

    __init__ = object.__init__  # all is done above: it is called often


class no_grad(_Fixed):  # noqa: N801  torch's name
    """Context manager and decorator: nothing inside is recorded for backward (this thread).

    The decorator may stand without parentheses.
    """


class enable_grad(_Fixed):  # noqa: N801  torch's name
    """Context manager and decorator: record inside, also within `no_grad` (this thread)."""

    on = True


class InferenceMode(GradMode):
    """Switches recording off, and makes inference tensors; or neither."""

    def __init__(self, mode: bool) -> None:
        super().__init__(not mode)
        self._made: list[bool] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._made.append(inference.on)
        inference.on = not self.enabled

    def __exit__(self, *error: object) -> None:
        inference.on = self._made.pop()
        super().__exit__(*error)

    def _recreate_cm(self) -> InferenceMode:
        return InferenceMode(not self.enabled)


def is_inference_mode_enabled() -> bool:
    """Whether this thread makes inference tensors."""
    return inference.on


class inference_mode(InferenceMode):  # noqa: N801  torch's name
    """Context manager and decorator: nothing is recorded, and new memory is for inference only.

    Outside, RuntimeError where autograd would save a tensor of such memory, it is to require a
    gradient, or it is written to; clone() it first. inference_mode(False) records, and makes usual
    tensors. A model's cache is usual memory, wherever it was made.
    """

    def __new__(cls, mode: Any = True) -> Any:
        return object.__new__(cls) if isinstance(mode, bool) else InferenceMode(True)(mode)

    def __init__(self, mode: Any = True) -> None:
        super().__init__(mode)
