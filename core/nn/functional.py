"""Layers and losses as functions, under torch's names.

Each is defined in core/ops/ or core/functional/ with the decorator `network` of
core/ops/declare.py. Their types are in functional.pyi, which `make format` writes.
"""

from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import NETWORK as _NETWORK

assert _declared.__all__  # the import has run every declaration
globals().update(_NETWORK)
__all__ = sorted(_NETWORK)
