"""Merging adapters into the weights of a model, and restoring the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from rushlight.core import nn
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.jit import capture
from rushlight.core.nn.hooks import remove_hook
from rushlight.core.tensor import autograd
from rushlight.core.tensor.quantizing import quantized
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.attach import set_adapter, switch
from rushlight.models.adapters.layer import plain
from rushlight.models.adapters.record import adapted, check_unmerged, find, is_tied, record_of

M = TypeVar("M", bound=nn.Module)


def merge_adapter(
    model: nn.Module, names: str | Sequence[str] | None = None, *, dtype: DType | str | None = None
) -> None:
    """Add adapters to the weights, by default the active ones: layers then compute without them.

    names: those that are merged become the active ones. dtype: that of the merged weights, also a
    quantized one; default: that of the weights. `unmerge_adapter` restores the weights to the bit:
    they are kept. ValueError for quantized weights without a dtype, for a table that is the head's
    weight too, and for a convolution in groups; nothing is changed then. RuntimeError where
    adapters are merged already.

    `model` has the adapters.
    """
    record = record_of(model)
    check_unmerged(record, "merge adapters")
    chosen = (names,) if isinstance(names, str) else names
    wanted = record.active if chosen is None else tuple(chosen)
    uses: dict[int, int] = {}
    for slot in model._slots().values():
        uses[id(slot)] = uses.get(id(slot), 0) + 1
    changes: list[tuple[Any, Tensor, Tensor | None]] = []
    paths = {path for name in wanted for path in find(record, name).paths}
    with autograd.no_grad():
        for path in sorted(paths):
            layer: Any = model.get_submodule(path)
            weight, bias = plain(layer.weight), getattr(layer, "bias", None)
            tied = isinstance(layer, nn.Embedding) and is_tied(model)
            if tied or uses[id(layer.weight)] > 1:
                raise ValueError(
                    f"merge_adapter: {path}.weight is another layer's weight too, which the "
                    "adapter must not change; leave the adapter unmerged"
                )
            bias = None if bias is None else plain(bias)
            for name in wanted:
                if name in (every := layer.attached.named()):
                    weight, bias = every[name].merged(layer, weight, bias)
            changes.append((layer, _stored(path, weight, layer.weight, dtype), bias))
        switch(model, record, wanted)
        for layer, weight, bias in changes:
            originals = (
                layer.weight,
                layer.bias if getattr(layer, "bias", None) is not None else None,
            )
            layer.attached.own = tuple((t, t.detach()) for t in originals if t is not None)
            layer.weight.set_(weight)
            if bias is not None and originals[1] is not None:
                layer.bias.set_(bias.to(originals[1].dtype))
    record.merged = wanted
    capture.child_replaced()


def _stored(path: str, value: Tensor, old: Tensor, dtype: DType | str | None) -> Tensor:
    if dtype is None and old.dtype.kind == "q":
        raise ValueError(
            f"merge_adapter: {path}.weight is {old.dtype.name}, which a sum would round again; say "
            'in which dtype merged weights are stored, such as dtype="float16"'
        )
    wanted = old.dtype if dtype is None else as_dtype(dtype)
    if wanted.kind != "q":
        return value.to(wanted)
    return quantized(value.contiguous().cpu(), wanted).to(device=old.device)


def unmerge_adapter(model: nn.Module) -> None:
    """Give the layers the weights back that they had before `merge_adapter`."""
    record = record_of(model)
    if not record.merged:
        return
    for layer in adapted(model, record):
        for parameter, original in layer.attached.own:
            parameter.set_(original.to(device=parameter.device))
        layer.attached.own = ()
    record.merged = ()
    capture.child_replaced()
    set_adapter(model, record.active)


def merge_and_unload(model: M, *, dtype: DType | str | None = None) -> M:
    """Merge the active adapters, drop all, and return the model as an ordinary one.

    See `merge_adapter`. Copies of modules of the active adapters stay in their places.
    """
    record = record_of(model)
    if not record.merged:
        merge_adapter(model, dtype=dtype)
    for layer in adapted(model, record):
        for kind, number in layer.attached.hooks:
            remove_hook(layer, kind, number)
        del layer.attached
    object.__delattr__(model, "_adapters")
    return model
