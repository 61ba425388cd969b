"""The pass "fuse" on cpu: elementwise steps whose values only they read become one step.

Each value is computed by the function that computes it alone, so results are the same bits; the
values on the way stay in the cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rushlight.core.backends.cpu import simd
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.graph import GraphOperand, Slot, Step

_MOST_STEPS, _MOST_OPERANDS = 16, 11  # the kernel's


def fuse_elementwise(steps: Sequence[Step], keep: Collection[Slot]) -> list[Step]:
    """`steps` with chains, each in place of the last of its steps."""
    if simd.library is None or "chain" not in simd.library.numbers:
        return list(steps)
    chains = _Chains(steps, keep)
    for i in reversed(range(len(steps))):
        if i not in chains.gone and chains.fits(i):
            chains.grow(i)
    return [chains.joined.get(i, s) for i, s in enumerate(steps) if i not in chains.gone]


class _Chains:
    def __init__(self, steps: Sequence[Step], keep: Collection[Slot]) -> None:
        self.steps, self.keep = steps, keep
        self.readers: dict[Slot, set[int]] = {}
        self.writers: dict[Slot, list[int]] = {}
        for i, step in enumerate(steps):
            for x in step.inputs:
                if x is not None:
                    self.readers.setdefault(x.storage, set()).add(i)
            self.writers.setdefault(step.out.storage, []).append(i)
        self.gone: set[int] = set()
        self.joined: dict[int, Step] = {}

    def fits(self, i: int) -> bool:
        """Whether step i computes new float32 memory from float32 by a function of elements."""
        step, library = self.steps[i], simd.library
        assert library is not None
        if "f" not in library.kinds.get(step.name, "") or step.draw or step.attrs:
            return False
        out = step.out
        once = out.storage.kind == "temp" and len(self.writers[out.storage]) == 1
        plain = out.layout.is_contiguous and not out.layout.offset and 0 not in out.layout.shape
        return (
            once
            and plain
            and all(x is not None and x.dtype is float32 for x in (*step.inputs, out))
        )

    def grow(self, sink: int) -> None:
        """Join what step `sink` reads, as long as nothing else reads it."""
        members, best, grew = {sink}, None, True
        while grew:
            grew = False
            for x in [x for m in sorted(members, reverse=True) for x in self.steps[m].inputs]:
                assert x is not None
                writers = self.writers.get(x.storage, ())
                maker = writers[0] if len(writers) == 1 else sink
                if maker >= sink or maker in members or not self._may_join(maker, sink, members):
                    continue
                if (joined := self._joined({*members, maker})) is not None:
                    members, best, grew = {*members, maker}, joined, True
        if best is not None:
            self.gone |= members - {sink}
            self.joined[sink] = best

    def _may_join(self, maker: int, sink: int, members: Collection[int]) -> bool:
        """Whether step `maker` may run where step `sink` is, and only `members` read its result."""
        slot = self.steps[maker].out.storage
        if maker in self.gone or maker in self.joined or slot in self.keep or not self.fits(maker):
            return False
        count = self.steps[sink].out.layout.numel
        if self.steps[maker].out.layout.numel != count:
            return False  # only a part of it is read
        covers_all = (
            x.layout.is_contiguous and not x.layout.offset and x.layout.numel == count
            for m in self.readers[slot]
            for x in self.steps[m].inputs
            if x is not None and x.storage is slot
        )
        if self.readers[slot] - {*members} or not all(covers_all):
            return False
        # What it reads may not change until then. The memory of an argument may be that of another
        # tensor from outside.
        between = [s.out.storage for s in self.steps[maker + 1 : sink]]
        kinds = {slot.kind for slot in between if slot.kind != "temp"}
        for x in self.steps[maker].inputs:
            assert x is not None
            kind = x.storage.kind
            shared = kinds if kind == "arg" else kinds & {"arg"} if kind == "outer" else ()
            if x.storage in between or shared:
                return False
        return True

    def _joined(self, members: Collection[int]) -> Step | None:
        """The steps as one, over a shape as which all that they read can be viewed."""
        order = [self.steps[m] for m in sorted(members)]
        shapes = sorted({s.out.layout.shape for s in order}, key=len, reverse=True)
        return next((step for shape in shapes if (step := _as_one(order, shape))), None)


def _as_one(order: Sequence[Step], shape: Sequence[int]) -> Step | None:
    chain: list[tuple[str, int, int]] = []  # names, and two operands from 1 on or ~values
    operands: list[GraphOperand] = []
    values: dict[Slot, int] = {}
    for step in order:
        places = []
        for x in step.inputs:
            assert x is not None
            if x.storage in values:
                places.append(~values[x.storage])
                continue
            layout = x.layout.reshape(shape) if x.layout.numel == step.out.layout.numel else None
            if layout is None:
                return None
            same = (
                n for n, y in enumerate(operands) if y.storage is x.storage and y.layout == layout
            )
            if (n := next(same, len(operands))) == len(operands):
                operands.append(GraphOperand(x.storage, layout, x.dtype))
            places.append(n + 1)
        if step.name == "clamp":
            chain.append(("maximum", places[0], places[1]))
            chain.append(("minimum", ~(len(chain) - 1), places[2]))
        else:
            chain.append((step.name, places[0], places[-1]))
        values[step.out.storage] = len(chain) - 1
    last = order[-1]
    layout = last.out.layout.reshape(shape)
    if len(chain) > _MOST_STEPS or len(operands) > _MOST_OPERANDS or layout is None:
        return None
    out = GraphOperand(last.out.storage, layout, last.out.dtype)
    attrs = {"steps": tuple(chain)}
    return last._replace(name="chain", inputs=tuple(operands), out=out, attrs=attrs)
