"""Qwen-Image's autoencoder (Wu et al., 2025): one of videos, of which pictures are a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.core import nn, ops
from rushlight.core.functional.network.activations import silu
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import read_part
from rushlight.models.layers.naming import put

_MEANS = (-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
          0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921)  # fmt: skip
_STDS = (2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
         3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.916)  # fmt: skip
_LEAST = 1e-12  # of a vector's length


@dataclass
class AutoencoderKLQwenImageConfig:
    """The keys of the autoencoder's config.json."""

    base_dim: int = 96
    z_dim: int = 16
    dim_mult: Any = (1, 2, 4, 4)
    num_res_blocks: int = 2
    temperal_downsample: Any = (False, True, True)
    input_channels: int = 3
    latents_mean: Any = _MEANS
    latents_std: Any = _STDS

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {"dropout": (), "attn_scales": ([],)}


class FrameConv(nn.Module):
    """A convolution over frames, rows and columns that sees no later frames, of the first frame.

    Of its kernels only what lies on the last frame is read.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 1) -> None:
        self.kernel = kernel
        self.weight = parameter(outputs, inputs, kernel, kernel, kernel)
        self.bias = parameter(outputs)
        self._fill()

    def reset_parameters(self) -> None:
        """Uniform, as a convolution's."""
        init.default_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) -> (batch, outputs, height, width)."""
        return ops.conv2d(x, self.weight[:, :, -1], self.bias, padding=self.kernel // 2)


class ChannelNorm(nn.Module):
    """A vector of channels, divided by its root mean square, times `gamma`."""

    def __init__(self, width: int, frames: bool = True) -> None:
        self.gamma = parameter(width, *((1,) * (2 + frames)))
        self._fill()

    def reset_parameters(self) -> None:
        """Ones."""
        init.ones_(self.gamma)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same."""
        length: Tensor = (x * x).sum(1, keepdim=True).sqrt().clamp(min=_LEAST)
        scale: Tensor = self.gamma.reshape(-1, 1, 1) * x.shape[1] ** 0.5
        return x / length * scale


class Residual(nn.Module):
    """Two convolutions, each after a norm and SiLU; x is added, by a matrix if widths differ."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.norm1, self.norm2 = ChannelNorm(inputs), ChannelNorm(outputs)
        self.conv1, self.conv2 = FrameConv(inputs, outputs, 3), FrameConv(outputs, outputs, 3)
        if inputs != outputs:
            self.conv_shortcut = FrameConv(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) -> (batch, outputs, height, width)."""
        y = self.conv1(silu(self.norm1(x)))
        y = self.conv2(silu(self.norm2(y)))
        out: Tensor = y + (self.conv_shortcut(x) if hasattr(self, "conv_shortcut") else x)
        return out


class PlaceAttention(nn.Module):
    """Attention of the places of a picture to each other, with one head."""

    def __init__(self, width: int) -> None:
        self.norm = ChannelNorm(width, frames=False)
        self.to_qkv, self.proj = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same."""
        y = self.to_qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1)
        seen = ops.attention(*y.chunk(3, -1)).squeeze(1)
        out: Tensor = x + self.proj(seen.transpose(1, 2).reshape(x.shape))
        return out


class Resized(nn.Module):
    """Half or twice the size."""

    def __init__(self, inputs: int, outputs: int, larger: bool) -> None:
        self.larger = larger
        stride, padding = (1, 1) if larger else (2, 0)
        put(self, "resample.1", nn.Conv2d(inputs, outputs, 3, stride, padding=padding))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) -> (batch, outputs, ...)."""
        if self.larger:
            x = interpolate(x, scale_factor=2.0, mode="nearest")
        else:
            x = pad(x, (0, 1, 0, 1))
        out: Tensor = self.get_submodule("resample.1")(x)
        return out


