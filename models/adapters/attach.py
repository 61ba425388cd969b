"""Adapters on a model: adding, switching and removing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from rushlight.core import nn
from rushlight.core.jit import capture
from rushlight.core.nn.hooks import remove_hook
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters import lora, others
from rushlight.models.adapters.config import (
    AdapterConfig,
    IA3Config,
    LoHaConfig,
    LoraConfig,
    TrainableTokensConfig,
)
from rushlight.models.adapters.copies import copy_of
from rushlight.models.adapters.experts import parameter_paths, share_parameters
from rushlight.models.adapters.layer import CONVOLUTIONS, Adapter
from rushlight.models.adapters.matching import (
    CLASSIFIERS,
    LINEAR,
    in_attention,
    is_called,
    published,
    saved_modules,
    targets,
)
from rushlight.models.adapters.record import Added, Record, adapted, check_unmerged, find
from rushlight.models.adapters.record import record_of as record_of
from rushlight.models.adapters.tokens import (
    Tokens,
    count_words,
    retie_if_bare,
    share,
    token_paths,
)

M = TypeVar("M", bound=nn.Module)
# The kinds of layers that each kind of adapter takes, and what it is there.
KINDS: dict[type[AdapterConfig], Mapping[tuple[type, ...], Callable[..., Adapter]]] = {
    LoraConfig: lora.KINDS,
    LoHaConfig: {(nn.Linear, *CONVOLUTIONS): others.LoHa},
    IA3Config: {(*LINEAR, *CONVOLUTIONS): others.IA3},
    TrainableTokensConfig: {},
}
_ROWS: Mapping[tuple[type, ...], Callable[..., Adapter]] = {(nn.Embedding, nn.Linear): Tokens}
NO_TOKENS: Mapping[str, Sequence[int]] = {}


class Attached(nn.Module):
    """The adapters of one layer, by name: its child `attached`.

    active: the names of those that compute. own: the layer's weight and bias while adapters are
    merged into them.
    """

    active: tuple[str, ...] = ()
    own: tuple[tuple[Tensor, Tensor], ...] = ()
    hooks: tuple[tuple[str, int], ...] = ()

    def named(self) -> dict[str, Any]:
        """The adapters by name."""
        return dict(self._own_modules())

    def working(self) -> list[Any]:
        """The adapters that compute."""
        modules = vars(self)
        return [] if self.own else [modules[name] for name in self.active if name in modules]


def _before(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The hook in front of an adapted layer."""
    x, *rest = args if args else (kwargs["input"],)
    for adapter in layer.attached.working():
        x = adapter.before(layer, x)
    return (x, *rest), {} if not args else kwargs


def _after(layer: Any, args: tuple[Any, ...], out: Tensor) -> Tensor:
    """The hook behind an adapted layer."""
    for adapter in layer.attached.working():
        out = adapter.after_call(layer, args, out)
    return out


def add_adapter(
    model: M, config: AdapterConfig, name: str = "default", *, trainable: bool = True
) -> M:
    """Put new adapters on the layers that `config` means, and make them the active ones.

    All other parameters of the model stop taking gradients, but for the biases and modules that
    `config` says are trained; for a task of classes that is the head, where it names none. A
    layer's weight may be of any storage dtype; it stays as it is.
    Returns the model. ValueError for a name in use, a configuration that means no module, and a
    layer that the kind of adapter does not take.

    `trainable`: whether the parameters take gradients.
    """
    try:
        tokens = token_paths(model, config)
        parameters = parameter_paths(model, config)
        bare = isinstance(config, TrainableTokensConfig) or (
            parameters and not config.target_modules
        )
        named = [] if bare else targets(model, config)
        paths = {path: published(model, path) for path in (*named, *tokens)} | parameters
        if config.task_type in ("SEQ_CLS", "TOKEN_CLS") and config.modules_to_save is None:
            heads = [head for head in CLASSIFIERS if hasattr(model, head)]
            config = replace(config, modules_to_save=heads or None)
        attach(model, config, name, paths, trainable=trainable, tokens=tokens)
    finally:
        retie_if_bare(model, record_of(model))
    share(model, name, tokens, {})
    share_parameters(model, record_of(model).added[name], name, parameters)
    return model


def attach(
    model: M,
    config: AdapterConfig,
    name: str,
    paths: Mapping[str, str],
    saved: Sequence[str] | None = None,
    *,
    trainable: bool,
    bare: bool = False,
    tokens: Mapping[str, Sequence[int]] = NO_TOKENS,
) -> M:
    """`add_adapter` on the layers at `paths`, each with its path as the configuration has it.

    saved: the paths of the modules that are saved as a whole, which the configuration else tells.
    bare: the parameters are on meta, for those of a file, and the adapter is not active yet.
    tokens: those whose rows a layer has of its own, by its path.
    """
    record = record_of(model)
    if not name or "." in name or name in record.added or hasattr(Attached, name):
        raise ValueError(f"an adapter cannot be called {name!r}; in use: {list(record.added)}")
    check_unmerged(record, "add an adapter")
    layers = {path: model.get_submodule(path) for path in paths}
    if inside := [path for path in paths if in_attention(model, path)]:
        raise ValueError(f"{inside[0]!r} is part of a MultiheadAttention, which is not supported")
    adapters = {
        path: _made(layer, config, paths[path], bare, tokens.get(path))
        for path, layer in layers.items()
    }
    saved_paths = saved_modules(model, config.modules_to_save) if saved is None else saved
    copies = {path: copy_of(model, record, path, bare) for path in saved_paths}
    for other in record.added.values():
        if clash := [p for p in paths if any(f"{p}.".startswith(f"{q}.") for q in other.saved)]:
            raise ValueError(f"{clash[0]!r} belongs to the modules_to_save of another adapter")
    object.__setattr__(model, "_adapters", record)
    if not record.added:
        model.requires_grad_(False)
    for path, layer in layers.items():
        adapters[path].train(layer.training)
        _attached(layer).register_module(name, adapters[path])
    record.added[name] = Added(config, list(paths), copies, trainable)
    if not bare:
        set_adapter(model, name)
    return model


