"""Batched: a tensor of a running vmap, one sample to the function, all samples in memory.

Its layout is that of a sample. `value` holds all samples along dim 0, or, if `per_sample` is false,
what is the same for every sample. An op takes the operands' values apart at the innermost vmap
among them and runs once for all samples (rules.py). What it makes is recorded for gradients of the
vmap itself, by samples; the op on the values is recorded for those around it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rushlight.core.backends import Device
from rushlight.core.basis.layout import Layout
from rushlight.core.func.rules import REWRITTEN, prepared, wide
from rushlight.core.functional.joining import stack
from rushlight.core.tensor import autograd, interpreter_stack
from rushlight.core.tensor.interpreter_stack import Interpreter, handlers
from rushlight.core.tensor.op import Op
from rushlight.core.tensor.tensor import TRANSFER, Tensor

Inputs = Sequence[Tensor | None]
Attrs = Mapping[str, Any]


class Batched(Tensor):
    """A tensor of a vmap; see above."""

    __slots__ = ("_storage", "level", "owner", "value", "per_sample")

    def __init__(self, value: Tensor, owner: Interpreter, per_sample: bool = True) -> None:
        self.value, self.owner, self.per_sample, self.level = value, owner, per_sample, owner.number
        stored = value.layout
        layout = stored
        if per_sample:
            layout = Layout(stored.shape[1:], stored.strides[1:], stored.offset)
        super().__init__(value.storage, value.dtype, layout)

    @property
    def storage(self) -> Any:
        """The memory of all samples."""
        if not self.owner.alive:
            raise RuntimeError(
                "vmap: a tensor of a vmap that has ended is used; return it from the function"
            )
        return self._storage

    @storage.setter
    def storage(self, value: Any) -> None:
        self._storage = value

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is computed for this tensor, within vmap or around it."""
        return self.needs_grad or self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def alias(self, layout: Layout) -> Tensor:
        """A tensor over the same memory, without the history within vmap."""
        if layout == self.layout:
            return Batched(self.value, self.owner, self.per_sample)
        if self.value.requires_grad:
            raise RuntimeError("vmap: a write through this view is not differentiated; use the "
                               "out-of-place op")  # fmt: skip
        if self.per_sample:
            stored = self.value.layout
            layout = Layout((stored.shape[0], *layout.shape), (stored.strides[0], *layout.strides),
                            layout.offset)  # fmt: skip
        return Batched(self.value.alias(layout), self.owner, self.per_sample)

    def detach(self) -> Tensor:
        """A tensor of the same memory without history; no gradient flows through it."""
        return Batched(self.value.detach(), self.owner, self.per_sample)

    def set_(self, source: Tensor) -> Tensor:
        """Refused: the memory belongs to all samples."""
        raise RuntimeError("vmap: a tensor of a vmap cannot be set to other memory")

    def _unread(self) -> NoReturn:
        raise RuntimeError(
            "vmap: the values of a tensor differ by sample and cannot be read; control flow that "
            "depends on values, item, numpy, nonzero and masks as indices are not supported; "
            "rl.where chooses by values"
        )

    def stored(self) -> Any:
        """Refused."""
        self._unread()

    async def _stored_async(self) -> Any:
        self._unread()

    def readback(self) -> Any:
        """Refused."""
        self._unread()

    def __copy__(self) -> Tensor:
        return self.detach()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        self._unread()

    def __repr__(self) -> str:
        what = "all samples" if self.per_sample else "the same for every sample"
        return f"Batched(level {self.level}, {what}: {self.value!r})"


def _apart(inputs: Inputs) -> tuple[Interpreter, list[Tensor | None], list[bool]]:
    """The innermost vmap among the inputs, their values there, and which of them hold samples."""
    number = max(t.level for t in inputs if t is not None)
    owner: Interpreter | None = None
    values: list[Tensor | None] = []
    per_sample = []
    for t in inputs:
        of_this_vmap = isinstance(t, Batched) and t.level == number
        if of_this_vmap:
            assert isinstance(t, Batched)
            assert t.storage is not None  # raises where the vmap has ended
            owner = t.owner
        values.append(t.value if isinstance(t, Batched) and of_this_vmap else t)
        per_sample.append(isinstance(t, Batched) and of_this_vmap and t.per_sample)
    assert owner is not None
    return owner, values, per_sample


