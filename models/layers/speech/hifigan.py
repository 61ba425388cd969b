"""HiFi-GAN (Kong et al., 2020): frames of a spectrogram, or of what stands for one, to samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.activations import leaky_relu
from rushlight.core.nn.parameter import Buffer
from rushlight.core.ops.binary import maximum
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import is_grad_enabled
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.model import Model

_LAST_SLOPE = 0.01  # before the last convolution, whatever the others have
_AT_ONCE = 1024  # frames that are made samples at once, which bounds the memory
_ENDS = 7  # taps of the first and the last convolution


@dataclass(frozen=True)
class VocoderSpec:
    """The sizes of a vocoder.

    width: channels of a frame. initial: channels of the first convolution, halved by each
    upsampling. rates, taps: of the upsamplings. block_taps, dilations: of the blocks that follow
    each upsampling, whose results are averaged. slope: of the leaky ReLU. pairs: whether a
    dilated convolution is followed by one that is not, as in the paper's first kind of block.
    last_bias: whether the last convolution has one. speaker: channels of a speaker's vector, or 0.
    """

    width: int
    initial: int
    rates: tuple[int, ...]
    taps: tuple[int, ...]
    block_taps: tuple[int, ...]
    dilations: tuple[tuple[int, ...], ...]
    slope: float = 0.1
    pairs: bool = True
    last_bias: bool = False
    speaker: int = 0

    def __post_init__(self) -> None:
        fits = len(self.rates) == len(self.taps) > 0
        fits = fits and len(self.block_taps) == len(self.dilations) > 0
        if not fits or self.initial < 2 ** len(self.rates):
            raise FormatError(
                f"config.json: upsample rates {brief(self.rates)} with kernels {brief(self.taps)}, "
                f"resblock kernels {brief(self.block_taps)} with dilations "
                f"{brief(self.dilations)}, {self.initial} channels do not fit: there must be one "
                "kernel for each rate, a list of dilations for each resblock kernel, and a channel "
                "after all upsamplings"
            )
        for rate, taps in zip(self.rates, self.taps, strict=True):
            if not 1 <= rate <= taps:
                raise FormatError(
                    f"config.json: an upsample rate is {rate} with a kernel of {taps}; it must be "
                    "1 to the kernel"
                )
        sizes = (*self.block_taps, *(d for row in self.dilations for d in row))
        if (
            min(sizes) < 1
            or not all(self.dilations)
            or any(taps % 2 == 0 for taps in self.block_taps)
        ):
            raise FormatError(
                f"config.json: resblock kernels are {brief(self.block_taps)} with dilations "
                f"{brief(self.dilations)}; they must be odd, and dilations at least 1"
            )

    @property
    def step(self) -> int:
        """The number of samples of a frame."""
        samples = 1
        for rate in self.rates:
            samples *= rate
        return samples

    @property
    def reach(self) -> int:
        """How many frames on either side a frame's samples depend on, at most."""
        reach, step = float(_ENDS // 2), 1
        for rate, taps in zip(self.rates, self.taps, strict=True):
            reach += taps / rate / step
            step *= rate
            widest = max(
                sum((k // 2) * (d + self.pairs) for d in row)
                for k, row in zip(self.block_taps, self.dilations, strict=True)
            )
            reach += widest / step
        return int(reach + (_ENDS // 2) / step) + 1


def _leaky(x: Tensor, slope: float) -> Tensor:
    """The leaky ReLU, in two steps where the slope allows."""
    return maximum(x, x * slope) if slope <= 1 else leaky_relu(x, slope)


def _same(channels: int, taps: int, dilation: int) -> nn.Conv1d:
    return nn.Conv1d(
        channels, channels, taps, dilation=dilation, padding=(taps * dilation - dilation) // 2
    )


class _Block(nn.Module):
    """Dilated convolutions, each with what it takes added to its result."""

    def __init__(
        self, channels: int, taps: int, dilations: Sequence[int], spec: VocoderSpec
    ) -> None:
        self.slope, self.pairs = spec.slope, spec.pairs
        dilated = nn.ModuleList([_same(channels, taps, d) for d in dilations])
        if spec.pairs:
            self.convs1 = dilated
            self.convs2 = nn.ModuleList([_same(channels, taps, 1) for _ in dilations])
        else:
            self.convs = dilated

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, n) -> the same."""
        if not self.pairs:
            for conv in self.convs:
                x = conv(_leaky(x, self.slope)) + x
            return x
        for first, second in zip(self.convs1, self.convs2, strict=True):
            y = first(_leaky(x, self.slope))
            x = second(_leaky(y, self.slope)) + x
        return x


class Vocoder(nn.Module):
    """Frames (batch, width, n) -> samples (batch, n * step) in [-1, 1]."""

    def __init__(self, spec: VocoderSpec, upsamplings: str = "upsampler") -> None:
        """upsamplings: the name of the list of these in the checkpoint."""
        self.spec, self._upsamplings = spec, upsamplings
        self.conv_pre = nn.Conv1d(spec.width, spec.initial, _ENDS, padding=_ENDS // 2)
        ups, blocks, channels = [], [], spec.initial
        for rate, taps in zip(spec.rates, spec.taps, strict=True):
            pads = (taps - rate) // 2
            ups.append(nn.ConvTranspose1d(channels, channels // 2, taps, stride=rate, padding=pads))
            channels //= 2
            rows = zip(spec.block_taps, spec.dilations, strict=True)
            blocks += [_Block(channels, k, row, spec) for k, row in rows]
        self.register_module(upsamplings, nn.ModuleList(ups))
        self.resblocks = nn.ModuleList(blocks)
        self.conv_post = nn.Conv1d(channels, 1, _ENDS, padding=_ENDS // 2, bias=spec.last_bias)
        if spec.speaker:
            self.cond = nn.Conv1d(spec.speaker, spec.initial, 1)

    def forward(self, frames: Tensor, speaker: Tensor | None = None) -> Tensor:
        """Samples (batch, n * step) of frames (batch, width, n); speaker: (batch, channels, 1).

        Long ones are made in parts, with frames around each part that its samples depend on.
        """
        count = frames.shape[2]
        if count <= _AT_ONCE + _AT_ONCE // 2 or is_grad_enabled():
            return self._samples(frames, speaker)
        parts, around, step = [], self.spec.reach, self.spec.step
        for first in range(0, count, _AT_ONCE):
            last = min(first + _AT_ONCE, count)
            begin = max(first - around, 0)
            part = self._samples(frames[:, :, begin : last + around], speaker)
            parts.append(part[:, (first - begin) * step : (last - begin) * step])
        return cat(parts, 1)

    def _samples(self, frames: Tensor, speaker: Tensor | None) -> Tensor:
        x = self.conv_pre(frames)
        if speaker is not None:
            x = x + self.cond(speaker)
        count = len(self.spec.block_taps)
        for i, up in enumerate(self.get_submodule(self._upsamplings).children()):
            x = up(_leaky(x, self.spec.slope))
            total = self.resblocks[i * count](x)
            for j in range(1, count):
                total = total + self.resblocks[i * count + j](x)
            x = total / count
        samples: Tensor = self.conv_post(_leaky(x, _LAST_SLOPE)).tanh()
        return samples[:, 0]


class MelVocoder(Vocoder):
    """HiFi-GAN of spectrograms that are brought to mean 0 and variance 1 first, or not."""

    def __init__(self, spec: VocoderSpec, normalized: bool) -> None:
        super().__init__(spec)
        self.normalized = normalized
        self.mean, self.scale = Buffer(ops.zeros(spec.width)), Buffer(ops.ones(spec.width))

    def forward(self, frames: Tensor, speaker: Tensor | None = None) -> Tensor:
        """Samples (batch, n * step) of frames (batch, width, n)."""
        if self.normalized:
            frames = (frames - self.mean.unsqueeze(-1)) / self.scale.unsqueeze(-1)
        return super().forward(frames)


class HifiGan(MelVocoder, Model):
    """A vocoder by itself: a spectrogram (batch, bins, n) -> samples (batch, n * step)."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: VocoderSpec) -> None:
        super().__init__(spec, config.normalize_before)
        self.config, self.rate = config, config.sampling_rate
