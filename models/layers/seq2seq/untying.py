"""Weights that a checkpoint stores for themselves, though its configuration says they are tied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rushlight.core import nn
from rushlight.models.layers.naming import put
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec


@nn.layers_on("meta")
def untie(model: Any, name: str) -> dict[str, str]:
    """Give the head, or the embedding of a stack, a weight of its own; see `Model.untie`."""
    spec: Seq2SeqSpec = model.spec
    head = f"{spec.head}.weight"
    values, table = {name: name}, f"{spec.decoder.names.embedding}.weight"
    changes: dict[str, Any] = {}
    for which, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        path = f"{stack.names.base}.embed_tokens"
        if name == f"{path}.weight":
            rows = spec.source_vocab if which == "encoder" else None
            put(model, path, nn.Embedding(rows or spec.vocab, spec.width))
            changes[which] = replace(stack, names=replace(stack.names, embedding=path))
            if which == "decoder" and spec.tied:  # the head stays with the table of both
                values[head] = table
    if head in values:
        put(model, spec.head, nn.Linear(spec.width, spec.vocab, bias=False))
        changes["tied"] = False
    model.spec = replace(spec, **changes)
    return values
