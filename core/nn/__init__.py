"""Modules: parameters, buffers, layers and losses."""

from rushlight.core.nn import functional, init, utils
from rushlight.core.nn.activations import (
    GELU,
    Dropout,
    Flatten,
    Identity,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from rushlight.core.nn.containers import ModuleDict, ModuleList, Sequential
from rushlight.core.nn.conv import AvgPool2d, Conv1d, Conv2d, ConvTranspose2d, MaxPool2d
from rushlight.core.nn.embedding import Embedding
from rushlight.core.nn.linear import Linear
from rushlight.core.nn.losses import CrossEntropyLoss, MSELoss
from rushlight.core.nn.module import Module, Parameter
from rushlight.core.nn.norm import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm

__all__ = [
    "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "Conv1d", "Conv2d", "ConvTranspose2d",
    "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "GELU", "GroupNorm", "Identity",
    "LayerNorm", "Linear", "MSELoss", "MaxPool2d", "Module", "ModuleDict", "ModuleList",
    "Parameter", "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh",
    "functional", "init", "utils",
]  # fmt: skip
