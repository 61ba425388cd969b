"""Lowerings of the ops that gather, scatter or add by index.

An index out of range is noted in the status word and nothing is read or written for it: what was
to be taken becomes nan, or -1 in integers. Results never depend on the order in which invocations
run: of several writes to one place the last in row-major order stays, and sums are added in that
order by one invocation each (WGSL has no atomic float addition, and it would not be repeatable).
"""

from __future__ import annotations

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
from rushlight.core.backends.webgpu.lowering.movement import apart, begin, contiguous, given, place
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.core.basis.dtype import DType, bool_, int64, uint32
from rushlight.core.basis.layout import Layout, Shape, contiguous_strides
from rushlight.wgsl_kernels import compose, text


def storer(binding: int, dtype: DType) -> str:
    """Lines that bind the result and define store(i, v), which writes a single element."""
    lines = access.writer(binding, dtype)
    if access.per_word(dtype) == 1:
        return f"{lines}\nfn store(i: u32, v: out_value) {{ out_words[i] = encode(v); }}"
    lines = lines.replace("array<u32>", "array<atomic<u32>>")
    return (
        f"{lines}\nfn store(i: u32, v: out_value) {{ let shift = (i % PER) * BITS; "
        "atomicAnd(&out_words[i / PER], ~(((1u << BITS) - 1u) << shift)); "
        "atomicOr(&out_words[i / PER], encode(v) << shift); }"
    )


def _without(strides: Shape, dim: int) -> Shape:
    return tuple(0 if d == dim else s for d, s in enumerate(strides))


def _take(e: Emitter, x: Operand, index: Layout, indices: Operand, out: Operand, dim: int) -> None:
    """out = x at the coordinates of `out`, but in `dim` at those of `indices` at `index`."""
    bits = access.as_bits(out.dtype)
    x, out = view(x, x.layout, bits), view(out, out.layout, bits)
    others = [d for d, n in enumerate(out.layout.shape) if d != dim and n > 1]
    fit = e.fits(indices, index) and e.fits(out, out.layout)
    if fit and (e.fits(x, x.layout) or not others):
        size = x.layout.shape[dim]
        for start, stop in ranges(e, x, x.layout, dim):
            _take_range(e, x, index, indices, out, dim, start, stop, stop - start < size)
        return
    # Parts along the outermost dim, which are contiguous in the result.
    d = next((d for d, n in enumerate(out.layout.shape) if n > 1), dim) if not fit else others[0]
    half = out.layout.shape[d] // 2
    for a, b in ((0, half), (half, out.layout.shape[d])):
        source = x if d == dim else view(x, x.layout.slice(d, a, b))
        target = out.layout.slice(d, a, b)
        gathered = e.temporary(target.shape, bits)
        _take(e, source, index.slice(d, a, b), indices, gathered, dim)
        place(e, gathered, view(out, target))


def ranges(e: Emitter, x: Operand, layout: Layout, dim: int) -> list[tuple[int, int]]:
    """Ranges of a dim of `x`, from the first on, that can be bound."""
    todo, spans = [(0, layout.shape[dim])], []
    while todo:
        start, stop = todo.pop()
        if stop - start <= 1 or e.fits(x, layout.slice(dim, start, stop)):
            spans.append((start, stop))
        else:
            half = (start + stop) // 2
            todo += [(half, stop), (start, half)]
    return spans


