"""Types of rl.linalg. Written by tools/stubs.py (`make format`)."""

from rushlight.core.basis.errors import LinalgError as LinAlgError
from rushlight.core.functional.linalg.compact import (
    ldl_factor, ldl_factor_ex, ldl_solve
)
from rushlight.core.functional.linalg.factorizations import (
    cholesky, cholesky_ex, eig, eigh, eigvals, eigvalsh, lu, lu_factor, lu_factor_ex, qr, svd,
    svdvals
)
from rushlight.core.functional.linalg.norms import (
    cond, matrix_norm, norm, vector_norm
)
from rushlight.core.functional.linalg.products import (
    cross, diagonal, householder_product, matrix_exp, matrix_power, multi_dot, tensorinv,
    tensorsolve, vander, vecdot
)
from rushlight.core.functional.linalg.solving import (
    det, inv, inv_ex, lstsq, lu_solve, matrix_rank, pinv, slogdet, solve, solve_ex, solve_triangular
)
from rushlight.core.ops.matmul import (
    matmul
)

__all__ = [
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve",
    "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve",
    "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander",
    "vecdot", "vector_norm"
]
