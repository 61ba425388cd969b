"""Swin2SR (Conde et al., 2022): Swin Transformer version 2 that makes pictures larger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import interpolate, pixel_shuffle
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import swin
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.swin import Layer
from rushlight.models.layers.vision.model import ImageModel

ARCHITECTURES = ("Swin2SRForImageSuperResolution",)
_MEAN = (0.4488, 0.4371, 0.404)
_WIDE = 64
_UPSAMPLERS = ("pixelshuffle", "pixelshuffle_aux", "pixelshuffledirect", "nearest+conv", "")


@dataclass
class Config(swin.Config):
    """The keys of config.json."""

    image_size: Any = 64
    patch_size: Any = 1
    num_channels_out: int | None = None
    embed_dim: int = 180
    depths: list[int] = field(default_factory=lambda: [6] * 6)
    num_heads: list[int] = field(default_factory=lambda: [6] * 6)
    window_size: int = 8
    mlp_ratio: float = 2.0
    upscale: int = 2
    img_range: float = 1.0
    resi_connection: str = "1conv"
    upsampler: str = "pixelshuffle"
    model_type: str = "swin2sr"


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Swin2SR(ImageModel):
    """Pixels from 0 to 1 -> larger ones (batch, channels, upscale h, upscale w)."""

    def __init__(self, c: Config, outputs: int) -> None:
        self.config, self.channels, width = c, c.num_channels, c.embed_dim
        self.outputs, self.processor = outputs, KINDS["Swin2SR"]
        spec = swin.describe(c, "swin2sr.")
        base = "swin2sr."
        put(self, f"{base}first_convolution", _conv(c.num_channels, width))
        put(self, f"{base}embeddings.patch_embeddings.projection", nn.Conv2d(width, width, 1))
        put(self, f"{base}embeddings.patch_embeddings.layernorm", nn.LayerNorm(width))
        for i, stage in enumerate(spec.stages):
            at = f"{base}encoder.stages.{i}"
            layers = [Layer(spec, stage, j % 2 == 1) for j in range(stage.layers)]
            put(self, f"{at}.layers", nn.ModuleList(layers))
            if c.resi_connection == "1conv":
                put(self, f"{at}.conv", _conv(width, width))
            else:
                parts = (_conv(width, width // 4), nn.Conv2d(width // 4, width // 4, 1),
                         _conv(width // 4, width))  # fmt: skip
                for j, part in enumerate(parts):
                    put(self, f"{at}.conv.{2 * j}", part)
            put(self, f"{at}.patch_embed.projection", nn.Conv2d(width, width, 1))
        put(self, f"{base}layernorm", nn.LayerNorm(width, c.layer_norm_eps))
        put(self, f"{base}conv_after_body", _conv(width, width))
        for name, inputs, made in self._upsampling(c, outputs):
            put(self, name, _conv(inputs, made))

    def _upsampling(self, c: Config, outputs: int) -> list[tuple[str, int, int]]:
        """The convolutions after the transformer: names, and channels before and after."""
        up, width, kind = "upsample.", c.embed_dim, c.upsampler
        if not kind:
            return [("final_convolution", width, outputs)]
        if kind == "pixelshuffledirect":
            return [(f"{up}conv", width, c.upscale**2 * outputs)]
        convs = [(f"{up}conv_before_upsample", width, _WIDE)]
        if kind == "nearest+conv":
            names = ("conv_up1", "conv_up2", "conv_hr")
            convs += [(f"{up}{name}", _WIDE, _WIDE) for name in names]
        else:
            if kind == "pixelshuffle_aux":
                convs += [
                    (f"{up}conv_bicubic", c.num_channels, _WIDE),
                    (f"{up}conv_aux", _WIDE, c.num_channels),
                    (f"{up}conv_after_aux.0", 3, _WIDE),
                ]
            convs += (
                [(f"{up}upsample.convolution", _WIDE, 9 * _WIDE)]
                if c.upscale == 3
                else [
                    (f"{up}upsample.convolution_{i}", _WIDE, 4 * _WIDE)
                    for i in range(c.upscale.bit_length() - 1)
                ]
            )
        return [*convs, (f"{up}final_convolution", _WIDE, outputs)]

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, width, height, width) before it is enlarged; sides are multiples of windows."""
        c, net = self.config, self.get_submodule("swin2sr")
        of = net.get_submodule
        x = self.checked(pixels, c.num_channels)
        below, right = (-n % c.window_size for n in x.shape[2:])
        x = pad(x, (0, right, 0, below), "reflect") if below or right else x
        first = of("first_convolution")((x - self._mean(x)) * c.img_range)
        x = of("embeddings.patch_embeddings.projection")(first).permute(0, 2, 3, 1)
        x = of("embeddings.patch_embeddings.layernorm")(x)
        for stage in of("encoder.stages").children():
            y = x
            for layer in stage.get_submodule("layers").children():
                y = layer(y)
            y = y.permute(0, 3, 1, 2)
            conv = stage.get_submodule("conv")
            for j, part in enumerate(list(conv.children()) or [conv]):
                y = part(leaky(y, 0.2) if j else y)
            x = stage.get_submodule("patch_embed.projection")(y).permute(0, 2, 3, 1) + x
        after = of("conv_after_body")(of("layernorm")(x).permute(0, 3, 1, 2))
        out: Tensor = after + first
        return out

    def _mean(self, x: Tensor) -> Any:
        known = self.config.num_channels == self.outputs == 3
        return x.new_tensor(_MEAN).reshape(1, 3, 1, 1) if known else 0.0

    def _larger(self, x: Tensor) -> Tensor:
        for conv in self.get_submodule("upsample.upsample").children():
            x = pixel_shuffle(conv(x), 3 if self.config.upscale == 3 else 2)
        return x

    def forward(self, pixels: Tensor) -> Tensor:
        c, kind, of = self.config, self.config.upsampler, self.get_submodule
        tall, wide = (n * c.upscale for n in pixels.shape[2:])
        x = self.hidden(pixels)
        if not kind:
            x = pixels + of("final_convolution")(x)
        elif kind == "pixelshuffledirect":
            x = pixel_shuffle(of("upsample.conv")(x), c.upscale)
        else:
            x = leaky(of("upsample.conv_before_upsample")(x), 0.01)
            if kind == "nearest+conv":
                for name in ("conv_up1", "conv_up2"):
                    x = interpolate(x, scale_factor=2.0, mode="nearest")
                    x = leaky(of(f"upsample.{name}")(x), 0.2)
                x = leaky(of("upsample.conv_hr")(x), 0.2)
            elif kind == "pixelshuffle_aux":
                plain = interpolate(pixels, size=(tall, wide), mode="bicubic")
                x = leaky(of("upsample.conv_after_aux.0")(of("upsample.conv_aux")(x)), 0.01)
                x = self._larger(x)[:, :, :tall, :wide] + of("upsample.conv_bicubic")(plain)
            else:
                x = self._larger(x)
            x = of("upsample.final_convolution")(x)
        made: Tensor = (x / c.img_range + self._mean(x))[:, :, :tall, :wide]
        return made


def leaky(x: Tensor, slope: float) -> Tensor:
    """x where it is positive, else `slope` of it."""
    return x.clamp(min=0) + x.clamp(max=0) * slope


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Swin2SR:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("upsampler", c.upsampler, _UPSAMPLERS)
    choose("resi_connection", c.resi_connection, ("1conv", "3conv"))
    choose("patch_size", c.patch_size, (1, [1, 1]))
    choose("use_absolute_embeddings", c.use_absolute_embeddings, (False,))
    steps = (4,) if c.upsampler == "nearest+conv" else (1, 2, 3, 4, 8, 16)
    choose("upscale", c.upscale, steps)
    if c.window_size < 1 or c.num_channels < 1:
        raise FormatError(f"config.json: window_size is {c.window_size}, num_channels ...")
    return Swin2SR(c, c.num_channels if c.num_channels_out is None else c.num_channels_out)


FAMILY = Family(
    model_types=("swin2sr",),
    tasks=("image-to-image",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    unused=lambda name, config: name.endswith(("relative_coords_table", "relative_position_index")),
)
