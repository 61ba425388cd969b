"""DETR (Carion et al., 2020): queries that each find an object in what a ResNet sees.

Table Transformer (Smock et al., 2021) is DETR with norms before its layers' parts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import resnet
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.queries import Layer, QuerySpec, sine_places
from rushlight.models.layers.vision.masks.queries import Attended, MaskHead
from rushlight.models.layers.vision.outputs.detection import Detector, Head
from rushlight.models.layers.vision.outputs.masks import QueryMasks
from rushlight.models.layers.vision.resnet import ResNet, stages

TASKS = ("object-detection",)
ARCHITECTURES = ("DetrForObjectDetection", "DetrForSegmentation")
BACKBONE = "model.backbone.conv_encoder.model."
_LEARNED = 50  # places of rows and of columns
_STAGE = re.compile(r"encoder\.stages\.(\d)\.layers\.(\d{1,3})\.")


@dataclass
class Config:
    """The keys of config.json."""

    backbone_config: dict[str, Any] | None = None
    backbone: str | None = None
    use_timm_backbone: bool | None = True
    use_pretrained_backbone: bool | None = True
    backbone_kwargs: dict[str, Any] | None = None
    num_channels: int = 3
    num_queries: int = 100
    encoder_layers: int = 6
    encoder_ffn_dim: int = 2048
    encoder_attention_heads: int = 8
    decoder_layers: int = 6
    decoder_ffn_dim: int = 2048
    decoder_attention_heads: int = 8
    num_hidden_layers: int = 6
    activation_function: str = "relu"
    d_model: int = 256
    position_embedding_type: str = "sine"
    dilation: bool | None = False
    auxiliary_loss: bool = False
    init_xavier_std: float = 1.0  # of training, as what follows
    class_cost: float = 1
    bbox_cost: float = 5
    giou_cost: float = 2
    mask_loss_coefficient: float = 1
    dice_loss_coefficient: float = 1
    bbox_loss_coefficient: float = 5
    giou_loss_coefficient: float = 2
    eos_coefficient: float = 0.1
    model_type: str = "detr"


@dataclass
class Table(Config):
    """The keys of Table Transformer's config.json."""

    model_type: str = "table-transformer"


