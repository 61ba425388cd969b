"""Names of torch itself that few programs use; `rushlight` looks here for what it does not hold."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import rushlight.core.functional.declared as f
from rushlight.core.basis.dtype import DType, get_default_dtype
from rushlight.core.basis.errors import DeviceError, DeviceMemoryError
from rushlight.core.basis.layout import Layout
from rushlight.core.nn import functional as F
from rushlight.core.ops.autocast import get_autocast_dtype, is_autocast_enabled
from rushlight.core.optim.grad_scaler import GradScaler as GradScaler
from rushlight.core.settings.standins import refuse_all
from rushlight.core.settings.streams import Event as Event
from rushlight.core.settings.streams import Stream as Stream
from rushlight.core.sparse.coo import CoordinateLayout
from rushlight.core.tensor.saving import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,  # noqa: E501
)
from rushlight.core.tensor.saving import is_anomaly_enabled as is_anomaly_enabled
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.torch_paths.machine.futures import Future as Future
from rushlight.core.torch_paths.programs.dlpack import to_dlpack as to_dlpack
from rushlight.core.torch_paths.programs.jit import ScriptFunction as ScriptFunction
from rushlight.core.torch_paths.programs.jit import ScriptModule as ScriptModule
from rushlight.core.torch_paths.programs.jit import fork as fork
from rushlight.core.torch_paths.programs.jit import wait as wait
from rushlight.core.torch_paths.programs.storage import TypedStorage as TypedStorage
from rushlight.core.torch_paths.programs.storage import UntypedStorage

SymInt, SymFloat, SymBool = builtins.int, builtins.float, builtins.bool
sym_int, sym_float, sym_max, sym_min = builtins.int, builtins.float, builtins.max, builtins.min
OutOfMemoryError, AcceleratorError = DeviceMemoryError, DeviceError
JITException = RuntimeError
OptionalType = ListType = DictType = TupleType = TensorType = NumberType = object
ScriptMethod = ScriptFunction
legacy_contiguous_format = "contiguous_format"
has_lapack = has_spectral = True
has_mps = has_cuda = has_cudnn = has_mkl = has_mkldnn = has_openmp = False


class layout:
    """How a tensor's elements lie: strided, or in coordinates where it is sparse."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Layout):  # what x.layout is here
            return self._name == (
                "sparse_coo" if isinstance(other, CoordinateLayout) else "strided"
            )
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"torch.{self._name}"


strided, sparse_coo = layout("strided"), layout("sparse_coo")
sparse_csr, sparse_csc = layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
jagged, _mkldnn = layout("jagged"), layout("_mkldnn")


def _assert(condition: Any, message: str) -> None:
    """AssertionError with this message unless the condition holds."""
    assert condition, message


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError with the message that the function gives unless the condition holds."""
    if not cond:
        raise RuntimeError("a check failed" if message is None else message())


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """IndexError unless the condition holds."""
    if not cond:
        raise IndexError("a check failed" if message is None else message())


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """ValueError unless the condition holds."""
    if not cond:
        raise ValueError("a check failed" if message is None else message())


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """TypeError unless the condition holds."""
    if not cond:
        raise TypeError("a check failed" if message is None else message())


def is_storage(obj: Any) -> bool:
    """Whether it is what `x.untyped_storage()` gives."""
    return isinstance(obj, UntypedStorage)


def compiled_with_cxx11_abi() -> bool:
    """True."""
    return True


def sym_not(a: Any) -> bool:
    """Whether it is false."""
    return not a


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device: `cpu`, `cuda`, `mps`; that of cpu by default."""
    from rushlight.core.settings import cuda, mps
    from rushlight.core.torch_paths.machine import cpu

    kind = str(device or "cpu").partition(":")[0]
    return {"cuda": cuda, "mps": mps, "xpu": mps, "mtia": mps}.get(kind, cpu)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of all matrices, from left to right."""
    out = matrices[0]
    for each in matrices[1:]:
        out = out @ each
    return out


def is_vulkan_available() -> bool:
    """False: no device is used by that name."""
    return False


def get_default_device_type() -> str:
    """ "cpu"."""
    return "cpu"


def range(start: float, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """arange with its end included, in the default dtype: torch's older form."""
    low, high = (0, start) if end is None else (start, end)
    dtype = options.pop("dtype", None) or get_default_dtype()
    if not step:
        raise ValueError(f"range: step is 0, which does not lead from {low} to {high}")
    count = builtins.int((high - low) / step) + 1
    return (f.arange(count, dtype=dtype, **options) * step + low).to(dtype)


