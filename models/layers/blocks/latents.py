"""Perceiver IO's layers (Jaegle et al., 2021): latents that read a text; queries read these.

However long the text is, the layers between run over the same number of latents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put

_DECODER, _TEXTS = "decoder", "decoder.decoder"
_QUERIES, _READ = "output_position_encodings", "decoding_cross_attention"


@dataclass(frozen=True)
class ReadSpec:
    """Attention of rows `width` features wide over rows of `inside` features, and an MLP.

    keys, values: features of all heads' q and k, and of v. widened: the MLP's width in widths.
    residual: the rows are added to what they read. across: the rows that are read are others.
    """

    width: int
    inside: int
    heads: int
    keys: int
    values: int
    widened: int
    activation: str
    residual: bool = True
    across: bool = True


class Matrix(nn.Module):
    """A matrix of `count` rows under a name of its own."""

    def __init__(self, name: str, count: int, width: int) -> None:
        setattr(self, name, parameter(count, width))
        self._fill()

    def reset_parameters(self) -> None:
        """Small normal numbers."""
        for value in self.parameters(recurse=False):
            nn.init.normal_(value, 0.0, 0.02)


class ReadLayer(nn.Module):
    """Attention over other rows, or over the same, and an MLP; both are normed before."""

    def __init__(self, spec: ReadSpec) -> None:
        self.spec = spec
        put(self, "attention.self.layernorm1", nn.LayerNorm(spec.width))
        if spec.across:
            put(self, "attention.self.layernorm2", nn.LayerNorm(spec.inside))
        put(self, "attention.self.query", nn.Linear(spec.width, spec.keys))
        put(self, "attention.self.key", nn.Linear(spec.inside, spec.keys))
        put(self, "attention.self.value", nn.Linear(spec.inside, spec.values))
        put(self, "attention.output.dense", nn.Linear(spec.values, spec.width))
        self.layernorm = nn.LayerNorm(spec.width)
        put(self, "mlp.dense1", nn.Linear(spec.width, spec.widened * spec.width))
        put(self, "mlp.dense2", nn.Linear(spec.widened * spec.width, spec.width))

    def forward(self, x: Tensor, over: Tensor | None, mask: Tensor | None) -> Tensor:
        """x (batch, rows, width) -> the same; over (batch, places, inside), with its mask."""
        attention: Any = self.get_submodule("attention")
        inner, spec = attention.self, self.spec
        y = inner.layernorm1(x)
        read = y if over is None else inner.layernorm2(over)
        q, k, v = (
            part.reshape(*part.shape[:2], spec.heads, -1).transpose(1, 2)
            for part in (inner.query(y), inner.key(read), inner.value(read))
        )
        y = ops.attention(q, k, v, mask=mask, scale=(spec.keys // spec.heads) ** -0.5)
        y = attention.output.dense(y.transpose(1, 2).reshape(*x.shape[:2], -1))
        y = y + x if spec.residual else y
        mlp: Any = self.get_submodule("mlp")
        out: Tensor = y + mlp.dense2(ACTIVATIONS[spec.activation](mlp.dense1(self.layernorm(y))))
        return out


@dataclass(frozen=True)
class Perceiver:
    """A text of words `text` features wide, read by `count` latents of `width` features.

    reading: how latents read the text; within: each layer over the latents, `layers` in a block,
    which runs `blocks` times. words: how a query of each place reads the latents, for states of
    every token; whole: how the query of a whole text does.
    """

    text: int
    count: int
    width: int
    layers: int
    blocks: int
    reading: ReadSpec
    within: ReadSpec
    words: ReadSpec | None = None
    whole: ReadSpec | None = None

    def put(self, model: nn.Module, spec: EncoderSpec) -> None:
        """Make the modules of `model`."""
        put(model, "embeddings", Matrix("latents", self.count, self.width))
        put(model, spec.names.words, nn.Embedding(spec.vocab, self.text))
        put(model, spec.names.positions, nn.Embedding(spec.context, self.text))
        put(model, "encoder.cross_attention", ReadLayer(self.reading))
        for i in range(self.layers):
            put(model, f"encoder.self_attends.{i}", ReadLayer(self.within))
        for path, how, rows in ((_DECODER, self.words, spec.context), (_TEXTS, self.whole, 1)):
            if how is not None:
                queries = Matrix("position_embeddings", rows, how.width)
                put(model, f"{path}.{_QUERIES}", queries)
                put(model, f"{path}.{_READ}", ReadLayer(how))

    def run(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """Hidden states of the tokens; the latents where no query reads these. See `Body`."""
        if more:
            raise TypeError(f"perceiver: {', '.join(more)} is not an input of its embeddings")
        names, length = model.spec.names, ids.shape[1]
        positions: Any = model.get_submodule(names.positions)
        text: Tensor = model.get_submodule(names.words)(ids) + positions.weight[:length]
        mask = None if seen is None else seen[:, None, None, :]
        x: Tensor = model.embeddings.latents.unsqueeze(0).expand(ids.shape[0], -1, -1)
        x = model.get_submodule("encoder.cross_attention")(x, text, mask)
        for _ in range(self.blocks):
            for i in range(self.layers):
                x = model.get_submodule(f"encoder.self_attends.{i}")(x, None, None)
        return x if self.words is None else self._read(model.get_submodule(_DECODER), x, length)

    def texts(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """What the query of a whole text reads, (batch, 1, width); see `Body`."""
        x = self.run(model, ids, types, seen, **more)
        return x if self.whole is None else self._read(model.get_submodule(_TEXTS), x, 1)

    def _read(self, module: Any, latents: Tensor, rows: int) -> Tensor:
        """What the first `rows` queries read of the latents."""
        queries = module.get_submodule(_QUERIES).position_embeddings[:rows].unsqueeze(0)
        x = queries.expand(latents.shape[0], -1, -1)
        out: Tensor = module.get_submodule(_READ)(x, latents, None)
        return out
