"""Chains of elementwise ops in one kernel, alone or at the end of another op's kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import (
    MOST_DIMS,
    Attrs,
    Emitter,
    Inputs,
    collapse,
    grid,
    word,
)
from rushlight.core.backends.webgpu.lowering.creation import cast_expression, cast_note, fill_word
from rushlight.core.backends.webgpu.lowering.map import (
    checked_expression,
    expression,
    pieces,
    scatter_narrow,
)
from rushlight.core.backends.webgpu.lowering.movement import given, place, whole_words
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.dtype import DType, int64
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout, Shape, contiguous_strides
from rushlight.wgsl_kernels import compose

_NAMES = re.compile(r"\b([abc])\b")
_CODE = 6  # the parameter with the status code of checked integers
_LAST = 62  # the last parameter a kernel may use


class Node(NamedTuple):
    """One op of a chain: WGSL in a, b and c, rounded to `dtype` as memory would.

    args: numbers of inputs, or ~n for node n. word: the bits of a constant, None where there is
    none. note: the op and the kind of error that it may note in the status word.
    """

    text: str
    args: tuple[int, ...]
    dtype: DType
    word: int | None = None
    note: tuple[str, str] | None = None


class Chain(NamedTuple):
    """Nodes in the order of computation; the last one is the result."""

    nodes: tuple[Node, ...]
    inputs: tuple[DType, ...]

    @property
    def note(self) -> tuple[str, str] | None:
        """What its checked ops note; `node_of` and `fuse` see to it that there is one kind."""
        return next((n.note for n in self.nodes if n.note), None)

    @property
    def words(self) -> list[int]:
        """Its constants in order."""
        return [n.word for n in self.nodes if n.word is not None]


def node_of(name: str, inputs: Inputs, out: Operand, attrs: Attrs) -> Node | None:
    """The op as a node with its inputs as arguments; None if the op is not supported here."""
    xs = given(*inputs)
    args, dtype = tuple(range(len(xs))), out.dtype
    if any(x.dtype.kind == "q" for x in (*xs, out)):
        return None
    if name in ELEMENTWISE:
        if dtype is int64 and (checked := checked_expression(name)) is not None:
            return Node(checked, args, dtype, note=(name, "overflow"))
        return Node(expression(name, xs[0].dtype, dtype), args, dtype)
    if name == "copy":
        return Node("a", args, dtype)
    if name == "where":
        return Node("select(c, b, a != 0u)", args, dtype)
    if name == "full":
        return Node(
            _CONSTANT[access.value_type(dtype)], (), dtype, fill_word(name, attrs["value"], dtype)
        )
    if name == "cast":
        noting = cast_note(xs[0].dtype, dtype)
        if noting:
            return Node(noting, args, dtype, note=("to", "overflow"))
        same = xs[0].dtype is dtype
        return Node("a" if same else cast_expression(xs[0].dtype, dtype), args, dtype)
    return None


_CONSTANT = {"f32": "bitcast<f32>(a)", "i32": "bitcast<i32>(a)", "u32": "a"}
# The rounding of a value by storing and loading it in a narrow dtype.
_ROUNDED = {
    "float16": "f16_value(f16_bits({}))",
    "bfloat16": "bf16_value(bf16_bits({}))",
    "float8_e4m3fn": "f8e4m3_value(f8e4m3_bits({}))",
    "float8_e5m2": "f8e5m2_value(f8e5m2_bits({}))",
    "int16": "extractBits({}, 0u, 16u)",
    "uint16": "extractBits({}, 0u, 16u)",
    "int8": "extractBits({}, 0u, 8u)",
    "uint8": "extractBits({}, 0u, 8u)",
    "bool": "u32(({}) != 0u)",
}


def body(chain: Chain, values: Sequence[str], words: Sequence[int]) -> str:
    """WGSL statements that return the chain of `values`; words: where its constants lie."""
    lines = []
    constants = iter(words)
    for k, node in enumerate(chain.nodes):
        names = [values[i] if i >= 0 else f"t{~i}" for i in node.args]
        if node.word is not None:
            names = [f"P({next(constants)}u)"]
        named = dict(zip("abc", names, strict=False))
        text = "".join(named.get(piece, piece) for piece in _NAMES.split(node.text))
        if k + 1 < len(chain.nodes):
            lines.append(f"let t{k} = {_ROUNDED.get(node.dtype.name, '{}').format(text)};")
        else:
            lines.append(f"return {text};")
    return "\n".join(lines)


class Frame(NamedTuple):
    """How a fused kernel addresses its operands, and with which parameters.

    forms: of each input, "=" where it lies row-major, "." where it is one element, "~" where it is
    walked over `dims` dims. strided: the result is walked, too.
    """

    forms: str
    dims: int
    strided: bool

    @property
    def need(self) -> int:
        """Parameters besides those of every map."""
        walked = self.forms.count("~") + self.strided
        return len(self.forms) + (walked * self.dims + self.dims - 1 if walked else 0)

    def numbers(self, words: int) -> tuple[list[int], list[int], list[list[int]], list[int]]:
        """Parameters: where inputs start, sizes, strides of inputs and result, constants."""
        free = iter([n for n in range(2, _LAST + 1) if n != _CODE])

        def take(n: int) -> list[int]:
            return [next(free) for _ in range(n)]

        walked = "~" in self.forms or self.strided
        starts, sizes = take(len(self.forms)), [0, *take(self.dims - 1)] if walked else []
        steps = [take(self.dims) if f == "~" else [] for f in self.forms]
        steps.append(take(self.dims) if self.strided else [])
        return starts, sizes, steps, take(words)


def frame(shape: Shape, layouts: Sequence[Layout]) -> tuple[Frame, Shape, list[Shape]]:
    """The frame for inputs and, last, the result; sizes and strides of the walk."""
    sizes, strides = collapse(shape, [x.strides for x in layouts])
    flat = contiguous_strides(sizes)
    forms = "".join("." if not any(s) else "=" if s == flat else "~" for s in strides[:-1])
    strided = strides[-1] != flat and sizes != (1,)
    return Frame(forms, len(sizes), strided), sizes, strides


def room(chain: Chain, layouts: Sequence[Layout], bindings: int, limit: int) -> bool:
    """Whether one kernel has enough dims, parameters and bindings for it."""
    framed, _, _ = frame(layouts[-1].shape, layouts)
    notes = chain.note is not None
    fits = framed.need + len(chain.words) <= _LAST - 2
    return framed.dims <= MOST_DIMS and fits and bindings + 1 + notes <= limit


def _walk(dims: int, sizes: Sequence[int], steps: dict[str, list[int]]) -> list[str]:
    """WGSL that adds to every place in `steps` what element i asks for."""
    lines = ["var rest = i;"]
    for d in range(dims - 1, 0, -1):
        moves = " ".join(f"{offset_name} += n{d} * P({p[d]}u);" for offset_name, p in steps.items())
        lines.append(f"let r{d} = rest / P({sizes[d]}u); let n{d} = rest - r{d} * P({sizes[d]}u);")
        lines.append(f"rest = r{d}; {moves}")
    return [*lines, *(f"{offset_name} += rest * P({p[0]}u);" for offset_name, p in steps.items())]


@cache
def _kernel(
    chain: Chain, tables: tuple[int, ...], form: Frame, out: DType, in_place: int
) -> Kernel:
    """tables: the binding of each input, of which several may share one; in_place: of the result,
    or -1."""
    lines = []
    for k in dict.fromkeys(tables):
        dtype = chain.inputs[tables.index(k)]
        if k == in_place:
            lines.append(access.in_place_reader(f"x{k}", dtype))
        else:
            lines.append(access.reader(f"x{k}", k, dtype))
    bound = len(set(tables) - {in_place})
    lines.append(access.writer(bound, out))
    starts, sizes, steps, words = form.numbers(len(chain.words))
    code = ["fn element(i: u32) -> out_value {"]
    walked = {}
    for k, kind in enumerate(form.forms):
        if kind == "~":
            code.append(f"var at{k} = P({starts[k]}u);")
            walked[f"at{k}"] = steps[k]
        else:
            code.append(f"let at{k} = {'i + ' if kind == '=' else ''}P({starts[k]}u);")
    if walked:
        code += _walk(form.dims, sizes, walked)
    code += [f"let v{k} = load_x{t}(at{k});" for k, t in enumerate(tables)]
    code.append(body(chain, [f"v{k}" for k in range(len(tables))], words) + "\n}")
    lines.append("\n".join(code))
    if form.strided:
        walk = "\n".join(_walk(form.dims, sizes, {"at": steps[-1]}))
        lines.append(f"fn placed(i: u32) -> u32 {{\nvar at = 0u;\n{walk}\nreturn at;\n}}")
    notes = chain.note is not None
    if notes:
        lines.append(access.status(bound + 1))
    return Kernel(compose("map", *lines), "r" * bound + ("ww" if notes else "w"), "fused")


def fused(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """The op `fused`: attrs["chain"] of the inputs, all of the result's shape."""
    run(e, attrs["chain"], given(*inputs), out)


