"""FocalNet (Yang et al., 2022): a Swin whose tokens are weighed by contexts of several widths."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.padding import pad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.layers.vision.vit import pair

_GROWS = 2  # by how much the kernel of each level is wider than the one before


def _four(*numbers: int) -> Any:
    return field(default_factory=lambda: list(numbers))


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {
        "image_size": (), "hidden_sizes": (), "drop_path_rate": (), "layerscale_value": (),
        "encoder_stride": (), "stage_names": (), "out_features": (), "out_indices": (),
    }  # fmt: skip

    patch_size: Any = 4
    num_channels: int = 3
    embed_dim: int = 96
    use_conv_embed: bool = False
    depths: list[int] = _four(2, 2, 6, 2)
    focal_levels: list[int] = _four(2, 2, 2, 2)
    focal_windows: list[int] = _four(3, 3, 3, 3)
    hidden_act: str = "gelu"
    mlp_ratio: float = 4.0
    use_layerscale: bool = False
    use_post_layernorm: bool = False
    use_post_layernorm_in_modulation: bool = False
    normalize_modulator: bool = False
    layer_norm_eps: float = 1e-5
    model_type: str = "focalnet"


class _Modulation(nn.Module):
    """Tokens (batch, rows, columns, width), each times a context that gates choose."""

    def __init__(self, c: Config, width: int, levels: int, window: int) -> None:
        self.levels, self.config = levels, c
        self.projection_in = nn.Linear(width, 2 * width + levels + 1)
        self.projection_context = nn.Conv2d(width, width, 1)
        self.projection_out = nn.Linear(width, width)
        for i in range(levels):
            kernel = _GROWS * i + window
            conv = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width, bias=False)
            put(self, f"focal_layers.{i}.0", conv)
        if c.use_post_layernorm_in_modulation:
            self.layernorm = nn.LayerNorm(width, c.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        width, gelu = x.shape[3], ACTIVATIONS["gelu"]
        q, context, gates = (
            self.projection_in(x).permute(0, 3, 1, 2).split([width, width, self.levels + 1], 1)
        )
        total: Tensor | None = None
        for i in range(self.levels):
            context = gelu(self.get_submodule(f"focal_layers.{i}.0")(context))
            gated = context * gates[:, i : i + 1]
            total = gated if total is None else total + gated
        whole = gelu(context.mean((2, 3), keepdim=True)) * gates[:, self.levels :]
        total = whole if total is None else total + whole
        if self.config.normalize_modulator:
            total = total / (self.levels + 1)
        y = (q * self.projection_context(total)).permute(0, 2, 3, 1)
        y = self.layernorm(y) if self.config.use_post_layernorm_in_modulation else y
        out: Tensor = self.projection_out(y)
        return out


class _Layer(nn.Module):
    def __init__(self, c: Config, width: int, levels: int, window: int) -> None:
        self.late, self.act = c.use_post_layernorm, ACTIVATIONS[c.hidden_act]
        self.norm1, self.norm2 = (nn.LayerNorm(width, c.layer_norm_eps) for _ in range(2))
        self.modulation, inner = _Modulation(c, width, levels, window), int(width * c.mlp_ratio)
        put(self, "mlp.fc1", nn.Linear(width, inner))
        put(self, "mlp.fc2", nn.Linear(inner, width))
        for name in ("gamma_1", "gamma_2") if c.use_layerscale else ():
            put_parameter(self, name, width)

    def forward(self, x: Tensor) -> Tensor:
        mlp: Any = self.get_submodule("mlp")
        for name, norm in (("gamma_1", self.norm1), ("gamma_2", self.norm2)):
            y = x if self.late else norm(x)
            y = self.modulation(y) if name == "gamma_1" else mlp.fc2(self.act(mlp.fc1(y)))
            y = norm(y) if self.late else y
            scale: Tensor | None = getattr(self, name, None)
            x = x + (y if scale is None else scale * y)
        return x


class FocalNet(ImageModel):
    """FocalNet in transformers' names."""

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["Bit"]
        widths = [c.embed_dim << i for i in range(len(c.depths))]
        patch = pair(c.patch_size, "patch_size")
        self.steps = [patch, *[(2, 2)] * (len(widths) - 1)]
        before = c.num_channels
        for i, width in enumerate(widths):
            conv = nn.Conv2d(before, width, self.steps[i], self.steps[i])
            if c.use_conv_embed:
                conv = nn.Conv2d(before, width, *((3, 2, 1) if i else (7, 4, 2)))
            embed, norm = self._paths(i)
            put(self, f"{embed}.projection", conv)
            put(self, norm, nn.LayerNorm(width, c.layer_norm_eps))
            layers = [
                _Layer(c, width, c.focal_levels[i], c.focal_windows[i]) for _ in range(c.depths[i])
            ]
            put(self, f"focalnet.encoder.stages.{i}.layers", nn.ModuleList(layers))
            before = width
        put(self, "focalnet.layernorm", nn.LayerNorm(before, c.layer_norm_eps))
        if labels:
            self.classifier = nn.Linear(before, len(labels))

    @staticmethod
    def _paths(i: int) -> tuple[str, str]:
        """Where the convolution before stage `i` is, and its norm."""
        if i == 0:
            return "focalnet.embeddings.patch_embeddings", "focalnet.embeddings.norm"
        path = f"focalnet.encoder.stages.{i - 1}.downsample"
        return path, f"{path}.norm"

    def hidden(self, pixels: Tensor) -> Tensor:
        x = self.checked(pixels, self.config.num_channels)
        for i, (down, across) in enumerate(self.steps):
            embed, norm = self._paths(i)
            below, right = -x.shape[2] % down, -x.shape[3] % across
            x = pad(x, (0, right, 0, below)) if below or right else x
            x = self.get_submodule(f"{embed}.projection")(x).permute(0, 2, 3, 1)
            x = self.get_submodule(norm)(x)
            for layer in self.get_submodule(f"focalnet.encoder.stages.{i}.layers").children():
                x = layer(x)
            x = x.permute(0, 3, 1, 2)
        tokens = x.flatten(2).transpose(1, 2)
        out: Tensor = self.get_submodule("focalnet.layernorm")(tokens)
        return out

    def encode_image(self, pixels: Tensor) -> Tensor:
        mean: Tensor = self.hidden(pixels).mean(1)
        return mean


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> FocalNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    count = len(c.depths)
    for key, least, most in (
        ("depths", 1, 1024),
        ("focal_levels", 0, 64),
        ("focal_windows", 1, 64),
    ):
        sizes = getattr(c, key)[:count]
        good = all(type(n) is int and least <= n <= most for n in sizes)
        if len(sizes) != count or not good or not 1 <= count <= 8 or sum(c.depths) > 1024:
            raise FormatError(f"config.json: {key} is {brief(sizes)}; it must fit {count} stages")
    if any(window % 2 == 0 for window in c.focal_windows[:count]):
        raise FormatError(f"config.json: focal_windows {c.focal_windows} must be odd")
    if not 1 <= c.embed_dim <= 1 << 14:
        raise FormatError(f"config.json: embed_dim is {c.embed_dim}; supported: 1 to 16384")
    return FocalNet(c, classes_of(config, "FocalNet", False))


FAMILY = Family(
    model_types=("focalnet",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="focalnet.",
    config=Config,
    build=build,
    unused=lambda name, config: name.endswith("embeddings.mask_token"),
)
