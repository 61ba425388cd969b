"""Blocks of MobileNetV4 (Qin et al., 2024): universal inverted bottlenecks and attention."""

from __future__ import annotations

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import CONV_BN, ConvNorm
from rushlight.models.layers.vision.transformer import put_parameter


class Universal(nn.Module):
    """A convolution of each channel before the widening, after it, at both places or at none.

    start, middle: their kernels, 0 for none; the stride is in the last of them.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        wide: int,
        start: int,
        middle: int,
        stride: int,
        act: str,
        eps: float,
        scaled: bool,
    ) -> None:
        self.adds, self.scaled = stride == 1 and inputs == outputs, scaled
        parts: list[nn.Module] = []
        if start:
            step = 1 if middle else stride
            parts.append(
                ConvNorm(inputs, inputs, start, step, groups=inputs, act="", eps=eps, names=CONV_BN)
            )
            self.dw_start = parts[-1]
        parts.append(ConvNorm(inputs, wide, 1, act=act, eps=eps, names=CONV_BN))
        self.pw_exp = parts[-1]
        if middle:
            parts.append(
                ConvNorm(wide, wide, middle, stride, groups=wide, act=act, eps=eps, names=CONV_BN)
            )
            self.dw_mid = parts[-1]
        parts.append(ConvNorm(wide, outputs, 1, act="", eps=eps, names=CONV_BN))
        self.pw_proj = parts[-1]
        if scaled:
            put_parameter(self, "layer_scale.gamma", outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for name in ("dw_start", "pw_exp", "dw_mid", "pw_proj"):
            if hasattr(self, name):
                y = getattr(self, name)(y)
        y = _scaled(self, y) if self.scaled else y
        return x + y if self.adds else y


class MobileAttention(nn.Module):
    """Attention of many queries over the keys and values of one head; these at half the size."""

    def __init__(
        self, width: int, heads: int, key: int, value: int, halved: int, eps: float, scaled: bool
    ) -> None:
        if heads < 1 or min(key, value) < 1:
            raise FormatError(f"config.json: attention of {heads} heads of {key} and {value}")
        self.heads, self.scaled = heads, scaled
        self.norm = nn.BatchNorm2d(width, eps)
        put(self, "attn.query.proj", nn.Conv2d(width, heads * key, 1, bias=False))
        for name, each in (("key", key), ("value", value)):
            if halved:
                put(
                    self,
                    f"attn.{name}.down_conv",
                    nn.Conv2d(width, width, halved, 2, halved // 2, groups=width, bias=False),
                )
                put(self, f"attn.{name}.norm", nn.BatchNorm2d(width, eps))
            put(self, f"attn.{name}.proj", nn.Conv2d(width, each, 1, bias=False))
        put(self, "attn.output.proj", nn.Conv2d(heads * value, width, 1, bias=False))
        if scaled:
            put_parameter(self, "layer_scale.gamma", width)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        batch, _, tall, wide = x.shape
        q = self.get_submodule("attn.query.proj")(normed)
        q = q.reshape(batch, self.heads, -1, tall * wide).transpose(2, 3)
        k, v = (self._read(normed, name) for name in ("key", "value"))
        seen = scaled_dot_product_attention(q, k, v)  # one head of keys for all queries
        seen = seen.transpose(2, 3).reshape(batch, -1, tall, wide)
        y = self.get_submodule("attn.output.proj")(seen)
        y = _scaled(self, y) if self.scaled else y
        return x + y

    def _read(self, x: Tensor, name: str) -> Tensor:
        source = self.get_submodule(f"attn.{name}")
        if hasattr(source, "down_conv"):
            x = source.get_submodule("norm")(source.get_submodule("down_conv")(x))
        head: Tensor = source.get_submodule("proj")(x).flatten(2).transpose(1, 2).unsqueeze(1)
        return head.expand(-1, self.heads, -1, -1)


def _scaled(block: nn.Module, x: Tensor) -> Tensor:
    gamma: Tensor = block.get_parameter("layer_scale.gamma")
    return x * gamma.reshape(1, -1, 1, 1)
