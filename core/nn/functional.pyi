"""Types of rl.nn.functional. Written by tools/stubs.py (`make format`)."""

from rushlight.core.functional.activations import (
    celu, elu, glu, hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, logsigmoid, mish,
    prelu, relu6, selu, softmin, softplus, softshrink, softsign, tanhshrink, threshold
)
from rushlight.core.functional.algebra import (
    cosine_similarity, pairwise_distance
)
from rushlight.core.functional.convolution import (
    avg_pool2d, conv1d, max_pool2d
)
from rushlight.core.functional.criteria import (
    binary_cross_entropy, cosine_embedding_loss, gaussian_nll_loss, hinge_embedding_loss,
    huber_loss, kl_div, margin_ranking_loss, multilabel_soft_margin_loss, poisson_nll_loss,
    smooth_l1_loss, soft_margin_loss, triplet_margin_loss
)
from rushlight.core.functional.lookup import (
    embedding
)
from rushlight.core.functional.losses import (
    binary_cross_entropy_with_logits, cross_entropy, l1_loss, mse_loss, nll_loss
)
from rushlight.core.functional.normalization import (
    batch_norm, group_norm
)
from rushlight.core.functional.random import (
    dropout
)
from rushlight.core.functional.rearranging import (
    one_hot
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
from rushlight.core.ops.movement import (
    pad
)
from rushlight.core.ops.norm import (
    layer_norm, log_softmax, rms_norm, softmax
)
from rushlight.core.ops.unary import (
    gelu, relu, sigmoid, silu, tanh
)

__all__ = [
    "avg_pool2d", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu",
    "conv1d", "conv2d", "conv_transpose2d", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "dropout", "elu", "embedding", "gaussian_nll_loss", "gelu", "glu",
    "group_norm", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss",
    "huber_loss", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "linear_experts",
    "log_softmax", "logsigmoid", "margin_ranking_loss", "max_pool2d", "mish", "mse_loss",
    "multilabel_soft_margin_loss", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance",
    "poisson_nll_loss", "prelu", "relu", "relu6", "rms_norm", "selu", "sigmoid", "silu",
    "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink",
    "softsign", "tanh", "tanhshrink", "threshold", "triplet_margin_loss"
]
