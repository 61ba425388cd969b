"""Steps of quantized graphs joined to steps in integers, before the plan is pruned.

MatMulInteger, its Cast and Mul by a scale, and an Add of a bias become one product with a float
result. DequantizeLinear before and QuantizeLinear after a Conv, MatMul or Gemm become a convolution
or product of the quantized tensors: weights are not made floats in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.onnx.element_types import FLOAT, INT8, UINT8, ElementType
from rushlight.core.onnx.operators.quantized import (
    dequantized_product,
    quantized_conv,
    scaled_product,
)
from rushlight.core.onnx.registry import Operator

_BYTES = (INT8, UINT8)
Shape = tuple[int, ...]


def _fused(run: Callable[..., Any]) -> Operator:
    return Operator(run, (lambda place: False), frozenset(), False, False, False)


SCALED, PRODUCT, CONV = (
    _fused(run) for run in (scaled_product, dequantized_product, quantized_conv)
)


@dataclass(frozen=True)
class _Quantized:
    """What DequantizeLinear reads: places of elements, scale and zero point, and its dim."""

    x: Any
    scale: Any
    zero: Any
    kinds: list[ElementType | None]
    axis: int


class _Rewriting:
    """The steps of a plan, where each slot is made, and which steps read it.

    slot_of: the slot of a place, None for what is no slot. kept: slots that leave the steps.
    """

    def __init__(
        self,
        steps: list[Any],
        kept: Collection[int],
        slot_of: Callable[[Any], int | None],
        shape_of: Callable[[Any], Shape],
    ) -> None:
        self.steps, self.kept, self.slot_of, self.shape_of = steps, kept, slot_of, shape_of
        self.maker: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.gone: set[int] = set()
        for number, step in enumerate(steps):
            for place in step.inputs:
                slot = slot_of(place)
                if slot is not None:
                    self.readers.setdefault(slot, []).append(number)
            for slot in step.outputs:
                if slot is not None:
                    self.maker[slot] = number

    def op(self, number: int | None) -> str:
        """The name of a step's operator in ai.onnx; "" for others, and for what is joined."""
        if number is None or number in self.gone:
            return ""
        node = self.steps[number].call.node
        return (
            "" if node.domain or self.steps[number].operator in (SCALED, PRODUCT, CONV) else node.op
        )

    def reader(self, number: int, *names: str) -> int | None:
        """The step that alone reads the result of another, if it is an operator of `names`."""
        slot = self.steps[number].outputs[0]
        readers = self.readers.get(slot, [])
        if slot in self.kept or len(readers) != 1 or self.op(readers[0]) not in names:
            return None
        return readers[0]

    def other(self, number: int, read: int) -> tuple[Any, ElementType | None]:
        """The input of a step of two that is not the result of step `read`, with its type."""
        step, slot = self.steps[number], self.steps[read].outputs[0]
        place = 1 if self.slot_of(step.inputs[0]) == slot else 0
        return step.inputs[place], step.kinds[place]

    def along_columns(self, place: Any, width: int) -> bool:
        """Whether a value is one number or one of each column."""
        shape = self.shape_of(place)
        return shape in ((), (1,), (width,))

    def replace(
        self, numbers: list[int], operator: Operator, inputs: list[Any], kinds: Any
    ) -> None:
        """Put one step in place of the last of `numbers`, with the first one's attributes."""
        last = self.steps[numbers[-1]]
        first = self.steps[numbers[0]]
        self.gone |= set(numbers[:-1])
        self.steps[numbers[-1]] = type(last)(
            operator, first.call, inputs, last.outputs, list(kinds), last.shapes
        )

    # MatMulInteger and what makes floats of its sums.

    def scaled(self, number: int) -> None:
        """Join a MatMulInteger with its Cast, its Mul and, where there is one, its Add."""
        step = self.steps[number]
        cast = self.reader(number, "Cast")
        times = None if cast is None else self.reader(cast, "Mul")
        if cast is None or times is None or self.steps[cast].call.attributes["to"].value != 1:
            return
        shape = self.shape_of_result(number)
        scale, kind = self.other(times, cast)
        if kind is not FLOAT or not shape or self.shape_of_result(times) != shape:
            return
        if not self.along_columns(scale, shape[-1]):
            return
        numbers, bias = [number, cast, times], None
        plus = self.reader(times, "Add")
        if plus is not None:
            bias, kind = self.other(plus, times)
            fits = kind is FLOAT and self.shape_of(bias) == shape[-1:]
            if fits and self.shape_of_result(plus) == shape:
                numbers.append(plus)
            else:
                bias = None
        given = [*step.inputs, None, None][:4]
        kinds = [*step.kinds, None, None][:4]
        self.replace(numbers, SCALED, [*given, scale, bias], [*kinds, FLOAT, FLOAT])

    def shape_of_result(self, number: int) -> Shape:
        """The sizes of a step's first result."""
        return tuple(self.steps[number].shapes[0] or ())

    # DequantizeLinear and QuantizeLinear.

    def read(self, place: Any) -> _Quantized | None:
        """The tensor of bytes that a place is made of by DequantizeLinear to float32."""
        slot = self.slot_of(place)
        number = None if slot is None else self.maker.get(slot)
        if number is None or self.op(number) != "DequantizeLinear":
            return None
        step = self.steps[number]
        attributes = step.call.attributes
        if step.kinds[0] not in _BYTES or step.kinds[1] is not FLOAT or step.kinds[0] is None:
            return None
        if any(n in attributes and attributes[n].value for n in ("block_size", "output_dtype")):
            return None
        axis = attributes["axis"].value if "axis" in attributes else 1
        x, scale, zero = [*step.inputs, None][:3]
        return _Quantized(x, scale, zero, list(step.kinds), axis)

    def one(self, place: Any) -> bool:
        """Whether a place holds one number, or nothing."""
        return place is None or self.shape_of(place) in ((), (1,))

    def along(self, q: _Quantized, dim: int) -> bool:
        """Whether a tensor has one scale and zero point, or those of each place along a dim."""
        if self.one(q.scale) and self.one(q.zero):
            return True
        shape = self.shape_of(q.x)
        each = (shape[dim],)
        scales = self.shape_of(q.scale) == each and q.axis % len(shape) == dim
        return scales and (q.zero is None or self.shape_of(q.zero) == each)

    def written(self, number: int) -> tuple[int, Any, Any, ElementType] | None:
        """The step that alone quantizes a result again, by one scale and a zero point."""
        after = self.reader(number, "QuantizeLinear")
        if after is None:
            return None
        step = self.steps[after]
        if len(step.inputs) < 3 or step.inputs[2] is None or step.kinds[2] not in _BYTES:
            return None
        if step.kinds[1] is not FLOAT or not (
            self.one(step.inputs[1]) and self.one(step.inputs[2])
        ):
            return None
        if any(n in step.call.attributes for n in ("precision", "block_size", "output_dtype")):
            return None
        return after, step.inputs[1], step.inputs[2], step.kinds[2]

    def conv(self, number: int) -> None:
        """Join a Conv with what makes its operands floats and its result bytes."""
        step = self.steps[number]
        x, w, end = self.read(step.inputs[0]), self.read(step.inputs[1]), self.written(number)
        if x is None or w is None or end is None or not (self.one(x.scale) and self.one(x.zero)):
            return
        bias = step.inputs[2] if len(step.inputs) > 2 else None
        if not self.along(w, 0) or (bias is not None and step.kinds[2] is not FLOAT):
            return
        after, scale, zero, kind = end
        inputs = [x.x, x.scale, x.zero, w.x, w.scale, w.zero, bias, scale, zero]
        kinds = [*_kinds(x), *_kinds(w), FLOAT, FLOAT, kind]
        self.replace([number, after], CONV, inputs, kinds)

    def product(self, number: int) -> None:
        """Join a MatMul or Gemm with what makes its operands floats and its result bytes."""
        step = self.steps[number]
        a, b = self.read(step.inputs[0]), self.read(step.inputs[1])
        if a is None or b is None or not (self.one(a.scale) and self.one(a.zero)):
            return
        attributes, rank = step.call.attributes, len(self.shape_of(b.x))
        if rank < 2 or len(self.shape_of(a.x)) < 2:
            return
        given = {n: attributes[n].value for n in ("alpha", "beta", "transA") if n in attributes}
        if given.get("alpha", 1) != 1 or given.get("beta", 1) != 1 or given.get("transA"):
            return
        turned = bool("transB" in attributes and attributes["transB"].value)
        if not self.along(b, rank - 2 if turned else rank - 1):
            return
        bias = step.inputs[2] if len(step.inputs) > 2 else None
        width = self.shape_of_result(number)[-1:]
        if bias is not None and (self.shape_of(bias) != width or step.kinds[2] is not FLOAT):
            return
        numbers = [number]
        end = self.written(number)
        after, scale, zero, kind = end or (None, None, None, None)
        if after is not None:
            numbers.append(after)
        inputs = [a.x, a.scale, a.zero, b.x, b.scale, b.zero, bias, scale, zero]
        kinds = [*_kinds(a), *_kinds(b), FLOAT, FLOAT, kind]
        self.replace(numbers, PRODUCT, inputs, kinds)


def _kinds(q: _Quantized) -> list[ElementType | None]:
    return [*q.kinds, None][:3]


def join_integers(
    steps: list[Any],
    kept: Collection[int],
    slot_of: Callable[[Any], int | None],
    shape_of: Callable[[Any], Shape],
) -> list[Any]:
    """The steps with those of quantized operators joined; what nothing reads any more is left.

    kept: slots that leave the steps. slot_of: the slot of a place, or None. shape_of: its sizes.
    """
    rewriting = _Rewriting(steps, kept, slot_of, shape_of)
    joins = {
        "MatMulInteger": rewriting.scaled,
        "Conv": rewriting.conv,
        "MatMul": rewriting.product,
        "Gemm": rewriting.product,
    }
    for number in range(len(steps)):
        join = joins.get(rewriting.op(number))
        if join is not None:
            join(number)
    return [step for i, step in enumerate(steps) if i not in rewriting.gone]
