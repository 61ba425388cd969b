"""The deep compression autoencoder (Chen et al., 2024): latents of pictures 32 times as large."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.activations import relu, relu6, silu
from rushlight.core.functional.network.vision import interpolate, pixel_shuffle, pixel_unshuffle
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.sana import BiasedNorm, GatedConvolutions

_SCALES = ((), (), (), (5,), (5,), (5,))
_WIDTHS = (128, 256, 512, 512, 1024, 1024)
_ACTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "silu": silu,
    "swish": silu,
    "relu": relu,
    "relu6": relu6,
    "gelu": ops.gelu,
}
_TINY = 1e-15


@dataclass
class AutoencoderDCConfig:
    """The keys of the autoencoder's config.json."""

    in_channels: int = 3
    latent_channels: int = 32
    attention_head_dim: int = 32
    encoder_block_types: Any = "ResBlock"
    decoder_block_types: Any = "ResBlock"
    encoder_block_out_channels: Any = _WIDTHS
    decoder_block_out_channels: Any = _WIDTHS
    encoder_layers_per_block: Any = (2, 2, 2, 3, 3, 3)
    decoder_layers_per_block: Any = (3, 3, 3, 3, 3, 3)
    encoder_qkv_multiscales: Any = _SCALES
    decoder_qkv_multiscales: Any = _SCALES
    upsample_block_type: str = "pixel_shuffle"
    downsample_block_type: str = "pixel_unshuffle"
    decoder_norm_types: Any = "rms_norm"
    decoder_act_fns: Any = "silu"
    encoder_out_shortcut: bool = True
    decoder_in_shortcut: bool = True
    decoder_conv_act_fn: str = "relu"
    scaling_factor: float = 1.0

    shift_factor = None


class _Stage:
    """What the layers of a stage are made of."""

    def __init__(self, kind: str, head_dim: int, scales: Sequence[int], norm: str, act: str):
        choose("block_types", kind, ("ResBlock", "EfficientViTBlock"))
        choose("decoder_norm_types", norm, ("rms_norm", "batch_norm"))
        choose("act_fn", act, tuple(_ACTS))
        self.kind, self.head_dim, self.scales, self.norm = kind, head_dim, scales, norm
        self.act = _ACTS[act]

    def layer(self, width: int) -> nn.Module:
        """One layer of the stage."""
        if self.kind == "ResBlock":
            return Residual(width, self)
        return Mixing(width, self)


def _norm(kind: str, width: int) -> nn.Module:
    return BiasedNorm(width) if kind == "rms_norm" else nn.BatchNorm2d(width)


def _normed(norm: nn.Module, x: Tensor) -> Tensor:
    out: Tensor = norm.of_channels(x) if isinstance(norm, BiasedNorm) else norm(x)
    return out


