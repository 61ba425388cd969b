"""UPerNet (Xiao et al., 2018): stages of a Swin or ConvNeXt, joined into classes of places."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import adaptive_avg_pool2d
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import convnext, swin
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.swin import Swin
from rushlight.models.layers.vision.conv import ConvNorm
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.stages import stages_of

ARCHITECTURES = ("UperNetForSemanticSegmentation",)
_NAMES = ("conv", "batch_norm")
_AUXILIARY = ("loss_weight", "in_channels", "channels", "num_convs", "concat_input")


@dataclass
class Config:
    """The keys of config.json; the auxiliary head, which only training has, is not read."""

    neutral = {
        "use_auxiliary_head": (),
        "loss_ignore_index": (),
        **{f"auxiliary_{name}": () for name in _AUXILIARY},
    }

    backbone_config: dict[str, Any] = field(default_factory=dict)
    backbone: str | None = None  # of backbones that are fetched by name, as what follows
    use_timm_backbone: bool | None = False
    use_pretrained_backbone: bool | None = False
    backbone_kwargs: dict[str, Any] | None = None
    hidden_size: int = 512
    pool_scales: list[int] = field(default_factory=lambda: [1, 2, 3, 6])
    model_type: str = "upernet"


class UperNet(ImageModel):
    """Pixels -> logits (batch, classes, height, width) of the first stage's places, enlarged."""

    def __init__(self, c: Config, seen: Any, widths: list[int], labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["Segformer"]
        self.channels, wide, count = seen.config.num_channels, c.hidden_size, len(widths)
        put(self, "backbone", seen)
        head = "decode_head."
        for i in range(len(c.pool_scales)):
            pooled = ConvNorm(widths[-1], wide, 1, names=_NAMES)
            put(self, f"{head}psp_modules.{i}.1", pooled)
        joined = widths[-1] + len(c.pool_scales) * wide
        put(self, f"{head}bottleneck", ConvNorm(joined, wide, names=_NAMES))
        for i, width in enumerate(widths[:-1]):
            put(self, f"{head}lateral_convs.{i}", ConvNorm(width, wide, 1, names=_NAMES))
            put(self, f"{head}fpn_convs.{i}", ConvNorm(wide, wide, names=_NAMES))
        put(self, f"{head}fpn_bottleneck", ConvNorm(count * wide, wide, names=_NAMES))
        put(self, f"{head}classifier", nn.Conv2d(wide, len(labels), 1))

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """What the backbone's stages make (batch, channels, height, width), the largest first."""
        backbone: Any = self.get_submodule("backbone")
        made: list[Tensor] = backbone.feature_maps(self.checked(pixels, self.channels))
        return made

    def hidden(self, pixels: Tensor) -> Tensor:
        return self.maps(pixels)[-1]

    def forward(self, pixels: Tensor) -> Tensor:
        maps, head = self.maps(pixels), self.get_submodule("decode_head")
        of = head.get_submodule

        def sized(x: Tensor, like: Tensor) -> Tensor:
            return interpolate(x, size=like.shape[2:], mode="bilinear")

        last, parts = maps[-1], [maps[-1]]
        for i, scale in enumerate(self.config.pool_scales):
            pooled = of(f"psp_modules.{i}.1")(adaptive_avg_pool2d(last, scale))
            parts.append(sized(pooled, last))
        sides = [of(f"lateral_convs.{i}")(x) for i, x in enumerate(maps[:-1])]
        sides.append(of("bottleneck")(cat(parts, 1)))
        for i in range(len(sides) - 1, 0, -1):
            sides[i - 1] = sides[i - 1] + sized(sides[i], sides[i - 1])
        made = [of(f"fpn_convs.{i}")(x) for i, x in enumerate(sides[:-1])] + [sides[-1]]
        joined = cat([made[0], *(sized(x, made[0]) for x in made[1:])], 1)
        return sized(of("classifier")(of("fpn_bottleneck")(joined)), pixels)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> UperNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = dict(c.backbone_config or {})
    kind = str(told.get("model_type"))
    choose("backbone_config.model_type", kind, ("swin", *convnext.BASES))
    seen: Any
    if kind == "swin":
        read = read_config(swin.Config, told | {"architectures": None})
        taken = stages_of(told, len(read.depths))
        seen = Swin(read, replace(swin.describe(read, ""), last=False, named=taken), ())
        widths = [read.embed_dim << (i - 1) for i in taken]
    else:
        seen = convnext.build(told | {"architectures": [f"{convnext.BASES[kind]}Backbone"]}, names)
        taken = stages_of(told, len(seen.config.depths))
        widths = [seen.config.hidden_sizes[i - 1] for i in taken]
    scales = all(type(n) is int and 1 <= n <= 64 for n in c.pool_scales)
    if 0 in taken or not scales:
        raise FormatError(f"config.json: the stages {taken} or pool_scales {c.pool_scales} are bad")
    return UperNet(c, seen, widths, labels_of(config))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of newer files and of ConvNeXt under the backbone's names."""
    base = "backbone."
    inner = {n.removeprefix(base): t for n, t in tensors.items() if n.startswith(base)}
    inner = {n.removeprefix("swin."): t for n, t in convnext.rename_tensors(inner).items()}
    others = {n: t for n, t in tensors.items() if not n.startswith(base)}
    return others | {base + n: t for n, t in inner.items()}


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is computed, of training, or of a norm that nothing reads."""
    norms = ("backbone.layernorm.", "backbone.swin.layernorm.", "backbone.convnext.layernorm.")
    known = name.startswith(("auxiliary_head.", *norms, "backbone.convnextv2.layernorm."))
    return known or name.endswith(".relative_position_index")


FAMILY = Family(
    model_types=("upernet",),
    tasks=("image-segmentation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=unused,
)
