"""The methods of sparse tensors: those of Tensor, by the table of `calls.py`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional import calling
from rushlight.core.ops.declare import METHODS
from rushlight.core.sparse import calls
from rushlight.core.sparse.coo import REFUSED, SparseTensor, to_sparse
from rushlight.core.tensor.grad_mode import is_grad_enabled
from rushlight.core.tensor.tensor import Tensor

_OPERATORS = {
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "__matmul__": "matmul",
    "__pow__": "pow",
    "__neg__": "neg",
    "__abs__": "abs",
}
_CONVERSIONS = ("double", "half", "bfloat16", "long", "short", "float", "int", "bool", "cfloat",
                "cdouble", "byte", "char")  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    def apply(x: Any, *args: Any, **options: Any) -> Any:
        return calls.call(name, (x, *args), options)

    return apply


def _inside(name: str) -> Callable[..., Any]:
    """An in-place method: the result's indices and values become the tensor's."""

    def apply(x: SparseTensor, *args: Any, **options: Any) -> SparseTensor:
        if x._data.node is not None or (x._data.requires_grad and is_grad_enabled()):
            raise RuntimeError(
                f"{name} of a sparse tensor that needs a gradient is not supported; use {name[:-1]}"
            )
        result = calls.call(name[:-1], (x, *args), options)
        if not isinstance(result, SparseTensor):
            raise TypeError(f"{name}: the result is dense")
        return x.set_(result)

    return apply


def _reversed(name: str) -> Callable[..., Any]:
    def apply(x: Any, other: Any) -> Any:
        return calls.call(name, (other, x), {})

    return apply


def _converted(name: str) -> Callable[..., Any]:
    def apply(x: SparseTensor) -> SparseTensor:
        return x.with_values(getattr(x._values(), name)())

    return apply


def _item(x: SparseTensor, index: Any) -> Any:
    """x[i] for a number; TypeError for other indices."""
    if isinstance(index, tuple) and all(isinstance(i, int) for i in index):
        element = x
        for i in index:
            element = (
                calls.select(element, 0, i) if isinstance(element, SparseTensor) else element[i]
            )
        return element
    if not isinstance(index, int) or isinstance(index, bool):
        raise TypeError("a sparse tensor is indexed by numbers; use index_select or to_dense()")
    return calls.select(x, 0, index)


def _no_truth(x: SparseTensor, *args: Any, **options: Any) -> Any:
    raise TypeError(REFUSED)


for _name in METHODS:
    if _name not in vars(SparseTensor) and not _name.startswith("__"):
        setattr(SparseTensor, _name, (_inside if _name.endswith("_") else _method)(_name))
    elif _name.startswith("__") and _name not in vars(SparseTensor):
        setattr(SparseTensor, _name, _no_truth)
for _name, _called in _OPERATORS.items():
    setattr(SparseTensor, _name, _method(_called))
    setattr(SparseTensor, f"__r{_name[2:]}", _reversed(_called))
    setattr(SparseTensor, f"__i{_name[2:]}", _method(_called))
for _name in _CONVERSIONS:
    setattr(SparseTensor, _name, _converted(_name))
for _name in ("numpy", "item", "tolist", "__array__", "__float__", "__int__", "__dlpack__"):
    setattr(SparseTensor, _name, _no_truth)
vars_ = {
    "numel": lambda x: builtins.int(x.layout.numel),
    "cpu": lambda x: x.to("cpu"),
    "to_dense": SparseTensor.to_dense,
    "__getitem__": _item,
    "__hash__": object.__hash__,
    "type": lambda x, dtype=None: x.to(dtype) if dtype else f"torch.sparse.{x._data.type()[6:]}",
    "is_contiguous": lambda x, *a, **o: False,
    "element_size": lambda x: x.dtype.itemsize,
    "is_same_size": lambda x, other: x.shape == other.shape,
    "T": property(lambda x: calls.t(x)),
    "contiguous": lambda x, *a, **o: x,
    "storage_offset": _no_truth,
    "stride": _no_truth,
    "pin_memory": lambda x, *a: x,
    "is_pinned": lambda x: False,
    "sparse_resize_": _no_truth,
}
for _name, _value in vars_.items():
    setattr(SparseTensor, _name, _value)


def sparse_mask(x: Tensor, mask: SparseTensor) -> SparseTensor:
    """The elements of a dense tensor at the indices of a sparse one. ShapeError for two shapes."""
    if mask.shape != x.shape:
        raise ShapeError(f"sparse_mask: mask is {mask.shape}, the tensor {x.shape}")
    coalesced = mask.coalesce()
    return coalesced.with_values(x[tuple(coalesced._indices())])


def _compressed(x: Tensor, *args: Any, **options: Any) -> Any:
    """NotImplementedError: there is one form of sparse tensors."""
    raise NotImplementedError(
        "compressed sparse layouts (CSR, CSC, BSR, BSC) are not supported; "
        "supported: to_sparse() in coordinates"
    )


for _name, _value in (
    ("to_sparse", to_sparse),
    ("sparse_mask", sparse_mask),
    ("to_sparse_coo", to_sparse),
    ("to_sparse_csr", _compressed),
    ("to_sparse_csc", _compressed),
    ("to_sparse_bsr", _compressed),
    ("to_sparse_bsc", _compressed),
):
    setattr(Tensor, _name, _value)


def _foreign(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result of a function with a sparse operand; NotImplemented where none is."""
    operands = [*args, *options.values()]
    operands += [x for each in args if isinstance(each, list | tuple) for x in each]
    if not any(isinstance(x, SparseTensor) for x in operands):
        return NotImplemented
    return calls.call(name, args, options)


calling.foreign.append(_foreign)
