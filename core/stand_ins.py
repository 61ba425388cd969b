"""One run of a function that is captured, with stand-ins for the tensors it is given."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from rushlight.core import autograd, capture
from rushlight.core.backends import Device
from rushlight.core.capture import Operand, Recorder, Slot
from rushlight.core.pytree import Leaf, mapped, origin
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor


class _Bound(Storage):
    """An argument's memory during a capture: told from other tensors over the same memory."""

    __slots__ = ("base",)

    def __init__(self, base: Storage) -> None:
        for name in ("device", "buffer", "nbytes", "packing", "moves", "_address"):
            setattr(self, name, getattr(base, name))
        self.base = base


def _through(name: str) -> property:
    return property(lambda s: getattr(s.base, name), lambda s, v: setattr(s.base, name, v))


for _name in ("version", "history"):
    setattr(_Bound, _name, _through(_name))


class Capture:
    """One run of a function with stand-ins for its arguments, over memory that is told apart.

    known: the leaves whose gradients are the last of these arguments. touched: all whose gradients
    the run had to do with; fresh: those of them that were not known, late: if one had a gradient.
    starts: which of the arguments the gradient of a known leaf is; -1 where it has none.
    """

    def __init__(
        self, where: Device | None, tensors: list[Tensor], known: list[Tensor | None]
    ) -> None:
        self.recorder = Recorder(where)
        self.known = known
        self.touched: list[Callable[[], Tensor | None]] = [
            _gone if t is None else weakref.ref(t) for t in known
        ]
        self.fresh: list[weakref.ref[Tensor]] = []
        self.late = False
        self.owned: dict[int, tuple[Tensor, Tensor, Leaf]] = {}
        self.slots: list[tuple[Slot, int]] = []  # with the argument it begins at
        self.pairs: dict[int, tuple[Tensor, Tensor, int]] = {}  # by the original's id
        self.leaves: list[Leaf] = []
        bound: dict[int, _Bound] = {}
        for i in sorted(range(len(tensors)), key=lambda i: tensors[i].layout.offset):
            storage = tensors[i].storage
            if id(storage) not in bound:
                bound[id(storage)] = _Bound(storage)
                slot = self.recorder.add("arg", bound[id(storage)], origin(tensors[i]))
                self.slots.append((slot, i))
        for i, t in enumerate(tensors):
            if id(t) not in self.pairs:
                new = type(t).__new__(type(t))
                Tensor.__init__(new, bound[id(t.storage)], t.dtype, t.layout)
                _copy_state(t, new)
                self.pairs[id(t)] = t, new, i
        self.of = [self.recorder.find(bound[id(t.storage)]) for t in tensors]
        have = [t is not None and t._grad is not None for t in known]
        first = len(tensors) - sum(have)
        self.starts = [first + sum(have[:k]) if has else -1 for k, has in enumerate(have)]

    def run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What `fn` gives, in tensors for the caller, and the gradients of what it touched."""

        def stand_in(t: Tensor) -> Tensor:
            return self.pairs[id(t)][1]

        given, named = mapped(args, stand_in), mapped(kwargs, stand_in)
        storages = [new.storage for _, new, _ in self.pairs.values()]
        originals = {id(new): (t, i) for t, new, i in self.pairs.values()}
        for leaf in self.known:
            if leaf is not None:
                leaf._grad = mapped(leaf._grad, stand_in)
        try:
            with capture.recording(self.recorder):
                result = fn(*given, **named)
        except BaseException:
            self._restore(originals)
            raise
        for (t, new, _), storage in zip(self.pairs.values(), storages, strict=True):
            if any(getattr(t, n) is not getattr(new, n) for n in _CHANGES):
                self.refuse("it changes what an argument is")
                _copy_state(new, t)
            if new.storage is not storage:
                self.refuse("it gives an argument other memory")
                t.set_(new)
        leaves, seen = list(self.known), {id(t) for t in self.known}
        for leaf, start in self.recorder.grads.values():
            if id(leaf) not in seen:
                leaves.append(leaf)
                self.fresh.append(weakref.ref(leaf))
                self.late = self.late or start is not None
        self.touched += self.fresh
        ends = [None if t is None else t._grad for t in leaves]
        found = mapped((result, ends), lambda t: self._own(t, originals))
        for leaf, end in zip(leaves, found[1], strict=True):
            if leaf is not None:
                leaf._grad = end
        # What is held here would not be seen to be gone.
        self.known, self.recorder.grads = [], {}
        self.pairs.clear()
        self.owned.clear()
        return found

    def _restore(self, originals: dict[int, tuple[Tensor, int]]) -> None:
        """After an error: no gradient is a stand-in, or lies in the memory of one."""
        for leaf in (*self.known, *(t for t, _ in self.recorder.grads.values())):
            grad = None if leaf is None else leaf._grad
            if leaf is not None and grad is not None and isinstance(grad.storage, _Bound):
                leaf._grad, _ = originals.get(id(grad), (grad, 0))
                grad.storage = grad.storage.base

    def refuse(self, why: str) -> None:
        """Make no plan; the first reason stays."""
        self.recorder.why = self.recorder.why or why

    def _own(self, t: Tensor, originals: dict[int, tuple[Tensor, int]]) -> Tensor:
        """A tensor of the result for the caller; notes how a replay gives it."""
        if id(t) in self.owned:
            _, given, leaf = self.owned[id(t)]
            self.leaves.append(leaf)
            return given
        given = self._first(t, originals)
        self.owned[id(t)] = t, given, self.leaves[-1]
        return given

    def _first(self, t: Tensor, originals: dict[int, tuple[Tensor, int]]) -> Tensor:
        if id(t) in originals:
            t, i = originals[id(t)]
            self.leaves.append(Leaf(t, i, None))
            return t
        if self.recorder.device not in (None, t.device):
            self.refuse(f"its result is on {t.device}")
        view = self.recorder.views.get(id(t))
        slot = self.recorder.find(t.storage) if view is not None and view() is t else None
        viewed, slot = slot is not None, slot or self.recorder.see(t)
        leaf = Leaf(t, -1, slot)
        self.leaves.append(leaf)
        if isinstance(t.storage, _Bound):
            leaf.index = next(i for s, i in self.slots if s is slot)
            leaf.layout = Operand(slot, t.dtype, t.layout).layout
            t.storage = t.storage.base
        elif slot.kind == "const":
            self.refuse("its result is made from Python values")
        elif slot.kind == "outer" and not viewed:
            leaf.ref = weakref.ref(t)
        if leaf.ref is None:
            name = autograd.ended(t.node)
            if name is not None and t.node is not None:
                leaf.ended = autograd.end(t.node, name)
            elif t.requires_grad:
                self.refuse("its result needs a gradient")
            if t._grad is not None:
                self.refuse("its result has a gradient of its own")
        return t

    def lost(self) -> str | None:
        """What a replay could not do that the run did to Python's objects, if anything."""
        mine = {leaf.slot for leaf in self.leaves}
        for slot in self.recorder.slots:
            storage = slot.ref()
            if slot.kind == "outer" and (storage is None or storage.moves != slot.moves):
                return "it replaces a tensor that it reads"
            if slot.kind == "arg" and storage is not None:
                return "it keeps an argument"
            if slot.kind == "temp" and storage is not None and slot not in mine:
                return "it keeps a tensor that it makes without giving it as a result"
        if any(ref() is not None for ref in self.recorder.switched):
            return "it changes whether a tensor needs a gradient"
        return None


def _gone() -> None:
    """In place of a reference to what has died."""


_CHANGES = ("node", "_grad", "requires_grad")


def _copy_state(source: Tensor, target: Tensor) -> None:
    for name in (*_CHANGES, "is_view", "frozen_view", "_stamp"):
        setattr(target, name, getattr(source, name))
