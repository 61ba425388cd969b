"""DPT (Ranftl et al., 2021): the depth or the class of every pixel, of a transformer's states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families import family_of
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.convolutional.bit import Bit
from rushlight.models.layers.vision.convolutional.bit import Config as BitConfig
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.dense import Neck, NeckSpec
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.transformer import LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

TASKS = ("depth-estimation", "image-segmentation")
DEPTH, CLASSES = "DPTForDepthEstimation", "DPTForSemanticSegmentation"
BACKBONES = {"dinov2": "Dinov2Backbone", "beit": "BeitBackbone", "swinv2": "Swinv2Backbone"}
_INNER = 32  # channels before the depth
_BIT, _PLAIN = "dpt.embeddings.backbone.bit", 2  # a hybrid's net, and how many of its maps are read
_USUAL: dict[str, Any] = {
    "model_type": "bit",
    "global_padding": "same",
    "layer_type": "bottleneck",
    "depths": [3, 4, 9],
    "out_features": ["stage1", "stage2", "stage3"],
    "embedding_dynamic_padding": True,
}


@dataclass
class Config:
    """The keys of config.json. Those of the transformer are null where a backbone_config is."""

    neutral = {"embedding_size": ()}

    hidden_size: int = 768
    num_hidden_layers: int | None = 12
    num_attention_heads: int | None = 12
    intermediate_size: int | None = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float | None = 1e-12
    image_size: Any = 384
    patch_size: Any = 16
    num_channels: int | None = 3
    is_hybrid: bool = False
    qkv_bias: bool | None = True
    backbone_out_indices: list[int] | None = field(default_factory=lambda: [2, 5, 8, 11])
    readout_type: str = "project"
    reassemble_factors: list[Any] = field(default_factory=lambda: [4, 2, 1, 0.5])
    neck_hidden_sizes: list[int] = field(default_factory=lambda: [96, 192, 384, 768])
    fusion_hidden_size: int = 256
    head_in_index: Any = -1
    use_batch_norm_in_fusion_residual: bool | None = False
    use_bias_in_fusion_residual: bool | None = None
    add_projection: bool = False
    backbone_config: dict[str, Any] | None = None
    # Of training, of a pooler that is not read, and of hybrids:
    use_auxiliary_head: bool | None = True
    auxiliary_loss_weight: float = 0.4
    semantic_loss_ignore_index: int = 255
    semantic_classifier_dropout: float = 0.1
    backbone_featmap_shape: Any = None
    neck_ignore_stages: Any = None
    pooler_output_size: int | None = None
    pooler_act: str = "tanh"
    backbone: str | None = None
    use_timm_backbone: bool | None = False
    use_pretrained_backbone: bool | None = False
    backbone_kwargs: dict[str, Any] | None = None
    model_type: str = "dpt"


class DPT(ImageModel):
    """Pixels -> depths (batch, height, width), inverse and relative; or logits of classes.

    Those are (batch, classes, height, width). seen: a transformer of one width (`flat`), or of maps
    that become smaller. before: a hybrid's convolutional net, whose last map the transformer reads.
    """

    def __init__(
        self,
        c: Config,
        seen: Any,
        wanted: list[int],
        labels: tuple[str, ...],
        before: Bit | None = None,
    ) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["DPT"]
        self.seen_at, self.wanted, self.flat = (
            "backbone" if c.backbone_config and before is None else "dpt",
            wanted,
            isinstance(seen, ViT),
        )
        put(self, self.seen_at, seen)
        self.taken: list[int] = []
        if before is not None:
            put(self, _BIT, before)
            self.taken = stages_of(c.backbone_config or _USUAL, len(before.config.depths))
            self.image_size = pair(c.image_size, "image_size")
        self.normed = bool(getattr(seen.config, "apply_layernorm", False))
        width, count, norms = (
            c.fusion_hidden_size,
            len(c.neck_hidden_sizes),
            bool(c.use_batch_norm_in_fusion_residual),
        )
        plain = 0 if before is None else _PLAIN
        if len(wanted) + plain != count or (self.flat and len(c.reassemble_factors) < count):
            raise FormatError(
                f"config.json: neck_hidden_sizes {c.neck_hidden_sizes}, reassemble_factors "
                f"{c.reassemble_factors} and the states {wanted} do not agree"
            )
        self.neck = Neck(
            NeckSpec(
                seen.spec.layer.width if self.flat else 0,
                c.neck_hidden_sizes,
                c.reassemble_factors[:count] if self.flat else (),
                width,
                c.readout_type,
                c.hidden_act,
                norms,
                not norms
                if c.use_bias_in_fusion_residual is None
                else c.use_bias_in_fusion_residual,
                True,
                plain,
            )
        )
        if labels:
            put(self, "head.head.0", nn.Conv2d(width, width, 3, padding=1, bias=False))
            put(self, "head.head.1", nn.BatchNorm2d(width))
            put(self, "head.head.4", nn.Conv2d(width, len(labels), 1))
            return
        if c.add_projection:
            put(self, "head.projection", nn.Conv2d(width, width, 3, padding=1))
        put(self, "head.head.0", nn.Conv2d(width, width // 2, 3, padding=1))
        put(self, "head.head.2", nn.Conv2d(width // 2, _INNER, 3, padding=1))
        put(self, "head.head.4", nn.Conv2d(_INNER, 1, 1))

    def hidden(self, pixels: Tensor) -> Tensor:
        """The map (batch, channels, height, width) that the head reads."""
        seen: Any = self.get_submodule(self.seen_at)
        if self.flat:
            fine: list[Tensor] = []
            if self.taken:
                x = self.checked(pixels, self.config.num_channels or 3)
                fine_maps = self.get_submodule(_BIT)(x)
                *fine, pixels = (fine_maps[i] for i in self.taken)
            states = seen.states(pixels)
            read = [seen.normed(states[i]) if self.normed else states[i] for i in self.wanted]
            tall, wide = (n // p for n, p in zip(pixels.shape[2:], seen.spec.patch, strict=True))
            maps = fine + self.neck.pictures(read, (tall, wide), 1)
        else:
            stages = seen.maps(pixels)
            maps = [stages[i - 1].permute(0, 3, 1, 2) for i in self.wanted]
        fused: Tensor = self.neck(maps)[self.config.head_in_index]
        return fused

    def forward(self, pixels: Tensor) -> Tensor:
        x, head = self.hidden(pixels), self.get_submodule("head.head")
        first, last = head.get_submodule("0"), head.get_submodule("4")
        if self.labels:
            return _doubled(last(relu(head.get_submodule("1")(first(x)))))
        if self.config.add_projection:
            x = relu(self.get_submodule("head.projection")(x))
        x = relu(head.get_submodule("2")(_doubled(first(x))))
        return relu(last(x))[:, 0]


def _doubled(x: Tensor) -> Tensor:
    size = (2 * x.shape[2], 2 * x.shape[3])
    return interpolate(x, size=size, mode="bilinear", align_corners=True)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> DPT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, (DEPTH, CLASSES))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("readout_type", c.readout_type, ("ignore", "add", "project"))
    count = len(c.neck_hidden_sizes)
    if type(c.head_in_index) is not int or not -count <= c.head_in_index < count:
        raise FormatError(f"config.json: head_in_index is {brief(c.head_in_index)}")
    classes = config.get("architectures") == [CLASSES]
    before = None
    if c.is_hybrid:
        choose("readout_type", c.readout_type, ("project",))
        seen, wanted, before = _hybrid(c)
    elif c.backbone_config is not None:
        if classes:
            raise FormatError(f"config.json: {CLASSES} has no backbone_config in its checkpoints")
        seen, wanted = _backbone(c.backbone_config, names)
    else:
        choose("backbone", c.backbone, (None,))
        seen, wanted = _plain(c)
    model = DPT(c, seen, wanted, labels_of(config) if classes else (), before)
    model.tasks = TASKS[1:] if classes else TASKS[:1]
    return model


def _hybrid(c: Config) -> tuple[ViT, list[int], Bit]:
    """The transformer, the states of it that are read, and the net that makes what it reads."""
    told = c.backbone_config or _USUAL
    choose("backbone_config.model_type", told.get("model_type", "bit"), ("bit",))
    bit = read_config(BitConfig, told | {"architectures": None})
    choose("backbone_config.layer_type", bit.layer_type, ("bottleneck",))
    choose("backbone_config.global_padding", bit.global_padding, (None, "same", "SAME"))
    choose("backbone_config.hidden_act", bit.hidden_act, tuple(ACTIVATIONS))
    choose("neck_ignore_stages", c.neck_ignore_stages, (None, [0, 1]))
    net = Bit(bit)
    image, patch = pair(c.image_size, "image_size"), pair(c.patch_size, "patch_size")
    taken = stages_of(told, len(bit.depths))
    shape = c.backbone_featmap_shape or [1, net.widths[-1], 0, 0]
    if (
        len(taken) != _PLAIN + 1
        or not isinstance(shape, list)
        or len(shape) != 4
        or (shape[1] != net.widths[taken[-1]])
    ):
        raise FormatError(
            f"config.json: backbone_config's stages {taken} of {net.widths} channels "
            f"and backbone_featmap_shape {brief(shape)} do not agree"
        )
    completed = replace(
        c,
        image_size=[n // p for n, p in zip(image, patch, strict=True)],
        patch_size=1,
        num_channels=shape[1],
        backbone_out_indices=(c.backbone_out_indices or [])[2:],
    )
    return *_plain(completed, "embeddings.projection"), net


def _plain(c: Config, patches: str = ViTSpec.patches) -> tuple[ViT, list[int]]:
    """The transformer of the file's own keys, and the states that are read."""
    layers, asked = c.num_hidden_layers or 0, c.backbone_out_indices or []
    wanted = sorted({i + 1 for i in asked if type(i) is int})
    if not wanted or not 1 <= wanted[0] <= wanted[-1] <= layers:
        raise FormatError(
            f"config.json: backbone_out_indices is {brief(asked)}; the "
            f"{layers} layers have numbers from 0"
        )
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads or 0,
        c.intermediate_size or 0,
        c.hidden_act,
        1e-12 if c.layer_norm_eps is None else c.layer_norm_eps,
        (bool(c.qkv_bias),) * 3,
    )
    return ViT(
        c,
        ViTSpec(
            layer,
            layers,
            pair(c.image_size, "image_size"),
            pair(c.patch_size, "patch_size"),
            "",
            c.num_channels or 3,
            patches=patches,
            resampled="bilinear",
        ),
        (),
    ), wanted


def _backbone(told: dict[str, Any], names: Collection[str]) -> tuple[Any, list[int]]:
    """The backbone of a family of its own, and the states that are read."""
    kind = told.get("model_type")
    choose("backbone_config.model_type", kind, tuple(BACKBONES))
    backbone_names = [n.removeprefix("backbone.") for n in names if n.startswith("backbone.")]
    family = family_of(kind, "config.json: backbone_config.model_type")
    seen = family.build(told | {"architectures": [BACKBONES[str(kind)]]}, backbone_names)
    if isinstance(seen, ViT):  # whose first token is read beside the patches
        choose("backbone_config.reshape_hidden_states", seen.config.reshape_hidden_states, (False,))
        return seen, stages_of(told, seen.spec.layers)
    wanted = stages_of(told, len(seen.spec.stages))
    if wanted[0] == 0:
        raise FormatError('config.json: backbone_config.out_features has "stem", which is no stage')
    return seen, wanted


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is of training: the second head."""
    return name.startswith("auxiliary_head.")


FAMILY = Family(
    model_types=("dpt",),
    tasks=TASKS,
    config=Config,
    build=build,
    unused=unused,
)
