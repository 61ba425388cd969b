"""Tokens whose rows of the embedding, and of the head, are an adapter's own.

PEFT's trainable tokens: the rows are stored as they are, not as differences. Where the head shares
the embedding's weight, it gets a module of its own over the same memory, which adapters can change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import brief
from rushlight.core.jit import capture
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import (
    AdapterConfig,
    TokenIndices,
    TrainableTokensConfig,
)
from rushlight.models.adapters.layer import Adapter, Layer, Weights, plain
from rushlight.models.adapters.record import Record, find, is_tied, record_of
from rushlight.models.layers.naming import put

EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "embed_in", "shared", "embeddings")


class Tokens(Adapter):
    """Rows of a table, or of a head's weight: trainable_tokens_delta (tokens, width)."""

    def __init__(self, layer: Layer, indices: Sequence[int]) -> None:
        rows, width = layer.weight.shape
        bad = [i for i in indices if not 0 <= i < rows]
        if bad or len(set(indices)) != len(indices):
            raise ValueError(
                f"trainable_token_indices {brief(bad or list(indices))} must be different numbers "
                f"below {rows}"
            )
        self.indices = tuple(indices)
        self.trainable_tokens_delta = parameter(len(indices), width)
        self._fill()

    def reset_parameters(self) -> None:
        """Zeros; `start` copies the rows."""
        nn.init.zeros_(self.trainable_tokens_delta)

    def start(self, layer: Layer) -> None:
        """Set the rows to the layer's."""
        with autograd.no_grad():
            indices = tensor(list(self.indices), device=layer.weight.device)
            self.trainable_tokens_delta.copy_(plain(layer.weight).index_select(0, indices))

    def after(self, layer: Layer, x: Tensor, y: Tensor) -> Tensor:
        """See Adapter."""
        rows, indices = self.trainable_tokens_delta, list(self.indices)
        if not isinstance(layer, nn.Embedding):
            scores = ops.linear(
                x.to(rows.dtype), rows, None if layer.bias is None else layer.bias[indices]
            )
            where = tensor(indices, device=y.device)
            scored: Tensor = y.index_copy(-1, where, scores.to(y.dtype))
            return scored
        # (..., tokens): which of the tokens each index is.
        same = x.unsqueeze(-1) == tensor(indices, device=x.device)
        mine = rows.to(y.dtype)[same.int().argmax(-1)]
        return ops.where(same.any(-1).unsqueeze(-1), mine, y)

    def merged(self, layer: Layer, weight: Tensor, bias: Tensor | None) -> Weights:
        """See Adapter."""
        indices = tensor(list(self.indices), device=weight.device)
        rows = self.trainable_tokens_delta.detach().to(weight.dtype)
        return weight.index_copy(0, indices, rows), bias


def embedding_of(model: nn.Module) -> str:
    """The path of the table of words; ValueError if no table has one of the usual names."""
    for path, module in model.named_modules():
        if isinstance(module, nn.Embedding) and path.rpartition(".")[2] in EMBEDDINGS:
            return path
    raise ValueError(f"{type(model).__name__} has no embedding called {', '.join(EMBEDDINGS)}")


def token_paths(model: nn.Module, config: AdapterConfig) -> dict[str, list[int]]:
    """The paths of the layers that have rows of their own for tokens, with the tokens."""
    by_name: TokenIndices = getattr(config, "trainable_token_indices", None)
    if isinstance(config, TrainableTokensConfig):
        names = config.target_modules or [embedding_of(model)]
        by_name = dict.fromkeys([names] if isinstance(names, str) else names, config.token_indices)
    if not by_name:
        return {}
    if not isinstance(by_name, dict):
        by_name = {embedding_of(model): by_name}
    if is_tied(model):
        untie(model)
    by_path: dict[str, list[int]] = {}
    for name, indices in by_name.items():
        paths = [p for p, _ in model.named_modules() if p == name or p.endswith(f".{name}")]
        if not paths:
            raise ValueError(f"trainable_token_indices: there is no module {name!r}")
        by_path |= dict.fromkeys(paths, list(indices))
    head = head_of(model)
    if untied(model) and head not in by_path:
        rows = next((v for p, v in by_path.items() if p == embedding_of(model)), None)
        if rows is not None:
            by_path[head] = rows
    return by_path


def head_of(model: Any) -> str:
    """The path of the head of a language model, "" if there is none."""
    return str(getattr(getattr(getattr(model, "spec", None), "names", None), "head", "") or "")


def untied(model: nn.Module) -> bool:
    """Whether the head got a module of its own here."""
    return "_tied_spec" in vars(model)


def untie(model: Any) -> None:
    """Give a head that shares the embedding's weight a module of its own, over the same memory."""
    spec, head = model.spec, head_of(model)
    table = model.get_submodule(embedding_of(model))
    rows, width = table.weight.shape
    bias = model.get_submodule(head).bias if spec.head_bias else None
    with nn.layers_on("meta"):
        linear = nn.Linear(width, rows, bias=bias is not None)
    linear.weight = nn.Parameter(table.weight.detach(), requires_grad=False)
    if bias is not None:
        linear.bias = bias
    object.__setattr__(
        model, "_tied_spec", (spec, model.get_submodule(head) if spec.head_bias else None)
    )
    put(model, head, linear)
    model.spec = replace(spec, tied=False)
    capture.child_replaced()


def retie(model: Any) -> None:
    """Undo `untie`."""
    spec, before = vars(model)["_tied_spec"]
    object.__delattr__(model, "_tied_spec")
    if before is not None:
        put(model, head_of(model), before)
    else:
        delattr(model, head_of(model))
    model.spec = spec
    capture.child_replaced()


def retie_if_bare(model: nn.Module, record: Record) -> None:
    """Undo `untie` if the model has no adapters left."""
    if not record.added and untied(model):
        retie(model)


def share(model: nn.Module, name: str, paths: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Let the head's rows of an adapter be the embedding's, where it has none of its own.

    Trainable tokens alone are one for both, and the file's last are the head's.
    """
    head = head_of(model)
    if head not in paths or not untied(model):
        return
    layers: list[Any] = [model.get_submodule(path) for path in (embedding_of(model), head)]
    table, head_rows = (layer.attached.named()[name] for layer in layers)
    if head not in stored:
        head_rows.trainable_tokens_delta = table.trainable_tokens_delta
    elif isinstance(find(record_of(model), name).config, TrainableTokensConfig):
        table.trainable_tokens_delta = head_rows.trainable_tokens_delta


def count_words(model: Any) -> None:
    """Set the size of a language model's vocabulary to the rows that its table has now."""
    if head_of(model) and hasattr(model, "vocab_size"):
        rows = model.get_submodule(embedding_of(model)).weight.shape[0]
        if rows != model.vocab_size:
            model.vocab_size = rows


def own_rows(model: nn.Module, name: str) -> bool:
    """Whether an adapter's rows of the head are not the embedding's."""
    layers: list[Any] = [model.get_submodule(p) for p in (head_of(model), embedding_of(model))]
    of_head, of_embedding = (layer.attached.named()[name] for layer in layers)
    return of_head.trainable_tokens_delta is not of_embedding.trainable_tokens_delta
