"""Conditional DETR (Meng et al., 2021); DAB-DETR (Liu et al., 2022), whose queries are boxes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import detr
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.conditional import CONDITIONAL, DAB, PlacedLayer
from rushlight.models.layers.vision.attention.deformable import unsigmoid
from rushlight.models.layers.vision.attention.queries import sine_boxes, sine_places
from rushlight.models.layers.vision.outputs.detection import Head

ARCHITECTURES = {
    "conditional_detr": "ConditionalDetrForObjectDetection",
    "dab-detr": "DabDetrForObjectDetection",
}


@dataclass
class Config(detr.Config):
    """The keys of config.json."""

    neutral = {"cls_loss_coefficient": (), "focal_alpha": ()}

    num_queries: int = 300
    model_type: str = "conditional_detr"


@dataclass
class Boxes(Config):
    """The keys of DAB-DETR's config.json."""

    neutral = {**Config.neutral, "random_refpoints_xy": (), "initializer_bias_prior_prob": ()}

    hidden_size: int = 256
    activation_function: str = "prelu"
    temperature_height: float = 20
    temperature_width: float = 20
    query_dim: int = 4
    keep_query_pos: bool = False
    num_patterns: int | None = 0
    normalize_before: bool = False
    sine_position_embedding_scale: float | None = None
    model_type: str = "dab-detr"


