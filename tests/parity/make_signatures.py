"""What torch's layers and functions are called with: tests/core/data/torch_signatures.json.

    python tests/parity/make_signatures.py

Needs torch (2.13 made the file that is committed). Under "signatures", by module and name, each
parameter as "name", "*name" and so on, with "=default" where it has one; under "methods" those of
Module; under "layers", by an expression over `nn`, what repr gives, plain attributes, and shapes
of the state.
"""

from __future__ import annotations

import importlib
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

OUT = Path(__file__).resolve().parents[1] / "core" / "data" / "torch_signatures.json"
MODULES = (
    "nn",
    "nn.functional",
    "nn.init",
    "nn.utils",
    "nn.utils.rnn",
    "nn.utils.parametrize",
    "nn.utils.parametrizations",
    "nn.utils.prune",
    "optim",
    "optim.lr_scheduler",
    "utils.data",
)
# Helpers of torch's own modules that are no part of what its documentation lists.
INTERNAL = {
    "nn": "factory_kwargs",
    "nn.functional": "assert_int_or_pair boolean_dispatch handle_torch_function has_torch_function "
    "has_torch_function_unary has_torch_function_variadic ScalingType SwizzleType",
    "nn.utils.rnn": "PackedSequence_ bind invert_permutation",
    "nn.utils.parametrize": "copy_method_params get_swap_module_params_on_conversion "
    "is_opaque_reference_type is_traceable_wrapper_subclass OpaqueBase Module ModuleList Parameter "
    "ModuleDict",
    "nn.utils.parametrizations": "Module is_parametrized register_parametrization",
    "utils.data": "argument_validation default_convert DFIterDataPipe DataChunk "
    "functional_datapipe guaranteed_datapipes_determinism IterDataPipe MapDataPipe "
    "non_deterministic runtime_validation runtime_validation_disabled DistributedSampler",
    "optim.lr_scheduler": "Counter Optimizer partial wraps bisect_right",
}

LAYERS = """
Linear(3, 4, bias=False) | Bilinear(2, 3, 4) | Identity(5) | Embedding(5, 3, padding_idx=0)
Embedding(5, 3, max_norm=1.0, sparse=False) | EmbeddingBag(5, 3, mode="sum")
Conv1d(2, 4, 3, padding="same") | Conv1d(2, 2, 3, dilation=2, bias=False)
Conv2d(2, 4, (3, 2), stride=2, padding=1, groups=2, padding_mode="reflect") | Conv3d(1, 2, 2)
ConvTranspose1d(2, 3, 3) | ConvTranspose2d(3, 2, 3, stride=2, output_padding=1)
ConvTranspose3d(2, 4, 3, groups=2, dilation=2) | Unfold(2, padding=1) | Fold((4, 4), 2)
LayerNorm(4) | LayerNorm((2, 3), bias=False) | RMSNorm(4) | GroupNorm(2, 4, affine=False)
BatchNorm1d(4) | BatchNorm2d(3, momentum=None, affine=False) | BatchNorm3d(2) | SyncBatchNorm(3)
InstanceNorm1d(3) | InstanceNorm2d(3, affine=True) | InstanceNorm3d(3, track_running_stats=True)
LocalResponseNorm(2) | CrossMapLRN2d(3, k=2.0)
RNN(3, 4, 2, nonlinearity="relu", bidirectional=True) | LSTM(3, 4, batch_first=True, proj_size=2)
GRU(3, 4, bias=False, num_layers=2, dropout=0.5) | RNNCell(3, 4, nonlinearity="relu")
LSTMCell(3, 4) | GRUCell(3, 4, bias=False) | RNNBase("GRU", 2, 3) | RNNCellBase(2, 3, True, 3)
MaxPool1d(2) | MaxPool2d((3, 2), 2, padding=1, return_indices=True) | MaxPool3d(2, ceil_mode=True)
MaxUnpool1d(2) | MaxUnpool2d((3, 2), 2) | MaxUnpool3d(2, padding=1) | AvgPool1d(3, padding=1)
AvgPool2d(2, count_include_pad=False) | AvgPool3d(2, divisor_override=3)
FractionalMaxPool2d(2, output_size=3) | FractionalMaxPool3d(2, output_ratio=0.5) | LPPool1d(2, 3)
LPPool2d(1.5, (2, 3)) | LPPool3d(2, 2) | AdaptiveAvgPool1d(3) | AdaptiveAvgPool2d((2, None))
AdaptiveAvgPool3d(2) | AdaptiveMaxPool1d(2, True) | AdaptiveMaxPool2d((2, 3)) | AdaptiveMaxPool3d(1)
ReflectionPad1d(2) | ReflectionPad2d((1, 2, 3, 0)) | ReflectionPad3d(1) | ReplicationPad1d(2)
ReplicationPad2d(1) | ReplicationPad3d(1) | ConstantPad1d(2, 3.5) | ConstantPad2d((1, 2, 3, 4), 0.0)
ConstantPad3d(1, 2) | ZeroPad1d(1) | ZeroPad2d((1, 0, 2, 0)) | ZeroPad3d(2) | CircularPad1d(1)
CircularPad2d(1) | CircularPad3d(1) | ReLU() | ReLU(inplace=True) | ReLU6() | ELU(0.5) | SELU()
CELU() | GELU() | GELU("tanh") | SiLU(inplace=True) | Mish() | Hardshrink() | Hardsigmoid()
Hardswish() | Hardtanh(-2, 2) | LeakyReLU(0.2) | LogSigmoid() | PReLU(3) | RReLU() | Sigmoid()
Softplus() | Softshrink(0.3) | Softsign() | Tanh() | Tanhshrink() | Threshold(0.1, 20) | GLU(1)
Softmin() | Softmax(1) | Softmax2d() | LogSoftmax(0) | Dropout(0.2) | Dropout1d()
Dropout2d(inplace=True) | Dropout3d() | AlphaDropout(0.3) | FeatureAlphaDropout()
CosineSimilarity() | PairwiseDistance(1.0) | PixelShuffle(2) | PixelUnshuffle(2) | ChannelShuffle(2)
Upsample(scale_factor=2) | Upsample((2, 3), mode="bilinear", align_corners=True)
UpsamplingNearest2d(scale_factor=2) | UpsamplingBilinear2d((4, 4)) | Flatten()
Unflatten(1, (2, 3)) | L1Loss() | MSELoss(reduction="sum") | CrossEntropyLoss(label_smoothing=0.1)
NLLLoss(ignore_index=2) | CTCLoss(blank=1) | KLDivLoss() | PoissonNLLLoss()
GaussianNLLLoss(full=True) | BCELoss() | BCEWithLogitsLoss(reduction="none")
MarginRankingLoss(0.5) | HingeEmbeddingLoss() | MultiLabelMarginLoss() | HuberLoss(delta=2.0)
SmoothL1Loss(beta=0.5) | SoftMarginLoss() | MultiLabelSoftMarginLoss() | MultiMarginLoss(2)
CosineEmbeddingLoss(0.1) | TripletMarginLoss(p=1.0) | TripletMarginWithDistanceLoss(swap=True)
LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True)
AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0) | MultiheadAttention(6, 2)
MultiheadAttention(6, 3, kdim=4, vdim=5, add_bias_kv=True, batch_first=True)
TransformerEncoderLayer(6, 2, 8) | TransformerDecoderLayer(6, 2, 8, norm_first=True)
Transformer(4, 2, 1, 1, 6) | Sequential(Linear(1, 1), ReLU()) | ModuleList([ReLU(), ReLU(), Tanh()])
ModuleDict({"a": ReLU(), "b": Linear(1, 2)}) | Sequential()
"""


