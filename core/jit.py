"""jit: capture a step once and replay it as one flat plan."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, overload

from rushlight.core import autograd, capture
from rushlight.core.backends import Device, device, get_linear_mode
from rushlight.core.errors import DeviceMemoryError
from rushlight.core.leaves import Leaves
from rushlight.core.nn.module import Module
from rushlight.core.plan import PASSES, Plan, Pool, make_plan
from rushlight.core.pytree import Leaf, Signature, mapped, origin
from rushlight.core.stand_ins import Capture
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
    capture.reconsider()  # what was too large may fit now
    _evict()


def plan_memory() -> int:
    """The bytes that plans may hold in all."""
    return _limit[0]


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


class _Entry:
    """What a function keeps for one signature: a plan with its bindings, or why there is none."""

    def __init__(self, strikes: int, modules: list[Module]) -> None:
        self.strikes = strikes
        self.modules = [weakref.ref(m) for m in modules]
        self.why: str | None = None
        self.lost = "what it reaches from outside is gone by the next call, or it takes too much"
        self.replays = 0
        self.used = next(_clock)
        self.chances = capture.chances
        self.body: _Body | None = None
        with _guard:
            _entries.add(self)

    @property
    def nbytes(self) -> int:
        """Bytes that the plan holds, shared ones included."""
        return _held([self])

    def is_for(self, modules: list[Module]) -> bool:
        """Whether it was made with these modules, not others at the same ids, and still holds."""
        return (self.why is None or self.chances == capture.chances) and all(
            r() is m for r, m in zip(self.modules, modules, strict=True)
        )


class _Body:
    """A plan, and what it is bound to: arguments, results, and what it reaches from outside.

    result: how a replay gives the function's result, and what .grad of `leaves` is afterwards.
    """

    def __init__(
        self, taken: Capture, result: Any, reuse: bool, passes: Collection[str],
        pools: Mapping[Device, Pool],
    ) -> None:  # fmt: skip
        recorder = taken.recorder
        self.device = recorder.device or _CPU
        pool = pools[self.device]
        self.lock = pool.lock
        self.epoch, self.grad = capture.epoch, autograd.is_grad_enabled()
        self.result, self.leaves, self.actions = result, taken.touched, recorder.actions
        used = {x.storage for s in recorder.steps for x in (*s.inputs, s.out) if x is not None}
        self.args = [(s, i) for s, i in taken.slots if s in used]
        # Gradients that are dropped without a look at them make room for what comes.
        shown = {x.index for x in taken.leaves}
        needed: set[Any] = used | {x.slot for x in taken.leaves}
        self.dropped = [
            (leaf, i) for leaf, i in zip(taken.touched, taken.starts, strict=False)
            if i >= 0 and i not in shown and taken.of[i] not in needed
        ]  # fmt: skip
        made = {x.slot for x in taken.leaves if x.slot is not None and x.slot.kind == "temp"}
        # Of gradients nobody has said that they may be overwritten.
        kept = made - {x.slot for x in result[1] if x is not None} if reuse else set()
        self.fresh = list(made - kept)
        variable = {*self.fresh, *(s for s, _ in self.args)}
        self.plan: Plan = make_plan(self.device, recorder, variable, made, passes, pool)
        self.kept = {s: Storage(self.device, s.buffer, s.nbytes) for s in kept}
        self.outer = [s for s in recorder.slots if s.kind == "outer"]
        self.written = [(s.ref, s.writes) for s in self.outer if s.writes]
        self.lent = {id(storage) for storage in self.kept.values()}
        # On cpu the order of the calls is kept, whatever memory they share.
        self.outside = {id(s.ref()): s.writes for s in self.outer if self.device is not _CPU}
        inside = {id(t) for ref in recorder.views.values() if (t := ref()) is not None}
        self.tensors = [
            (r, t.requires_grad) for r in recorder.tensors
            if (t := r()) is not None and id(t) not in inside
        ]  # fmt: skip
        self.watched: list[Any] = []

    def watch(self, entry: _Entry) -> None:
        """Have the plan dropped when something dies that it reaches from outside."""
        me = weakref.ref(entry)

        def end(_: Any) -> None:
            found = me()
            if found is not None:
                found.body = None

        reached = [s.ref() for s in self.outer] + [r() for r, _ in self.tensors]
        self.watched = [weakref.ref(x, end) for x in reached if x is not None]

    def is_current(self) -> bool:
        """Whether what it reaches from outside has the memory, and needs no gradient, as before."""
        epoch = capture.epoch
        if not self.plan.alive:
            return False
        if self.epoch != epoch:
            for slot in self.outer:
                storage = slot.ref()
                if storage is None or storage.moves != slot.moves:
                    return False
            self.epoch = epoch
        if self.grad or self.leaves:
            for ref, needs in self.tensors:
                if (t := ref()) is not None and t.requires_grad is not needs:
                    return False
        return all(action.current() for action in self.actions)

    def takes(self, args: list[Tensor]) -> bool:
        """Whether none of the memory is written to that an argument has in common with others."""
        for slot, i in self.args if self.lent or self.outside else ():
            at = id(args[i].storage)
            shared = at in self.lent or at in self.outside
            if shared and (slot.writes or self.outside.get(at)):
                return False
        return True

    def replay(self, args: list[Any]) -> Any:
        """Run with these arguments; gives the result."""
        with self.lock:
            made = dict(self.kept)
            try:
                for leaf, i in self.dropped:
                    args[i] = None
                    if (t := leaf()) is not None:
                        t._grad = None
                for slot, i in self.args:
                    given = args[i]
                    if id(given.storage) in self.lent:  # what it gave the last time
                        with autograd.no_grad():
                            given = given.clone()
                    self.plan.bind(slot, given)
                    given.storage.version += slot.writes
                for slot in self.fresh:
                    made[slot] = Storage(self.device, self.plan.fresh(slot), slot.nbytes)
                for ref, writes in self.written:
                    if (storage := ref()) is not None:
                        storage.version += writes
                for storage in self.kept.values():
                    storage.version += 1
                done = []
                try:
                    for action in self.actions:
                        done.append(action)
                        action.run()
                    self.plan.run()
                except BaseException:
                    for action in done:
                        action.undo()
                    raise
            finally:
                self.plan.vacate()

        def give(leaf: Leaf) -> Tensor:
            if leaf.index >= 0:
                t: Tensor = args[leaf.index]
                if leaf.slot is None:
                    return t
                return leaf.over(t.storage, origin(t))
            found: Tensor | None = leaf.ref and leaf.ref()
            if found is not None:
                return found
            slot = leaf.slot
            assert slot is not None
            held = made.get(slot) or slot.ref() or Storage(self.device, slot.buffer, slot.nbytes)
            return leaf.over(held, 0)

        result, grads = mapped(self.result, give)
        for leaf, grad in zip(self.leaves, grads, strict=True):
            if (t := leaf()) is not None:
                t._grad = grad
        return result


def _fit(tensors: list[Tensor], where: Device | None, grad: bool) -> bool:
    """Whether these arguments are on the device `where`, and no gradient flows through them."""
    for t in tensors:
        if t.storage.device is not where or (grad and t.requires_grad):
            return False
    return where is None or where.type != "meta"


def _captured(
    run: Callable[[Capture], Any], taken: Capture, leaves: Leaves, entry: _Entry, reuse: bool,
    passes: Collection[str], pools: Mapping[Device, Pool],
) -> Any:  # fmt: skip
    """The result of a captured run; `entry` gets a plan, or the reason why it has none."""
    mode = capture.mode
    found = run(taken)
    result, recorder = found[0], taken.recorder
    if mode != capture.mode:
        taken.refuse("it switches a module between training and evaluation, or replaces it")
    leaves.learn(recorder, taken.fresh)
    if recorder.why is None:
        Signature(result)
        if taken.late:
            return result  # from the next call on these gradients are arguments
        # Cycles of Python's objects hold tensors that are gone in truth.
        if taken.lost() and gc.collect() >= 0 and (lost := taken.lost()):
            entry.lost = lost
        else:
            given = iter(taken.leaves)
            form = mapped(found, lambda t: next(given))
            try:
                body = _Body(taken, form, reuse, passes, pools)
            except DeviceMemoryError as error:
                entry.why = str(error)
                return result
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
      (`set_`, loading, growing) or is gone, or a module lost or exchanged a child, `fn` is captured
      anew.
    - Draws take their numbers from the generator in each call, as without `jit`.
    - A training step may be inside, whole or in parts: `backward()` fills in .grad of what it
      reaches from outside, adds to it or finds it dropped, as without `jit`, and an optimizer's
      `step()` counts, and reads its options, in each call. A result whose graph was freed inside
      needs a gradient still, and raises in a second `backward()` as without `jit`.
    - A read of values (`numpy`, `item`, `bool`, `nonzero`, printing), and a switch of grad mode
      that is not the library's own (an optimizer's step may be inside), raise CaptureError.
    - What a replay could not repeat runs as it is in every call: results (and arguments) through
      which a gradient could flow yet, `backward(create_graph=True)` into .grad, a look at
      `param_groups` or `state` of an optimizer or at .grad of an argument, optimizers without
      `rates`, tensors kept elsewhere than in the result, and what computes on two devices.
      `fn.plans` has the reason, as `why`.

    reuse_outputs: the next call may overwrite the results of this one. passes: "reuse" lets
    buffers serve several intermediates and signatures, "fold" computes what never changes once; on
    webgpu "fuse" makes one kernel of elementwise ops and what they follow, "merge" one dispatch of
    several that do not depend on each other.
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
    pools: Mapping[Device, Pool] = defaultdict(Pool)
    leaves = Leaves()

    def call(*args: Any, **kwargs: Any) -> Any:
        if capture.active and capture.capturing():
            return run(*args, **kwargs)
        grad = autograd.is_grad_enabled()
        signature = Signature(grad, get_linear_mode(), capture.mode, args, kwargs)
        known = leaves.sign(signature)
        tensors = signature.tensors
        where = tensors[0].storage.device if tensors else None
        if not _fit(tensors, where, grad):
            return run(*args, **kwargs)
        key = tuple(signature.key)
        entry = entries.get(key)
        strikes = 0
        if entry is not None and entry.is_for(signature.modules):
            body = entry.body
            if body is not None and body.is_current():
                if not body.takes(tensors):
                    return run(*args, **kwargs)
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
            lambda c: c.run(run, args, kwargs),
            Capture(where, tensors, known),
            leaves,
            entry,
            reuse_outputs,
            passes,
            pools,
        )
        if len(leaves.refs) > len(known):
            entries.clear()  # the signatures so far lack some gradients
        entries[key + leaves.key(len(known))] = entry
        return result

    call.plans = entries  # type: ignore[attr-defined]
    return functools.wraps(fn, updated=())(call)
