"""Types of the public functions and of the methods. Written by tools/stubs.py (`make format`)."""

from collections.abc import Callable as _Callable

from rushlight.core.tensor.tensor import Tensor as _Tensor

from rushlight.core.functional.attributes import (
    cuda as _op_cuda, data_ptr as _op_data_ptr, detach_ as _op_detach_, element_size as
    _op_element_size, get_device as _op_get_device, is_floating_point as _op_is_floating_point,
    is_inference as _op_is_inference, is_nonzero as _op_is_nonzero, is_pinned as _op_is_pinned,
    is_same_size as _op_is_same_size, is_signed as _op_is_signed, ndimension as _op_ndimension,
    nelement as _op_nelement, pin_memory as _op_pin_memory, share_memory_ as _op_share_memory_,
    to_dense as _op_to_dense, type as _op_type, type_as as _op_type_as
)
from rushlight.core.functional.calculus import (
    diff as _op_diff
)
from rushlight.core.functional.comparison import (
    allclose as _op_allclose, equal as _op_equal, fmax as _op_fmax, fmin as _op_fmin, isclose as
    _op_isclose, isneginf as _op_isneginf, isposinf as _op_isposinf, isreal as _op_isreal, kthvalue
    as _op_kthvalue, msort as _op_msort, sort as _op_sort
)
from rushlight.core.functional.complex import (
    angle as _op_angle, conj_physical as _op_conj_physical, is_complex as _op_is_complex, is_conj as
    _op_is_conj, resolve_conj as _op_resolve_conj
)
from rushlight.core.functional.creation import (
    full_like as _op_full_like, new_empty as _op_new_empty, new_empty_strided as
    _op_new_empty_strided, new_full as _op_new_full, new_ones as _op_new_ones, new_tensor as
    _op_new_tensor, new_zeros as _op_new_zeros, ones_like as _op_ones_like, zeros_like as
    _op_zeros_like
)
from rushlight.core.functional.cumulative import (
    cummax as _op_cummax, cummin as _op_cummin, cumprod as _op_cumprod, logcumsumexp as
    _op_logcumsumexp
)
from rushlight.core.functional.diagonals import (
    diag as _op_diag, diag_embed as _op_diag_embed, diagflat as _op_diagflat, diagonal as
    _op_diagonal, diagonal_scatter as _op_diagonal_scatter, fill_diagonal_ as _op_fill_diagonal_,
    trace as _op_trace, tril as _op_tril, triu as _op_triu
)
from rushlight.core.functional.indexing import (
    argwhere as _op_argwhere, as_strided_scatter as _op_as_strided_scatter, fill as _op_fill,
    index_copy as _op_index_copy, index_fill as _op_index_fill, index_put as _op_index_put,
    index_reduce as _op_index_reduce, masked_scatter as _op_masked_scatter, masked_select as
    _op_masked_select, masked_select_async as _op_masked_select_async, nonzero_static as
    _op_nonzero_static, put as _op_put, scatter_reduce as _op_scatter_reduce, select as _op_select,
    select_scatter as _op_select_scatter, slice_scatter as _op_slice_scatter, take as _op_take,
    take_along_dim as _op_take_along_dim
)
from rushlight.core.functional.inplace import (
    abs_ as _op_abs_, absolute_ as _op_absolute_, acos_ as _op_acos_, acosh_ as _op_acosh_, addbmm_
    as _op_addbmm_, addcdiv_ as _op_addcdiv_, addcmul_ as _op_addcmul_, addmm_ as _op_addmm_, addmv_
    as _op_addmv_, addr_ as _op_addr_, apply_ as _op_apply_, arccos_ as _op_arccos_, arccosh_ as
    _op_arccosh_, arcsin_ as _op_arcsin_, arcsinh_ as _op_arcsinh_, arctan2_ as _op_arctan2_,
    arctan_ as _op_arctan_, arctanh_ as _op_arctanh_, asin_ as _op_asin_, asinh_ as _op_asinh_,
    atan2_ as _op_atan2_, atan_ as _op_atan_, atanh_ as _op_atanh_, baddbmm_ as _op_baddbmm_,
    bitwise_and_ as _op_bitwise_and_, bitwise_left_shift_ as _op_bitwise_left_shift_, bitwise_not_
    as _op_bitwise_not_, bitwise_or_ as _op_bitwise_or_, bitwise_right_shift_ as
    _op_bitwise_right_shift_, bitwise_xor_ as _op_bitwise_xor_, ceil_ as _op_ceil_, clamp_max_ as
    _op_clamp_max_, clamp_min_ as _op_clamp_min_, clip_ as _op_clip_, conj_physical_ as
    _op_conj_physical_, copysign_ as _op_copysign_, cos_ as _op_cos_, cosh_ as _op_cosh_, cumprod_
    as _op_cumprod_, cumsum_ as _op_cumsum_, deg2rad_ as _op_deg2rad_, digamma_ as _op_digamma_,
    divide_ as _op_divide_, eq_ as _op_eq_, erf_ as _op_erf_, erfc_ as _op_erfc_, erfinv_ as
    _op_erfinv_, exp2_ as _op_exp2_, exp_ as _op_exp_, expm1_ as _op_expm1_, fix_ as _op_fix_,
    floor_ as _op_floor_, floor_divide_ as _op_floor_divide_, fmod_ as _op_fmod_, frac_ as
    _op_frac_, gcd_ as _op_gcd_, ge_ as _op_ge_, greater_ as _op_greater_, greater_equal_ as
    _op_greater_equal_, gt_ as _op_gt_, heaviside_ as _op_heaviside_, hypot_ as _op_hypot_, i0_ as
    _op_i0_, igamma_ as _op_igamma_, igammac_ as _op_igammac_, index_add_ as _op_index_add_,
    index_copy_ as _op_index_copy_, index_fill_ as _op_index_fill_, index_put_ as _op_index_put_,
    index_reduce_ as _op_index_reduce_, lcm_ as _op_lcm_, ldexp_ as _op_ldexp_, le_ as _op_le_,
    lerp_ as _op_lerp_, less_ as _op_less_, less_equal_ as _op_less_equal_, lgamma_ as _op_lgamma_,
    log10_ as _op_log10_, log1p_ as _op_log1p_, log2_ as _op_log2_, log_ as _op_log_, logical_and_
    as _op_logical_and_, logical_not_ as _op_logical_not_, logical_or_ as _op_logical_or_,
    logical_xor_ as _op_logical_xor_, logit_ as _op_logit_, lt_ as _op_lt_, map_ as _op_map_,
    masked_fill_ as _op_masked_fill_, masked_scatter_ as _op_masked_scatter_, multiply_ as
    _op_multiply_, mvlgamma_ as _op_mvlgamma_, nan_to_num_ as _op_nan_to_num_, ne_ as _op_ne_, neg_
    as _op_neg_, negative_ as _op_negative_, nextafter_ as _op_nextafter_, not_equal_ as
    _op_not_equal_, polygamma_ as _op_polygamma_, pow_ as _op_pow_, put_ as _op_put_, rad2deg_ as
    _op_rad2deg_, reciprocal_ as _op_reciprocal_, relu_ as _op_relu_, remainder_ as _op_remainder_,
    renorm_ as _op_renorm_, round_ as _op_round_, rsqrt_ as _op_rsqrt_, scatter_ as _op_scatter_,
    scatter_add_ as _op_scatter_add_, scatter_reduce_ as _op_scatter_reduce_, sgn_ as _op_sgn_,
    sigmoid_ as _op_sigmoid_, sign_ as _op_sign_, sin_ as _op_sin_, sinc_ as _op_sinc_, sinh_ as
    _op_sinh_, sqrt_ as _op_sqrt_, square_ as _op_square_, subtract_ as _op_subtract_, tan_ as
    _op_tan_, tanh_ as _op_tanh_, tril_ as _op_tril_, triu_ as _op_triu_, true_divide_ as
    _op_true_divide_, trunc_ as _op_trunc_, xlogy_ as _op_xlogy_
)
from rushlight.core.functional.joining import (
    chunk as _op_chunk, dsplit as _op_dsplit, hsplit as _op_hsplit, repeat as _op_repeat,
    repeat_interleave as _op_repeat_interleave, split as _op_split, split_with_sizes as
    _op_split_with_sizes, tensor_split as _op_tensor_split, tile as _op_tile, unbind as _op_unbind,
    vsplit as _op_vsplit
)
from rushlight.core.functional.linalg.blas import (
    addbmm as _op_addbmm, addmm as _op_addmm, addmv as _op_addmv, addr as _op_addr, baddbmm as
    _op_baddbmm, bmm as _op_bmm, dot as _op_dot, inner as _op_inner, mm as _op_mm, mv as _op_mv,
    outer as _op_outer, vdot as _op_vdot
)
from rushlight.core.functional.linalg.compact import (
    geqrf as _op_geqrf
)
from rushlight.core.functional.linalg.norms import (
    renorm as _op_renorm
)
from rushlight.core.functional.linalg.older_names import (
    cholesky as _op_cholesky, cross as _op_cross, lu as _op_lu, lu_solve as _op_lu_solve, pinverse
    as _op_pinverse, qr as _op_qr, svd as _op_svd, triangular_solve as _op_triangular_solve, vander
    as _op_vander
)
from rushlight.core.functional.linalg.products import (
    kron as _op_kron, matrix_exp as _op_matrix_exp, matrix_power as _op_matrix_power, ormqr as
    _op_ormqr
)
from rushlight.core.functional.linalg.solving import (
    cholesky_inverse as _op_cholesky_inverse, cholesky_solve as _op_cholesky_solve, det as _op_det,
    inv as _op_inv, logdet as _op_logdet, slogdet as _op_slogdet
)
from rushlight.core.functional.network.activations import (
    hardshrink as _op_hardshrink, prelu as _op_prelu
)
from rushlight.core.functional.pointwise import (
    acosh as _op_acosh, addcdiv as _op_addcdiv, addcmul as _op_addcmul, asinh as _op_asinh, atan2 as
    _op_atan2, atanh as _op_atanh, clamp as _op_clamp, clamp_ as _op_clamp_, clamp_max as
    _op_clamp_max, clamp_min as _op_clamp_min, copysign as _op_copysign, deg2rad as _op_deg2rad,
    exp2 as _op_exp2, float_power as _op_float_power, float_power_ as _op_float_power_, fmod as
    _op_fmod, frac as _op_frac, frexp as _op_frexp, gcd as _op_gcd, heaviside as _op_heaviside,
    hypot as _op_hypot, lcm as _op_lcm, ldexp as _op_ldexp, lerp as _op_lerp, logaddexp as
    _op_logaddexp, logaddexp2 as _op_logaddexp2, logit as _op_logit, nan_to_num as _op_nan_to_num,
    nextafter as _op_nextafter, positive as _op_positive, rad2deg as _op_rad2deg, rsub as _op_rsub,
    sgn as _op_sgn, signbit as _op_signbit, sinc as _op_sinc, xlogy as _op_xlogy
)
from rushlight.core.functional.random import (
    bernoulli as _op_bernoulli, bernoulli_ as _op_bernoulli_, cauchy_ as _op_cauchy_, exponential_
    as _op_exponential_, geometric_ as _op_geometric_, log_normal_ as _op_log_normal_, multinomial
    as _op_multinomial, normal_ as _op_normal_, random_ as _op_random_, uniform_ as _op_uniform_
)
from rushlight.core.functional.reductions import (
    aminmax as _op_aminmax, count_nonzero as _op_count_nonzero, dist as _op_dist, logsumexp as
    _op_logsumexp, max as _op_max, mean as _op_mean, median as _op_median, min as _op_min, mode as
    _op_mode, nanmean as _op_nanmean, nanmedian as _op_nanmedian, nanquantile as _op_nanquantile,
    nansum as _op_nansum, norm as _op_norm, prod as _op_prod, quantile as _op_quantile, std as
    _op_std, var as _op_var
)
from rushlight.core.functional.shape import (
    adjoint as _op_adjoint, broadcast_to as _op_broadcast_to, expand_as as _op_expand_as, flatten as
    _op_flatten, fliplr as _op_fliplr, flipud as _op_flipud, movedim as _op_movedim, ravel as
    _op_ravel, reshape_as as _op_reshape_as, resize_ as _op_resize_, resize_as_ as _op_resize_as_,
    roll as _op_roll, rot90 as _op_rot90, sum_to_size as _op_sum_to_size, t as _op_t, unflatten as
    _op_unflatten, view_as as _op_view_as
)
from rushlight.core.functional.special.bessel import (
    i0 as _op_i0
)
from rushlight.core.functional.special.errors import (
    erfc as _op_erfc, erfinv as _op_erfinv
)
from rushlight.core.functional.special.gamma import (
    digamma as _op_digamma, igamma as _op_igamma, igammac as _op_igammac, lgamma as _op_lgamma,
    mvlgamma as _op_mvlgamma, polygamma as _op_polygamma
)
from rushlight.core.functional.spectral import (
    istft as _op_istft, stft as _op_stft
)
from rushlight.core.functional.statistics import (
    bincount as _op_bincount, corrcoef as _op_corrcoef, cov as _op_cov, histc as _op_histc,
    histogram as _op_histogram
)
from rushlight.core.functional.unique import (
    unique as _op_unique, unique_consecutive as _op_unique_consecutive
)
from rushlight.core.functional.views import (
    as_strided_ as _op_as_strided_, narrow_copy as _op_narrow_copy, slice as _op_slice, squeeze_ as
    _op_squeeze_, swapaxes_ as _op_swapaxes_, swapdims_ as _op_swapdims_, t_ as _op_t_, transpose_
    as _op_transpose_, unsqueeze_ as _op_unsqueeze_
)
from rushlight.core.ops.binary import (
    _where as _op__where, add as _op_add, bitwise_and as _op_bitwise_and, bitwise_or as
    _op_bitwise_or, bitwise_xor as _op_bitwise_xor, div as _op_div, eq as _op_eq, eq_operator as
    _op_eq_operator, floor_divide as _op_floor_divide, ge as _op_ge, gt as _op_gt, le as _op_le,
    logical_and as _op_logical_and, logical_or as _op_logical_or, logical_xor as _op_logical_xor, lt
    as _op_lt, masked_fill as _op_masked_fill, maximum as _op_maximum, minimum as _op_minimum, mul
    as _op_mul, ne as _op_ne, ne_operator as _op_ne_operator, pow as _op_pow, rdiv as _op_rdiv,
    remainder as _op_remainder, reversed_sub as _op_reversed_sub, rfloordiv as _op_rfloordiv, rmod
    as _op_rmod, rpow as _op_rpow, sub as _op_sub
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
    matmul as _op_matmul, reversed_matmul as _op_reversed_matmul
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
from rushlight.core.ops.shifts import (
    bitwise_left_shift as _op_bitwise_left_shift, bitwise_right_shift as _op_bitwise_right_shift,
    rlshift as _op_rlshift, rrshift as _op_rrshift
)
from rushlight.core.ops.sort import (
    argsort as _op_argsort, topk as _op_topk
)
from rushlight.core.ops.strided import (
    as_strided as _op_as_strided
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
from rushlight.core.functional.attributes import (
    detach, detach_, get_device, is_floating_point, is_inference, is_nonzero, is_same_size,
    is_signed, is_tensor, numel
)
from rushlight.core.functional.calculus import (
    cumulative_trapezoid, diff, gradient, trapezoid
)
from rushlight.core.functional.comparison import (
    allclose, equal, fmax, fmin, isclose, isin, isneginf, isposinf, isreal, kthvalue, msort, sort
)
from rushlight.core.functional.complex import (
    angle, complex, conj_physical, is_complex, is_conj, polar, real, resolve_conj
)
from rushlight.core.functional.creation import (
    empty_like, empty_permuted, empty_strided, eye, full_like, linspace, logspace, ones_like,
    scalar_tensor, zeros_like
)
from rushlight.core.functional.cumulative import (
    cummax, cummin, cumprod, logcumsumexp
)
from rushlight.core.functional.diagonals import (
    diag, diag_embed, diagflat, diagonal, diagonal_scatter, trace, tril, tril_indices, triu,
    triu_indices
)
from rushlight.core.functional.indexing import (
    argwhere, as_strided_scatter, fill, index_copy, index_fill, index_put, index_reduce,
    masked_scatter, masked_select, masked_select_async, nonzero_static, put, scatter_reduce, select,
    select_scatter, slice_scatter, take, take_along_dim, unravel_index
)
from rushlight.core.functional.joining import (
    atleast_1d, atleast_2d, atleast_3d, block_diag, cartesian_prod, chunk, column_stack,
    combinations, dsplit, dstack, hsplit, hstack, meshgrid, repeat, repeat_interleave, split,
    split_with_sizes, stack, tensor_split, tile, unbind, vsplit, vstack
)
from rushlight.core.functional.linalg.blas import (
    addbmm, addmm, addmv, addr, baddbmm, bmm, chain_matmul, dot, inner, mm, mv, outer, vdot
)
from rushlight.core.functional.linalg.compact import (
    geqrf, pca_lowrank, svd_lowrank
)
from rushlight.core.functional.linalg.einsum import (
    einsum, tensordot
)
from rushlight.core.functional.linalg.factorizations import (
    lu_unpack
)
from rushlight.core.functional.linalg.norms import (
    renorm
)
from rushlight.core.functional.linalg.older_names import (
    cholesky, cross, lu, lu_solve, pinverse, qr, svd, triangular_solve, vander
)
from rushlight.core.functional.linalg.products import (
    householder_product, kron, matrix_exp, matrix_power, ormqr
)
from rushlight.core.functional.linalg.solving import (
    cholesky_inverse, cholesky_solve, det, inv, logdet, slogdet
)
from rushlight.core.functional.network.activations import (
    celu, hardshrink, prelu, selu, threshold
)
from rushlight.core.functional.network.convolution import (
    conv1d, conv3d, conv_transpose1d, conv_transpose3d
)
from rushlight.core.functional.network.ctc import (
    ctc_loss
)
from rushlight.core.functional.network.distance import (
    cdist, cosine_similarity, pairwise_distance, pdist
)
from rushlight.core.functional.network.dropout import (
    dropout
)
from rushlight.core.functional.network.embedding import (
    embedding_bag
)
from rushlight.core.functional.network.linear import (
    bilinear
)
from rushlight.core.functional.network.losses import (
    cosine_embedding_loss, hinge_embedding_loss, kl_div, margin_ranking_loss, poisson_nll_loss,
    triplet_margin_loss
)
from rushlight.core.functional.network.padding import (
    constant_pad_nd
)
from rushlight.core.functional.network.pooling import (
    adaptive_avg_pool1d, adaptive_max_pool1d, avg_pool1d, avg_pool2d, max_pool1d, max_pool2d,
    max_pool3d
)
from rushlight.core.functional.network.recurrent import (
    gru, gru_cell, lstm, lstm_cell, rnn_relu, rnn_relu_cell, rnn_tanh, rnn_tanh_cell
)
from rushlight.core.functional.network.vision import (
    channel_shuffle, pixel_shuffle, pixel_unshuffle
)
from rushlight.core.functional.pointwise import (
    acosh, addcdiv, addcmul, asinh, atan2, atanh, clamp, clamp_, clamp_max, clamp_min, copysign,
    deg2rad, exp2, float_power, fmod, frac, frexp, gcd, heaviside, hypot, lcm, ldexp, lerp,
    logaddexp, logaddexp2, logit, nan_to_num, nextafter, positive, rad2deg, rsub, sgn, signbit,
    sinc, xlogy
)
from rushlight.core.functional.random import (
    bernoulli, binomial, multinomial, normal, poisson, rand_like, randint_like, randn_like, randperm
)
from rushlight.core.functional.reductions import (
    aminmax, count_nonzero, dist, logsumexp, max, mean, median, min, mode, nanmean, nanmedian,
    nanquantile, nansum, norm, prod, quantile, std, std_mean, var, var_mean
)
from rushlight.core.functional.shape import (
    adjoint, broadcast_shapes, broadcast_tensors, broadcast_to, flatten, fliplr, flipud, movedim,
    ravel, resize_as_, roll, rot90, t, unflatten
)
from rushlight.core.functional.special.bessel import (
    i0
)
from rushlight.core.functional.special.errors import (
    erfc, erfinv
)
from rushlight.core.functional.special.gamma import (
    digamma, igamma, igammac, lgamma, mvlgamma, polygamma
)
from rushlight.core.functional.spectral import (
    bartlett_window, blackman_window, hamming_window, hann_window, istft, kaiser_window, stft
)
from rushlight.core.functional.statistics import (
    bincount, bucketize, corrcoef, cov, histc, histogram, histogramdd, searchsorted
)
from rushlight.core.functional.unique import (
    unique, unique_consecutive
)
from rushlight.core.functional.views import (
    alias_copy, as_strided_, as_strided_copy, detach_copy, diagonal_copy, expand_copy, narrow_copy,
    permute_copy, select_copy, slice, slice_copy, split_copy, split_with_sizes_copy, squeeze_copy,
    t_copy, transpose_copy, unbind_copy, unfold_copy, unsqueeze_copy, view_copy
)
from rushlight.core.ops.attention import (
    attention
)
from rushlight.core.ops.binary import (
    add, bitwise_and, bitwise_or, bitwise_xor, div, eq, floor_divide, ge, gt, le, logical_and,
    logical_or, logical_xor, lt, masked_fill, maximum, minimum, mul, ne, pow, remainder, sub, where
)
from rushlight.core.ops.complex import (
    imag, view_as_complex, view_as_real
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
    layer_norm, log_softmax, rms_norm, softmax
)
from rushlight.core.ops.random import (
    rand, randint, randn
)
from rushlight.core.ops.reduce import (
    all, amax, amin, any, argmax, argmin, cumsum, sum
)
from rushlight.core.ops.rotary import (
    rope
)
from rushlight.core.ops.shifts import (
    bitwise_left_shift, bitwise_right_shift
)
from rushlight.core.ops.sort import (
    argsort, topk
)
from rushlight.core.ops.strided import (
    as_strided
)
from rushlight.core.ops.unary import (
    abs, acos, asin, atan, bitwise_not, cast, ceil, clone, contiguous, cos, cosh, erf, exp, expm1,
    floor, gelu, isfinite, isinf, isnan, log, log10, log1p, log2, logical_not, neg, reciprocal,
    relu, round, rsqrt, sigmoid, sign, silu, sin, sinh, sqrt, square, tan, tanh, trunc
)
abs_: _Callable[..., _Tensor]
acos_: _Callable[..., _Tensor]
acosh_: _Callable[..., _Tensor]
addmv_: _Callable[..., _Tensor]
arccos_: _Callable[..., _Tensor]
arccosh_: _Callable[..., _Tensor]
arcsin_: _Callable[..., _Tensor]
arcsinh_: _Callable[..., _Tensor]
arctan_: _Callable[..., _Tensor]
arctanh_: _Callable[..., _Tensor]
asin_: _Callable[..., _Tensor]
asinh_: _Callable[..., _Tensor]
atan_: _Callable[..., _Tensor]
atanh_: _Callable[..., _Tensor]
ceil_: _Callable[..., _Tensor]
clamp_max_: _Callable[..., _Tensor]
clamp_min_: _Callable[..., _Tensor]
clip_: _Callable[..., _Tensor]
conj_physical_: _Callable[..., _Tensor]
cos_: _Callable[..., _Tensor]
cosh_: _Callable[..., _Tensor]
deg2rad_: _Callable[..., _Tensor]
erf_: _Callable[..., _Tensor]
erfc_: _Callable[..., _Tensor]
exp2_: _Callable[..., _Tensor]
exp_: _Callable[..., _Tensor]
expm1_: _Callable[..., _Tensor]
fix_: _Callable[..., _Tensor]
floor_: _Callable[..., _Tensor]
frac_: _Callable[..., _Tensor]
gcd_: _Callable[..., _Tensor]
i0_: _Callable[..., _Tensor]
index_put_: _Callable[..., _Tensor]
lcm_: _Callable[..., _Tensor]
ldexp_: _Callable[..., _Tensor]
log10_: _Callable[..., _Tensor]
log1p_: _Callable[..., _Tensor]
log2_: _Callable[..., _Tensor]
log_: _Callable[..., _Tensor]
logit_: _Callable[..., _Tensor]
nan_to_num_: _Callable[..., _Tensor]
neg_: _Callable[..., _Tensor]
negative_: _Callable[..., _Tensor]
rad2deg_: _Callable[..., _Tensor]
reciprocal_: _Callable[..., _Tensor]
relu_: _Callable[..., _Tensor]
round_: _Callable[..., _Tensor]
rsqrt_: _Callable[..., _Tensor]
sigmoid_: _Callable[..., _Tensor]
sin_: _Callable[..., _Tensor]
sinc_: _Callable[..., _Tensor]
sinh_: _Callable[..., _Tensor]
sqrt_: _Callable[..., _Tensor]
square_: _Callable[..., _Tensor]
tan_: _Callable[..., _Tensor]
tanh_: _Callable[..., _Tensor]
trunc_: _Callable[..., _Tensor]
xlogy_: _Callable[..., _Tensor]

__all__ = [
    "abs", "abs_", "absolute", "acos", "acos_", "acosh", "acosh_", "adaptive_avg_pool1d",
    "adaptive_max_pool1d", "add", "add_", "addbmm", "addcdiv", "addcmul", "addmm", "addmv",
    "addmv_", "addr", "adjoint", "alias_copy", "all", "allclose", "amax", "amin", "aminmax",
    "angle", "any", "arange", "arccos", "arccos_", "arccosh", "arccosh_", "arcsin", "arcsin_",
    "arcsinh", "arcsinh_", "arctan", "arctan2", "arctan_", "arctanh", "arctanh_", "argmax",
    "argmin", "argsort", "argwhere", "as_strided", "as_strided_", "as_strided_copy",
    "as_strided_scatter", "asin", "asin_", "asinh", "asinh_", "atan", "atan2", "atan_", "atanh",
    "atanh_", "atleast_1d", "atleast_2d", "atleast_3d", "attention", "avg_pool1d", "avg_pool2d",
    "baddbmm", "bartlett_window", "bernoulli", "bilinear", "bincount", "binomial", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "blackman_window", "block_diag", "bmm", "broadcast_shapes", "broadcast_tensors", "broadcast_to",
    "bucketize", "cartesian_prod", "cast", "cat", "cdist", "ceil", "ceil_", "celu", "chain_matmul",
    "channel_shuffle", "cholesky", "cholesky_inverse", "cholesky_solve", "chunk", "clamp", "clamp_",
    "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clip", "clip_", "clone", "column_stack",
    "combinations", "complex", "concat", "concatenate", "conj", "conj_physical", "conj_physical_",
    "constant_pad_nd", "contiguous", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "copy_", "copysign", "corrcoef", "cos", "cos_", "cosh",
    "cosh_", "cosine_embedding_loss", "cosine_similarity", "count_nonzero", "cov", "cross",
    "ctc_loss", "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "custom_op",
    "deg2rad", "deg2rad_", "det", "detach", "detach_", "detach_copy", "diag", "diag_embed",
    "diagflat", "diagonal", "diagonal_copy", "diagonal_scatter", "diff", "digamma", "dist", "div",
    "div_", "divide", "dot", "dropout", "dsplit", "dstack", "einsum", "embedding", "embedding_bag",
    "empty", "empty_like", "empty_permuted", "empty_strided", "eq", "equal", "erf", "erf_", "erfc",
    "erfc_", "erfinv", "exp", "exp2", "exp2_", "exp_", "expand", "expand_copy", "expm1", "expm1_",
    "eye", "fill", "fill_", "fix", "fix_", "flatten", "flip", "fliplr", "flipud", "float_power",
    "floor", "floor_", "floor_divide", "fmax", "fmin", "fmod", "frac", "frac_", "frexp", "full",
    "full_like", "gather", "gcd", "gcd_", "ge", "gelu", "geqrf", "ger", "get_device", "gradient",
    "greater", "greater_equal", "gru", "gru_cell", "gt", "hamming_window", "hann_window",
    "hardshrink", "heaviside", "hinge_embedding_loss", "histc", "histogram", "histogramdd",
    "householder_product", "hsplit", "hstack", "hypot", "i0", "i0_", "igamma", "igammac", "imag",
    "index_add", "index_copy", "index_fill", "index_put", "index_put_", "index_reduce",
    "index_select", "inner", "inverse", "is_complex", "is_conj", "is_distributed",
    "is_floating_point", "is_inference", "is_neg", "is_nonzero", "is_same_size", "is_signed",
    "is_tensor", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal",
    "istft", "kaiser_window", "kl_div", "kron", "kthvalue", "layer_norm", "lcm", "lcm_", "ldexp",
    "ldexp_", "le", "lerp", "less", "less_equal", "lgamma", "linear", "linear_experts", "linspace",
    "log", "log10", "log10_", "log1p", "log1p_", "log2", "log2_", "log_", "log_softmax",
    "logaddexp", "logaddexp2", "logcumsumexp", "logdet", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logit", "logit_", "logspace", "logsumexp", "lstm", "lstm_cell", "lt", "lu",
    "lu_solve", "lu_unpack", "margin_ranking_loss", "masked_fill", "masked_scatter",
    "masked_select", "masked_select_async", "matmul", "matrix_exp", "matrix_power", "max",
    "max_pool1d", "max_pool2d", "max_pool3d", "maximum", "mean", "median", "meshgrid", "min",
    "minimum", "mm", "mode", "moveaxis", "movedim", "msort", "mul", "mul_", "multinomial",
    "multiply", "mv", "mvlgamma", "nan_to_num", "nan_to_num_", "nanmean", "nanmedian",
    "nanquantile", "nansum", "narrow", "narrow_copy", "ne", "neg", "neg_", "negative", "negative_",
    "nextafter", "nonzero", "nonzero_async", "nonzero_static", "norm", "normal", "not_equal",
    "numel", "ones", "ones_like", "ormqr", "outer", "pad", "pairwise_distance", "pca_lowrank",
    "pdist", "permute", "permute_copy", "pinverse", "pixel_shuffle", "pixel_unshuffle", "poisson",
    "poisson_nll_loss", "polar", "polygamma", "positive", "pow", "prelu", "prod", "put", "qr",
    "quantile", "rad2deg", "rad2deg_", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "ravel", "real", "reciprocal", "reciprocal_", "relu", "relu_",
    "remainder", "renorm", "repeat", "repeat_interleave", "reshape", "resize_as_", "resolve_conj",
    "resolve_neg", "rms_norm", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell", "roll",
    "rope", "rot90", "round", "round_", "row_stack", "rsqrt", "rsqrt_", "rsub", "scalar_tensor",
    "scatter", "scatter_add", "scatter_reduce", "searchsorted", "select", "select_copy",
    "select_scatter", "selu", "sgn", "sigmoid", "sigmoid_", "sign", "signbit", "silu", "sin",
    "sin_", "sinc", "sinc_", "sinh", "sinh_", "slice", "slice_copy", "slice_scatter", "slogdet",
    "softmax", "sort", "split", "split_copy", "split_with_sizes", "split_with_sizes_copy", "sqrt",
    "sqrt_", "square", "square_", "squeeze", "squeeze_copy", "stack", "std", "std_mean", "stft",
    "sub", "sub_", "subtract", "sum", "svd", "svd_lowrank", "swapaxes", "swapdims", "t", "t_copy",
    "take", "take_along_dim", "tan", "tan_", "tanh", "tanh_", "tensor_split", "tensordot",
    "threshold", "tile", "topk", "trace", "transpose", "transpose_copy", "trapezoid", "trapz",
    "triangular_solve", "tril", "tril_indices", "triplet_margin_loss", "triu", "triu_indices",
    "true_divide", "trunc", "trunc_", "unbind", "unbind_copy", "unflatten", "unfold", "unfold_copy",
    "unique", "unique_consecutive", "unravel_index", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes", "unsqueeze", "unsqueeze_copy", "vander", "var", "var_mean", "vdot",
    "view", "view_as_complex", "view_as_real", "view_copy", "vsplit", "vstack", "where", "xlogy",
    "xlogy_", "zero_", "zeros", "zeros_like"
]
absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
clip = clamp
concat = cat
concatenate = cat
conj = conj_physical
divide = div
fix = trunc
ger = outer
greater = gt
greater_equal = ge
inverse = inv
is_distributed = is_conj
is_neg = is_conj
less = lt
less_equal = le
moveaxis = movedim
multiply = mul
negative = neg
not_equal = ne
resolve_neg = resolve_conj
row_stack = vstack
subtract = sub
swapaxes = transpose
swapdims = transpose
trapz = trapezoid
true_divide = div
unsafe_chunk = chunk
unsafe_split = split
unsafe_split_with_sizes = split_with_sizes

from rushlight.core.tensor.op import Meta

class Declared(Meta):
    __abs__ = _op_abs
    __add__ = _op_add
    __and__ = _op_bitwise_and
    __eq__ = _op_eq_operator  # type: ignore[assignment]
    __floordiv__ = _op_floor_divide
    __ge__ = _op_ge
    __getitem__ = _op_getitem
    __gt__ = _op_gt
    __iadd__ = _op_add_
    __iand__ = _op_bitwise_and_
    __ifloordiv__ = _op_floor_divide_
    __ilshift__ = _op_bitwise_left_shift_
    __imod__ = _op_remainder_
    __imul__ = _op_mul_
    __invert__ = _op_bitwise_not
    __ior__ = _op_bitwise_or_
    __ipow__ = _op_pow_
    __irshift__ = _op_bitwise_right_shift_
    __isub__ = _op_sub_
    __itruediv__ = _op_div_
    __ixor__ = _op_bitwise_xor_
    __le__ = _op_le
    __lshift__ = _op_bitwise_left_shift
    __lt__ = _op_lt
    __matmul__ = _op_matmul
    __mod__ = _op_remainder
    __mul__ = _op_mul
    __ne__ = _op_ne_operator  # type: ignore[assignment]
    __neg__ = _op_neg
    __or__ = _op_bitwise_or
    __pos__ = _op_positive
    __pow__ = _op_pow
    __radd__ = _op_add
    __rand__ = _op_bitwise_and
    __rdiv__ = _op_rdiv
    __rfloordiv__ = _op_rfloordiv
    __rlshift__ = _op_rlshift
    __rmatmul__ = _op_reversed_matmul
    __rmod__ = _op_rmod
    __rmul__ = _op_mul
    __ror__ = _op_bitwise_or
    __rpow__ = _op_rpow
    __rrshift__ = _op_rrshift
    __rshift__ = _op_bitwise_right_shift
    __rsub__ = _op_reversed_sub
    __rtruediv__ = _op_rdiv
    __rxor__ = _op_bitwise_xor
    __setitem__ = _op_setitem
    __sub__ = _op_sub
    __truediv__ = _op_div
    __xor__ = _op_bitwise_xor
    abs = _op_abs
    abs_ = _op_abs_
    absolute = _op_abs
    absolute_ = _op_absolute_
    acos = _op_acos
    acos_ = _op_acos_
    acosh = _op_acosh
    acosh_ = _op_acosh_
    add = _op_add
    add_ = _op_add_
    addbmm = _op_addbmm
    addbmm_ = _op_addbmm_
    addcdiv = _op_addcdiv
    addcdiv_ = _op_addcdiv_
    addcmul = _op_addcmul
    addcmul_ = _op_addcmul_
    addmm = _op_addmm
    addmm_ = _op_addmm_
    addmv = _op_addmv
    addmv_ = _op_addmv_
    addr = _op_addr
    addr_ = _op_addr_
    adjoint = _op_adjoint
    all = _op_all
    allclose = _op_allclose
    amax = _op_amax
    amin = _op_amin
    aminmax = _op_aminmax
    angle = _op_angle
    any = _op_any
    apply_ = _op_apply_
    arccos = _op_acos
    arccos_ = _op_arccos_
    arccosh = _op_acosh
    arccosh_ = _op_arccosh_
    arcsin = _op_asin
    arcsin_ = _op_arcsin_
    arcsinh = _op_asinh
    arcsinh_ = _op_arcsinh_
    arctan = _op_atan
    arctan2 = _op_atan2
    arctan2_ = _op_arctan2_
    arctan_ = _op_arctan_
    arctanh = _op_atanh
    arctanh_ = _op_arctanh_
    argmax = _op_argmax
    argmin = _op_argmin
    argsort = _op_argsort
    argwhere = _op_argwhere
    as_strided = _op_as_strided
    as_strided_ = _op_as_strided_
    as_strided_scatter = _op_as_strided_scatter
    asin = _op_asin
    asin_ = _op_asin_
    asinh = _op_asinh
    asinh_ = _op_asinh_
    atan = _op_atan
    atan2 = _op_atan2
    atan2_ = _op_atan2_
    atan_ = _op_atan_
    atanh = _op_atanh
    atanh_ = _op_atanh_
    baddbmm = _op_baddbmm
    baddbmm_ = _op_baddbmm_
    bernoulli = _op_bernoulli
    bernoulli_ = _op_bernoulli_
    bincount = _op_bincount
    bitwise_and = _op_bitwise_and
    bitwise_and_ = _op_bitwise_and_
    bitwise_left_shift = _op_bitwise_left_shift
    bitwise_left_shift_ = _op_bitwise_left_shift_
    bitwise_not = _op_bitwise_not
    bitwise_not_ = _op_bitwise_not_
    bitwise_or = _op_bitwise_or
    bitwise_or_ = _op_bitwise_or_
    bitwise_right_shift = _op_bitwise_right_shift
    bitwise_right_shift_ = _op_bitwise_right_shift_
    bitwise_xor = _op_bitwise_xor
    bitwise_xor_ = _op_bitwise_xor_
    bmm = _op_bmm
    broadcast_to = _op_broadcast_to
    cauchy_ = _op_cauchy_
    ceil = _op_ceil
    ceil_ = _op_ceil_
    cholesky = _op_cholesky
    cholesky_inverse = _op_cholesky_inverse
    cholesky_solve = _op_cholesky_solve
    chunk = _op_chunk
    clamp = _op_clamp
    clamp_ = _op_clamp_
    clamp_max = _op_clamp_max
    clamp_max_ = _op_clamp_max_
    clamp_min = _op_clamp_min
    clamp_min_ = _op_clamp_min_
    clip = _op_clamp
    clip_ = _op_clip_
    clone = _op_clone
    conj = _op_conj_physical
    conj_physical = _op_conj_physical
    conj_physical_ = _op_conj_physical_
    contiguous = _op_contiguous
    copy_ = _op_copy_
    copysign = _op_copysign
    copysign_ = _op_copysign_
    corrcoef = _op_corrcoef
    cos = _op_cos
    cos_ = _op_cos_
    cosh = _op_cosh
    cosh_ = _op_cosh_
    count_nonzero = _op_count_nonzero
    cov = _op_cov
    cross = _op_cross
    cuda = _op_cuda
    cummax = _op_cummax
    cummin = _op_cummin
    cumprod = _op_cumprod
    cumprod_ = _op_cumprod_
    cumsum = _op_cumsum
    cumsum_ = _op_cumsum_
    data_ptr = _op_data_ptr
    deg2rad = _op_deg2rad
    deg2rad_ = _op_deg2rad_
    det = _op_det
    detach_ = _op_detach_
    diag = _op_diag
    diag_embed = _op_diag_embed
    diagflat = _op_diagflat
    diagonal = _op_diagonal
    diagonal_scatter = _op_diagonal_scatter
    diff = _op_diff
    digamma = _op_digamma
    digamma_ = _op_digamma_
    dist = _op_dist
    div = _op_div
    div_ = _op_div_
    divide = _op_div
    divide_ = _op_divide_
    dot = _op_dot
    dsplit = _op_dsplit
    element_size = _op_element_size
    eq = _op_eq
    eq_ = _op_eq_
    equal = _op_equal
    erf = _op_erf
    erf_ = _op_erf_
    erfc = _op_erfc
    erfc_ = _op_erfc_
    erfinv = _op_erfinv
    erfinv_ = _op_erfinv_
    exp = _op_exp
    exp2 = _op_exp2
    exp2_ = _op_exp2_
    exp_ = _op_exp_
    expand = _op_expand
    expand_as = _op_expand_as
    expm1 = _op_expm1
    expm1_ = _op_expm1_
    exponential_ = _op_exponential_
    fill = _op_fill
    fill_ = _op_fill_
    fill_diagonal_ = _op_fill_diagonal_
    fix = _op_trunc
    fix_ = _op_fix_
    flatten = _op_flatten
    flip = _op_flip
    fliplr = _op_fliplr
    flipud = _op_flipud
    float_power = _op_float_power
    float_power_ = _op_float_power_
    floor = _op_floor
    floor_ = _op_floor_
    floor_divide = _op_floor_divide
    floor_divide_ = _op_floor_divide_
    fmax = _op_fmax
    fmin = _op_fmin
    fmod = _op_fmod
    fmod_ = _op_fmod_
    frac = _op_frac
    frac_ = _op_frac_
    frexp = _op_frexp
    full_like = _op_full_like
    gather = _op_gather
    gcd = _op_gcd
    gcd_ = _op_gcd_
    ge = _op_ge
    ge_ = _op_ge_
    gelu = _op_gelu
    geometric_ = _op_geometric_
    geqrf = _op_geqrf
    ger = _op_outer
    get_device = _op_get_device
    greater = _op_gt
    greater_ = _op_greater_
    greater_equal = _op_ge
    greater_equal_ = _op_greater_equal_
    gt = _op_gt
    gt_ = _op_gt_
    hardshrink = _op_hardshrink
    heaviside = _op_heaviside
    heaviside_ = _op_heaviside_
    histc = _op_histc
    histogram = _op_histogram
    hsplit = _op_hsplit
    hypot = _op_hypot
    hypot_ = _op_hypot_
    i0 = _op_i0
    i0_ = _op_i0_
    igamma = _op_igamma
    igamma_ = _op_igamma_
    igammac = _op_igammac
    igammac_ = _op_igammac_
    index_add = _op_index_add
    index_add_ = _op_index_add_
    index_copy = _op_index_copy
    index_copy_ = _op_index_copy_
    index_fill = _op_index_fill
    index_fill_ = _op_index_fill_
    index_put = _op_index_put
    index_put_ = _op_index_put_
    index_reduce = _op_index_reduce
    index_reduce_ = _op_index_reduce_
    index_select = _op_index_select
    inner = _op_inner
    inverse = _op_inv
    is_coalesced = _op_is_pinned
    is_complex = _op_is_complex
    is_conj = _op_is_conj
    is_distributed = _op_is_conj
    is_floating_point = _op_is_floating_point
    is_inference = _op_is_inference
    is_neg = _op_is_conj
    is_nonzero = _op_is_nonzero
    is_pinned = _op_is_pinned
    is_same_size = _op_is_same_size
    is_shared = _op_is_pinned
    is_signed = _op_is_signed
    isclose = _op_isclose
    isfinite = _op_isfinite
    isinf = _op_isinf
    isnan = _op_isnan
    isneginf = _op_isneginf
    isposinf = _op_isposinf
    isreal = _op_isreal
    istft = _op_istft
    kron = _op_kron
    kthvalue = _op_kthvalue
    lcm = _op_lcm
    lcm_ = _op_lcm_
    ldexp = _op_ldexp
    ldexp_ = _op_ldexp_
    le = _op_le
    le_ = _op_le_
    lerp = _op_lerp
    lerp_ = _op_lerp_
    less = _op_lt
    less_ = _op_less_
    less_equal = _op_le
    less_equal_ = _op_less_equal_
    lgamma = _op_lgamma
    lgamma_ = _op_lgamma_
    log = _op_log
    log10 = _op_log10
    log10_ = _op_log10_
    log1p = _op_log1p
    log1p_ = _op_log1p_
    log2 = _op_log2
    log2_ = _op_log2_
    log_ = _op_log_
    log_normal_ = _op_log_normal_
    log_softmax = _op_log_softmax
    logaddexp = _op_logaddexp
    logaddexp2 = _op_logaddexp2
    logcumsumexp = _op_logcumsumexp
    logdet = _op_logdet
    logical_and = _op_logical_and
    logical_and_ = _op_logical_and_
    logical_not = _op_logical_not
    logical_not_ = _op_logical_not_
    logical_or = _op_logical_or
    logical_or_ = _op_logical_or_
    logical_xor = _op_logical_xor
    logical_xor_ = _op_logical_xor_
    logit = _op_logit
    logit_ = _op_logit_
    logsumexp = _op_logsumexp
    lt = _op_lt
    lt_ = _op_lt_
    lu = _op_lu
    lu_solve = _op_lu_solve
    map_ = _op_map_
    masked_fill = _op_masked_fill
    masked_fill_ = _op_masked_fill_
    masked_scatter = _op_masked_scatter
    masked_scatter_ = _op_masked_scatter_
    masked_select = _op_masked_select
    masked_select_async = _op_masked_select_async
    matmul = _op_matmul
    matrix_exp = _op_matrix_exp
    matrix_power = _op_matrix_power
    max = _op_max
    maximum = _op_maximum
    mean = _op_mean
    median = _op_median
    min = _op_min
    minimum = _op_minimum
    mm = _op_mm
    mode = _op_mode
    moveaxis = _op_movedim
    movedim = _op_movedim
    msort = _op_msort
    mul = _op_mul
    mul_ = _op_mul_
    multinomial = _op_multinomial
    multiply = _op_mul
    multiply_ = _op_multiply_
    mv = _op_mv
    mvlgamma = _op_mvlgamma
    mvlgamma_ = _op_mvlgamma_
    nan_to_num = _op_nan_to_num
    nan_to_num_ = _op_nan_to_num_
    nanmean = _op_nanmean
    nanmedian = _op_nanmedian
    nanquantile = _op_nanquantile
    nansum = _op_nansum
    narrow = _op_narrow
    narrow_copy = _op_narrow_copy
    ndimension = _op_ndimension
    ne = _op_ne
    ne_ = _op_ne_
    neg = _op_neg
    neg_ = _op_neg_
    negative = _op_neg
    negative_ = _op_negative_
    nelement = _op_nelement
    new_empty = _op_new_empty
    new_empty_strided = _op_new_empty_strided
    new_full = _op_new_full
    new_ones = _op_new_ones
    new_tensor = _op_new_tensor
    new_zeros = _op_new_zeros
    nextafter = _op_nextafter
    nextafter_ = _op_nextafter_
    nonzero = _op_nonzero
    nonzero_async = _op_nonzero_async
    nonzero_static = _op_nonzero_static
    norm = _op_norm
    normal_ = _op_normal_
    not_equal = _op_ne
    not_equal_ = _op_not_equal_
    ones_like = _op_ones_like
    ormqr = _op_ormqr
    outer = _op_outer
    permute = _op_permute
    pin_memory = _op_pin_memory
    pinverse = _op_pinverse
    polygamma = _op_polygamma
    polygamma_ = _op_polygamma_
    positive = _op_positive
    pow = _op_pow
    pow_ = _op_pow_
    prelu = _op_prelu
    prod = _op_prod
    put = _op_put
    put_ = _op_put_
    qr = _op_qr
    quantile = _op_quantile
    rad2deg = _op_rad2deg
    rad2deg_ = _op_rad2deg_
    random_ = _op_random_
    ravel = _op_ravel
    reciprocal = _op_reciprocal
    reciprocal_ = _op_reciprocal_
    relu = _op_relu
    relu_ = _op_relu_
    remainder = _op_remainder
    remainder_ = _op_remainder_
    renorm = _op_renorm
    renorm_ = _op_renorm_
    repeat = _op_repeat
    repeat_interleave = _op_repeat_interleave
    reshape = _op_reshape
    reshape_as = _op_reshape_as
    resize_ = _op_resize_
    resize_as_ = _op_resize_as_
    resolve_conj = _op_resolve_conj
    resolve_neg = _op_resolve_conj
    roll = _op_roll
    rot90 = _op_rot90
    round = _op_round
    round_ = _op_round_
    rsqrt = _op_rsqrt
    rsqrt_ = _op_rsqrt_
    rsub = _op_rsub
    scatter = _op_scatter
    scatter_ = _op_scatter_
    scatter_add = _op_scatter_add
    scatter_add_ = _op_scatter_add_
    scatter_reduce = _op_scatter_reduce
    scatter_reduce_ = _op_scatter_reduce_
    select = _op_select
    select_scatter = _op_select_scatter
    sgn = _op_sgn
    sgn_ = _op_sgn_
    share_memory_ = _op_share_memory_
    sigmoid = _op_sigmoid
    sigmoid_ = _op_sigmoid_
    sign = _op_sign
    sign_ = _op_sign_
    signbit = _op_signbit
    silu = _op_silu
    sin = _op_sin
    sin_ = _op_sin_
    sinc = _op_sinc
    sinc_ = _op_sinc_
    sinh = _op_sinh
    sinh_ = _op_sinh_
    slice = _op_slice
    slice_scatter = _op_slice_scatter
    slogdet = _op_slogdet
    softmax = _op_softmax
    sort = _op_sort
    split = _op_split
    split_with_sizes = _op_split_with_sizes
    sqrt = _op_sqrt
    sqrt_ = _op_sqrt_
    square = _op_square
    square_ = _op_square_
    squeeze = _op_squeeze
    squeeze_ = _op_squeeze_
    std = _op_std
    stft = _op_stft
    sub = _op_sub
    sub_ = _op_sub_
    subtract = _op_sub
    subtract_ = _op_subtract_
    sum = _op_sum
    sum_to_size = _op_sum_to_size
    svd = _op_svd
    swapaxes = _op_transpose
    swapaxes_ = _op_swapaxes_
    swapdims = _op_transpose
    swapdims_ = _op_swapdims_
    t = _op_t
    t_ = _op_t_
    take = _op_take
    take_along_dim = _op_take_along_dim
    tan = _op_tan
    tan_ = _op_tan_
    tanh = _op_tanh
    tanh_ = _op_tanh_
    tensor_split = _op_tensor_split
    tile = _op_tile
    to_dense = _op_to_dense
    topk = _op_topk
    trace = _op_trace
    transpose = _op_transpose
    transpose_ = _op_transpose_
    triangular_solve = _op_triangular_solve
    tril = _op_tril
    tril_ = _op_tril_
    triu = _op_triu
    triu_ = _op_triu_
    true_divide = _op_div
    true_divide_ = _op_true_divide_
    trunc = _op_trunc
    trunc_ = _op_trunc_
    type = _op_type
    type_as = _op_type_as
    unbind = _op_unbind
    unflatten = _op_unflatten
    unfold = _op_unfold
    uniform_ = _op_uniform_
    unique = _op_unique
    unique_consecutive = _op_unique_consecutive
    unsafe_chunk = _op_chunk
    unsafe_split = _op_split
    unsafe_split_with_sizes = _op_split_with_sizes
    unsqueeze = _op_unsqueeze
    unsqueeze_ = _op_unsqueeze_
    vander = _op_vander
    var = _op_var
    vdot = _op_vdot
    view = _op_view
    view_as = _op_view_as
    vsplit = _op_vsplit
    where = _op__where
    xlogy = _op_xlogy
    xlogy_ = _op_xlogy_
    zero_ = _op_zero_
    zeros_like = _op_zeros_like
