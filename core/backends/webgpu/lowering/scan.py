"""Lowerings of running sums, in parts, and of recurrences: a channel's states in an invocation."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    word,
)
from rushlight.core.backends.webgpu.lowering.map import emit_map, move
from rushlight.core.backends.webgpu.lowering.reduce import WIDE
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.dtype import int64
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import compose

STATES = 16  # that an invocation of the selective scan holds at once; a power of two
HELD = 64  # rows of a state with a decay that one on a CPU holds at once; a power of two


def cumsum(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Sums of the elements up to each, along `dim`."""
    x = inputs[0]
    assert x is not None
    dim = attrs["dim"]
    wide = WIDE[access.value_type(x.dtype)]
    narrow = access.per_word(out.dtype) > 1
    sums_wide: Operand = e.temporary(out.layout.shape, wide) if narrow else out
    scan(e, x, x.layout, sums_wide, sums_wide.layout, dim)
    if narrow:
        emit_map(e, "a", [sums_wide], out, e.op)
    if out.dtype is int64 and x.layout.shape[dim] > 1:
        # Up to the first that went beyond 32 bits all sums are exact, so it is found by adding
        # each element to the sum before it again.
        n = x.layout.shape[dim]
        sums = TensorView(out.buffer, out.layout.slice(dim, 0, n - 1), int64)
        tail = TensorView(x.buffer, x.layout.slice(dim, 1, n), int64)
        rest = e.temporary(tail.layout.shape, int64)
        code = e.status.code(e.op, "overflow")
        emit_map(e, "add_64(a, b)", [tail, sums], rest, e.op, extra=[code], notes=True)


