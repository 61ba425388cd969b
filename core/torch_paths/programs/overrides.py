"""torch.overrides: functions do not look for `__torch_function__`; what asks about it is told so.

A subclass of Tensor is used as the tensor that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.settings.standins import refuse_all
from rushlight.core.tensor.tensor import Tensor


def has_torch_function(relevant_args: Any) -> bool:
    """False."""
    return False


has_torch_function_unary = has_torch_function


def has_torch_function_variadic(*args: Any) -> bool:
    """False."""
    return False


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(inp, Tensor)


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Empty: there are no overrides to ignore."""
    return set()


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Empty: nothing can be overridden."""
    return {}


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Empty: nothing can be overridden."""
    return {}


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether it is a method or property of Tensor."""
    return any(func is value for value in vars(Tensor).values())


def resolve_name(f: Any) -> str | None:
    """The function's name with its module."""
    return f"{f.__module__}.{f.__qualname__}" if hasattr(f, "__qualname__") else None


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Any, *args: Any, **options: Any
) -> Any:
    """The function's own result."""
    return public_api(*args, **options)


def wrap_torch_function(dispatcher: Any) -> Callable[[Any], Any]:
    """A decorator that gives the function back."""
    return lambda fn: fn


globals().update(
    refuse_all(
        "overrides",
        "TorchFunctionMode BaseTorchFunctionMode DisableTorchFunctionSubclass "
        "redispatch_function enable_reentrant_dispatch",
        "functions do not look for __torch_function__; use forward hooks, or wrap the functions",
    )
)
