"""Types of rl.nn.functional. Written by tools/stubs.py (`make format`)."""

from rushlight.core.functional.convolution import (
    avg_pool2d, conv1d, max_pool2d
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
from rushlight.core.functional.recurrence import (
    gated_delta_rule, wkv
)
from rushlight.core.functional.reductions import (
    normalize
)
from rushlight.core.functional.scan import (
    causal_conv1d, linear_recurrence, selective_scan
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
    "avg_pool2d", "batch_norm", "binary_cross_entropy_with_logits", "causal_conv1d", "conv1d",
    "conv2d", "conv_transpose2d", "cross_entropy", "dropout", "embedding", "gated_delta_rule",
    "gelu", "group_norm", "l1_loss", "layer_norm", "linear", "linear_experts", "linear_recurrence",
    "log_softmax", "max_pool2d", "mse_loss", "nll_loss", "normalize", "pad", "relu", "rms_norm",
    "selective_scan", "sigmoid", "silu", "softmax", "tanh", "wkv"
]
