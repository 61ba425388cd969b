"""Lowerings of `matmul`: floats by the shared product, integers and booleans by a plain one."""

from __future__ import annotations

from functools import cache

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import (
    ROUNDS,
    Attrs,
    Emitter,
    Inputs,
    fill,
    grid,
    view,
)
from rushlight.core.backends.webgpu.lowering.map import emit_map
from rushlight.core.backends.webgpu.lowering.products.epilogue import split
from rushlight.core.backends.webgpu.lowering.products.gemm import gemm, matrix
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.core.basis.dtype import DType, bool_, int64
from rushlight.wgsl_kernels import compose, text


def matmul(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """(batch..., n, k) @ (batch..., k, m); sums of floats are float32."""
    (a, b), tail = split(inputs, attrs)
    assert a is not None and b is not None
    if out.dtype.kind == "f":
        gemm(e, matrix(a), matrix(b), matrix(out), tail=tail)
    else:
        _integers(e, a, b, out)


@cache
def _kernel(dtype: DType) -> Kernel:
    wide = dtype is int64
    lines = [
        access.reader("a", 0, dtype),
        access.reader("b", 1, dtype),
        access.writer(2, dtype),
        f"const WIDE = {'true' if wide else 'false'};",
    ]
    if wide:
        lines.append(access.status(3))
        lines.append("fn overflow() { note(P(13u), 0, 0u); }")
    else:
        lines.append("fn overflow() { }")
    any_ = "sum | (x & y)" if dtype is bool_ else "sum + x * y"
    lines.append(
        f"fn fold(sum: out_value, x: out_value, y: out_value) -> out_value {{ return {any_}; }}"
    )
    return Kernel(
        compose("map", *lines, text("matmul_integers")),
        "rrww" if wide else "rrw",
        "matmul_integers",
    )


def _integers(e: Emitter, a: Operand, b: Operand, out: Operand) -> None:
    length = a.layout.shape[-1]
    # An invocation computes the elements of a word.
    if e.on_cpu and length * access.per_word(out.dtype) > ROUNDS:
        half, d = length // 2, a.layout.ndim
        parts = [e.temporary(out.layout.shape, out.dtype) for _ in range(2)]
        for target, start, stop in zip(parts, (0, half), (half, length), strict=True):
            left, right = a.layout.slice(d - 1, start, stop), b.layout.slice(d - 2, start, stop)
            _integers(e, view(a, left), view(b, right), target)
        if out.dtype is int64:
            code = e.status.code(e.op, "overflow")
            emit_map(e, "add_64(a, b)", parts, out, extra=[code], notes=True)
        else:
            emit_map(e, "a | b" if out.dtype is bool_ else "a + b", parts, out)
        return
    *batch, n, m = out.layout.shape
    sizes, steps = e.walk(tuple(batch), [a.layout.strides[:-2], b.layout.strides[:-2]])
    bound = [e.bind(x) for x in (a, b, out)]
    bindings = [slice_ for slice_, _ in bound]
    parameters = [0] * 48
    parameters[0:12] = [
        out.layout.numel,
        bound[2][1],
        a.layout.shape[-1],
        len(sizes),
        bound[0][1],
        a.layout.strides[-2],
        a.layout.strides[-1],
        bound[1][1],
        b.layout.strides[-2],
        b.layout.strides[-1],
        n,
        m,
    ]
    if out.dtype is int64:
        bindings.append(e.status.slice())
        parameters[13] = e.status.code(e.op, "overflow")
    fill(parameters, 16, sizes, *steps)
    words = -(-out.layout.numel // access.per_word(out.dtype))
    e.dispatch(_kernel(out.dtype), bindings, parameters, grid(-(-words // 64)))


LOWERINGS = {"matmul": matmul}