class _Coder(nn.Module):
    """What the encoder and the decoder share."""

    def put_middle(self, width: int) -> None:
        """Make the layers at the smallest size."""
        put(self, "mid_block.attentions", nn.ModuleList([PlaceAttention(width)]))
        put(
            self,
            "mid_block.resnets",
            nn.ModuleList([Residual(width, width), Residual(width, width)]),
        )

    def middle(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same."""
        middle: Any = self.get_submodule("mid_block")
        out: Tensor = middle.resnets[1](middle.attentions[0](middle.resnets[0](x)))
        return out


class Encoder(_Coder):
    """Pixels -> means and log variances of latents."""

    def __init__(self, c: AutoencoderKLQwenImageConfig) -> None:
        widths = [c.base_dim * times for times in (1, *c.dim_mult)]
        self.conv_in = FrameConv(c.input_channels, widths[0], 3)
        layers: list[nn.Module] = []
        for i, (inside, outside) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
            for j in range(c.num_res_blocks):
                layers.append(Residual(outside if j else inside, outside))
            if i != len(c.dim_mult) - 1:
                layers.append(Resized(outside, outside, larger=False))
        self.down_blocks = nn.ModuleList(layers)
        self.put_middle(widths[-1])
        self.norm_out = ChannelNorm(widths[-1])
        self.conv_out = FrameConv(widths[-1], 2 * c.z_dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, 2 z_dim, height / 8, width / 8)."""
        x = self.conv_in(x)
        for layer in self.down_blocks:
            x = layer(x)
        out: Tensor = self.conv_out(silu(self.norm_out(self.middle(x))))
        return out


class Decoder(_Coder):
    """Latents -> pixels."""

    def __init__(self, c: AutoencoderKLQwenImageConfig) -> None:
        times = [c.dim_mult[-1], *reversed(c.dim_mult)]
        widths = [c.base_dim * n for n in times]
        self.conv_in = FrameConv(c.z_dim, widths[0], 3)
        self.put_middle(widths[0])
        blocks = []
        for i, (inside, outside) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
            block = nn.Module()
            first = inside // 2 if i else inside
            layers = [
                Residual(outside if j else first, outside) for j in range(c.num_res_blocks + 1)
            ]
            block.resnets = nn.ModuleList(layers)
            if i != len(c.dim_mult) - 1:
                larger = Resized(outside, outside // 2, larger=True)
                block.upsamplers = nn.ModuleList([larger])
            blocks.append(block)
        self.up_blocks = nn.ModuleList(blocks)
        self.norm_out = ChannelNorm(widths[-1])
        self.conv_out = FrameConv(widths[-1], c.input_channels, 3)

    def forward(self, z: Tensor) -> Tensor:
        """(batch, z_dim, height / 8, width / 8) -> (batch, channels, height, width)."""
        x = self.middle(self.conv_in(z))
        for block in self.up_blocks:
            for layers in block.children():
                for layer in layers.children():
                    x = layer(x)
        out: Tensor = self.conv_out(silu(self.norm_out(x)))
        return out


class AutoencoderKLQwenImage(nn.Module):
    """The autoencoder of Qwen-Image, which is Wan's of videos, for pictures.

    The convolutions over time, which only videos of several frames run, are left out.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(AutoencoderKLQwenImageConfig, config)
        self.encoder, self.decoder = Encoder(c), Decoder(c)
        self.quant_conv = FrameConv(2 * c.z_dim, 2 * c.z_dim)
        self.post_quant_conv = FrameConv(c.z_dim, c.z_dim)
        self.factor, self.latent_channels = 2 ** len(c.temperal_downsample), c.z_dim

    @staticmethod
    def rename_tensors(
        tensors: Mapping[str, Tensor], config: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """`tensors` without the convolutions over time; `config` is not needed."""
        return {name: t for name, t in tensors.items() if ".time_conv." not in name}

    def encode_mean(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels (batch, channels, height, width) from -1 to 1 -> means and deviations of latents.

        `pixels` have sides that are multiples of `factor`; latents are unscaled.
        """
        mean, logarithm = self.quant_conv(self.encoder(pixels)).chunk(2, 1)
        return mean, (logarithm.clamp(-30.0, 20.0) * 0.5).exp()

    def decode(self, latents: Tensor) -> Tensor:
        """Latents, unscaled -> pixels from -1 to 1."""
        pixels: Tensor = self.decoder(self.post_quant_conv(latents))
        return pixels.clamp(-1.0, 1.0)

    def scaled(self, latents: Tensor) -> Tensor:
        """Latents as the denoiser knows them."""
        mean, deviation = self._moments(latents)
        return (latents - mean) / deviation

    def unscaled(self, latents: Tensor) -> Tensor:
        """The denoiser's latents as `decode` takes them."""
        mean, deviation = self._moments(latents)
        return latents * deviation + mean

    def _moments(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return tuple(  # type: ignore[return-value]
            tensor(list(values), device=like.device).to(like.dtype).reshape(1, -1, 1, 1)
            for values in (self.config.latents_mean, self.config.latents_std)
        )
