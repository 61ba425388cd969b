"""Types of the public functions and of the methods. Written by tools/stubs.py (`make format`)."""

from rushlight.core.functional.clamping import (
    clamp as _op_clamp, clamp_ as _op_clamp_
)
from rushlight.core.functional.creation import (
    full_like as _op_full_like, ones_like as _op_ones_like, tril as _op_tril, triu as _op_triu,
    zeros_like as _op_zeros_like
)
from rushlight.core.functional.picking import (
    masked_select as _op_masked_select, masked_select_async as _op_masked_select_async, max as
    _op_max, min as _op_min, sort as _op_sort
)
from rushlight.core.functional.pieces import (
    chunk as _op_chunk, repeat as _op_repeat, repeat_interleave as _op_repeat_interleave, roll as
    _op_roll, split as _op_split, unbind as _op_unbind
)
from rushlight.core.functional.reductions import (
    logsumexp as _op_logsumexp, mean as _op_mean, norm as _op_norm, prod as _op_prod, std as
    _op_std, var as _op_var
)
from rushlight.core.functional.shapes import (
    broadcast_to as _op_broadcast_to, flatten as _op_flatten, t as _op_t, unflatten as _op_unflatten
)
from rushlight.core.ops.binary import (
    _where as _op__where, add as _op_add, bitwise_and as _op_bitwise_and, bitwise_or as
    _op_bitwise_or, bitwise_xor as _op_bitwise_xor, div as _op_div, eq as _op_eq, floor_divide as
    _op_floor_divide, ge as _op_ge, gt as _op_gt, le as _op_le, logical_and as _op_logical_and,
    logical_or as _op_logical_or, logical_xor as _op_logical_xor, lt as _op_lt, masked_fill as
    _op_masked_fill, maximum as _op_maximum, minimum as _op_minimum, mul as _op_mul, ne as _op_ne,
    pow as _op_pow, rdiv as _op_rdiv, remainder as _op_remainder, rfloordiv as _op_rfloordiv, rmod
    as _op_rmod, rpow as _op_rpow, rsub as _op_rsub, sub as _op_sub
)
from rushlight.core.ops.indexing import (
    gather as _op_gather, index_add as _op_index_add, index_select as _op_index_select, nonzero as
    _op_nonzero, nonzero_async as _op_nonzero_async, scatter as _op_scatter, scatter_add as
    _op_scatter_add
)
from rushlight.core.ops.inplace import (
    add_ as _op_add_, copy_ as _op_copy_, div_ as _op_div_, fill_ as _op_fill_, mul_ as _op_mul_,
    sub_ as _op_sub_, zero_ as _op_zero_
)
from rushlight.core.ops.matmul import (
    matmul as _op_matmul
)
from rushlight.core.ops.movement import (
    expand as _op_expand, flip as _op_flip, narrow as _op_narrow, permute as _op_permute, reshape as
    _op_reshape, squeeze as _op_squeeze, transpose as _op_transpose, unfold as _op_unfold, unsqueeze
    as _op_unsqueeze, view as _op_view
)
from rushlight.core.ops.norm import (
    log_softmax as _op_log_softmax, softmax as _op_softmax
)
from rushlight.core.ops.reduce import (
    all as _op_all, amax as _op_amax, amin as _op_amin, any as _op_any, argmax as _op_argmax, argmin
    as _op_argmin, cumsum as _op_cumsum, sum as _op_sum
)
from rushlight.core.ops.sort import (
    argsort as _op_argsort, topk as _op_topk
)
from rushlight.core.ops.subscript import (
    getitem as _op_getitem, setitem as _op_setitem
)
from rushlight.core.ops.unary import (
    abs as _op_abs, acos as _op_acos, asin as _op_asin, atan as _op_atan, bitwise_not as
    _op_bitwise_not, ceil as _op_ceil, clone as _op_clone, contiguous as _op_contiguous, cos as
    _op_cos, cosh as _op_cosh, erf as _op_erf, exp as _op_exp, expm1 as _op_expm1, floor as
    _op_floor, gelu as _op_gelu, isfinite as _op_isfinite, isinf as _op_isinf, isnan as _op_isnan,
    log as _op_log, log10 as _op_log10, log1p as _op_log1p, log2 as _op_log2, logical_not as
    _op_logical_not, neg as _op_neg, reciprocal as _op_reciprocal, relu as _op_relu, round as
    _op_round, rsqrt as _op_rsqrt, sigmoid as _op_sigmoid, sign as _op_sign, silu as _op_silu, sin
    as _op_sin, sinh as _op_sinh, sqrt as _op_sqrt, square as _op_square, tan as _op_tan, tanh as
    _op_tanh, trunc as _op_trunc
)
from rushlight.core.functional.clamping import (
    clamp, clamp_
)
from rushlight.core.functional.convolution import (
    avg_pool2d, conv1d, max_pool2d
)
from rushlight.core.functional.creation import (
    empty_like, eye, full_like, linspace, ones_like, tril, triu, zeros_like
)
from rushlight.core.functional.picking import (
    masked_select, masked_select_async, max, min, sort
)
from rushlight.core.functional.pieces import (
    chunk, repeat, repeat_interleave, roll, split, stack, unbind
)
from rushlight.core.functional.random import (
    dropout, rand_like, randn_like, randperm
)
from rushlight.core.functional.reductions import (
    logsumexp, mean, norm, prod, std, var
)
from rushlight.core.functional.shapes import (
    broadcast_tensors, broadcast_to, flatten, t, unflatten
)
from rushlight.core.ops.attention import (
    attention
)
from rushlight.core.ops.binary import (
    add, bitwise_and, bitwise_or, bitwise_xor, div, eq, floor_divide, ge, gt, le, logical_and,
    logical_or, logical_xor, lt, masked_fill, maximum, minimum, mul, ne, pow, remainder, sub, where
)
from rushlight.core.ops.conv import (
    conv2d, conv_transpose2d
)
from rushlight.core.ops.creation import (
    arange, empty, full, ones, zeros
)
from rushlight.core.ops.custom import (
    custom_op
)
from rushlight.core.ops.experts import (
    linear_experts
)
from rushlight.core.ops.indexing import (
    embedding, gather, index_add, index_select, nonzero, nonzero_async, scatter, scatter_add
)
from rushlight.core.ops.inplace import (
    add_, copy_, div_, fill_, mul_, sub_, zero_
)
from rushlight.core.ops.join import (
    cat
)
from rushlight.core.ops.matmul import (
    linear, matmul
)
from rushlight.core.ops.movement import (
    expand, flip, narrow, pad, permute, reshape, squeeze, transpose, unfold, unsqueeze, view
)
from rushlight.core.ops.norm import (
    layer_norm, log_softmax, rms_norm, rope, softmax
)
from rushlight.core.ops.random import (
    rand, randint, randn
)
from rushlight.core.ops.reduce import (
    all, amax, amin, any, argmax, argmin, cumsum, sum
)
from rushlight.core.ops.sort import (
    argsort, topk
)
from rushlight.core.ops.unary import (
    abs, acos, asin, atan, bitwise_not, cast, ceil, clone, contiguous, cos, cosh, erf, exp, expm1,
    floor, gelu, isfinite, isinf, isnan, log, log10, log1p, log2, logical_not, neg, reciprocal,
    relu, round, rsqrt, sigmoid, sign, silu, sin, sinh, sqrt, square, tan, tanh, trunc
)

