"""The hooks that ops, storages and reads call while `jit` traces a function.

A caller checks `active` first and calls a hook only when it is not zero. So an eager op costs one
read of a global more.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rushlight.core.backends import Device, Generator, get_linear_mode
from rushlight.core.basis.errors import CaptureError
from rushlight.core.basis.graph import Kind, Slot, Step

if TYPE_CHECKING:
    from rushlight.core.tensor.storage import Storage
    from rushlight.core.tensor.tensor import Tensor

active = 0  # the number of running captures, on all threads
gradient_generation = 0  # grows when a tensor that is no view begins to need a gradient, or ends
storage_generation = 0  # grows when a tensor moves to another storage, or joins a module
# A hash of the modules that were switched between training and evaluation (it returns to its old
# value when all are switched back) and of every child that was replaced.
module_state = 0
attributes = 0  # grows when an attribute of a module is set
retry_generation = 0  # grows when capturing a function that got no executable may succeed
_lock = threading.Lock()
_NOTHING: Mapping[str, Any] = {}
_rebuilt = itertools.count()


class Action(Protocol):
    """Python code that every replay runs too, such as an optimizer's count of its steps."""

    def current(self) -> bool:
        """Whether a replay would have the same effect as the traced run."""

    def run(self) -> None:
        """Run the code. It runs before the executable."""

    def undo(self) -> None:
        """Undo `run`, since the executable raised."""


class TraceHooks:
    """The record of one traced run: the steps on its device, and the slots they use.

    why: the reason why calls run without an executable, or None. grads: the tensors from outside
    whose .grad the run reads or replaces, each with its first .grad, by id. switched: the tensors
    whose requires_grad was set. actions: see `each_run`. whole: ops of many steps are wanted,
    and views that change nothing at the sizes of this run.
    """

    whole = False

    def __init__(self, where: Device | None = None) -> None:
        self.device = where
        self.steps: list[Step] = []
        self.slots: list[Slot] = []
        self.tensors: list[weakref.ref[Tensor]] = []
        self.views: dict[int, weakref.ref[Tensor]] = {}
        self.grads: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.switched: list[weakref.ref[Tensor]] = []
        self.actions: list[Action] = []
        self.casts: dict[Any, Any] = {}  # of parameters, by autocast
        self.why: str | None = None
        self.lenient = False  # a read or a switch gives a reason in place of an error
        self._index: dict[int, Slot] = {}
        self._known: dict[int, weakref.ref[Tensor]] = {}
        self._draw: tuple[Generator, int] | None = None

    def add(self, kind: Kind, storage: Storage, shift: int = 0) -> Slot:
        """A slot for `storage`."""
        slot = self._index[id(storage)] = Slot(kind, storage, shift)
        self.slots.append(slot)
        return slot

    def find(self, storage: Storage) -> Slot | None:
        """The slot of `storage`, or None."""
        slot = self._index.get(id(storage))
        return slot if slot is not None and slot.ref() is storage else None

    def see(self, tensor: Tensor) -> Slot:
        """The slot of an operand; a tensor from outside gets its slot here."""
        slot = self.find(tensor.storage) or self.add("outer", tensor.storage)
        if slot.kind == "outer":
            known = self._known.get(id(tensor))
            if known is None or known() is not tensor:
                self._known[id(tensor)] = ref = weakref.ref(tensor)
                self.tensors.append(ref)
        return slot

    def grad_used(self, tensor: Tensor) -> None:
        """Note that .grad of `tensor` is about to be read or replaced."""
        view = self.views.get(id(tensor))
        slot = self.find(tensor.storage)
        kind = "outer" if slot is None else slot.kind
        inside = kind in ("temp", "const") or (view is not None and view() is tensor)
        if kind == "arg" and not inside:
            self.why = "it uses .grad of an argument"
        elif not inside:
            self.grads.setdefault(id(tensor), (tensor, tensor._grad))

    def view_taken(self, base: Tensor, view: Tensor, name: str, attrs: Mapping[str, Any]) -> None:
        """Note a view of `base` by the op `name`, or an alias of it where that is empty."""
        self.see(base)
        self.views[id(view)] = weakref.ref(view)

    def may_read(self, tensor: Tensor) -> bool:
        """Whether values that were not made from Python values alone may be read all the same."""
        return False

    def op_runs(
        self,
        name: str,
        inputs: Sequence[Tensor | None],
        out: Tensor,
        attrs: Mapping[str, Any],
        inplace: bool,
        recorded: bool,
    ) -> None:
        """Note an op that is about to run."""
        self.device = self.device or out.storage.device
        if out.storage.device is not self.device:
            # Python values are prepared on cpu before they move to the device, once for all runs.
            ready = all(t is not None and is_fixed(self, t) for t in inputs) and not inplace
            if ready and self._draw is None:
                self.see(out).fixed = True
                return
            self.why = f"{name} runs on {out.storage.device}"
            return
        slot = self.see(out)
        if not inplace:
            slot.kind, slot.buffer = "temp", None
        elif slot.kind == "const":
            self.why = f"{name}_ writes over a tensor made from Python values"
        elif slot.kind != "temp":
            slot.writes += 1
            if recorded:
                self.why = f"{name}_ gives an autograd history to a tensor from outside"
        operands = tuple(None if t is None else self.see(t).view(t.layout, t.dtype) for t in inputs)
        draw, self._draw = self._draw, None
        result = slot.view(out.layout, out.dtype)
        self.steps.append(Step(name, operands, result, attrs, draw, get_linear_mode()))


