"""Types of rushlight.nn. Written by tools/stubs.py (`make format`)."""

from rushlight.core.nn import (
    functional as functional, init as init, modules as modules, parameter as parameter, utils as
    utils
)
from rushlight.core.nn.containers import (
    ModuleDict as ModuleDict, ModuleList as ModuleList, Sequential as Sequential
)
from rushlight.core.nn.conv import (
    Conv1d as Conv1d, Conv2d as Conv2d, Conv3d as Conv3d, ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d, ConvTranspose3d as ConvTranspose3d
)
from rushlight.core.nn.embedding import (
    Embedding as Embedding, EmbeddingBag as EmbeddingBag
)
from rushlight.core.nn.layers.basic import (
    Dropout as Dropout, Flatten as Flatten, GELU as GELU, Identity as Identity, ReLU as ReLU, SiLU
    as SiLU, Sigmoid as Sigmoid, Softmax as Softmax, Softmax2d as Softmax2d, Tanh as Tanh, Unflatten
    as Unflatten
)
from rushlight.core.nn.layers.criteria import (
    BCELoss as BCELoss, BCEWithLogitsLoss as BCEWithLogitsLoss, CTCLoss as CTCLoss,
    CosineEmbeddingLoss as CosineEmbeddingLoss, CrossEntropyLoss as CrossEntropyLoss,
    GaussianNLLLoss as GaussianNLLLoss, HingeEmbeddingLoss as HingeEmbeddingLoss, HuberLoss as
    HuberLoss, KLDivLoss as KLDivLoss, L1Loss as L1Loss, MSELoss as MSELoss, MarginRankingLoss as
    MarginRankingLoss, MultiLabelMarginLoss as MultiLabelMarginLoss, MultiLabelSoftMarginLoss as
    MultiLabelSoftMarginLoss, MultiMarginLoss as MultiMarginLoss, NLLLoss as NLLLoss, PoissonNLLLoss
    as PoissonNLLLoss, SmoothL1Loss as SmoothL1Loss, SoftMarginLoss as SoftMarginLoss,
    TripletMarginLoss as TripletMarginLoss, TripletMarginWithDistanceLoss as
    TripletMarginWithDistanceLoss
)
from rushlight.core.nn.layers.folding import (
    ChannelShuffle as ChannelShuffle, CircularPad1d as CircularPad1d, CircularPad2d as
    CircularPad2d, CircularPad3d as CircularPad3d, ConstantPad1d as ConstantPad1d, ConstantPad2d as
    ConstantPad2d, ConstantPad3d as ConstantPad3d, Fold as Fold, PixelShuffle as PixelShuffle,
    PixelUnshuffle as PixelUnshuffle, ReflectionPad1d as ReflectionPad1d, ReflectionPad2d as
    ReflectionPad2d, ReflectionPad3d as ReflectionPad3d, ReplicationPad1d as ReplicationPad1d,
    ReplicationPad2d as ReplicationPad2d, ReplicationPad3d as ReplicationPad3d, Unfold as Unfold,
    Upsample as Upsample, UpsamplingBilinear2d as UpsamplingBilinear2d, UpsamplingNearest2d as
    UpsamplingNearest2d, ZeroPad1d as ZeroPad1d, ZeroPad2d as ZeroPad2d, ZeroPad3d as ZeroPad3d
)
from rushlight.core.nn.layers.lazy import (
    LazyBatchNorm1d as LazyBatchNorm1d, LazyBatchNorm2d as LazyBatchNorm2d, LazyBatchNorm3d as
    LazyBatchNorm3d, LazyConv1d as LazyConv1d, LazyConv2d as LazyConv2d, LazyConv3d as LazyConv3d,
    LazyConvTranspose1d as LazyConvTranspose1d, LazyConvTranspose2d as LazyConvTranspose2d,
    LazyConvTranspose3d as LazyConvTranspose3d, LazyLinear as LazyLinear
)
from rushlight.core.nn.layers.nonlinear import (
    AlphaDropout as AlphaDropout, CELU as CELU, CosineSimilarity as CosineSimilarity, Dropout1d as
    Dropout1d, Dropout2d as Dropout2d, Dropout3d as Dropout3d, ELU as ELU, FeatureAlphaDropout as
    FeatureAlphaDropout, GLU as GLU, Hardshrink as Hardshrink, Hardsigmoid as Hardsigmoid, Hardswish
    as Hardswish, Hardtanh as Hardtanh, LeakyReLU as LeakyReLU, LogSigmoid as LogSigmoid, LogSoftmax
    as LogSoftmax, Mish as Mish, PReLU as PReLU, PairwiseDistance as PairwiseDistance, RReLU as
    RReLU, ReLU6 as ReLU6, SELU as SELU, Softmin as Softmin, Softplus as Softplus, Softshrink as
    Softshrink, Softsign as Softsign, Tanhshrink as Tanhshrink, Threshold as Threshold
)
from rushlight.core.nn.layers.output import (
    AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss, LinearCrossEntropyLoss as
    LinearCrossEntropyLoss, LinearCrossEntropyOptions as LinearCrossEntropyOptions
)
from rushlight.core.nn.layers.parallel import (
    DataParallel as DataParallel
)
from rushlight.core.nn.layers.parameters import (
    ParameterDict as ParameterDict, ParameterList as ParameterList
)
from rushlight.core.nn.layers.pooling import (
    AdaptiveAvgPool1d as AdaptiveAvgPool1d, AdaptiveAvgPool2d as AdaptiveAvgPool2d,
    AdaptiveAvgPool3d as AdaptiveAvgPool3d, AdaptiveMaxPool1d as AdaptiveMaxPool1d,
    AdaptiveMaxPool2d as AdaptiveMaxPool2d, AdaptiveMaxPool3d as AdaptiveMaxPool3d, AvgPool1d as
    AvgPool1d, AvgPool2d as AvgPool2d, AvgPool3d as AvgPool3d, FractionalMaxPool2d as
    FractionalMaxPool2d, FractionalMaxPool3d as FractionalMaxPool3d, LPPool1d as LPPool1d, LPPool2d
    as LPPool2d, LPPool3d as LPPool3d, MaxPool1d as MaxPool1d, MaxPool2d as MaxPool2d, MaxPool3d as
    MaxPool3d, MaxUnpool1d as MaxUnpool1d, MaxUnpool2d as MaxUnpool2d, MaxUnpool3d as MaxUnpool3d
)
from rushlight.core.nn.layers.recurrent import (
    GRU as GRU, GRUCell as GRUCell, LSTM as LSTM, LSTMCell as LSTMCell, RNN as RNN, RNNBase as
    RNNBase, RNNCell as RNNCell, RNNCellBase as RNNCellBase
)
from rushlight.core.nn.layers.transformer import (
    MultiheadAttention as MultiheadAttention, Transformer as Transformer, TransformerDecoder as
    TransformerDecoder, TransformerDecoderLayer as TransformerDecoderLayer, TransformerEncoder as
    TransformerEncoder, TransformerEncoderLayer as TransformerEncoderLayer
)
from rushlight.core.nn.linear import (
    Bilinear as Bilinear, Linear as Linear
)
from rushlight.core.nn.module import (
    Module as Module, layers_on as layers_on
)
from rushlight.core.nn.norm import (
    BatchNorm1d as BatchNorm1d, BatchNorm2d as BatchNorm2d, BatchNorm3d as BatchNorm3d,
    CrossMapLRN2d as CrossMapLRN2d, GroupNorm as GroupNorm, InstanceNorm1d as InstanceNorm1d,
    InstanceNorm2d as InstanceNorm2d, InstanceNorm3d as InstanceNorm3d, LayerNorm as LayerNorm,
    LocalResponseNorm as LocalResponseNorm, RMSNorm as RMSNorm, SyncBatchNorm as SyncBatchNorm
)
from rushlight.core.nn.parameter import (
    Buffer as Buffer, Parameter as Parameter
)