__all__ = [
    "abs", "acos", "add", "add_", "all", "amax", "amin", "any", "arange", "argmax", "argmin",
    "argsort", "asin", "atan", "attention", "avg_pool2d", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "broadcast_tensors", "broadcast_to", "cast", "cat", "ceil",
    "chunk", "clamp", "clamp_", "clone", "contiguous", "conv1d", "conv2d", "conv_transpose2d",
    "copy_", "cos", "cosh", "cumsum", "custom_op", "div", "div_", "dropout", "embedding", "empty",
    "empty_like", "eq", "erf", "exp", "expand", "expm1", "eye", "fill_", "flatten", "flip", "floor",
    "floor_divide", "full", "full_like", "gather", "ge", "gelu", "gt", "index_add", "index_select",
    "isfinite", "isinf", "isnan", "layer_norm", "le", "linear", "linear_experts", "linspace", "log",
    "log10", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "lt", "masked_fill", "masked_select", "masked_select_async",
    "matmul", "max", "max_pool2d", "maximum", "mean", "min", "minimum", "mul", "mul_", "narrow",
    "ne", "neg", "nonzero", "nonzero_async", "norm", "ones", "ones_like", "pad", "permute", "pow",
    "prod", "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "reciprocal", "relu",
    "remainder", "repeat", "repeat_interleave", "reshape", "rms_norm", "roll", "rope", "round",
    "rsqrt", "scatter", "scatter_add", "sigmoid", "sign", "silu", "sin", "sinh", "softmax", "sort",
    "split", "sqrt", "square", "squeeze", "stack", "std", "sub", "sub_", "sum", "t", "tan", "tanh",
    "topk", "transpose", "tril", "triu", "trunc", "unbind", "unflatten", "unfold", "unsqueeze",
    "var", "view", "where", "zero_", "zeros", "zeros_like"
]

from rushlight.core.tensor.op import Meta

