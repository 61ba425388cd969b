"""CodecModel: the base class of codecs, and their work on sound of any length in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.model import Model

_SECONDS = 8  # of sound that is coded at a time
LEAST = 16  # frames of a part that goes on: convolutions mirror fewer at the start


class CodecModel(Model):
    """Sound (batch, channels, n) -> codes (batch, codebooks, frames), and back.

    rate: samples a second. channels: of the sound. hop: samples of a frame. codebooks: how many
    codes a frame has at most. bits: of a code. Sound and codes of any length are worked on in
    parts, with the results of the whole where `in_parts` is true.
    """

    rate: int = 24000
    channels: int = 1
    hop: int = 320
    codebooks: int = 1
    bits: float = 10
    in_parts: bool = True
    usual: int | None = None  # codebooks that `encode` uses unless told; None: all

    def encoding(self, codebooks: int | None = None) -> Coding:
        """What makes codes of sound that comes in parts; codebooks: how many of them."""
        raise NotImplementedError

    def decoding(self) -> Coding:
        """What makes sound of codes that come in parts."""
        raise NotImplementedError

    def round_trip(self, codebooks: int | None = None) -> Coding:
        """What codes sound that comes in parts and makes sound of the codes; ends may be longer."""
        return Composed(self.encoding(codebooks), self.decoding())

    def encode(self, audio: Tensor, codebooks: int | None = None) -> Tensor:
        """Codes (batch, codebooks, frames) of sound (batch, channels, n).

        Sound of one channel may be (batch, n) or (n,). codebooks: how many of them are used, the
        first; `usual` without it. ValueError for another shape, no samples, or a number that there
        is not.
        """
        return self._in_parts(self.encoding(codebooks), self.checked_sound(audio), self.hop)

    def decode(self, codes: Tensor) -> Tensor:
        """Sound (batch, channels, n) of codes (batch, codebooks, frames), which may be fewer books.

        ValueError for another shape; IndexError for codes out of range, where they are on the host.
        """
        return self._in_parts(self.decoding(), self.checked_codes(codes), 1)

    def forward(self, audio: Tensor, codebooks: int | None = None) -> Tensor:
        """What is left of sound (batch, channels, n) once it was coded: of the same length."""
        sound = self.checked_sound(audio)
        coded = self._in_parts(self.round_trip(codebooks), sound, self.hop)
        return coded[:, :, : sound.shape[2]]

    def bandwidth(self, codebooks: int | None = None) -> float:
        """Bits a second, in thousands, of so many codebooks, or of all."""
        frames = self.rate / self.hop
        return frames * self.bits * (self.codebooks if codebooks is None else codebooks) / 1000

    def bandwidths(self) -> dict[float, int]:
        """The bandwidths that there are, each with its number of codebooks."""
        return {round(self.bandwidth(n), 4): n for n in range(1, self.codebooks + 1)}

    def _in_parts(self, coding: Coding, x: Tensor, unit: int) -> Tensor:
        step = max(LEAST, round(_SECONDS * self.rate / self.hop)) * unit
        n = x.shape[-1]
        if not self.in_parts or n <= step + LEAST * unit:
            return coding.push(x, last=True)
        parts, start = [], 0
        while n - start > step + LEAST * unit:
            parts.append(coding.push(x[..., start : start + step]))
            start += step
        parts.append(coding.push(x[..., start:], last=True))
        return cat([part for part in parts if part.shape[-1]], -1)

    def checked_sound(self, audio: Tensor) -> Tensor:
        """The sound with all its dims; ValueError as of `encode`."""
        sound = audio
        if self.channels == 1 and sound.ndim < 3:
            sound = sound.reshape(-1, 1, sound.shape[-1]) if 0 not in sound.shape else sound
        if sound.ndim != 3 or sound.shape[1] != self.channels or 0 in sound.shape:
            raise ValueError(
                f"{self.config.model_type}: audio is {audio.shape}; it must be (batch, "
                f"{self.channels}, n)"
            )
        return sound.to(self.dtype) if sound.dtype != self.dtype else sound

    def checked_codes(self, codes: Tensor) -> Tensor:
        """The codes; ValueError as of `decode`."""
        good = codes.ndim == 3 and 1 <= codes.shape[1] <= self.codebooks and 0 not in codes.shape
        if not good or codes.dtype.is_floating_point:
            raise ValueError(
                f"{self.config.model_type}: codes are {codes.dtype.name} of shape {codes.shape}; "
                f"they must be whole numbers (batch, 1 to {self.codebooks}, frames)"
            )
        return codes

    def checked_count(self, codebooks: int | None) -> int:
        """The number of codebooks; ValueError where there are not so many."""
        usual = self.codebooks if self.usual is None else self.usual
        count = usual if codebooks is None else codebooks
        if (
            isinstance(count, bool)
            or not isinstance(count, int)
            or not 1 <= count <= self.codebooks
        ):
            raise ValueError(
                f"{self.config.model_type}: codebooks is {codebooks}; there are 1 to "
                f"{self.codebooks}"
            )
        return count


class Flow:
    """The state of causal layers between parts of a sequence; `first` and `last` tell the ends.

    held: for each layer the inputs that it still needs, or its recurrent state.
    """

    def __init__(self) -> None:
        self.first, self.last = True, False
        self.position = 0  # of a transformer: the frames before this part
        self.held: dict[int, Any] = {}


class Coding:
    """A codec's work on a sequence that comes in parts: `push` gives what is ready."""

    def push(self, x: Tensor, last: bool = False) -> Tensor:
        """The next part (..., n) of the sequence -> what can be said of it: 0 steps or more.

        last: nothing follows. Parts may have any length.
        """
        raise NotImplementedError


