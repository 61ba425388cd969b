"""SNAC's model: DAC's layers by groups of channels, and codes of several rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.philox import normal
from rushlight.core.functional.network.convolution import conv1d, conv_transpose1d
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.reductions import normalize
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.sound.codec import CodecModel, Coding, Windowed, reach
from rushlight.models.layers.sound.dac import Snake, encoder_layers
from rushlight.models.layers.sound.seanet import NormedWeight, nearest

_SECONDS: float = 8  # of sound that is coded at a time
Draw = Callable[[int], Any]  # so many numbers of noise
_RENAMED = {
    ".weight_g": ".parametrizations.weight.original0",
    ".weight_v": ".parametrizations.weight.original1",
}


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with older names of weight-normed convolutions made new."""
    ends = {name: next((e for e in _RENAMED if name.endswith(e)), "") for name in tensors}
    return {
        name.removesuffix(end) + _RENAMED.get(end, ""): tensors[name] for name, end in ends.items()
    }


class _Conv(nn.Module):
    """A weight-normed convolution in groups that keeps the length, or is one in `stride`."""

    def __init__(
        self,
        inside: int,
        outside: int,
        kernel: int,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        put(self, "parametrizations.weight", NormedWeight(outside, inside // groups, kernel))
        self.biased, self.groups = bias, groups
        if bias:
            self.bias = parameter(outside)
        self.stride, self.dilation = stride, dilation
        self.padding = (kernel - 1) * dilation // 2 if stride == 1 else math.ceil(stride / 2)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.get_submodule("parametrizations.weight")()
        bias = self.bias if self.biased else None
        return conv1d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class _Transposed(nn.Module):
    """A weight-normed transposed convolution: n -> n * stride."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        put(self, "parametrizations.weight", NormedWeight(inside, outside, 2 * stride))
        self.bias, self.stride = parameter(outside), stride

    def forward(self, x: Tensor) -> Tensor:
        weight, s = self.get_submodule("parametrizations.weight")(), self.stride
        return conv_transpose1d(x, weight, self.bias, s, math.ceil(s / 2), s % 2)


class _Unit(nn.Module):
    """x + a dilated convolution and a product of x, each after a snake."""

    def __init__(self, width: int, dilation: int, groups: int) -> None:
        self.block = nn.Sequential(
            Snake(width),
            _Conv(width, width, 7, dilation=dilation, groups=groups),
            Snake(width),
            _Conv(width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        summed: Tensor = x + self.block(x)
        return summed


class _Noise(nn.Module):
    """x + noise, one number a step, times a product of x."""

    draw: Draw | None = None

    def __init__(self, width: int) -> None:
        self.linear = _Conv(width, width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        values = normal(0, 0, n) if self.draw is None else self.draw(n)
        noise = tensor(np.asarray(values, np.float32), device=x.device).to(x.dtype)
        out: Tensor = x + noise * self.linear(x)
        return out


class _Block(nn.Module):
    """Modules one after another, under the name `block`."""

    def __init__(self, *modules: nn.Module) -> None:
        self.block = nn.Sequential(*modules)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(x)
        return out


def _units(width: int, groups: int) -> list[nn.Module]:
    return [_Unit(width, dilation, groups) for dilation in (1, 3, 9)]


class _Book(nn.Module):
    """A table of codes of every `stride` frames."""

    def __init__(self, width: int, size: int, narrow: int, stride: int) -> None:
        self.in_proj, self.out_proj = _Conv(width, narrow, 1), _Conv(narrow, width, 1)
        self.codebook, self.stride = nn.Embedding(size, narrow), stride

    def codes(self, x: Tensor) -> Tensor:
        """Codes (batch, n / stride) of x (batch, width, n)."""
        if self.stride > 1:
            x = x.unflatten(2, (-1, self.stride)).mean(3)
        narrow = normalize(self.in_proj(x).transpose(1, 2), dim=-1)
        return nearest(narrow, normalize(self.codebook.weight, dim=-1))

    def frames(self, codes: Tensor) -> Tensor:
        """(batch, width, n) of codes (batch, n / stride)."""
        x: Tensor = self.out_proj(self.codebook(codes).transpose(1, 2))
        return x.repeat_interleave(self.stride, 2) if self.stride > 1 else x


class SnacModel(CodecModel):
    """Sound (batch, 1, n) -> codes of each rate, a list of (batch, frames), and back.

    The first codebook has the fewest frames. Sound is filled with silence to whole frames of it.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any) -> None:
        c = self.config = config
        self.rate, self.hop = c.sampling_rate, math.prod(c.encoder_rates)
        self.vq_strides = tuple(c.vq_strides)
        self.codebooks, self.bits = len(self.vq_strides), math.log2(c.codebook_size)
        self.unit = self.hop * self.vq_strides[0]
        width = c.encoder_dim
        layers: list[nn.Module] = [_Conv(1, width, 7)]
        for stride in c.encoder_rates:
            groups = width if c.depthwise else 1
            down = _Conv(width, 2 * width, 2 * stride, stride)
            layers.append(_Block(*_units(width, groups), Snake(width), down))
            width *= 2
        layers.append(_Conv(width, width, 7, groups=width if c.depthwise else 1))
        self.encoder = _Block(*layers)
        self.quantizer = nn.Module()
        books = [_Book(width, c.codebook_size, c.codebook_dim, s) for s in self.vq_strides]
        self.quantizer.quantizers = nn.ModuleList(books)
        up, inner = c.decoder_dim, width
        layers = (
            [_Conv(inner, inner, 7, groups=inner), _Conv(inner, up, 1)]
            if c.depthwise
            else [_Conv(inner, up, 7)]
        )
        for stride in c.decoder_rates:
            half = up // 2
            noise = [_Noise(half)] if c.noise else []
            parts = _units(half, half if c.depthwise else 1)
            layers.append(_Block(Snake(up), _Transposed(up, half, stride), *noise, *parts))
            up = half
        layers += [Snake(up), _Conv(up, 1, 7), nn.Tanh()]
        self.decoder = nn.Module()
        self.decoder.model = nn.Sequential(*layers)
        strides = encoder_layers(c.encoder_rates)
        self.margin = -(-reach(strides) // self.unit) * self.unit

    def bandwidth(self, codebooks: int | None = None) -> float:
        count = self.codebooks if codebooks is None else codebooks
        frames = sum(self.rate / self.hop / stride for stride in self.vq_strides[:count])
        return float(frames * self.bits / 1000)

    def encode(  # type: ignore[override]
        self, audio: Tensor, codebooks: int | None = None
    ) -> list[Tensor]:
        """Codes of each rate, a list of (batch, frames), of `audio` (batch, 1, n).

        `codebooks`: how many of them are used, the first. ValueError for another shape, no samples,
        or a number that there is not.
        """
        sound, count = self.checked_sound(audio), self.checked_count(codebooks)
        sound = pad(sound, (0, -sound.shape[2] % self.unit))
        n, step = sound.shape[2], max(1, int(_SECONDS * self.rate) // self.unit) * self.unit
        parts: list[list[Tensor]] = []
        for start in range(0, n, step):
            begin, stop = max(start - self.margin, 0), min(start + step, n)
            codes = self._codes(sound[:, :, begin : stop + self.margin], count)
            places = [self.hop * stride for stride in self.vq_strides]
            parts.append(
                [
                    row[:, (start - begin) // size : (stop - begin) // size]
                    for row, size in zip(codes, places, strict=False)
                ]
            )
        return [cat(rows, 1) for rows in zip(*parts, strict=True)]

    def decode(  # type: ignore[override]
        self, codes: list[Tensor], noise: Draw | None = None
    ) -> Tensor:
        """Sound (batch, 1, n) of codes of each rate, a list of (batch, frames).

        noise: gives so many random numbers; the same in each call without it. ValueError for codes
        whose lengths do not fit.
        """
        frames = [row.shape[1] * s for row, s in zip(codes, self.vq_strides, strict=False)]
        if not 1 <= len(codes) <= self.codebooks or len(set(frames)) != 1 or not frames[0]:
            raise ValueError(
                f"snac: codes are {[row.shape for row in codes]}; they must be 1 to "
                f"{self.codebooks} of (batch, frames), of which each has "
                f"{', '.join(map(str, self.vq_strides))} frames of sound"
            )
        first = self.vq_strides[0]
        margin, step = self.margin // self.unit, max(1, int(_SECONDS * self.rate) // self.unit)
        parts, count = [], codes[0].shape[1]
        for start in range(0, count, step):
            begin, stop = max(start - margin, 0), min(start + step, count)
            end = min(stop + margin, count)
            rows = [
                row[:, begin * first // s : end * first // s]
                for row, s in zip(codes, self.vq_strides, strict=False)
            ]
            sound = self._sound(rows, noise)
            parts.append(sound[:, :, (start - begin) * self.unit : (stop - begin) * self.unit])
        return cat(parts, 2)

    def round_trip(self, codebooks: int | None = None) -> Coding:
        count = self.checked_count(codebooks)
        empty: Any = next(iter(self.parameters()))

        def work(x: Tensor) -> Tensor:
            filled = pad(x, (0, -x.shape[2] % self.unit))
            return self._sound(self._codes(filled, count), None)

        reached = 2 * self.margin
        return Windowed(work, reached, self.unit, self.unit, empty.new_zeros(1, 1, 0))

    def _codes(self, x: Tensor, count: int) -> list[Tensor]:
        quantizer: Any = self.quantizer
        with no_grad():
            states, codes = self.encoder(x), []
            for book in list(quantizer.quantizers)[:count]:
                codes.append(book.codes(states))
                states = states - book.frames(codes[-1])
        return codes

    def _sound(self, codes: list[Tensor], noise: Draw | None) -> Tensor:
        quantizer: Any = self.quantizer
        decoder: Any = self.decoder
        for module in decoder.modules():
            if isinstance(module, _Noise):
                module.draw = noise
        with no_grad():
            pairs = zip(list(quantizer.quantizers), codes, strict=False)
            frames = [book.frames(row) for book, row in pairs]
            x = frames[0]
            for more in frames[1:]:
                x = x + more
            sound: Tensor = decoder.model(x)
        return sound
