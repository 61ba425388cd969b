"""Decoder layers whose queries have their places beside their contents (Meng et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put


@dataclass(frozen=True)
class PlacedNames:
    """The paths of an attention's parts; q_sine: of a cross attention."""

    q: str
    q_place: str
    k: str
    k_place: str
    v: str
    out: str
    norm: str
    q_sine: str = ""


def _named(form: str, query: str, key: str, value: str, out: str, norm: str) -> PlacedNames:
    q, k, v = (form.format(part) for part in (f"{query}content", f"{key}content", value))
    places = form.format(f"{query}pos"), form.format(f"{key}pos")
    return PlacedNames(q, places[0], k, places[1], v, out, norm, form.format(f"{query}pos_sine"))


CONDITIONAL = (
    _named("sa_{}_proj", "q", "k", "v", "self_attn.out_proj", "self_attn_layer_norm"),
    _named("ca_{}_proj", "q", "k", "v", "encoder_attn.out_proj", "encoder_attn_layer_norm"),
    "",
)
DAB = (
    *(
        _named(
            f"{a}.{a}_{{}}_proj",
            "query_",
            "key_",
            "value",
            f"{a}.{a}.output_proj",
            f"{a}.{a}_layer_norm",
        )
        for a in ("self_attn", "cross_attn")
    ),
    "mlp.",
)


class PlacedLayer(nn.Module):
    """Self attention, attention to a memory and an MLP, each with a norm after it.

    placed: contents of queries and keys have their places added in the attention to the memory too.
    """

    def __init__(
        self, names: Any, width: int, heads: int, inner: int, act: str, placed: bool
    ) -> None:
        self.names, self.heads, self.placed, self.act = names, heads, placed, ACTIVATIONS.get(act)
        for own, cross in ((names[0], False), (names[1], True)):
            paths = [own.q, own.k, own.k_place, own.v, own.out]
            paths += [own.q_sine] if cross else []
            paths += [own.q_place] if placed or not cross else []
            for path in paths:
                put(self, path, nn.Linear(width, width))
            put(self, own.norm, nn.LayerNorm(width))
        put(self, f"{names[2]}fc1", nn.Linear(width, inner))
        put(self, f"{names[2]}fc2", nn.Linear(inner, width))
        put(self, f"{names[2]}final_layer_norm", nn.LayerNorm(width))
        if self.act is None:
            put(self, f"{names[2]}activation_fn", nn.PReLU())

    def forward(
        self, x: Tensor, asked: Tensor, sine: Tensor, memory: Tensor, places: Tensor
    ) -> Tensor:
        """x, asked and sine (batch, n, width); memory (batch, m, width) and its places."""
        own, cross, fed = self.names

        def of(path: str, value: Tensor) -> Tensor:
            made: Tensor = self.get_submodule(path)(value)
            return made

        q, k = (of(a, x) + of(b, asked) for a, b in ((own.q, own.q_place), (own.k, own.k_place)))
        seen = self._attended([q], [k], of(own.v, x))
        x = of(own.norm, x + of(own.out, seen))
        q, k, k_place = of(cross.q, x), of(cross.k, memory), of(cross.k_place, places)
        k_place = k_place.expand(len(memory), -1, -1)
        if self.placed:
            q, k = q + of(cross.q_place, asked), k + k_place
        seen = self._attended([q, of(cross.q_sine, sine)], [k, k_place], of(cross.v, memory))
        x = of(cross.norm, x + of(cross.out, seen))
        act: Any = self.act or self.get_submodule(f"{fed}activation_fn")
        return of(f"{fed}final_layer_norm", x + of(f"{fed}fc2", act(of(f"{fed}fc1", x))))

    def _attended(self, q: list[Tensor], k: list[Tensor], v: Tensor) -> Tensor:
        """What heads see; each head has its part of every query and key beside the others."""
        query, key, value = (
            cat([t.unflatten(-1, (self.heads, -1)) for t in parts], -1).transpose(1, 2)
            for parts in (q, k, [v])
        )
        return scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
