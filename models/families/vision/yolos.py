"""YOLOS (Fang et al., 2021): a vision transformer with tokens that each find an object."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.outputs.detection import Detector, Head
from rushlight.models.layers.vision.transformer import Layer, LayerSpec, put_parameter
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("YolosForObjectDetection",)


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {"embedding_size": ()}

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    image_size: Any = (512, 864)
    patch_size: Any = 16
    num_channels: int = 3
    qkv_bias: bool = True
    num_detection_tokens: int = 100
    use_mid_position_embeddings: bool = True
    auxiliary_loss: bool = False  # of training, as the others
    class_cost: float = 1
    bbox_cost: float = 5
    giou_cost: float = 2
    bbox_loss_coefficient: float = 5
    giou_loss_coefficient: float = 2
    eos_coefficient: float = 0.1
    model_type: str = "yolos"


class Yolos(Detector):
    """YOLOS in transformers' names."""

    @nn.layers_on("meta")
    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["Yolos"]
        tall, wide = pair(c.image_size, "image_size")
        self.patch = pair(c.patch_size, "patch_size")
        self.grid = tall // self.patch[0], wide // self.patch[1]
        width, count = c.hidden_size, c.num_detection_tokens
        places = self.grid[0] * self.grid[1] + count + 1
        if min(self.grid) < 1 or not 1 <= count <= 1 << 16:
            raise FormatError(
                f"config.json: image_size {c.image_size} or num_detection_tokens "
                f"{count} is out of range"
            )
        table = "vit.embeddings."
        projection = nn.Conv2d(c.num_channels, width, self.patch, self.patch)
        put(self, f"{table}patch_embeddings.projection", projection)
        put_parameter(self, f"{table}cls_token", 1, 1, width)
        put_parameter(self, f"{table}detection_tokens", 1, count, width)
        put_parameter(self, f"{table}position_embeddings", 1, places, width)
        spec = LayerSpec(
            width,
            c.num_attention_heads,
            c.intermediate_size,
            c.hidden_act,
            c.layer_norm_eps,
            (c.qkv_bias,) * 3,
        )
        layers = [Layer(spec) for _ in range(c.num_hidden_layers)]
        put(self, "vit.encoder.layer", nn.ModuleList(layers))
        if c.use_mid_position_embeddings:
            put_parameter(
                self, "vit.encoder.mid_position_embeddings", len(layers) - 1, 1, places, width
            )
        put(self, "vit.layernorm", nn.LayerNorm(width, c.layer_norm_eps))
        self.class_labels_classifier = Head(width, len(labels) + 1)
        self.bbox_predictor = Head(width, 4)

    def _places(self, table: Tensor, grid: tuple[int, int]) -> Tensor:
        """Positions (n, places, width) for a grid of patches, interpolated."""
        count = self.config.num_detection_tokens
        if grid == self.grid:
            return table
        patches = table[:, 1:-count].transpose(1, 2).reshape(len(table), -1, *self.grid)
        new = interpolate(patches, size=grid, mode="bicubic").flatten(2).transpose(1, 2)
        return cat([table[:, :1], new, table[:, -count:]], 1)

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, 1 + patches + detections, width) after the last norm."""
        base: Any = self.get_submodule("vit")
        c, table, x = self.config, base.embeddings, self.checked(pixels, self.config.num_channels)
        grid = x.shape[2] // self.patch[0], x.shape[3] // self.patch[1]
        patches = table.patch_embeddings.projection(x).flatten(2).transpose(1, 2)
        first, last = (
            t.expand(len(x), -1, c.hidden_size) for t in (table.cls_token, table.detection_tokens)
        )
        x = cat([first, patches, last], 1) + self._places(table.position_embeddings, grid)
        middle = base.encoder.mid_position_embeddings if c.use_mid_position_embeddings else None
        for i, layer in enumerate(base.encoder.layer):
            x = layer(x)
            if middle is not None and i < len(middle):
                x = x + self._places(middle[i], grid)
        normed: Tensor = base.layernorm(x)
        return normed

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.hidden(pixels)[:, -self.config.num_detection_tokens :]
        return self.class_labels_classifier(seen), self.bbox_predictor(seen).sigmoid()


def build(config: dict[str, Any], names: Collection[str]) -> Yolos:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    return Yolos(c, labels_of(config))


FAMILY = Family(
    model_types=("yolos",),
    tasks=("object-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
