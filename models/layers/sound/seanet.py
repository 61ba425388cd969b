"""SEANet (Tagliasacchi et al., 2020): the convolutions of EnCodec and Mimi, whole or in parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.dtype import float32
from rushlight.core.functional.network.convolution import conv1d, conv_transpose1d
from rushlight.core.functional.network.padding import pad
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.sound.codec import Flow

_RENAMED = {
    "conv.weight_g": "conv.parametrizations.weight.original0",
    "conv.weight_v": "conv.parametrizations.weight.original1",
}


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with older names of weight-normed convolutions made new."""
    ends = {name: next((e for e in _RENAMED if name.endswith(e)), "") for name in tensors}
    return {
        name.removesuffix(end) + _RENAMED.get(end, ""): tensors[name] for name, end in ends.items()
    }


@dataclass(frozen=True)
class SeaSpec:
    """SEANet. ratios: of the decoder, from the codes on; the encoder's are these backwards.

    norm: "weight_norm" (a length and a direction per channel), "time_group_norm" (over all of a
    part's channels and time) or "". padding: how the ends go on, as of `pad`. trim: the share of
    what transposed convolutions make too much that is cut at the end. recurrent: layers of an LSTM.
    shortcut: a product where a residual block is passed by.
    """

    channels: int
    filters: int
    width: int
    ratios: tuple[int, ...]
    blocks: int = 1
    kernel: int = 7
    last_kernel: int = 7
    block_kernel: int = 3
    growth: int = 2
    causal: bool = True
    padding: str = "reflect"
    norm: str = "weight_norm"
    trim: float = 1.0
    squeeze: int = 2
    recurrent: int = 2
    shortcut: bool = True

    @property
    def streams(self) -> bool:
        """Whether its layers look back only, so that parts can be worked on one by one."""
        return self.causal and self.norm != "time_group_norm" and self.trim == 1.0


class NormedWeight(nn.Module):
    """A weight as the length and the direction of each first index (Salimans and Kingma, 2016)."""

    def __init__(self, *shape: int) -> None:
        self.original0, self.original1 = parameter(shape[0], 1, 1), parameter(*shape)
        self._fill()

    def reset_parameters(self) -> None:
        """Normal numbers of length one."""
        init.ones_(self.original0)
        init.normal_(self.original1)

    def forward(self) -> Tensor:
        """The weight."""
        v = self.original1.to(float32)
        weight: Tensor = v * (self.original0.to(float32) / (v * v).sum((1, 2), keepdim=True).sqrt())
        return weight.to(self.original1.dtype)


class _Convolution(nn.Module):
    """What both kinds share: the weight, the bias and the norm after them."""

    def _make(self, outside: int, shape: tuple[int, ...], norm: str, bias: bool) -> None:
        """shape: of the weight."""
        self.conv = nn.Module()
        if norm == "weight_norm":
            put(self, "conv.parametrizations.weight", NormedWeight(*shape))
        else:
            self.conv.weight = parameter(*shape)
        if bias:
            self.conv.bias = parameter(outside)
        if norm == "time_group_norm":
            self.norm = nn.GroupNorm(1, outside)
        self.kind, self.bias = norm, bias

    def _weights(self) -> tuple[Tensor, Tensor | None]:
        conv: Any = self.conv
        normed = self.kind == "weight_norm"
        weight = conv.parametrizations.weight() if normed else conv.weight
        return weight, conv.bias if self.bias else None

    def _normed(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x) if self.kind == "time_group_norm" else x
        return out


class SeaConv(_Convolution):
    """A convolution whose result has ceil(n / stride) steps; a causal one looks back only."""

    def __init__(
        self,
        spec: SeaSpec,
        inside: int,
        outside: int,
        kernel: int,
        stride: int = 1,
        dilation: int = 1,
        bias: bool = True,
        padding: str | None = None,
    ) -> None:
        self.spec, self.stride, self.dilation = spec, stride, dilation
        self.padding = spec.padding if padding is None else padding
        self.span = (kernel - 1) * dilation + 1 - stride
        self._make(outside, (outside, inside, kernel), spec.norm, bias)

    def forward(self, x: Tensor, flow: Flow | None = None) -> Tensor:
        """(batch, inside, n) -> (batch, outside, ceil(n / stride)). flow: x is a part."""
        weight, bias = self._weights()
        x = self._padded(x) if flow is None else self._joined(x, flow)
        return self._normed(conv1d(x, weight, bias, stride=self.stride, dilation=self.dilation))

    def _padded(self, x: Tensor) -> Tensor:
        extra = -x.shape[-1] % self.stride
        right = 0 if self.spec.causal else self.span // 2
        return self._extended(x, self.span - right, right + extra)

    def _extended(self, x: Tensor, left: int, right: int) -> Tensor:
        mode = self.padding
        if mode != "reflect" or not left + right:
            return pad(x, (left, right), mode)
        short = max(0, max(left, right) - x.shape[-1] + 1)  # zeros are mirrored then
        x = pad(pad(x, (0, short)), (left, right), mode)
        return x[..., : x.shape[-1] - short]

    def _joined(self, x: Tensor, flow: Flow) -> Tensor:
        """A part after what the last ones left."""
        if flow.first and flow.last:
            return self._padded(x)
        extra = -x.shape[-1] % self.stride if flow.last else 0
        if flow.first:
            x = self._extended(x, self.span, 0)
        elif self.span:
            x = cat([flow.held[id(self)], x], -1)
        if extra:
            x = self._extended(x, 0, extra)
        if self.span:
            flow.held[id(self)] = x[..., x.shape[-1] - self.span :]
        return x


