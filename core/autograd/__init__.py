"""Differentiation, under the names of torch.autograd."""

from rushlight.core.autograd import forward_ad, function, functional, graph
from rushlight.core.autograd.checking import gradcheck, gradgradcheck
from rushlight.core.autograd.function import Function
from rushlight.core.autograd.rows import grad
from rushlight.core.autograd.variable import Variable
from rushlight.core.tensor.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.core.tensor.saving import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from rushlight.core.tensor.sweep import backward

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function",
    "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_grad_enabled", "no_grad",
    "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
