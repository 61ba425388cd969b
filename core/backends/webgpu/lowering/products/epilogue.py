"""Elementwise chains at the end of a kernel: applied to a result before it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access, quads
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, view
from rushlight.core.backends.webgpu.lowering.fused import Chain, body, run
from rushlight.core.backends.webgpu.runtime.recorder import Slice
from rushlight.core.basis.layout import Layout

# The ops whose kernels may end in a chain: its first input is what they would have stored. Their
# lowerings take the chain as attrs["epilogue"], its other inputs behind their own.
EPILOGUES = frozenset({"linear", "linear_t", "matmul", "rms_norm", "layer_norm"})
# Other inputs and constants that a chain may have there.
MOST = 8


class Tail(NamedTuple):
    """A chain and its inputs except the first."""

    chain: Chain
    others: tuple[Operand, ...]

    @property
    def key(self) -> tuple[Chain, str]:
        """The values that its WGSL depends on."""
        plain = tuple(n._replace(word=None if n.word is None else 0) for n in self.chain.nodes)
        forms = "".join(_form(x.layout) for x in self.others)
        return self.chain._replace(nodes=plain), forms

    def bind(
        self, e: Emitter, start: int, numbers: Sequence[int]
    ) -> tuple[list[Slice], Mapping[int, int]]:
        """Bindings, and parameters; start: where the result begins in its binding."""
        bindings, parameters = [], {}
        free = iter(numbers)
        for x in self.others:
            bound, offset = e.bind(x)
            bindings.append(bound)
            same = _form(x.layout) == "="
            parameters[next(free)] = (offset - start if same else offset) & 0xFFFFFFFF
        parameters.update(zip(free, self.chain.words, strict=False))
        return bindings, parameters


def split(inputs: Inputs, attrs: Attrs) -> tuple[Inputs, Tail | None]:
    """The inputs of an op itself, and its epilogue if it has one."""
    if "epilogue" not in attrs:
        return inputs, None
    first_other = len(inputs) - attrs["others"]
    others = tuple(x for x in inputs[first_other:] if x is not None)
    return inputs[:first_other], Tail(attrs["epilogue"], others)


def afterwards(e: Emitter, tail: Tail, result: Operand, out: Operand) -> None:
    """The chain as a separate dispatch; made: the op's stored result, row-major."""
    result = view(result, Layout.contiguous(out.layout.shape))
    chain = tail.chain._replace(inputs=(result.dtype, *tail.chain.inputs[1:]))
    run(e, chain, [result, *tail.others], out)


def _form(layout: Layout) -> str:
    """How an input follows the result: "=" element by element, "|" by the last dim, "." not at
    all; "" otherwise."""
    steps = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1]
    if not any(s for _, s in steps):
        return "."
    if layout.is_contiguous:
        return "="
    along = layout.shape[-1] > 1 and layout.strides[-1] == 1
    return "|" if along and not any(s for _, s in steps[:-1]) else ""


def follows(layout: Layout) -> bool:
    """Whether an epilogue can read an input of this layout, expanded to the result's shape."""
    return _form(layout) != ""


def bindings(inputs: Inputs) -> int:
    """Bindings of an op and its result."""
    return 1 + sum(quads.bindings_of(x.dtype) for x in inputs if x is not None)


def lines(key: tuple[Chain, str], binding: int, numbers: Sequence[int]) -> list[str]:
    """WGSL of finished(v, at, column): the chain of an element that is stored at `at`.

    Inputs are bound from `binding` on; numbers: the parameters given to `Tail.bind`.
    """
    chain, forms = key
    readers = [access.reader(f"e{k}", binding + k, d) for k, d in enumerate(chain.inputs[1:])]
    places = {"=": "at + ", "|": "column + ", ".": ""}
    loads = [f"let v{k} = load_e{k}({places[f]}P({numbers[k]}u));" for k, f in enumerate(forms)]
    values = ["v", *(f"v{k}" for k in range(len(forms)))]
    code = body(chain, values, numbers[len(forms) :])
    head = "fn finished(v: f32, at: u32, column: u32) -> f32 {"
    return [*readers, "\n".join([head, *loads, code]) + "\n}"]