class Flowing(Coding):
    """`work(part, flow)` of causal layers. unit: inputs come in multiples of it, but the last."""

    def __init__(self, work: Callable[[Tensor, Flow], Tensor], unit: int, empty: Tensor) -> None:
        """empty: what is given where nothing is ready."""
        self.work, self.unit, self.empty = work, unit, empty
        self.flow = Flow()
        self.rest: Tensor | None = None

    def push(self, x: Tensor, last: bool = False) -> Tensor:
        x = x if self.rest is None else cat([self.rest, x], -1)
        n, self.rest = x.shape[-1], None
        if not last:  # something is left, so that the last part is not empty
            ready = max(n - 1, 0) // self.unit * self.unit
            if ready < (LEAST * self.unit if self.flow.first else self.unit):
                self.rest = x
                return self.empty
            x, self.rest = x[..., :ready], x[..., ready:]
        self.flow.last = last
        with no_grad():
            out = self.work(x, self.flow)
        self.flow.first = False
        return out


class Windowed(Coding):
    """`work(part)` of layers that look a limited way back and ahead.

    A part is worked on with `margin` inputs on both sides, whose results are cut off. `unit` inputs
    make `rate` results.
    """

    def __init__(
        self,
        work: Callable[[Tensor], Tensor],
        margin: int,
        unit: int,
        rate: int,
        empty: Tensor,
    ) -> None:
        self.work, self.margin, self.unit, self.rate, self.empty = work, margin, unit, rate, empty
        self.before = 0  # inputs of `rest` whose results were given
        self.rest: Tensor | None = None

    def push(self, x: Tensor, last: bool = False) -> Tensor:
        x = x if self.rest is None else cat([self.rest, x], -1)
        n, start = x.shape[-1], self.before
        stop = n if last else (n - self.margin) // self.unit * self.unit
        if not last and stop < start + LEAST * self.unit:
            self.rest = x
            return self.empty
        with no_grad():
            out = self.work(x)
        begin, end = (place // self.unit * self.rate for place in (start, stop))
        out = out[..., begin:] if last else out[..., begin:end]
        keep = max(stop - self.margin, 0)
        self.rest, self.before = x[..., keep:], stop - keep
        return out


class Composed(Coding):
    """What the second makes of what the first does."""

    def __init__(self, first: Coding, second: Coding) -> None:
        self.first, self.second = first, second

    def push(self, x: Tensor, last: bool = False) -> Tensor:
        return self.second.push(self.first.push(x, last), last)


class Gathered(Coding):
    """Work on the whole sequence, once its last part has come."""

    def __init__(self, work: Callable[[Tensor], Tensor], empty: Tensor) -> None:
        self.work, self.empty = work, empty
        self.parts: list[Tensor] = []

    def push(self, x: Tensor, last: bool = False) -> Tensor:
        self.parts.append(x)
        if not last:
            return self.empty
        with no_grad():
            return self.work(cat(self.parts, -1))


def reach(layers: list[tuple[int, int, int]]) -> int:
    """How many inputs a result of convolutions depends on: (kernel, stride, dilation) of each."""
    inputs, jump = 1, 1
    for kernel, stride, dilation in layers:
        inputs += (kernel - 1) * dilation * jump
        jump *= stride
    return inputs


def without(names: tuple[str, ...]) -> Callable[[str, Mapping[str, Any]], bool]:
    """`Family.unused` for tensors whose last name is one of `names`."""

    def unused(name: str, config: Mapping[str, Any]) -> bool:
        return name.rpartition(".")[2] in names

    return unused
