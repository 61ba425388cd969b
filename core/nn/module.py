"""Parameter and Module: the parts of a network, with attribute names as in checkpoints.

A module's parameters, buffers and children are ordinary attributes. They need no registration, and
`super().__init__()` is optional. Building a module allocates nothing: layers make their parameters
on the `meta` device. `load_state_dict` or `init_()` allocates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from rushlight.core import ops
from rushlight.core.backends import Device
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import DTYPES, DType, as_dtype
from rushlight.core.jit import capture
from rushlight.core.nn.state import Filter, IncompatibleKeys, load_into, quantize_layers
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

Self = TypeVar("Self", bound="Module")


class Parameter(Tensor):
    """A tensor that a module learns. As an attribute it is one of `module.parameters()`.

    It shares the memory of `data`. TypeError if requires_grad is set for a non-floating dtype.
    """

    __slots__ = ()

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        super().__init__(data.storage, data.dtype, data.layout)
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __reduce__(self) -> Any:
        make, state = super().__reduce__()
        return _unpickled, (make, state, self.requires_grad)


def _unpickled(make: Callable[..., Tensor], state: tuple[Any, ...], needs: bool) -> Parameter:
    return Parameter(make(*state), needs)


def parameter(*size: int) -> Parameter:
    """A float32 parameter of this shape on the meta device, without memory."""
    return Parameter(ops.empty(size, device="meta"))


def _unimplemented(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__} has no forward method; define one")


class Module:
    """Base of layers and models: assign parameters and modules in `__init__`, define `forward`.

    Calling the module calls `forward`. Names are paths of attributes, such as "layers.0.weight".
    """

    training: bool = True
    forward: Callable[..., Any] = _unimplemented
    _buffers: Mapping[str, bool] = MappingProxyType({})  # name -> whether it is saved
    # What `weight` is if it may be quantized blocks: "matrix" of a product, or "table" of rows.
    _blocks: Literal["", "matrix", "table"] = ""

    def __init__(self) -> None:
        # Empty; it exists so that subclasses may call it, as in torch.
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
        if plain and isinstance(self.__dict__.get(name), Parameter):
            raise TypeError(
                f"{type(self).__name__}.{name} is a parameter; assign nn.Parameter(tensor), or "
                "write into it with copy_ under rl.no_grad()"
            )
        if name in self._buffers and not (plain or value is None):
            raise TypeError(
                f"{type(self).__name__}.{name} is a buffer; assign a tensor or None, not "
                f"{type(value).__name__}"
            )
        self._leaves(name, value)
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
        if name not in self._buffers and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute {name!r}")
        object.__setattr__(self, "_buffers", {**self._buffers, name: persistent})
        setattr(self, name, tensor)

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

    def _own_parameters(self) -> list[tuple[str, Tensor]]:
        return [(n, v) for n, v in vars(self).items() if isinstance(v, Parameter)]

    def _own_buffers(self) -> list[tuple[str, Tensor]]:
        own = vars(self)
        return [(n, own[n]) for n in self._buffers if own.get(n) is not None]

    def _own_modules(self) -> list[tuple[str, Module]]:
        return [(n, v) for n, v in vars(self).items() if isinstance(v, Module)]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Modules that are attributes of this one, each once, with their names."""
        seen: set[int] = set()
        for name, child in self._own_modules():
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        """Modules that are attributes of this one, each once."""
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module (named "") and all below it, each once by default."""
        memo = set() if memo is None else memo
        if remove_duplicate and id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in self._own_modules():
            below = f"{prefix}.{name}" if prefix else name
            yield from child.named_modules(memo, below, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        """The module at the path `target`; AttributeError that names the missing part."""
        found: Any = self
        for part in filter(None, target.split(".")):
            child = vars(found).get(part)
            if not isinstance(child, Module):
                raise AttributeError(f"{type(found).__name__} has no module {part!r} ({target!r})")
            found = child
        module: Module = found
        return module

    def _named(
        self, own: Callable[[Module], list[tuple[str, Tensor]]], prefix: str, recurse: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, tensor in own(module):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield f"{path}.{name}" if path else name, tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their names, each once (a shared one by its first name)."""
        return self._named(Module._own_parameters, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters of this module and, by default, of all below it."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their names, each once."""
        return self._named(Module._own_buffers, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers of this module and, unless told otherwise, of those below it."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module, children before their parents; gives the module itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # State.

    def _slots(self) -> dict[str, Tensor]:
        """Every name of the state dict with the tensor itself; shared ones under each name."""
        found: dict[str, Tensor] = {}
        for path, module in self.named_modules(remove_duplicate=False):
            saved = [(n, t) for n, t in module._own_buffers() if module._buffers[n]]
            for name, tensor in module._own_parameters() + saved:
                found[f"{path}.{name}" if path else name] = tensor
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by name, without history; they share memory."""
        return {name: tensor.detach() for name, tensor in self._slots().items()}

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Take the values of `state_dict` by name.

        A parameter without memory (on the meta device) gets a copy, in the dtype and on the device
        that the given tensor has; one with memory is written to and keeps dtype and device.
        assign=True makes every parameter share the given tensor's memory, without a copy.
        A parameter under several names needs only one of them. Raises LoadError, before anything
        is changed, that names what is missing, unused (both only if `strict`) or mis-shaped.
        """
        return load_into(type(self).__name__, self._slots(), state_dict, strict, assign)

    def init_(self: Self, device: Device | str = "cpu") -> Self:
        """Allocate every parameter on `device` with torch's default values; returns the module.

        Runs `reset_parameters` of every module that has one. Parameters and buffers that other
        modules made with values keep these. RuntimeError for a parameter without memory in a
        module without `reset_parameters`. Random numbers are the device's (`rl.manual_seed`).
        """
        target = _device(device)
        with autograd.no_grad():
            for path, module in self.named_modules():
                bare = []
                for name, tensor in module._own_parameters() + module._own_buffers():
                    if tensor.device.type == "meta":
                        bare.append(f"{path}.{name}" if path else name)
                        tensor.set_(ops.empty(tensor.shape, dtype=tensor.dtype, device=target))
                    else:
                        tensor.set_(tensor.detach().to(device=target))
                reset = getattr(module, "reset_parameters", None)
                if reset is not None:
                    reset()
                elif bare:
                    raise RuntimeError(
                        f"init_: {bare[0]} has no values, and {type(module).__name__} no method "
                        "reset_parameters to set them; define one, or make the parameter from a "
                        "tensor with values"
                    )
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

    def to(self: Self, *args: Any, dtype: Any = None, device: Any = None) -> Self:
        """Convert floating parameters and buffers to a dtype, and move all to a device; in place.

        Arguments may be a dtype, a device, or a tensor with the wanted dtype and device. Returns
        the module. TypeError for a dtype that is not floating.
        """
        for a in args:
            if isinstance(a, Tensor):
                dtype, device = a.dtype, a.device
            elif isinstance(a, Device) or (isinstance(a, str) and a not in DTYPES):
                device = a
            else:
                dtype = a
        found: DType | None = None if dtype is None else as_dtype(dtype)
        if found is not None and not found.is_floating_point:
            hint = "; use quantize_()" if found.kind == "q" else ""
            raise TypeError(f"to: a module takes a floating dtype, not {found.name}{hint}")
        for tensor in [*self.parameters(), *self.buffers()]:
            wanted = found if tensor.dtype.is_floating_point else None
            grad = tensor.grad
            tensor.set_(tensor.detach().to(dtype=wanted, device=device))
            tensor.grad = None if grad is None else grad.detach().to(dtype=wanted, device=device)
        return self

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
