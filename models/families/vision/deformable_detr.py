"""Deformable DETR (Zhu et al., 2020): queries that read a few places of several pictures."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import detr
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.deformable import (
    Deformable,
    anchors_of,
    centers,
    unsigmoid,
)
from rushlight.models.layers.vision.attention.queries import (
    Layer,
    QuerySpec,
    sine_boxes,
    sine_places,
)
from rushlight.models.layers.vision.outputs.detection import Detector, Head
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.resnet import ResNet, stages
from rushlight.models.layers.vision.transformer import put_parameter

ARCHITECTURES = ("DeformableDetrForObjectDetection",)


@dataclass
class Config(detr.Config):
    """The keys of config.json."""

    neutral = {
        "max_position_embeddings": (),
        "return_intermediate": (),
        "focal_alpha": (),
        "disable_custom_kernels": (),
    }

    num_queries: int = 300
    num_feature_levels: int = 4
    encoder_n_points: int = 4
    decoder_n_points: int = 4
    two_stage: bool = False
    two_stage_num_proposals: int = 300
    with_box_refine: bool = False
    model_type: str = "deformable_detr"


class DeformableDetr(Detector):
    """Deformable DETR in transformers' names. Classes are independent."""

    independent = True

    def __init__(
        self, c: Config, seen: Any, taken: list[int], heads: tuple[str, int], labels: Any
    ) -> None:
        self.config, self.labels, self.taken, self.heads = c, labels, taken, heads
        self.processor = KINDS["Detr"]
        width = c.d_model
        put(self, detr.BACKBONE[:-1], ResNet(seen, ()).get_submodule("resnet"))
        widths = [seen.hidden_sizes[i - 1] for i in taken]
        put_projections(self, "model.input_proj", widths, width, c.num_feature_levels)
        put_parameter(self, "model.level_embed", c.num_feature_levels, width)
        for stack, count, heads_of, inner, points in (
            ("encoder", c.encoder_layers, c.encoder_attention_heads, c.encoder_ffn_dim,
             c.encoder_n_points),
            ("decoder", c.decoder_layers, c.decoder_attention_heads, c.decoder_ffn_dim,
             c.decoder_n_points),
        ):  # fmt: skip
            spec = QuerySpec(width, heads_of, inner, c.activation_function)
            for i in range(count):
                layer = Layer(spec)
                put(self, f"model.{stack}.layers.{i}", layer)
                reads = Deformable(width, heads_of, c.num_feature_levels, points)
                put(layer, "encoder_attn" if stack == "decoder" else "self_attn", reads)
                if stack == "decoder":
                    put(layer, "encoder_attn_layer_norm", nn.LayerNorm(width))
        if c.two_stage:
            for name, wide in (("enc_output", width), ("pos_trans", 2 * width)):
                put(self, f"model.{name}", nn.Linear(wide, wide))
                put(self, f"model.{name}_norm", nn.LayerNorm(wide))
        else:
            put(self, "model.query_position_embeddings", nn.Embedding(c.num_queries, 2 * width))
            put(self, "model.reference_points", nn.Linear(width, 2))
        base, count = heads
        for i in range(count):
            put(self, f"class_embed.{i}", nn.Linear(width, len(labels)))
            put(self, f"{base}bbox_embed.{i}", Head(width, 4))

    def hidden(self, pixels: Tensor) -> Tensor:
        """The encoder's states (batch, places, width)."""
        return self._encoded(pixels)[0]

    def _encoded(self, pixels: Tensor) -> tuple[Tensor, list[tuple[int, int]]]:
        net: Any = self.model
        maps = stages(net.backbone.conv_encoder.model, self.checked(pixels))
        levels = projected(net.input_proj, [maps[i] for i in self.taken])
        grids = [(x.shape[2], x.shape[3]) for x in levels]
        places = [
            sine_places(grid, self.config.d_model, x, middle=0.5) + net.level_embed[i]
            for i, (grid, x) in enumerate(zip(grids, levels, strict=True))
        ]
        x, where = cat([x.flatten(2).transpose(1, 2) for x in levels], 1), cat(places, 1)
        points = centers(grids, x)
        for layer in net.encoder.layers.children():
            seen = layer.self_attn(x + where, x, points, grids)
            x = layer.fed(layer.self_attn_layer_norm(x + seen))
        return x, grids

    def _head(self, name: str, i: int) -> Any:
        base, count = self.heads
        path = f"{base}{name}" if name == "bbox_embed" else name
        return self.get_submodule(f"{path}.{min(i, count - 1)}")

    def _asked(self, memory: Tensor, grids: list[tuple[int, int]]) -> tuple[Tensor, Tensor, Tensor]:
        """The queries' places, their states, and the boxes or points that they begin with."""
        net: Any = self.model
        c, width = self.config, self.config.d_model
        if not c.two_stage:
            both = net.query_position_embeddings.weight.unsqueeze(0).expand(len(memory), -1, -1)
            places, x = both[..., :width], both[..., width:]
            return places, x, net.reference_points(places).sigmoid()
        anchors, inside = anchors_of(grids, memory)
        encoded = net.enc_output_norm(net.enc_output(memory * inside))
        scores = self._head("class_embed", c.decoder_layers)(encoded)[..., 0]
        if scores.shape[1] < c.two_stage_num_proposals:
            raise ValueError(
                f"deformable_detr: the picture has {scores.shape[1]} places; the "
                f"{c.two_stage_num_proposals} queries need a larger one"
            )
        best = scores.topk(c.two_stage_num_proposals, 1)[1].unsqueeze(-1).expand(-1, -1, 4)
        boxes = (self._head("bbox_embed", c.decoder_layers)(encoded) + anchors).gather(1, best)
        boxes = boxes.sigmoid()
        both = net.pos_trans_norm(net.pos_trans(sine_boxes(boxes, width // 2, False)))
        return both[..., :width], both[..., width:], boxes

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, queries, classes), and boxes (batch, queries, 4) from 0 to 1."""
        memory, grids = self._encoded(pixels)
        places, x, boxes = self._asked(memory, grids)
        moved = boxes
        for i, layer in enumerate(self.get_submodule("model.decoder.layers").children()):
            own: Any = layer
            x = own.self_attn_layer_norm(x + own.self_attn(x, places=places))
            seen = own.encoder_attn(x + places, memory, boxes, grids)
            x = own.fed(own.encoder_attn_layer_norm(x + seen))
            step, begun = self._head("bbox_embed", i)(x), unsigmoid(boxes)
            known = begun.shape[-1]
            moved = cat([step[..., :known] + begun, step[..., known:]], -1).sigmoid()
            boxes = moved if self.config.with_box_refine else boxes
        return self._head("class_embed", self.config.decoder_layers - 1)(x), moved


def put_projections(
    root: nn.Module, path: str, widths: Sequence[int], width: int, levels: int
) -> None:
    """Give a model what makes `levels` maps of equal channels of maps with these `widths`."""
    for i in range(levels):
        last = widths[min(i, len(widths) - 1)]
        first = i < len(widths)
        conv = (
            nn.Conv2d(last, width, 1)
            if first
            else nn.Conv2d(last if i == len(widths) else width, width, 3, 2, 1)
        )
        put(root, f"{path}.{i}", nn.Sequential(conv, nn.GroupNorm(32, width)))


def projected(projections: nn.Module, maps: Sequence[Tensor]) -> list[Tensor]:
    """The maps of equal channels, and smaller ones that are made of the last."""
    levels: list[Tensor] = []
    for i, project in enumerate(projections.children()):
        levels.append(project(maps[min(i, len(maps) - 1)] if i <= len(maps) else levels[-1]))
    return levels


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> DeformableDetr:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = c.backbone_config or {}
    at_least_one(c, "encoder_layers", "decoder_layers")
    own = told if told.get("model_type") == "resnet" else None
    c.backbone_config = own and {k: v for k, v in own.items() if not k.startswith("out_")}
    seen = detr.checked(c, names)
    c.backbone_config = c.backbone_config and own
    usual = [2, 3, 4] if c.num_feature_levels > 1 else [4]
    taken = stages_of(own or {}, len(seen.depths), () if own else usual)
    choose("position_embedding_type", c.position_embedding_type, ("sine",))
    wide = c.d_model % 32 == 0 and 1 <= c.num_feature_levels <= 16 and 1 <= c.decoder_layers
    if not wide or len(taken) > c.num_feature_levels or 0 in taken:
        raise FormatError(
            f"config.json: d_model {c.d_model}, num_feature_levels {c.num_feature_levels} and the "
            f"stages {taken} do not agree; the width must be a multiple of 32"
        )
    count = c.decoder_layers + c.two_stage if "class_embed.1.weight" in names else 1
    base = "" if "bbox_embed.0.layers.0.weight" in names else "model.decoder."
    return DeformableDetr(c, seen, taken, (base, count), labels_of(config))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under transformers' names; heads that a file has twice are the model's."""
    by_name = detr.rename_tensors(tensors)
    for name in [n for n in by_name if n.startswith("model.decoder.class_embed.")]:
        by_name[name.removeprefix("model.decoder.")] = by_name.pop(name)
    for name in [n for n in by_name if n.startswith("model.decoder.bbox_embed.")]:
        if name.removeprefix("model.decoder.") in by_name:
            by_name.pop(name)
    return {re.sub(r"^model\.bbox_embed\.", "bbox_embed.", n): t for n, t in by_name.items()}


FAMILY = Family(
    model_types=("deformable_detr",),
    tasks=("object-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
)
