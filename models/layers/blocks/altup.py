"""AltUp (Baykal et al., 2023) as in Gemma 3n: streams of features, of which one is computed.

With it come learned augmented residuals (Laurel), and an input for each layer from a table of its
own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import make_norm

HALF = 2**-0.5


@dataclass(frozen=True)
class AltUpSpec:
    """`streams` of features, of which number `active` goes through a layer.

    rank: of the augmented residual. vocab and features: the rows of the table of layers' inputs,
    and the width of one. corrected: whether the input is chosen by a scaled stream.
    """

    streams: int
    active: int
    rank: int
    vocab: int
    features: int
    activation: str
    corrected: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.active < self.streams or min(self.rank, self.vocab, self.features) < 1:
            raise FormatError(
                f"config.json: altup_active_idx {self.active} of {self.streams} streams, "
                f"laurel_rank {self.rank}, or {self.vocab} inputs of {self.features} features"
            )

    def layer(self, spec: DecoderSpec, layer: int) -> AltUpLayer:
        """A layer between streams."""
        return AltUpLayer(self, spec, layer)

    def ends(self, spec: DecoderSpec) -> Streams:
        """What makes streams of an embedding, and hidden states of streams."""
        return Streams(self, spec)


class AltUp(nn.Module):
    """Predicts all streams before a layer, and corrects them by what the layer made of one."""

    def __init__(self, own: AltUpSpec, spec: DecoderSpec) -> None:
        self.own, self.scale = own, 1.0 / spec.width
        self.correct_output_scale = parameter(spec.width)
        self.correction_coefs = nn.Linear(own.streams, own.streams, bias=False)
        self.prediction_coefs = nn.Linear(own.streams, own.streams**2, bias=False)
        self.modality_router = nn.Linear(spec.width, own.streams, bias=False)
        self.router_norm = make_norm(spec.width, spec.norm)

    def reset_parameters(self) -> None:
        """The scale is one."""
        nn.init.ones_(self.correct_output_scale)

    def _routed(self, x: Tensor) -> Tensor:
        # (batch, length, width) -> (batch, length, streams)
        out: Tensor = self.modality_router(self.router_norm(x) * self.scale)
        return out.float().tanh().to(x.dtype)

    def predict(self, x: Tensor) -> Tensor:
        """(batch, length, streams, width) -> the same."""
        altup = self.own
        mix = self.prediction_coefs(self._routed(x[:, :, altup.active]))
        out: Tensor = mix.reshape(*x.shape[:2], altup.streams, altup.streams) @ x + x
        return out

    def correct(self, predicted: Tensor, made: Tensor) -> Tensor:
        """The streams after a layer that has made (batch, length, width) of the active one."""
        gains = self.correction_coefs(self._routed(made)) + 1.0
        new = (made - predicted[:, :, self.own.active]).unsqueeze(2)
        out: Tensor = predicted + new * gains.unsqueeze(-1)
        return out


class Laurel(nn.Module):
    """A residual with a product of low rank, normalised."""

    def __init__(self, own: AltUpSpec, spec: DecoderSpec) -> None:
        self.linear_left = nn.Linear(spec.width, own.rank, bias=False)
        self.linear_right = nn.Linear(own.rank, spec.width, bias=False)
        self.post_laurel_norm = make_norm(spec.width, spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> the same."""
        out: Tensor = x + self.post_laurel_norm(self.linear_right(self.linear_left(x)))
        return out


