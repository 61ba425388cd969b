"""Lowerings of softmax and its logarithm, and of the normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.compiler.autotune import up_to
from rushlight.core.backends.webgpu.emit import (
    ROUNDS,
    Attrs,
    Emitter,
    Inputs,
    bits,
    fill,
    grid,
)
from rushlight.core.backends.webgpu.lowering.map import emit_map
from rushlight.core.backends.webgpu.lowering.movement import given
from rushlight.core.backends.webgpu.lowering.products.epilogue import Tail, afterwards, split
from rushlight.core.backends.webgpu.lowering.products.epilogue import lines as epilogue_lines
from rushlight.core.backends.webgpu.runtime.recorder import Slice
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.layout import contiguous_strides

# Invocations per row, by the row's length: (up to, lanes).
LANES = ((256, 32), (512, 64))
MOST_LANES = 256
_TAIL = range(44, 53)  # the parameters of an epilogue


def lanes_for(length: int) -> int:
    """The number of invocations that share a row of `length` elements."""
    return next((lanes for most, lanes in LANES if length <= most), MOST_LANES)


def candidates(e: Emitter, file: str, length: int, rows: int) -> list[str]:
    """How many invocations may share a row, for a class of rows."""
    least = length // ROUNDS if e.on_cpu else 0
    return [str(n) for n in (4, 8, 16, 32, 64, 128, 256) if least < n <= max(length, 32)]


def _lanes(e: Emitter, file: str, length: int, rows: int) -> str:
    guess = max(e.at_once, up_to(length // ROUNDS, 256)) if e.on_cpu else lanes_for(length)
    return e.pick(
        str(guess), "rows", file, up_to(length, 1 << 17), min(8 ** len(f"{rows:o}"), 4096)
    )


def _rows(
    e: Emitter,
    file: str,
    x: Operand,
    parts: Sequence[tuple[str, Operand | None]],
    out: Operand,
    dim: int,
    lines: Sequence[str],
    extra: Sequence[int] = (),
    tail: Tail | None = None,
) -> None:
    """One workgroup per row along `dim`; parts: weights along it, each under a name.

    tail: what becomes of the result before it is stored.
    """
    shape = x.layout.shape
    inner = contiguous_strides(shape)[dim]
    per = access.per_word(out.dtype)
    if per > 1 and (inner > 1 or shape[dim] % per):
        # Rows share words, so results are computed in float32 and then rounded word by word.
        normed = e.temporary(shape, float32)
        _rows(e, file, x, parts, normed, dim, lines, extra)
        if tail is None:
            emit_map(e, "a", [normed], out, "cast")
        else:
            afterwards(e, tail, normed, out)
        return
    bindings: list[Slice] = []
    parameters = [0] * 63
    declared = []
    for name, operand in [("x", x), *parts]:
        if operand is None:
            declared.append(f"fn load_{name}(i: u32) -> f32 {{ return {_neutral(name)}; }}")
            continue
        bound, offset = e.bind(operand)
        declared.append(access.reader(name, len(bindings), operand.dtype))
        bindings.append(bound)
        if name == "x":
            parameters[2] = offset
        else:
            place = 40 if name == "weight" else 42
            parameters[place : place + 2] = offset, operand.layout.strides[0]
    bound, parameters[1] = e.bind(out)
    letters = "r" * len(bindings) + "w"
    declared.append(access.writer(len(bindings), out.dtype))
    bindings.append(bound)
    if tail is not None:
        declared += epilogue_lines(tail.key, len(bindings), _TAIL)
        others, words = tail.bind(e, parameters[1], _TAIL)
        for offset, n in words.items():
            parameters[offset] = n
        bindings += others
        letters += "r" * len(others)
    rest = [d for d in range(len(shape)) if d != dim]
    outer = tuple(shape[d] for d in rest)
    made_strides = contiguous_strides(shape)
    sizes, steps = e.walk(
        outer, [tuple(x.layout.strides[d] for d in rest), tuple(made_strides[d] for d in rest)]
    )
    rows = out.layout.numel // shape[dim]
    parameters[0], parameters[3], parameters[4] = rows, shape[dim], x.layout.strides[dim]
    parameters[5], parameters[6] = len(sizes), inner
    fill(parameters, 8, sizes, *steps)
    fill(parameters, 32, extra)
    kernel = e.kernel(
        file,
        letters,
        *declared,
        *lines,
        f"const LANES = {_lanes(e, file, shape[dim], rows)}u;",
    )
    e.dispatch(kernel, bindings, parameters, grid(rows))


def _neutral(name: str) -> str:
    return "1.0" if name == "weight" else "0.0"


def softmax(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Along any dim, of any layout."""
    (x,) = given(*inputs)
    log = "true" if e.op == "log_softmax" else "false"
    _rows(e, "softmax_rows", x, (), out, attrs["dim"], [f"const LOG = {log};"])


def norm(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """layer_norm and rms_norm over the last dim."""
    operands, tail = split(inputs, attrs)
    x, weight, bias = [*operands, None][:3]
    assert x is not None
    centre = "true" if e.op == "layer_norm" else "false"
    _rows(
        e,
        "norm_rows",
        x,
        (("weight", weight), ("bias", bias)),
        out,
        len(x.layout.shape) - 1,
        [f"const CENTRE = {centre};"],
        [bits(attrs["eps"])],
        tail,
    )


LOWERINGS = {
    "softmax": softmax,
    "log_softmax": softmax,
    "layer_norm": norm,
    "rms_norm": norm,
}
