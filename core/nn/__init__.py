"""Modules: parameters, buffers, layers and losses."""

from typing import Any as _Any

from rushlight.core.basis.errors import absent as _absent
from rushlight.core.nn import functional, init, modules, parameter, utils
from rushlight.core.nn.containers import (
    ModuleDict,
    ModuleList,
    Sequential,
)
from rushlight.core.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from rushlight.core.nn.embedding import Embedding, EmbeddingBag
from rushlight.core.nn.layers.basic import (
    GELU,
    Dropout,
    Flatten,
    Identity,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Tanh,
    Unflatten,
)
from rushlight.core.nn.layers.criteria import *  # noqa: F403
from rushlight.core.nn.layers.criteria import __all__ as _criteria
from rushlight.core.nn.layers.folding import *  # noqa: F403
from rushlight.core.nn.layers.folding import __all__ as _folding
from rushlight.core.nn.layers.lazy import *  # noqa: F403
from rushlight.core.nn.layers.lazy import __all__ as _lazy
from rushlight.core.nn.layers.nonlinear import *  # noqa: F403
from rushlight.core.nn.layers.nonlinear import __all__ as _nonlinear
from rushlight.core.nn.layers.output import *  # noqa: F403
from rushlight.core.nn.layers.output import __all__ as _output
from rushlight.core.nn.layers.parallel import DataParallel
from rushlight.core.nn.layers.parameters import ParameterDict, ParameterList
from rushlight.core.nn.layers.pooling import *  # noqa: F403
from rushlight.core.nn.layers.pooling import __all__ as _pooling
from rushlight.core.nn.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    LSTMCell,
    RNNBase,
    RNNCell,
    RNNCellBase,
)
from rushlight.core.nn.layers.transformer import (
    MultiheadAttention,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from rushlight.core.nn.linear import Bilinear, Linear
from rushlight.core.nn.module import Module, layers_on
from rushlight.core.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    CrossMapLRN2d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
    SyncBatchNorm,
)
from rushlight.core.nn.parameter import Buffer, Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Buffer", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CrossMapLRN2d", "DataParallel",
    "Dropout",
    "Embedding", "EmbeddingBag", "Flatten", "GELU", "GRU", "GRUCell", "GroupNorm", "Identity",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LSTM", "LSTMCell", "LayerNorm", "Linear",
    "LocalResponseNorm", "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "Parameter",
    "ParameterDict", "ParameterList", "RMSNorm", "RNN", "RNNBase", "RNNCell", "RNNCellBase", "ReLU",
    "Sequential", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "SyncBatchNorm", "Tanh", "Transformer",
    "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "Unflatten", "functional", "init", "layers_on", "modules",
    "parameter", "utils",
    *_criteria, *_folding, *_lazy, *_nonlinear, *_output, *_pooling,
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """A name that is not there: AttributeError with those that are near."""
    raise _absent("rushlight.nn", name, __all__)