class _Local(threading.local):
    hooks: TraceHooks | None = None


_local = _Local()


@contextmanager
def tracing(hooks: TraceHooks | None) -> Iterator[None]:
    """Report this thread's ops to `hooks`. With None, nothing is reported."""
    global active
    before, _local.hooks = _local.hooks, hooks
    with _lock:
        active += 1
    try:
        yield
    finally:
        with _lock:
            active -= 1
        _local.hooks = before


def current() -> TraceHooks | None:
    """The hooks of this thread; None if nothing is traced or the run is refused already."""
    hooks = _local.hooks
    return None if hooks is None or hooks.why is not None else hooks


def splits() -> bool:
    """Whether ops of many steps should be separate ones: a capture joins them by itself."""
    hooks = _local.hooks
    return bool(active) and (hooks is None or not hooks.whole)


def follows_sizes() -> bool:
    """Whether views that change nothing at these sizes are wanted as ops all the same."""
    hooks = _local.hooks
    return bool(active) and hooks is not None and hooks.whole


def capturing() -> bool:
    """Whether a function is being captured on this thread."""
    return _local.hooks is not None


def storage_made(storage: Storage) -> None:
    """A storage was made."""
    hooks = current()
    if hooks is not None:
        hooks.add("const", storage)


def view_taken(
    base: Tensor, view: Tensor, name: str = "", attrs: Mapping[str, Any] = _NOTHING
) -> None:
    """A `view` of `base` was made by the op `name` of these `attrs`; without a name, an alias.

    It raises nothing.
    """
    hooks = current()
    if hooks is not None:
        hooks.view_taken(base, view, name, attrs)


def op_runs(
    name: str,
    inputs: Sequence[Tensor | None],
    out: Tensor,
    attrs: Mapping[str, Any],
    inplace: bool = False,
    recorded: bool = False,
) -> None:
    """An op is about to run.

    `name` is the op's, `inputs` and `out` its tensors, `attrs` its attributes; `inplace`: it writes
    to its first input; `recorded`: autograd notes it. Raises CaptureError for what a replay cannot
    repeat.
    """
    hooks = current()
    if hooks is not None:
        hooks.op_runs(name, inputs, out, attrs, inplace, recorded)


def made_from_values(tensor: Tensor) -> None:
    """A tensor was made from Python values, in memory of its own."""
    hooks = current()
    if hooks is not None:
        hooks.see(tensor).fixed = True


def numbers_drawn(generator: Generator, words: int) -> None:
    """The next op draws from a generator and gets its seed and offset."""
    hooks = current()
    if hooks is not None:
        hooks._draw = generator, words


def grad_used(tensor: Tensor) -> None:
    """The .grad of a tensor is about to be read or replaced."""
    hooks = current()
    if hooks is not None:
        hooks.grad_used(tensor)


def requires_grad_set(tensor: Tensor) -> None:
    """The requires_grad of a tensor was set."""
    hooks = current()
    if hooks is not None:
        hooks.switched.append(weakref.ref(tensor))


