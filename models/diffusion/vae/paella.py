"""Würstchen's stage A (Rampas et al., 2022): a quantized autoencoder without attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import pixel_shuffle, pixel_unshuffle
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import plain_norm
from rushlight.models.layers.naming import put


@dataclass
class PaellaVQConfig:
    """The keys of the autoencoder's config.json."""

    in_channels: int = 3
    out_channels: int = 3
    up_down_scale_factor: int = 2
    levels: int = 2
    bottleneck_blocks: int = 12
    embed_dim: int = 384
    latent_channels: int = 4
    num_vq_embeddings: int = 8192
    scale_factor: float = 0.3764

    shift_factor = None


class MixingResidual(nn.Module):
    """A convolution of each channel, then layers over the channels, both scaled by six numbers."""

    def __init__(self, width: int) -> None:
        put(self, "depthwise.1", nn.Conv2d(width, width, 3, groups=width))
        put(self, "channelwise.0", nn.Linear(width, 4 * width))
        put(self, "channelwise.2", nn.Linear(4 * width, width))
        self.gammas = parameter(6)
        self._fill()

    def reset_parameters(self) -> None:
        """Zeros."""
        init.zeros_(self.gammas)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same."""
        get: Any = self.get_submodule
        scales = self.gammas
        y = plain_norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = y * (scales[0] + 1.0) + scales[1]
        x = x + get("depthwise.1")(pad(y, (1, 1, 1, 1), "replicate")) * scales[2]
        y = plain_norm(x.permute(0, 2, 3, 1)) * (scales[3] + 1.0) + scales[4]
        out: Tensor = get("channelwise.2")(ops.gelu(get("channelwise.0")(y)))
        return x + out.permute(0, 3, 1, 2) * scales[5]


class PaellaVQModel(nn.Module):
    """Pixels to latents a quarter as large, and back."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(PaellaVQConfig, config)
        widths = [c.embed_dim // 2**i for i in reversed(range(c.levels))]
        times = c.up_down_scale_factor
        put(self, "in_block.1", nn.Conv2d(c.in_channels * times**2, widths[0], 1))
        down: list[nn.Module] = []
        for i, width in enumerate(widths):
            if i:
                down.append(nn.Conv2d(widths[i - 1], width, 4, 2, padding=1))
            down.append(MixingResidual(width))
        last = nn.Conv2d(widths[-1], c.latent_channels, 1, bias=False)
        down.append(nn.Sequential(last, nn.BatchNorm2d(c.latent_channels)))
        self.down_blocks = nn.Sequential(*down)
        table = nn.Embedding(c.num_vq_embeddings, c.latent_channels)
        put(self, "vquantizer.embedding", table)
        up: list[nn.Module] = [nn.Sequential(nn.Conv2d(c.latent_channels, widths[-1], 1))]
        for i, width in enumerate(reversed(widths)):
            up += [MixingResidual(width) for _ in range(1 if i else c.bottleneck_blocks)]
            if i < c.levels - 1:
                up.append(nn.ConvTranspose2d(width, widths[-2 - i], 4, 2, padding=1))
        self.up_blocks = nn.Sequential(*up)
        put(self, "out_block.0", nn.Conv2d(widths[0], c.out_channels * times**2, 1))
        self.factor, self.latent_channels = times * 2 ** (c.levels - 1), c.latent_channels

    def encode_mean(self, pixels: Tensor) -> tuple[Tensor, None]:
        """Pixels (batch, channels, height, width) from 0 to 1 -> latents, unscaled, and None.

        `pixels` have sides that are multiples of `factor`.
        """
        first: Any = self.get_submodule("in_block.1")
        latents = first(pixel_unshuffle(pixels, self.config.up_down_scale_factor))
        return self.down_blocks(latents), None

    def decode(self, latents: Tensor) -> Tensor:
        """Latents, unscaled -> pixels from 0 to 1; they need not be rows of the table."""
        last: Any = self.get_submodule("out_block.0")
        return pixel_shuffle(last(self.up_blocks(latents)), self.config.up_down_scale_factor)
