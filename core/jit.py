"""jit: capture a step once and replay it as one flat plan."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Collection
from typing import Any, TypeVar, overload

import numpy as np

from rushlight.core import autograd, capture
from rushlight.core.backends import device, get_linear_mode
from rushlight.core.capture import Operand, Recorder, Slot
from rushlight.core.nn.module import Module
from rushlight.core.plan import PASSES, Plan, Pool, address, vacate
from rushlight.core.pytree import Leaf, Signature, mapped
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor

Fn = TypeVar("Fn", bound=Callable[..., Any])
_CPU = device("cpu")
_STRIKES = 3  # captures of one signature that were of no use, before it runs without
_SIGNATURES = 256  # that one function keeps at most
_limit = [2**28]
_clock = itertools.count()
_guard = threading.Lock()
_entries: weakref.WeakSet[_Entry] = weakref.WeakSet()


def set_plan_memory(nbytes: int) -> None:
    """Let the plans of `jit` hold `nbytes` bytes in all (256 MiB at first).

    Above that the plans that were not used for longest are dropped. ValueError below zero.
    """
    if nbytes < 0:
        raise ValueError(f"set_plan_memory: {nbytes} must not be negative")
    _limit[0] = nbytes
    capture.retrained()  # what was too large may fit now
    _evict()


def _evict() -> None:
    with _guard:
        held = sorted((e for e in _entries if e.body is not None), key=lambda e: e.used)
    while held and _held(held) > _limit[0]:
        held.pop(0).body = None


def _held(entries: list[_Entry]) -> int:
    """Bytes that the plans of `entries` hold in all; some have buffers in common."""
    plans: list[Plan] = [body.plan for e in entries if (body := e.body) is not None]
    shared: dict[int, int] = {id(b): b.nbytes for p in plans for b in p.shared.values()}
    return sum(p.nbytes for p in plans) + sum(shared.values())


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


class _Entry:
    """What a function keeps for one signature: a plan with its bindings, or why there is none."""

    def __init__(self, strikes: int, modules: list[Module]) -> None:
        self.strikes = strikes
        self.modules = [weakref.ref(m) for m in modules]
        self.why: str | None = None
        self.lost = "what it reaches from outside is gone by the next call, or it takes too much"
        self.replays = 0
        self.used = next(_clock)
        self.mode = capture.mode
        self.body: _Body | None = None
        with _guard:
            _entries.add(self)

    @property
    def nbytes(self) -> int:
        """Bytes that the plan holds, shared ones included."""
        return _held([self])

    def is_for(self, modules: list[Module]) -> bool:
        """Whether it was made with these modules, not others at the same ids, and as they are."""
        return self.mode == capture.mode and all(
            r() is m for r, m in zip(self.modules, modules, strict=True)
        )


class _Body:
    """A plan, and what it is bound to: arguments, results, and what it reaches from outside."""

    def __init__(
        self, recorder: Recorder, args: list[tuple[Slot, int]], result: Any,
        leaves: list[Leaf], reuse: bool, passes: Collection[str], pool: Pool,
    ) -> None:  # fmt: skip
        self.lock = pool.lock
        self.epoch, self.grad = capture.epoch, autograd.is_grad_enabled()
        self.args, self.result = args, result
        made = {x.slot for x in leaves if x.slot is not None and x.slot.kind == "temp"}
        self.fresh = [] if reuse else list(made)
        self.plan = Plan(recorder, {*self.fresh, *(s for s, _ in args)}, made, passes, pool)
        self.kept = {s: Storage(_CPU, s.buffer, s.nbytes) for s in made} if reuse else {}
        self.outer = [s for s in recorder.slots if s.kind == "outer"]
        self.written = [(s.ref, s.writes) for s in self.outer if s.writes]
        inside = {id(t) for ref in recorder.views.values() if (t := ref()) is not None}
        self.tensors = [
            r for r in recorder.tensors if (t := r()) is not None and id(t) not in inside
        ]
        self.watched: list[Any] = []

    def watch(self, entry: _Entry) -> None:
        """Have the plan dropped when something dies that it reaches from outside."""
        me = weakref.ref(entry)

        def end(_: Any) -> None:
            found = me()
            if found is not None:
                found.body = None

        reached = [s.ref() for s in self.outer] + [r() for r in self.tensors]
        self.watched = [weakref.ref(x, end) for x in reached if x is not None]

    def is_current(self) -> bool:
        """Whether what it reaches from outside has the memory, and needs no gradient, as before."""
        epoch = capture.epoch
        if self.epoch != epoch:
            for slot in self.outer:
                storage = slot.ref()
                if storage is None or storage.moves != slot.moves:
                    return False
            self.epoch = epoch
        return not self.grad or not any(
            t.requires_grad for r in self.tensors if (t := r()) is not None
        )

    def replay(self, args: list[Tensor]) -> Any:
        """Run with these arguments; gives the result."""
        with self.lock:
            made = dict(self.kept)
            try:
                for slot, i in self.args:
                    t = args[i]
                    if slot.writes and not t.buffer.flags.writeable:
                        raise ValueError(f"jit: argument {i} is written to, but is read-only")
                    start = t.dtype.nbytes(t.layout.offset)
                    slot.buffer = t.buffer[start:] if start else t.buffer
                    slot.address = t.storage.address + start
                    t.storage.version += slot.writes
                for slot in self.fresh:
                    buffer = np.empty(slot.nbytes, np.uint8)
                    slot.buffer, slot.address = buffer, address(buffer)
                    made[slot] = Storage(_CPU, buffer, slot.nbytes)
                for ref, writes in self.written:
                    if (storage := ref()) is not None:
                        storage.version += writes
                for storage in self.kept.values():
                    storage.version += 1
                self.plan.run()
            finally:
                for slot in self.plan.variable:
                    vacate(slot)

        def give(leaf: Leaf) -> Tensor:
            if leaf.index >= 0:
                t = args[leaf.index]
                if leaf.slot is None:
                    return t
                return leaf.over(t.storage, t.layout.offset)
            found: Tensor | None = leaf.ref and leaf.ref()
            if found is not None:
                return found
            slot = leaf.slot
            assert slot is not None
            held = made.get(slot) or slot.ref() or Storage(_CPU, slot.buffer, slot.nbytes)
            return leaf.over(held, 0)

        return mapped(self.result, give)


class _Capture:
    """One run of a function with stand-ins for its arguments, over memory that is told apart."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.recorder = Recorder()
        self.slots: list[tuple[Slot, int]] = []  # with the argument it begins at
        self.pairs: dict[int, tuple[Tensor, Tensor, int]] = {}  # by the original's id
        self.leaves: list[Leaf] = []
        bound: dict[int, _Bound] = {}
        for i in sorted(range(len(tensors)), key=lambda i: tensors[i].layout.offset):
            storage = tensors[i].storage
            if id(storage) not in bound:
                bound[id(storage)] = _Bound(storage)
                slot = self.recorder.add("arg", bound[id(storage)], tensors[i].layout.offset)
                self.slots.append((slot, i))
        for i, t in enumerate(tensors):
            if id(t) not in self.pairs:
                new = type(t).__new__(type(t))
                Tensor.__init__(new, bound[id(t.storage)], t.dtype, t.layout)
                _copy_state(t, new)
                self.pairs[id(t)] = t, new, i

    def run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What `fn` gives, in tensors for the caller."""

        def stand_in(t: Tensor) -> Tensor:
            return self.pairs[id(t)][1]

        given, named = mapped(args, stand_in), mapped(kwargs, stand_in)
        storages = [new.storage for _, new, _ in self.pairs.values()]
        with capture.recording(self.recorder):
            result = fn(*given, **named)
        for (t, new, _), storage in zip(self.pairs.values(), storages, strict=True):
            if any(getattr(t, n) is not getattr(new, n) for n in ("node", "grad", "requires_grad")):
                self.refuse("it changes what an argument is")
                _copy_state(new, t)
            if new.storage is not storage:
                self.refuse("it gives an argument other memory")
                t.set_(new)
        originals = {id(new): (t, i) for t, new, i in self.pairs.values()}
        return mapped(result, lambda t: self._own(t, originals))

    def refuse(self, why: str) -> None:
        """Make no plan; the first reason stays."""
        self.recorder.why = self.recorder.why or why

    def _own(self, t: Tensor, originals: dict[int, tuple[Tensor, int]]) -> Tensor:
        """A tensor of the result for the caller; notes how a replay gives it."""
        if id(t) in originals:
            t, i = originals[id(t)]
            self.leaves.append(Leaf(t, i, None))
            return t
        if t.device is not _CPU:
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
        if t.requires_grad and leaf.ref is None:
            self.refuse("its result needs a gradient")
        return t

    def lost(self) -> str | None:
        """What a replay could not do that the run did to Python's objects, if anything."""
        self.pairs.clear()
        mine = {leaf.slot for leaf in self.leaves}
        for slot in self.recorder.slots:
            storage = slot.ref()
            if slot.kind == "outer" and (storage is None or storage.moves != slot.moves):
                return "it replaces a tensor that it reads"
            if slot.kind == "arg" and storage is not None:
                return "it keeps an argument"
            if slot.kind == "temp" and storage is not None and slot not in mine:
                return "it keeps a tensor that it makes without giving it as a result"
        return None


