"""An adapter's own copies of modules, which are saved as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.record import Record, is_tied


def copy_of(model: nn.Module, record: Record, path: str, bare: bool) -> nn.Module:
    """An adapter's own copy of the module at `path`; bare: its parameters are on meta."""
    module: Any = record.originals.get(path) or model.get_submodule(path)
    inside = list(module.parameters())
    wrong = ""
    if any(hasattr(part_module, "attached") for part_module in module.modules()):
        wrong = "has adapters of its own"
    elif isinstance(module, nn.Embedding) and is_tied(model):
        wrong = "is the weight of the head too, which would change with it"
    elif not inside:
        wrong = "has no parameters"
    elif not bare and any(p.dtype.kind == "q" for p in inside):
        wrong = "has quantized weights, which are not trained"
    if wrong:
        raise ValueError(f"modules_to_save: {path!r} {wrong}; leave it out")
    memo: dict[int, Any] = {}
    for p in inside if bare else ():
        kind = p.dtype if p.dtype.is_floating_point else float32
        memo[id(p)] = nn.Parameter(ops.empty(p.shape, dtype=kind, device="meta"))
    copy: nn.Module = deepcopy(module, memo)
    return copy


def resize(module: Any, state: Mapping[str, Tensor]) -> None:
    """Give an adapter's copy of a table or a head the rows that its file has."""
    rows = next((t.shape[0] for name, t in state.items() if name == "weight"), None)
    size = "num_embeddings" if isinstance(module, nn.Embedding) else "out_features"
    if rows is None or not hasattr(module, size) or rows == getattr(module, size):
        return
    for name, t in state.items():
        old = getattr(module, name, None)
        if isinstance(old, Tensor):
            setattr(module, name, nn.Parameter(ops.empty(t.shape, dtype=old.dtype, device="meta")))
    setattr(module, size, rows)