class Detr(Detector):
    """DETR in transformers' names."""

    def __init__(self, c: Config, seen: resnet.Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["Detr"]
        width = c.d_model
        put(self, BACKBONE[:-1], ResNet(seen, ()).get_submodule("resnet"))
        put(self, "model.input_projection", nn.Conv2d(seen.hidden_sizes[-1], width, 1))
        if c.position_embedding_type == "learned":
            for name in ("row_embeddings", "column_embeddings"):
                table = nn.Embedding(_LEARNED, width // 2)
                put(self, f"model.backbone.position_embedding.{name}", table)
        self.make_encoder(c)
        self.make_decoder(c)

    def make_encoder(self, c: Config) -> None:
        """Give the model its encoder."""
        self._make_stack("encoder", c.encoder_layers, c.encoder_attention_heads, c.encoder_ffn_dim)
        if c.model_type == "table-transformer":
            put(self, "model.encoder.layernorm", nn.LayerNorm(c.d_model))

    def make_decoder(self, c: Config) -> None:
        """Give the model its queries, its decoder and its heads."""
        put(self, "model.query_position_embeddings", nn.Embedding(c.num_queries, c.d_model))
        self._make_stack("decoder", c.decoder_layers, c.decoder_attention_heads, c.decoder_ffn_dim)
        put(self, "model.decoder.layernorm", nn.LayerNorm(c.d_model))
        self.class_labels_classifier = nn.Linear(c.d_model, len(self.labels) + 1)
        self.bbox_predictor = Head(c.d_model, 4)

    def _make_stack(self, stack: str, layers: int, heads: int, inner: int) -> None:
        c = self.config
        spec = QuerySpec(
            c.d_model,
            heads,
            inner,
            c.activation_function,
            decoding=stack == "decoder",
            ahead=c.model_type == "table-transformer",
        )
        put(self, f"model.{stack}.layers", nn.ModuleList([Layer(spec) for _ in range(layers)]))

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, queries, width) after the decoder's norm."""
        return self.found(pixels)[0]

    def encoded(self, pixels: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The encoder's states (batch, places, width), their places, and the backbone's maps."""
        base: Any = self.model
        x = self.checked(pixels, self.config.num_channels)
        maps = stages(base.backbone.conv_encoder.model, x)
        x = base.input_projection(maps[-1])
        maps, places = [*maps[1:], x], self._places((x.shape[2], x.shape[3]), x)
        x = x.flatten(2).transpose(1, 2)
        for layer in base.encoder.layers:
            x = layer(x, self.moved(x, places))
        norms = [norm for name, norm in base.encoder.named_children() if "norm" in name]
        return norms[0](x) if norms else x, places, maps

    def moved(self, x: Tensor, places: Tensor) -> Tensor:
        """The places that a layer of the encoder takes with states x."""
        return places

    def found(self, pixels: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """`hidden`, the encoder's (batch, places, width), and the backbone's maps and their end."""
        base: Any = self.model
        x, places, maps = self.encoded(pixels)
        asked = base.query_position_embeddings.weight.unsqueeze(0)
        hidden = x.new_zeros(len(x), *asked.shape[1:])
        for layer in base.decoder.layers:
            hidden = layer(hidden, asked, x, places)
            if self.config.auxiliary_loss:  # whose losses read each layer through the norm
                hidden = base.decoder.layernorm(hidden)
        return base.decoder.layernorm(hidden), x, maps

    def _places(self, grid: tuple[int, int], like: Tensor) -> Tensor:
        width = self.config.d_model
        if self.config.position_embedding_type == "sine":
            return sine_places(grid, width, like)
        if max(grid) > _LEARNED:
            raise ValueError(f"detr: the picture has {grid} places; at most {_LEARNED} are learned")
        table: Any = self.model.backbone.position_embedding
        rows, columns = (arange(n, device=like.device) for n in grid)
        wide = table.column_embeddings(columns).unsqueeze(0).expand(*grid, width // 2)
        tall = table.row_embeddings(rows).unsqueeze(1).expand(*grid, width // 2)
        return cat([wide, tall], -1).reshape(1, -1, width)

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.hidden(pixels)
        return self.class_labels_classifier(hidden), self.bbox_predictor(hidden).sigmoid()


class DetrSegmenter(QueryMasks, Detr):
    """DETR with a mask for each query."""

    def __init__(self, c: Config, seen: resnet.Config, labels: tuple[str, ...]) -> None:
        super().__init__(c, seen, labels)
        self.tasks = ("image-segmentation", *TASKS)
        heads = c.encoder_attention_heads
        self.bbox_attention = Attended(c.d_model, heads)
        self.mask_head = MaskHead(
            c.d_model, heads, seen.hidden_sizes[-2::-1][:3], c.activation_function
        )

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        asked, memory, (*maps, seen) = self.found(pixels)
        where = self.bbox_attention(asked, memory, seen.shape[2:])
        masks = self.mask_head(seen, where, maps[-2::-1][:3])
        return self.class_labels_classifier(asked), masks


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Detr:
    """The model of a checkpoint with these tensor names, on the meta device."""
    table = config.get("model_type") == "table-transformer"
    named = ("TableTransformerForObjectDetection",) if table else ARCHITECTURES
    c = read_config(Table if table else Config, config, named)
    seen = checked(c, names)
    masks = config.get("architectures") == [ARCHITECTURES[1]]
    return (DetrSegmenter if masks else Detr)(c, seen, labels_of(config))


def checked(c: Any, names: Collection[str], acts: Collection[str] = ACTIVATIONS) -> resnet.Config:
    """The backbone of a configuration of DETR or its kin; FormatError for what does not fit."""
    choose("activation_function", c.activation_function, tuple(acts))
    choose("position_embedding_type", c.position_embedding_type, ("sine", "learned"))
    choose("dilation", c.dilation, (False, None))
    if c.d_model % 4 or not 1 <= c.num_queries <= 1 << 16:
        raise FormatError(
            f"config.json: d_model {c.d_model} or num_queries {c.num_queries} is "
            "out of range; the width must be a multiple of 4"
        )
    told = c.backbone_config or {}
    if told.get("model_type") == "resnet":
        seen = read_config(resnet.Config, told | {"architectures": None})
        last = (seen.out_features or [f"stage{len(seen.depths)}"])[-1]
        choose("backbone_config.out_features", last, (f"stage{len(seen.depths)}",))
        return seen
    return _by_names(told.get("backbone") or c.backbone or "resnet50", names)


def _by_names(kind: str, names: Collection[str]) -> resnet.Config:
    """The ResNet of timm that a checkpoint's names show, with its published widths."""
    if not re.fullmatch(r"resnet\d{2,3}", kind):
        raise FormatError(f"config.json: backbone {kind!r} is not supported; supported: resnet50")
    backbone_names = [n.removeprefix(BACKBONE) for n in names if n.startswith(BACKBONE)]
    layers = {(int(m[1]), int(m[2])) for n in backbone_names if (m := _STAGE.match(n))}
    deep = any(".layer.2.convolution." in n for n in backbone_names)
    depths = [sum(stage == i for stage, _ in layers) for i in range(4)]
    return resnet.Config(
        embedding_size=64,
        hidden_sizes=[64 << i + 2 * deep for i in range(4)],
        depths=depths,
        layer_type="bottleneck" if deep else "basic",
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of a backbone of timm, and of newer files, under transformers' names."""
    by_name: dict[str, Tensor] = {}
    seen: dict[str, Tensor] = {}
    for name, t in tensors.items():
        name = re.sub(r"^detr\.", "", name).replace(
            "model.position_embedding.", "model.backbone.position_embedding."
        )
        name = re.sub(r"^model\.backbone\.model\.", BACKBONE, name)
        name = re.sub(r"\.(self_attn|encoder_attn)\.o_proj\.", r".\1.out_proj.", name)
        name = re.sub(r"\.mlp\.(fc[12])\.", r".\1.", name)
        if name.startswith(BACKBONE):
            seen[name[len(BACKBONE) :]] = t
        else:
            by_name[name] = t
    for name, t in resnet.rename_tensors(seen).items():
        by_name[BACKBONE + name.removeprefix("resnet.")] = t
    return by_name


FAMILY = Family(
    model_types=("detr", "table-transformer"),
    tasks=TASKS,
    architectures=(*ARCHITECTURES, "TableTransformerForObjectDetection"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
)
