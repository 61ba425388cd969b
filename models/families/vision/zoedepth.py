"""ZoeDepth (Bhat et al., 2023): DPT's relative depths turned into meters by bins that are drawn."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import beit
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.dense import Neck, NeckSpec
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.vit import ViT

ARCHITECTURES = ("ZoeDepthForDepthEstimation",)
_PULL, _LEVELS, _SMALL = 300.0, 4, 1e-4
_CLASSIFIED = 128
_TRANSFORMER = ("hidden_size", "intermediate_size", "num_attention_heads")


@dataclass
class Config:
    """The keys of config.json."""

    # Its parts read none of these; the backbone says its own width.
    neutral = dict.fromkeys(
        (
            "batch_norm_eps",
            "attractor_alpha",
            "attractor_gamma",
            "backbone_hidden_size",
            "hidden_size",
            "patch_size",
        ),
        (),
    )

    backbone_config: dict[str, Any] = field(default_factory=dict)
    backbone: str | None = None  # of backbones that are fetched by name, as what follows
    use_timm_backbone: bool | None = False
    use_pretrained_backbone: bool | None = False
    backbone_kwargs: dict[str, Any] | None = None
    hidden_act: str = "gelu"
    readout_type: str = "project"
    reassemble_factors: list[Any] = field(default_factory=lambda: [4, 2, 1, 0.5])
    neck_hidden_sizes: list[int] = field(default_factory=lambda: [96, 192, 384, 768])
    fusion_hidden_size: int = 256
    head_in_index: Any = -1
    use_batch_norm_in_fusion_residual: bool = False
    use_bias_in_fusion_residual: bool | None = None
    num_relative_features: int = 32
    add_projection: bool = False
    bottleneck_features: int = 256
    num_attractors: list[int] = field(default_factory=lambda: [16, 8, 4, 1])
    bin_embedding_dim: int = 128
    attractor_kind: str = "mean"
    min_temp: float = 0.0212
    max_temp: float = 50.0
    bin_centers_type: str = "softplus"
    bin_configurations: list[Any] | None = None
    num_patch_transformer_layers: int | None = None
    patch_transformer_hidden_size: int | None = None
    patch_transformer_intermediate_size: int | None = None
    patch_transformer_num_attention_heads: int | None = None
    model_type: str = "zoedepth"


def _two(inputs: int, inner: int, outputs: int) -> nn.Module:
    pair = nn.Module()
    pair.conv1, pair.conv2 = nn.Conv2d(inputs, inner, 1), nn.Conv2d(inner, outputs, 1)
    return pair


def _fed(part: Any, x: Tensor) -> Tensor:
    out: Tensor = part.conv2(part.conv1(x).relu())
    return out


def _softplus(x: Tensor) -> Tensor:
    return x.relu() + (1 + (-x.abs()).exp()).log()


def _sized(x: Tensor, like: Tensor) -> Tensor:
    return interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=True)


class _Domain(nn.Module):
    """A layer of the transformer that tells rooms from streets."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        if heads < 1 or width % heads:
            raise FormatError(f"config.json: {width} channels do not fit {heads} heads")
        self.heads = heads
        for name in ("query", "key", "value", "out_proj"):
            put(self, f"self_attn.{name}", nn.Linear(width, width))
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        of: Any = self.get_submodule("self_attn")
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (of.query, of.key, of.value)
        )
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + of.out_proj(seen))
        normed: Tensor = self.norm2(x + self.linear2(self.linear1(x).relu()))
        return normed


