"""The pass "fuse": neighbouring elementwise steps of a graph become one, or the end of a product's
or a norm's kernel; rows that go to a cache are turned on the way."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rushlight.core.backends.webgpu.emit import Emitter
from rushlight.core.backends.webgpu.lowering.fused import Chain, Node, node_of, room
from rushlight.core.backends.webgpu.lowering.products.epilogue import (
    EPILOGUES,
    MOST,
    bindings,
    follows,
)
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.graph import GraphOperand, Slot, Step
from rushlight.core.basis.layout import Layout, Shape

_MOST = 32  # the most ops of a chain


def fuse(steps: Sequence[Step], keep: Collection[Slot], e: Emitter) -> list[Step]:
    """`steps` with chains of elementwise ops as one step each, in place of their last one.

    An op joins the only ops that read its result, unless the result is in `keep`. No op moves over
    a write to one of its inputs. Every value is rounded to its dtype as in memory.
    """
    return _Fuser(steps, keep, e.limits["maxStorageBuffersPerShaderStage"]).run()


class _Fuser:
    def __init__(self, steps: Sequence[Step], keep: Collection[Slot], limit: int) -> None:
        self.steps, self.limit = list(steps), limit
        self.readers: dict[Slot, list[int]] = {}
        self.writers: dict[Slot, list[int]] = {}
        for i, step in enumerate(self.steps):
            for x in step.inputs:
                if x is not None:
                    self.readers.setdefault(x.storage, []).append(i)
            self.writers.setdefault(step.out.storage, []).append(i)
        self.keep = keep
        self.nodes: dict[int, Node] = {}
        for i, s in enumerate(self.steps):
            if 0 not in s.out.layout.shape and not s.draw:
                node = node_of(s.name, s.inputs, s.out, s.attrs)
                if node is not None:
                    self.nodes[i] = node
        self.gone: set[int] = set()

    def run(self) -> list[Step]:
        fused: dict[int, Step] = {}
        for root in reversed(range(len(self.steps))):
            if self.steps[root].name == "cache_write":
                self._turn(root)
            elif root in self.nodes and root not in self.gone:
                step = self._grow(root)
                if step is not None:
                    fused[root] = step
        return [fused.get(i, s) for i, s in enumerate(self.steps) if i not in self.gone]

    def _grow(self, root: int) -> Step | None:
        """The step that ends with step `root`, joined with all steps that can be fused into it."""
        members = {root}
        chain = self._chain(root, members)
        if chain is None:
            return None
        refused: set[int] = set()
        while True:
            more = self._producers(members, refused, root)
            step = next((p for p in more if p in self.nodes), None)
            if step is None or len(members) == _MOST:
                break
            grown = self._chain(root, members | {step})
            if grown is None:
                refused.add(step)
            else:
                members.add(step)
                chain = grown
        for p in self._producers(members, refused, root):
            with_product = self._epilogue(root, members, p)
            if with_product is not None:
                self.gone |= {*members, p} - {root}
                return with_product
        self.gone |= members - {root}
        return chain if len(members) > 1 else None

    def _producers(self, members: set[int], refused: set[int], root: int) -> list[int]:
        """Steps whose results only `members` read, which may run where `root` does; last first."""
        producers = set()
        for m in members:
            for x in self.steps[m].inputs:
                if x is None or x.storage in self.keep:
                    continue
                slot, writers = x.storage, self.writers.get(x.storage, [])
                if slot.kind != "temp" or len(writers) != 1:
                    continue
                p = writers[0]
                if p >= m or p in members or p in refused or p in self.gone:
                    continue
                if set(self.readers[slot]) <= members and not self._overtaken(p, root):
                    producers.add(p)
        return sorted(producers, reverse=True)

    def _overtaken(self, p: int, root: int) -> bool:
        """Whether an input of step `p` is written between `p` and `root`."""
        reads = [x.storage for x in self.steps[p].inputs if x is not None]
        return any(_same(self.steps[w].out.storage, r) for w in range(p + 1, root) for r in reads)

    def _chain(self, root: int, members: set[int], value: int = -1) -> Step | None:
        """The step of all members; value: the step whose result is the first input."""
        # A dim that is repeated goes with the shape of the op that reads it.
        shapes = [self.steps[m].out.layout.shape for m in (root, *sorted(members))]
        candidates = (self._shaped(root, members, value, shape) for shape in dict.fromkeys(shapes))
        return next((step for step in candidates if step is not None), None)

    def _shaped(self, root: int, members: set[int], value: int, shape: Shape) -> Step | None:
        """The step of all members, each element by element in this shape."""
        order, out = sorted(members), self.steps[root].out
        target = out.layout if out.layout.shape == shape else out.layout.reshape(shape)
        if target is None:
            return None
        numbers = {self.steps[m].out.storage: ~k for k, m in enumerate(order) if m != root}
        inputs: list[GraphOperand] = []
        known: dict[tuple[Slot, Layout, DType], int] = {}
        nodes = []
        if value >= 0:
            result = self.steps[value].out
            known[result.storage, Layout.contiguous(shape), result.dtype] = 0
            inputs.append(GraphOperand(result.storage, Layout.contiguous(shape), result.dtype))
        for m in order:
            step, node = self.steps[m], self.nodes[m]
            args = []
            for x in (x for x in step.inputs if x is not None):
                k = numbers.get(x.storage)
                if k is not None:
                    source = self.steps[order[~k]].out
                    constant = self.nodes[order[~k]].word is not None
                    if not (
                        x.dtype is source.dtype and (constant or _alike(x.layout, source.layout))
                    ):
                        return None
                    args.append(k)
                    continue
                layout = x.layout if x.layout.shape == shape else x.layout.reshape(shape)
                if value >= 0 and x.storage is self.steps[value].out.storage:
                    if x.dtype is not result.dtype or not _alike(x.layout, result.layout):
                        return None
                    layout = Layout.contiguous(shape)
                if layout is None:
                    return None
                key = x.storage, layout, x.dtype
                if key not in known:
                    known[key] = len(inputs)
                    inputs.append(GraphOperand(x.storage, layout, x.dtype))
                args.append(known[key])
            nodes.append(node._replace(args=tuple(args)))
            if step.out.layout.numel != out.layout.numel and node.word is None:
                return None
        chain = Chain(tuple(nodes), tuple(x.dtype for x in inputs))
        if len({n.note for n in nodes if n.note}) > 1:
            return None  # a kernel has only one error code
        layouts = [*(x.layout for x in inputs), target]
        bound = len({(x.storage, x.dtype) for x in inputs if x.storage is not out.storage})
        if not room(chain, layouts, bound, self.limit):
            return None
        return self.steps[root]._replace(
            name="fused",
            inputs=tuple(inputs),
            out=GraphOperand(out.storage, target, out.dtype),
            attrs={"chain": chain},
        )

    def _epilogue(self, root: int, members: set[int], p: int) -> Step | None:
        """Step `p` with the members in its epilogue, where its kernel has one for them."""
        step, out = self.steps[p], self.steps[root].out
        if step.name not in EPILOGUES or "epilogue" in step.attrs or step.draw:
            return None
        if step.out.layout.numel != out.layout.numel or not out.layout.is_contiguous:
            return None
        if step.out.dtype.kind != "f" or out.dtype.kind != "f":
            return None
        joined = self._chain(root, members, p)
        if joined is None or joined.attrs["chain"].note is not None:
            return None
        chain, others = joined.attrs["chain"], []
        for x in joined.inputs[1:]:
            layout = None if x is None else x.layout.reshape(step.out.layout.shape)
            if x is None or layout is None or not follows(layout):
                return None
            others.append(GraphOperand(x.storage, layout, x.dtype))
        if len(others) + len(chain.words) > MOST:
            return None
        used = [x.storage for x in (*step.inputs, *others) if x is not None]
        if any(_same(x, out.storage) for x in used) or self._merges(step, others):
            return None
        if bindings(step.inputs) + len(others) > self.limit:
            return None
        if step.out.dtype.itemsize < 4:  # later ops see the result rounded as in memory
            first = Node("a", (0,), step.out.dtype)
            nodes = [
                n._replace(args=tuple(~0 if i == 0 else i if i > 0 else i - 1 for i in n.args))
                for n in chain.nodes
            ]
            chain = chain._replace(nodes=(first, *nodes))
        inputs = (*step.inputs, *others)
        target = GraphOperand(out.storage, _at(step.out.layout, out.layout.offset), out.dtype)
        return step._replace(
            inputs=inputs,
            out=target,
            attrs={**step.attrs, "epilogue": chain, "others": len(others)},
        )

    def _turn(self, root: int) -> None:
        """Let step `root`, which writes to a cache, apply the rotary positions itself."""
        step = self.steps[root]
        cache, rows, offsets = _given(step)
        for p in self._producers({root}, set(), root):
            turn = self.steps[p]
            if turn.name != "rope":
                continue
            used = [x.storage for x in _given(turn)]
            if (
                turn.out.storage is rows.storage
                and turn.out.layout == rows.layout
                and rows.layout.is_contiguous
                and rows.dtype is step.out.dtype is float32
                and cache.storage is step.out.storage
                and cache.layout == step.out.layout
                and not any(_same(s, cache.storage) for s in (*used, offsets.storage))
            ):
                self.steps[root] = step._replace(
                    name="rope_write", inputs=(cache, *turn.inputs, offsets), attrs=turn.attrs
                )
                self.gone.add(p)

    def _merges(self, step: Step, others: Sequence[GraphOperand]) -> bool:
        """Whether another product of the same rows is waited for, which could run beside this."""
        for x in others:
            for w in self.writers.get(x.storage, ()):
                other = self.steps[w]
                if other.name == step.name and _given(other)[0].storage is _given(step)[0].storage:
                    return True
        return False


def _given(step: Step) -> list[GraphOperand]:
    """The inputs of a step that are not None."""
    return [x for x in step.inputs if x is not None]


def _same(a: Slot, b: Slot) -> bool:
    """Whether two slots may be the same memory: an argument may be a tensor from outside, too."""
    return a is b or {a.kind, b.kind} == {"arg", "outer"}


def _alike(a: Layout, b: Layout) -> bool:
    """Whether both cover the same elements in the same order."""
    return a == b or (
        a.is_contiguous and b.is_contiguous and a.offset == b.offset and a.numel == b.numel
    )


def _at(layout: Layout, offset: int) -> Layout:
    return Layout(layout.shape, layout.strides, offset)
