"""Types of rl.special. Written by tools/stubs.py (`make format`)."""

from rushlight.core.functional.elementwise import (
    entr, erfc, exp2, logit, ndtr, sinc, xlog1py, xlogy
)
from rushlight.core.ops.unary import (
    erf, expm1, log1p, round, sigmoid
)

__all__ = [
    "entr", "erf", "erfc", "exp2", "expit", "expm1", "log1p", "logit", "ndtr", "round", "sinc",
    "xlog1py", "xlogy"
]
expit = sigmoid
