"""Rushlight: tensors, models and weights, natively and in the browser tab."""

from math import e, inf, nan, pi
from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# A checkout whose git made no symlinks (Windows), or an unpacked sdist: the
# subpackages are then only at the repository root. Never true for an installed wheel.
if not (_Path(__file__).parent / "core").is_dir():
    __path__.append(str(_Path(__file__).resolve().parents[2]))

from rushlight.core import (
    array_api,
    autograd,
    distributions,
    fft,
    func,
    linalg,
    masked,
    nn,
    optim,
    signal,
    sparse,
    special,
    training,
    utils,
)
from rushlight.core import einops as _einops  # noqa: F401  (it enters itself)
from rushlight.core.backends import (
    Device,
    Generator,
    debug,
    device_async,
    devices,
    get_default_device,
    get_linear_mode,
    get_num_threads,
    linear_mode,
    set_default_device,
    set_linear_mode,
    set_num_threads,
)
from rushlight.core.backends import Device as device  # as a function, and in annotations
from rushlight.core.basis import errors
from rushlight.core.basis.dtype import DTYPES as _DTYPES
from rushlight.core.basis.dtype import (
    DType,
    bfloat16,
    can_cast,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.core.basis.dtype import bool_ as bool
from rushlight.core.basis.dtype import complex64 as cfloat
from rushlight.core.basis.dtype import complex128 as cdouble
from rushlight.core.basis.dtype import float16 as half
from rushlight.core.basis.dtype import float32 as float
from rushlight.core.basis.dtype import float64 as double
from rushlight.core.basis.dtype import int16 as short
from rushlight.core.basis.dtype import int32 as int
from rushlight.core.basis.dtype import int64 as long
from rushlight.core.basis.errors import BlockingReadError, CaptureError, FormatError, LoadError
from rushlight.core.basis.layout import Size
from rushlight.core.basis.limits import finfo, iinfo
from rushlight.core.basis.quantized import *  # noqa: F403
from rushlight.core.func import vmap
from rushlight.core.functional.declared import *  # noqa: F403
from rushlight.core.functional.declared import __all__ as _declared
from rushlight.core.io import load, save, save_gguf
from rushlight.core.jit.compiling import compile
from rushlight.core.jit.function import jit, set_executable_memory
from rushlight.core.ops.autocast import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_enabled,
)
from rushlight.core.ops.common import promoted as result_type
from rushlight.core.settings import *  # noqa: F403
from rushlight.core.settings import __all__ as _settings
from rushlight.core.settings import version
from rushlight.core.settings.random import *  # noqa: F403
from rushlight.core.settings.random import __all__ as _random
from rushlight.core.settings.types import *  # noqa: F403
from rushlight.core.settings.types import __all__ as _legacy
from rushlight.core.sparse import mm as spmm
from rushlight.core.sparse import sparse_coo_tensor
from rushlight.core.tensor.convert import as_tensor, asarray, from_dlpack, frombuffer, tensor
from rushlight.core.tensor.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.core.tensor.printing import get_printoptions, set_printoptions
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.core.tools.autotuning import autotune, autotune_async
from rushlight.core.tools.profile import profile
from rushlight.core.torch_paths import finder as _finder
from rushlight.core.torch_paths.programs import jit as _torch_jit
from rushlight.core.training import LightningModule, Trainer

if _TYPE_CHECKING:
    from rushlight import models
    from rushlight.core import onnx
    from rushlight.models import adapters, audio, datasets, finetune, image, quantize, schedulers
    from rushlight.models.tasks.pipeline import pipeline

# What lies in models/ is imported when it is first asked for.
_MODELS = {
    **{
        name: f"models.{name}"
        for name in ("adapters", "audio", "datasets", "finetune", "image", "schedulers")
    },
    **dict.fromkeys(("models", "pipeline", "quantize"), "models"),
}

