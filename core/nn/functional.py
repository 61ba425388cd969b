"""The layers and losses as functions, under torch's names; each has its home elsewhere."""

from rushlight.core.nn.embedding import embedding
from rushlight.core.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    l1_loss,
    mse_loss,
    nll_loss,
)
from rushlight.core.nn.norm import batch_norm, group_norm, normalize
from rushlight.core.ops import (
    avg_pool2d,
    conv1d,
    conv2d,
    conv_transpose2d,
    dropout,
    gelu,
    layer_norm,
    linear,
    linear_experts,
    log_softmax,
    max_pool2d,
    pad,
    relu,
    rms_norm,
    sigmoid,
    silu,
    softmax,
    tanh,
)

__all__ = [
    "avg_pool2d", "batch_norm", "binary_cross_entropy_with_logits", "conv1d", "conv2d",
    "conv_transpose2d", "cross_entropy", "dropout", "embedding", "gelu", "group_norm", "l1_loss",
    "layer_norm", "linear", "linear_experts", "log_softmax", "max_pool2d", "mse_loss", "nll_loss",
    "normalize", "pad", "relu", "rms_norm", "sigmoid", "silu", "softmax", "tanh",
]  # fmt: skip
