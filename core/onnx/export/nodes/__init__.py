"""What makes nodes of each op; importing this package enters all of them."""

from __future__ import annotations

from rushlight.core.onnx.export.nodes import (
    elementwise,
    indexing,
    movement,
    normal,
    products,
    recurrent,
    reductions,
)

__all__ = ["elementwise", "indexing", "movement", "normal", "products", "recurrent", "reductions"]
