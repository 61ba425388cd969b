"""Which states of a backbone a head reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor

_NORM = re.compile(r"hidden_states_norms\.stage(\d{1,3})\.(\w+)")


def stages_of(told: Mapping[str, Any], layers: int, default: Sequence[int] = ()) -> list[int]:
    """The states that backbone_config names, in their order: 0 before the layers, i after layer i.

    out_features has their names, "stem" and "stage1" to the last, out_indices their numbers, from
    the end too; without both it is `default`, or the last. FormatError for another.
    """
    given: Any = told.get("out_indices")
    count = layers + 1  # -1 is the last
    names = told.get("out_features")
    if names is not None:
        known = {f"stage{i}": i for i in range(1, count)} | {"stem": 0}
        given = [known.get(name) if isinstance(name, str) else None for name in names]
    if given is None:
        given = default or [layers]
    found = [i + count if type(i) is int and i < 0 else i for i in given]
    if not found or not all(type(i) is int and 0 <= i < count for i in found):
        raise FormatError(
            f"config.json: backbone_config: out_features {brief(names)} and out_indices "
            f"{brief(told.get('out_indices'))} name no states of {layers} layers"
        )
    return sorted(set(found))


def last_norm(tensors: Mapping[str, Tensor], path: str) -> dict[str, Tensor]:
    """The tensors of a backbone, with the norm of its last map at `path` and without the others."""
    own = {n: m for n in tensors if (m := _NORM.fullmatch(n))}
    last = max((int(m[1]) for m in own.values()), default=0)
    found = {n: t for n, t in tensors.items() if n not in own}
    return found | {f"{path}.{m[2]}": tensors[n] for n, m in own.items() if int(m[1]) == last}
