"""DAC's model: snakes and dilated convolutions, and tables of codes of narrow projections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.functional.joining import stack
from rushlight.core.functional.reductions import normalize
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.sound.codec import CodecModel, Coding, Windowed, reach
from rushlight.models.layers.sound.seanet import nearest

_DILATIONS = (1, 3, 9)


class Snake(nn.Module):
    """x + sin(alpha x)^2 / alpha (Ziyin et al., 2020), an alpha for each channel."""

    def __init__(self, channels: int) -> None:
        self.alpha = parameter(1, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.alpha * x).sin().square() / (self.alpha + 1e-9)


class _Unit(nn.Module):
    """x + a dilated convolution and a product of x, each after a snake."""

    def __init__(self, width: int, dilation: int) -> None:
        self.snake1, self.snake2 = Snake(width), Snake(width)
        self.conv1 = nn.Conv1d(width, width, 7, dilation=dilation, padding=3 * dilation)
        self.conv2 = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        summed: Tensor = x + self.conv2(self.snake2(self.conv1(self.snake1(x))))
        return summed


class _Units(nn.Module):
    """Three units under their names, and what changes the rate."""

    def _put(self, width: int) -> None:
        for i, dilation in enumerate(_DILATIONS, 1):
            setattr(self, f"res_unit{i}", _Unit(width, dilation))

    def _run(self, x: Tensor) -> Tensor:
        for i in range(1, len(_DILATIONS) + 1):
            x = getattr(self, f"res_unit{i}")(x)
        return x


class _Down(_Units):
    """Units, then a convolution to twice the channels and one in `stride` samples."""

    def __init__(self, width: int, stride: int) -> None:
        self._put(width)
        self.snake1 = Snake(width)
        self.conv1 = nn.Conv1d(
            width, 2 * width, 2 * stride, stride=stride, padding=math.ceil(stride / 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv1(self.snake1(self._run(x)))
        return out


class _Up(_Units):
    """A transposed convolution to half the channels, then units."""

    def __init__(self, width: int, stride: int) -> None:
        self.snake1 = Snake(width)
        self.conv_t1 = nn.ConvTranspose1d(
            width, width // 2, 2 * stride, stride=stride, padding=math.ceil(stride / 2)
        )
        self._put(width // 2)

    def forward(self, x: Tensor) -> Tensor:
        return self._run(self.conv_t1(self.snake1(x)))


class DacEncoder(nn.Module):
    """Sound (batch, 1, n) -> (batch, width, about n / hop)."""

    def __init__(self, width: int, strides: Sequence[int]) -> None:
        self.conv1 = nn.Conv1d(1, width, 7, padding=3)
        self.block = nn.ModuleList([_Down(width << i, stride) for i, stride in enumerate(strides)])
        width <<= len(strides)
        self.snake1, self.conv2 = Snake(width), nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for block in self.block:
            x = block(x)
        out: Tensor = self.conv2(self.snake1(x))
        return out


class DacDecoder(nn.Module):
    """(batch, inside, frames) -> sound (batch, 1, about frames * hop)."""

    def __init__(
        self, inside: int, width: int, strides: Sequence[int], bounded: bool = True
    ) -> None:
        """bounded: the last step is a tanh."""
        self.conv1 = nn.Conv1d(inside, width, 7, padding=3)
        self.block = nn.ModuleList([_Up(width >> i, stride) for i, stride in enumerate(strides)])
        width >>= len(strides)
        self.snake1, self.conv2 = Snake(width), nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for block in self.block:
            x = block(x)
        return self.conv2(self.snake1(x)).tanh()  # type: ignore[no-any-return]


class _Book(nn.Module):
    """A table of codes, and the projections into its narrow vectors and back."""

    def __init__(self, width: int, size: int, narrow: int) -> None:
        self.in_proj, self.out_proj = nn.Conv1d(width, narrow, 1), nn.Conv1d(narrow, width, 1)
        self.codebook = nn.Embedding(size, narrow)

    def codes(self, x: Tensor) -> Tensor:
        """Codes (batch, n) of x (batch, width, n): by the angle to the table's rows."""
        narrow = normalize(self.in_proj(x).transpose(1, 2), dim=-1)
        return nearest(narrow, normalize(self.codebook.weight, dim=-1))

    def sound(self, codes: Tensor) -> Tensor:
        """(batch, width, n) of codes (batch, n)."""
        out: Tensor = self.out_proj(self.codebook(codes).transpose(1, 2))
        return out


class DacModel(CodecModel):
    """Sound (batch, 1, n) -> codes (batch, codebooks, frames), and back."""

    @nn.layers_on("meta")
    def __init__(self, config: Any) -> None:
        c = self.config = config
        self.rate, self.hop = c.sampling_rate, math.prod(c.downsampling_ratios)
        self.codebooks, self.bits = c.n_codebooks, math.log2(c.codebook_size)
        self.strides = tuple(c.downsampling_ratios)
        width = c.encoder_hidden_size << len(self.strides)
        self.encoder = DacEncoder(c.encoder_hidden_size, self.strides)
        self.decoder = DacDecoder(width, c.decoder_hidden_size, self.strides[::-1])
        books = [_Book(width, c.codebook_size, c.codebook_dim) for _ in range(c.n_codebooks)]
        self.quantizer = nn.Module()
        self.quantizer.quantizers = nn.ModuleList(books)

    def encoding(self, codebooks: int | None = None) -> Coding:
        count = self.checked_count(codebooks)
        empty = tensor(np.zeros((1, count, 0), np.int64), device=self.device)
        frames = -(-reach(encoder_layers(self.strides)) // self.hop)
        return Windowed(lambda x: self._codes(x, count), frames * self.hop, self.hop, 1, empty)

    def decoding(self) -> Coding:
        empty = self.decoder.conv1.weight.new_zeros(1, 1, 0)
        frames = -(-reach(encoder_layers(self.strides)) // self.hop) + 6
        return Windowed(self._sound, frames, 1, self.hop, empty)

    def _codes(self, x: Tensor, count: int) -> Tensor:
        if short := max(0, self.least - x.shape[-1]):
            raise ValueError(
                f"{self.config.model_type}: audio has {x.shape[-1]} samples; {short} more are "
                "needed for a frame"
            )
        states, codes = self.encoder(x), []
        quantizer: Any = self.quantizer
        for book in list(quantizer.quantizers)[:count]:
            codes.append(book.codes(states))
            states = states - book.sound(codes[-1])
        return stack(codes, 1)

    @property
    def least(self) -> int:
        """The fewest samples that make a frame."""
        n = 1
        for stride in reversed(self.strides):
            n = (n - 1) * stride + 2 * stride - 2 * math.ceil(stride / 2)
        return n

    def _sound(self, codes: Tensor) -> Tensor:
        self.checked_codes(codes)
        quantizer: Any = self.quantizer
        books = list(quantizer.quantizers)
        x = books[0].sound(codes[:, 0])
        for i in range(1, codes.shape[1]):
            x = x + books[i].sound(codes[:, i])
        sound: Tensor = self.decoder(x)
        return sound


def encoder_layers(strides: Sequence[int], kernel: int = 7) -> list[tuple[int, int, int]]:
    """(kernel, stride, dilation) of the encoder's convolutions, in order."""
    layers = [(kernel, 1, 1)]
    for stride in strides:
        layers += [(kernel, 1, dilation) for dilation in _DILATIONS]
        layers.append((2 * stride, stride, 1))
    return [*layers, (kernel, 1, 1)]