class ConditionalDetr(detr.Detr):
    """Conditional DETR in transformers' names. Classes are independent."""

    independent = True
    head = "class_labels_classifier"

    def make_decoder(self, c: Any) -> None:
        """Give the model its queries, its decoder and its heads."""
        put(self, "model.query_position_embeddings", nn.Embedding(c.num_queries, c.d_model))
        self._make_layers(c, CONDITIONAL, Head(c.d_model, 2, 2))

    def _make_layers(self, c: Any, names: Any, points: Head, kept: bool = False) -> None:
        layers = [
            PlacedLayer(
                names,
                c.d_model,
                c.decoder_attention_heads,
                c.decoder_ffn_dim,
                c.activation_function,
                kept or i == 0,
            )
            for i in range(c.decoder_layers)
        ]
        put(self, "model.decoder.layers", nn.ModuleList(layers))
        put(self, "model.decoder.query_scale", Head(c.d_model, c.d_model, 2))
        put(self, "model.decoder.ref_point_head", points)
        put(self, "model.decoder.layernorm", nn.LayerNorm(c.d_model))
        put(self, self.head, nn.Linear(c.d_model, len(self.labels)))
        self.bbox_predictor = Head(c.d_model, 4)

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, queries, width) after the decoder's norm."""
        return self._decoded(pixels)[0]

    def _decoded(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """`hidden`, and the logits of what boxes begin with (queries, 2)."""
        memory, places, _ = self.encoded(pixels)
        decoder: Any = self.get_submodule("model.decoder")
        table: Any = self.get_submodule("model.query_position_embeddings")
        asked = table.weight.unsqueeze(0)
        points = decoder.ref_point_head(asked)
        sine = sine_boxes(points.sigmoid(), self.config.d_model // 2)
        x = memory.new_zeros(len(memory), *asked.shape[1:])
        for i, layer in enumerate(decoder.layers):
            moved = sine * decoder.query_scale(x) if i else sine.expand(len(x), -1, -1)
            x = layer(x, asked, moved, memory, places)
            x = decoder.layernorm(x) if self.config.auxiliary_loss else x
        return decoder.layernorm(x), points

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        x, start = self._decoded(pixels)
        logits: Tensor = self.get_submodule(self.head)(x)
        box, known = self.bbox_predictor(x), start.shape[-1]
        begun = unsigmoid(start.sigmoid())
        moved = box + begun if known == 4 else cat([box[..., :2] + begun, box[..., 2:]], -1)
        return logits, moved.sigmoid()


class DabDetr(ConditionalDetr):
    """DAB-DETR in transformers' names: each layer moves the boxes that queries are made of."""

    head = "class_embed"

    def make_encoder(self, c: Any) -> None:
        """Give the model its encoder."""
        super().make_encoder(c)
        put(self, "model.encoder.query_scale", Head(c.d_model, c.d_model, 2))
        if c.normalize_before:
            put(self, "model.encoder.norm", nn.LayerNorm(c.d_model))

    def make_decoder(self, c: Any) -> None:
        """Give the model its queries, its decoder and its heads."""
        put(self, "model.query_refpoint_embeddings", nn.Embedding(c.num_queries, 4))
        if c.num_patterns:
            put(self, "model.patterns", nn.Embedding(c.num_patterns, c.d_model))
        points = Head(c.d_model, c.d_model, 2)
        points.layers[0] = nn.Linear(2 * c.d_model, c.d_model)
        self._make_layers(c, DAB, points, c.keep_query_pos)
        put(self, "model.decoder.ref_anchor_head", Head(c.d_model, 2, 2))

    def moved(self, x: Tensor, places: Tensor) -> Tensor:
        """The places of the encoder's states, scaled by them."""
        scaled: Tensor = self.get_submodule("model.encoder.query_scale")(x) * places
        return scaled

    def _places(self, grid: tuple[int, int], like: Tensor) -> Tensor:
        c: Any = self.config
        theta = float(c.temperature_height), float(c.temperature_width)
        scale = c.sine_position_embedding_scale or 2 * math.pi
        return sine_places(grid, c.d_model, like, theta, scale)

    def _decoded(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        memory, places, _ = self.encoded(pixels)
        base: Any = self.get_submodule("model")
        c: Any = self.config
        decoder, half = base.decoder, c.d_model // 2
        boxes = base.query_refpoint_embeddings.weight.sigmoid().unsqueeze(0)
        boxes = boxes.repeat(len(memory), max(c.num_patterns or 0, 1), 1)
        x = memory.new_zeros(*boxes.shape[:2], c.d_model)
        if c.num_patterns:
            x = x + base.patterns.weight.repeat_interleave(c.num_queries, 0)
        before = boxes
        for i, layer in enumerate(decoder.layers):
            every = sine_boxes(boxes, half)
            asked, sine = decoder.ref_point_head(every), every[..., : c.d_model]
            sine = sine * decoder.query_scale(x) if i else sine
            wide, tall = (decoder.ref_anchor_head(x).sigmoid() / boxes[..., 2:]).chunk(2, -1)
            sine = cat([sine[..., :half] * tall, sine[..., half:] * wide], -1)
            x, before = layer(x, asked, sine, memory, places), boxes
            boxes = (self.bbox_predictor(x) + unsigmoid(boxes)).sigmoid()
        return decoder.layernorm(x), unsigmoid(before)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ConditionalDetr:
    """The model of a checkpoint with these tensor names, on the meta device."""
    boxes = config.get("model_type") == "dab-detr"
    kind = Boxes if boxes else Config
    c: Any = read_config(kind, config, (ARCHITECTURES[kind.model_type],))
    acts = (*ACTIVATIONS, "prelu") if boxes else tuple(ACTIVATIONS)
    if boxes:
        c.d_model = c.hidden_size
        choose("query_dim", c.query_dim, (4,))
    return (DabDetr if boxes else ConditionalDetr)(
        c, detr.checked(c, names, acts), labels_of(config)
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of a backbone of timm, and of newer files, under transformers' names."""
    own = {n: t for n, t in tensors.items() if re.search(r"decoder\.layers\.\d+\.mlp\.fc", n)}
    boxes = any(".cross_attn_layer_norm." in n for n in tensors)
    renamed = detr.rename_tensors({n: t for n, t in tensors.items() if n not in own or not boxes})
    return renamed | (own if boxes else {})


FAMILY = Family(
    model_types=tuple(ARCHITECTURES),
    tasks=("object-detection",),
    architectures=tuple(ARCHITECTURES.values()),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
)
