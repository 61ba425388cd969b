"""torch.library: ops of a program's own, run as the Python functions that they are.

`rl.custom_op` makes ops with kernels in WGSL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.autograd.function import Function
from rushlight.core.settings.standins import refuse_all

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel"]

_known: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """A function with the name of an op, and a gradient where `register_autograd` gave one."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self._qualname, self._fn = name, fn
        self._function: Any = None
        self.__name__, self.__doc__ = name, fn.__doc__
        _known[name] = self

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._function is None:
            return self._fn(*args, **options)
        return self._function.apply(*args, **options)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Accepted: shapes come from running the function."""
        return fn

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Accepted: the function itself runs on every device."""
        return (lambda found: found) if fn is None else fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Give it a gradient: backward(ctx, *grads), after setup_context(ctx, inputs, output)."""
        kernel = self._fn

        def forward(*args: Any) -> Any:
            return kernel(*args)

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if setup_context is not None:
                setup_context(ctx, inputs, output)

        members = {"forward": forward, "setup_context": setup, "backward": backward}
        kind = {name: staticmethod(value) for name, value in members.items()}
        self._function = type(self._qualname, (Function,), kind)

    def register_vmap(self, func: Any = None, /) -> Any:
        """Accepted: the function's own ops are batched."""
        return func

    register_torch_dispatch = register_autocast = register_vmap


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Sequence[str] | str = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """An op "namespace::name" of a function; a decorator where none is given."""
    if fn is None:
        return lambda found: CustomOpDef(name, found)
    return CustomOpDef(name, fn)


def _op(op: Any) -> CustomOpDef:
    return op if isinstance(op, CustomOpDef) else _known[op]


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Accepted: shapes come from running the function."""
    return (lambda found: found) if func is None else func


impl_abstract = register_vmap = register_fake


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **options: Any) -> Any:
    """Accepted: the function itself runs on every device."""
    return (lambda found: found) if func is None else func


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """Give a `custom_op` its gradient."""
    _op(op).register_autograd(backward, setup_context=setup_context)


globals().update(
    refuse_all(
        "library",
        "Library define impl fallthrough_kernel get_ctx get_kernel infer_schema triton_op "
        "wrap_triton register_torch_dispatch register_autocast opcheck",
        "supported: custom_op, register_autograd, register_fake",
    )
)
