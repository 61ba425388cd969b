"""Towers of pictures in front of language models: CLIP's and SigLIP's, and towers like these.

Idefics3 (Laurençon et al., 2024) and SigLIP 2 (Tschannen et al., 2025) take pictures of any grid,
Pixtral (Agrawal et al., 2024) rotates by row and column, InternVL (Chen et al., 2024) scales parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.config_schema import choose, read_config
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.qwen import axial_theta
from rushlight.models.layers.vision.attention.places import Rotary, Rotation
from rushlight.models.layers.vision.clip import layer_of
from rushlight.models.layers.vision.towers import ClipVision, SiglipVision
from rushlight.models.layers.vision.transformer import (
    AttentionPool,
    Layer,
    LayerNames,
    LayerSpec,
    put_parameter,
)
from rushlight.models.layers.vision.vit import pair


@dataclass(frozen=True)
class TowerNames:
    """Names of the checkpoint; "" for what there is none of. fresh: an RMS norm of patches."""

    patch: str = "embeddings.patch_embedding"
    fresh: str = ""
    first: str = ""
    positions: str = "embeddings.position_embedding"
    before: str = ""
    layers: str = "encoder.layers"
    last: str = "post_layernorm"
    mask: str = ""


@dataclass(frozen=True)
class TowerSpec:
    """A tower. places: how a picture's positions come of the table: as it is ("table"), by the
    nearest of its places ("nearest"), interpolated ("resized"; "stretched": without averaging), or
    by Pixtral's rotation ("rotary").

    flat: pixels are patches already. head: SigLIP's, which is kept and not read.
    """

    layer: LayerSpec
    layers: int
    image: tuple[int, int]
    patch: tuple[int, int]
    channels: int = 3
    names: TowerNames = TowerNames()
    places: Literal["table", "nearest", "resized", "stretched", "rotary"] = "table"
    flat: bool = False
    patch_bias: bool = True
    head: bool = False
    theta: float = 10000.0

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of patches of a picture of the usual size."""
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]


