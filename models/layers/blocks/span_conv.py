"""ConvBERT's mixture (Jiang et al., 2020): half of the features attend, half are a convolution
whose kernel each place makes for itself.
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.core import nn, ops
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.blocks.grouped import GroupedLinear
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.naming import put

_PATH = "attention.self."


class SeparableConv(nn.Module):
    """A convolution over places of each feature, then a matrix over features."""

    def __init__(self, inside: int, outside: int, size: int) -> None:
        self.depthwise = nn.Conv1d(
            inside, inside, size, padding=size // 2, groups=inside, bias=False
        )
        self.pointwise = nn.Conv1d(inside, outside, 1, bias=False)
        self.bias = parameter(outside, 1)
        self._fill()

    def reset_parameters(self) -> None:
        """The bias is zero."""
        init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, in) -> (batch, length, out)."""
        y: Tensor = self.pointwise(self.depthwise(x.transpose(1, 2))) + self.bias
        return y.transpose(1, 2)


class SpanConvLayer(EncoderLayer):
    """A layer whose attention has half of the features; `size` is that of the kernels, `groups` of
    the feed-forward part's matrices.
    """

    def __init__(self, spec: EncoderSpec, size: int, groups: int) -> None:
        super().__init__(spec)
        self.size, width, inside = size, spec.width, spec.heads * spec.head_dim
        put(self, spec.names.out, nn.Linear(2 * inside, width))
        put(self, _PATH + "key_conv_attn_layer", SeparableConv(width, inside, size))
        put(self, _PATH + "conv_kernel_layer", nn.Linear(inside, spec.heads * size))
        put(self, _PATH + "conv_out_layer", nn.Linear(width, inside))
        if groups > 1:
            for name, sizes in (
                (spec.names.up, (width, spec.inner)),
                (spec.names.down, (spec.inner, width)),
            ):
                put(self, name, GroupedLinear(*sizes, groups, conv=False))

    def _attention(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        spec, (batch, length, _) = self.spec, x.shape
        q, k, v = self._parts(x)
        attended = self.mixed(q, k, v, context, layer).transpose(1, 2)
        real = None if context.mask is None else context.mask[:, 0, 0].unsqueeze(-1).to(x.dtype)
        inside = x if real is None else x * real
        # The kernels of each place and head: (batch, length, heads, size, 1).
        spans = self._called(_PATH + "key_conv_attn_layer", inside)
        spans = spans * q.transpose(1, 2).reshape(batch, length, -1)
        kernels = self._called(_PATH + "conv_kernel_layer", spans)
        kernels = kernels.reshape(batch, length, spec.heads, self.size).softmax(-1)
        values = self._called(_PATH + "conv_out_layer", x)
        values = values if real is None else values * real
        half = self.size // 2
        none = ops.zeros(batch, half, values.shape[-1], dtype=values.dtype, device=values.device)
        values = ops.cat([none, values, none], 1).reshape(batch, length + 2 * half, spec.heads, -1)
        convolved: Tensor | None = None
        for i in range(self.size):
            some = values[:, i : i + length] * kernels[..., i : i + 1]
            convolved = some if convolved is None else convolved + some
        assert convolved is not None
        both = ops.cat([attended, convolved], 2)
        return self._called(spec.names.out, both.reshape(batch, length, -1))


def halved(spec: EncoderSpec, ratio: int) -> EncoderSpec:
    """`spec` with the heads that are left for attention, each of half the features."""
    heads = spec.heads // ratio or 1
    return replace(spec, heads=heads, head=max(spec.width // heads // 2, 1))