def batch_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """nn.functional.batch_norm in torch's own order of arguments."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """nn.functional.instance_norm in torch's own order of arguments."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """nn.functional.group_norm."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Tensor:
    """nn.functional's, with torch's number of the reduction: 0 none, 1 mean, 2 sum."""
    kind = ("none", "mean", "sum")[reduction]
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=kind, pos_weight=pos_weight
    )


def _dropping(name: str, inside: bool) -> Callable[..., Tensor]:
    def drop(input: Tensor, p: float, train: bool) -> Tensor:
        dropped: Tensor = getattr(F, name)(input, p, train)
        return input.copy_(dropped) if inside else dropped

    drop.__doc__ = f"nn.functional.{name}."
    return drop


alpha_dropout, alpha_dropout_ = (_dropping("alpha_dropout", i) for i in (False, True))
feature_alpha_dropout, feature_alpha_dropout_ = (
    _dropping("feature_alpha_dropout", i) for i in (False, True)
)
dropout_, feature_dropout = _dropping("dropout", True), _dropping("dropout2d", False)
rrelu, rrelu_, selu_, celu_, threshold_ = F.rrelu, F.rrelu_, F.selu_, F.celu_, F.threshold_


def dequantize(tensor: Tensor) -> Tensor:
    """Quantized blocks as float32."""
    return tensor.dequantize()


def get_autocast_gpu_dtype() -> DType:
    """The dtype of autocast on GPUs."""
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> DType:
    """The dtype of autocast on cpu."""
    return get_autocast_dtype("cpu")


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for cpu."""
    return is_autocast_enabled("cpu")


def _foreach(name: str) -> Callable[..., Any]:
    """torch._foreach_NAME: the op on each tensor of a list, with one operand or one for each."""
    inside = name.endswith("_")

    def each(tensors: Any, *others: Any, **options: Any) -> Any:
        rows = []
        for i, x in enumerate(tensors):
            operands = [o[i] if isinstance(o, list | tuple) else o for o in others]
            if name in ("max", "norm"):
                rows.append(getattr(f, name)(x, *operands, **options))
            else:
                rows.append(
                    getattr(
                        x, {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}.get(name, name)
                    )(*operands, **options)
                )
        return list(tensors) if inside else tuple(rows)

    each.__name__ = f"_foreach_{name}"
    each.__doc__ = f"{name} of each tensor of a list."
    return each


def __getattr__(name: str) -> Any:
    """`_foreach_NAME` for a method of Tensor; AttributeError for others."""
    method = name.removeprefix("_foreach_")
    if method != name and (hasattr(Tensor, method) or method in ("maximum_", "minimum_")):
        return _foreach(method)
    raise AttributeError(name)


_KINDS = "Float Double Half BFloat16 Long Int Short Char Byte Bool ComplexFloat ComplexDouble"
globals().update(
    refuse_all(
        "",
        " ".join(f"{kind}Storage" for kind in _KINDS.split()),
        "make a tensor; x.untyped_storage() tells about its memory",
    )
)
globals().update(
    refuse_all(
        "",
        "sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor "
        "sparse_compressed_tensor",
        "sparse tensors are kept in coordinates; supported: sparse_coo_tensor",
    )
)
