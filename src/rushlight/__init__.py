"""Rushlight: tensors, models and weights, natively and in the browser tab."""

from pathlib import Path as _Path

__version__ = "0.1.0"

# A checkout whose git made no symlinks (Windows), or an unpacked sdist: the
# subpackages are then only at the repository root. Never true for an installed wheel.
if not (_Path(__file__).parent / "core").is_dir():
    __path__.append(str(_Path(__file__).resolve().parents[2]))

from rushlight import models
from rushlight.core import autograd, errors, nn, optim
from rushlight.core.autograd import enable_grad, is_grad_enabled, no_grad
from rushlight.core.backends import (
    Device,
    Generator,
    debug,
    device,
    device_async,
    devices,
    get_linear_mode,
    get_num_threads,
    linear_mode,
    manual_seed,
    set_linear_mode,
    set_num_threads,
)
from rushlight.core.convert import as_tensor, from_dlpack, tensor
from rushlight.core.dtype import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    uint8,
    uint32,
)  # fmt: skip
from rushlight.core.dtype import bool_ as bool
from rushlight.core.errors import BlockingReadError, CaptureError, FormatError, LoadError
from rushlight.core.io import load, save
from rushlight.core.jit import jit, set_plan_memory
from rushlight.core.ops import *  # noqa: F403
from rushlight.core.ops import __all__ as _ops
from rushlight.core.profile import profile
from rushlight.core.tensor import Tensor, from_numpy
from rushlight.core.tuning import tune, tune_async

__all__ = [
    "BlockingReadError", "CaptureError", "DType", "Device", "FormatError", "Generator", "LoadError",
    "Tensor", "as_tensor", "autograd", "bfloat16", "bool", "debug", "device", "device_async",
    "devices", "enable_grad", "errors", "float16", "float32", "float64", "float8_e4m3fn",
    "float8_e5m2", "from_dlpack", "from_numpy", "get_linear_mode", "get_num_threads", "int16",
    "int32", "int64", "int8", "is_grad_enabled", "jit", "linear_mode", "load", "manual_seed",
    "models", "nn", "no_grad", "optim", "profile", "promote_types", "q4_0", "q4_1", "q5_0", "q5_1",
    "q8_0", "save", "set_linear_mode", "set_num_threads", "set_plan_memory", "tensor", "tune",
    "tune_async", "uint32", "uint8",
    *(n for n in _ops if n not in {"getitem", "setitem", "rsub", "rdiv", "rpow", "rmod",
                                   "rfloordiv"}),
]  # fmt: skip
