"""The layers of WavLM: a bias by distance, which each layer opens and shuts for each frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.distances import RelativeBias, RelativeSpec
from rushlight.models.layers.speech.wav2vec2 import WaveModel

_TABLE = "attention.rel_attn_embed"


class GatedLayer(EncoderLayer):
    """A layer whose bias by distance is scaled for each query (Chen et al., 2022, section 3.2)."""

    def __init__(self, spec: EncoderSpec, distances: RelativeSpec | None) -> None:
        """distances: of the first layer, which holds the table of all."""
        super().__init__(spec)
        self.get_submodule("attention").gru_rel_pos_const = parameter(1, spec.heads, 1, 1)
        put(self, "attention.gru_rel_pos_linear", nn.Linear(spec.head_dim, 8))
        if distances is not None:
            put(self, _TABLE, RelativeBias(distances, spec.heads, both_ways=True))

    def _attention(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        assert context.bias is not None
        heads = x.reshape(*x.shape[:2], self.spec.heads, -1).transpose(1, 2)
        gates = self._called("attention.gru_rel_pos_linear", heads)
        gates = gates.reshape(*gates.shape[:-1], 2, 4).sum(-1).sigmoid()
        attention: Any = self.get_submodule("attention")
        opened = gates[..., :1] * (gates[..., 1:] * attention.gru_rel_pos_const - 1.0) + 2.0
        return super()._attention(x, replace(context, bias=opened * context.bias), layer)


class WavLMModel(WaveModel):
    """WavLM (Chen et al., 2022): samples to a token for each frame, classes, or hidden states."""

    base = "wavlm"

    def context(self, x: Tensor, seen: Tensor | None) -> EncoderContext:
        """What the layers share, for frames (batch, frames, width): the bias by distance too."""
        table: Any = self.get_submodule(f"{self.prefix}{self.spec.paths[0]}.{_TABLE}")
        length = x.shape[1]
        return replace(super().context(x, seen), bias=table.bias(length, length, 0))
