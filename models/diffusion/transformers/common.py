"""What transformers of diffusion share: times, modulated norms, attention of two streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float16, float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.activations import silu
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Angles = tuple[Tensor, Tensor]
WAVES = 256  # features of a time, in every model here
_LARGEST_HALF = 65504.0


def tanh_gelu(x: Tensor) -> Tensor:
    """GELU by its tanh formula."""
    return ops.gelu(x, approximate="tanh")


def plain_norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """Layer norm of the last dim without weights."""
    return ops.layer_norm(x, (x.shape[-1],), eps=eps)


def modulated(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x (1 + scale) + shift."""
    return x * (scale + 1.0) + shift


def within_half(x: Tensor) -> Tensor:
    """x, in float16 kept from infinity."""
    return x.clamp(-_LARGEST_HALF, _LARGEST_HALF) if x.dtype is float16 else x


def time_waves(times: Tensor, width: int = WAVES, scale: float = 1.0) -> Tensor:
    """Cosines, then sines, of times (batch,): (batch, width) in float32 (Vaswani et al., 2017)."""
    half = width // 2
    rates = np.exp(np.float32(-math.log(10000.0)) * np.arange(half, dtype=np.float32) / half)
    angles = times.to(float32).unsqueeze(-1) * tensor(rates, device=times.device) * scale
    return cat([angles.cos(), angles.sin()], -1)