class SeaTransposed(_Convolution):
    """A transposed convolution: (batch, inside, n) -> (batch, outside, n * stride)."""

    def __init__(
        self,
        spec: SeaSpec,
        inside: int,
        outside: int,
        kernel: int,
        stride: int,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        self.stride, self.groups = stride, groups
        over = kernel - stride
        self.right = math.ceil(over * spec.trim) if spec.causal else over // 2
        self.left, self.back = over - self.right, -(-over // stride)
        self._make(outside, (inside, outside // groups, kernel), spec.norm, bias)

    def forward(self, x: Tensor, flow: Flow | None = None) -> Tensor:
        weight, bias = self._weights()
        before, n = 0, x.shape[-1]
        if flow is not None and self.back:
            if not flow.first:
                held = flow.held[id(self)]
                before, x = held.shape[-1], cat([held, x], -1)
            flow.held[id(self)] = x[..., max(x.shape[-1] - self.back, 0) :]
        y = conv_transpose1d(x, weight, bias, stride=self.stride, groups=self.groups)
        y = self._normed(y)
        if flow is not None:
            return y[..., before * self.stride : (before + n) * self.stride]
        return y[..., self.left : y.shape[-1] - self.right]


class SeaBlock(nn.Module):
    """x + convolutions of x, narrower between them."""

    def __init__(self, spec: SeaSpec, width: int, dilation: int) -> None:
        inner = width // spec.squeeze
        self.block = nn.ModuleList(
            [
                nn.ELU(),
                SeaConv(spec, width, inner, spec.block_kernel, dilation=dilation),
                nn.ELU(),
                SeaConv(spec, inner, width, 1),
            ]
        )
        if spec.shortcut:
            self.shortcut = SeaConv(spec, width, width, 1)
        self.direct = not spec.shortcut

    def forward(self, x: Tensor, flow: Flow | None = None) -> Tensor:
        y = run(self.block, x, flow)
        return (x if self.direct else self.shortcut(x, flow)) + y


class SeaLSTM(nn.Module):
    """x + the outputs of an LSTM over time."""

    def __init__(self, width: int, layers: int) -> None:
        self.lstm = nn.LSTM(width, width, layers)

    def forward(self, x: Tensor, flow: Flow | None = None) -> Tensor:
        """(batch, width, n) -> the same."""
        steps = x.permute(2, 0, 1)
        state = None if flow is None else flow.held.get(id(self))
        out, last = self.lstm(steps, state)
        if flow is not None:
            flow.held[id(self)] = last
        summed: Tensor = (out + steps).permute(1, 2, 0)
        return summed


def run(layers: Any, x: Tensor, flow: Flow | None) -> Tensor:
    """x through layers, of which activations know no flow."""
    for layer in layers:
        x = layer(x) if isinstance(layer, nn.ELU) else layer(x, flow)
    return x


class SeaEncoder(nn.Module):
    """Sound (batch, channels, n) -> (batch, width, ceil(n / hop))."""

    def __init__(self, spec: SeaSpec) -> None:
        layers: list[nn.Module] = [SeaConv(spec, spec.channels, spec.filters, spec.kernel)]
        width = spec.filters
        for ratio in reversed(spec.ratios):
            layers += [SeaBlock(spec, width, spec.growth**j) for j in range(spec.blocks)]
            layers += [nn.ELU(), SeaConv(spec, width, 2 * width, 2 * ratio, ratio)]
            width *= 2
        layers += [SeaLSTM(width, spec.recurrent)] if spec.recurrent else []
        layers += [nn.ELU(), SeaConv(spec, width, spec.width, spec.last_kernel)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, flow: Flow | None = None) -> Tensor:
        return run(self.layers, x, flow)


class SeaDecoder(nn.Module):
    """(batch, width, frames) -> sound (batch, channels, frames * hop)."""

    def __init__(self, spec: SeaSpec) -> None:
        width = spec.filters << len(spec.ratios)
        layers: list[nn.Module] = [SeaConv(spec, spec.width, width, spec.kernel)]
        layers += [SeaLSTM(width, spec.recurrent)] if spec.recurrent else []
        for ratio in spec.ratios:
            layers += [nn.ELU(), SeaTransposed(spec, width, width // 2, 2 * ratio, ratio)]
            width //= 2
            layers += [SeaBlock(spec, width, spec.growth**j) for j in range(spec.blocks)]
        layers += [nn.ELU(), SeaConv(spec, width, spec.channels, spec.last_kernel)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, flow: Flow | None = None) -> Tensor:
        return run(self.layers, x, flow)


def nearest(x: Tensor, table: Tensor) -> Tensor:
    """The rows (..., n) of a table (rows, width) that are nearest to x (..., n, width)."""
    distances = (table * table).sum(-1) - 2 * (x @ table.T)
    codes: Tensor = distances.argmin(-1)
    return codes


def residual_codes(x: Tensor, tables: Sequence[Tensor]) -> list[Tensor]:
    """Codes (batch, n) of x (batch, n, width) by each table: of what the ones before leave."""
    codes = []
    for table in tables:
        codes.append(nearest(x, table))
        x = x - table[codes[-1]]
    return codes