class AltUpLayer(DecoderLayer):
    """A decoder's layer for one stream, with what leads from all streams to all."""

    def __init__(self, own: AltUpSpec, spec: DecoderSpec, layer: int) -> None:
        super().__init__(spec, layer)
        self.own, self.layer = own, layer
        self.altup, self.laurel = AltUp(own, spec), Laurel(own, spec)
        self.per_layer_input_gate = nn.Linear(spec.width, own.features, bias=False)
        self.per_layer_projection = nn.Linear(own.features, spec.width, bias=False)
        self.post_per_layer_input_norm = make_norm(spec.width, spec.norm)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, streams, width) -> the same."""
        altup, names = self.own, self.spec.names
        predicted = self.altup.predict(x)
        active = predicted[:, :, altup.active]
        before = self._normed(names.before_attention, active)
        y = self.get_submodule(self.block_name)(before, context)
        y = active + self._normed(names.after_attention, y)
        y = (y + self.laurel(before)) * HALF
        z = getattr(self, names.mlp)(self._normed(names.before_mlp, y))
        streams = self.altup.correct(predicted, y + self._normed(names.after_mlp, z))
        first = streams[:, :, altup.active]
        if altup.corrected:
            first = first * self.altup.correct_output_scale
        chosen = ACTIVATIONS[altup.activation](self.per_layer_input_gate(first))
        chosen = chosen * context.shared["inputs"][:, :, self.layer]
        more = self.post_per_layer_input_norm(self.per_layer_projection(chosen)).unsqueeze(2)
        return ops.cat([streams[:, :, :1], streams[:, :, 1:] + more], 2)


class Streams(nn.Module):
    """The ends of the streams; its parts lie beside the embedding in a checkpoint."""

    def __init__(self, own: AltUpSpec, spec: DecoderSpec) -> None:
        self.own, self.spec, self.layers = own, spec, len(spec.layers)
        wide = self.layers * own.features
        self.embed_tokens_per_layer = nn.Embedding(own.vocab, wide)
        self.per_layer_model_projection = nn.Linear(spec.width, wide, bias=False)
        self.per_layer_projection_norm = make_norm(own.features, spec.norm)
        self.altup_projections = self._between()
        self.altup_unembed_projections = self._between()

    def _between(self) -> nn.ModuleList[nn.Module]:
        width = self.spec.width
        return nn.ModuleList(
            nn.Linear(width, width, bias=False) for _ in range(1, self.own.streams)
        )

    def spread(self, ids: Tensor, x: Tensor, context: AttentionContext) -> Tensor:
        """The streams (batch, length, streams, width) of the embedding (batch, length, width).

        Leaves the inputs of all layers in the context.
        """
        altup, shape = self.own, (*ids.shape, self.layers, self.own.features)
        rows = self.embed_tokens_per_layer(ids.where(ids < altup.vocab, 0)) * altup.features**0.5
        told = self.per_layer_model_projection(x) * self.spec.width**-0.5
        told = self.per_layer_projection_norm(told.reshape(*shape))
        context.shared["inputs"] = (told + rows.reshape(*shape)) * HALF
        return stack([x, *self._moved(self.altup_projections, [x] * altup.streams, x)], 2)

    def gathered(self, x: Tensor) -> Tensor:
        """(batch, length, streams, width) -> (batch, length, width)."""
        first, *rest = (x[:, :, i] for i in range(self.own.streams))
        parts = self._moved(self.altup_unembed_projections, [first, *rest], first)
        return stack([first, *parts]).mean(0)

    @staticmethod
    def _moved(by: Any, given: list[Tensor], like: Tensor) -> list[Tensor]:
        """The other streams through matrices, each scaled to the magnitude of `like`."""
        streams, wanted = [], (like * like).mean(-1, keepdim=True).sqrt()
        for matrix, x in zip(by, given[1:], strict=True):
            y = matrix(x)
            streams.append(y * wanted / (y * y).mean(-1, keepdim=True).clamp(min=1e-5).sqrt())
        return streams


def unread(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor makes keys or values of a layer that reads those of an earlier one."""
    match = re.search(r"layers\.(\d{1,4})\.self_attn\.[kv]_(proj|norm)\.", name)
    layers, shared = config.get("num_hidden_layers"), config.get("num_kv_shared_layers", 15)
    if match is None or not isinstance(layers, int) or not isinstance(shared, int):
        return False
    return int(match[1]) >= layers - shared
