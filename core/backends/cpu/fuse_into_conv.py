"""The pass "fuse" on cpu: elementwise steps join the convolution whose result they begin with.

Each value is computed by the functions that compute it alone, so results are the same bits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.graph import GraphOperand, Slot, Step

_MOST_STEPS, _MOST_OPERANDS = 16, 8  # the kernel's
TailStep = tuple[str, int, int]
_REACH = 64  # how far behind a convolution its tail's steps may be


def fuse_into_conv(steps: Sequence[Step], keep: Collection[Slot]) -> list[Step]:
    """`steps` with convolutions that go on with elementwise ops, in place of the last of them."""
    if simd.library is None or "conv2d_tail" not in simd.library.numbers:
        return list(steps)
    fuser = _Fuser(steps, keep)
    for i, step in enumerate(steps):
        if step.name == "conv2d" and fuser.plain(i):
            fuser.grow(i)
    return fuser.remaining()


class _Fuser:
    def __init__(self, steps: Sequence[Step], keep: Collection[Slot]) -> None:
        self.steps, self.keep = steps, keep
        self.readers: dict[Slot, set[int]] = {}
        self.writes: dict[Slot, int] = {}
        for i, step in enumerate(steps):
            for x in step.inputs:
                if x is not None:
                    self.readers.setdefault(x.storage, set()).add(i)
            self.writes[step.out.storage] = self.writes.get(step.out.storage, 0) + 1
        self.gone: set[int] = set()
        self.joined: dict[int, Step] = {}

    def plain(self, i: int) -> bool:
        """Whether step i writes new float32 memory, once."""
        out = self.steps[i].out
        once = out.storage.kind == "temp" and self.writes[out.storage] == 1
        plain = out.dtype is float32 and out.layout.is_contiguous
        return once and plain and 0 not in out.layout.shape

    def grow(self, root: int) -> None:
        """Join the longest run of steps that ends in one value."""
        first = self.steps[root]
        values = {first.out.storage: -1}  # ~value, by its slot
        members, operands = [root], list[GraphOperand]()
        chain, best = list[TailStep](), (0, 0, 0)
        for i in range(root + 1, min(len(self.steps), root + _REACH)):
            step = self.steps[i]
            if i in self.gone:
                continue
            continues = any(x is not None and x.storage in values for x in step.inputs)
            tail = (
                self._as_tail(step, values, operands, first)
                if continues and self.plain(i)
                else None
            )
            if tail is not None and len(chain) + len(tail) <= _MOST_STEPS:
                for name, left, right in tail:
                    chain.append((name, ~len(chain) if left is None else left, right))
                members.append(i)
                values[step.out.storage] = ~len(chain)
                mine_only = {*members}
                outside = [
                    s for s in values if s in self.keep or self.readers.get(s, set()) - mine_only
                ]
                if outside == [step.out.storage]:
                    best = len(chain), len(operands), len(members)
                if len(chain) == _MOST_STEPS:
                    break
            elif step.draw or step.out.storage.kind != "temp" or self.writes[step.out.storage] > 1:
                break  # what is read may change here
        count, used, many = best
        if not count:
            return
        last = members[many - 1]
        joined = first._replace(
            inputs=(*first.inputs, *operands[:used]),
            out=self.steps[last].out,
            attrs={**first.attrs, "tail": tuple(chain[:count])},
        )
        if lowering.record(joined.name, joined.inputs, joined.out, joined.attrs) is None:
            return
        self.gone |= {*members[:many]}
        self.joined[last] = joined

    def _as_tail(
        self, step: Step, values: dict[Slot, int], operands: list[GraphOperand], first: Step
    ) -> list[tuple[str, int | None, int]] | None:
        """A step as steps of a tail: names, and two operands or ~values; new operands are added.

        A clamp is two; None is the value of the step before.
        """
        assert simd.library is not None
        layout = first.out.layout
        if "f" not in simd.library.kinds.get(step.name, "") or step.out.layout != layout:
            return None
        places, more = [], list(operands)
        for x in step.inputs:
            if x is None or x.dtype is not float32:
                return None
            if x.storage in values:
                if x.layout != layout:
                    return None
                places.append(values[x.storage])
                continue
            _, _, high, wide = x.layout.shape
            _, _, down, across = x.layout.strides
            if high > 1 and wide > 1 and down != wide * across:
                return None
            same = (
                n for n, y in enumerate(more) if y.storage is x.storage and y.layout == x.layout
            )
            if (n := next(same, len(more))) == len(more):
                more.append(x)
            places.append(n)
        if len(more) > _MOST_OPERANDS:
            return None
        operands[:] = more
        if step.name == "clamp":
            return [("maximum", places[0], places[1]), ("minimum", None, places[2])]
        return [(step.name, places[0], places[-1])]

    def remaining(self) -> list[Step]:
        """The steps that are left."""
        numbered = ((i, self.joined.get(i, s)) for i, s in enumerate(self.steps))
        return [step for i, step in numbered if i in self.joined or i not in self.gone]
