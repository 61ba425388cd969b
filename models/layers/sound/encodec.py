"""EnCodec's model: SEANet, residual tables of codes, and loudness apart in overlapping chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.padding import pad
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.sound.codec import CodecModel, Coding, Flow, Flowing, Gathered
from rushlight.models.layers.sound.seanet import SeaDecoder, SeaEncoder, SeaSpec, residual_codes

Chunk = tuple[Tensor, Tensor | None]  # codes (batch, codebooks, frames), loudness (batch, 1, 1)


@dataclass(frozen=True)
class ChunkSpec:
    """Chunks of `length` samples, one every `stride`. loud: each is divided by its loudness."""

    length: int | None
    stride: int | None
    loud: bool


class _Book(nn.Module):
    """A table of codes."""

    def __init__(self, size: int, width: int) -> None:
        self.codebook = nn.Module()
        self.codebook.embed = parameter(size, width)


class EncodecModel(CodecModel):
    """Sound (batch, channels, n) -> codes (batch, codebooks, frames), and back.

    A model with chunks (48 kHz) has codes (chunks, batch, codebooks, frames), and the loudness of
    each chunk beside them: `encode_chunks` and `decode_chunks`.
    """

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, spec: SeaSpec, chunks: ChunkSpec, counts: dict[float, int]
    ) -> None:
        """counts: the codebooks of each bandwidth, the usual one first."""
        c = config
        self.config, self.spec, self.chunks, self.counts = config, spec, chunks, counts
        self.rate, self.channels, self.hop = c.sampling_rate, c.audio_channels, 1
        for ratio in spec.ratios:
            self.hop *= ratio
        self.bits = float(np.log2(c.codebook_size))
        self.codebooks, self.usual = max(counts.values()), next(iter(counts.values()))
        self.in_parts = spec.streams and not chunks.loud
        self.encoder, self.decoder = SeaEncoder(spec), SeaDecoder(spec)
        books = [_Book(c.codebook_size, spec.width) for _ in range(self.codebooks)]
        put(self, "quantizer.layers", nn.ModuleList(books))

    def bandwidths(self) -> dict[float, int]:
        """The bandwidths that the checkpoint was trained for, each with its codebooks."""
        return dict(self.counts)

    def encode(
        self, audio: Tensor, codebooks: int | None = None, bandwidth: float | None = None
    ) -> Tensor:
        """Codes of `audio` (batch, channels, n), or (batch, n) or (n,) where there is one channel.

        (batch, codebooks, frames); of a model with chunks (chunks, batch, codebooks, frames), where
        0 fills a last chunk that is shorter. bandwidth: thousands of bits a second, in place of
        `codebooks`; the smallest without either. ValueError for another shape, no samples, or a
        bandwidth or a number that there is not.
        """
        count = self._count(codebooks, bandwidth)
        if self.chunks.length is None and not self.chunks.loud:
            return super().encode(audio, count)
        codes = [chunk for chunk, _ in self.encode_chunks(audio, count)]
        codes[-1] = pad(codes[-1], (0, codes[0].shape[-1] - codes[-1].shape[-1]))
        return stack(codes)

    def encode_chunks(
        self, audio: Tensor, codebooks: int | None = None, bandwidth: float | None = None
    ) -> list[Chunk]:
        """Codes (batch, codebooks, frames) and loudness (batch, 1, 1) of each chunk of `audio`.

        `codebooks`, `bandwidth` and errors are those of `encode`. The loudness is None where sound
        is not divided by it.
        """
        sound, count = self.checked_sound(audio), self._count(codebooks, bandwidth)
        length = self.chunks.length or sound.shape[2]
        starts = range(0, sound.shape[2], self.chunks.stride or length)
        return [self._coded(sound[:, :, start : start + length], count) for start in starts]

    def decode(self, codes: Tensor, loudness: Tensor | None = None, filled: int = 0) -> Tensor:
        """Sound (batch, channels, n) of codes, of the shape that `encode` gives.

        loudness (chunks, batch): of each chunk, 1 without it. filled: the frames of the last chunk
        that are filling. ValueError for another shape, and for more books than there are.
        """
        if self.chunks.length is None and not self.chunks.loud:
            return super().decode(codes)
        codes = codes.unsqueeze(0) if codes.ndim == 3 else codes
        chunks: list[Chunk] = []
        for i in range(len(codes)):
            last = i + 1 == len(codes)
            part = codes[i, ..., : codes.shape[-1] - filled] if last else codes[i]
            loud = None if loudness is None else loudness[i].reshape(-1, 1, 1)
            chunks.append((part, loud))
        return self.decode_chunks(chunks)

    def decode_chunks(self, chunks: list[Chunk]) -> Tensor:
        """Sound (batch, channels, n) of the chunks that `encode_chunks` gives, faded over."""
        fade = Fade(self.chunks.stride)
        parts = [fade.push(self._sound(*chunk)) for chunk in chunks]
        return cat([*parts, fade.end()], -1)

    def encoding(self, codebooks: int | None = None) -> Coding:
        count = self.checked_count(codebooks)
        empty = self._codes_of(0, count)
        if not self.in_parts:
            return Gathered(lambda x: self._coded(x, count)[0], empty)
        return Flowing(lambda x, flow: self._coded(x, count, flow)[0], self.hop, empty)

    def decoding(self) -> Coding:
        weight = self.quantizer.layers[0].codebook.embed
        empty = weight.new_zeros(1, self.channels, 0)
        if not self.in_parts:
            return Gathered(self._sound, empty)
        return Flowing(lambda codes, flow: self._sound(codes, None, flow), 1, empty)

    def round_trip(self, codebooks: int | None = None) -> Coding:
        if self.chunks.length is None:
            return super().round_trip(codebooks)
        return _Chunked(self, self.checked_count(codebooks))

    def _count(self, codebooks: int | None, bandwidth: float | None) -> int:
        if bandwidth is None:
            return self.checked_count(codebooks)
        if codebooks is not None or bandwidth not in self.counts:
            raise ValueError(
                f"encodec: bandwidth is {bandwidth}; it must be one of "
                f"{', '.join(f'{known:g}' for known in self.counts)}, without codebooks"
            )
        return self.counts[bandwidth]

    def _codes_of(self, frames: int, count: int) -> Tensor:
        return tensor(np.zeros((1, count, frames), np.int64), device=self.device)

    def _coded(self, x: Tensor, count: int, flow: Flow | None = None) -> Chunk:
        """Codes (batch, count, frames) and loudness of a part or a chunk."""
        loud = None
        with no_grad():
            if self.chunks.loud:
                mono = x.mean(1, keepdim=True)
                loud = mono.square().mean(-1, keepdim=True).sqrt() + 1e-8
                x = x / loud
            states = self.encoder(x, flow).transpose(1, 2)
            books = list(self.quantizer.layers)[:count]
            codes = residual_codes(states, [book.codebook.embed for book in books])
        return stack(codes, 1), loud

    def _sound(self, codes: Tensor, loud: Tensor | None = None, flow: Flow | None = None) -> Tensor:
        """Sound (batch, channels, n) of codes (batch, codebooks, frames)."""
        self.checked_codes(codes)
        with no_grad():
            tables = [book.codebook.embed for book in self.quantizer.layers]
            x = tables[0][codes[:, 0]]
            for i in range(1, codes.shape[1]):
                x = x + tables[i][codes[:, i]]
            sound: Tensor = self.decoder(x.transpose(1, 2), flow)
        return sound if loud is None else sound * loud


class Fade:
    """Chunks that begin `stride` samples apart, each with weights that rise and fall."""

    def __init__(self, stride: int | None) -> None:
        self.stride = stride
        self.weights: Tensor | None = None
        self.sound: Tensor | None = None  # weighted, of what more chunks may add to
        self.total: Tensor | None = None  # of the weights

    def push(self, chunk: Tensor) -> Tensor:
        """The next chunk (batch, channels, n) -> the sound before the next one's start."""
        n = chunk.shape[-1]
        if self.weights is None:
            at = np.linspace(0, 1, n + 2, dtype=np.float32)[1:-1]
            self.weights = tensor(0.5 - np.abs(at - 0.5), device=chunk.device)
        weights = self.weights[:n]
        sound, total = chunk * weights, weights
        if self.sound is not None and self.total is not None:
            most = max(n, self.sound.shape[-1])
            sound = _filled(sound, most) + _filled(self.sound, most)
            total = _filled(total, most) + _filled(self.total, most)
        stride = sound.shape[-1] if self.stride is None else self.stride
        self.sound, self.total = sound[..., stride:], total[stride:]
        return sound[..., :stride] / total[:stride]

    def end(self) -> Tensor:
        """What is left after the last chunk."""
        assert self.sound is not None and self.total is not None
        return self.sound / self.total if self.sound.shape[-1] else self.sound


def _filled(x: Tensor, n: int) -> Tensor:
    return pad(x, (0, n - x.shape[-1])) if x.shape[-1] < n else x


class _Chunked(Coding):
    """Sound in parts, coded in chunks and decoded again."""

    def __init__(self, model: EncodecModel, count: int) -> None:
        self.model, self.count, self.fade = model, count, Fade(model.chunks.stride)
        self.rest: Tensor | None = None

    def push(self, x: Tensor, last: bool = False) -> Tensor:
        x = x if self.rest is None else cat([self.rest, x], -1)
        length, stride = self.model.chunks.length or 1, self.model.chunks.stride or 1
        parts = [x[..., :0]]
        while x.shape[-1] and (last or x.shape[-1] > length):
            chunk = self.model._coded(x[..., :length], self.count)
            parts.append(self.fade.push(self.model._sound(*chunk)))
            x = x[..., stride:]
        self.rest = x
        return cat([*parts, self.fade.end()] if last else parts, -1)
