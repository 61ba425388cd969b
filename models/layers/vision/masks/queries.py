"""DETR's masks of its queries (Carion et al., 2020), under the published names."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.vision.conv import activation

_GROUPS = 8
_AT_ONCE = 16  # queries, whose maps are as large as a quarter of the picture


class Attended(nn.Module):
    """Where each query looks: shares of all heads and places, (batch, queries, heads, h, w)."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.q_linear, self.k_linear = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, asked: Tensor, memory: Tensor, grid: tuple[int, int]) -> Tensor:
        """asked (batch, queries, width), memory (batch, places, width)."""
        batch, count, width = asked.shape
        q, k = (
            linear(x).reshape(batch, x.shape[1], self.heads, -1).transpose(1, 2)
            for linear, x in ((self.q_linear, asked), (self.k_linear, memory))
        )
        scores = (q * (width // self.heads) ** -0.5) @ k.transpose(2, 3)
        shares: Tensor = scores.transpose(1, 2).flatten(2).softmax(-1)
        return shares.reshape(batch, count, self.heads, *grid)


class MaskHead(nn.Module):
    """Convolutions of what was seen and attended to, with the backbone's finer maps on the way.

    width: of the transformer; fine: channels of the three maps, the smallest first.
    """

    def __init__(self, width: int, heads: int, fine: Sequence[int], act: str) -> None:
        joint_width, parts = width + heads, [width // n for n in (2, 4, 8, 16)]
        widths = [joint_width, joint_width, *parts]
        if width < 16 or len(fine) != 3 or any(n % min(_GROUPS, n) for n in widths):
            raise FormatError(
                f"config.json: d_model {width} and {heads} heads give no masks of multiples of "
                f"{_GROUPS} channels"
            )
        self.act = activation(act)
        for i, (inputs, outputs) in enumerate(zip(widths, widths[1:], strict=False), 1):
            self.register_module(f"lay{i}", nn.Conv2d(inputs, outputs, 3, padding=1))
            self.register_module(f"gn{i}", nn.GroupNorm(min(_GROUPS, outputs), outputs))
        for i, (inputs, outputs) in enumerate(zip(fine, parts, strict=False), 1):
            self.register_module(f"adapter{i}", nn.Conv2d(inputs, outputs, 1))
        self.out_lay = nn.Conv2d(parts[-1], 1, 3, padding=1)

    def forward(self, seen: Tensor, attended: Tensor, fine: Sequence[Tensor]) -> Tensor:
        """Logits of masks (batch, queries, h, w) at the size of the finest map."""
        adapted = [getattr(self, f"adapter{i}")(x) for i, x in enumerate(fine, 1)]
        masks = [
            self._some(seen, attended[:, i : i + _AT_ONCE], adapted)
            for i in range(0, attended.shape[1], _AT_ONCE)
        ]
        return cat(masks, 1)

    def _some(self, seen: Tensor, attended: Tensor, fine: Sequence[Tensor]) -> Tensor:
        batch, count = attended.shape[:2]

        def each(x: Tensor) -> Tensor:
            return x.unsqueeze(1).expand(batch, count, *x.shape[1:]).flatten(0, 1)

        x = cat([each(seen), attended.flatten(0, 1)], 1)
        for i in range(1, 6):
            if i > 2:
                more = each(fine[i - 3])
                x = more + interpolate(x, size=more.shape[2:], mode="nearest")
            x = self.act(getattr(self, f"gn{i}")(getattr(self, f"lay{i}")(x)))
        masks: Tensor = self.out_lay(x).reshape(batch, count, *x.shape[2:])
        return masks
