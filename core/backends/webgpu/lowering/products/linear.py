"""Lowerings of `linear` and its transpose over weights of any storage dtype."""

from __future__ import annotations

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs
from rushlight.core.backends.webgpu.lowering.products.epilogue import Tail, split
from rushlight.core.backends.webgpu.lowering.products.gemm import Matrix, gemm, matrix
from rushlight.core.basis.layout import Layout


def rows_of(x: Operand) -> Layout:
    """`x` as (batch..., rows, columns), one matrix where its leading dims lie together."""
    layout = x.layout
    rows = layout.numel // max(layout.shape[-1], 1)
    flat = layout.reshape((rows, layout.shape[-1])) if layout.shape[-1] else None
    if flat is not None:
        return flat
    return layout if layout.ndim > 1 else layout.unsqueeze(0)


def _product(
    e: Emitter, x: Operand, weight: Matrix, out: Operand, bias: Operand | None, tail: Tail | None
) -> None:
    left = rows_of(x)
    batch = left.shape[:-2]
    right = Matrix(weight.operand, weight.layout.expand((*batch, *weight.layout.shape)))
    shape = (*left.shape[:-1], out.layout.shape[-1])
    result = out.layout.reshape(shape)
    assert result is not None, "out is contiguous"
    more = None if bias is None else matrix(bias, bias.layout.expand(shape))
    gemm(e, matrix(x, left), right, matrix(out, result), more, tail=tail)


def linear(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """x @ weight.T + bias."""
    (x, weight, bias), tail = split(inputs, attrs)
    assert x is not None and weight is not None
    _product(e, x, matrix(weight).turned, out, bias, tail)


def linear_t(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """grad @ weight."""
    (grad, weight), tail = split(inputs, attrs)
    assert grad is not None and weight is not None
    _product(e, grad, matrix(weight), out, None, tail)


LOWERINGS = {"linear": linear, "linear_t": linear_t}
