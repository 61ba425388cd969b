"""Lowerings of matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.simd import Record
from rushlight.core.basis.dtype import DTYPES, float32
from rushlight.core.basis.graph import TensorView

_FLOATS = [d for d in DTYPES.values() if d.kind == "f" and d.name != "float64"]


def _fits(out: Any, *inputs: Any) -> bool:
    return (
        out.dtype in _FLOATS
        and out.layout.ndim <= 8
        and all(x is None or (x.dtype in _FLOATS and x.storage is not out.storage) for x in inputs)
    )


def _matmul(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    return Record("product", (out, *inputs)) if _fits(out, *inputs) else None


def _turned(weight: Any) -> TensorView:
    dims = (*range(weight.layout.ndim - 2), weight.layout.ndim - 1, weight.layout.ndim - 2)
    return TensorView(weight.storage, weight.layout.permute(dims), weight.dtype)


def _rows(out: Any, x: Any, weight: Any, *bias: Any) -> Record | None:
    """x (..., k) @ weight (k, n): one product of all rows if they can be viewed as a matrix."""
    if not _fits(out, x, weight, *bias):
        return None
    k, n = weight.layout.shape
    shape = x.layout.shape
    rows = out.layout.numel // n if n else 0
    seen, result = x.layout.reshape((rows, k)) if n else None, out.layout.reshape((rows, n))
    if seen is not None and result is not None:
        x, out = TensorView(x.storage, seen, x.dtype), TensorView(out.storage, result, out.dtype)
    else:  # a batch of products with one weight
        layout = weight.layout.expand((*shape[:-2], k, n))
        weight = TensorView(weight.storage, layout, weight.dtype)
    return Record("product", (out, x, weight, *bias))


def _linear(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    x, weight, bias = inputs
    return _rows(out, x, _turned(weight), bias)


def _linear_t(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    return _rows(out, *inputs)


def _experts(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    x, weight, index, *bias = inputs
    if not _fits(out, x, weight, *bias):
        return None
    if bias:  # linear_experts has a bias or None; linear_experts_t has no such input
        weight = _turned(weight)
    return Record("product_experts", (out, x, weight, index, *bias))


def _spread(x: Any, rows: int, cols: int) -> Any:
    """A matrix of numbers of rows or columns, or of one, in the size of the result."""
    return None if x is None else TensorView(x.storage, x.layout.expand((rows, cols)), x.dtype)


def _byte_product(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    a, b = inputs[:2]
    if out.layout.ndim > 8:
        return None
    m, n = out.layout.shape[-2:]
    sizes = ((m, 1), (1, n), (m, n), (m, n), (1, 1))
    given = [*inputs[2:], *[None] * 5][:5]
    more = (_spread(x, *s) for x, s in zip(given, sizes, strict=True))
    return Record("byte_product", (out, a, b, *more, None))


def _byte_depthwise(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    x, w, x_zero, w_zero, bias, scale, zero = [*inputs, *[None] * 5][:7]
    filters = w.layout.shape[0]
    if x.layout.strides[3] != 1:
        return None
    w_zero, bias, scale = (_spread(v, filters, 2) for v in (w_zero, bias, scale))
    operands = (out, x, w, x_zero, w_zero, bias, scale, zero)
    return Record("byte_depthwise", operands, (*attrs["stride"], *attrs["padding"][:2],
                  *attrs["dilation"]))  # fmt: skip


def _embedding(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    weight, index = inputs
    fits = out.layout.ndim <= 8 and weight.dtype in _FLOATS
    return Record("embedding", (out, weight, index)) if fits else None


def _number(kernel: str) -> int:
    assert simd.library is not None
    return simd.library.numbers[kernel]


def _is_column(*operands: Any) -> bool:
    """Whether the images are one element wide; the kernels go along rows, so these are turned."""
    images = [x.layout.shape for x in operands if x is not None and x.layout.ndim == 4]
    return all(shape[3] == 1 for shape in images) and any(shape[2] > 1 for shape in images)


def _laid_flat(x: Any) -> Any:
    """An image of one column as an image of one row."""
    if x is None or x.layout.ndim != 4:
        return x
    a, b, c, _ = x.layout.shape
    layout = x.layout.reshape((a, b, 1, c)) or x.layout.permute((0, 1, 3, 2))
    return TensorView(x.storage, layout, x.dtype)


def _conv(kernel: str) -> Any:
    def lower(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
        # The second input is the weight, or a gradient if the weight is the result.
        second = inputs[1].layout
        fits = _fits(out, *inputs) and second.is_contiguous
        # Without channels, filters or elements NumPy's kernel runs.
        empty = any(x is not None and 0 in x.layout.shape[1:] for x in (out, *inputs))
        empty |= 0 in second.shape and 0 in second.strides
        if empty or not fits or (kernel == "conv2d_weight" and out.dtype is not float32):
            return None
        pairs: list[tuple[int, int]] = [attrs[name] for name in ("stride", "padding", "dilation")]
        if not pairs[1][1] and _is_column(out, *inputs):
            pairs = [(0 if pair is pairs[1] else 1, pair[0]) for pair in pairs]
            out, *inputs = (_laid_flat(x) for x in (out, *inputs))
        sizes = (*pairs[0], *pairs[1], *pairs[2], attrs["groups"])
        if "tail" not in attrs:
            return Record(kernel, (out, *inputs), sizes)
        steps = (n for op, *operands in attrs["tail"] for n in (_number(op), *operands))
        return Record(f"{kernel}_tail", (out, *inputs), (*sizes, *steps))

    return lower


LOWERINGS = {
    **{name: _conv(name) for name in ("conv2d", "conv2d_input", "conv2d_weight")},
    "matmul": _matmul,
    "linear": _linear,
    "linear_t": _linear_t,
    "linear_experts": _experts,
    "linear_experts_t": _experts,
    "embedding": _embedding,
    "byte_product": _byte_product,
    "byte_depthwise": _byte_depthwise,
}