def _copy_state(source: Tensor, target: Tensor) -> None:
    for name in ("requires_grad", "grad", "node", "is_view", "frozen_view", "_stamp"):
        setattr(target, name, getattr(source, name))


def _captured(
    run: Callable[[_Capture], Any], signature: Signature, entry: _Entry, reuse: bool,
    passes: Collection[str], pool: Pool,
) -> Any:  # fmt: skip
    """The result of a captured run; `entry` gets a plan, or the reason why it has none."""
    taken = _Capture(signature.tensors)
    result = run(taken)
    recorder = taken.recorder
    if recorder.why is None:
        Signature(result)
        # Cycles of Python's objects hold tensors that are gone in truth.
        if taken.lost() and gc.collect() >= 0 and (lost := taken.lost()):
            entry.lost = lost
        else:
            leaves = iter(taken.leaves)
            form = mapped(result, lambda t: next(leaves))
            body = _Body(recorder, taken.slots, form, taken.leaves, reuse, passes, pool)
            body.watch(entry)
            entry.body = body
            _evict()
    else:
        entry.why = recorder.why
    return result


@overload
def jit(fn: Fn, *, reuse_outputs: bool = False, passes: Collection[str] = PASSES) -> Fn: ...
@overload
def jit(
    fn: None = None, *, reuse_outputs: bool = False, passes: Collection[str] = PASSES
) -> Callable[[Fn], Fn]: ...
def jit(
    fn: Fn | None = None, *, reuse_outputs: bool = False, passes: Collection[str] = PASSES
) -> Fn | Callable[[Fn], Fn]:
    """`fn` with its ops captured on the first call of a signature and replayed afterwards.

    Arguments and results are nested dicts, lists and tuples of tensors and Python values (TypeError
    for others; a Module may be an argument). A signature is the shapes, strides, dtypes, devices
    and needs of a gradient of the tensors, the values of the rest, and grad mode.

    - What `fn` reads of Python's other objects it reads when it is captured. Tensors that it
      reaches so (parameters, a cache) are captured with their memory: a replay sees what was
      written to them, and repeats what `fn` writes to them; where one has other memory since
      (`set_`, loading, growing) or is gone, `fn` is captured anew.
    - Draws take their numbers from the generator in each call, as without `jit`.
    - A read of values (`numpy`, `item`, `bool`, `nonzero`, printing), and a switch of grad mode
      that is not the library's own (an optimizer's step may be inside), raise CaptureError.
    - What a replay could not repeat runs as it is in every call: results that need a gradient,
      `backward()` into tensors from outside, tensors kept elsewhere than in the result, and
      anything on another device than `cpu`.

    reuse_outputs: the next call may overwrite the results of this one. passes: "reuse" lets
    buffers serve several intermediates and signatures, "fold" computes what never changes once.
    Plans hold memory: see `set_plan_memory`. Inside a captured function another one is a part of
    it.

    Usable as `rl.jit(fn)`, `@rl.jit` and `@rl.jit(reuse_outputs=True)`.
    """
    if unknown := set(passes) - PASSES:
        raise ValueError(f"jit: no pass {min(unknown)!r}; there are: {', '.join(sorted(PASSES))}")
    if fn is None:
        return functools.partial(jit, reuse_outputs=reuse_outputs, passes=passes)
    if not callable(fn):
        raise TypeError(f"jit: {fn!r} is not callable")
    if any(f(fn) for f in (inspect.isgeneratorfunction, inspect.iscoroutinefunction,
                           inspect.isasyncgenfunction)):  # fmt: skip
        raise TypeError(f"jit: {fn!r} runs in parts; jit the function that computes one of them")
    run: Callable[..., Any] = fn
    entries: dict[Any, _Entry] = {}
    pool = Pool()

    def call(*args: Any, **kwargs: Any) -> Any:
        if capture.active and capture.capturing():
            return run(*args, **kwargs)
        grad = autograd.is_grad_enabled()
        signature = Signature(grad, get_linear_mode(), args, kwargs)
        tensors = signature.tensors
        for t in tensors:
            if t.storage.device is not _CPU or (grad and t.requires_grad):
                return run(*args, **kwargs)
        key = tuple(signature.key)
        entry = entries.get(key)
        strikes = 0
        if entry is not None and entry.is_for(signature.modules):
            body = entry.body
            if body is not None and body.is_current():
                entry.replays += 1
                entry.used = next(_clock)
                return body.replay(tensors)
            if entry.why is not None:
                return run(*args, **kwargs)
            strikes = 0 if entry.replays else entry.strikes + 1
            if strikes == _STRIKES:
                entry.why = entry.lost
                return run(*args, **kwargs)
        entries.pop(key, None)
        if len(entries) >= _SIGNATURES:
            entries.pop(next(iter(entries)))
        entry = _Entry(strikes, signature.modules)
        result = _captured(
            lambda c: c.run(run, args, kwargs), signature, entry, reuse_outputs, passes, pool
        )
        entries[key] = entry
        return result

    call.plans = entries  # type: ignore[attr-defined]
    return functools.wraps(fn, updated=())(call)
