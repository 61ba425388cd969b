"""The tracer: one run of a function with proxies in place of its tensor arguments."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.basis.graph import Slot
from rushlight.core.jit import capture
from rushlight.core.jit.capture import TraceHooks
from rushlight.core.jit.pytree import OutputSpec, mapped, origin
from rushlight.core.tensor import autograd
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor


class _Bound(Storage):
    """An argument's storage during a trace, distinct from other storages of the same memory."""

    __slots__ = ("base",)

    def __init__(self, base: Storage) -> None:
        for name in ("device", "buffer", "nbytes", "moves", "inference", "_address"):
            setattr(self, name, getattr(base, name))
        self.base = base


def _through(name: str) -> property:
    return property(lambda s: getattr(s.base, name), lambda s, v: setattr(s.base, name, v))


for _name in ("version", "history", "lent"):
    setattr(_Bound, _name, _through(_name))


class Tracer:
    """One run of a function with proxies for its arguments.

    known: the leaves whose gradients are the last arguments. touched: all leaves whose gradients
    the run used. fresh: the touched leaves that were not known. late: whether a fresh leaf had a
    gradient. starts: for each known leaf the argument that is its gradient, or -1. outputs: how a
    replay makes each tensor of the result, in order.
    """

    def __init__(
        self, where: Device | None, tensors: list[Tensor], known: list[Tensor | None]
    ) -> None:
        self.hooks = TraceHooks(where)
        self.known = known
        self.touched: list[Callable[[], Tensor | None]] = [
            _gone if t is None else weakref.ref(t) for t in known
        ]
        self.fresh: list[weakref.ref[Tensor]] = []
        self.late = False
        self.owned: dict[int, tuple[Tensor, Tensor, OutputSpec]] = {}
        self.slots: list[tuple[Slot, int]] = []  # with the first argument in each
        self.pairs: dict[int, tuple[Tensor, Tensor, int]] = {}  # by the original's id
        self.outputs: list[OutputSpec] = []
        bound: dict[int, _Bound] = {}
        for i in sorted(range(len(tensors)), key=lambda i: tensors[i].layout.offset):
            storage = tensors[i].storage
            if id(storage) not in bound:
                bound[id(storage)] = _Bound(storage)
                slot = self.hooks.add("arg", bound[id(storage)], origin(tensors[i]))
                self.slots.append((slot, i))
        for i, t in enumerate(tensors):
            if id(t) not in self.pairs:
                new = type(t).__new__(type(t))
                Tensor.__init__(new, bound[id(t.storage)], t.dtype, t.layout)
                _copy_state(t, new)
                self.pairs[id(t)] = t, new, i
        self.of = [self.hooks.find(bound[id(t.storage)]) for t in tensors]
        have = [t is not None and t._grad is not None for t in known]
        first = len(tensors) - sum(have)
        self.starts = [first + sum(have[:k]) if has else -1 for k, has in enumerate(have)]

    def run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of `fn` as tensors for the caller, and the gradients after the run."""

        def proxy(t: Tensor) -> Tensor:
            return self.pairs[id(t)][1]

        positional, named = mapped(args, proxy), mapped(kwargs, proxy)
        storages = [new.storage for _, new, _ in self.pairs.values()]
        originals = {id(new): (t, i) for t, new, i in self.pairs.values()}
        for leaf in self.known:
            if leaf is not None:
                leaf._grad = mapped(leaf._grad, proxy)
        try:
            with capture.tracing(self.hooks):
                result = fn(*positional, **named)
        except BaseException:
            self._restore(originals)
            raise
        for (t, new, _), storage in zip(self.pairs.values(), storages, strict=True):
            if any(getattr(t, n) is not getattr(new, n) for n in _CHANGES):
                self.refuse("it changes the autograd state of an argument")
                _copy_state(new, t)
            if new.storage is not storage:
                self.refuse("it moves an argument to other memory")
                t.set_(new)
        leaves, seen = list(self.known), {id(t) for t in self.known}
        for leaf, start in self.hooks.grads.values():
            if id(leaf) not in seen:
                leaves.append(leaf)
                self.fresh.append(weakref.ref(leaf))
                self.late = self.late or start is not None
        self.touched += self.fresh
        ends = [None if t is None else t._grad for t in leaves]
        results = mapped((result, ends), lambda t: self._own(t, originals))
        for leaf, end in zip(leaves, results[1], strict=True):
            if leaf is not None:
                leaf._grad = end
        # `lost` looks for tensors that are still referenced, so the tracer drops its references.
        self.known, self.hooks.grads, self.hooks.casts = [], {}, {}
        self.pairs.clear()
        self.owned.clear()
        return results

    def _restore(self, originals: dict[int, tuple[Tensor, int]]) -> None:
        """After an error, replace gradients that are proxies or lie in a proxy's storage."""
        for leaf in (*self.known, *(t for t, _ in self.hooks.grads.values())):
            grad = None if leaf is None else leaf._grad
            if leaf is not None and grad is not None and isinstance(grad.storage, _Bound):
                leaf._grad, _ = originals.get(id(grad), (grad, 0))
                grad.storage = grad.storage.base

    def refuse(self, why: str) -> None:
        """Make no executable; the first reason is kept."""
        self.hooks.why = self.hooks.why or why

    def _own(self, t: Tensor, originals: dict[int, tuple[Tensor, int]]) -> Tensor:
        """A tensor of the result for the caller; records how a replay makes it."""
        if id(t) in self.owned:
            _, first, spec = self.owned[id(t)]
            self.outputs.append(spec)
            return first
        first = self._first(t, originals)
        self.owned[id(t)] = t, first, self.outputs[-1]
        return first

    def _first(self, t: Tensor, originals: dict[int, tuple[Tensor, int]]) -> Tensor:
        if id(t) in originals:
            t, i = originals[id(t)]
            self.outputs.append(OutputSpec(t, i, None))
            return t
        if self.hooks.device not in (None, t.device):
            self.refuse(f"its result is on {t.device}")
        view = self.hooks.views.get(id(t))
        slot = self.hooks.find(t.storage) if view is not None and view() is t else None
        viewed, slot = slot is not None, slot or self.hooks.see(t)
        spec = OutputSpec(t, -1, slot)
        self.outputs.append(spec)
        if isinstance(t.storage, _Bound):
            spec.index = next(i for s, i in self.slots if s is slot)
            spec.layout = slot.view(t.layout, t.dtype).layout
            t.storage, t.chain = t.storage.base, None
        elif slot.kind == "const":
            self.refuse("its result is made from Python values")
        elif slot.kind == "outer" and not viewed:
            spec.ref = weakref.ref(t)
        if spec.ref is None:
            name = autograd.ended(t.node)
            if name is not None and t.node is not None:
                spec.ended = autograd.end(t.node, name)
            elif t.requires_grad:
                self.refuse("its result needs a gradient")
            if t._grad is not None:
                self.refuse("its result has a gradient of its own")
        return t

    def lost(self) -> str | None:
        """A change to Python objects that a replay could not repeat, or None."""
        output_slots = {spec.slot for spec in self.outputs}
        for slot in self.hooks.slots:
            storage = slot.ref()
            if slot.kind == "outer" and (storage is None or storage.moves != slot.moves):
                return "it replaces a tensor that it reads"
            if slot.kind == "arg" and storage is not None:
                return "it keeps an argument"
            if slot.kind == "temp" and storage is not None and slot not in output_slots:
                return "it keeps a tensor that it makes but does not return"
        if any(ref() is not None for ref in self.hooks.switched):
            return "it changes whether a tensor needs a gradient"
        return None


def _gone() -> None:
    """Stand for a reference to a freed tensor."""


_CHANGES = ("node", "_grad", "needs_grad")


def _copy_state(source: Tensor, target: Tensor) -> None:
    for name in (*_CHANGES, "is_view", "frozen_view", "_stamp"):
        setattr(target, name, getattr(source, name))