def parameters(fn: Any) -> list[str] | None:
    """What a function takes, without private parameters; None where torch does not say."""
    try:
        found = inspect.signature(fn)
    except (ValueError, TypeError):
        known = torch.overrides.get_testing_overrides().get(fn)
        if known is None:
            return None
        found = inspect.signature(known)
    marks: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    lines = []
    for p in found.parameters.values():
        if p.name == "self" or p.name in ("_stacklevel", "out"):
            continue
        mark = marks.get(p.kind, "kw:" if p.kind is inspect.Parameter.KEYWORD_ONLY else "")
        rest = "" if p.default is inspect.Parameter.empty else f"={shown(p.default)}"
        lines.append(f"{mark}{p.name}{rest}")
    return lines


def shown(value: Any) -> str:
    """A default: a number as a float, a function by its name, other objects by their type."""
    if isinstance(value, bool | str | None | tuple):
        return repr(value)
    if isinstance(value, int | float):
        return repr(float(value))
    return getattr(value, "__name__", type(value).__name__)


def signatures(name: str) -> dict[str, Any]:
    module = importlib.import_module(f"torch.{name}")
    skipped = {
        "Any",
        "Optional",
        "Callable",
        "TYPE_CHECKING",
        "Tensor",
        "Literal",
        "DType",
        *INTERNAL.get(name, "").split(),
    }
    found = {}
    for key, value in sorted(vars(module).items()):
        if key.startswith("_") or key in skipped or inspect.ismodule(value) or not callable(value):
            continue
        own = getattr(value, "__module__", None) or "torch"
        if own.startswith("torch") and not own.startswith(("torch._C._d", "torch.types")):
            twin = getattr(module, f"{key}_with_indices", None)  # of what boolean_dispatch made
            found[key] = parameters(twin if name == "nn.functional" and twin else value)
    return found


def layer(text: str) -> dict[str, Any]:
    made = eval(text, vars(nn))
    private = ("training", "activation_relu_or_gelu")
    plain = {k: v for k, v in vars(made).items() if not k.startswith("_") and k not in private}
    return {
        "repr": repr(made),
        "attributes": {
            k: repr(v)
            for k, v in plain.items()
            if isinstance(v, bool | int | float | str | tuple | list | None)
        },
        "state": {k: list(v.shape) for k, v in made.state_dict().items()},
    }


def main() -> None:
    warnings.simplefilter("ignore")
    rows = [text.strip() for line in LAYERS.strip().splitlines() for text in line.split(" | ")]
    methods = {
        k: parameters(getattr(nn.Module, k))
        for k in dir(nn.Module)
        if not k.startswith("_") and callable(getattr(nn.Module, k))
    }
    tables = {
        "signatures": {name: signatures(name) for name in MODULES},
        "layers": {text: layer(text) for text in rows},
    }
    parts = [f'"torch": "{torch.__version__}"', f'"methods": {json.dumps(methods)}']
    for head, table in tables.items():
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table.items()]
        parts.append(f'"{head}": {{\n' + ",\n".join(lines) + "\n}")
    OUT.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
