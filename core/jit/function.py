"""jit: trace a function once per signature, compile the graph, and replay it."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, overload

from rushlight.core.backends import (
    HOST,
    Device,
    Executable,
    SharedBuffers,
    get_linear_mode,
)
from rushlight.core.basis.errors import DeviceMemoryError
from rushlight.core.basis.graph import PASSES, Graph
from rushlight.core.jit import capture
from rushlight.core.jit.grad_slots import GradSlots
from rushlight.core.jit.pytree import OutputSpec, Signature, mapped, origin
from rushlight.core.jit.tracing import Tracer
from rushlight.core.nn.module import Module
from rushlight.core.tensor import autograd, interpreter_stack
from rushlight.core.tensor.grad_mode import autocast_state
from rushlight.core.tensor.saving import is_anomaly_enabled
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor

Fn = TypeVar("Fn", bound=Callable[..., Any])
_STRIKES = 3  # useless captures of one signature before it runs eagerly
_SIGNATURES = 256  # the most signatures that one function keeps
_limit = [2**28]
_clock = itertools.count()
_guard = threading.Lock()
_entries: weakref.WeakSet[_Entry] = weakref.WeakSet()


def set_executable_memory(nbytes: int) -> None:
    """Set the most bytes that all executables of `jit` may hold together (default: 256 MiB).

    Above it the least recently used executables are dropped. ValueError below zero.
    """
    if nbytes < 0:
        raise ValueError(f"set_executable_memory: {nbytes} must not be negative")
    _limit[0] = nbytes
    capture.retry_refused()  # what was too large may fit now
    _evict()


def executable_memory() -> int:
    """The most bytes that all executables may hold together."""
    return _limit[0]


def _evict() -> None:
    with _guard:
        compiled = sorted((e for e in _entries if e.body is not None), key=lambda e: e.used)
    while compiled and _held(compiled) > _limit[0]:
        compiled.pop(0).body = None


def _held(entries: list[_Entry]) -> int:
    """Bytes that the executables of `entries` hold; a buffer that several share counts once."""
    executables = [body.executable for e in entries if (body := e.body) is not None]
    shared: dict[int, int] = {id(b): b.nbytes for x in executables for b in x.shared.values()}
    return sum(x.nbytes for x in executables) + sum(shared.values())


class _Entry:
    """A function's record of one signature: an executable, or the reason why it has none."""

    def __init__(self, strikes: int, modules: list[Module]) -> None:
        self.strikes = strikes
        self.modules = [weakref.ref(m) for m in modules]
        self.why: str | None = None
        self.lost = "a tensor from outside was freed, or the executable exceeds the memory bound"
        self.replays = 0
        self.used = next(_clock)
        self.retry_generation = capture.retry_generation
        self.body: _Body | None = None
        with _guard:
            _entries.add(self)

    @property
    def nbytes(self) -> int:
        """Bytes that the executable holds, shared ones included."""
        return _held([self])

    def is_for(self, modules: list[Module]) -> bool:
        """Whether the entry is valid and was made with these modules, not others of the same id."""
        return (self.why is None or self.retry_generation == capture.retry_generation) and all(
            r() is m for r, m in zip(self.modules, modules, strict=True)
        )


