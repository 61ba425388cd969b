"""The towers of Qwen's models: patches of any grid, rotated by their row and column.

Qwen2-VL (Wang et al., 2024), Qwen2.5-VL (Bai et al., 2025) and Qwen3-VL differ in norms, MLPs,
windows, learned positions, and in what is merged when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.vision.transformer import put_parameter

Grid = tuple[int, int, int]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TowerSpec:
    """A tower. patch: (time, height, width) of a patch. merge: patches of a side that a row joins.

    norm: "layer" or "rms". gated: the MLP is gated, named gate_proj, up_proj, down_proj; else its
    parts are `mlp`. window: the side of a window in patches, for layers that are not in `full`.
    table: rows of learned positions, the square of a number, which are interpolated. patch_bias: of
    the first product. late: names of the merger are Qwen3-VL's. deep: layers after which a merger
    of its own makes rows too. biases: of queries, keys and values, of the product after attention,
    and of the MLP. head_norms: queries and keys are normalized in each head. groups: heads of keys
    and values; 0: as many as of queries.
    """

    width: int
    heads: int
    layers: int
    inner: int
    out: int
    patch: tuple[int, int, int]
    merge: int
    channels: int = 3
    act: str = "quick_gelu"
    norm: str = "layer"
    gated: bool = False
    mlp: tuple[str, str] = ("fc1", "fc2")
    window: int = 0
    full: tuple[int, ...] = ()
    table: int = 0
    patch_bias: bool = False
    late: bool = False
    deep: tuple[int, ...] = ()
    biases: tuple[bool, bool, bool] = (True, True, True)
    head_norms: bool = False
    eps: float = 1e-6
    theta: float = 10000.0
    groups: int = 0

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % (4 * self.heads):
            raise FormatError(
                f"config.json: vision_config: a width of {self.width} does not divide into "
                f"{self.heads} heads of a multiple of 4"
            )
        if self.groups and (self.groups < 1 or self.heads % self.groups):
            raise FormatError(
                f"config.json: vision_config: num_key_value_heads is {self.groups}; it must divide "
                f"{self.heads} heads"
            )
        if any(not 0 <= i < self.layers for i in self.deep):
            raise FormatError(
                f"config.json: vision_config: deepstack_visual_indexes {list(self.deep)} are not "
                f"among the {self.layers} layers"
            )


class QwenTower(nn.Module):
    """Patches (n, channels * time * height * width) of pictures -> rows (n / merge**2, out)."""

    def __init__(self, spec: TowerSpec) -> None:
        self.spec, self.merge = spec, spec.merge
        put_parameter(self, "patch_embed.proj.weight", spec.width, spec.channels, *spec.patch)
        if spec.patch_bias:
            put_parameter(self, "patch_embed.proj.bias", spec.width)
        self.blocks = nn.ModuleList(_Block(spec) for _ in range(spec.layers))
        self._surround()
        if spec.deep:
            self.deepstack_merger_list = nn.ModuleList(_LateMerger(spec, True) for _ in spec.deep)

    def _surround(self) -> None:
        """Make what comes before and after the blocks."""
        spec = self.spec
        if spec.table:
            self.pos_embed = nn.Embedding(spec.table, spec.width)
        self.merger = _LateMerger(spec, False) if spec.late else _Merger(spec)

    def _before(self, x: Tensor, grids: Sequence[Grid]) -> Tensor:
        """Patches with their positions."""
        return x + self._learned(grids).to(x.dtype) if self.spec.table else x

    def _after(self, x: Tensor) -> Tensor:
        """The rows that the last patches make."""
        out: Tensor = self.merger(x)
        return out

    def forward(self, pixels: Tensor, grids: Sequence[Grid]) -> Tensor:
        """grids: (time, height, width) of each picture in patches.

        Returns (rows, out), or with `deep` layers (rows, (1 + deep) * out). ValueError where the
        patches are not those of the grids.
        """
        spec = self.spec
        if sum(t * h * w for t, h, w in grids) != pixels.shape[0]:
            raise ValueError(
                f"pixels have {pixels.shape[0]} patches, but image_grid_thw {list(grids)} asks for "
                f"{sum(t * h * w for t, h, w in grids)}"
            )
        proj: Any = self.get_submodule("patch_embed.proj")
        weight = proj.weight.reshape(spec.width, -1)
        x = ops.linear(pixels.to(weight.dtype), weight, proj.bias if spec.patch_bias else None)
        x = self._before(x, grids)
        places = np.concatenate([patch_places(grid, spec.merge) for grid in grids])
        frames = [h * w for t, h, w in grids for _ in range(t)]
        order, windows = None, frames
        if spec.window:
            order, windows = _windows(grids, spec.window, spec.merge)
            x = _units(x, order, spec.merge)
            places = places.reshape(-1, spec.merge**2, 2)[order].reshape(-1, 2)
        angles = _angles(places, spec, x)
        deep: list[Tensor] = []
        for i, block in enumerate(self.blocks):
            x = block(x, angles, frames if not spec.window or i in spec.full else windows)
            if i in spec.deep:
                deep.append(self.deepstack_merger_list[spec.deep.index(i)](x))
        rows = self._after(x)
        if order is not None:
            rows = rows.index_select(0, from_numpy(np.argsort(order)).to(rows.device))
        return cat([rows, *deep], 1) if deep else rows

    def _learned(self, grids: Sequence[Grid]) -> Tensor:
        """Positions of the table at the patches' places, interpolated linearly on both axes."""
        side = int(self.spec.table**0.5)
        indices: list[npt.NDArray[Any]] = []
        weights: list[npt.NDArray[Any]] = []
        for time, tall, wide in grids:
            rows, columns = (np.linspace(0, side - 1, n, dtype=np.float32) for n in (tall, wide))
            near = [
                (axis.astype(np.int64), axis - axis.astype(np.int64)) for axis in (rows, columns)
            ]
            (top, down), (left, right) = near
            below, beside = (np.minimum(n + 1, side - 1) for n in (top, left))
            corners = [
                (y[:, None] * side + x[None], v[:, None] * w[None])
                for y, v in ((top, 1 - down), (below, down))
                for x, w in ((left, 1 - right), (beside, right))
            ]
            for made, part in ((indices, 0), (weights, 1)):
                values = np.stack([corner[part] for corner in corners])
                made.append(np.stack([_merged_order(v, time, self.spec.merge) for v in values]))
        table = np.concatenate(indices, 1).reshape(-1)
        found = self.pos_embed(from_numpy(table).to(self.pos_embed.weight.device))
        shares = np.concatenate(weights, 1).astype(np.float32)
        share = from_numpy(np.ascontiguousarray(shares)).to(found.device)
        learned: Tensor = (found.reshape(4, -1, self.spec.width) * share.unsqueeze(2)).sum(0)
        return learned


