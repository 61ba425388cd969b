"""Lowerings of rotary positions, alone or together with the write to a cache."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, fill, grid
from rushlight.core.backends.webgpu.lowering.attention import cache_write
from rushlight.core.backends.webgpu.lowering.indexing import storer
from rushlight.core.backends.webgpu.lowering.map import walk_lines
from rushlight.core.backends.webgpu.lowering.movement import given
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.layout import contiguous_strides
from rushlight.wgsl_kernels import compose, text

_SHIFT = 20  # the number of parameters of a write to a cache


def _lines(operands: Sequence[Operand], interleaved: bool) -> list[str]:
    return [
        *(
            access.reader(n, i, p.dtype)
            for i, (n, p) in enumerate(zip(("x", "cos", "sin"), operands, strict=True))
        ),
        f"const INTERLEAVED = {'true' if interleaved else 'false'};",
    ]


def _places(e: Emitter, operands: Sequence[Operand]) -> tuple[list[Slice], list[int]]:
    """Bindings, and the parameters of rope.wgsl, of which the first two are the map's."""
    x, cos, _ = operands
    bound = [e.bind(p) for p in operands]
    shape = x.layout.shape
    sizes, steps = e.walk(shape[:-1], [p.layout.strides[:-1] for p in operands])
    parameters = [0] * 43
    parameters[2:8] = [*(start for _, start in bound), len(sizes), shape[-1], cos.layout.shape[-1]]
    fill(parameters, 8, sizes, *steps)
    fill(parameters, 40, [p.layout.strides[-1] for p in operands])
    return [b for b, _ in bound], parameters


def _text(dims: int) -> str:
    """rope.wgsl for rows that lie in so many dims."""
    walk = walk_lines(dims, {"at.x": 16, "at.y": 24, "at.z": 32})
    places = f"var at = vec3<u32>(P(2u), P(3u), P(4u)); {walk} return at;"
    return f"fn places(i: u32) -> vec3<u32> {{ {places} }}\n{text('rope')}"


def rope(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Pairs of the last dim rotated; cos and sin may repeat by strides of zero."""
    operands = given(*inputs)
    lines = [*_lines(operands, attrs["interleaved"]), access.writer(3, out.dtype)]
    bound, parameters = _places(e, operands)
    kernel = Kernel(compose("map", *lines, _text(parameters[5])), "rrrw", "rope")
    bound_out, parameters[1] = e.bind(out)
    parameters[0] = out.layout.numel
    words = -(-out.layout.numel // access.per_word(out.dtype))
    e.dispatch(kernel, [*bound, bound_out], parameters, grid(-(-words // 64)))


def rope_write(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """`cache_write` of rotated rows: a cache in float32, the operands of `rope`, the offsets."""
    cache, *operands, offsets = given(*inputs)
    x = operands[0]
    if not all(e.fits(p, p.layout) for p in (*operands, out)):
        rotated = e.temporary(x.layout.shape, out.dtype)
        rope(e, operands, rotated, attrs)
        cache_write(e, (cache, rotated, offsets), out, {})
        return
    bound, more = _places(e, operands)
    turned = re.sub(r"P\((\d+)u", lambda m: f"P({int(m[1]) + _SHIFT}u", _text(more[5]))
    lines = [
        *_lines(operands, attrs["interleaved"]),
        access.reader("offset", 3, offsets.dtype),
        storer(4, out.dtype),
        access.status(5),
        turned,
        "fn load_value(i: u32) -> f32 { return element(i); }",
    ]
    i_bound, i_at = e.bind(offsets)
    o_bound, o_at = e.bind(out)
    shape = x.layout.shape
    parameters = [
        x.layout.numel, o_at, 0, i_at, offsets.layout.strides[0], 0, out.layout.shape[2],
        e.status.code("cache_write_", "capacity"), *shape, *contiguous_strides(shape),
        *out.layout.strides, *more,
    ]  # fmt: skip
    kernel = Kernel(compose("cache_write", *lines), "rrrrww", "rope_write")
    e.dispatch(
        kernel,
        [*bound, i_bound, o_bound, e.status.slice()],
        parameters,
        grid(-(-x.layout.numel // 64)),
    )


LOWERINGS = {"rope": rope, "rope_write": rope_write}
IN_PLACE = frozenset({"rope_write"})
