"""einops over tensors: its backend, entered when einops is imported, before or after this package.

einops asks the subclasses of its AbstractBackend for the one of a tensor. einops itself is never
imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import PUBLIC
from rushlight.core.tensor.tensor import Tensor

assert _declared.__all__  # the import has run every declaration
_MODULE = "einops._backends"


class _Methods:
    """What einops asks of a backend, in torch's names."""

    framework_name = "rushlight"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def to_numpy(self, x: Tensor) -> Any:
        return x.detach().cpu().numpy()

    def reduce(self, x: Tensor, operation: str, reduced_axes: Sequence[int]) -> Any:
        axes = tuple(reduced_axes)
        if operation != "prod":
            return PUBLIC[{"min": "amin", "max": "amax"}.get(operation, operation)](x, axes)
        for axis in sorted(axes, reverse=True):
            x = x.prod(axis)
        return x

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return x.permute(axes)

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Any:
        return PUBLIC["stack"](tensors)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        for position in pos2len:
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(d, -1) for d in range(n_axes)])

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Any:
        return PUBLIC["cat"](tensors, axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.is_floating_point

    def einsum(self, pattern: str, *x: Tensor) -> Any:
        return PUBLIC["einsum"](pattern, *x)


def _enter(module: ModuleType) -> None:
    """Make the backend a subclass of einops' own, which keeps it in its list of subclasses."""
    base = getattr(module, "AbstractBackend", None)
    if base is not None:
        module.__dict__["RushlightBackend"] = type("RushlightBackend", (_Methods, base), {})


class _Finder:
    """Finds einops' module of backends once, to enter ours after it has run."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _enter(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if _MODULE in sys.modules:
    _enter(sys.modules[_MODULE])
else:
    sys.meta_path.insert(0, _Finder())