def each_run(action: Action) -> None:
    """Run `action.run()` before every replay. The caller has run it for the traced run."""
    hooks = current()
    if hooks is not None:
        hooks.actions.append(action)


jit_function: list[Callable[[Any], Any]] = []  # filled by function.py, which lies above


def replayed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which `jit` captures from its first call on: few messages in place of many ops."""
    jitted: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not jitted:
            jitted.append(jit_function[0](fn) if jit_function else fn)
        return jitted[0](*args)

    return call


def refuse(why: str) -> None:
    """Make no executable of the traced run; calls with its signature run eagerly."""
    hooks = current()
    if hooks is not None:
        hooks.why = why


def transfer_begins(tensor: Tensor, target: Device) -> None:
    """A tensor is about to be copied to another device through the host."""
    hooks = current()
    if hooks is not None and not is_fixed(hooks, tensor):
        hooks.why = f"it moves a tensor from {tensor.device} to {target}"


def is_fixed(hooks: TraceHooks, tensor: Tensor) -> bool:
    """Whether a tensor was made from Python values only."""
    slot = hooks.find(tensor.storage)
    return slot is not None and slot.kind == "const" and slot.fixed


def transfer_done(tensor: Tensor, copy: Tensor) -> None:
    """A tensor was copied to another device."""
    hooks = current()
    if hooks is not None and is_fixed(hooks, tensor):
        hooks.see(copy).fixed = True


def values_read(tensor: Tensor) -> None:
    """Python is about to read values of `tensor`: CaptureError, as they differ in each call."""
    hooks = current()
    if hooks is None or is_fixed(hooks, tensor) or hooks.may_read(tensor):
        return
    if hooks.device not in (None, tensor.storage.device):
        hooks.why = f"it reads from {tensor.storage.device}"
        return
    slot = hooks.find(tensor.storage)
    if slot is None or slot.kind != "const":
        hooks.why = f"{line()} reads the values of a tensor"
        if hooks.lenient:
            return
        raise CaptureError(
            f"jit: {line()} reads the values of a tensor of shape {tensor.shape}; a replay cannot "
            "repeat a read",
            hint="remove the code that prints, compares, counts or indexes by values (numpy, item, "
            "tolist, bool, nonzero, a mask as index), or move it out of the captured function",
        )


def grad_mode_switched(enabled: bool) -> None:
    """Grad mode is about to change: CaptureError, unless the library itself changes it."""
    hooks = current()
    if hooks is not None and not _module(sys._getframe(2)).startswith("rushlight."):
        hooks.why = f"{line()} switches grad mode"
        if hooks.lenient:
            return
        raise CaptureError(
            f"jit: {line()} switches grad mode {'on' if enabled else 'off'} inside the captured "
            "function",
            hint="switch it around the call",
        )


def _module(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", ""))


def line() -> str:
    """The innermost line outside the library; a line of a model if the function is a model."""
    frame: Any = sys._getframe(2)
    model = None
    while frame is not None:
        name = _module(frame)
        if name == "rushlight.core.jit.function" and model is not None:
            frame = model
            break
        if not name.startswith(("rushlight.", "contextlib", "functools")):
            break
        if model is None and name.startswith("rushlight.models."):
            model = frame
        frame = frame.f_back
    return "fn" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def memory_replaced(storage: Storage) -> None:
    """A tensor moved from `storage` to another, or was replaced in its module."""
    global storage_generation
    storage.moves += 1
    storage_generation += 1


def memory_added() -> None:
    """A module got a tensor or a child where it had none."""
    global storage_generation
    storage_generation += 1


def module_switched(module: object) -> None:
    """A module was switched between training and evaluation."""
    global module_state
    module_state ^= hash(("mode", id(module)))


def state_changed(before: object, after: object) -> None:
    """What a module computes changed from one state to another; both are told by hashable values.

    Switching back makes earlier executables valid again.
    """
    global module_state
    module_state ^= hash(("state", before)) ^ hash(("state", after))


def child_replaced() -> None:
    """A module lost or replaced a child: earlier executables are invalid."""
    global module_state
    module_state ^= hash(("child", next(_rebuilt)))


def retry_refused() -> None:
    """Capturing a function that got no executable may succeed now."""
    global retry_generation
    retry_generation += 1
