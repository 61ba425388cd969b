"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import nearest
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.nn.module import Module

State = Mapping[str, Tensor]
_NONE = object()


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Every name of a parameter or buffer, with where it is kept; a shared one under each name."""
    places = {}
    for path, inner in module.named_modules(remove_duplicate=False):
        for name, _ in (*inner._own_parameters(), *inner._own_buffers()):
            places[f"{path}.{name}" if path else name] = vars(inner), name
    return places


def functional_call(
    module: Module, parameter_and_buffer_dicts: State | Sequence[State], args: Any = None,
    kwargs: Mapping[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """module(*args, **kwargs) with these tensors in place of its parameters and buffers.

    One dict by name, or several; `args` is a tuple, or one argument. tie_weights: a tensor that the
    module has under several names is replaced under all. strict: RuntimeError for a name that the
    module has not, and for one that is not given.

    `parameter_and_buffer_dicts` are these dicts. ValueError for a name that comes twice.
    """
    dicts = parameter_and_buffer_dicts
    replaced: dict[str, Tensor] = {}
    for tensors in [dicts] if isinstance(dicts, Mapping) else dicts:
        if again := sorted(replaced.keys() & tensors.keys()):
            raise ValueError(f"functional_call: {again[0]!r} is given twice")
        replaced.update(tensors)
    places = _places(module)
    for name in replaced.keys() - places.keys():
        if strict:
            near = ", ".join(nearest(name, places)) or "none"
            raise RuntimeError(f"functional_call: the module has no {name!r}; near: {near}")
        path, _, key = name.rpartition(".")
        places[name] = vars(module.get_submodule(path)), key
    if tie_weights:
        tensor_ids = {name: id(d[n]) for name, (d, n) in places.items() if n in d}
        same = {tensor_ids[name]: value for name, value in replaced.items() if name in tensor_ids}
        tied = {name: same[i] for name, i in tensor_ids.items() if i in same}
        replaced = {**tied, **replaced}
    if strict and (missing := sorted(places.keys() - replaced.keys())):
        raise RuntimeError(f"functional_call: {', '.join(missing)} not given; strict=True asks for "
                           "every name")  # fmt: skip
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    before = [(d, n, d.get(n, _NONE)) for d, n in (places[name] for name in replaced)]
    try:
        for name, value in replaced.items():
            owner, key = places[name]
            owner[key] = value
        return module(*args, **(kwargs or {}))
    finally:
        for owner, key, old in before:
            if old is _NONE:
                del owner[key]
            else:
                owner[key] = old


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of equal modules, each stacked along a new dim 0.

    The stacked parameters are leaves that require a gradient where the modules' do.
    """
    if not models or len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: needs at least one module, all of one class")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: all modules must be in training, or none")
    parameters, buffers = {}, {}
    with no_grad():
        for name, _ in models[0].named_parameters():
            each = [m.get_parameter(name) for m in models]
            parameters[name] = stack(each).requires_grad_(each[0].requires_grad)
        for name, _ in models[0].named_buffers():
            buffers[name] = stack([m.get_buffer(name) for m in models])
    return parameters, buffers