def axis_angles(
    places: npt.NDArray[Any], dims: Sequence[int], theta: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Cosines and sines (tokens, sum(dims) / 2) of rotary positions on several axes.

    places: (tokens, axes). dims: the features of a head that go by each axis.
    """
    places = np.asarray(places, np.float64)
    if places.ndim != 2 or places.shape[1] != len(dims):
        raise ValueError(
            f"axis_angles: places are {places.shape}; they must be (tokens, {len(dims)})"
        )
    parts = [
        places[:, i : i + 1] / np.float64(theta) ** (np.arange(0, d, 2, dtype=np.float64) / d)
        for i, d in enumerate(dims)
    ]
    angles = np.concatenate(parts, 1)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def grid_places(height: int, width: int, first: Sequence[int] = (0, 0, 0)) -> npt.NDArray[np.int64]:
    """The places (height * width, 3) of a picture's tokens: first[0], row, column from first."""
    rows, columns = np.mgrid[:height, :width]
    time = np.full_like(rows, first[0])
    grid = np.stack([time, rows + first[1], columns + first[2]], -1)
    return grid.reshape(-1, 3).astype(np.int64)


def sine_grid(
    width: int, height: int, wide: int, base: int, stretch: float
) -> npt.NDArray[np.float32]:
    """Sines and cosines (height * wide, width) of the places of patches in a picture.

    base: the side of the pictures of training, in patches; stretch divides the places too.
    """
    rows = np.arange(height, dtype=np.float32) / (height / base) / stretch
    columns = np.arange(wide, dtype=np.float32) / (wide / base) / stretch
    rates = 10000.0 ** -(np.arange(width // 4, dtype=np.float64) / (width / 4))

    def waves(positions: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        angles = np.outer(positions, rates)
        return np.concatenate([np.sin(angles), np.cos(angles)], 1)

    by_column = np.broadcast_to(waves(columns)[None], (height, wide, width // 2))
    by_row = np.broadcast_to(waves(rows)[:, None], (height, wide, width // 2))
    both = np.concatenate([by_column, by_row], -1)
    return both.reshape(height * wide, width).astype(np.float32)


def patches(x: Tensor, size: int) -> Tensor:
    """(batch, channels, height, width) -> (batch, tokens, size * size * channels)."""
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // size, size, width // size, size)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, size * size * channels)


def unpatched(x: Tensor, size: int, height: int, width: int) -> Tensor:
    """(batch, tokens, size * size * channels) -> (batch, channels, height, width)."""
    batch = x.shape[0]
    x = x.reshape(batch, height // size, width // size, size, size, -1)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(batch, -1, height, width)


def check_pixels(name: str, x: Tensor, channels: int, size: int) -> None:
    """Raise ValueError for latents that a model of `size` patches and `channels` does not take."""
    good = x.ndim == 4 and x.shape[1] == channels and min(x.shape) > 0
    if not good or x.shape[2] % size or x.shape[3] % size:
        raise ValueError(
            f"{name}: latents are {tuple(x.shape)}; they must be (batch, {channels}, height, "
            f"width), height and width multiples of {size}"
        )


class TwoLayers(nn.Module):
    """linear_2(act(linear_1(x))), which times, prompts and sizes go through."""

    def __init__(
        self, inside: int, width: int, act: Callable[[Tensor], Tensor] = silu, bias: bool = True
    ) -> None:
        self.act = act
        self.linear_1 = nn.Linear(inside, width, bias=bias)
        self.linear_2 = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inside) -> (batch, width)."""
        out: Tensor = self.linear_2(self.act(self.linear_1(x)))
        return out


class TimeAndText(nn.Module):
    """One vector of a time, of a pooled prompt, and if `guided` of the strength of guidance."""

    def __init__(self, width: int, pooled: int, guided: bool = False) -> None:
        self.timestep_embedder = TwoLayers(WAVES, width)
        if guided:
            self.guidance_embedder = TwoLayers(WAVES, width)
        self.guided = guided
        self.text_embedder = TwoLayers(pooled, width)

    def forward(self, times: Tensor, pooled: Tensor, guidance: Tensor | None = None) -> Tensor:
        """(batch,), (batch, pooled), (batch,) -> (batch, width)."""
        out: Tensor = self.timestep_embedder(time_waves(times).to(pooled.dtype))
        if self.guided:
            if guidance is None:
                raise ValueError("the model is distilled with guidance: give guidance=")
            out = out + self.guidance_embedder(time_waves(guidance).to(pooled.dtype))
        texts: Tensor = self.text_embedder(pooled)
        return out + texts


class Modulation(nn.Module):
    """`count` vectors for each picture, of its condition: scales, shifts and gates."""

    def __init__(self, width: int, count: int, bias: bool = True, inside: int = 0) -> None:
        self.count = count
        self.linear = nn.Linear(inside or width, count * width, bias=bias)

    def forward(self, condition: Tensor) -> tuple[Tensor, ...]:
        """(batch, width) -> count of (batch, 1, width)."""
        out: Tensor = self.linear(silu(condition))
        return out.unsqueeze(1).chunk(self.count, -1)


class LastNorm(Modulation):
    """A layer norm without weights, scaled and shifted by a condition (Peebles and Xie, 2023)."""

    def __init__(self, width: int, eps: float = 1e-6, bias: bool = True) -> None:
        super().__init__(width, 2, bias)
        self.eps = eps

    def normed(self, x: Tensor, condition: Tensor) -> Tensor:
        """(batch, length, width) and (batch, width) -> (batch, length, width)."""
        scale, shift = self.forward(condition)
        return modulated(plain_norm(x, self.eps), scale, shift)


def geglu(x: Tensor) -> Tensor:
    """The first half of the features times GELU of the second."""
    value, gate = x.chunk(2, -1)
    return value * ops.gelu(gate)


def swiglu(x: Tensor) -> Tensor:
    """The first half of the features times SiLU of the second."""
    value, gate = x.chunk(2, -1)
    return value * silu(gate)


def sigmoid_gelu(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x)."""
    return x * (x * 1.702).sigmoid()


# diffusers' names of activations -> the function, and how many features it reads for each it gives.
ACTIVATIONS: Mapping[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "gelu": (ops.gelu, 1),
    "gelu-approximate": (tanh_gelu, 1),
    "geglu": (geglu, 2),
    "geglu-approximate": (sigmoid_gelu, 1),
    "swiglu": (swiglu, 2),
    "linear-silu": (silu, 1),
}


class FeedForward(nn.Module):
    """net.2(act(net.0.proj(x))), inside `ratio` times as wide."""

    def __init__(
        self, width: int, activation: str = "gelu-approximate", ratio: float = 4, bias: bool = True
    ) -> None:
        if activation not in ACTIVATIONS:
            raise FormatError(
                f"config.json: activation_fn is {brief(activation)}; supported: "
                f"{', '.join(ACTIVATIONS)}"
            )
        self.activation, times = ACTIVATIONS[activation]
        inner = int(width * ratio)
        first = nn.Module()
        first.proj = nn.Linear(width, inner * times, bias=bias)
        last = nn.Linear(inner, width, bias=bias)
        self.net: nn.ModuleList[Any] = nn.ModuleList([first, nn.Identity(), last])

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> the same."""
        out: Tensor = self.net[2](self.activation(self.net[0].proj(x)))
        return out


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * dim) -> (batch, heads, length, dim)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def joined_heads(x: Tensor) -> Tensor:
    """(batch, heads, length, dim) -> (batch, length, heads * dim)."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def rotated(x: Tensor, angles: Angles) -> Tensor:
    """Heads (batch, heads, length, dim) turned by angles, in float32; the dtype of x."""
    return ops.rope(x.to(float32), *angles, interleaved=True).to(x.dtype)


class Attention(nn.Module):
    """Attention of pictures' tokens to each other, to prompts beside them, or to `memory`.

    bias: of q, k and v; out_bias: of results; out: whether there is a last product. norm: RMS norms
    of q and k, of each "head" or over "all" heads. joint: prompts have q, k and v of their own, and
    all tokens see all (Esser et al., 2024); last: nothing is made of the prompts' results. memory:
    the width of what k and v are made of, where these are not the pictures' tokens.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_dim: int,
        *,
        bias: bool = True,
        out_bias: bool = True,
        out: bool = True,
        norm: str = "head",
        eps: float = 1e-6,
        joint: bool = False,
        last: bool = False,
        memory: int | None = None,
    ) -> None:
        self.heads, self.joint, self.norm = heads, joint, norm
        inner, source = heads * head_dim, memory or width
        self.to_q = nn.Linear(width, inner, bias=bias)
        self.to_k = nn.Linear(source, inner, bias=bias)
        self.to_v = nn.Linear(source, inner, bias=bias)
        if out:
            self.to_out = nn.ModuleList([nn.Linear(inner, width, bias=out_bias)])
        normed = head_dim if norm == "head" else inner
        if norm:
            self.norm_q, self.norm_k = nn.RMSNorm(normed, eps=eps), nn.RMSNorm(normed, eps=eps)
        if joint:
            self.add_q_proj = nn.Linear(width, inner, bias=bias)
            self.add_k_proj = nn.Linear(width, inner, bias=bias)
            self.add_v_proj = nn.Linear(width, inner, bias=bias)
            if norm:
                self.norm_added_q = nn.RMSNorm(normed, eps=eps)
                self.norm_added_k = nn.RMSNorm(normed, eps=eps)
            if not last:
                self.to_add_out = nn.Linear(inner, width, bias=out_bias)

    def projected(self, x: Tensor, names: Sequence[str], memory: Tensor) -> list[Tensor]:
        """q, k and v (batch, heads, length, dim), of the layers with these names, normed."""
        queries_keys_values = []
        norms = (*names[3:], "") if self.norm else ("", "", "")
        for name, norm, source in zip(names[:3], norms, (x, memory, memory), strict=True):
            y: Tensor = getattr(self, name)(source)
            if norm and self.norm == "all":
                y = getattr(self, norm)(y)
            y = split_heads(y, self.heads)
            if norm and self.norm == "head":
                y = getattr(self, norm)(y)
            queries_keys_values.append(y)
        return queries_keys_values

    def forward(
        self,
        x: Tensor,
        texts: Tensor | None = None,
        angles: Angles | None = None,
        mask: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(batch, length, width), prompts -> what pictures and prompts take.

        angles: of all tokens, those of prompts first. mask: bool (batch, keys) in this order.
        """
        q, k, v = self.projected(x, _OWN, x if memory is None else memory)
        if texts is not None:
            added = self.projected(texts, _ADDED, texts)
            q, k, v = (
                cat([of_text, of_picture], 2)
                for of_text, of_picture in zip(added, (q, k, v), strict=True)
            )
        if angles is not None:
            q, k = rotated(q, angles), rotated(k, angles)
        if mask is not None:
            mask = mask.reshape(mask.shape[0], 1, 1, mask.shape[1])
        seen = joined_heads(ops.attention(q, k, v, mask=mask))
        of_texts = None
        if texts is not None:
            of_texts, seen = seen[:, : texts.shape[1]], seen[:, texts.shape[1] :]
            if hasattr(self, "to_add_out"):
                of_texts = self.to_add_out(of_texts)
        if hasattr(self, "to_out"):
            seen = self.to_out[0](seen)
        return seen, of_texts


_OWN = ("to_q", "to_k", "to_v", "norm_q", "norm_k")
_ADDED = ("add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k")


class Table(nn.Module):
    """A module with `scale_shift_table` (count, width), which times are added to."""

    def put_table(self, count: int, width: int) -> None:
        """Make the table."""
        self.scale_shift_table = parameter(count, width)
        self._fill()

    def reset_parameters(self) -> None:
        """Normal numbers, divided by the root of the width."""
        init.normal_(self.scale_shift_table, std=self.scale_shift_table.shape[1] ** -0.5)

    def vectors(self, times: Tensor) -> tuple[Tensor, ...]:
        """(batch, count * width) or (batch, width) -> count of (batch, 1, width)."""
        count, width = self.scale_shift_table.shape
        both = self.scale_shift_table.unsqueeze(0) + times.reshape(times.shape[0], -1, width)
        return both.chunk(count, 1)


def check_axes(name: str, dims: Sequence[int], head_dim: int) -> None:
    """Raise FormatError where the axes' features, in key `name`, are not those of a head."""
    good = all(isinstance(d, int) and d > 0 and d % 2 == 0 for d in dims)
    if not good or sum(dims) != head_dim:
        raise FormatError(
            f"config.json: {name} is {brief(list(dims))}; it must be even numbers that sum to the "
            f"{head_dim} features of a head"
        )


def angles_on(model: nn.Module, cos: Any, sin: Any) -> Angles:
    """Angles as tensors on a model's device."""
    device = next(iter(model.parameters())).device
    return tensor(cos, device=device), tensor(sin, device=device)
