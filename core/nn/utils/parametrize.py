"""Parametrizations: an attribute of a module that is computed from other parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.core.nn.containers import ModuleDict, ModuleList
from rushlight.core.nn.module import Module
from rushlight.core.nn.parameter import Parameter
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

_cache: list[dict[int, Tensor]] = []


class ParametrizationList(ModuleList[Module]):
    """The functions of one attribute, in order, and what the first is given: `original`.

    Where the last function's right_inverse gives several tensors, they are original0, original1...

    `modules` are the functions; `unsafe` was passed when they were registered. Raises what a
    right_inverse raises.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.needs, self.unsafe = original.requires_grad, unsafe
        self.is_tensor = True
        try:
            value = self._inverse(original)
        except NotImplementedError:  # no inverse: the values are the original tensor
            value = original
        self.is_tensor = isinstance(value, Tensor)
        originals = (value,) if isinstance(value, Tensor) else tuple(value)
        for name, tensor in zip(self._names(len(originals)), originals, strict=True):
            if isinstance(original, Parameter):
                setattr(self, name, Parameter(tensor.detach(), self.needs))
            else:
                self.register_buffer(name, tensor.detach())

    def _names(self, count: int) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(count)]

    def _inverse(self, value: Any) -> Any:
        with autograd.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        return value

    def _originals(self) -> list[Tensor]:
        tensors = self._own_parameters() + self._own_buffers()
        return [t for n, t in tensors if n.startswith("original")]

    def right_inverse(self, value: Tensor) -> None:
        """Write what gives `value` into the originals."""
        inverse = self._inverse(value)
        inverses = (inverse,) if isinstance(inverse, Tensor) else tuple(inverse)
        with autograd.no_grad():
            for original, tensor in zip(self._originals(), inverses, strict=True):
                original.copy_(tensor)

    def forward(self) -> Tensor:
        """The attribute's value."""
        first, *others = list(self)
        out: Tensor = first(*self._originals())
        for module in others:
            out = module(out)
        return out


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized attribute once within this context."""
    _cache.append({})
    try:
        yield
    finally:
        _cache.pop()


def _property(name: str) -> property:
    def read(module: Any) -> Tensor:
        parametrizations = module.parametrizations[name]
        if not _cache:
            out: Tensor = parametrizations()
            return out
        if id(parametrizations) not in _cache[-1]:
            _cache[-1][id(parametrizations)] = parametrizations()
        return _cache[-1][id(parametrizations)]

    def write(module: Any, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(read, write)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make `module.tensor_name` the result of `parametrization`, a module, of the original tensor.

    Assigning the attribute needs its method right_inverse. ValueError for an attribute that is no
    parameter or buffer, or (unless `unsafe`) a result of another shape or dtype.
    """
    if is_parametrized(module, tensor_name):
        parametrizations: Any = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
        before = getattr(module, tensor_name)
        parametrizations.append(parametrization)
        if hasattr(parametrization, "right_inverse"):
            parametrizations.right_inverse(before)
        return module
    original = vars(module).get(tensor_name)
    if not isinstance(original, Tensor):
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer "
            f"{tensor_name!r}"
        )
    parametrizations = ParametrizationList([parametrization], original, unsafe)
    with autograd.no_grad():
        value = parametrizations()
    if not unsafe and (value.shape, value.dtype) != (original.shape, original.dtype):
        raise ValueError(
            f"register_parametrization: {tensor_name!r} is {original.shape} of "
            f"{original.dtype.name}, its parametrization {value.shape} of {value.dtype.name}; "
            "unsafe=True allows it"
        )
    delattr(module, tensor_name)
    plain = type(module)
    if "parametrizations" not in vars(module):
        name = f"Parametrized{plain.__name__}"
        object.__setattr__(module, "__class__", type(name, (plain,), {"_plain": plain}))
        vars(module)["parametrizations"] = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations.__setitem__(tensor_name, parametrizations)  # type: ignore[attr-defined]
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether an attribute of the module, or this one, is parametrized."""
    table = vars(module).get("parametrizations")
    return table is not None and (tensor_name is None or tensor_name in table)


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make the attribute a parameter again: its present value, or else the original tensor.

    `module` has the attribute `tensor_name`. `leave_parametrized`: the present value. Raises
    ValueError for an attribute that is not parametrized, and for several original tensors without
    leave_parametrized.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: {tensor_name!r} is not parametrized")
    table: Any = vars(module)["parametrizations"]
    chain = table[tensor_name]
    if not leave_parametrized and not chain.is_tensor:
        raise ValueError("remove_parametrizations: there are several original tensors")
    with autograd.no_grad():
        value = chain().detach() if leave_parametrized else chain.original
    learned = bool(chain._own_parameters())
    del table[tensor_name]
    delattr(type(module), tensor_name)
    if learned:
        setattr(module, tensor_name, Parameter(value.detach(), chain.needs))
    else:
        module.register_buffer(tensor_name, value.detach())
    if not len(table):
        delattr(module, "parametrizations")
        object.__setattr__(module, "__class__", type(module)._plain)  # type: ignore[attr-defined]
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The module's class without what parametrizations made of it."""
    return (
        getattr(type(module), "_plain", type(module)) if is_parametrized(module) else type(module)
    )


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another, of one attribute or all, and their tensors.

    `from_module` has them, `to_module` gets them and is returned; `tensor_name` is the attribute,
    None for all. Raises KeyError for an attribute that is not parametrized.
    """
    if not is_parametrized(from_module):
        return to_module
    table: Any = vars(from_module)["parametrizations"]
    for name in list(table) if tensor_name is None else [tensor_name]:
        chain = table[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(chain().detach()))
        for parametrization in chain:
            register_parametrization(to_module, name, parametrization, unsafe=chain.unsafe)
        taken: Any = vars(to_module)["parametrizations"]
        for key, tensor in chain._own_parameters() + chain._own_buffers():
            setattr(taken[name], key, tensor)
    return to_module
