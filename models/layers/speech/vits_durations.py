"""How long VITS speaks each token: by a flow that draws durations, or by convolutions alone."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.functional.network.activations import softplus
from rushlight.core.functional.network.padding import pad
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor

_LEAST = 1e-3  # of a bin's width, height and slope
_CHANNELS = 2  # of what the flow draws: a log duration, and one that is dropped


def normed(norm: nn.Module, x: Tensor) -> Tensor:
    """A norm of the channels of x (batch, channels, n)."""
    out: Tensor = norm(x.transpose(1, 2)).transpose(1, 2)
    return out


class SeparableConvs(nn.Module):
    """Depth-separable convolutions of growing dilation, each added to what it takes."""

    def __init__(self, c: Any) -> None:
        taps, width, count = (
            c.duration_predictor_kernel_size,
            c.hidden_size,
            c.depth_separable_num_layers,
        )
        dilated = []
        for i in range(count):
            dilation = taps**i
            pads = (taps * dilation - dilation) // 2
            dilated.append(
                nn.Conv1d(width, width, taps, groups=width, dilation=dilation, padding=pads)
            )
        self.convs_dilated = nn.ModuleList(dilated)
        self.convs_pointwise = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(count)])
        self.norms_1 = nn.ModuleList([nn.LayerNorm(width) for _ in range(count)])
        self.norms_2 = nn.ModuleList([nn.LayerNorm(width) for _ in range(count)])

    def forward(self, x: Tensor, mask: Tensor, more: Tensor | None = None) -> Tensor:
        """x (batch, width, n) with `more` added -> the same; mask (batch, 1, n)."""
        x = x if more is None else x + more
        for dilated, pointwise, first, second in zip(
            self.convs_dilated, self.convs_pointwise, self.norms_1, self.norms_2, strict=True
        ):
            y = ops.gelu(normed(first, dilated(x * mask)))
            x = x + ops.gelu(normed(second, pointwise(y)))
        return x * mask


class ConvFlow(nn.Module):
    """A coupling whose second half goes through splines that the first half shapes, backwards."""

    def __init__(self, c: Any) -> None:
        self.bins, self.bound = c.duration_predictor_flow_bins, c.duration_predictor_tail_bound
        self.width = c.hidden_size
        self.conv_pre = nn.Conv1d(1, self.width, 1)
        self.conv_dds = SeparableConvs(c)
        self.conv_proj = nn.Conv1d(self.width, 3 * self.bins - 1, 1)

    def forward(self, x: Tensor, mask: Tensor, more: Tensor) -> Tensor:
        """x (batch, 2, n) -> the same."""
        first, second = x[:, :1], x[:, 1:]
        shape = self.conv_proj(self.conv_dds(self.conv_pre(first), mask, more)) * mask
        shape = shape.transpose(1, 2)  # (batch, n, 3 * bins - 1)
        scale = 1 / math.sqrt(self.width)
        widths = shape[..., : self.bins] * scale
        heights = shape[..., self.bins : 2 * self.bins] * scale
        turned = unspline(second[:, 0], widths, heights, shape[..., 2 * self.bins :], self.bound)
        return cat([first, turned.unsqueeze(1)], 1) * mask


def unspline(y: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor, bound: float) -> Tensor:
    """What monotone rational-quadratic splines map to y, all (batch, n).

    widths, heights: (batch, n, bins) before their softmax; slopes (batch, n, bins - 1) before their
    softplus, at the inner knots. Beyond -bound to bound values stay, with slope one (Durkan et al.,
    2019, section 3.1).
    """
    x_knots, x_sizes = _knots(widths, bound)
    y_knots, y_sizes = _knots(heights, bound)
    ends = math.log(math.exp(1 - _LEAST) - 1)  # softplus of it is one without the least
    slopes = softplus(pad(slopes, (1, 1), value=ends)) + _LEAST
    inside = (y >= -bound) & (y <= bound)
    value = ops.where(inside, y, 0.0).unsqueeze(-1)
    index = (value >= y_knots[..., :-1]).long().sum(-1, keepdim=True) - 1

    def at(knots: Tensor) -> Tensor:
        return ops.gather(knots, -1, index)

    x_from, x_size, y_from, y_size = at(x_knots), at(x_sizes), at(y_knots), at(y_sizes)
    ratio = y_size / x_size
    here, there = at(slopes), ops.gather(slopes, -1, index + 1)
    bend = here + there - 2 * ratio
    rise = value - y_from
    a = y_size * (ratio - here) + rise * bend
    b = y_size * here - rise * bend
    c = -ratio * rise
    root = 2 * c / (-b - (b * b - 4 * a * c).clamp(min=0).sqrt())
    return ops.where(inside, (root * x_size + x_from)[..., 0], y)


def _knots(raw: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Knots (..., bins + 1) from -bound to bound, and the distances between them."""
    bins = raw.shape[-1]
    sizes = raw.softmax(-1) * (1 - _LEAST * bins) + _LEAST
    inner = sizes.cumsum(-1)[..., :-1] * (2 * bound) - bound
    knots = pad(pad(inner, (1, 0), value=-bound), (0, 1), value=bound)
    return knots, knots[..., 1:] - knots[..., :-1]


