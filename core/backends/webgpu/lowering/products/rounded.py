"""Rows rounded to 8-bit integers in runs of 32, for products in the mode "int8"."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from rushlight.core.backends.modes import get_linear_mode
from rushlight.core.backends.webgpu.codegen import quads
from rushlight.core.backends.webgpu.codegen.formula import RUN, run_bytes
from rushlight.core.backends.webgpu.emit import Emitter, fill, grid
from rushlight.core.backends.webgpu.lowering.products.product import ROUNDED, Side
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.dtype import DTYPES, DType, uint32
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import compose

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.lowering.products.gemm import Matrix

# What a shader must know for products of packed bytes.
FEATURE = "packed-4x8-integer-dot-product"
# Bytes of a rounded run: its elements, its scale and three sums.
_BYTES = RUN + 16


@cache
def byte_types() -> frozenset[DType]:
    """The quantized types whose elements are bytes times a scale, plus an offset."""
    return frozenset(d for d in DTYPES.values() if d.kind == "q" and run_bytes(d))


def in_bytes(features: Collection[str], dtype: DType) -> bool:
    """Whether an adapter with these features multiplies a type in integers."""
    return FEATURE in features and dtype in byte_types()


def mode_of(e: Emitter, right: Side) -> str:
    """ "int8" where a product with b is to be computed in integers; else "exact"."""
    asked = get_linear_mode() == "int8" and right.of_runs
    return "int8" if asked and in_bytes(e.features, right.dtype) else "exact"


def fits(e: Emitter, rows: int, k: int) -> bool:
    """Whether so many rounded rows can be bound."""
    return rows * (k // RUN) * _BYTES <= e.binding_limit


@cache
def _kernel(side: Side, half: bool) -> Kernel:
    along = side.quads and not side.turned
    ones = ", ".join(f"one_x(at + {j}u * P(6u))" for j in range(4))
    read = "quad_x(at)" if along else f"vec4<f32>({ones})"
    lines = [
        *quads.lines("x", 0, side.dtype, side.quads, half),
        "@group(0) @binding(1) var<storage, read_write> runs: array<vec4<u32>>;",
        f"fn x_quad(at: u32) -> vec4<f32> {{ return {read}; }}",
    ]
    return Kernel(compose("round_rows", *lines), "rw", "round_rows")


def rounded(e: Emitter, a: Matrix) -> TensorView:
    """The rows of a matrix (batch..., n, k), rounded: (batch..., n, runs), a run an element."""
    *batch, n, k = a.layout.shape
    each = k // RUN
    layout = Layout.contiguous((*batch, n, each))
    whole = e.temporary((layout.numel * _BYTES // 4,), uint32)
    sizes, (steps,) = e.walk(tuple(batch), [a.layout.strides[:-2]])
    bound, at, _ = a.bind(e)
    parameters = [0] * 40
    parameters[0:7] = [layout.numel, each, n, len(sizes), at, *a.layout.strides[-2:]]
    fill(parameters, 16, sizes, steps)
    kernel = _kernel(a.side(-1, -2), "shader-f16" in e.features)
    runs = Slice(whole.buffer, 0, whole.buffer.nbytes)
    e.dispatch(kernel, [*bound, runs], parameters, grid(-(-layout.numel // 64)))
    return TensorView(whole.buffer, layout, ROUNDED.dtype)
