"""The tree of modules: children, parameters and buffers, with their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from rushlight.core.nn.hooks import Hooked
from rushlight.core.nn.parameter import Parameter
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.nn.module import Module

Self = TypeVar("Self", bound="Tree")


class Held(MutableMapping[str, Any]):
    """The children, parameters or buffers of a module by name; writing sets its attributes."""

    def __init__(self, owner: Any, kind: type, items: Callable[[], list[tuple[str, Any]]]) -> None:
        self._owner, self._kind, self._items = owner, kind, items

    def __getitem__(self, name: str) -> Any:
        member = vars(self._owner).get(name)
        if member is None and name in vars(self._owner):
            return None
        if member is None or name not in dict(self._items()):
            raise KeyError(name)
        return member

    def __setitem__(self, name: str, value: Any) -> None:
        if self._kind is Tensor and name not in self._owner._saved_buffers:
            self._owner.register_buffer(name, value)
        else:
            setattr(self._owner, name, value)

    def __delitem__(self, name: str) -> None:
        if name not in dict(self._items()):
            raise KeyError(name)
        delattr(self._owner, name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._items()])

    def __len__(self) -> int:
        return len(self._items())

    def __repr__(self) -> str:
        return repr(dict(self._items()))


class Tree(Hooked):
    """The part of Module that walks attributes. Names are paths, such as "layers.0.weight"."""

    _saved_buffers: Mapping[str, bool] = MappingProxyType({})  # name -> whether it is saved

    # torch's dicts of what a module holds, which programs read and write.
    _modules = property(lambda x: Held(x, Tree, x._own_modules))
    _parameters = property(lambda x: Held(x, Parameter, x._own_parameters))
    _buffers = property(lambda x: Held(x, Tensor, x._own_buffers))

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        return {name for name, saved in self._saved_buffers.items() if not saved}

    def _get_name(self) -> str:
        return type(self).__name__

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        shared: Any = cls.__init__
        if shared.__qualname__.startswith("_") and not cls.__name__.startswith("_"):
            # A private base's __init__ under this name, so that errors of its arguments say it.
            init = FunctionType(
                shared.__code__,
                shared.__globals__,
                "__init__",
                shared.__defaults__,
                shared.__closure__,
            )
            init.__kwdefaults__ = shared.__kwdefaults__
            init.__qualname__ = f"{cls.__qualname__}.__init__"
            init.__annotations__, init.__doc__ = shared.__annotations__, shared.__doc__
            type.__setattr__(cls, "__init__", init)

    def _own_parameters(self) -> list[tuple[str, Tensor]]:
        return [(n, v) for n, v in vars(self).items() if isinstance(v, Parameter)]

    def _own_buffers(self) -> list[tuple[str, Tensor]]:
        members = vars(self)
        return [(n, members[n]) for n in self._saved_buffers if members.get(n) is not None]

    def _own_modules(self) -> list[tuple[str, Any]]:
        return [(n, v) for n, v in vars(self).items() if isinstance(v, Tree)]

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
        self: Any, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module (named "") and all below it, each once by default.

        `prefix` comes before the names; `memo` holds the ids of modules to leave out.
        `remove_duplicate`: each module once. Raises nothing.
        """
        memo = set() if memo is None else memo
        if remove_duplicate and id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in self._own_modules():
            below = f"{prefix}.{name}" if prefix else name
            yield from child.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once by default."""
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def get_submodule(self, target: str) -> Module:
        """The module at the path `target`; AttributeError that names the missing part."""
        inner: Any = self
        for step in filter(None, target.split(".")):
            child = vars(inner).get(step)
            if not isinstance(child, Tree):
                raise AttributeError(f"{type(inner).__name__} has no module {step!r} ({target!r})")
            inner = child
        module: Module = inner
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at the path `target`; strict: only in place of another.

        Raises AttributeError for a path that leads to no `module`.
        """
        path, _, name = target.rpartition(".")
        if strict:
            self.get_submodule(target)
        setattr(self.get_submodule(path), name, module)

    def _get(self, target: str, kind: type[Tensor], what: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        member = getattr(owner, name, None)
        if not isinstance(member, kind) or (what == "buffer" and name not in owner._saved_buffers):
            raise AttributeError(f"{type(owner).__name__} has no {what} {name!r} ({target!r})")
        return member

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the path `target`; AttributeError that names the missing part."""
        parameter: Parameter = self._get(target, Parameter, "parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the path `target`; AttributeError that names the missing part."""
        buffer: Tensor = self._get(target, Tensor, "buffer")
        return buffer

    def _named(
        self,
        own: Callable[[Any], list[tuple[str, Tensor]]],
        prefix: str,
        recurse: bool,
        once: bool,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        every = self.named_modules(None, prefix, once) if recurse else [(prefix, self)]
        for path, module in every:
            for name, tensor in own(module):
                if not once or id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield f"{path}.{name}" if path else name, tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their names, by default each once (a shared one by its first name).

        `prefix` comes before the names. `recurse`: those of modules below, too. `remove_duplicate`:
        each once. Raises nothing.
        """
        return self._named(Tree._own_parameters, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters of this module and, by default, of all below it."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their names, by default each once.

        `prefix` comes before the names. `recurse`: those of modules below, too. `remove_duplicate`:
        each once. Raises nothing.
        """
        return self._named(Tree._own_buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers of this module and, unless told otherwise, of those below it."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def apply(self: Self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every module, children before their parents; gives the module itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self