class Affine(nn.Module):
    """A scale and a shift of each channel, backwards."""

    def __init__(self) -> None:
        self.translate, self.log_scale = parameter(_CHANNELS, 1), parameter(_CHANNELS, 1)

    def reset_parameters(self) -> None:
        """Neither scales nor shifts."""
        nn.init.zeros_(self.translate)
        nn.init.zeros_(self.log_scale)

    def forward(self, x: Tensor, mask: Tensor, more: Tensor) -> Tensor:
        """x (batch, 2, n) -> the same."""
        return (x - self.translate) * (-self.log_scale).exp() * mask


class DrawnDurations(nn.Module):
    """The stochastic duration predictor of VITS: a flow from normal noise to log durations.

    Of the reference's flows the first coupling is not used in speaking, nor are those of training.
    """

    def __init__(self, c: Any) -> None:
        width = c.hidden_size
        self.conv_pre, self.conv_proj = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)
        self.conv_dds = SeparableConvs(c)
        if c.speaker_embedding_size:
            self.cond = nn.Conv1d(c.speaker_embedding_size, width, 1)
        self.flows = nn.Module()
        self.flows.register_module("0", Affine())
        for i in range(2, c.duration_predictor_num_flows + 1):
            self.flows.register_module(str(i), ConvFlow(c))

    def forward(
        self, x: Tensor, mask: Tensor, speaker: Tensor | None, noise: Tensor | None
    ) -> Tensor:
        """Log durations (batch, n) of hidden states (batch, width, n).

        noise: (batch, 2, n), scaled; None: none.
        """
        x = self.conv_pre(x)
        x = x if speaker is None else x + self.cond(speaker)
        more = self.conv_proj(self.conv_dds(x, mask)) * mask
        z = more.new_zeros(x.shape[0], _CHANNELS, x.shape[2]) if noise is None else noise
        for flow in reversed(list(self.flows.children())):
            z = flow(z.flip(1), mask, more)
        return z[:, 0]


class PlainDurations(nn.Module):
    """Log durations by two convolutions."""

    def __init__(self, c: Any) -> None:
        width, taps = c.duration_predictor_filter_channels, c.duration_predictor_kernel_size
        self.conv_1 = nn.Conv1d(c.hidden_size, width, taps, padding=taps // 2)
        self.conv_2 = nn.Conv1d(width, width, taps, padding=taps // 2)
        self.norm_1 = nn.LayerNorm(width, eps=c.layer_norm_eps)
        self.norm_2 = nn.LayerNorm(width, eps=c.layer_norm_eps)
        self.proj = nn.Conv1d(width, 1, 1)
        if c.speaker_embedding_size:
            self.cond = nn.Conv1d(c.speaker_embedding_size, c.hidden_size, 1)

    def forward(
        self, x: Tensor, mask: Tensor, speaker: Tensor | None, noise: Tensor | None
    ) -> Tensor:
        """Log durations (batch, n) of hidden states (batch, width, n); noise is not used."""
        x = x if speaker is None else x + self.cond(speaker)
        for conv, norm in ((self.conv_1, self.norm_1), (self.conv_2, self.norm_2)):
            x = normed(norm, conv(x * mask).relu())
        out: Tensor = (self.proj(x * mask) * mask)[:, 0]
        return out
