"""Hooks of modules: functions that run around forward, backward, and saving and loading."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from types import MappingProxyType
from typing import Any

from rushlight.core.functional.calling import check_arguments
from rushlight.core.jit import capture
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import is_grad_enabled
from rushlight.core.tensor.hooks import RemovableHandle
from rushlight.core.tensor.op import Context, Meta, Op, rule
from rushlight.core.tensor.tensor import Tensor

Hook = Callable[..., Any]
_Table = Mapping[str, Mapping[int, tuple[Hook, Mapping[str, bool]]]]


def remove_hook(module: Hooked, kind: str, number: int) -> None:
    """Take a hook of one kind away; again has no effect.

    `module` has it, `number` is its handle's. It raises nothing.
    """
    others = {n: h for n, h in module._hooks.get(kind, {}).items() if n != number}
    _replace(module, kind, others)


def _replace(module: Hooked, kind: str, hooks: Mapping[int, Any]) -> None:
    table = {k: v for k, v in {**module._hooks, kind: hooks}.items() if v}
    object.__setattr__(module, "_hooks", table)
    capture.child_replaced()  # captured functions did not call the hook


def add_hook_of_all(kind: str, hook: Hook, **flags: bool) -> RemovableHandle:
    """Add a hook that runs for every module, before the module's own ones of its kind.

    `flags` are those of `register_forward_hook` and its kin. It raises nothing.
    """
    handle = RemovableHandle(partial(_remove_hook_of_all, kind))
    _replace_of_all(kind, {**Hooked._of_all.get(kind, {}), handle.id: (hook, flags)})
    return handle


def _remove_hook_of_all(kind: str, number: int) -> None:
    others = {n: h for n, h in Hooked._of_all.get(kind, {}).items() if n != number}
    _replace_of_all(kind, others)


def _replace_of_all(kind: str, hooks: Mapping[int, Any]) -> None:
    Hooked._of_all = {k: v for k, v in {**Hooked._of_all, kind: hooks}.items() if v}
    capture.child_replaced()


def _unimplemented(self: Hooked, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__} has no forward method; define one")


class _Hooks(MutableMapping[int, Hook]):
    """The hooks of one kind under torch's private names, such as `_forward_hooks`."""

    def __init__(self, module: Hooked, kind: str) -> None:
        self._module, self._kind = module, kind

    def _all(self) -> Mapping[int, tuple[Hook, Mapping[str, bool]]]:
        return self._module._hooks.get(self._kind, {})

    def __getitem__(self, number: int) -> Hook:
        return self._all()[number][0]

    def __setitem__(self, number: int, hook: Hook) -> None:
        _replace(self._module, self._kind, {**self._all(), number: (hook, {})})

    def __delitem__(self, number: int) -> None:
        remove_hook(self._module, self._kind, number)

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _table(kind: str) -> Any:
    def put(module: Hooked, hooks: Mapping[int, Hook]) -> None:
        _replace(module, kind, {number: (hook, {}) for number, hook in hooks.items()})

    return property(lambda module: _Hooks(module, kind), put)