class Residual(nn.Module):
    """x + norm(conv2(act(conv1(x))))."""

    def __init__(self, width: int, stage: _Stage) -> None:
        self.act = stage.act
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = _norm(stage.norm, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same."""
        return x + _normed(self.norm, self.conv2(self.act(self.conv1(x))))


class _Scale(nn.Module):
    """q, k and v of the places around each."""

    def __init__(self, channels: int, heads: int, kernel: int) -> None:
        wide = 3 * channels
        self.proj_in = nn.Conv2d(wide, wide, kernel, padding=kernel // 2, groups=wide, bias=False)
        self.proj_out = nn.Conv2d(wide, wide, 1, groups=3 * heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 3 channels, height, width) -> the same."""
        out: Tensor = self.proj_out(self.proj_in(x))
        return out


class ScaledAttention(nn.Module):
    """Linear attention to places, and to what is around them at other scales (Cai et al., 2022)."""

    def __init__(self, width: int, stage: _Stage) -> None:
        heads, self.head_dim = width // stage.head_dim, stage.head_dim
        inner = heads * stage.head_dim
        self.to_q = nn.Linear(width, inner, bias=False)
        self.to_k = nn.Linear(width, inner, bias=False)
        self.to_v = nn.Linear(width, inner, bias=False)
        self.to_qkv_multiscale = nn.ModuleList(
            [_Scale(inner, heads, kernel) for kernel in stage.scales]
        )
        self.to_out = nn.Linear(inner * (1 + len(stage.scales)), width, bias=False)
        self.norm_out = _norm(stage.norm, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same."""
        batch, _, rows, columns = x.shape
        y = x.permute(0, 2, 3, 1)
        y = cat([self.to_q(y), self.to_k(y), self.to_v(y)], -1).permute(0, 3, 1, 2)
        y = cat([y, *(scale(y) for scale in self.to_qkv_multiscale)], 1)
        y = y.reshape(batch, -1, 3 * self.head_dim, rows * columns).transpose(-1, -2)
        q, k, v = y.to(float32).chunk(3, -1)
        q, k = relu(q), relu(k)
        seen = q @ (k.transpose(-1, -2) @ v)
        total = q @ k.sum(-2, keepdim=True).transpose(-1, -2)
        seen = (seen / (total + _TINY)).transpose(1, 2).reshape(batch, rows, columns, -1)
        out = self.to_out(seen.to(x.dtype)).permute(0, 3, 1, 2)
        return x + _normed(self.norm_out, out)


class Mixing(nn.Module):
    """Linear attention, then gated convolutions."""

    def __init__(self, width: int, stage: _Stage) -> None:
        self.attn = ScaledAttention(width, stage)
        self.conv_out = GatedConvolutions(width, 4, normed=True)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same."""
        out: Tensor = self.conv_out(self.attn(x))
        return out


class Halved(nn.Module):
    """Half the size. shuffled: a convolution's channels hold the places, else it has a stride.

    The means of the pixels of each place are added, if `shortcut`.
    """

    def __init__(self, inputs: int, outputs: int, shuffled: bool, shortcut: bool = True) -> None:
        self.shuffled, self.shortcut, self.outputs = shuffled, shortcut, outputs
        if outputs % 4 and shuffled:
            raise FormatError(f"config.json: encoder_block_out_channels has {outputs}")
        wide, stride = (outputs // 4, 1) if shuffled else (outputs, 2)
        self.conv = nn.Conv2d(inputs, wide, 3, stride, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, 2 h, 2 w) -> (batch, outputs, h, w)."""
        y: Tensor = self.conv(x)
        y = pixel_unshuffle(y, 2) if self.shuffled else y
        if self.shortcut:
            y = y + _means(pixel_unshuffle(x, 2), self.outputs)
        return y


class Doubled(nn.Module):
    """Twice the size. widened: nearest pixels and a convolution, else its channels hold places.

    The pixels of x, repeated, are added, if `shortcut`.
    """

    def __init__(self, inputs: int, outputs: int, widened: bool, shortcut: bool = True) -> None:
        self.widened, self.shortcut, self.outputs = widened, shortcut, outputs
        self.conv = nn.Conv2d(inputs, outputs if widened else 4 * outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, h, w) -> (batch, outputs, 2 h, 2 w)."""
        y: Tensor
        if self.widened:
            y = self.conv(interpolate(x, scale_factor=2.0, mode="nearest"))
        else:
            y = pixel_shuffle(self.conv(x), 2)
        if self.shortcut:
            y = y + pixel_shuffle(x.repeat_interleave(4 * self.outputs // x.shape[1], 1), 2)
        return y


def _means(x: Tensor, channels: int) -> Tensor:
    """Means of neighbouring channels, so that `channels` are left."""
    batch, _, rows, columns = x.shape
    out: Tensor = x.reshape(batch, channels, -1, rows, columns).mean(2)
    return out


def _each(name: str, value: Any, count: int) -> list[Any]:
    """A value of every stage, where config.json has one for all, or a list of them."""
    if isinstance(value, str):
        return [value] * count
    if not isinstance(value, list | tuple) or len(value) != count:
        raise FormatError(f"config.json: {name} is {brief(value)}; it must have {count} entries")
    return list(value)


def _stages(c: AutoencoderDCConfig, side: str) -> list[tuple[int, int, _Stage]]:
    """The width, the number of layers and the kind of each stage of a `side`."""
    widths = list(getattr(c, f"{side}_block_out_channels"))
    count = len(widths)

    def each(name: str) -> list[Any]:
        return _each(name, getattr(c, name), count)

    norms, acts = ["rms_norm"] * count, ["silu"] * count
    if side == "decoder":
        norms, acts = each("decoder_norm_types"), each("decoder_act_fns")
    kinds, scales = each(f"{side}_block_types"), each(f"{side}_qkv_multiscales")
    return [
        (width, layers, _Stage(kind, c.attention_head_dim, scale, norm, act))
        for width, layers, kind, scale, norm, act in zip(
            widths, each(f"{side}_layers_per_block"), kinds, scales, norms, acts, strict=True
        )
    ]


class Encoder(nn.Module):
    """Pixels -> latents."""

    def __init__(self, c: AutoencoderDCConfig) -> None:
        stages = _stages(c, "encoder")
        shuffled = c.downsample_block_type == "pixel_unshuffle"
        first, channels = stages[0][1] > 0, c.in_channels
        self.conv_in = (
            nn.Conv2d(channels, stages[0][0], 3, padding=1)
            if first
            else Halved(channels, stages[1][0], shuffled, shortcut=False)
        )
        blocks = []
        for i, (width, count, stage) in enumerate(stages):
            layers = [stage.layer(width) for _ in range(count)]
            if i < len(stages) - 1 and count > 0:
                layers.append(Halved(width, stages[i + 1][0], shuffled))
            blocks.append(nn.Sequential(*layers))
        self.down_blocks = nn.ModuleList(blocks)
        self.conv_out = nn.Conv2d(stages[-1][0], c.latent_channels, 3, padding=1)
        self.latents = c.latent_channels if c.encoder_out_shortcut else 0

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, latents, height / 32, width / 32)."""
        x = self.conv_in(x)
        for block in self.down_blocks:
            x = block(x)
        out: Tensor = self.conv_out(x)
        return out + _means(x, self.latents) if self.latents else out


class Decoder(nn.Module):
    """Latents -> pixels."""

    def __init__(self, c: AutoencoderDCConfig) -> None:
        stages = _stages(c, "decoder")
        choose("decoder_conv_act_fn", c.decoder_conv_act_fn, tuple(_ACTS))
        widened, last = c.upsample_block_type == "interpolate", stages[-1][0]
        self.conv_in = nn.Conv2d(c.latent_channels, last, 3, padding=1)
        self.repeats = last // c.latent_channels if c.decoder_in_shortcut else 0
        blocks = []
        for i, (width, count, stage) in enumerate(stages):
            layers = [stage.layer(width) for _ in range(count)]
            if i < len(stages) - 1 and count > 0:
                layers.insert(0, Doubled(stages[i + 1][0], width, widened))
            blocks.append(nn.Sequential(*layers))
        self.up_blocks = nn.ModuleList(blocks)
        first = stages[0][1] > 0
        width = stages[0][0] if first else stages[1][0]
        self.norm_out, self.act = BiasedNorm(width), _ACTS[c.decoder_conv_act_fn]
        self.conv_out = (
            nn.Conv2d(width, c.in_channels, 3, padding=1)
            if first
            else Doubled(width, c.in_channels, widened, shortcut=False)
        )

    def forward(self, z: Tensor) -> Tensor:
        """(batch, latents, height / 32, width / 32) -> (batch, channels, height, width)."""
        x: Tensor = self.conv_in(z)
        x = x + z.repeat_interleave(self.repeats, 1) if self.repeats else x
        for block in reversed(list(self.up_blocks)):
            x = block(x)
        out: Tensor = self.conv_out(self.act(self.norm_out.of_channels(x)))
        return out


class AutoencoderDC(nn.Module):
    """Sana's autoencoder."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(AutoencoderDCConfig, config)
        choose("upsample_block_type", c.upsample_block_type, ("pixel_shuffle", "interpolate"))
        self.encoder, self.decoder = Encoder(c), Decoder(c)
        self.factor = 2 ** (len(c.encoder_block_out_channels) - 1)
        self.latent_channels = c.latent_channels

    def encode_mean(self, pixels: Tensor) -> tuple[Tensor, None]:
        """Pixels (batch, channels, height, width) from -1 to 1 -> latents, unscaled, and None.

        `pixels` have sides that are multiples of `factor`.
        """
        return self.encoder(pixels), None

    def decode(self, latents: Tensor) -> Tensor:
        """Latents, unscaled -> pixels from -1 to 1."""
        pixels: Tensor = self.decoder(latents)
        return pixels