class _Body:
    """An executable with its bindings: arguments, results and tensors from outside.

    result: how a replay makes the function's result, and the .grad of each of `leaves` after it.
    """

    def __init__(
        self,
        tracer: Tracer,
        result: Any,
        reuse: bool,
        passes: Collection[str],
        pools: Mapping[Device, SharedBuffers],
    ) -> None:
        hooks = tracer.hooks
        self.device = hooks.device or HOST
        pool = pools[self.device]
        self.lock = pool.lock
        self.storage_generation, self.grad = capture.storage_generation, autograd.is_grad_enabled()
        self.result, self.leaves, self.actions = result, tracer.touched, hooks.actions
        form = result[0]
        self.is_list = type(form) is list and all(isinstance(x, OutputSpec) for x in form)
        self.is_list &= not self.leaves
        used = {x.storage for s in hooks.steps for x in (*s.inputs, s.out) if x is not None}
        self.args = [(s, i) for s, i in tracer.slots if s in used]
        # A gradient that the run drops unread is freed before the run allocates memory.
        shown = {x.index for x in tracer.outputs}
        needed: set[Any] = used | {x.slot for x in tracer.outputs}
        self.dropped = [
            (leaf, i)
            for leaf, i in zip(tracer.touched, tracer.starts, strict=False)
            if i >= 0 and i not in shown and tracer.of[i] not in needed
        ]
        result_slots = {
            x.slot for x in tracer.outputs if x.slot is not None and x.slot.kind == "temp"
        }
        # `reuse_outputs` applies to results only: gradients are never overwritten.
        reused = result_slots - {x.slot for x in result[1] if x is not None} if reuse else set()
        self.fresh = list(result_slots - reused)
        graph = Graph(
            steps=tuple(hooks.steps),
            slots=tuple(hooks.slots),
            variable=frozenset((*self.fresh, *(s for s, _ in self.args))),
            results=frozenset(result_slots),
            passes=frozenset(passes),
        )
        self.executable: Executable = self.device.backend.compile(graph, pool)
        self.kept = {s: Storage(self.device, s.buffer, s.nbytes) for s in reused}
        self.outer = [s for s in hooks.slots if s.kind == "outer"]
        self.written = [(s.ref, s.writes) for s in self.outer if s.writes]
        self.lent = {id(storage) for storage in self.kept.values()}
        # An argument may be one of these only where the executable runs its steps in order.
        apart = [] if self.executable.in_order else self.outer
        self.outside = {id(s.ref()): s.writes for s in apart}
        inside = {id(t) for ref in hooks.views.values() if (t := ref()) is not None}
        self.tensors = [
            (r, t.requires_grad)
            for r in hooks.tensors
            if (t := r()) is not None and id(t) not in inside
        ]
        self.watched: list[Any] = []

    def watch(self, entry: _Entry) -> None:
        """Drop the executable when a tensor or storage from outside that it uses is freed."""
        me = weakref.ref(entry)

        def end(_: Any) -> None:
            body = me()
            if body is not None:
                body.body = None

        reached = [s.ref() for s in self.outer] + [r() for r, _ in self.tensors]
        self.watched = [weakref.ref(x, end) for x in reached if x is not None]

    def is_current(self) -> bool:
        """Whether tensors from outside have the same memory and requires_grad as before."""
        generation = capture.storage_generation
        if not self.executable.alive:
            return False
        if self.storage_generation != generation:
            for slot in self.outer:
                storage = slot.ref()
                if storage is None or storage.moves != slot.moves:
                    return False
            self.storage_generation = generation
        if self.grad or self.leaves:
            for ref, needs in self.tensors:
                if (t := ref()) is not None and t.requires_grad is not needs:
                    return False
        return all(action.current() for action in self.actions)

    def accepts(self, args: Sequence[Tensor]) -> bool:
        """Whether no argument shares written memory with a result or a tensor from outside."""
        for slot, i in self.args if self.lent or self.outside else ():
            storage_id = id(args[i].storage)
            shared = storage_id in self.lent or storage_id in self.outside
            if shared and (slot.writes or self.outside.get(storage_id)):
                return False
        return True

    def replay(self, args: list[Any]) -> Any:
        """Run with these arguments and return the function's result."""
        with self.lock:
            memory = dict(self.kept)
            try:
                for leaf, i in self.dropped:
                    args[i] = None
                    if (t := leaf()) is not None:
                        t._grad = None
                for slot, i in self.args:
                    argument = args[i]
                    if id(argument.storage) in self.lent:  # a result of the previous call
                        with autograd.no_grad():
                            argument = argument.clone()
                    self.executable.bind(slot, argument)
                    argument.storage.version += slot.writes
                for slot in self.fresh:
                    memory[slot] = Storage(self.device, self.executable.fresh(slot), slot.nbytes)
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
                    self.executable.run()
                except BaseException:
                    for action in done:
                        action.undo()
                    raise
            finally:
                self.executable.vacate()

        def give(spec: OutputSpec) -> Tensor:
            if spec.index >= 0:
                t: Tensor = args[spec.index]
                if spec.slot is None:
                    return t
                return spec.over(t.storage, origin(t))
            outer: Tensor | None = spec.ref and spec.ref()
            if outer is not None:
                return outer
            slot = spec.slot
            assert slot is not None
            base = memory.get(slot) or slot.ref() or Storage(self.device, slot.buffer, slot.nbytes)
            return spec.over(base, 0)

        if self.is_list:
            return [give(spec) for spec in self.result[0]]
        result, grads = mapped(self.result, give)
        for leaf, grad in zip(self.leaves, grads, strict=True):
            if (t := leaf()) is not None:
                t._grad = grad
        return result


