"""An input for each layer from a table of its own, and scaled layers, as in Gemma 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import make_norm


@dataclass(frozen=True)
class LayerInputsSpec:
    """Inputs of `features` for each layer, by a table of `vocab` rows; 0 features: there are none.

    alone: the inputs come of the embedding alone, without a table, and other names have their
    parts. It takes the place of `streams` in a decoder's description.
    """

    vocab: int
    features: int
    activation: str
    alone: bool = False

    def layer(self, spec: DecoderSpec, layer: int) -> ScaledLayer:
        """A layer that reads its input."""
        return ScaledLayer(self, spec, layer)

    def ends(self, spec: DecoderSpec) -> LayerInputs:
        """What makes the inputs."""
        return LayerInputs(self, spec)


class ScaledLayer(DecoderLayer):
    """A decoder's layer, then a gate by the layer's input, and a scale of all."""

    def __init__(self, own: LayerInputsSpec, spec: DecoderSpec, layer: int) -> None:
        super().__init__(spec, layer)
        self.own, self.layer = own, layer
        self.layer_scalar = parameter(1)
        self.layer_scalar.requires_grad_(False)  # it is not learned
        if own.features:
            parts: Any = nn.Module() if own.alone else self
            parts.per_layer_input_gate = nn.Linear(spec.width, own.features, bias=False)
            parts.per_layer_projection = nn.Linear(own.features, spec.width, bias=False)
            parts.post_per_layer_input_norm = make_norm(spec.width, spec.norm)
            if own.alone:
                self.ple_block = parts

    def reset_parameters(self) -> None:
        """The scale is one."""
        nn.init.ones_(self.layer_scalar)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        x = super().forward(x, context)
        if self.own.features:
            parts: Any = self.ple_block if self.own.alone else self
            gate = ACTIVATIONS[self.own.activation](parts.per_layer_input_gate(x))
            more = parts.per_layer_projection(gate * context.shared["inputs"][:, :, self.layer])
            x = x + parts.post_per_layer_input_norm(more)
        return x * self.layer_scalar


class LayerInputs(nn.Module):
    """The inputs of all layers; its parts lie beside the embedding in a checkpoint."""

    def __init__(self, own: LayerInputsSpec, spec: DecoderSpec) -> None:
        self.own, self.spec, self.layers = own, spec, len(spec.layers)
        if not own.features:
            return
        wide = self.layers * own.features
        parts: Any = nn.Module() if own.alone else self
        if own.alone:
            self.ple = parts
        else:
            self.embed_tokens_per_layer = nn.Embedding(own.vocab, wide)
        parts.per_layer_model_projection = nn.Linear(spec.width, wide, bias=False)
        parts.per_layer_projection_norm = make_norm(own.features, spec.norm)

    def spread(self, ids: Tensor, x: Tensor, context: AttentionContext) -> Tensor:
        """x, the embedding (batch, length, width); leaves the layers' inputs in the context.

        The table's rows in the place of pictures are those of a token that says nothing.
        """
        if not self.own.features:
            return x
        if context.pictured is not None and "blank" in context.pictured:
            ids = ops.where(context.pictured["seen"], context.pictured["blank"], ids)
        shape = (*ids.shape, self.layers, self.own.features)
        if self.own.alone:
            told = self.ple.per_layer_model_projection(x) * self.spec.width**-0.5
            context.shared["inputs"] = self.ple.per_layer_projection_norm(told.reshape(*shape))
            return x
        rows = self.embed_tokens_per_layer(ids) * self.own.features**0.5
        parts: Any = self
        told = parts.per_layer_model_projection(x) * self.spec.width**-0.5
        told = parts.per_layer_projection_norm(told.reshape(*shape))
        context.shared["inputs"] = (told + rows.reshape(*shape)) * 2**-0.5
        return x

    def gathered(self, x: Tensor) -> Tensor:
        """x itself."""
        return x
