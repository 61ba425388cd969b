"""Layers of image transformers and of the texts beside them, under a checkpoint's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.places import Rotary, Rotation


@dataclass(frozen=True)
class LayerNames:
    """The paths of a layer's parts. scale1, scale2: of layer scale.

    gate: of a gated MLP whose halves are two matrices. inner, seen: of norms before the last
    product of the MLP and of attention. q_norm, k_norm: of RMS norms of all queries and keys of a
    token. "" where there is none.
    """

    q: str = "attention.attention.query"
    k: str = "attention.attention.key"
    v: str = "attention.attention.value"
    out: str = "attention.output.dense"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    norm1: str = "layernorm_before"
    norm2: str = "layernorm_after"
    scale1: str = "layer_scale1.lambda1"
    scale2: str = "layer_scale2.lambda1"
    gate: str = ""
    inner: str = ""
    seen: str = ""
    q_norm: str = ""
    k_norm: str = ""


# CLIP's and Siglip's, for images and texts.
CLIP_NAMES = LayerNames(
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.out_proj",
    "mlp.fc1",
    "mlp.fc2",
    "layer_norm1",
    "layer_norm2",
)


@dataclass(frozen=True)
class LayerSpec:
    """A layer with norms before attention and MLP (Dosovitskiy et al., 2020), or `after` them.

    biases: of q, k and v. gated: `up` gives two halves, act(first) * second, each of `inner`.
    scaled: results are multiplied by a learned vector (Touvron et al., 2021). out_bias, mlp_bias:
    of the products after attention, and of the MLP. rms: the norms are RMS norms.
    """

    width: int
    heads: int
    inner: int
    act: str = "gelu"
    eps: float = 1e-6
    biases: tuple[bool, bool, bool] = (True, True, True)
    gated: bool = False
    scaled: bool = False
    names: LayerNames = LayerNames()
    rotary: Rotary | None = None
    out_bias: bool = True
    mlp_bias: bool = True
    after: bool = False
    rms: bool = False

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % self.heads:
            raise FormatError(
                f"config.json: the width {self.width} is not a multiple of the {self.heads} heads"
            )


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); or the norms of what these make."""

    def __init__(self, spec: LayerSpec) -> None:
        self.spec, names = spec, spec.names
        for path, bias in zip((names.q, names.k, names.v), spec.biases, strict=True):
            put(self, path, nn.Linear(spec.width, spec.width, bias))
        put(self, names.out, nn.Linear(spec.width, spec.width, spec.out_bias))
        joined = spec.inner * (2 if spec.gated and not names.gate else 1)
        put(self, names.up, nn.Linear(spec.width, joined, spec.mlp_bias))
        if names.gate:
            put(self, names.gate, nn.Linear(spec.width, spec.inner, spec.mlp_bias))
        put(self, names.down, nn.Linear(spec.inner, spec.width, spec.mlp_bias))
        for path, width in ((names.inner, spec.inner), (names.seen, spec.width)):
            if path:
                put(self, path, nn.LayerNorm(width, spec.eps))
        for path in (names.norm1, names.norm2):
            norm = nn.RMSNorm if spec.rms else nn.LayerNorm
            put(self, path, norm(spec.width, spec.eps))
        if names.q_norm:
            for path in (names.q_norm, names.k_norm):
                put(self, path, nn.RMSNorm(spec.width, 1e-6))
        if spec.scaled:
            for path in (names.scale1, names.scale2):
                put_parameter(self, path, spec.width)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        tables: Rotation | None = None,
    ) -> Tensor:
        """x (batch, tokens, width). mask: what attention adds to its scores, or true where seen.

        tables: of the spec's rotary.
        """
        names = self.spec.names
        batch, tokens, width = x.shape
        first, second = (self.get_submodule(path) for path in (names.norm1, names.norm2))
        normed = x if self.spec.after else first(x)
        q, k, v = (self.get_submodule(path)(normed) for path in (names.q, names.k, names.v))
        if names.q_norm:
            q, k = self.get_submodule(names.q_norm)(q), self.get_submodule(names.k_norm)(k)
        q, k, v = (y.reshape(batch, tokens, self.spec.heads, -1).transpose(1, 2) for y in (q, k, v))
        if self.spec.rotary is not None and tables is not None:
            q, k = (self.spec.rotary.rotate(heads, tables) for heads in (q, k))
        seen = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
        seen = seen.transpose(1, 2).reshape(batch, tokens, width)
        if names.seen:
            seen = self.get_submodule(names.seen)(seen)
        update = self.get_submodule(names.out)(seen)
        x = x + self._scaled(first(update) if self.spec.after else update, names.scale1)
        update = second(self._mlp(x)) if self.spec.after else self._mlp(second(x))
        return x + self._scaled(update, names.scale2)

    def _mlp(self, x: Tensor) -> Tensor:
        spec, names = self.spec, self.spec.names
        act = ACTIVATIONS[spec.act]
        gate = self.get_submodule(names.gate)(x) if names.gate else None
        x = self.get_submodule(names.up)(x)
        if gate is not None:
            x = act(gate) * x
        elif spec.gated:
            first, second = x.chunk(2, -1)
            x = act(first) * second
        else:
            x = act(x)
        x = self.get_submodule(names.inner)(x) if names.inner else x
        out: Tensor = self.get_submodule(names.down)(x)
        return out

    def _scaled(self, x: Tensor, path: str) -> Tensor:
        if not self.spec.scaled:
            return x
        root, _, name = path.rpartition(".")
        scale: Tensor = getattr(self.get_submodule(root) if root else self, name)
        return x * scale


class AttentionPool(nn.Module):
    """SigLIP's head (Zhai et al., 2023): a learned query attends to the patches."""

    def __init__(self, spec: LayerSpec) -> None:
        width = spec.width
        self.heads, self.act = spec.heads, ACTIVATIONS[spec.act]
        self.probe = parameter(1, 1, width)
        self.attention = nn.Module()
        self.attention.in_proj_weight = parameter(3 * width, width)
        self.attention.in_proj_bias = parameter(3 * width)
        self.attention.out_proj = nn.Linear(width, width)
        self.layernorm = nn.LayerNorm(width, spec.eps)
        put(self, "mlp.fc1", nn.Linear(width, spec.inner))
        put(self, "mlp.fc2", nn.Linear(spec.inner, width))

    def forward(self, x: Tensor) -> Tensor:
        attention: Any = self.attention
        batch, _, width = x.shape
        weights, biases = attention.in_proj_weight.chunk(3, 0), attention.in_proj_bias.chunk(3, 0)
        inputs = (self.probe.expand(batch, 1, width), x, x)
        q, k, v = (
            ops.linear(t, w, b).reshape(batch, -1, self.heads, width // self.heads).transpose(1, 2)
            for t, w, b in zip(inputs, weights, biases, strict=True)
        )
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, 1, width)
        y = attention.out_proj(seen)
        mlp: Any = self.get_submodule("mlp")
        out: Tensor = y + mlp.fc2(self.act(mlp.fc1(self.layernorm(y))))
        return out[:, 0]


def put_parameter(root: nn.Module, path: str, *size: int) -> None:
    """Make a parameter of this size the attribute at `path`; plain modules for missing parents."""
    parents, _, name = path.rpartition(".")
    if parents:
        try:
            home = root.get_submodule(parents)
        except AttributeError:
            home = nn.Module()
            put(root, parents, home)
    else:
        home = root
    setattr(home, name, parameter(*size))
