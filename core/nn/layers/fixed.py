"""The base of layers that are a function with fixed options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.nn.module import Module


class Fixed(Module):
    """Calls `function` on its inputs with the options that the layer was made with."""

    function: Callable[..., Any]
    inplace: bool
    _given: tuple[str, ...] = ()
    _unshown: tuple[str, ...] = ()  # options that torch leaves out of the repr

    def _fix(self, **options: Any) -> None:
        self._given = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, *inputs: Any, **more: Any) -> Any:
        """The function's inputs -> its result."""
        options = {name: getattr(self, name) for name in self._given}
        return self.function(*inputs, **options, **more)

    def extra_repr(self) -> str:
        """The options that torch shows, but for tensors and modules."""
        options = [name for name in self._given if name != "inplace" or self.inplace]
        unshown = {*self._unshown, *self._saved_buffers, *dict(self._own_modules())}
        return ", ".join(
            f"{name}={getattr(self, name)!r}" for name in options if name not in unshown
        )
