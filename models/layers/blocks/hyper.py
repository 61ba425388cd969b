"""Hyper-connections (Zhu et al., 2024) as in Hy4: streams that layers read and write by shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.layers.naming import put

if TYPE_CHECKING:
    from rushlight.models.layers.decoder import DecoderSpec

ATTENTION, FEED, HEAD = "hc_pre.hc_attn_layer", "hc_pre.hc_mlp_layer", "hc_pre.hc_head"


@dataclass(frozen=True)
class HyperSpec:
    """`streams` of features; a part writes to each with a share up to `magnitude`.

    eps: the least share. norm_eps: of the norm of the streams that shares are made of.
    """

    streams: int
    magnitude: float
    eps: float
    norm_eps: float

    def __post_init__(self) -> None:
        if self.streams < 1:
            raise FormatError(f"config.json: hc_mult is {self.streams}; it must be positive")

    def layer(self, spec: DecoderSpec, layer: int) -> HyperLayer:
        """A layer between streams."""
        return HyperLayer(self, spec, layer)

    def ends(self, spec: DecoderSpec) -> HyperEnds:
        """What makes streams of an embedding, and hidden states of streams."""
        return HyperEnds(self, spec)


class Shares(nn.Module):
    """Shares of the streams, `times` for each; `prefix` begins the names of its parameters."""

    def __init__(self, own: HyperSpec, width: int, times: int, prefix: str) -> None:
        self.own, self.prefix = own, prefix
        rows = times * own.streams
        for name, shape in (
            ("fn", (rows, own.streams * width)),
            ("base", (rows,)),
            ("scale", (times,)),
        ):
            setattr(self, prefix + name, parameter(*shape))

    def reset_parameters(self) -> None:
        """All shares are equal at first."""
        for name in ("fn", "base", "scale"):
            init.zeros_(getattr(self, self.prefix + name))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, streams, width) -> float32 (batch, length, times, streams), 0 to 1."""
        fn, base, scale = (getattr(self, self.prefix + n).float() for n in ("fn", "base", "scale"))
        flat = x.reshape(*x.shape[:2], -1).float()
        size = ((flat * flat).mean(-1, keepdim=True) + self.own.norm_eps).rsqrt()
        mixed = (flat @ fn.t()) * size
        shape = (*x.shape[:2], -1, self.own.streams)
        logits = mixed.reshape(*shape) * scale.unsqueeze(-1) + base.reshape(-1, self.own.streams)
        out: Tensor = logits.sigmoid()
        return out


def _read(x: Tensor, shares: Tensor) -> Tensor:
    """The sum of the streams by their shares, (batch, length, width)."""
    return (x * shares.unsqueeze(-1)).sum(2).to(x.dtype)


class HyperLayer(DecoderLayer):
    """A decoder's layer whose parts read a sum of the streams and write to all of them."""

    def __init__(self, own: HyperSpec, spec: DecoderSpec, layer: int) -> None:
        super().__init__(spec, layer)
        self.own = own
        for path in (ATTENTION, FEED):
            put(self, path, Shares(own, spec.width, 2, "hc_"))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, streams, width) -> the same."""
        names = self.spec.names
        share, before = self._before(ATTENTION, names.before_attention, x)
        y = self.get_submodule(self.block_name)(before, context)
        x = x + (share * y.unsqueeze(2)).to(x.dtype)
        share, before = self._before(FEED, names.before_mlp, x)
        z: Tensor = getattr(self, names.mlp)(before)
        return x + (share * z.unsqueeze(2)).to(x.dtype)

    def _before(self, path: str, norm: str | None, x: Tensor) -> tuple[Tensor, Tensor]:
        """The shares that a part writes with, (batch, length, streams, 1), and what it reads."""
        own, both = self.own, self.get_submodule(path)(x)
        write = (both[:, :, 1] * own.magnitude + own.eps).unsqueeze(-1)
        return write, self._normed(norm, _read(x, both[:, :, 0] + own.eps))


class HyperEnds(nn.Module):
    """The ends of the streams: copies of the embedding, and a sum by shares."""

    def __init__(self, own: HyperSpec, spec: DecoderSpec) -> None:
        self.own = own
        put(self, HEAD, Shares(own, spec.width, 1, "hc_head_"))

    def spread(self, ids: Tensor, x: Tensor, context: AttentionContext) -> Tensor:
        """The streams (batch, length, streams, width) of the embedding (batch, length, width)."""
        return x.unsqueeze(2).expand(*x.shape[:2], self.own.streams, x.shape[2])

    def gathered(self, x: Tensor) -> Tensor:
        """(batch, length, streams, width) -> (batch, length, width)."""
        return _read(x, self.get_submodule(HEAD)(x)[:, :, 0] + self.own.eps)
