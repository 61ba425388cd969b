"""Special functions, under the names of torch.special."""

from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import SPECIAL as _SPECIAL

assert _declared.__all__  # the import has run every declaration
globals().update(_SPECIAL)
__all__ = sorted(_SPECIAL)