class _Latest:
    """A call of tensors alone, of which the next one may be a repetition: no signature is made.

    state: the modes that it ran in. looks: what counts of each tensor.
    """

    def __init__(self, state: tuple[Any, ...], tensors: list[Tensor], entry: _Entry) -> None:
        self.state, self.entry = state, entry
        self.looks = [(t.layout, t.dtype, t.storage.device) for t in tensors]

    @staticmethod
    def may_be(args: tuple[Any, ...], tensors: list[Tensor]) -> bool:
        """Whether the arguments are these tensors, of memory of their own, and nothing else."""
        apart = len({id(t.storage) for t in tensors}) == len(tensors) == len(args)
        return apart and all(t.dtype.kind != "q" for t in tensors)

    def is_like(self, state: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
        """Whether a call has the same signature."""
        if len(args) != len(self.looks) or self.state != state:
            return False
        places = set()
        for t, (layout, dtype, device) in zip(args, self.looks, strict=True):
            if not isinstance(t, Tensor) or t.dtype is not dtype or t.layout != layout:
                return False
            if t.storage.device is not device or t.needs_grad or t.is_view:
                return False
            places.add(id(t.storage))
        return len(places) == len(args)


def _fit(tensors: list[Tensor], where: Device | None, grad: bool) -> bool:
    """Whether these arguments are on the device `where`, and no gradient flows through them."""
    for t in tensors:
        if t.storage.device is not where or (grad and t.requires_grad):
            return False
    return where is None or where.type != "meta"


def _captured(
    run: Callable[[Tracer], Any],
    tracer: Tracer,
    grads: GradSlots,
    entry: _Entry,
    reuse: bool,
    passes: Collection[str],
    pools: Mapping[Device, SharedBuffers],
) -> Any:
    """The result of a traced run; `entry` gets an executable, or the reason why it has none."""
    before = capture.module_state
    traced = run(tracer)
    result, hooks = traced[0], tracer.hooks
    if before != capture.module_state:
        tracer.refuse("it switches a module between training and evaluation, or replaces it")
    grads.learn(hooks, tracer.fresh)
    if hooks.why is None:
        Signature(result)
        if tracer.late:
            return result  # these gradients are arguments from the next call on
        # Reference cycles may still hold tensors that the function dropped.
        if tracer.lost() and gc.collect() >= 0 and (lost := tracer.lost()):
            entry.lost = lost
        else:
            outputs = iter(tracer.outputs)
            form = mapped(traced, lambda t: next(outputs))
            try:
                body = _Body(tracer, form, reuse, passes, pools)
            except DeviceMemoryError as error:
                entry.why = str(error)
                return result
            body.watch(entry)
            entry.body = body
            _evict()
    else:
        entry.why = hooks.why
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
    """`fn` with its ops captured in the first call of a signature and replayed in later calls.

    Arguments and results are nested dicts, lists and tuples of tensors and Python values; a Module
    may be an argument; other types raise TypeError. A signature holds shape, strides, dtype, device
    and requires_grad of each tensor, the Python values, and grad mode.

    - `fn` reads other Python objects during capture only. Tensors found in them (parameters, a
      cache) are captured with their memory: a replay reads their present values and repeats the
      writes of `fn` to them. `fn` is captured again where such a tensor got other memory (`set_`,
      loading, growing) or was freed, or where a module lost or replaced a child.
    - Random ops draw from the generator in each call, as without `jit`.
    - `fn` may hold a training step or a part of one. `backward()` sets or adds to .grad of tensors
      from outside, as without `jit`. An optimizer's `step()` counts and reads its options in each
      call. A result whose graph was freed in `fn` still requires a gradient, and a second
      `backward()` raises, as without `jit`.
    - CaptureError is raised for a read of values (`numpy`, `item`, `bool`, `nonzero`, printing) and
      for a switch of grad mode, except inside an optimizer's step.
    - Calls that a replay could not repeat run eagerly: results or arguments through which a
      gradient could still flow, `backward(create_graph=True)` into .grad, a read of `param_groups`
      or `state` of an optimizer or of .grad of an argument, optimizers without `rates`, tensors
      kept outside of the result, and computing on two devices. `why` of an entry of
      `fn.executables` is the reason.

    reuse_outputs: the next call may overwrite the results of this one. passes: "reuse" shares
    buffers between intermediates and between signatures; "fold" computes constant steps once. On
    webgpu "fuse" joins elementwise ops with the op before them into one kernel, and "merge" joins
    independent dispatches into one.
    Executables hold memory: see `set_executable_memory`. A captured function that another one calls
    becomes a part of it; one that is called within `vmap` runs eagerly.

    Usable as `rl.jit(fn)`, `@rl.jit` and `@rl.jit(reuse_outputs=True)`.
    """
    if unknown := set(passes) - PASSES:
        raise ValueError(
            f"jit: pass {min(unknown)!r} is not supported; supported: {', '.join(sorted(PASSES))}"
        )
    if fn is None:
        return functools.partial(jit, reuse_outputs=reuse_outputs, passes=passes)
    if not callable(fn):
        raise TypeError(f"jit: {fn!r} is not callable")
    if any(
        f(fn)
        for f in (
            inspect.isgeneratorfunction,
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
        )
    ):
        raise TypeError(f"jit: {fn!r} runs in steps; jit the function that computes one step")
    run: Callable[..., Any] = fn
    entries: dict[Any, _Entry] = {}
    pools: Mapping[Device, SharedBuffers] = defaultdict(SharedBuffers)
    grads = GradSlots()
    latest: list[_Latest | None] = [None]

    def call(*args: Any, **kwargs: Any) -> Any:
        traced = capture.active and capture.capturing()
        batched = interpreter_stack.active and interpreter_stack.innermost()
        if traced or batched or is_anomaly_enabled():
            return run(*args, **kwargs)
        grad = autograd.is_grad_enabled()
        state = grad, get_linear_mode(), capture.module_state, autocast_state()
        recent = latest[0]
        if recent is not None and entries and not kwargs and recent.is_like(state, args):
            body = recent.entry.body
            if body is not None and body.is_current() and body.accepts(args):
                recent.entry.replays += 1
                recent.entry.used = next(_clock)
                return body.replay(list(args))
        signature = Signature(*state, args, kwargs)
        known = grads.sign(signature)
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
                if not body.accepts(tensors):
                    return run(*args, **kwargs)
                entry.replays += 1
                entry.used = next(_clock)
                if not known and not kwargs and _Latest.may_be(args, tensors):
                    latest[0] = _Latest(state, tensors, entry)
                return body.replay(tensors)
            if entry.why is not None:
                return run(*args, **kwargs)
            strikes = 0 if entry.replays else entry.strikes + 1
            if strikes == _STRIKES:
                entry.why = entry.lost
                return run(*args, **kwargs)
        latest[0] = None
        entries.pop(key, None)
        if len(entries) >= _SIGNATURES:
            entries.pop(next(iter(entries)))
        entry = _Entry(strikes, signature.modules)
        result = _captured(
            lambda c: c.run(run, args, kwargs),
            Tracer(where, tensors, known),
            grads,
            entry,
            reuse_outputs,
            passes,
            pools,
        )
        if len(grads.refs) > len(known):
            entries.clear()  # the earlier signatures lack some gradients
        entries[key + grads.key(len(known))] = entry
        return result

    call.executables = entries  # type: ignore[attr-defined]
    return functools.wraps(fn, updated=())(call)


capture.jit_function.append(jit)