# `import rushlight.nn.functional as F` finds the modules of core/ under torch's names; modules that
# only torch has are in the table of core/torch_paths/, which is read when one is asked for.
_finder.install({
    **{module.__name__.split(".", 2)[2]: module for module in (
        nn, nn.functional, nn.init, nn.modules, nn.modules.module, nn.parameter, nn.utils,
        nn.utils.rnn, nn.utils.parametrize, nn.utils.parametrizations, nn.utils.prune,
        nn.utils.stateless, nn.utils.fusion, optim, optim.lr_scheduler, optim.swa_utils, training,
        utils, utils.data, utils.checkpoint,
        autograd, autograd.forward_ad, autograd.function, autograd.functional, autograd.graph,
        special, sparse, linalg, fft, masked, signal, signal.windows, distributions,
        distributions.constraints, distributions.kl, distributions.transforms, func, array_api,
        array_api.fft, array_api.linalg,
    )},
    **{module.__name__.rpartition(".")[2]: module for module in (
        amp, backends, cuda, mps, random,  # noqa: F405
    )},
    **{f"backends.{name}": getattr(backends, name)  # noqa: F405
       for name in ("cudnn", "cuda", "mps", "mkl", "mkldnn", "openmp", "opt_einsum", "quantized",
                    "mha", "cpu")},
}, {n: _MODELS[n] for n in ("adapters", "datasets", "finetune", "schedulers")})  # fmt: skip

for _name in _torch_jit.NAMES:  # torch.jit is a module, rl.jit is a function too
    setattr(jit, _name, getattr(_torch_jit, _name))

dtype = DType  # torch's name of the type
newaxis = None
__version__ = version.__version__

__all__ = [
    "BlockingReadError", "CaptureError", "DType", "Device", "FormatError", "Generator",
    "LightningModule", "LoadError", "Size", "Tensor", "Trainer", "adapters", "array_api",
    "as_tensor", "asarray", "audio", "autocast", "autograd", "autotune", "autotune_async",
    "bfloat16", "bool", "can_cast", "cdouble", "cfloat", "clear_autocast_cache", "compile",
    "complex128", "complex64", "datasets", "debug", "device", "device_async", "devices",
    "distributions", "double", "dtype", "e", "enable_grad", "errors", "fft", "finetune", "finfo",
    "float", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "from_dlpack",
    "from_numpy", "frombuffer", "func", "get_autocast_dtype", "get_default_device",
    "get_default_dtype", "get_linear_mode", "get_num_threads", "get_printoptions", "half", "iinfo",
    "image", "inf", "inference_mode", "int", "int16", "int32", "int64", "int8",
    "is_autocast_enabled", "is_grad_enabled", "is_inference_mode_enabled", "jit", "linalg",
    "linear_mode", "load", "long", "masked", "models", "nan", "nn", "no_grad", "onnx", "optim",
    "pi", "pipeline", "profile", "promote_types", "quantize", "result_type", "save", "save_gguf",
    "schedulers", "set_default_device", "set_default_dtype", "set_executable_memory",
    "set_grad_enabled",
    "set_linear_mode", "set_num_threads", "set_printoptions", "short", "signal", "sparse",
    "sparse_coo_tensor", "special", "spmm", "tensor", "training", "uint16", "uint32", "uint64",
    "uint8", "utils", "version", "vmap",
    *(n for n, dtype in _DTYPES.items() if dtype.kind == "q"),
    *_declared, *_settings, *_random, *_legacy,
]  # fmt: skip

if not _TYPE_CHECKING:

    def __getattr__(name: _Any) -> _Any:
        """A name of models/, or a module of torch's table; AttributeError with the names near."""
        if name.startswith("__"):  # asked by tools that look for it; nobody misspelt it
            raise AttributeError(f"module 'rushlight' has no attribute {name!r}")
        if name in _MODELS:
            value = _finder.imported(_MODELS[name])
            if name in ("pipeline", "quantize"):
                value = getattr(value, name)
            globals()[name] = value
            return value
        if name in _finder.table():
            return _finder.below("", name)
        if (value := _finder.late(name)) is not None:
            return value
        raise errors.absent("rushlight", name, __all__)