class Hooked:
    """The part of Module that calls `forward` with the hooks around it."""

    forward: Callable[..., Any] = _unimplemented
    _hooks: _Table = MappingProxyType({})
    _of_all: _Table = MappingProxyType({})  # those of every module, an attribute of the class
    _forward_hooks, _forward_pre_hooks = _table("post"), _table("pre")
    _backward_hooks, _backward_pre_hooks = _table("backward"), _table("backward_pre")
    _state_dict_hooks, _load_state_dict_pre_hooks = _table("state"), _table("load_pre")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks or self._of_all:
            return self._hooked(args, kwargs)
        try:
            return self.forward(*args, **kwargs)
        except (AttributeError, TypeError):
            check_arguments(type(self).__name__, type(self).forward, (self, *args), kwargs)
            raise

    def _add_hook(
        self, kind: str, hook: Hook, prepend: bool = False, **flags: bool
    ) -> RemovableHandle:
        handle = RemovableHandle(partial(remove_hook, self, kind))
        others = self._hooks.get(kind, {})
        new = {handle.id: (hook, flags)}
        _replace(self, kind, {**new, **others} if prepend else {**others, **new})
        return handle

    def _each_hook(self, kind: str) -> Iterator[tuple[Hook, Mapping[str, bool]]]:
        of_module, of_all = self._hooks.get(kind, {}), self._of_all.get(kind, {})
        return iter([*of_all.values(), *of_module.values()])

    def _registered(self, kind: str, name: str, value: Any) -> Any:
        """What is registered: the value, or what a hook of all modules returns for it."""
        for hook, _ in self._each_hook(kind):
            replaced = hook(self, name, value)
            value = value if replaced is None else replaced
        return value

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before forward; it may return other arguments.

        with_kwargs: hook(module, args, kwargs), which returns None or both.

        `prepend`: before the hooks that are there. Raises nothing; a call of the module raises what
        `hook` raises.
        """
        return self._add_hook("pre", hook, prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call hook(module, args, output) after forward; it may return another output.

        with_kwargs: hook(module, args, kwargs, output). always_call: also where forward raises.

        `prepend`: before the hooks that are there.
        """
        return self._add_hook("post", hook, prepend, with_kwargs=with_kwargs, always=always_call)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_output) before backward; it may return other gradients."""
        return self._add_hook("backward_pre", hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output); it may return other gradients of inputs.

        Both are tuples: of positional arguments (None for what needs no gradient), and of outputs.
        """
        return self._add_hook("backward", hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before the state dict is made."""
        return self._add_hook("state_pre", hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata), which may change the dict."""
        return self._add_hook("state", hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata, strict, missing, unused, errors).

        The state dict is a copy that the hook may change; the three lists are empty.
        """
        return self._add_hook("load_pre", hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, incompatible_keys) after loading."""
        return self._add_hook("load", hook)

    _register_state_dict_hook = register_state_dict_post_hook  # torch's older names

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return self.register_load_state_dict_pre_hook(lambda module, *given: hook(*given))

    def _hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook, flags in self._each_hook("pre"):
            if flags["with_kwargs"]:
                replaced = hook(self, args, kwargs)
                args, kwargs = (args, kwargs) if replaced is None else replaced
            else:
                replaced = hook(self, args)
                args = _tuple(args if replaced is None else replaced)
        called: set[Hook] = set()
        try:
            kinds = self._hooks.keys() | self._of_all.keys()
            through = {"backward", "backward_pre"} & kinds and is_grad_enabled()
            ends = _Boundaries(self) if through else None
            args = args if ends is None else ends.enter(args)
            out = self.forward(*args, **kwargs)
            for hook, flags in self._each_hook("post"):
                called.add(hook)
                out = _after(self, hook, flags, args, kwargs, out)
            out = out if ends is None else ends.leave(out)
        except Exception:
            for hook, flags in self._each_hook("post"):
                if flags["always"] and hook not in called:
                    _after(self, hook, flags, args, kwargs, None)
            raise
        return out


def _after(
    module: Hooked, hook: Hook, flags: Mapping[str, bool], args: Any, kwargs: Any, out: Any
) -> Any:
    rest = (kwargs, out) if flags["with_kwargs"] else (out,)
    replaced = hook(module, args, *rest)
    return out if replaced is None else replaced


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class _Boundaries:
    """Where backward calls a module's hooks: at the output that its forward hooks leave, and at
    the inputs that its forward pre hooks leave."""

    def __init__(self, module: Hooked) -> None:
        self.module = module
        self.grad_output: tuple[Any, ...] | None = None
        self.inputs = 0
        self.open = False  # whether an input needs a gradient, so that backward comes by it

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of forward."""
        self.inputs = len(args)
        self.open = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        return _boundary(args, self.at_input)

    def leave(self, out: Any) -> Any:
        """The module's output; hooks are not called for one that is no tensor and no tuple."""
        if isinstance(out, Tensor):
            return _boundary((out,), self.at_output)[0]
        if isinstance(out, tuple):
            parts = _boundary(out, self.at_output)
            return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
        name = type(self.module).__name__
        warnings.warn(
            f"{name}: its backward hooks are not called, as its output is a "
            f"{type(out).__name__}; it must be a tensor or a tuple of tensors",
            stacklevel=4,
        )
        return out

    def at_input(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the inputs, which the hooks may replace."""
        if self.grad_output is None:
            return grads
        for hook, _ in self.module._each_hook("backward"):
            grads = _replaced("backward hook", grads, hook(self.module, grads, self.grad_output))
        return grads

    def at_output(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the outputs, which the hooks before backward may replace."""
        for hook, _ in self.module._each_hook("backward_pre"):
            grads = _replaced("backward pre hook", grads, hook(self.module, grads))
        self.grad_output = grads
        if not self.open:
            self.at_input((None,) * self.inputs)
        return grads


def _replaced(kind: str, grads: tuple[Any, ...], given: Any) -> tuple[Any, ...]:
    if given is None:
        return grads
    replaced = _tuple(given)
    if len(replaced) != len(grads):
        raise RuntimeError(f"a {kind} returned {len(replaced)} gradients; there are {len(grads)}")
    return replaced


def _infer_boundary(x: Meta, **_: Any) -> Meta:
    return x.fresh()


def _grad_boundary(c: Context, g: Tensor) -> Tensor:
    grad: Tensor = c.attrs["hook"](g)
    return grad


# No backend runs this op. It is recorded by hand: its output is its input.
BOUNDARY = Op("boundary", infer=_infer_boundary, grads=(rule(_grad_boundary),), register=False)


def _boundary(values: tuple[Any, ...], hook: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
    """The values; `hook` gets and may change the gradients of all of them at once.

    Several tensors go through one flat copy, so that their gradients arrive together.
    """
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
    if not places:
        return values
    tensors = [values[i] for i in places]
    sizes = [t.numel() for t in tensors]

    def changed(grad: Tensor) -> Tensor:
        parts = [grad] if len(places) == 1 else grad.split(sizes)
        grads: list[Any] = [None] * len(values)
        for i, t, piece in zip(places, tensors, parts, strict=True):
            grads[i] = piece.reshape(t.shape)
        new = hook(tuple(grads))
        if len(places) == 1:
            changed_grad: Tensor = new[places[0]]
            return changed_grad
        return cat([new[i].reshape(-1) for i in places])

    first = tensors[0] if len(places) == 1 else cat([t.reshape(-1) for t in tensors])
    marked = first.detach()
    BOUNDARY.record(marked, (first,), {"hook": changed})
    results = list(values)
    parts = [marked] if len(places) == 1 else marked.split(sizes)
    for i, t, flat_piece in zip(places, tensors, parts, strict=True):
        results[i] = flat_piece.reshape(t.shape)
    return tuple(results)
