"""Models of time series: what they share, and the transformer over patches of PatchTST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional import creation
from rushlight.core.functional.joining import stack
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.model import Model


class SeriesModel(Model):
    """A model that continues series of numbers.

    context_length: the numbers that it reads. horizon: those that it gives. quantiles: the shares
    of a forecast's numbers that are below, where it gives more than the likeliest ones.
    """

    context_length: int
    horizon: int
    channels: int | None = None
    quantiles: tuple[float, ...] = ()

    def forecast(self, values: Tensor, known: Tensor) -> Tensor:
        """(batch, length, channels) and whether each is known, (batch, length, channels), 1 or 0,
        -> (batch, horizon, channels, 1 + quantiles): the mean first.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define forecast")


@dataclass(frozen=True)
class PatchSpec:
    """PatchTST (Nie et al., 2023): patches of each channel are the tokens of a transformer.

    across: channels attend to one another, too. pooled: how a channel's tokens are joined; "" keeps
    all of them. first: a token of its own stands before the patches, and is read alone. scaling:
    each channel is divided by its "std" after its mean is taken off, or by its "mean" size.
    """

    channels: int
    context: int
    horizon: int
    patch: int
    stride: int
    width: int
    heads: int
    inner: int
    layers: int
    activation: str
    eps: float
    batch_norm: bool
    before: bool
    bias: bool
    shared: bool
    across: bool
    first: bool
    pooled: str
    scaling: str

    def __post_init__(self) -> None:
        sizes = (self.channels, self.patch, self.stride, self.heads, self.width, self.horizon)
        if min(sizes) < 1 or self.width % self.heads or self.context <= self.patch:
            raise FormatError(
                f"config.json: patches of {self.patch} every {self.stride} in {self.context} "
                f"numbers, {self.width} features for {self.heads} heads; sizes must be positive, "
                "patches shorter than the context, and features a multiple of the heads"
            )

    @property
    def tokens(self) -> int:
        """Patches of a channel."""
        return (self.context - self.patch) // self.stride + 1


class ChannelNorm(nn.Module):
    """A batch norm of the features of (rows, tokens, features)."""

    def __init__(self, width: int, eps: float) -> None:
        self.batchnorm = nn.BatchNorm1d(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, tokens, features) -> the same."""
        out: Tensor = self.batchnorm(x.transpose(1, 2)).transpose(1, 2)
        return out


class PatchAttention(nn.Module):
    """Attention of all tokens to one another."""

    def __init__(self, spec: PatchSpec) -> None:
        self.heads = spec.heads
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            setattr(self, name, nn.Linear(spec.width, spec.width))

    def forward(self, x: Tensor) -> Tensor:
        """(rows, tokens, features) -> the same."""
        q, k, v = (
            getattr(self, f"{name}_proj")(x).reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for name in "qkv"
        )
        y = ops.attention(q, k, v).transpose(1, 2).reshape(*x.shape)
        out: Tensor = self.get_submodule("out_proj")(y)
        return out


class PatchLayer(nn.Module):
    """Attention along the tokens, across the channels if so, and an MLP, with norms and sums."""

    def __init__(self, spec: PatchSpec) -> None:
        self.spec = spec
        self.self_attn = PatchAttention(spec)
        self.ff = nn.Module()
        setattr(self.ff, "0", nn.Linear(spec.width, spec.inner, bias=spec.bias))
        setattr(self.ff, "3", nn.Linear(spec.inner, spec.width, bias=spec.bias))
        for number in (1, 2, 3) if spec.across else (1, 3):
            norm = ChannelNorm if spec.batch_norm else nn.LayerNorm
            setattr(self, f"norm_sublayer{number}", norm(spec.width, eps=spec.eps))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, tokens, features) -> the same."""
        batch, channels, tokens, width = x.shape
        x = x.reshape(-1, tokens, width)
        x = self._summed(x, self.self_attn, 1)
        if self.spec.across:
            x = x.reshape(batch, channels, tokens, width).transpose(1, 2)
            x = self._summed(x.reshape(-1, channels, width), self.self_attn, 2)
            x = x.reshape(batch, tokens, channels, width).transpose(1, 2)
            x = x.reshape(-1, tokens, width)
        return self._summed(x, self._fed, 3).reshape(batch, channels, tokens, width)

    def _summed(self, x: Tensor, part: Any, number: int) -> Tensor:
        norm = getattr(self, f"norm_sublayer{number}")
        out: Tensor = x + part(norm(x)) if self.spec.before else norm(x + part(x))
        return out

    def _fed(self, x: Tensor) -> Tensor:
        out: Tensor = getattr(self.ff, "3")(
            ACTIVATIONS[self.spec.activation](getattr(self.ff, "0")(x))
        )
        return out