def _made(
    layer: Any, config: AdapterConfig, path: str, bare: bool, tokens: Sequence[int] | None
) -> Adapter:
    if tokens is None and type(config) not in KINDS:
        from rushlight.models.adapters.kinds.changes import KINDS as OTHERS

        KINDS.update(OTHERS)
    kinds = KINDS[type(config)] if tokens is None else _ROWS
    fits = (kind for types, kind in kinds.items() if any(is_called(layer, t) for t in types))
    make = next(fits, None)
    if make is None:
        known = ", ".join(layer_type.__name__ for types in kinds for layer_type in types)
        raise ValueError(
            f"{type(config).__name__}: {path!r} is a {type(layer).__name__}, which is not "
            f"supported; supported: {known}; leave it out with exclude_modules"
        )
    with nn.layers_on("meta" if bare else layer.weight.device):
        adapter: Any = make(layer, config, path) if tokens is None else make(layer, tokens)
    if not bare:
        adapter.start(layer)
    typed: Adapter = adapter
    return typed


def _attached(layer: Any) -> Attached:
    """The layer's adapters; the hooks that call them are set with the first one."""
    if not isinstance(getattr(layer, "attached", None), Attached):
        attached = layer.attached = Attached()
        attached.hooks = (
            ("pre", layer.register_forward_pre_hook(_before, with_kwargs=True).id),
            ("post", layer.register_forward_hook(_after).id),
        )
    adapters: Attached = layer.attached
    return adapters


def set_adapter(model: nn.Module, names: str | Sequence[str]) -> None:
    """Let the adapters with these names compute, one after another, and no others.

    Of all adapters only these take gradients. KeyError for a name that there is not; RuntimeError
    while adapters are merged.
    """
    record = record_of(model)
    wanted = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    for name in wanted:
        find(record, name)
    check_unmerged(record, "switch adapters")
    switch(model, record, wanted)
    _choose_trained(model, record)


@contextmanager
def disable_adapter(model: nn.Module) -> Iterator[None]:
    """The model computes as without adapters within this context."""
    record = record_of(model)
    check_unmerged(record, "disable adapters")
    before = record.active
    switch(model, record, ())
    try:
        yield
    finally:
        switch(model, record, before)


def switch(model: nn.Module, record: Record, names: tuple[str, ...]) -> None:
    """Let these adapters compute, and put their copies of modules in place."""
    before, record.active = record.active, names
    for path in {path for added in record.added.values() for path in added.paths}:
        layer: Any = model.get_submodule(path)
        layer.attached.active = names
    capture.state_changed((id(record), before), (id(record), names))
    wanted = {path: m for name in names for path, m in record.added[name].saved.items()}
    for path in [*record.originals, *(p for p in wanted if p not in record.originals)]:
        there = model.get_submodule(path)
        original = record.originals.setdefault(path, there)
        put = wanted.get(path, original)
        if put is not there:
            put.train(there.training)
            put.to(device=next(iter(there.parameters())).device)
            model.set_submodule(path, put)
        if put is original:
            del record.originals[path]
    if wanted or before:
        count_words(model)


def _choose_trained(model: nn.Module, record: Record) -> None:
    """The parameters of active adapters take gradients, and what their configurations name."""
    biases = dict.fromkeys(p for n, p in model.named_parameters() if n.endswith("bias"))
    owned = {
        id(p)
        for adapted_layer in adapted(model, record)
        for p in adapted_layer.attached.parameters()
    }
    for p in biases:
        if id(p) not in owned:
            p.requires_grad_(False)
    for name, added in record.added.items():
        on = name in record.active and added.trainable
        layers: list[Any] = [model.get_submodule(path) for path in added.paths]
        for layer in layers:
            layer.attached.named()[name].requires_grad_(on)
        for module in added.saved.values():
            for p in module.parameters():
                p.requires_grad_(on and p.dtype.is_floating_point)
        wanted = getattr(added.config, "bias", "none") if on else "none"
        if wanted == "all":
            trained = [p for p in biases if id(p) not in owned]
        else:
            trained = [
                layer.bias
                for layer in layers
                if wanted == "lora_only" and getattr(layer, "bias", None) is not None
            ]
        for p in trained:
            p.requires_grad_(p.dtype.is_floating_point)


def delete_adapter(model: nn.Module, name: str) -> None:
    """Remove an adapter; those that remain are as they were. KeyError for a name there is not."""
    record = record_of(model)
    added = find(record, name)
    check_unmerged(record, "delete an adapter")
    switch(model, record, tuple(active for active in record.active if active != name))
    for path in added.paths:
        layer: Any = model.get_submodule(path)
        delattr(layer.attached, name)
        if not layer.attached.named():
            for kind, number in layer.attached.hooks:
                remove_hook(layer, kind, number)
            del layer.attached
    del record.added[name]
    retie_if_bare(model, record)
    _choose_trained(model, record)