class ZoeDepth(ImageModel):
    """Pixels -> meters (batch, height, width), in transformers' names."""

    def __init__(self, c: Config, seen: ViT, wanted: list[int], bins: list[dict[str, Any]]) -> None:
        self.config, self.wanted, self.bins, self.processor = c, wanted, bins, KINDS["ZoeDepth"]
        self.channels = seen.spec.channels
        put(self, "backbone", seen)
        wide, norms, count = c.fusion_hidden_size, c.use_batch_norm_in_fusion_residual, len(wanted)
        biased = (
            not norms if c.use_bias_in_fusion_residual is None else c.use_bias_in_fusion_residual
        )
        self.neck = Neck(
            NeckSpec(
                seen.spec.layer.width, c.neck_hidden_sizes, c.reassemble_factors[:count], wide,
                c.readout_type, c.hidden_act, norms, biased, True,
            )
        )  # fmt: skip
        base, inner = "relative_head.", c.num_relative_features
        if c.add_projection:
            put(self, f"{base}projection", nn.Conv2d(256, 256, 3, padding=1))
        put(self, f"{base}conv1", nn.Conv2d(wide, wide // 2, 3, padding=1))
        put(self, f"{base}conv2", nn.Conv2d(wide // 2, inner, 3, padding=1))
        put(self, f"{base}conv3", nn.Conv2d(inner, 1, 1))
        self._make_metric(c, wide)

    def _make_metric(self, c: Config, wide: int) -> None:
        base, embedded, neck = "metric_head.", c.bin_embedding_dim, c.bottleneck_features
        several = len(self.bins) > 1
        put(self, f"{base}conv2", nn.Conv2d(neck, neck, 1))
        inner = embedded // 2 if several else 128
        put(self, f"{base}seed_projector", _two(neck, inner, embedded))
        for i in range(_LEVELS):
            put(self, f"{base}projectors.{i}", _two(wide, inner, embedded))
        last = c.num_relative_features + (not several) + embedded
        for bins in self.bins:
            name, count = f".{bins['name']}" if several else "", bins["n_bins"]
            seeds = f"{base}seed_bin_regressor{'s' * several}{name}"
            put(self, seeds, _two(neck, embedded // 2 if several else 256, count))
            for i, n in enumerate(c.num_attractors[:_LEVELS]):
                put(
                    self,
                    f"{base}attractors{name}.{i}",
                    _two(embedded, embedded, 16 if several else n),
                )
            middle = last // (4 if several else 2)
            for i, sizes in ((0, (last, middle)), (2, (middle, 4))):
                put(self, f"{base}conditional_log_binomial{name}.mlp.{i}", nn.Conv2d(*sizes, 1))
        if several:
            width, fed, heads = (getattr(c, f"patch_transformer_{n}") or 0 for n in _TRANSFORMER)
            prefix = f"{base}patch_transformer."
            layers = [
                _Domain(width, fed, heads) for _ in range(c.num_patch_transformer_layers or 0)
            ]
            put(self, f"{prefix}transformer_encoder", nn.ModuleList(layers))
            put(self, f"{prefix}embedding_convPxP", nn.Conv2d(neck, width, 1))
            put(self, f"{base}mlp_classifier.linear1", nn.Linear(_CLASSIFIED, _CLASSIFIED))
            put(self, f"{base}mlp_classifier.linear2", nn.Linear(_CLASSIFIED, 2))

    def hidden(self, pixels: Tensor) -> Tensor:
        """The finest map (batch, channels, height, width) of DPT's neck."""
        return self._maps(pixels)[1][-1]

    def _maps(self, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        seen: Any = self.get_submodule("backbone")
        states = seen.states(self.checked(pixels, self.channels))
        grid = tuple(n // p for n, p in zip(pixels.shape[2:], seen.spec.patch, strict=True))
        maps = self.neck.shaped(self.neck.pictures([states[i] for i in self.wanted], grid, 1))
        return maps[-1], self.neck.fused(maps)

    def forward(self, pixels: Tensor) -> Tensor:
        bottleneck, fused = self._maps(pixels)
        c, head = self.config, self.get_submodule("relative_head")
        of, x = head.get_submodule, fused[c.head_in_index]
        x = of("projection")(x).relu() if c.add_projection else x
        x = of("conv1")(x)
        size = 2 * x.shape[2], 2 * x.shape[3]
        x = interpolate(x, size=size, mode="bilinear", align_corners=True)
        features = of("conv2")(x).relu()
        metric: Any = self.get_submodule("metric_head")
        seen = metric.conv2(bottleneck)
        several = len(self.bins) > 1
        if not several:
            features = cat([features, of("conv3")(features).relu()], 1)
        meters = [self._meters(metric, bins, seen, fused, features, several) for bins in self.bins]
        if not several:
            return meters[0]
        logits = self._domain(metric, seen).sum(0)
        first = (logits[0] >= logits[1]).to(meters[0].dtype)
        return meters[0] * first + meters[1] * (1 - first)

    def _domain(self, metric: Any, x: Tensor) -> Tensor:
        """Logits (batch, 2) of the bins that fit what is seen."""
        net = metric.patch_transformer
        x = pad(net.embedding_convPxP(x).flatten(2), (1, 0)).transpose(1, 2)
        width = x.shape[2]
        place = arange(x.shape[1], device=x.device).float().unsqueeze(1)
        bands = (arange(width // 2, device=x.device).float() * (-2 * math.log(1e4) / width)).exp()
        x = x + cat([(place * bands).sin(), (place * bands).cos()], 1).to(x.dtype)
        for layer in list(net.transformer_encoder.children())[:_LEVELS]:
            x = layer(x)
        classes = metric.mlp_classifier
        logits: Tensor = classes.linear2(classes.linear1(x[:, 0]).relu())
        return logits

    def _meters(
        self, metric: Any, bins: Any, x: Tensor, fused: list[Tensor], last: Tensor, several: bool
    ) -> Tensor:
        """Meters (batch, height, width): bins' centers, weighed by how likely each is."""
        of, c = metric.get_submodule, self.config
        name = f".{bins['name']}" if several else ""
        centers = _softplus(_fed(of(f"seed_bin_regressor{'s' * several}{name}"), x))
        before = _fed(metric.seed_projector, x)
        for i in range(_LEVELS):
            projected = _fed(of(f"projectors.{i}"), fused[i])
            pulls = _softplus(
                _fed(of(f"attractors{name}.{i}"), projected + _sized(before, projected))
            )
            centers = _sized(centers, pulls)
            apart = pulls.unsqueeze(2) - centers.unsqueeze(1)
            moved = apart / (1 + _PULL * apart * apart)
            moved = moved.mean(1) if c.attractor_kind == "mean" else moved.sum(1)
            centers, before = centers + moved, projected
        mlp = of(f"conditional_log_binomial{name}.mlp")
        y = mlp.get_submodule("0")(cat([last, _sized(before, last)], 1))
        y = _softplus(mlp.get_submodule("2")(ACTIVATIONS["gelu"](y))) + _SMALL
        share, heat = (y[:, i : i + 1] / (y[:, i : i + 1] + y[:, i + 1 : i + 2]) for i in (0, 2))
        heat = (c.max_temp - c.min_temp) * heat + c.min_temp
        weights = (_likely(share, bins["n_bins"]) / heat).softmax(1)
        meters: Tensor = (weights * _sized(centers, last)).sum(1)
        return meters


def _likely(share: Tensor, count: int) -> Tensor:
    """Logarithms (batch, count, h, w) of a binomial's shares, by Stirling's formula."""
    near = 1e-7
    k = arange(count, device=share.device).float().reshape(1, -1, 1, 1)
    n = count - 1
    total, chosen = n + near, k + near
    rest = total - chosen
    ways = total * math.log(total) - chosen * chosen.log() - rest * (rest + near).log()
    some, others = share.clamp(min=_SMALL, max=1), (1 - share).clamp(min=_SMALL, max=1)
    return ways + k * some.log() + (n - k) * others.log()


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ZoeDepth:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("readout_type", c.readout_type, ("project",))  # with others the reference itself fails
    choose("bin_centers_type", c.bin_centers_type, ("softplus",))
    choose("attractor_kind", c.attractor_kind, ("mean", "sum"))
    choose("bottleneck_features", c.bottleneck_features, (c.fusion_hidden_size,))
    at_least_one(c, "reassemble_factors")
    backbone = c.backbone_config or {}
    choose("backbone_config.model_type", backbone.get("model_type"), ("beit",))
    choose("reshape_hidden_states", backbone.get("reshape_hidden_states", True), (False,))
    backbone_names = [n.removeprefix("backbone.") for n in names if n.startswith("backbone.")]
    seen = beit.build(backbone | {"architectures": ["BeitBackbone"]}, backbone_names)
    wanted = stages_of(backbone, seen.spec.layers)
    bins = c.bin_configurations or [{"n_bins": 64, "min_depth": 0.001, "max_depth": 10.0}]
    good = all(
        isinstance(b, dict) and type(b.get("n_bins")) is int and b["n_bins"] > 1 for b in bins
    )
    named = len(bins) == 1 or all(isinstance(b.get("name"), str) for b in bins if good)
    if not good or not named or len(bins) > 2:
        raise FormatError(f"config.json: bin_configurations is {brief(bins)}")
    count, index = len(wanted), c.head_in_index
    if not len(c.neck_hidden_sizes) == count == _LEVELS <= len(c.num_attractors):
        raise FormatError(
            f"config.json: neck_hidden_sizes, num_attractors and {wanted} do not agree"
        )
    choose("head_in_index", index, tuple(range(-count, count)))
    return ZoeDepth(c, seen, wanted, bins)


FAMILY = Family(
    model_types=("zoedepth",),
    tasks=("depth-estimation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    unused=lambda name, config: name.endswith(("k_idx", "k_minus_1", "relative_position_index")),
)
