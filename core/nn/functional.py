"""Layers and losses as functions, under torch's names.

Each is defined in core/ops/ or core/functional/ with the decorator `network` of
core/ops/declare.py. Their types are in functional.pyi, which `make format` writes.
"""

from typing import Any as _Any

from rushlight.core.basis.errors import absent as _absent
from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import NETWORK as _NETWORK

assert _declared.__all__  # the import has run every declaration
globals().update(_NETWORK)
__all__ = sorted(_NETWORK)


def __getattr__(name: str) -> _Any:
    """A name that is not there: AttributeError with those that are near."""
    raise _absent("rushlight.nn.functional", name, __all__)