def scan(e: Emitter, x: Operand, layout: Layout, out: Operand, to: Layout, dim: int) -> None:
    """Running sums along `dim` of the part `layout` of `x` into the part `to` of `out`."""
    if not (e.fits(x, layout) and e.fits(out, to)):
        far = to if e.fits(x, layout) else layout
        d = max(range(layout.ndim), key=lambda d: far.strides[d] * (far.shape[d] > 1))
        half = layout.shape[d] // 2
        if d != dim:
            for a, b in ((0, half), (half, layout.shape[d])):
                scan(e, x, layout.slice(d, a, b), out, to.slice(d, a, b), dim)
            return
        if half:
            # Rows in two parts: the second goes on from the last sums of the first.
            scan(e, x, layout.slice(dim, 0, half), out, to.slice(dim, 0, half), dim)
            rest = to.slice(dim, half, layout.shape[dim])
            scan(e, x, layout.slice(dim, half, layout.shape[dim]), out, rest, dim)
            end = TensorView(out.buffer, to.slice(dim, half - 1, half), out.dtype)
            last = e.temporary(end.layout.shape, out.dtype)
            move(e, end, last)
            sums = TensorView(out.buffer, rest, out.dtype)
            carried = view(last, last.layout.expand(rest.shape))
            emit_map(e, "a + b", [sums, carried], sums, "scan_add")
            return
    n = layout.shape[dim]
    others = [d for d in range(len(layout.shape)) if d != dim]
    sizes, (steps, to_steps) = e.walk(
        tuple(layout.shape[d] for d in others),
        [tuple(v.strides[d] for d in others) for v in (layout, to)],
    )
    rows = layout.numel // n
    # On a CPU barriers are slow, so each invocation has its own part.
    lanes, each = (1, 64) if e.on_cpu else (256 if n > 256 else 16 if n > 8 else 2, 4)
    per_group = lanes * each
    parts = -(-n // per_group)
    source, first = e.bind(x, layout)
    target, begin = e.bind(out, to)
    p = [0] * 42
    p[0:9] = [
        rows,
        begin,
        first,
        n,
        parts,
        word(layout.strides[dim]),
        to.strides[dim],
        0,
        len(sizes),
    ]
    fill(p, 10, sizes, steps)
    fill(p, 34, to_steps)
    kind = access.value_type(x.dtype)
    lines = [f"alias total = {kind};", access.writer(1, out.dtype)]
    totals = e.temporary((rows, parts), WIDE[kind]) if parts > 1 else None
    bindings = [source, target]
    if totals is None:
        keep = "fn keep(unit: u32, v: total) {}"
    else:
        keep = (
            "@group(0) @binding(2) var<storage, read_write> kept: array<total>;\n"
            "fn keep(unit: u32, v: total) { kept[unit] = v; }"
        )
        bindings.append(e.bind(totals)[0])
    # Workgroup memory is only there where it is used: SwiftShader compiles it slowly.
    ends = "sums_in_row(v, lane)" if lanes > 1 else "vec2<total>(total(0), v)"
    cut = [
        f"const LANES = {lanes}u;",
        f"const EACH = {each}u;",
        f"fn ends(v: total, lane: u32) -> vec2<total> {{ return {ends}; }}",
    ]
    text = compose("scan", access.reader("x", 0, x.dtype), *lines, *cut, keep)
    kernel = Kernel(text, "r" + "w" * (len(bindings) - 1), "scan")
    e.dispatch(kernel, bindings, p, grid(-(-rows * parts * lanes // 256)))
    if totals is None:
        return
    sums = e.temporary((rows, parts), totals.dtype)
    scan(e, totals, totals.layout, sums, sums.layout, 1)
    before, start = e.bind(sums)
    q = list(p)
    q[0:7] = [rows * n, begin, start, n, parts, per_group, to.strides[dim]]
    kernel = e.kernel("scan_add", "rw", access.reader("t", 0, sums.dtype), *lines)
    e.dispatch(kernel, [before, target], q, grid(-(-rows * n // 64)))


def _record(
    e: Emitter,
    file: str,
    names: Sequence[str],
    inputs: Inputs,
    target: Operand | None,
    out: Operand,
    sizes: list[int],
    lines: Sequence[str],
    work: int,
) -> None:
    """One dispatch for the tokens that one invocation may walk over; see the kernels' parameters.

    work: the rounds of all loops of a token. sizes: parameter 0, and those from 2 to 4 and 7 on.
    target: where the last state goes, else behind the result. The state before is read from there.
    """
    bindings: list[Slice] = []
    declared, offsets, strides = [], [], []
    for name, x in zip(names, inputs, strict=True):
        offset, steps = 0, [0] * 4
        layout = None if x is None else x.layout
        if name == "state" and target is not None:
            landing, offset = e.bind(target)
            layout = target.layout
            declared.append(
                f"fn load_{name}(i: u32) -> f32 {{ return bitcast<f32>(last_words[i]); }}"
            )
        elif x is None:
            declared.append(f"fn load_{name}(i: u32) -> f32 {{ return 0.0; }}")
        else:
            bound, offset = e.bind(x)
            declared.append(access.reader(name, len(bindings), x.dtype))
            bindings.append(bound)
        if layout is not None:
            # The only step of a size of one is none: it may be broadcast along.
            pairs = zip(layout.strides, layout.shape, strict=True)
            steps = [word(s) * (n > 1) for s, n in pairs]
        offsets.append(offset)
        strides += [*steps, 0, 0][:4]
    kinds = "r" * len(bindings) + "w"
    bound, begin = e.bind(out)
    declared.append(access.writer(len(bindings), out.dtype))
    bindings.append(bound)
    in_place = target is not None
    declared.append(f"const LANDS = {'true' if in_place else 'false'};")
    if in_place:
        words = f"@group(0) @binding({len(bindings)}) var<storage, read_write> last_words"
        declared.append(f"{words}: array<u32>;")
        bindings.append(landing)
        kinds += "w"
    kernel = e.kernel(file, kinds, *declared, *lines)
    columns, first, second, length, *rest = sizes
    # A software adapter ends loops that are long.
    most = max(1, ROUNDS // max(work, 1)) if e.on_cpu else max(length, 1)
    for t in range(0, max(length, 1), most):
        parameters = [columns, begin, first, second, length, t, min(length, t + most), *rest]
        e.dispatch(kernel, bindings, [*parameters, *offsets, *strides], grid(-(-columns // 64)))


def selective_scan(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Mamba's scan."""
    x, _, a, b, _, state = inputs[:6]
    assert x is not None and a is not None and b is not None
    (batch, length, channels), n = x.layout.shape, a.layout.shape[1]
    if not batch * channels:
        return
    target = _target(inputs[6:])
    if target is not None:  # in the order of the state
        target = TensorView(target.buffer, target.layout.permute((0, 2, 1)), target.dtype)
    states_held = math.gcd(n, STATES) or 1
    has_state = "false" if state is None else "true"
    lines = [f"const STATES = {states_held}u;", f"const GIVEN = {has_state};", *_last(target)]
    sizes = [batch * channels, channels, channels // b.layout.shape[2], length, n]
    _record(
        e,
        "selective_scan",
        ("x", "dt", "a", "b", "c", "state"),
        inputs[:6],
        target,
        out,
        sizes,
        lines,
        2 * n,
    )


def delta_scan(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Linear attention with a decay."""
    _, decay, k, v, a, _, state = inputs[:7]
    assert decay is not None and k is not None and v is not None
    (batch, heads, length, values), keys = v.layout.shape, k.layout.shape[3]
    if not batch * heads * values:
        return
    conditions = {
        "GIVEN": state is not None,
        "REMOVES": a is not None,
        "BEFORE": attrs["before"],
        "EVEN": decay.layout.strides[3] == 0 or keys == 1,
    }
    lines = [f"const {name} = {'true' if yes else 'false'};" for name, yes in conditions.items()]
    # On a CPU reads of a buffer are slow: four columns share those of r, decay and k. llvmpipe
    # compiles for the square of the numbers held: a second for 256, five for 512.
    keys_held = keys if keys <= HELD or a is not None else math.gcd(keys, HELD)
    wide = 4 if e.on_cpu and values % 4 == 0 and 8 <= keys_held <= HELD else 1
    if wide == 1:
        keys_held = keys
    target = _target(inputs[7:])
    lines += [f"const KEYS = {keys}u;", f"const HELD = {keys_held}u;", f"const WIDE = {wide}u;"]
    lines += [f"alias columns = {'f32' if wide == 1 else 'vec4<f32>'};", *_last(target, wide)]
    lines += [
        _reads("v_at", "load_v({} * P(29u) + at)", wide),
        _reads("state_at", "load_state({} * P(41u) + at)", wide),
        _reads("sum_at", "bitcast<f32>(out_words[{} + at])", wide),
        _writes("keep", "out_words[{} + at] = encode({});", wide),
    ]
    sizes = [batch * heads * values // wide, heads, values, length]
    _record(
        e,
        "delta_scan",
        ("r", "decay", "k", "v", "a", "b", "state"),
        inputs[:7],
        target,
        out,
        sizes,
        lines,
        2 * keys,
    )


def _target(more: Inputs) -> Operand | None:
    """Where a recurrence writes its last state, which the pass "fuse" adds to its inputs."""
    return more[0] if more else None


def _last(target: Operand | None, wide: int = 1) -> list[str]:
    """Functions that read and write a last state."""
    words, step = ("out_words", "1u") if target is None else ("last_words", "P(41u)")
    place = f"{words}[{{}} * {step} + at]"
    return [
        _reads("last_at", f"bitcast<f32>({place})", wide),
        _writes("keep_last", f"{place} = bitcast<u32>({{}});", wide),
    ]


def _reads(name: str, number: str, wide: int) -> str:
    """A function that reads the `number`s of neighbouring columns."""
    kind = "f32" if wide == 1 else "vec4<f32>"
    all_ = ", ".join(number.format(f"{i}u") for i in range(wide))
    return f"fn {name}(at: u32) -> {kind} {{ return {kind}({all_}); }}"


def _writes(name: str, number: str, wide: int) -> str:
    kind, ends = ("f32", [""]) if wide == 1 else ("vec4<f32>", [f"[{i}]" for i in range(wide)])
    body = " ".join(number.format(f"{i}u", f"v{end}") for i, end in enumerate(ends))
    return f"fn {name}(at: u32, v: {kind}) {{ {body} }}"


LOWERINGS = {"cumsum": cumsum, "selective_scan": selective_scan, "delta_scan": delta_scan}