def run(e: Emitter, chain: Chain, inputs: Sequence[Operand], out: Operand) -> None:
    """Record the chain in pieces that can be bound; an input may lie in the result's memory."""
    apart = any(
        x.buffer is out.buffer and (x.layout != out.layout or x.dtype is not out.dtype)
        for x in inputs
    )
    if apart or not (access.per_word(out.dtype) == 1 or whole_words(out)):
        temporary = e.temporary(out.layout.shape, out.dtype)
        _run(e, chain, inputs, temporary)
        place(e, temporary, out)
    else:
        _run(e, chain, inputs, out)


def _run(e: Emitter, chain: Chain, inputs: Sequence[Operand], out: Operand) -> None:
    per = access.per_word(out.dtype)
    for shape, layouts in pieces(e, [*inputs, out]):
        target = layouts[-1]
        if target is not out.layout and (target.offset % per or target.numel % per):
            temporary = e.temporary(shape, out.dtype)  # the piece shares words with its neighbours
            _emit(e, chain, inputs, temporary, shape, [*layouts[:-1], temporary.layout])
            scatter_narrow(e, temporary, TensorView(out.buffer, target, out.dtype))
        else:
            _emit(e, chain, inputs, out, shape, layouts)


def _emit(
    e: Emitter,
    chain: Chain,
    inputs: Sequence[Operand],
    out: Operand,
    shape: Shape,
    layouts: Sequence[Layout],
) -> None:
    form, sizes, strides = frame(shape, layouts)
    starts, at_sizes, at_steps, words = form.numbers(len(chain.words))
    parameters = [0] * (_LAST + 1)
    bindings: list[Slice] = []
    known: dict[tuple[Slice, DType], int] = {}
    tables, in_place = [], -1
    for k, (x, layout) in enumerate(zip(inputs, layouts[:-1], strict=True)):
        bound, parameters[starts[k]] = e.bind(x, layout)
        if x.buffer is out.buffer:
            in_place = len(inputs)
            tables.append(in_place)
            continue
        if (bound, x.dtype) not in known:
            known[bound, x.dtype] = len(bindings)
            bindings.append(bound)
        tables.append(known[bound, x.dtype])
    bound, parameters[1] = e.bind(out, layouts[-1])
    bindings.append(bound)
    parameters[0] = count = layouts[-1].numel
    for parameter, n in zip(at_sizes[1:], sizes[1:], strict=False):
        parameters[parameter] = n
    for ats, row in zip(at_steps, strides, strict=True):
        for parameter, n in zip(ats, row, strict=False):
            parameters[parameter] = word(n)
    for parameter, n in zip(words, chain.words, strict=True):
        parameters[parameter] = n
    if chain.note is not None:
        parameters[_CODE] = e.status.code(*chain.note)
        bindings.append(e.status.slice())
    # Constants are parameters, so chains that differ only in constants share a kernel.
    plain = tuple(n._replace(word=None if n.word is None else 0) for n in chain.nodes)
    kernel = _kernel(chain._replace(nodes=plain), tuple(tables), form, out.dtype, in_place)
    groups = -(-count // access.per_word(out.dtype) // 64)
    e.dispatch(kernel, bindings, parameters, grid(groups))


LOWERINGS = {"fused": fused}
IN_PLACE = frozenset({"fused"})
