"""Q-Former (Li et al., 2023): learned queries that read a picture, and a text beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seq2seq.cross import MemoryAttention


@dataclass(frozen=True)
class QFormerSpec:
    """Layers whose queries attend to a picture `seen` features wide in each `every`-th of them.

    text: (tokens, context) of a table, where texts are read; apart: texts have an MLP of their own.
    """

    width: int
    layers: int
    heads: int
    inner: int
    seen: int
    every: int = 2
    act: str = "gelu"
    eps: float = 1e-12
    text: tuple[int, int] | None = None
    apart: bool = False


class _Layer(nn.Module):
    def __init__(self, spec: QFormerSpec, number: int) -> None:
        self.spec, self.reads, width = spec, number % spec.every == 0, spec.width
        names = AttentionNames(
            "attention.query", "attention.key", "attention.value", "output.dense"
        )
        a = AttentionSpec(spec.heads, spec.heads, width // spec.heads, True, True, names=names)
        for name in ("attention", "crossattention")[: 1 + self.reads]:
            memory = spec.seen if name == "crossattention" else None
            put(self, name, MemoryAttention(width, a, memory))
            put(self, f"{name}.output.LayerNorm", nn.LayerNorm(width, spec.eps))
        for end in ("_query", "")[: 1 + spec.apart]:
            put(self, f"intermediate{end}.dense", nn.Linear(width, spec.inner))
            put(self, f"output{end}.dense", nn.Linear(spec.inner, width))
            put(self, f"output{end}.LayerNorm", nn.LayerNorm(width, spec.eps))

    def _attend(self, name: str, x: Tensor, seen: Tensor, mask: Tensor | None = None) -> Tensor:
        attention: Any = self.get_submodule(name)
        y = attention(x, attention.memory(seen), mask=mask)
        out: Tensor = attention.output.LayerNorm(x + y)
        return out

    def _mlp(self, end: str, x: Tensor) -> Tensor:
        y = ACTIVATIONS[self.spec.act](self.get_submodule(f"intermediate{end}.dense")(x))
        last: Any = self.get_submodule(f"output{end}")
        out: Tensor = last.LayerNorm(last.dense(y) + x)
        return out

    def forward(self, x: Tensor, queries: int, seen: Tensor, mask: Tensor | None) -> Tensor:
        x = self._attend("attention", x, x, mask)
        first = x[:, :queries]
        if self.reads:
            first = self._attend("crossattention", first, seen)
        first = self._mlp("_query", first)
        if x.shape[1] == queries:
            return first
        return ops.cat([first, self._mlp("", x[:, queries:])], 1)


class QFormer(nn.Module):
    """Queries (1, n, width) and a picture's states (batch, tokens, seen) -> (batch, n, width)."""

    def __init__(self, spec: QFormerSpec) -> None:
        self.spec, base = spec, "" if spec.text is None else "embeddings."
        if spec.text is not None:
            for name, rows in zip(("word", "position"), spec.text, strict=True):
                put(self, f"embeddings.{name}_embeddings", nn.Embedding(rows, spec.width))
        put(self, f"{base}layernorm", nn.LayerNorm(spec.width, spec.eps))
        layers = [_Layer(spec, i) for i in range(spec.layers)]
        put(self, "encoder.layer", nn.ModuleList(layers))

    def forward(
        self, queries: Tensor, seen: Tensor, ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """ids, mask (batch, length): of a text that is read, where the spec says so."""
        net: Any = self
        x, count = queries.expand(seen.shape[0], -1, -1), queries.shape[1]
        shown = None
        if self.spec.text is not None and ids is not None:
            table = net.embeddings
            words = table.word_embeddings(ids) + table.position_embeddings.weight[: ids.shape[1]]
            x = ops.cat([x, words], 1)
            if mask is not None:
                ones = ops.ones(ids.shape[0], count, device=ids.device)
                shown = (ops.cat([ones, (mask != 0).float()], 1) > 0)[:, None, None, :]
        x = (net.layernorm if self.spec.text is None else net.embeddings.layernorm)(x)
        for layer in net.encoder.layer:
            x = layer(x, count, seen, shown)
        out: Tensor = x[:, :count]
        return out
