"""Module: the parts of a network, with attribute names as in checkpoints.

A module's parameters, buffers and children are ordinary attributes. They need no registration, and
`super().__init__()` is optional. A layer has torch's default values as soon as it is made. Within
`with layers_on("meta")` it has no memory; `load_state_dict` or `init_()` gives it some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

from rushlight.core import ops
from rushlight.core.backends import Device
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import (
    DTYPES,
    DType,
    as_dtype,
    bfloat16,
    float16,
    float32,
    float64,
)
from rushlight.core.basis.errors import LoadError
from rushlight.core.jit import capture
from rushlight.core.nn.parameter import Buffer, Parameter
from rushlight.core.nn.state import (
    Filter,
    IncompatibleKeys,
    fill_bare,
    load_into,
    quantize_layers,
)
from rushlight.core.nn.tree import Tree
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

Self = TypeVar("Self", bound="Module")
Place = Device | str | None
Kind = DType | str | None
_made_on: ContextVar[Device | None] = ContextVar("made_on", default=None)


@contextmanager
def layers_on(device: Device | str) -> Iterator[None]:
    """Make layers on `device` within this context, or within the function that it decorates.

    On "meta" they have no memory: `load_state_dict` gives them that of the given tensors, and
    `init_()` default values.
    """
    token = _made_on.set(_device(device))
    try:
        yield
    finally:
        _made_on.reset(token)


class Module(Tree):
    """Base of layers and models: assign parameters and modules in `__init__`, define `forward`.

    Calling the module calls `forward`. Names are paths of attributes, such as "layers.0.weight".
    """

    training: bool = True
    dump_patches = call_super_init = False  # torch's, which change nothing
    # What `weight` is if it may be quantized blocks: "matrix" of a product, or "table" of rows.
    _blocks: Literal["", "matrix", "table"] = ""

    def __init__(self) -> None:
        # Empty; it exists so that subclasses may call it, as in torch.
        pass

    def _fill(self, device: Place = None, dtype: Kind = None) -> None:
        """Give the parameters and buffers of this new layer memory and default values."""
        where = _made_on.get() or _device(None) if device is None else _device(device)
        wanted = _floating(dtype)
        for _, tensor in self._own_parameters() + self._own_buffers():
            kind = wanted if wanted and tensor.dtype.is_floating_point else tensor.dtype
            tensor.set_(ops.empty(tensor.shape, dtype=kind, device=where))
        if where.type != "meta":
            with autograd.no_grad():
                self.reset_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._of_all and isinstance(value, Parameter | Module):
            kind = "new_parameter" if isinstance(value, Parameter) else "new_module"
            value = self._registered(kind, name, value)
        if isinstance(value, Buffer) and name not in self._saved_buffers:
            self.register_buffer(name, value, value.persistent)
            return
        plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
        if plain and isinstance(self.__dict__.get(name), Parameter):
            raise TypeError(
                f"{type(self).__name__}.{name} is a parameter; assign nn.Parameter(tensor), or "
                "write into it with copy_ under rl.no_grad()"
            )
        if name in self._saved_buffers and not (plain or value is None):
            raise TypeError(
                f"{type(self).__name__}.{name} is a buffer; assign a tensor or None, not "
                f"{type(value).__name__}"
            )
        self._leaves(name, value)
        capture.attributes += 1
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._leaves(name, None)
        object.__delattr__(self, name)

    def _leaves(self, name: str, value: Any) -> None:
        """Tell what walked the modules that `value` takes the place of an attribute."""
        old = self.__dict__.get(name)
        if old is value:
            return
        if isinstance(old, Tensor):
            capture.memory_replaced(old.storage)
        elif isinstance(old, Module):
            capture.child_replaced()
        elif isinstance(value, Tensor | Module):
            capture.memory_added()

    # Parameters, buffers and children.

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not a parameter but moves with the module.

        persistent: whether the state dict holds it. KeyError if the name is in use.
        """
        if name not in self._saved_buffers and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute {name!r}")
        object.__setattr__(self, "_saved_buffers", {**self._saved_buffers, name: persistent})
        setattr(self, name, self._registered("new_buffer", name, tensor))

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """The same as assigning the attribute, for computed names."""
        self.register_module(name, param)

    def register_module(self, name: str, module: Any) -> None:
        """The same as assigning the attribute; for names that are computed.

        KeyError for a name with a dot, or one that is in use.
        """
        if not name or "." in name or (name not in vars(self) and hasattr(self, name)):
            raise KeyError(f"{type(self).__name__}: a child cannot be called {name!r}")
        setattr(self, name, module)

    add_module = register_module

    # State.

    reset_parameters: Any  # Layers with parameters set them to default values.

    def _slots(self) -> dict[str, Tensor]:
        """Every name of the state dict with the tensor itself; shared ones under each name."""
        slots: dict[str, Tensor] = {}
        for path, module in self.named_modules(remove_duplicate=False):
            for name, tensor in module._own_state():
                slots[f"{path}.{name}" if path else name] = tensor
        return slots

    def _own_state(self) -> list[tuple[str, Tensor]]:
        """What the state dict holds of this module alone."""
        saved = [(n, t) for n, t in self._own_buffers() if self._saved_buffers[n]]
        return self._own_parameters() + saved

    # Methods of torch that its subclasses override.

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Enter this module's own tensors."""
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Nothing: the tensors are loaded after every module has changed the dict."""

    def state_dict(
        self,
        *args: Any,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by name, without history; they share memory.

        destination: a dict to add them to. prefix: of the names. keep_vars: the parameters
        themselves. What `get_extra_state` of a module gives is under "_extra_state". The three may
        also come by place.

        `args` are these three by place. Raises nothing of its own.
        """
        named = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
        if named:
            names = {"destination": destination, "prefix": prefix, "keep_vars": keep_vars}
            return self.state_dict(**{**names, **named})
        state = {} if destination is None else destination
        modules = [
            (f"{prefix}{path}." if path else prefix, module)
            for path, module in self.named_modules(remove_duplicate=False)
        ]
        for path, module in modules:
            for hook, _ in module._each_hook("state_pre"):
                hook(module, path, keep_vars)
        for name, tensor in self._slots().items():
            state[prefix + name] = tensor if keep_vars else tensor.detach()
        for path, module in modules:
            if type(module)._save_to_state_dict is not Module._save_to_state_dict:
                for name, _ in module._own_state():
                    del state[path + name]
                module._save_to_state_dict(state, path, keep_vars)
        for path, module in reversed(modules):
            if type(module).get_extra_state is not Module.get_extra_state:
                state[f"{path}_extra_state"] = module.get_extra_state()
            for hook, _ in module._each_hook("state"):
                hook(module, state, path, {})
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Take the values of `state_dict` by name.

        A parameter with memory is written to and keeps dtype and device. One without (on the meta
        device), or given quantized blocks, gets a copy of the given tensor as it is. assign=True
        makes every parameter share the given tensor's memory, without a copy.
        A parameter under several names needs only one of them. Raises LoadError, before anything
        is changed, that names what is missing, unused (both only if `strict`) or mis-shaped.
        """
        state, extras = dict(state_dict), []
        modules = list(self.named_modules(remove_duplicate=False))
        for path, module in modules:
            prefix = f"{path}." if path else ""
            for hook, _ in module._each_hook("load_pre"):
                hook(module, state, prefix, {}, strict, [], [], [])
            if type(module)._load_from_state_dict is not Module._load_from_state_dict:
                errors: list[str] = []
                module._load_from_state_dict(state, prefix, {}, strict, [], [], errors)
                if errors:
                    raise LoadError("load: " + "\n  ".join(errors))
            has_extra = type(module).set_extra_state is not Module.set_extra_state
            if has_extra and f"{prefix}_extra_state" in state:
                extras.append((module.set_extra_state, state.pop(f"{prefix}_extra_state")))
        unfitting = load_into(type(self).__name__, self._slots(), state, strict, assign)
        for take, extra in extras:
            take(extra)
        for _, module in reversed(modules):
            for hook, _ in module._each_hook("load"):
                hook(module, unfitting)
        return unfitting

    def get_extra_state(self) -> Any:
        """What the state dict holds besides tensors, under "_extra_state"; define it, or none."""
        raise RuntimeError(f"{type(self).__name__} has no extra state; define get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave; define it beside that method."""
        raise RuntimeError(f"{type(self).__name__} has no extra state; define set_extra_state")

    def init_(self: Self, device: Device | str | None = None) -> Self:
        """Give the parameters without memory torch's default values; returns the module.

        Those are parameters on the meta device; others keep their values. With `device`, all
        are on it in the end. Runs `reset_parameters` of the modules; RuntimeError for a parameter
        without memory in a module that has no such method. Random numbers are the device's
        (`rl.manual_seed`).
        """
        fill_bare(self, None if device is None else _device(device))
        return self

    def to_empty(self: Self, *, device: Device | str, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values; returns the module."""
        for tensor in [*self.parameters(recurse), *self.buffers(recurse)]:
            tensor.set_(ops.empty(tensor.shape, dtype=tensor.dtype, device=device))
        return self

    # Mode, dtype, device, gradients.

    def train(self: Self, mode: bool = True) -> Self:
        """Set `training` of this module and all below it; dropout and batch norm use it."""
        for module in self.modules():
            if module.training != mode:
                capture.module_switched(module)
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """`train(False)`."""
        return self.train(False)

    def to(
        self: Self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Self:
        """Convert floating parameters and buffers to a dtype, and move all to a device; in place.

        Arguments may be a dtype, a device, or a tensor with the wanted dtype and device. Returns
        the module. memory_format has no effect. TypeError for a dtype that is not floating.

        `args` are those by place. `non_blocking` has no effect.
        """
        for a in args:
            if isinstance(a, Tensor):
                dtype, device = a.dtype, a.device
            elif isinstance(a, Device) or (isinstance(a, str) and a not in DTYPES):
                device = a
            elif not isinstance(a, bool):
                dtype = a
        kind = _floating(dtype)

        def convert(x: Tensor) -> Tensor:
            wanted = kind if x.dtype.is_floating_point else None
            return x.detach().to(dtype=wanted, device=device)

        return self._apply(convert)

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Put fn(tensor) in place of parameters, buffers and gradients; subclasses may add to it.

        recurse: also in the modules below. Returns the module.
        """
        for _, child in self._own_modules() if recurse else ():
            child._apply(fn)
        for _, tensor in self._own_parameters() + self._own_buffers():
            grad = tensor.grad
            tensor.set_(fn(tensor))
            tensor.grad = None if grad is None else fn(grad)
        return self

    def float(self: Self) -> Self:
        """`to(float32)`."""
        return self.to(float32)

    def double(self: Self) -> Self:
        """`to(float64)`."""
        return self.to(float64)

    def half(self: Self) -> Self:
        """`to(float16)`."""
        return self.to(float16)

    def bfloat16(self: Self) -> Self:
        """`to(bfloat16)`."""
        return self.to(bfloat16)

    def type(self: Self, dst_type: DType | str) -> Self:
        """`to(dst_type)`."""
        return self.to(as_dtype(dst_type))

    def cpu(self: Self) -> Self:
        """`to("cpu")`."""
        return self.to("cpu")

    def _elsewhere(self, device: Any = None) -> Any:
        """RuntimeError: there is no such device."""
        raise RuntimeError('there is no CUDA, XPU, IPU or MTIA device here; use to("webgpu")')

    cuda = xpu = ipu = mtia = _elsewhere

    def share_memory(self: Self) -> Self:
        """Nothing: there is one process."""
        return self

    def compile(self: Self, *args: Any, **kwargs: Any) -> None:
        """Nothing; `rl.compile(module)` gives a captured function."""

    def quantize_(
        self: Self,
        dtype: DType | str,
        filter: Filter | None = None,
        importance: Mapping[str, Any] | None = None,
    ) -> Self:
        """Quantize the weights of linear layers and experts to `dtype`, in place.

        Such a weight takes no gradient any more; the gradient to a layer's input does not change.

        filter: called with the name and the module of every layer that can hold blocks, embeddings
        included; True, or a dtype for this layer alone, quantizes it. Without a filter those are
        left as they are that are quantized already, whose rows are no whole number of blocks, or
        that are embeddings, their weight tied to an output layer or not.
        importance: by the weight's name, how much an error in each column counts: the mean square
        of the layer's inputs, (n,), or (experts, n). Names without one are quantized alike.

        Returns the module. Raises TypeError for a dtype that cannot be quantized to, and, naming
        the layer, for weights that are not on cpu or are of another quantized dtype; ValueError,
        naming the layer, for weights on meta, rows that do not fit, and NaN or infinity.
        """
        quantize_layers(self, as_dtype(dtype), filter, importance)
        return self

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set requires_grad of every parameter; returns the module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter, or fill it with zeros."""
        for p in self.parameters():
            if p.grad is not None:
                p.grad = None if set_to_none else p.grad.detach().zero_()

    # Printing.

    def extra_repr(self) -> str:
        """The text in the parentheses of a layer's repr."""
        return ""

    def _child_lines(self) -> list[str]:
        return [f"({name}): {child!r}" for name, child in self._own_modules()]

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [line.replace("\n", "\n  ") for line in self._child_lines()]
        name = type(self).__name__
        if not lines:
            return f"{name}({extra})"
        return "\n  ".join([f"{name}(", *([extra] if extra else []), *lines]) + "\n)"


def _floating(dtype: Any) -> DType | None:
    """The dtype; TypeError for one that parameters cannot have."""
    kind = None if dtype is None else as_dtype(dtype)
    if kind is not None and not kind.is_floating_point:
        hint = "; use quantize_()" if kind.kind == "q" else ""
        raise TypeError(f"to: a module takes a floating dtype, not {kind.name}{hint}")
    return kind
