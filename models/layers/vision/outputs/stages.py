"""Which states of a backbone a head reads, and the norms of its maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put


def stages_of(told: Mapping[str, Any], layers: int, default: Sequence[int] = ()) -> list[int]:
    """The states that backbone_config names, in their order: 0 before the layers, i after layer i.

    out_features has their names, "stem" and "stage1" to the last, out_indices their numbers, from
    the end too; without both it is `default`, or the last. FormatError for another.
    """
    asked: Any = told.get("out_indices")
    count = layers + 1  # -1 is the last
    names = told.get("out_features")
    if names is not None:
        known = {f"stage{i}": i for i in range(1, count)} | {"stem": 0}
        asked = [known.get(name) if isinstance(name, str) else None for name in names]
    if asked is None:
        asked = default or [layers]
    indices = [i + count if type(i) is int and i < 0 else i for i in asked]
    if not indices or not all(type(i) is int and 0 <= i < count for i in indices):
        raise FormatError(
            f"config.json: out_features {brief(names)} and out_indices "
            f"{brief(told.get('out_indices'))} name no states of {layers} layers"
        )
    return sorted(set(indices))


def put_norms(
    root: nn.Module, stages: Sequence[int], widths: Sequence[int], eps: float = 1e-5
) -> None:
    """Give a backbone the norms of the states that it names; widths: of all, the stem's first."""
    for i in stages:
        name = f"stage{i}" if i else "stem"
        put(root, f"hidden_states_norms.{name}", nn.LayerNorm(widths[i], eps))


def normed_maps(root: nn.Module, states: Sequence[Tensor]) -> list[Tensor]:
    """The maps (batch, channels, height, width) of a backbone's norms.

    states (batch, height, width, channels): all, the stem's first.
    """
    norms = root.get_submodule("hidden_states_norms").named_children()
    return [norm(states[int(name[5:] or 0)]).permute(0, 3, 1, 2) for name, norm in norms]
