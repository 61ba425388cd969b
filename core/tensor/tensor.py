"""Tensor: a Storage, a layout and a dtype on a device, with the ops as methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.core import ops
from rushlight.core.backends import HOST, KINDS, Device
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import (
    DType,
    as_dtype,
    bool_,
    complex64,
    get_default_dtype,
    int64,
)
from rushlight.core.basis.errors import (
    BlockingReadError,
    CaptureError,
    DeviceError,
    ShapeError,
    absent,
)
from rushlight.core.basis.layout import Layout, Shape
from rushlight.core.jit import capture
from rushlight.core.tensor import autograd, interpreter_stack, op, sweep
from rushlight.core.tensor.history import ALIAS, History
from rushlight.core.tensor.op import Context, Meta, Op, rule
from rushlight.core.tensor.printing import format_tensor
from rushlight.core.tensor.quantizing import quantized
from rushlight.core.tensor.storage import Storage, check_requiring


class Tensor(History):
    """An array of one dtype on one device; views share its Storage.

    Make one with `rl.tensor`, `rl.zeros`, `rl.from_numpy` and the like; `Tensor(2, 3)` has these
    sizes, `Tensor([1, 2])` these values, both in the default dtype on cpu. Operators and methods
    are the functions of the same name, with the tensor as first argument.

    `storage`, `dtype`, `layout` and `more` are what ops pass, or sizes, or values. Raises TypeError
    for other arguments.
    """

    __slots__ = ("storage", "__weakref__")
    level = 0  # of the vmap that it belongs to
    __hash__ = object.__hash__
    __array_priority__ = 1000  # `array * tensor` calls our operator, not NumPy's

    def __init__(
        self, storage: Any = None, dtype: Any = None, layout: Any = None, *more: int
    ) -> None:
        if layout.__class__ is not Layout:  # torch's constructor: sizes, or values
            from rushlight.core.tensor.convert import of_sizes_or_values  # it imports this module

            sizes_or_values = tuple(v for v in (storage, dtype, layout, *more) if v is not None)
            like = of_sizes_or_values(get_default_dtype(), sizes_or_values)
            storage, dtype, layout = like.storage, like.dtype, like.layout
        self.dtype, self.layout, self.storage = dtype, layout, storage
        self.needs_grad = False
        self._grad: Tensor | None = None
        self.node: autograd.Node | None = None
        self.is_view = False
        self.frozen_view = False
        self._stamp: int | None = storage.history

    @staticmethod
    def from_buffer(buffer: Any, dtype: DType | str, shape: Sequence[int]) -> Tensor:
        """Wrap bytes (an array of uint8, a memoryview, ...) without a copy, on cpu.

        The bytes are row-major elements of any dtype. ValueError where the size does not fit.

        `buffer` is read as `dtype` in `shape`.
        """
        kind, layout = as_dtype(dtype), Layout.contiguous(shape)
        if (layout.shape[-1] if layout.shape else 1) % kind.block:
            raise ShapeError(
                f"from_buffer: the last dim of {layout.shape} is not a whole number of "
                f"{kind.name} blocks of {kind.block}"
            )
        data = np.frombuffer(buffer, np.uint8)
        need = kind.nbytes(layout.numel)
        if data.size != need:
            raise ShapeError(
                f"from_buffer: {kind.name} of shape {layout.shape} takes {need} bytes, the "
                f"buffer has {data.size}"
            )
        cpu = _device("cpu")
        return Tensor(Storage(cpu, cpu.backend.upload(data, kind), need), kind, layout)

    # State that autograd and the ops use.

    @property
    def buffer(self) -> Any:
        """The backend's buffer."""
        return self.storage.buffer

    @property
    def device(self) -> Device:
        """The device that holds the elements."""
        return self.storage.device

    def alias(self, layout: Layout) -> Tensor:
        """A tensor over the same memory, without history."""
        return Tensor(self.storage, self.dtype, layout)

    def rejoin(self, node: autograd.Node) -> Tensor:
        """An alias with `node` as its history: for an output that a gradient rule saved."""
        out = self.alias(self.layout)
        out.node, out.needs_grad, out._stamp = node, True, None
        return out

    def alias_of(self, leaf: Tensor) -> Tensor:
        """An alias with the values of `self` whose gradient is that of `leaf`."""
        out = self.alias(self.layout)
        ALIAS.record(out, (leaf,), {})
        return out

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` summed for this leaf, of its shape; None before that."""
        if capture.active:
            capture.grad_used(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if capture.active:
            capture.grad_used(self)
        if value is not None:
            if not isinstance(value, Tensor) and not getattr(value, "is_sparse", False):
                raise TypeError(f"grad: {type(value).__name__} is neither a Tensor nor None")
            if (value.shape, value.device) != (self.shape, self.device):
                raise ShapeError(
                    f"grad: {value.shape} on {value.device} does not fit the tensor, "
                    f"{self.shape} on {self.device}"
                )
        self._grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether `backward` fills in `.grad` of this leaf; returns the tensor."""
        if requires_grad and self.dtype.kind not in "fc":
            raise TypeError(f"requires_grad: {self.dtype.name} is not a floating dtype")
        check_requiring(self.storage, requires_grad)
        if self.grad_fn is not None:
            if not requires_grad:
                self.requires_grad = False  # raises
            return self
        if self.needs_grad and not requires_grad:
            capture.retry_refused()
        if capture.active and self.needs_grad is not requires_grad:
            capture.requires_grad_set(self)
        capture.gradient_generation += 1
        self.needs_grad = bool(requires_grad)
        return self

    def detach(self) -> Tensor:
        """A tensor of the same memory without history; no gradient flows through it."""
        out = self.alias(self.layout)
        if capture.active:
            capture.view_taken(self, out)
        return out

    @property
    def data(self) -> Tensor:
        """`detach()`; assigning takes over the memory, shape and dtype of another tensor."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        self.set_(value)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Iterable[Tensor] | None = None,
    ) -> None:
        """Add to `.grad` of every leaf that this tensor was computed from.

        gradient: of the tensor's shape; optional for one element. See `rl.autograd`.

        `retain_graph` keeps what backward needs, by default where `create_graph` lets gradients be
        differentiated again. `inputs`: the leaves to add to, all unless set. Raises RuntimeError
        for several elements without gradient, where no gradient is recorded, and for a graph that
        was freed.
        """
        sweep.backward([self], [gradient], retain_graph, create_graph, inputs=inputs)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A name that is not there: AttributeError with those that are near."""
            if name.startswith("_") or name in History.__slots__:  # one that is not set
                raise AttributeError(f"'Tensor' object has no attribute {name!r}")
            raise absent("Tensor", name, (n for n in dir(type(self)) if n[0] != "_"))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("a 0-d tensor cannot be iterated over")
        return iter(self.unbind(0))

    def __reversed__(self) -> Tensor:
        """The tensor with every dim turned round, as torch has it; `reversed(x)` gives it."""
        return self.flip(*range(self.ndim)) if self.ndim else self

    def __repr__(self) -> str:
        notes = []
        if self.device.type == "meta":
            notes.append("device='meta'")
        # An empty tensor shows no number, so its dtype is named.
        if self.dtype is not get_default_dtype() and not (
            self.dtype in (int64, bool_, complex64) and self.numel()
        ):
            notes.append(f"dtype={self.dtype!r}")
        if self.device is not HOST and not notes[:1] == ["device='meta'"]:
            notes.append(f"device='{self.device}'")
        if self.node is not None:
            notes.append(f"grad_fn=<{self.node.name()}>")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        hidden = self.device.type == "meta" or self.dtype.kind == "q"
        try:
            values = None if hidden else self.host_values()
        except (BlockingReadError, CaptureError):
            values = None
            dtype = f"dtype={self.dtype!r}"  # no number is shown that would tell the dtype
            notes = list(dict.fromkeys([dtype, *notes, "values not read"]))
        return format_tensor(values, self.shape, notes)

    # Dtype, device and memory.

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        copy: bool = False,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        """This tensor in another dtype, on another device, or both; itself where nothing changes.

        Arguments may be a dtype, a device, or a tensor whose dtype and device are taken. copy: new
        memory in any case. non_blocking changes nothing.

        A quantized dtype takes floating values on cpu, in blocks of the last dim; no gradient
        passes. Scales are fitted by least squares (`core/basis/encoding/`). Raises TypeError for a
        dtype that cannot be quantized to, with those that can, and for a tensor of another device,
        which nothing moves silently; ValueError for a last dim that is no whole number of blocks,
        and for NaN and infinity.

        `args` are those by place; `memory_format` changes nothing.
        """
        if len(args) == 1 and args[0].__class__ is DType and dtype is device is None and not copy:
            if args[0] is self.dtype or args[0].kind != "q":
                return self if args[0] is self.dtype else ops.cast(self, args[0])
        flags = [a for a in args if isinstance(a, bool)]  # non_blocking, copy
        if copy or any(flags[1:]):
            moved = self.to(
                *(a for a in args if not isinstance(a, bool)), dtype=dtype, device=device
            )
            return moved.clone() if moved is self else moved
        for a in args:
            if isinstance(a, bool) or a is None:
                continue
            if isinstance(a, Tensor):
                dtype, device = a.dtype, a.device
            elif isinstance(a, Device):
                device = a
            elif isinstance(a, str) and a.partition(":")[0] in (*KINDS, "cuda", "mps"):
                device = a
            else:
                dtype = a
        # Where both change, the host converts: it has every dtype.
        out, target = self, self.device if device is None else _device(device)
        if target is HOST and target is not self.device:
            out = _transfer(out, target)
        wanted = out.dtype if dtype is None else as_dtype(dtype)
        if wanted is not out.dtype:
            out = quantized(out, wanted) if wanted.kind == "q" else ops.cast(out, wanted)
        return out if target is out.device else _transfer(out, target)

    async def cpu_async(self) -> Tensor:
        """`detach().cpu()` without blocking: before saving, in every browser."""
        if self.device is HOST:
            return self.detach()
        data = np.ascontiguousarray(await self._stored_async()).reshape(-1).view(np.uint8)
        return Tensor.from_buffer(data.copy(), self.dtype, self.shape)

    def set_(self, source: Tensor) -> Tensor:
        """Take over the memory, shape and dtype of `source`; for leaves such as parameters."""
        if self.node is not None:
            raise RuntimeError("set_: only a leaf can be set to other memory")
        capture.memory_replaced(self.storage)
        self.storage, self.dtype, self.layout = source.storage, source.dtype, source.layout
        self._stamp = self.storage.history
        return self

    def from_host(self, values: Any, dtype: DType | None = None) -> Tensor:
        """A tensor on the same device of indices or a mask, or of other values in `dtype`."""
        array = np.asarray(values)
        if dtype is None and array.size and array.dtype.kind not in "bui":
            raise TypeError(f"index: {values!r} holds {array.dtype}, not integers or booleans")
        kind = array.dtype if array.dtype == np.bool_ else np.int64
        host = from_numpy(array.astype(dtype.numpy if dtype else kind, order="C"))
        if capture.active:
            capture.made_from_values(host)
        return host.to(self.device)

    def _remade(self, storage: Storage) -> Tensor:
        """A leaf of the same class, dtype and layout over this storage."""
        out = type(self).__new__(type(self))
        Tensor.__init__(out, storage, self.dtype, self.layout)
        out.needs_grad = self.requires_grad
        return out

    def __copy__(self) -> Tensor:
        return self._remade(self.storage)  # the same memory, as in torch

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        if self.node is not None:
            raise RuntimeError("deepcopy: only leaves can be copied; detach() it first")
        key, storage = (id(self.storage), self.dtype), self.storage
        if self.device.type != "meta" and key not in memo:  # views share the memory of the copy
            size = storage.nbytes // self.dtype.itemsize * self.dtype.block
            with autograd.no_grad():
                memo[key] = self.alias(Layout.contiguous((size,))).clone().storage
        out = memo[id(self)] = self._remade(memo.get(key, storage))
        if self.grad is not None:
            out.grad = deepcopy(self.grad.detach(), memo)
        return out

    def __reduce__(self) -> Any:
        data = None if self.device.type == "meta" else self.raw_bytes()
        return _unpickled, (data, self.dtype.name, self.shape, self.requires_grad, self.device)


def _unpickled(
    data: bytes | None, dtype: str, shape: Shape, requires_grad: bool, target: Device = HOST
) -> Tensor:
    """The tensor on its device; on cpu where this machine has no such device."""
    if data is None:
        kind, layout = as_dtype(dtype), Layout.contiguous(shape)
        out = Tensor(Storage.allocate(target, kind.nbytes(layout.numel), kind), kind, layout)
    else:
        out = Tensor.from_buffer(bytearray(data), dtype, shape)
    try:
        out = out.to(target)
    except DeviceError:
        pass
    return out.requires_grad_(requires_grad)


op.bind_tensor_class(Tensor)


def _infer_transfer(x: Meta, *, source: Device) -> Meta:
    return x.fresh()


def _transfer_grad(c: Context, g: Tensor) -> Tensor:
    return g.to(c.attrs["source"])


# No backend runs this op. It is recorded by hand, as its input and output are on two devices.
TRANSFER = Op("transfer", infer=_infer_transfer, grads=(rule(_transfer_grad),), complex=True)


def _transfer(x: Tensor, device: Device) -> Tensor:
    if x.level:
        return interpreter_stack.handlers.move(x, device)
    layout = Layout.contiguous(x.shape)
    if capture.active:
        capture.transfer_begins(x, device)
    if device.type == "meta":
        storage = Storage.allocate(device, x.nbytes, x.dtype)
    else:
        data = np.ascontiguousarray(x.stored()).reshape(-1).view(np.uint8)
        if device is HOST and not data.flags.writeable:
            data = data.copy()
        storage = Storage(device, device.backend.upload(data, x.dtype), data.size)
    out = Tensor(storage, x.dtype, layout)
    if capture.active:
        capture.transfer_done(x, out)
    if autograd.is_grad_enabled():
        TRANSFER.record(out, (x,), {"source": x.device})
    return out


def from_numpy(array: npt.NDArray[Any]) -> Tensor:
    """A tensor on cpu that shares memory with a NumPy array, strides included.

    ValueError for negative strides, TypeError for a dtype that the table does not have.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: {type(array).__name__} is not a NumPy array; use rl.tensor")
    dtype = as_dtype(array.dtype)
    size = dtype.itemsize
    if any(s < 0 or s % size for s in array.strides) and array.size:
        raise ValueError(f"from_numpy: strides {array.strides} cannot be used; copy() the array")
    if array.size == 0:
        layout = Layout.contiguous(array.shape)  # NumPy's strides have no meaning here
    else:
        layout = Layout(array.shape, tuple(max(s, 0) // size for s in array.strides))
    if array.flags.c_contiguous:
        flat = np.asarray(array).reshape(-1)
    else:
        flat = np.lib.stride_tricks.as_strided(
            array, (layout.extent[1],), (size,), writeable=array.flags.writeable
        )
    data = flat.view(np.uint8)
    return Tensor(Storage(HOST, HOST.backend.upload(data, dtype), data.size), dtype, layout)