class PatchModel(SeriesModel):
    """PatchTST with a head that gives the next numbers of each channel."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: PatchSpec) -> None:
        self.config, self.spec = config, spec
        self.context_length, self.horizon, self.channels = spec.context, spec.horizon, spec.channels
        self.model: Any = nn.Module()
        encoder: Any = nn.Module()
        self.model.encoder = encoder
        encoder.embedder = nn.Module()
        if spec.shared:
            encoder.embedder.input_embedding = nn.Linear(spec.patch, spec.width)
        else:
            encoder.embedder.input_embedding = nn.ModuleList(
                nn.Linear(spec.patch, spec.width) for _ in range(spec.channels)
            )
        encoder.positional_encoder = Places(spec)
        encoder.layers = nn.ModuleList(PatchLayer(spec) for _ in range(spec.layers))
        self.head: Any = nn.Module()
        read = 1 if spec.pooled or spec.first else spec.tokens
        self.head.projection = nn.Linear(read * spec.width, spec.horizon)

    def forward(self, values: Tensor, known: Tensor | None = None) -> Tensor:
        """(batch, context, channels) -> (batch, horizon, channels); known: 0 for missing ones."""
        spec, encoder = self.spec, self.model.encoder
        known = creation.ones_like(values) if known is None else known.to(values.dtype)
        count = known.sum(1, keepdim=True).clamp(min=1.0)
        loc, scale = creation.zeros_like(count), creation.ones_like(count)
        if spec.scaling == "std":
            loc = (values * known).sum(1, keepdim=True) / count
            spread = (((values - loc) * known) ** 2).sum(1, keepdim=True) / count
            scale = (spread + 1e-5).sqrt()
        elif spec.scaling == "mean":
            scale = ((values * known).abs().sum(1, keepdim=True) / count).clamp(min=1e-10)
        scaled = (values - loc) / scale
        first = spec.context - spec.patch - spec.stride * (spec.tokens - 1)
        # (batch, tokens, channels, patch) -> (batch, channels, tokens, patch)
        patches = ops.unfold(scaled[:, first:], 1, spec.patch, spec.stride).transpose(1, 2)
        x = self._embedded(patches)
        x = encoder.positional_encoder(x)
        for layer in encoder.layers:
            x = layer(x)
        if spec.first:
            x = x[:, :, 0]
        elif spec.pooled == "mean":
            x = x.mean(2)
        elif spec.pooled == "max":
            x = x.amax(2)
        else:
            x = x.reshape(*x.shape[:2], -1)
        out: Tensor = self.head.projection(x).transpose(1, 2) * scale + loc
        return out

    def _embedded(self, patches: Tensor) -> Tensor:
        made: Any = self.model.encoder.embedder.input_embedding
        if self.spec.shared:
            out: Tensor = made(patches)
            return out
        each = [made[i](patches[:, i]) for i in range(self.spec.channels)]
        return stack(each, 1)

    def forecast(self, values: Tensor, known: Tensor) -> Tensor:
        """(batch, context, channels) -> (batch, horizon, channels, 1)."""
        out: Tensor = self(values, known)
        return out.unsqueeze(-1)


class Places(nn.Module):
    """A table of the tokens' places, which is added; a first token of its own if there is one."""

    def __init__(self, spec: PatchSpec) -> None:
        self.spec = spec
        if spec.first:
            self.cls_token = parameter(1, 1, 1, spec.width)
        self.position_enc = parameter(spec.tokens + spec.first, spec.width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, tokens, features) -> the same, with one more token if it is first."""
        if not self.spec.first:
            return x + self.position_enc
        own = (self.cls_token + self.position_enc[:1]).expand(*x.shape[:2], 1, x.shape[3])
        return ops.cat([own, x + self.position_enc[1:]], 2)