def _take_range(
    e: Emitter,
    x: Operand,
    index: Layout,
    indices: Operand,
    out: Operand,
    dim: int,
    start: int,
    stop: int,
    some: bool,
) -> None:
    """What lies from `start` to `stop` along `dim` of x. some: the rest is in other ranges."""
    bits = out.dtype
    missing = {"u32": "0xffffffffu", "i32": "-1"}[access.value_type(bits)]
    missing = "0u" if out.dtype is bool_ else missing
    old = "load_out(i + P(1u))" if some else "missing()"
    kernel = Kernel(
        compose(
            "map",
            access.reader("x", 0, bits),
            access.reader("index", 1, indices.dtype),
            access.writer(2, bits),
            access.in_place_reader("out", bits),
            access.status(3),
            text("gather"),
            f"fn missing() -> out_value {{ return {missing}; }}",
            f"fn elsewhere(i: u32) -> out_value {{ return {old}; }}",
        ),
        "rrww",
        "gather",
    )
    x_bound, x_at = e.bind(x, x.layout.slice(dim, start, stop))
    i_bound, i_at = e.bind(indices, index)
    o_bound, o_at = e.bind(out)
    sizes, steps = e.walk(out.layout.shape, [_without(x.layout.strides, dim), index.strides])
    parameters = [0] * 34
    count = out.layout.numel
    parameters[:8] = [
        count,
        o_at,
        x_at,
        i_at,
        x.layout.strides[dim],
        len(sizes),
        x.layout.shape[dim],
        e.status.code(e.blamed, e.noted),
    ]
    parameters[32:34] = [start, stop]
    fill(parameters, 8, sizes, *steps)
    words = -(-count // access.per_word(bits))
    e.dispatch(
        kernel, [x_bound, i_bound, o_bound, e.status.slice()], parameters, grid(-(-words // 64))
    )


def gather(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Each element by its own index."""
    x, index = given(*inputs)
    e.blamed = attrs.get("refusal") or attrs.get("blamed", e.op)
    e.noted = "refusal" if attrs.get("refusal") else "index"
    _take(e, x, index.layout, index, out, attrs["dim"])


def index_select(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Whole slices by index: gather, with the index repeated by strides of zero."""
    x, index = given(*inputs)
    dim, shape = attrs["dim"], out.layout.shape
    strides = tuple(index.layout.strides[0] if d == dim else 0 for d in range(len(shape)))
    _take(e, x, Layout(shape, strides, index.layout.offset), index, out, dim)


def _write(
    e: Emitter,
    index: Operand,
    value: Operand,
    out: Operand,
    base: Shape,
    step: int,
    size: int,
    places: int,
) -> None:
    """Put every element of `value` to place base + index * step of `out` seen row-major.

    Where several have one place the last stays: first each claims its place with its number, of
    which the largest wins, then the winners write.
    """
    sizes, steps = e.walk(index.layout.shape, [index.layout.strides, value.layout.strides, base])
    bits = access.as_bits(out.dtype)
    i_bound, i_at = e.bind(index)
    v_bound, v_at = e.bind(view(value, value.layout, bits))
    o_bound, o_at = e.bind(view(out, out.layout, bits))
    parameters = [0] * 57
    count = index.layout.numel
    parameters[:8] = [
        count,
        o_at,
        v_at,
        i_at,
        step,
        len(sizes),
        size,
        e.status.code(e.op, "index"),
    ]
    fill(parameters, 8, sizes, *steps)
    if not out.layout.is_contiguous:
        out_sizes, (out_steps,) = e.walk(out.layout.shape, [out.layout.strides])
        fill(parameters, 40, out_sizes, out_steps)
        parameters[56] = len(out_sizes)
    groups = grid(-(-count // 64))
    claims, _ = e.bind(e.temporary((places,), uint32))
    reads = access.reader("index", 0, index.dtype)
    for claim in ("false", "true"):
        kernel = e.kernel("scatter_claim", "rw", reads, f"const CLAIM = {claim};")
        e.dispatch(kernel, [i_bound, claims], parameters, groups)
    kernel = e.kernel(
        "scatter_write",
        "rrrww",
        reads,
        access.reader("value", 1, bits),
        access.reader("claim", 2, uint32),
        storer(3, bits),
        access.status(4),
    )
    e.dispatch(kernel, [i_bound, v_bound, claims, o_bound, e.status.slice()], parameters, groups)


def scatter(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """A copy of x with elements replaced, along one dim by index; the last of several stays."""
    x, index, value = given(*inputs)
    dim = attrs["dim"]
    begin(e, x, out)
    if index.layout.numel:
        strides = contiguous_strides(x.layout.shape)
        _write(
            e,
            index,
            value,
            out,
            _without(strides, dim),
            strides[dim],
            x.layout.shape[dim],
            x.layout.numel,
        )


def put(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """x with the elements at flat positions replaced; in place only those are written."""
    x, index, value = given(*inputs)
    index, value = apart(e, index, out), apart(e, value, out)
    begin(e, x, out)
    if index.layout.numel:
        count = x.layout.numel
        _write(e, index, value, out, (0,) * len(index.layout.shape), 1, count, count)


# Entries of a lane that are linked at once; each is compared with all others.
_LINKED = ROUNDS // 2


def _plus(dtype: DType) -> str:
    """The body of an addition; that of int64 notes where 32 bits do not hold the sum."""
    if dtype is int64:
        noted = "if (((a ^ s) & (b ^ s)) < 0) { note(P(56u), 0, 0u); }"
        return f"let s = a + b; {noted} return s;"
    return f"return a {'|' if dtype is bool_ else '+'} b;"


def _add(e: Emitter, x: Operand, index: Operand, source: Operand, out: Operand, dim: int) -> None:
    """out = x with source[.., k, ..] added at index[k] or index[.., k, ..]."""
    length = source.layout.shape[dim]
    along = min(dim, index.layout.ndim - 1)
    turns: list[Operand] = []
    for n, start in enumerate(range(0, length, _LINKED) or [0]):
        stop = min(start + _LINKED, length)
        if stop == length:
            target = out
        elif n < 2:
            turns.append(target := e.temporary(out.layout.shape, out.dtype))
        else:
            target = turns[n % 2]
        parts = (
            view(index, index.layout.slice(along, start, stop)),
            view(source, source.layout.slice(dim, start, stop)),
        )
        _add_part(e, x, *parts, target, dim)
        x = target


def _add_part(
    e: Emitter, x: Operand, index: Operand, source: Operand, out: Operand, dim: int
) -> None:
    begin(e, x, out)
    shape = source.layout.shape
    if 0 in shape:
        return
    flat = index.layout.shape
    inner = 1
    for n in flat[dim + 1 if len(flat) > 1 else 1 :]:
        inner *= n
    length, size = shape[dim], x.layout.shape[dim]
    indices = contiguous(e, index)
    i_bound, i_at = e.bind(indices)
    links = e.temporary(flat, uint32)
    l_bound, _ = e.bind(links)
    reads = access.reader("index", 0, index.dtype)
    kernel = e.kernel("scatter_link", "rww", reads, access.writer(1, uint32), access.status(2))
    parameters = [
        index.layout.numel,
        inner,
        length,
        i_at,
        0,
        0,
        size,
        e.status.code(e.op, "index"),
    ]
    e.dispatch(
        kernel, [i_bound, l_bound, e.status.slice()], parameters, grid(-(-index.layout.numel // 64))
    )
    code = 0
    lines = [f"fn plus(a: out_value, b: out_value) -> out_value {{ {_plus(out.dtype)} }}"]
    bindings = []
    if out.dtype is int64:
        code = e.status.code(e.op, "overflow")
        lines.append(access.status(5))
        bindings.append(e.status.slice())
    kernel = e.kernel(
        "scatter_add",
        "rrrrw" + "w" * len(bindings),
        reads,
        access.reader("link", 1, uint32),
        access.reader("source", 2, source.dtype),
        access.reader("x", 3, x.dtype),
        storer(4, out.dtype),
        *lines,
    )
    s_bound, s_at = e.bind(source)
    x_bound, x_at = e.bind(x)
    o_bound, o_at = e.bind(out)
    each = tuple(int(d == dim) for d in range(len(shape)))
    linked = contiguous_strides(flat) if len(flat) == len(shape) else each
    sizes, steps = e.walk(
        shape,
        [
            source.layout.strides,
            _without(x.layout.strides, dim),
            _without(out.layout.strides, dim),
            linked,
            each,
        ],
    )
    parameters = [0] * 63
    count = source.layout.numel
    parameters[:8] = [count, o_at, s_at, i_at, x_at, len(sizes), size, length]
    fill(parameters, 8, sizes, *steps)
    parameters[56:61] = [
        code,
        source.layout.strides[dim],
        x.layout.strides[dim],
        out.layout.strides[dim],
        linked[dim],
    ]
    e.dispatch(
        kernel,
        [i_bound, l_bound, s_bound, x_bound, o_bound, *bindings],
        parameters,
        grid(-(-count // 64)),
    )


def scatter_add(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """A copy of x with elements added, along one dim by index.

    Deterministic: entries of one lane with the same index are linked in order, and the first of
    them adds all. Linking compares the entries of a lane, which is quick unless lanes are long.
    """
    x, index, source = given(*inputs)
    shape = index.layout.shape
    covered = source.layout
    for d, n in enumerate(shape):
        covered = covered.slice(d, 0, n)
    _add(e, x, index, view(source, covered), out, attrs["dim"])


def index_add(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """A copy of x with whole slices added by index; deterministic as scatter_add is."""
    x, index, source = given(*inputs)
    _add(e, x, index, source, out, attrs["dim"])


def ravel_index(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Indices of several dims as one: a dispatch per dim continues from the one before."""
    code = e.status.code("index", "index")
    bound, offset = e.bind(out)
    for k, (index, size) in enumerate(zip(given(*inputs), attrs["sizes"], strict=True)):
        kernel = Kernel(
            compose(
                "map",
                access.reader("index", 0, index.dtype),
                access.writer(1, out.dtype),
                access.status(2),
                f"const FIRST = {'true' if k == 0 else 'false'};",
                text("ravel_index"),
            ),
            "rww",
            "ravel_index",
        )
        i_bound, i_at = e.bind(index)
        sizes, (steps,) = e.walk(index.layout.shape, [index.layout.strides])
        parameters = [0] * 24
        parameters[:8] = [out.layout.numel, offset, i_at, 0, 0, len(sizes), size, code]
        fill(parameters, 8, sizes, steps)
        e.dispatch(
            kernel, [i_bound, bound, e.status.slice()], parameters, grid(-(-out.layout.numel // 64))
        )


LOWERINGS = {
    "gather": gather,
    "index_select": index_select,
    "scatter": scatter,
    "put": put,
    "scatter_add": scatter_add,
    "index_add": index_add,
    "ravel_index": ravel_index,
}
IN_PLACE = frozenset({"put"})