class Declared(Meta):
    __abs__ = _op_abs
    __add__ = _op_add
    __and__ = _op_bitwise_and
    __eq__ = _op_eq  # type: ignore[assignment]
    __floordiv__ = _op_floor_divide
    __ge__ = _op_ge
    __getitem__ = _op_getitem
    __gt__ = _op_gt
    __iadd__ = _op_add_
    __imul__ = _op_mul_
    __invert__ = _op_bitwise_not
    __isub__ = _op_sub_
    __itruediv__ = _op_div_
    __le__ = _op_le
    __lt__ = _op_lt
    __matmul__ = _op_matmul
    __mod__ = _op_remainder
    __mul__ = _op_mul
    __ne__ = _op_ne  # type: ignore[assignment]
    __neg__ = _op_neg
    __or__ = _op_bitwise_or
    __pow__ = _op_pow
    __radd__ = _op_add
    __rand__ = _op_bitwise_and
    __rfloordiv__ = _op_rfloordiv
    __rmod__ = _op_rmod
    __rmul__ = _op_mul
    __ror__ = _op_bitwise_or
    __rpow__ = _op_rpow
    __rsub__ = _op_rsub
    __rtruediv__ = _op_rdiv
    __rxor__ = _op_bitwise_xor
    __setitem__ = _op_setitem
    __sub__ = _op_sub
    __truediv__ = _op_div
    __xor__ = _op_bitwise_xor
    abs = _op_abs
    acos = _op_acos
    add = _op_add
    add_ = _op_add_
    all = _op_all
    amax = _op_amax
    amin = _op_amin
    any = _op_any
    argmax = _op_argmax
    argmin = _op_argmin
    argsort = _op_argsort
    asin = _op_asin
    atan = _op_atan
    bitwise_and = _op_bitwise_and
    bitwise_not = _op_bitwise_not
    bitwise_or = _op_bitwise_or
    bitwise_xor = _op_bitwise_xor
    broadcast_to = _op_broadcast_to
    ceil = _op_ceil
    chunk = _op_chunk
    clamp = _op_clamp
    clamp_ = _op_clamp_
    clone = _op_clone
    contiguous = _op_contiguous
    copy_ = _op_copy_
    cos = _op_cos
    cosh = _op_cosh
    cumsum = _op_cumsum
    div = _op_div
    div_ = _op_div_
    eq = _op_eq
    erf = _op_erf
    exp = _op_exp
    expand = _op_expand
    expm1 = _op_expm1
    fill_ = _op_fill_
    flatten = _op_flatten
    flip = _op_flip
    floor = _op_floor
    floor_divide = _op_floor_divide
    full_like = _op_full_like
    gather = _op_gather
    ge = _op_ge
    gelu = _op_gelu
    gt = _op_gt
    index_add = _op_index_add
    index_select = _op_index_select
    isfinite = _op_isfinite
    isinf = _op_isinf
    isnan = _op_isnan
    le = _op_le
    log = _op_log
    log10 = _op_log10
    log1p = _op_log1p
    log2 = _op_log2
    log_softmax = _op_log_softmax
    logical_and = _op_logical_and
    logical_not = _op_logical_not
    logical_or = _op_logical_or
    logical_xor = _op_logical_xor
    logsumexp = _op_logsumexp
    lt = _op_lt
    masked_fill = _op_masked_fill
    masked_select = _op_masked_select
    masked_select_async = _op_masked_select_async
    matmul = _op_matmul
    max = _op_max
    maximum = _op_maximum
    mean = _op_mean
    min = _op_min
    minimum = _op_minimum
    mul = _op_mul
    mul_ = _op_mul_
    narrow = _op_narrow
    ne = _op_ne
    neg = _op_neg
    nonzero = _op_nonzero
    nonzero_async = _op_nonzero_async
    norm = _op_norm
    ones_like = _op_ones_like
    permute = _op_permute
    pow = _op_pow
    prod = _op_prod
    reciprocal = _op_reciprocal
    relu = _op_relu
    remainder = _op_remainder
    repeat = _op_repeat
    repeat_interleave = _op_repeat_interleave
    reshape = _op_reshape
    roll = _op_roll
    round = _op_round
    rsqrt = _op_rsqrt
    scatter = _op_scatter
    scatter_add = _op_scatter_add
    sigmoid = _op_sigmoid
    sign = _op_sign
    silu = _op_silu
    sin = _op_sin
    sinh = _op_sinh
    softmax = _op_softmax
    sort = _op_sort
    split = _op_split
    sqrt = _op_sqrt
    square = _op_square
    squeeze = _op_squeeze
    std = _op_std
    sub = _op_sub
    sub_ = _op_sub_
    sum = _op_sum
    t = _op_t
    tan = _op_tan
    tanh = _op_tanh
    topk = _op_topk
    transpose = _op_transpose
    tril = _op_tril
    triu = _op_triu
    trunc = _op_trunc
    unbind = _op_unbind
    unflatten = _op_unflatten
    unfold = _op_unfold
    unsqueeze = _op_unsqueeze
    var = _op_var
    view = _op_view
    where = _op__where
    zero_ = _op_zero_
    zeros_like = _op_zeros_like
