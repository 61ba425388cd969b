"""Lowerings of recurrences along a sequence: an invocation holds the states of a channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import ROUNDS, Attrs, Emitter, Inputs, grid, word
from rushlight.core.backends.webgpu.runtime.recorder import Slice

STATES = 16  # that an invocation of the selective scan holds at once; a power of two


def _record(
    e: Emitter, file: str, names: Sequence[str], inputs: Inputs, out: Operand, sizes: list[int],
    lines: Sequence[str], work: int,
) -> None:  # fmt: skip
    """One dispatch for the tokens that one invocation may walk over; see the kernels' parameters.

    work: the rounds of all loops of a token. sizes: parameter 0, and those from 2 to 4 and 7 on.
    """
    bindings: list[Slice] = []
    declared, offsets, strides = [], [], []
    for name, x in zip(names, inputs, strict=True):
        offset, steps = 0, [0] * 4
        if x is None:
            declared.append(f"fn load_{name}(i: u32) -> f32 {{ return 0.0; }}")
        else:
            bound, offset = e.bind(x)
            declared.append(access.reader(name, len(bindings), x.dtype))
            bindings.append(bound)
            # The only step of a size of one is none: it may be broadcast along.
            pairs = zip(x.layout.strides, x.layout.shape, strict=True)
            steps = [word(s) * (n > 1) for s, n in pairs]
        offsets.append(offset)
        strides += [*steps, 0, 0][:4]
    target, begin = e.bind(out)
    declared.append(access.writer(len(bindings), out.dtype))
    kernel = e.kernel(file, "r" * len(bindings) + "w", *declared, *lines)
    columns, first, second, length, *rest = sizes
    # A software adapter ends loops that are long.
    most = max(1, ROUNDS // max(work, 1)) if e.on_cpu else max(length, 1)
    for t in range(0, max(length, 1), most):
        parameters = [columns, begin, first, second, length, t, min(length, t + most), *rest]
        e.dispatch(kernel, [*bindings, target], [*parameters, *offsets, *strides],
                   grid(-(-columns // 64)))  # fmt: skip


def selective_scan(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Mamba's scan."""
    x, _, a, b, _, state = inputs
    assert x is not None and a is not None and b is not None
    (batch, length, channels), n = x.layout.shape, a.layout.shape[1]
    if not batch * channels:
        return
    held = math.gcd(n, STATES) or 1
    lines = [f"const STATES = {held}u;", f"const GIVEN = {'false' if state is None else 'true'};"]
    sizes = [batch * channels, channels, channels // b.layout.shape[2], length, n]
    _record(
        e, "selective_scan", ("x", "dt", "a", "b", "c", "state"), inputs, out, sizes, lines, 2 * n
    )


def delta_scan(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Linear attention with a decay."""
    _, _, k, v, a, _, state = inputs
    assert k is not None and v is not None
    (batch, heads, length, values), keys = v.layout.shape, k.layout.shape[3]
    if not batch * heads * values:
        return
    told = {"GIVEN": state is not None, "REMOVES": a is not None, "BEFORE": attrs["before"]}
    lines = [f"const {name} = {'true' if yes else 'false'};" for name, yes in told.items()]
    sizes = [batch * heads * values, heads, values, length]
    _record(
        e, "delta_scan", ("r", "decay", "k", "v", "a", "b", "state"), inputs, out, sizes,
        [*lines, f"const KEYS = {keys}u;"], 2 * keys,
    )  # fmt: skip


LOWERINGS = {"selective_scan": selective_scan, "delta_scan": delta_scan}
