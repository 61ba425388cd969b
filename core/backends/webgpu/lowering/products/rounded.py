"""The modes that round on webgpu, and rows rounded to 8-bit integers in runs of 32."""

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


def mode_for(asked: str, dtype: DType, features: Collection[str]) -> str:
    """The mode that an adapter with these features takes for a quantized type.

    "int8" where it has packed bytes and the type is made of some, "float16" where that or int8 is
    asked for and it has float16, else "exact".
    """
    if asked == "int8" and FEATURE in features and dtype in byte_types():
        return "int8"
    half = asked in ("int8", "float16") and "shader-f16" in features
    return "float16" if half and dtype.kind == "q" else "exact"


def mode_of(e: Emitter, right: Side) -> str:
    """The mode that a product with b runs in."""
    return mode_for(get_linear_mode(), right.dtype, e.features) if right.of_runs else "exact"


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