class Tower(nn.Module):
    """Pixels (n, channels, height, width), or patches (n, patches, features), -> hidden states."""

    def __init__(self, spec: TowerSpec) -> None:
        self.spec, names, width = spec, spec.names, spec.layer.width
        if min(spec.grid) < 1:
            raise FormatError(f"config.json: image_size {spec.image} is below a patch {spec.patch}")
        count = spec.grid[0] * spec.grid[1] + bool(names.first)
        if spec.flat:
            put(self, names.patch, nn.Linear(spec.channels * spec.patch[0] * spec.patch[1], width))
        else:
            put(
                self,
                names.patch,
                nn.Conv2d(spec.channels, width, spec.patch, spec.patch, bias=spec.patch_bias),
            )
        if names.fresh:
            put(self, names.fresh, nn.RMSNorm(width, spec.layer.eps))
        as_module = not names.first.endswith("token")
        for name in filter(None, (names.first, names.mask)):
            put_parameter(self, name, *(() if as_module else (1, 1)), width)
        if names.positions and as_module:
            put(self, names.positions, nn.Embedding(count, width))
        elif names.positions:
            put_parameter(self, names.positions, 1, count, width)
        if names.before:
            norm = nn.RMSNorm if spec.layer.rms else nn.LayerNorm
            put(self, names.before, norm(width, spec.layer.eps))
        put(self, names.layers, nn.ModuleList(Layer(spec.layer) for _ in range(spec.layers)))
        if names.last:
            put(self, names.last, nn.LayerNorm(width, spec.layer.eps))
        if spec.head:
            self.head = AttentionPool(spec.layer)

    def forward(
        self, pixels: Tensor, grid: tuple[int, int] | None = None, depth: int | None = None
    ) -> list[Tensor]:
        """The states (n, tokens, width) before and after each of the first `depth` layers.

        grid: the rows and columns of the pictures, where pixels are patches. ValueError for
        pictures of another size than the tower's, if its positions do not stretch.
        """
        spec, names = self.spec, self.spec.names
        patch: Any = self.get_submodule(names.patch)
        x = patch(pixels.to(patch.weight.dtype))
        if grid is None:
            grid = (x.shape[2], x.shape[3])
            x = x.flatten(2).transpose(1, 2)
        x = self.get_submodule(names.fresh)(x) if names.fresh else x
        if names.first:
            first = self._parameter(names.first).reshape(1, 1, -1)
            x = cat([first.expand(len(x), 1, -1), x], 1)
        tables: Rotation | None = None
        if spec.places == "rotary":
            tables = self._rotations(grid, x)
        else:
            x = x + self._placed(grid).to(x.dtype) if names.positions else x
            if spec.layer.rotary is not None:
                tables = spec.layer.rotary.tables(grid, 0, x)
        x = self.get_submodule(names.before)(x) if names.before else x
        states = [x]
        for layer in list(self.get_submodule(names.layers).children())[:depth]:
            states.append(layer(states[-1], tables=tables))
        return states

    def chosen(self, pixels: Tensor, layers: Any, grid: tuple[int, int] | None = None) -> Tensor:
        """The state after the layer of this number, from the end where it is negative.

        layers: a number, or several, whose states lie side by side. FormatError for numbers that
        no layer has.
        """
        count = self.spec.layers + 1
        several = (
            [layers] if isinstance(layers, int) else numbers_of("vision_feature_layer", layers)
        )
        if not several or not all(-count <= i < count for i in several):
            raise FormatError(
                f"config.json: vision_feature_layer is {brief(layers)}, but the tower has "
                f"{count - 1} layers"
            )
        places = [i % count for i in several]
        states = self(pixels, grid, max(places))
        return states[places[0]] if len(places) == 1 else cat([states[i] for i in places], 2)

    def last(self, state: Tensor) -> Tensor:
        """A state after the last norm, if the tower has one."""
        name = self.spec.names.last
        out: Tensor = self.get_submodule(name)(state) if name else state
        return out

    def _parameter(self, path: str) -> Tensor:
        home, _, name = path.rpartition(".")
        found: Tensor = getattr(self.get_submodule(home) if home else self, name)
        return found

    def _placed(self, grid: tuple[int, int]) -> Tensor:
        """The positions (tokens, width) of a picture of this grid."""
        spec = self.spec
        found: Any = self._parameter(spec.names.positions)
        table: Tensor = found[0] if isinstance(found, Tensor) else found.weight
        stretches = spec.places in ("resized", "stretched")
        if spec.places == "table" or (stretches and grid == spec.grid):
            if grid != spec.grid:
                raise ValueError(
                    f"pixels make {grid[0]} x {grid[1]} patches, but the tower takes "
                    f"{spec.grid[0]} x {spec.grid[1]}"
                )
            return table
        if stretches:
            square = table.reshape(1, *spec.grid, -1).permute(0, 3, 1, 2).float()
            smooth = spec.places == "resized"
            resized = interpolate(square, size=grid, mode="bilinear", antialias=smooth)
            return resized.permute(0, 2, 3, 1).reshape(grid[0] * grid[1], -1)
        side = spec.grid[0]
        edges = np.arange(1 / side, 1.0, 1 / side).astype(np.float32)
        rows, columns = (
            np.searchsorted(
                edges,
                np.minimum(
                    np.arange(n, dtype=np.float32) * np.float32(1 / n), np.float32(1 - 1e-6)
                ),
                "right",
            )
            for n in grid
        )
        index = (rows[:, None] * side + columns).reshape(-1).astype(np.int64)
        return table.index_select(0, from_numpy(index).to(table.device))

    def _rotations(self, grid: tuple[int, int], like: Tensor) -> Rotation:
        """Cosines and sines (patches, head): even frequencies by row, odd ones by column."""
        head = self.spec.layer.width // self.spec.layer.heads
        frequencies = self.spec.theta ** (-np.arange(0, head, 2) / head)
        rows, columns = (axis.reshape(-1, 1) for axis in np.indices(grid))
        half = np.concatenate([rows * frequencies[::2], columns * frequencies[1::2]], 1)
        angles = np.concatenate([half, half], 1)
        cos, sin = (from_numpy(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        return cos.to(like.device).to(like.dtype), sin.to(like.device).to(like.dtype)


@dataclass
class IdeficsVision:
    """The keys of vision_config of Idefics2, Idefics3 and SmolVLM."""

    hidden_size: int = 1152
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 16
    num_channels: int = 3
    image_size: Any = 224
    patch_size: Any = 32
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    model_type: str = "idefics3_vision"


@dataclass
class Siglip2Vision:
    """The keys of vision_config of SigLIP 2, whose pictures have any grid."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    num_patches: int = 256
    patch_size: int = 16
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    vision_use_head: bool = True
    model_type: str = "siglip2_vision_model"


@dataclass
class InternVision:
    """The keys of vision_config of InternVL."""

    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_channels: int = 3
    image_size: Any = 448
    patch_size: Any = 14
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    norm_type: str = "layer_norm"
    attention_bias: bool = False
    use_qk_norm: bool = False
    use_mask_token: bool = False
    use_absolute_position_embeddings: bool = True
    use_mean_pooling: bool = True
    model_type: str = "internvl_vision"

    neutral = {"layer_scale_init_value": (), "projection_dropout": ()}


@dataclass
class QianfanVision(InternVision):
    """The keys of vision_config of Qianfan-OCR."""

    attention_bias: bool = True
    model_type: str = "qianfan_ocr_vision"

    neutral = InternVision.neutral | {"drop_path_rate": ()}  # noqa: RUF012


@dataclass
class PixtralVision:
    """The keys of vision_config of Pixtral."""

    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_channels: int = 3
    image_size: Any = 1024
    patch_size: Any = 16
    hidden_act: str = "gelu"
    rope_parameters: Any = None
    rope_theta: float | None = None
    model_type: str = "pixtral"

    neutral = {"rope_scaling": (None,)}


def _plain(c: Any) -> TowerSpec:
    return TowerSpec(
        layer_of(c), c.num_hidden_layers, pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"), c.num_channels,
    )  # fmt: skip


def _clip(c: Any) -> TowerSpec:
    names = TowerNames(first="embeddings.class_embedding", before="pre_layrnorm")
    return replace(_plain(c), names=names, patch_bias=False)


def _siglip(c: Any) -> TowerSpec:
    return replace(_plain(c), head=c.vision_use_head)


def _idefics(c: Any) -> TowerSpec:
    return replace(_plain(c), places="nearest")


def _siglip2(c: Any) -> TowerSpec:
    side = round(c.num_patches**0.5)
    if side * side != c.num_patches:
        raise FormatError(
            f"config.json: vision_config: num_patches is {c.num_patches}; it must be a square"
        )
    return TowerSpec(
        layer_of(c), c.num_hidden_layers, (side * c.patch_size,) * 2, (c.patch_size,) * 2,
        c.num_channels, places="resized", flat=True, head=c.vision_use_head,
    )  # fmt: skip


def _intern(c: Any) -> TowerSpec:
    choose("vision_config: norm_type", c.norm_type, ("layer_norm", "rms_norm"))
    norms = ("attention.q_norm", "attention.k_norm") if c.use_qk_norm else ("", "")
    names = LayerNames(
        "attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.projection_layer",
        "mlp.fc1", "mlp.fc2", scale1="lambda_1", scale2="lambda_2",
        q_norm=norms[0], k_norm=norms[1],
    )  # fmt: skip
    layer = replace(
        layer_of(c), names=names, scaled=True, biases=(c.attention_bias,) * 3,
        rms=c.norm_type == "rms_norm",
    )  # fmt: skip
    return replace(
        _plain(c), layer=layer, names=TowerNames(
            "embeddings.patch_embeddings.projection", "", "embeddings.cls_token",
            "embeddings.position_embeddings" if c.use_absolute_position_embeddings else "",
            layers="layers" if isinstance(c, QianfanVision) else "encoder.layer",
            last="" if c.use_mean_pooling else "layernorm",
            mask="embeddings.mask_token" if c.use_mask_token else "",
        ),
    )  # fmt: skip


def _pixtral(c: Any) -> TowerSpec:
    names = LayerNames(
        "attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj",
        "feed_forward.up_proj", "feed_forward.down_proj", "attention_norm", "ffn_norm",
        gate="feed_forward.gate_proj",
    )  # fmt: skip
    head = c.hidden_size // max(c.num_attention_heads, 1)
    layer = LayerSpec(
        c.hidden_size, c.num_attention_heads, c.intermediate_size, c.hidden_act, 1e-5,
        (False, False, False), gated=True, names=names, rotary=Rotary(head, 10000.0),
        out_bias=False, mlp_bias=False, rms=True,
    )  # fmt: skip
    theta = axial_theta(c.rope_parameters or {"rope_theta": c.rope_theta or 10000.0})
    return TowerSpec(
        layer, c.num_hidden_layers, pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"), c.num_channels,
        TowerNames("patch_conv", "", "", "", "ln_pre", "transformer.layers", ""),
        "rotary", patch_bias=False, theta=theta,
    )  # fmt: skip


_KINDS: dict[str, tuple[type, Callable[[Any], TowerSpec]]] = {
    "clip_vision_model": (ClipVision, _clip),
    "siglip_vision_model": (SiglipVision, _siglip),
    "siglip2_vision_model": (Siglip2Vision, _siglip2),
    "idefics2_vision": (IdeficsVision, _idefics),
    "idefics3_vision": (IdeficsVision, _idefics),
    "smolvlm_vision": (IdeficsVision, _idefics),
    "internvl_vision": (InternVision, _intern),
    "qianfan_ocr_vision": (QianfanVision, _intern),
    "pixtral": (PixtralVision, _pixtral),
}


def vision_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object vision_config of config.json; FormatError for something else."""
    vision = config.get("vision_config") or {}
    if not isinstance(vision, Mapping):
        raise FormatError(f"config.json: vision_config is {brief(vision)}; it must be an object")
    return vision


def tower_of(config: Mapping[str, Any], default: str, **usual: Any) -> TowerSpec:
    """The tower that vision_config of config.json describes.

    default: the model_type of one that does not say it. usual: values of keys that are absent.
    FormatError for towers that are none of those here.
    """
    values = {**usual, **vision_of(config)}
    kind = values.get("model_type") or default
    # Checkpoints name SigLIP's tower so too.
    kind = {"siglip": "siglip_vision_model", "clip": "clip_vision_model",
            "idefics2": "idefics2_vision"}.get(kind, kind)  # fmt: skip
    if kind not in _KINDS:
        raise FormatError(
            f"config.json: vision_config: model_type {brief(kind)} is not supported in "
            f"{config['model_type']}; supported: {', '.join(_KINDS)}"
        )
    cls, described = _KINDS[kind]
    known: Any = read_config(cls, {**values, "model_type": kind, "architectures": None})
    choose("vision_config: hidden_act", known.hidden_act, tuple(ACTIVATIONS))
    return described(known)


def each_size(pixels: Tensor, sizes: Tensor) -> list[Tensor]:
    """Each picture (1, channels, height, width) of some filled up to one size; sizes: (n, 2)."""
    return [
        pixels[i : i + 1, :, :height, :width] for i, (height, width) in enumerate(sizes.tolist())
    ]


def shuffled(x: Tensor, factor: int) -> Tensor:
    """(n, rows, columns, width) with each `factor` x `factor` places side by side as one."""
    n, rows, columns, width = x.shape
    blocks = x.reshape(n, rows // factor, factor, columns // factor, factor, width)
    return blocks.permute(0, 1, 3, 2, 4, 5).reshape(
        n, rows // factor, columns // factor, factor * factor * width
    )


class TwoProducts(nn.Module):
    """linear_2(act(linear_1(x))), after a norm with the name `norm` where there is one.

    halved: the first product gives two halves, act(second) * first.
    """

    def __init__(
        self,
        given: int,
        inner: int,
        out: int,
        act: str,
        bias: bool = True,
        norm: str = "",
        eps: float = 1e-5,
        halved: bool = False,
    ) -> None:
        choose("projector_hidden_act", act, tuple(ACTIVATIONS))
        self.act, self.normed, self.halved = ACTIVATIONS[act], norm, halved
        if norm:
            put(self, norm, nn.LayerNorm(given, eps))
        self.linear_1 = nn.Linear(given, inner, bias)
        self.linear_2 = nn.Linear(inner // 2 if halved else inner, out, bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., given) -> (..., out)."""
        x = self.linear_1(self.get_submodule(self.normed)(x) if self.normed else x)
        if self.halved:
            first, second = x.chunk(2, -1)
            x = self.act(second) * first
        else:
            x = self.act(x)
        out: Tensor = self.linear_2(x)
        return out
