"""The base of layers that are a function with fixed options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.nn.module import Module


class Fixed(Module):
    """Calls `function` on its inputs with the options that the layer was made with."""

    function: Callable[..., Any]
    _given: tuple[str, ...] = ()

    def _fix(self, **options: Any) -> None:
        self._given = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, *inputs: Any) -> Any:
        """The function's inputs -> its result."""
        return self.function(*inputs, **{name: getattr(self, name) for name in self._given})

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._given
                         if not hasattr(getattr(self, name), "storage"))  # fmt: skip
