"""Maps: ops that compute each element from the inputs' elements at the same position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, fill, grid
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.core.basis.dtype import DType, bool_, int64
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout, Shape
from rushlight.wgsl_kernels import compose

NAMES = "abc"


def walk_lines(dims: int, steps: Mapping[str, int]) -> str:
    """WGSL that adds to each place where element i is; its strides begin at a parameter.

    It has no loop: on a CPU a parameter with a computed number costs as much as a division.
    """
    lines = ["var rest = i;"]
    for d in range(dims - 1, 0, -1):
        lines.append(f"let r{d} = rest / P({8 + d}u); let n{d} = rest - r{d} * P({8 + d}u);")
        lines += [f"{name} += n{d} * P({first + d}u);" for name, first in steps.items()]
        lines.append(f"rest = r{d};")
    return " ".join([*lines, *(f"{name} += rest * P({first}u);" for name, first in steps.items())])


@cache
def _kernel(
    expression: str,
    inputs: tuple[DType, ...],
    out: DType,
    walks: int,
    strided_out: int,
    in_place: bool,
    label: str,
    notes: bool,
) -> Kernel:
    """The kernel of `expression` in a, b and c.

    walks, strided_out: over how many dims operands, and the result, are found by their strides; 0
    where they lie row-major. in_place: the first input is what is written. notes: the expression
    may write to the status word.
    """
    lines = []
    bound = 0
    for i, dtype in enumerate(inputs):
        if in_place and i == 0:
            lines.append(access.in_place_reader(NAMES[0], dtype))
        else:
            lines.append(access.reader(NAMES[i], bound, dtype))
            bound += 1
    lines.append(access.writer(bound, out))
    count = len(inputs)
    loads = [f"let {n} = load_{n}(at_{n});" for n in NAMES[:count]]
    if not walks:
        starts = [f"let at_{n} = i + P({2 + k}u);" for k, n in enumerate(NAMES[:count])]
    else:
        starts = [f"var at_{n} = P({2 + k}u);" for k, n in enumerate(NAMES[:count])]
        starts.append(
            walk_lines(walks, {f"at_{n}": 16 + 8 * k for k, n in enumerate(NAMES[:count])})
        )
    head = "fn element(i: u32) -> out_value {\n"
    if not inputs:  # pieces of a result count on
        head = "fn element(n: u32) -> out_value {\nlet i = n + P(2u);\n"
    lines.append(head + "\n".join([*starts, *loads]) + f"\nreturn {expression};\n}}")
    if strided_out:
        walk = walk_lines(strided_out, {"at": 40})
        lines.append(f"fn placed(i: u32) -> u32 {{ var at = 0u; {walk} return at; }}")
    if notes:
        lines.append(access.status(bound + 1))
    return Kernel(compose("map", *lines), "r" * bound + ("ww" if notes else "w"), label)


class _Asks(NamedTuple):
    """Options of a map besides its operands; see emit_map."""

    label: str
    extra: Sequence[int]
    notes: bool
    more: Sequence[int]


def emit_map(
    e: Emitter,
    expression: str,
    inputs: Sequence[Operand],
    out: Operand,
    label: str = "map",
    extra: Sequence[int] = (),
    notes: bool = False,
    more: Sequence[int] = (),
) -> None:
    """Record out = expression(a, b, c) over operands of one shape, in pieces that can be bound.

    A narrow `out` must be contiguous and begin on a word; the first input may be `out` itself.
    The expression may use up to two `extra` parameters, P(6u) and P(7u), and without inputs `i`,
    the row-major number of the element, and `more` from P(16u) on. notes: it may call `note`;
    the status word is bound last.
    """
    in_place = bool(inputs) and inputs[0].buffer is out.buffer
    per = access.per_word(out.dtype)
    asks = _Asks(label, extra, notes, more)
    for shape, layouts in pieces(e, [*inputs, out]):
        target = layouts[-1]
        first = target.offset - out.layout.offset
        shares = target is not out.layout and (target.offset % per or target.numel % per)
        if per == 1 or not shares:
            _emit_piece(e, expression, inputs, out, shape, layouts, in_place, asks, first)
            continue
        # This piece of a narrow result shares words with its neighbours.
        temporary = e.temporary(shape, out.dtype)
        layouts[-1] = temporary.layout
        _emit_piece(e, expression, inputs, temporary, shape, layouts, False, asks, first)
        scatter_narrow(e, temporary, TensorView(out.buffer, target, out.dtype))


def _emit_piece(
    e: Emitter,
    expression: str,
    inputs: Sequence[Operand],
    out: Operand,
    shape: Shape,
    layouts: Sequence[Layout],
    in_place: bool,
    asks: _Asks,
    first: int,
) -> None:
    sizes, strides = e.walk(shape, [x.strides for x in layouts])
    plain = len(sizes) == 1 and all(s == (1,) for s in strides)
    flat_out = strides[-1] == Layout.contiguous(sizes).strides or sizes == (1,)
    kernel = _kernel(
        expression,
        tuple(x.dtype for x in inputs),
        out.dtype,
        0 if plain else len(sizes),
        0 if flat_out else len(sizes),
        in_place,
        asks.label,
        asks.notes,
    )
    count = 1
    for n in sizes:
        count *= n
    parameters = [0] * 48
    bindings = []
    for k, (x, layout) in enumerate(zip([*inputs, out], layouts, strict=True)):
        bound, start = e.bind(x, layout)
        last = k == len(inputs)
        parameters[1 if last else 2 + k] = start
        fill(parameters, 40 if last else 16 + 8 * k, strides[k])
        if not (in_place and k == 0):
            bindings.append(bound)
    parameters[0], parameters[5] = count, len(sizes)
    if not inputs:
        parameters[2] = first
        parameters[16 : 16 + len(asks.more)] = asks.more
    parameters[6 : 6 + len(asks.extra)] = asks.extra
    fill(parameters, 8, sizes)
    if asks.notes:
        bindings.append(e.status.slice())
    words = -(-count // access.per_word(out.dtype))
    e.dispatch(kernel, bindings, parameters, grid(-(-words // 64)))


def pieces(e: Emitter, operands: Sequence[Operand]) -> Iterator[tuple[Shape, list[Layout]]]:
    """Boxes of the common shape in which every operand can be bound."""
    todo = [[x.layout for x in operands]]
    while todo:
        layouts = todo.pop()
        shape = layouts[0].shape
        if 0 in shape:
            continue
        if all(e.fits(x, layout) for x, layout in zip(operands, layouts, strict=True)):
            yield shape, layouts
            continue
        dim = next((d for d, n in enumerate(shape) if n > 1), None)
        if dim is None:
            raise AssertionError("one element always fits")
        half = shape[dim] // 2
        # Pieces of narrow dtypes must begin on whole words.
        half = half // 4 * 4 or half
        todo.append([x.slice(dim, half, shape[dim]) for x in layouts])
        todo.append([x.slice(dim, 0, half) for x in layouts])


def elementwise(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """The lowering of every row of the elementwise table."""
    operands = [x for x in inputs if x is not None]
    if out.dtype is int64 and (checked := checked_expression(e.op)) is not None:
        code = e.status.code(e.op, "overflow")
        emit_map(e, checked, operands, out, e.op, extra=[code], notes=True)
        return
    emit_map(e, expression(e.op, operands[0].dtype, out.dtype), operands, out, e.op)


def expression(name: str, dtype: DType, out: DType) -> str:
    """WGSL of a row of the elementwise table, for operands of dtype `dtype`."""
    row = ELEMENTWISE[name]
    text = row.wgsl if isinstance(row.wgsl, str) else row.wgsl[dtype.kind]
    return f"select(0u, 1u, {text})" if out is bool_ and row.truth else text


def checked_expression(name: str) -> str | None:
    """WGSL of a row for int64, whose result could be beyond the 32 bits that hold it.

    It notes that in the status word, and the next read raises OverflowError; P(6) is the code. None
    where a row's results always fit.
    """
    wgsl = ELEMENTWISE[name].wgsl
    return None if isinstance(wgsl, str) else wgsl.get("int64")


def move(e: Emitter, x: Operand, out: Operand) -> None:
    """Copy the elements of `x` to `out`, of one dtype, as integers, so that every nan is kept."""
    bits = access.as_bits(x.dtype)
    emit_map(
        e,
        "a",
        [TensorView(x.buffer, x.layout, bits)],
        TensorView(out.buffer, out.layout, bits),
        "copy",
    )


def scatter_narrow(e: Emitter, x: Operand, out: Operand) -> None:
    """Write the elements of a contiguous `x` into a narrow `out` of any layout.

    Neighbours in a word belong to other elements, so each element is written by two atomic
    operations.
    """
    bits = access.as_bits(out.dtype)
    for shape, (source, target) in pieces(e, [x, out]):
        sizes, strides = e.walk(shape, [source.strides, target.strides])
        from_, start = e.bind(x, source)
        to, begin = e.bind(out, target)
        parameters = [0] * 48
        count = source.numel
        parameters[0], parameters[1], parameters[2], parameters[5] = count, begin, start, len(sizes)
        fill(parameters, 8, sizes, strides[0])
        fill(parameters, 40, strides[1])
        kernel = e.kernel(
            "scatter_narrow",
            "rw",
            access.reader("a", 0, bits),
            f"const PER = {access.per_word(out.dtype)}u;",
        )
        e.dispatch(kernel, [from_, to], parameters, grid(-(-count // 64)))
