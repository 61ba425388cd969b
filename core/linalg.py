"""Linear algebra, under the names of torch.linalg."""

from rushlight.core.basis.errors import LinalgError as LinAlgError
from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import LINALG as _LINALG

assert _declared.__all__  # the import has run every declaration
globals().update(_LINALG)
__all__ = ["LinAlgError", *sorted(_LINALG)]
_REFUSED = {
    "eig": "its results are complex; eigh takes symmetric matrices",
    "eigvals": "its results are complex; eigvalsh takes symmetric matrices",
    "ldl_factor": "LAPACK's LDL is not in NumPy; use lu_factor",
    "ldl_factor_ex": "LAPACK's LDL is not in NumPy; use lu_factor_ex",
    "ldl_solve": "LAPACK's LDL is not in NumPy; use lu_solve",
}


def __getattr__(name: str) -> object:
    """A name of torch.linalg that is not there: AttributeError with the reason."""
    why = f" is not supported: {_REFUSED[name]}" if name in _REFUSED else " is not there"
    raise AttributeError(f"linalg.{name}{why}")
