"""The precision of training steps, under Lightning's names."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rushlight.core.basis.dtype import DType, bfloat16, float16
from rushlight.core.nn.module import Module
from rushlight.core.ops.autocast import autocast
from rushlight.core.optim.grad_scaler import GradScaler

_MIXED: dict[str, DType | None] = {"32-true": None, "bf16-mixed": bfloat16, "16-mixed": float16}


class Precision:
    """dtype: what products are computed in, None as they are. scaler: of the loss, for float16.

    ValueError for another name.
    """

    def __init__(self, name: str | int) -> None:
        full = {"32": "32-true", "16": "16-mixed", "bf16": "bf16-mixed"}.get(str(name), str(name))
        if full not in _MIXED:
            raise ValueError(f"Trainer: precision is {name!r}; supported: {', '.join(_MIXED)}")
        self.dtype = _MIXED[full]
        self.scaler = GradScaler(enabled=self.dtype is float16)

    def forward(self, model: Module) -> AbstractContextManager[object]:
        """What a step and a validation run in."""
        first = next(model.parameters(), None)
        if self.dtype is None or first is None:
            return nullcontext()
        return autocast(first.device.type, self.dtype)
