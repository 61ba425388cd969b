"""TimesFM's decoder (Das et al., 2024): each patch of a series tells what comes after it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional import creation
from rushlight.core.functional.network.activations import softplus
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.series import SeriesModel


@dataclass(frozen=True)
class TimesSpec:
    """A decoder over patches of `patch` numbers, `width` features wide.

    kinds: rows of the table of how often numbers come. least: of the spread that patches are
    divided by. places: sinusoids are added, with these least and largest spans.
    """

    context: int
    horizon: int
    patch: int
    kinds: int
    layers: int
    width: int
    inner: int
    heads: int
    head: int
    eps: float
    least: float
    quantiles: tuple[float, ...]
    places: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        sizes = (self.patch, self.horizon, self.kinds, self.heads, self.head, self.width)
        if min(sizes) < 1 or self.context < self.patch or self.context % self.patch:
            raise FormatError(
                f"config.json: patches of {self.patch} numbers do not divide a context of "
                f"{self.context}, or a size is not positive"
            )


class Summed(nn.Module):
    """Two matrices with SiLU between them, and a third beside them."""

    def __init__(self, inside: int, inner: int, outside: int) -> None:
        self.input_layer = nn.Linear(inside, inner)
        self.output_layer = nn.Linear(inner, outside)
        self.residual_layer = nn.Linear(inside, outside)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inside) -> (..., outside)."""
        out: Tensor = self.output_layer(ops.silu(self.input_layer(x))) + self.residual_layer(x)
        return out


class TimesLayer(nn.Module):
    """Attention with a learned scale of each feature of queries, and an MLP."""

    def __init__(self, spec: TimesSpec) -> None:
        self.spec = spec
        self.self_attn: Any = nn.Module()
        self.mlp: Any = nn.Module()
        attention, mlp = self.self_attn, self.mlp
        rows = spec.heads * spec.head
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(attention, name, nn.Linear(spec.width, rows))
        attention.o_proj = nn.Linear(rows, spec.width)
        attention.scaling = parameter(spec.head)
        mlp.gate_proj = nn.Linear(spec.width, spec.inner)
        mlp.down_proj = nn.Linear(spec.inner, spec.width)
        mlp.layer_norm = nn.LayerNorm(spec.width, eps=1e-6)
        self.input_layernorm = nn.RMSNorm(spec.width, eps=spec.eps)

    def reset_parameters(self) -> None:
        """The scales are one."""
        init.ones_(self.self_attn.scaling)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """(batch, patches, width) and which patches are real, (batch, patches) -> as x."""
        spec, attention, mlp = self.spec, self.self_attn, self.mlp
        read = self.input_layernorm(x)
        q, k, v = (
            getattr(attention, f"{name}_proj")(read)
            .reshape(*x.shape[:2], spec.heads, spec.head)
            .transpose(1, 2)
            for name in "qkv"
        )
        q = q * (softplus(attention.scaling) * (math.log2(math.e) / math.sqrt(spec.head)))
        seen = (real > 0)[:, None, None, :]
        y = ops.attention(q, k, v, causal=True, mask=seen, scale=1.0).transpose(1, 2)
        x = x + attention.o_proj(y.reshape(*x.shape[:2], -1))
        fed = mlp.down_proj(ops.relu(mlp.gate_proj(mlp.layer_norm(x))))
        out: Tensor = x + fed * real.unsqueeze(-1)
        return out


class TimesModel(SeriesModel):
    """TimesFM: the mean and quantiles of the next numbers of each series."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: TimesSpec) -> None:
        self.config, self.spec = config, spec
        self.context_length, self.horizon = spec.context, spec.horizon
        self.quantiles = spec.quantiles
        self.decoder: Any = nn.Module()
        self.decoder.input_ff_layer = Summed(2 * spec.patch, spec.inner, spec.width)
        self.decoder.freq_emb = nn.Embedding(spec.kinds, spec.width)
        self.decoder.layers = nn.ModuleList(TimesLayer(spec) for _ in range(spec.layers))
        outside = spec.horizon * (1 + len(spec.quantiles))
        self.horizon_ff_layer = Summed(spec.width, spec.inner, outside)

    def forward(
        self, values: Tensor, missing: Tensor | None = None, often: Tensor | None = None
    ) -> Tensor:
        """What follows each patch: (batch, patches, horizon, 1 + quantiles).

        values: numbers (batch, length). missing: of the same shape, 1 for missing ones. often: a
        row of the table for each series, (batch,). It raises nothing.
        """
        spec = self.spec
        missing = creation.zeros_like(values) if missing is None else missing.to(values.dtype)
        shape = (values.shape[0], -1, spec.patch)
        pads = missing.reshape(*shape)
        patches = values.reshape(*shape) * (1 - pads)
        mean, spread = self._measured(patches, pads)
        spread = spread.clamp(min=spec.least)
        scaled = (patches - mean[:, None, None]) / spread[:, None, None] * (1 - pads)
        x = self.decoder.input_ff_layer(ops.cat([scaled, pads], -1))
        unreal = pads.amin(-1)
        if spec.places is not None:
            x = x + self._placed(unreal)
        if often is None:
            often = ops.zeros(x.shape[0], dtype="int64", device=x.device)
        x = x + self.decoder.freq_emb(often).unsqueeze(1)
        for layer in self.decoder.layers:
            x = layer(x, 1 - unreal)
        y = self.horizon_ff_layer(x).reshape(*x.shape[:2], spec.horizon, -1)
        out: Tensor = y * spread[:, None, None, None] + mean[:, None, None, None]
        return out

    @staticmethod
    def _measured(patches: Tensor, pads: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and spread of each row's first patch with three known numbers, or of the last."""
        rows, count = patches.shape[0], patches.shape[1]
        enough = ((1 - pads).sum(-1) >= 3).long()
        first = ops.where(enough.sum(1) > 0, enough.argmax(1), count - 1)
        index = first.reshape(rows, 1, 1).expand(rows, 1, patches.shape[2])
        chosen, known = patches.gather(1, index)[:, 0], 1 - pads.gather(1, index)[:, 0]
        total = known.sum(1).clamp(min=1.0)
        mean = (chosen * known).sum(1) / total
        off = (chosen - mean.unsqueeze(-1)) * known
        return mean, ((off * off).sum(1) / total).sqrt()

    def _placed(self, unreal: Tensor) -> Tensor:
        """Sinusoids of the places of patches, counted from each row's first real one."""
        least, most = self.spec.places or (1.0, 1.0)
        pairs, (rows, count) = self.spec.width // 2, unreal.shape
        step = math.log(most / least) / max(pairs - 1, 1)
        spans = tensor([least * math.exp(-step * i) for i in range(pairs)], device=unreal.device)
        real = (unreal == 0).long()
        first = ops.where(real.sum(1) > 0, real.argmax(1), count - 1)
        numbers = ops.arange(count, device=unreal.device)
        places = (numbers + count - first.reshape(rows, 1)) % count
        angles = places.float().unsqueeze(-1) * spans
        return ops.cat([angles.sin(), angles.cos()], -1)

    def forecast(self, values: Tensor, known: Tensor) -> Tensor:
        """(batch, context, channels) -> (batch, horizon, channels, 1 + quantiles), by channel."""
        batch, length, channels = values.shape
        rows = values.transpose(1, 2).reshape(batch * channels, length)
        missing = 1 - known.transpose(1, 2).reshape(batch * channels, length)
        last: Tensor = self(rows, missing)[:, -1]
        return last.reshape(batch, channels, *last.shape[1:]).transpose(1, 2)
