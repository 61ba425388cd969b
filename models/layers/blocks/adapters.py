"""Low-rank adapters (Hu et al., 2021) of which a call chooses one: weight + scale * B A.

The names are those of torch's parametrizations, as Jina's embeddings store them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put

WHERE = ".parametrizations.weight"
_MOST = 1024  # adapters, and their rank


class Chosen:
    """The number of the adapter that calls use; None: none."""

    number: int | None = None


class LowRank(nn.Module):
    """The matrices of all adapters: lora_A (adapters, rank, in), lora_B (adapters, out, rank); of
    an embedding (adapters, rows, rank) and (adapters, rank, features).
    """

    def __init__(self, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        self.lora_A, self.lora_B = parameter(*a), parameter(*b)

    def reset_parameters(self) -> None:
        """Normal numbers and zeros: adapters change nothing."""
        init.normal_(self.lora_A)
        init.zeros_(self.lora_B)


class Adapted(nn.Module):
    """A linear layer or an embedding with adapters."""

    def __init__(self, base: Any, count: int, rank: int, scale: float, chosen: Chosen) -> None:
        rows, features = base.weight.shape
        self.linear, self.scale, self.chosen = isinstance(base, nn.Linear), scale, chosen
        sizes: Any = ((count, rank, features), (count, rows, rank))
        if not self.linear:
            sizes = ((count, rows, rank), (count, rank, features))
        put(self, WHERE[1:], nn.Module())
        place: Any = self.get_submodule(WHERE[1:])
        place.original = parameter(rows, features)
        place.register_module("0", LowRank(*sizes))
        self.bias = base.bias if self.linear else None

    def _parts(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        place: Any = self.get_submodule(WHERE[1:])
        if self.chosen.number is None:
            return place.original, None, None
        low: Any = place.get_submodule("0")
        return place.original, low.lora_A[self.chosen.number], low.lora_B[self.chosen.number]

    @property
    def weight(self) -> Tensor:
        """The weight with the chosen adapter: (rows, features)."""
        weight, a, b = self._parts()
        if a is None or b is None:
            return weight
        return weight + ((b @ a) if self.linear else (a @ b)) * self.scale

    def forward(self, x: Tensor) -> Tensor:
        """What the layer gives with the chosen adapter."""
        weight, a, b = self._parts()
        out = ops.linear(x, weight, self.bias) if self.linear else ops.embedding(weight, x)
        if a is None or b is None:
            return out
        if self.linear:
            return out + ops.linear(ops.linear(x, a), b) * self.scale
        return out + ops.embedding(a.contiguous(), x) @ b * self.scale


def put_adapters(model: Any, names: Collection[str], prefix: str) -> None:
    """Replace the layers that have adapters in a checkpoint with these names.

    `model.adapters` are then the names of the adapters, `model.chosen` which one calls use.
    """
    c = model.config
    end = f"{WHERE}.original"
    paths = [n.removesuffix(end).removeprefix(prefix) for n in names if n.endswith(end)]
    named = c.lora_adaptations or []
    if not paths:
        return
    good = all(isinstance(n, str) for n in named) and 0 < len(named) <= _MOST
    if not good or not 1 <= c.lora_rank <= _MOST:
        raise FormatError(
            f"config.json: lora_adaptations {named!r:.200} and lora_rank {c.lora_rank} do not fit; "
            "supported: up to 1024 names and a rank from 1 to 1024"
        )
    model.adapters, model.chosen = tuple(named), Chosen()
    for path in paths:
        try:
            base: Any = model.get_submodule(path)
        except AttributeError:
            continue  # an error of the weights' loader names it
        if isinstance(base, (nn.Linear, nn.Embedding)):
            put(
                model,
                path,
                Adapted(base, len(named), c.lora_rank, c.lora_alpha / c.lora_rank, model.chosen),
            )
