"""What `jit` is told of while it captures a function: every op, draw, read and switch of grad mode.

Ops, storages and reads ask `active` and tell more only where it is not zero, so that an eager op
pays for one look at a global.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rushlight.core.backends import Device, Generator, get_linear_mode
from rushlight.core.dtype import DType
from rushlight.core.errors import CaptureError
from rushlight.core.layout import Layout

if TYPE_CHECKING:
    from rushlight.core.storage import Storage
    from rushlight.core.tensor import Tensor

active = 0  # how many captures are going on, on all threads
epoch = 0  # grows with whatever may put other memory, or another behaviour, in a plan's place
# Which modules were switched between training and evaluation, the same when all are back; and how
# often one had another child in a child's place.
mode = 0
chances = 0  # grows where what got no plan may get one now
_lock = threading.Lock()
_rebuilt = itertools.count()


class Slot:
    """A buffer of a plan: to kernels, a Storage.

    kind: "arg", bound for each call; "outer", of a tensor from outside; "const", made inside from
    Python values; "temp", written by a step. writes: in-place writes of one run. fixed: holds the
    same values in every run.
    """

    __slots__ = ("address", "buffer", "fixed", "kind", "moves", "nbytes", "ref", "shift", "writes")

    def __init__(self, kind: str, storage: Storage, shift: int = 0) -> None:
        self.kind, self.nbytes, self.shift = kind, storage.nbytes, shift
        self.buffer: Any = storage.buffer
        self.address, self.writes, self.moves, self.fixed = 0, 0, storage.moves, False
        self.ref = weakref.ref(storage)


class Operand:
    """An operand of a step; its offset counts from where an argument begins."""

    __slots__ = ("dtype", "layout", "storage")

    def __init__(self, slot: Slot, dtype: DType, layout: Layout) -> None:
        if slot.shift:
            layout = Layout(layout.shape, layout.strides, layout.offset - slot.shift)
        self.storage, self.dtype, self.layout = slot, dtype, layout

    @property
    def buffer(self) -> Any:
        """The buffer that the slot has now."""
        return self.storage.buffer


class Step(NamedTuple):
    """One op as it ran; draw: the generator and how many words it gave, for seed and offset.

    mode: the linear mode it ran in.
    """

    name: str
    inputs: tuple[Operand | None, ...]
    out: Operand
    attrs: Mapping[str, Any]
    draw: tuple[Generator, int] | None
    mode: str


class Action(Protocol):
    """What Python does for each run of a plan, such as an optimizer's count of its steps."""

    def current(self) -> bool:
        """Whether a run would do what the captured one did."""

    def run(self) -> None:
        """Do it; what runs before the plan."""

    def undo(self) -> None:
        """Take `run` back, as the plan raised."""


