"""xlog1py and entr, and second names of functions: torch.special's, and torch's older ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.functional.linalg.blas import outer
from rushlight.core.functional.pointwise import (
    acosh,
    asinh,
    atan2,
    atanh,
    clamp,
    exp2,
    logit,
    sinc,
    xlogy,
)
from rushlight.core.functional.shape import movedim
from rushlight.core.ops.binary import div, ge, gt, le, lt, mul, ne, sub
from rushlight.core.ops.declare import also, special
from rushlight.core.ops.movement import transpose
from rushlight.core.ops.norm import log_softmax, softmax
from rushlight.core.ops.unary import (
    abs,
    acos,
    asin,
    atan,
    erf,
    expm1,
    log1p,
    neg,
    round,
    sigmoid,
    trunc,
)

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


for _names, _same in (
    (("absolute",), abs), (("negative",), neg), (("arcsin",), asin), (("arccos",), acos),
    (("arctan",), atan), (("fix",), trunc), (("subtract",), sub), (("multiply",), mul),
    (("divide",), div), (("greater",), gt), (("greater_equal",), ge), (("less",), lt),
    (("less_equal",), le), (("not_equal",), ne), (("arcsinh",), asinh), (("arccosh",), acosh),
    (("arctanh",), atanh), (("arctan2",), atan2), (("ger",), outer), (("moveaxis",), movedim),
    (("swapaxes", "swapdims"), transpose), (("clip",), clamp), (("true_divide",), div),
):  # fmt: skip
    also(*_names)(_same)


special("expit")(sigmoid)


for _fn in (erf, expm1, log1p, round, exp2, sinc, logit, xlogy, softmax, log_softmax):
    special()(_fn)


@special()
def xlog1py(x: Tensor, other: Tensor) -> Tensor:
    """x * log(1 + other), zero where x is zero."""
    return xlogy(x, 1 + other)


@special()
def entr(x: Tensor) -> Tensor:
    """-x * log(x): zero at zero, -inf below."""
    return (-xlogy(x, x)).masked_fill(x < 0, -math.inf)
