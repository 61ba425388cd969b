"""Types of rl.nn.functional. Written by tools/stubs.py (`make format`)."""

from rushlight.core.functional.network.activations import (
    celu, celu_, elu, elu_, glu, gumbel_softmax, hardshrink, hardsigmoid, hardswish, hardtanh,
    hardtanh_, leaky_relu, leaky_relu_, logsigmoid, mish, prelu, relu, relu6, relu_, rrelu, rrelu_,
    selu, selu_, silu, softmin, softplus, softshrink, softsign, tanhshrink, threshold, threshold_
)
from rushlight.core.functional.network.attention import (
    multi_head_attention_forward, scaled_dot_product_attention
)
from rushlight.core.functional.network.convolution import (
    conv1d, conv3d, conv_transpose1d, conv_transpose3d, fold, unfold
)
from rushlight.core.functional.network.cross_entropy import (
    binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, linear_cross_entropy,
    nll_loss
)
from rushlight.core.functional.network.ctc import (
    ctc_loss
)
from rushlight.core.functional.network.distance import (
    cosine_similarity, pairwise_distance, pdist
)
from rushlight.core.functional.network.dropout import (
    alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
)
from rushlight.core.functional.network.embedding import (
    embedding, embedding_bag, one_hot
)
from rushlight.core.functional.network.linear import (
    bilinear
)
from rushlight.core.functional.network.linear_attention import (
    gated_delta_rule, wkv
)
from rushlight.core.functional.network.losses import (
    cosine_embedding_loss, gaussian_nll_loss, hinge_embedding_loss, huber_loss, kl_div, l1_loss,
    margin_ranking_loss, mse_loss, multi_margin_loss, multilabel_margin_loss,
    multilabel_soft_margin_loss, poisson_nll_loss, smooth_l1_loss, soft_margin_loss,
    triplet_margin_loss, triplet_margin_with_distance_loss
)
from rushlight.core.functional.network.normalization import (
    batch_norm, group_norm, instance_norm, local_response_norm
)
from rushlight.core.functional.network.padding import (
    pad
)
from rushlight.core.functional.network.pooling import (
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices, adaptive_max_pool2d, adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d, adaptive_max_pool3d_with_indices, avg_pool1d, avg_pool2d, avg_pool3d,
    fractional_max_pool2d, fractional_max_pool2d_with_indices, fractional_max_pool3d,
    fractional_max_pool3d_with_indices, lp_pool1d, lp_pool2d, lp_pool3d, max_pool1d,
    max_pool1d_with_indices, max_pool2d, max_pool2d_with_indices, max_pool3d,
    max_pool3d_with_indices
)
from rushlight.core.functional.network.state_space import (
    causal_conv1d, linear_recurrence, selective_scan
)
from rushlight.core.functional.network.unpooling import (
    max_unpool1d, max_unpool2d, max_unpool3d
)
from rushlight.core.functional.network.vision import (
    affine_grid, channel_shuffle, grid_sample, interpolate, pixel_shuffle, pixel_unshuffle,
    upsample, upsample_bilinear, upsample_nearest
)
from rushlight.core.functional.reductions import (
    normalize
)
from rushlight.core.ops.conv import (
    conv2d, conv_transpose2d
)
from rushlight.core.ops.experts import (
    linear_experts
)
from rushlight.core.ops.matmul import (
    linear
)
from rushlight.core.ops.norm import (
    layer_norm, log_softmax, rms_norm, softmax
)
from rushlight.core.ops.unary import (
    gelu, sigmoid, tanh
)

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "causal_conv1d", "celu", "celu_", "channel_shuffle",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "elu", "elu_", "embedding", "embedding_bag",
    "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "gated_delta_rule",
    "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm", "gumbel_softmax", "hardshrink",
    "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "hinge_embedding_loss", "huber_loss",
    "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "leaky_relu_",
    "linear", "linear_cross_entropy", "linear_experts", "linear_recurrence", "local_response_norm",
    "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "multi_head_attention_forward", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance",
    "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu", "relu6",
    "relu_", "rms_norm", "rrelu", "rrelu_", "scaled_dot_product_attention", "selective_scan",
    "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin",
    "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest", "wkv"
]