class Recorder:
    """The steps of one run of a function on a device, and the buffers they use.

    why: what makes its calls run as they are, without a plan; None where nothing does. grads: the
    tensors from outside whose .grad the run looks at or replaces, with what it was at first, by id.
    switched: tensors that were told whether they need a gradient. actions: see `each_run`.
    """

    def __init__(self, where: Device | None = None) -> None:
        self.device = where
        self.steps: list[Step] = []
        self.slots: list[Slot] = []
        self.tensors: list[weakref.ref[Tensor]] = []
        self.views: dict[int, weakref.ref[Tensor]] = {}
        self.grads: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.switched: list[weakref.ref[Tensor]] = []
        self.actions: list[Action] = []
        self.why: str | None = None
        self._index: dict[int, Slot] = {}
        self._known: dict[int, weakref.ref[Tensor]] = {}
        self._draw: tuple[Generator, int] | None = None

    def add(self, kind: str, storage: Storage, shift: int = 0) -> Slot:
        """A slot for `storage`."""
        slot = self._index[id(storage)] = Slot(kind, storage, shift)
        self.slots.append(slot)
        return slot

    def find(self, storage: Storage) -> Slot | None:
        """The slot of `storage`, if it has one."""
        slot = self._index.get(id(storage))
        return slot if slot is not None and slot.ref() is storage else None

    def see(self, tensor: Tensor) -> Slot:
        """The slot of an operand; one that comes from outside gets it now."""
        slot = self.find(tensor.storage) or self.add("outer", tensor.storage)
        if slot.kind == "outer":
            known = self._known.get(id(tensor))
            if known is None or known() is not tensor:
                self._known[id(tensor)] = ref = weakref.ref(tensor)
                self.tensors.append(ref)
        return slot

    def graded(self, tensor: Tensor) -> None:
        """Note that .grad of `tensor` is about to be looked at or replaced."""
        view = self.views.get(id(tensor))
        slot = self.find(tensor.storage)
        kind = "outer" if slot is None else slot.kind
        made = kind in ("temp", "const") or (view is not None and view() is tensor)
        if kind == "arg" and not made:
            self.why = "it uses .grad of an argument"
        elif not made:
            self.grads.setdefault(id(tensor), (tensor, tensor._grad))

    def ran(
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
            # Python values are made ready on cpu before they go to the device, once for all runs.
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
                self.why = f"{name}_ gives a tensor from outside a history"
        given = tuple(
            None if t is None else Operand(self.see(t), t.dtype, t.layout) for t in inputs
        )
        draw, self._draw = self._draw, None
        self.steps.append(
            Step(name, given, Operand(slot, out.dtype, out.layout), attrs, draw, get_linear_mode())
        )


class _Local(threading.local):
    recorder: Recorder | None = None


_local = _Local()


@contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """Tell `recorder` what this thread does; None: nobody, for something that is no part of it."""
    global active
    before, _local.recorder = _local.recorder, recorder
    with _lock:
        active += 1
    try:
        yield
    finally:
        with _lock:
            active -= 1
        _local.recorder = before


def current() -> Recorder | None:
    """The recorder of this thread, unless there is none, or its run gets no plan anyway."""
    found = _local.recorder
    return None if found is None or found.why is not None else found


def capturing() -> bool:
    """Whether a function is being captured on this thread."""
    return _local.recorder is not None


def born(storage: Storage) -> None:
    """A storage was made."""
    found = current()
    if found is not None:
        found.add("const", storage)


def viewed(base: Tensor, view: Tensor) -> None:
    """A view of `base` was taken."""
    found = current()
    if found is not None:
        found.see(base)
        found.views[id(view)] = weakref.ref(view)


def ran(
    name: str,
    inputs: Sequence[Tensor | None],
    out: Tensor,
    attrs: Mapping[str, Any],
    inplace: bool = False,
    recorded: bool = False,
) -> None:
    """An op is about to run."""
    found = current()
    if found is not None:
        found.ran(name, inputs, out, attrs, inplace, recorded)


def owned(tensor: Tensor) -> None:
    """A tensor was made from Python values, of which nobody else has the memory."""
    found = current()
    if found is not None:
        found.see(tensor).fixed = True


def drew(generator: Generator, words: int) -> None:
    """The next op gets seed and offset of a generator."""
    found = current()
    if found is not None:
        found._draw = generator, words


def graded(tensor: Tensor) -> None:
    """The .grad of a tensor is about to be looked at or replaced."""
    found = current()
    if found is not None:
        found.graded(tensor)


def leafed(tensor: Tensor) -> None:
    """A tensor is told whether it needs a gradient."""
    found = current()
    if found is not None:
        found.switched.append(weakref.ref(tensor))


def each_run(action: Action) -> None:
    """Have every run of the plan begin with `action.run()`; this one's has been done."""
    found = current()
    if found is not None:
        found.actions.append(action)


def refuse(why: str) -> None:
    """Make no plan of what is being captured: its calls run as they are."""
    found = current()
    if found is not None:
        found.why = why


def moving(tensor: Tensor, target: Device) -> None:
    """A tensor is about to be copied to another device, by way of its values."""
    found = current()
    if found is not None and not is_fixed(found, tensor):
        found.why = f"it moves a tensor from {tensor.device} to {target}"


def is_fixed(found: Recorder, tensor: Tensor) -> bool:
    """Whether a tensor was made from Python values, and nothing else."""
    slot = found.find(tensor.storage)
    return slot is not None and slot.kind == "const" and slot.fixed


def copied(tensor: Tensor, copy: Tensor) -> None:
    """A tensor was copied to another device."""
    found = current()
    if found is not None and is_fixed(found, tensor):
        found.see(copy).fixed = True


def read(tensor: Tensor) -> None:
    """Values of `tensor` are about to go to Python: CaptureError, as they change with each call."""
    found = current()
    if found is None or is_fixed(found, tensor):
        return
    if found.device not in (None, tensor.storage.device):
        found.why = f"it reads from {tensor.storage.device}"
        return
    slot = found.find(tensor.storage)
    if slot is None or slot.kind != "const":
        found.why = "a read"
        raise CaptureError(
            f"jit: {_line()} reads the values of a tensor of shape {tensor.shape}, which a replay "
            "could not do anew",
            hint="leave out what prints, compares, counts or indexes by values (numpy, item, "
            "tolist, bool, nonzero, a mask as index), or do it outside the captured function",
        )


def switched(enabled: bool) -> None:
    """Grad mode is about to change: CaptureError, unless the library does so for itself."""
    found = current()
    if found is not None and not _module(sys._getframe(2)).startswith("rushlight."):
        found.why = "a switch"
        raise CaptureError(
            f"jit: {_line()} switches grad mode {'on' if enabled else 'off'} inside the captured "
            "function",
            hint="switch it around the call",
        )


def _module(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _line() -> str:
    """The innermost line that is not the library's; a model's, where the function is one."""
    frame: Any = sys._getframe(2)
    model = None
    while frame is not None:
        name = _module(frame)
        if name == "rushlight.core.jit" and model is not None:
            frame = model
            break
        if not name.startswith(("rushlight.", "contextlib", "functools")):
            break
        if model is None and name.startswith("rushlight.models."):
            model = frame
        frame = frame.f_back
    return "fn" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def moved(storage: Storage) -> None:
    """A tensor leaves `storage` for another, or another tensor takes its place in a module."""
    global epoch
    storage.moves += 1
    epoch += 1


def retrained(module: object) -> None:
    """A module was switched between training and evaluation."""
    global mode
    mode ^= hash(("mode", id(module)))


def rebuilt() -> None:
    """A module lost a child, or has another in its place: no plan from before serves any more."""
    global mode
    mode ^= hash(("child", next(_rebuilt)))


def reconsider() -> None:
    """Something changed after which a function that got no plan may get one."""
    global chances
    chances += 1
