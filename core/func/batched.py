"""Batched: a tensor of a running vmap, one sample to the function, all samples in memory.

Its layout is that of a sample. `value` holds all samples along dim 0, or, if `whole` is false, what
is the same for every sample. An op takes the operands' values apart at the innermost level among
them and runs once for all samples (rules.py). What it makes is recorded for gradients of the level
itself, by samples; the op on the values is recorded for those around the vmap.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rushlight.core.backends import Device
from rushlight.core.basis import levels
from rushlight.core.basis.layout import Layout
from rushlight.core.basis.levels import Level
from rushlight.core.func.rules import REWRITTEN, prepared, wide
from rushlight.core.functional.joining import stack
from rushlight.core.tensor import autograd
from rushlight.core.tensor.op import Op
from rushlight.core.tensor.tensor import TRANSFER, Tensor

Inputs = Sequence[Tensor | None]
Attrs = Mapping[str, Any]


class Batched(Tensor):
    """A tensor of a vmap; see above."""

    __slots__ = ("_held", "level", "owner", "value", "whole")

    def __init__(self, value: Tensor, owner: Level, whole: bool = True) -> None:
        self.value, self.owner, self.whole, self.level = value, owner, whole, owner.number
        at = value.layout
        layout = Layout(at.shape[1:], at.strides[1:], at.offset) if whole else at
        super().__init__(value.storage, value.dtype, layout)

    @property
    def storage(self) -> Any:
        """The memory of all samples."""
        if not self.owner.alive:
            raise RuntimeError(
                "vmap: a tensor of a vmap that has ended is used; return it from the function"
            )
        return self._held

    @storage.setter
    def storage(self, value: Any) -> None:
        self._held = value

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
            return Batched(self.value, self.owner, self.whole)
        if self.value.requires_grad:
            raise RuntimeError("vmap: a write through this view is not differentiated; use the "
                               "out-of-place op")  # fmt: skip
        if self.whole:
            at = self.value.layout
            layout = Layout((at.shape[0], *layout.shape), (at.strides[0], *layout.strides),
                            layout.offset)  # fmt: skip
        return Batched(self.value.alias(layout), self.owner, self.whole)

    def detach(self) -> Tensor:
        """A tensor of the same memory without history; no gradient flows through it."""
        return Batched(self.value.detach(), self.owner, self.whole)

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
        what = "all samples" if self.whole else "the same for every sample"
        return f"Batched(level {self.level}, {what}: {self.value!r})"


def _apart(inputs: Inputs) -> tuple[Level, list[Tensor | None], list[bool]]:
    """The innermost level among the inputs, their values there, and which of them hold samples."""
    number = max(t.level for t in inputs if t is not None)
    level: Level | None = None
    values: list[Tensor | None] = []
    whole = []
    for t in inputs:
        mine = isinstance(t, Batched) and t.level == number
        if mine:
            assert isinstance(t, Batched)
            assert t.storage is not None  # raises where the vmap has ended
            level = t.owner
        values.append(t.value if isinstance(t, Batched) and mine else t)
        whole.append(isinstance(t, Batched) and mine and t.whole)
    assert level is not None
    return level, values, whole


def _run(op: Op, inputs: Inputs, attrs: Attrs) -> Tensor:
    level, values, whole = _apart(inputs)
    if not any(whole):
        made = op(*values, **attrs)
    elif prepare := prepared(op):
        values, attrs_there = prepare(level.size, values, whole, dict(attrs))
        made = op(*values, **attrs_there)
    else:
        rule = REWRITTEN.get(op.name)
        made = rule(level.size, values, whole, **attrs) if rule else NotImplemented
        if made is NotImplemented:
            made = _each(op, level.size, values, whole, attrs)
    out = Batched(made, level, any(whole))
    first = inputs[0]
    if op.view and first is not None:
        out.follow(first, op, attrs)
    if autograd.is_grad_enabled():
        op.record(out, inputs, attrs)
    return out


def _each(op: Op, size: int, values: Inputs, whole: Sequence[bool], attrs: Attrs) -> Tensor:
    """The op sample by sample: it has no rule."""
    warnings.warn(
        f"vmap: {op.name} has no rule for batches, so it runs once for each of {size} samples",
        stacklevel=2,
    )
    rows = []
    for i in range(size):
        row = [v[i] if v is not None and w else v for v, w in zip(values, whole, strict=True)]
        rows.append(op(*row, **attrs))
    if not rows:
        raise RuntimeError(f"vmap: {op.name} has no rule for batches and there are no samples")
    return stack(rows)


def _write(op: Op, inputs: Inputs, attrs: Attrs) -> None:
    level, values, whole = _apart(inputs)
    there: Attrs = attrs
    if any(whole):
        if not whole[0]:
            raise RuntimeError(
                f"vmap: {op.name}_ writes values that differ by sample to a tensor that is the "
                "same for every sample; use the out-of-place op, or x.new_zeros(...) of a tensor "
                "that differs by sample"
            )
        prepare = prepared(op)
        if prepare is None:
            raise RuntimeError(f"vmap: {op.name}_ has no rule for batches")
        values, there = prepare(level.size, values, whole, dict(attrs))
    target = values[0]
    assert target is not None
    op.inplace(target, *values[1:], **there)


def _move(x: Tensor, device: Device) -> Tensor:
    assert isinstance(x, Batched)
    out = Batched(x.value.to(device), x.owner, x.whole)
    if autograd.is_grad_enabled():
        TRANSFER.record(out, (x,), {"source": x.device})
    return out


def _like(x: Tensor, make: Any, shape: tuple[int, ...]) -> Tensor:
    assert isinstance(x, Batched)
    if not x.whole:
        return levels.like(x.value, make, shape)
    return Batched(levels.like(x.value, make, (x.owner.size, *shape)), x.owner)


def lifted(x: Tensor) -> Tensor:
    """`x` as a tensor of the innermost vmap, so that gradients by it stay within; else an alias."""
    level = levels.innermost()
    if level is None or x.level == level.number:
        return x.alias(x.layout)
    return Batched(x, level, whole=False)


def spread(x: Tensor, level: Level) -> Tensor:
    """All samples of a result along dim 0."""
    if isinstance(x, Batched) and x.level == level.number:
        return x.value if x.whole else wide(x.value, False, level.size)
    return wide(x, False, level.size)


levels.handlers.run, levels.handlers.write = _run, _write
levels.handlers.wrap, levels.handlers.move, levels.handlers.like = Batched, _move, _like
