"""Linear algebra, under the names of torch.linalg."""

from rushlight.core.basis.errors import LinalgError as LinAlgError
from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import LINALG as _LINALG

assert _declared.__all__  # the import has run every declaration
globals().update(_LINALG)
__all__ = ["LinAlgError", *sorted(_LINALG)]


def __getattr__(name: str) -> object:
    """A name that is not there: AttributeError."""
    raise AttributeError(f"linalg.{name} is not there")