class _Block(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        self.spec = spec
        kind = NormSpec("rms" if spec.norm == "rms" else "layer", spec.eps)
        self.norm1, self.norm2 = (make_norm(spec.width, kind) for _ in range(2))
        head, groups = spec.width // spec.heads, spec.groups or spec.heads
        self.sizes = spec.heads, groups, groups
        put(self, "attn.qkv", nn.Linear(spec.width, sum(self.sizes) * head, spec.biases[0]))
        put(self, "attn.proj", nn.Linear(spec.width, spec.width, spec.biases[1]))
        for name in ("attn.q_norm", "attn.k_norm") if spec.head_norms else ():
            put(self, name, nn.RMSNorm(spec.width // spec.heads, spec.eps))
        names = ("gate_proj", "up_proj", "down_proj") if spec.gated else spec.mlp
        for name in names[:-1]:
            put(self, f"mlp.{name}", nn.Linear(spec.width, spec.inner, spec.biases[2]))
        put(self, f"mlp.{names[-1]}", nn.Linear(spec.inner, spec.width, spec.biases[2]))

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], runs: Sequence[int]) -> Tensor:
        spec = self.spec
        attn: Any = self.get_submodule("attn")
        mlp: Any = self.get_submodule("mlp")
        heads = attn.qkv(self.norm1(x)).reshape(x.shape[0], sum(self.sizes), -1)
        q, k, v = (y.transpose(0, 1).unsqueeze(0) for y in heads.split(self.sizes, 1))
        if spec.head_norms:
            q, k = attn.q_norm(q), attn.k_norm(k)
        q, k = (ops.rope(y, *angles, interleaved=False) for y in (q, k))
        seen = attention_in_runs(q, k, v, runs)
        x = x + attn.proj(seen.transpose(1, 2).reshape(x.shape[0], -1))
        y, act = self.norm2(x), ACTIVATIONS[spec.act]
        if spec.gated:
            y = mlp.down_proj(act(mlp.gate_proj(y)) * mlp.up_proj(y))
        else:
            first, last = (mlp.get_submodule(name) for name in spec.mlp)
            y = last(act(first(y)))
        out: Tensor = x + y
        return out


class _Merger(nn.Module):
    """The patches of a row, normalized and side by side, through an MLP."""

    def __init__(self, spec: TowerSpec) -> None:
        self.wide = spec.width * spec.merge**2
        kind = NormSpec("rms" if spec.norm == "rms" else "layer", spec.eps)
        self.ln_q = make_norm(spec.width, kind)
        self.mlp = nn.Sequential(
            nn.Linear(self.wide, self.wide), nn.GELU(), nn.Linear(self.wide, spec.out)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.mlp(self.ln_q(x).reshape(-1, self.wide))
        return out


class _LateMerger(nn.Module):
    """Qwen3-VL's; `after`: the norm comes after the patches are side by side."""

    def __init__(self, spec: TowerSpec, after: bool) -> None:
        self.wide, self.after = spec.width * spec.merge**2, after
        self.norm = nn.LayerNorm(self.wide if after else spec.width, 1e-6)
        self.linear_fc1 = nn.Linear(self.wide, self.wide)
        self.linear_fc2 = nn.Linear(self.wide, spec.out)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x.reshape(-1, self.wide)) if self.after else self.norm(x)
        act = ACTIVATIONS["gelu"]
        out: Tensor = self.linear_fc2(act(self.linear_fc1(x.reshape(-1, self.wide))))
        return out


def axial_theta(parameters: Any) -> float:
    """theta of a vision_config's rope_parameters; FormatError for other than axial positions."""
    said = {} if parameters is None else parameters
    if not isinstance(said, Mapping) or said.get("rope_type", "axial") not in ("axial", "default"):
        raise FormatError(
            f"config.json: vision_config: rope_parameters {brief(said)} are not supported; "
            "supported: axial"
        )
    theta = said.get("rope_theta", 10000.0)
    if isinstance(theta, bool) or not isinstance(theta, int | float) or not theta > 0:
        raise FormatError(f"config.json: vision_config: rope_theta is {brief(theta)}")
    return float(theta)


def attention_in_runs(q: Tensor, k: Tensor, v: Tensor, runs: Sequence[int]) -> Tensor:
    """Attention (1, heads, n, head) in which only the tokens of a run see each other.

    runs: their lengths, which sum to n; neighbours of one length are computed together.
    """
    outs: list[Tensor] = []
    begin = 0
    for length, group in groupby(runs):
        count = len(list(group))
        end = begin + count * length
        q_run, k_run, v_run = (
            y[0, :, begin:end].reshape(y.shape[1], count, length, -1).transpose(0, 1)
            for y in (q, k, v)
        )
        shared = q.shape[1] != k.shape[1]
        seen = scaled_dot_product_attention(q_run, k_run, v_run, enable_gqa=shared)
        outs.append(seen.transpose(0, 1).reshape(1, q.shape[1], end - begin, -1))
        begin = end
    return outs[0] if len(outs) == 1 else cat(outs, 2)


def _merged_order(
    values: npt.NDArray[np.generic], time: int, merge: int
) -> npt.NDArray[np.generic]:
    """(height, width) values in the order of patches: those of a row of features side by side."""
    tall, wide = values.shape
    blocks = values.reshape(tall // merge, merge, wide // merge, merge).transpose(0, 2, 1, 3)
    return np.tile(blocks.reshape(-1), time)


def patch_places(grid: Grid, merge: int) -> Ints:
    """(patches, 2): the row and the column of each patch, in their order."""
    time, tall, wide = grid
    rows, columns = np.indices((tall, wide))
    both = [_merged_order(axis, time, merge) for axis in (rows, columns)]
    return np.stack(both, 1).astype(np.int64)


def _angles(places: Ints, spec: TowerSpec, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin (1, 1, patches, head/2): a half of the frequencies by row, a half by column."""
    quarter = spec.width // spec.heads // 4
    frequencies = spec.theta ** (-np.arange(quarter) / quarter)
    angles = (places[:, :, None] * frequencies).reshape(len(places), -1)
    cos, sin = (f(angles).astype(np.float32)[None, None] for f in (np.cos, np.sin))
    return from_numpy(cos).to(like.device), from_numpy(sin).to(like.device)


def _windows(grids: Sequence[Grid], side: int, merge: int) -> tuple[Ints, list[int]]:
    """The order in which rows of features lie window by window, and each window's patches."""
    order: list[Ints] = []
    lengths: list[int] = []
    first, step = 0, max(side // merge, 1)
    for time, tall, wide in grids:
        rows, columns = tall // merge, wide // merge
        numbers = np.arange(time * rows * columns).reshape(time, rows, columns) + first
        for frame in numbers:
            for top in range(0, rows, step):
                for left in range(0, columns, step):
                    window = frame[top : top + step, left : left + step].reshape(-1)
                    order.append(window)
                    lengths.append(len(window) * merge**2)
        first += numbers.size
    return np.concatenate(order), lengths


def _units(x: Tensor, order: Ints, merge: int) -> Tensor:
    """The patches (n, width) in another order of the rows of features that they make."""
    units = x.reshape(-1, merge**2 * x.shape[1])
    return units.index_select(0, from_numpy(order).to(x.device)).reshape(x.shape)
