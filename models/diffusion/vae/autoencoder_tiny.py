"""AutoencoderTiny: TAESD (Bohan, 2023), a small autoencoder for the latents of a larger one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.core import nn
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import known, read_part
from rushlight.models.layers.mlp import ACTIVATIONS


@dataclass
class TinyConfig:
    """The keys of config.json."""

    in_channels: int = 3
    out_channels: int = 3
    encoder_block_out_channels: Any = (64, 64, 64, 64)
    decoder_block_out_channels: Any = (64, 64, 64, 64)
    act_fn: str = "relu"
    upsample_fn: str = "nearest"
    latent_channels: int = 4
    upsampling_scaling_factor: int = 2
    num_encoder_blocks: Any = (1, 3, 3, 3)
    num_decoder_blocks: Any = (3, 3, 3, 1)
    scaling_factor: float = 1.0
    shift_factor: float | None = 0.0

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {
        "latent_magnitude": (),
        "latent_shift": (),
        "force_upcast": (),
        "block_out_channels": (),  # only told
    }


class _Act(nn.Module):
    """An activation, which has a number among the layers."""

    def __init__(self, name: str) -> None:
        self.act = ACTIVATIONS[name]

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x)


class _Block(nn.Module):
    def __init__(self, width: int, act: str) -> None:
        convs = [nn.Conv2d(width, width, 3, padding=1) for _ in range(3)]
        self.conv = nn.Sequential(convs[0], _Act(act), convs[1], _Act(act), convs[2])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x) + x
        return y.relu()


class _Larger(nn.Module):
    def __init__(self, factor: int) -> None:
        self.factor = float(factor)

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(x, scale_factor=self.factor, mode="nearest")


class _Layers(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class AutoencoderTiny(nn.Module):
    """Pixels (batch, 3, height, width) from -1 to 1, and latents (batch, channels, h, w)."""

    tiles = slices = False

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        c = self.config = read_part(TinyConfig, config)
        known("act_fn", c.act_fn, tuple(ACTIVATIONS))
        known("upsample_fn", c.upsample_fn, ("nearest",))
        layers: list[nn.Module] = []
        widths = list(c.encoder_block_out_channels)
        for i, (count, width) in enumerate(zip(c.num_encoder_blocks, widths, strict=True)):
            first = nn.Conv2d(c.in_channels if i == 0 else width, width, 3, padding=1)
            layers.append(first if i == 0 else nn.Conv2d(width, width, 3, 2, 1, bias=False))
            layers += [_Block(width, c.act_fn) for _ in range(count)]
        layers.append(nn.Conv2d(widths[-1], c.latent_channels, 3, padding=1))
        self.encoder = _Layers(layers)
        widths = list(c.decoder_block_out_channels)
        layers = [nn.Conv2d(c.latent_channels, widths[0], 3, padding=1), _Act(c.act_fn)]
        for i, (count, width) in enumerate(zip(c.num_decoder_blocks, widths, strict=True)):
            last = i == len(widths) - 1
            layers += [_Block(width, c.act_fn) for _ in range(count)]
            layers += [] if last else [_Larger(c.upsampling_scaling_factor)]
            layers.append(nn.Conv2d(width, c.out_channels if last else width, 3, 1, 1, bias=last))
        self.decoder = _Layers(layers)
        self.factor = c.upsampling_scaling_factor ** (len(widths) - 1)
        self.latent_channels = c.latent_channels

    def encode_mean(self, pixels: Tensor) -> tuple[Tensor, None]:
        """The latents of pixels, and None, as they have no deviation."""
        return self.encoder((pixels + 1) / 2), None

    def decode(self, latents: Tensor) -> Tensor:
        """Pixels (batch, 3, height, width) of latents."""
        x = (latents / 3).tanh() * 3
        out: Tensor = self.decoder(x) * 2 - 1
        return out

    def forward(self, pixels: Tensor) -> Tensor:
        """The pixels that the latents of pixels give."""
        return self.decode(self.encode_mean(pixels)[0])