def _run(op: Op, inputs: Inputs, attrs: Attrs) -> Tensor:
    owner, values, per_sample = _apart(inputs)
    if not any(per_sample):
        result = op(*values, **attrs)
    elif prepare := prepared(op):
        values, attrs_there = prepare(owner.size, values, per_sample, dict(attrs))
        result = op(*values, **attrs_there)
    else:
        rule = REWRITTEN.get(op.name)
        result = rule(owner.size, values, per_sample, **attrs) if rule else NotImplemented
        if result is NotImplemented:
            result = _each(op, owner.size, values, per_sample, attrs)
    out = Batched(result, owner, any(per_sample))
    first = inputs[0]
    if op.view and first is not None:
        out.follow(first, op, attrs)
    if autograd.is_grad_enabled():
        op.record(out, inputs, attrs)
    return out


def _each(op: Op, size: int, values: Inputs, per_sample: Sequence[bool], attrs: Attrs) -> Tensor:
    """The op sample by sample: it has no rule."""
    warnings.warn(
        f"vmap: {op.name} has no rule for batches, so it runs once for each of {size} samples",
        stacklevel=2,
    )
    rows = []
    for i in range(size):
        row = [v[i] if v is not None and w else v for v, w in zip(values, per_sample, strict=True)]
        rows.append(op(*row, **attrs))
    if not rows:
        raise RuntimeError(f"vmap: {op.name} has no rule for batches and there are no samples")
    return stack(rows)


def _write(op: Op, inputs: Inputs, attrs: Attrs) -> None:
    owner, values, per_sample = _apart(inputs)
    value_attrs: Attrs = attrs
    if any(per_sample):
        if not per_sample[0]:
            raise RuntimeError(
                f"vmap: {op.name}_ writes values that differ by sample to a tensor that is the "
                "same for every sample; use the out-of-place op, or x.new_zeros(...) of a tensor "
                "that differs by sample"
            )
        prepare = prepared(op)
        if prepare is None:
            raise RuntimeError(f"vmap: {op.name}_ has no rule for batches")
        values, value_attrs = prepare(owner.size, values, per_sample, dict(attrs))
    target = values[0]
    assert target is not None
    op.inplace(target, *values[1:], **value_attrs)


def _move(x: Tensor, device: Device) -> Tensor:
    assert isinstance(x, Batched)
    out = Batched(x.value.to(device), x.owner, x.per_sample)
    if autograd.is_grad_enabled():
        TRANSFER.record(out, (x,), {"source": x.device})
    return out


def _new_like(x: Tensor, make: Any, shape: tuple[int, ...]) -> Tensor:
    assert isinstance(x, Batched)
    if not x.per_sample:
        return interpreter_stack.new_like(x.value, make, shape)
    return Batched(interpreter_stack.new_like(x.value, make, (x.owner.size, *shape)), x.owner)


def lifted(x: Tensor) -> Tensor:
    """`x` as a tensor of the innermost vmap, so that gradients by it stay within; else an alias."""
    innermost = interpreter_stack.innermost()
    if innermost is None or x.level == innermost.number:
        return x.alias(x.layout)
    return Batched(x, innermost, per_sample=False)


def spread(x: Tensor, owner: Interpreter) -> Tensor:
    """All samples of a result along dim 0."""
    if isinstance(x, Batched) and x.level == owner.number:
        return x.value if x.per_sample else wide(x.value, False, owner.size)
    return wide(x, False, owner.size)


handlers.run, handlers.write, handlers.wrap = _run, _write, Batched
handlers.move, handlers.new_like = _move, _new_like
