"""Types of rl.special. Written by tools/stubs.py (`make format`)."""

from rushlight.core.functional.math.pointwise import (
    exp2, logit, sinc, xlogy
)
from rushlight.core.functional.math.special import (
    entr, erfc, ndtr, xlog1py
)
from rushlight.core.ops.norm import (
    log_softmax, softmax
)
from rushlight.core.ops.unary import (
    erf, expm1, log1p, round, sigmoid
)

__all__ = [
    "entr", "erf", "erfc", "exp2", "expit", "expm1", "log1p", "log_softmax", "logit", "ndtr",
    "round", "sinc", "softmax", "xlog1py", "xlogy"
]
expit = sigmoid
