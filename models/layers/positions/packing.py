"""Where the tokens of a row are: of one text, of one with padding, or of several texts."""

from __future__ import annotations

from typing import Any

from rushlight.core import ops
from rushlight.core.tensor.tensor import Tensor


def placed(
    model: Any, ids: Tensor, real: Tensor | None, segments: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Positions (1 or batch, length), and a mask of what is seen where not all earlier tokens are.

    real (batch, length): false or zero for padding; the mask is (batch, 1, 1, length). segments
    (batch, length), in its place: the number of the text that a token is of; the mask is (batch, 1,
    length, length). ValueError for layers that read a row as one text.
    """
    positions = ops.arange(ids.shape[1], device=ids.device)
    if segments is not None:
        spec = model.spec
        unpackable = any(
            getattr(layer.attention, "chunk", True) or layer.attention.index is not None
            for layer in spec.layers
        )
        if unpackable or model.rotary.by_length or spec.streams is not None:
            raise ValueError(
                f"{model.config.model_type}: its layers do not support segments; pad texts, with "
                "attention_mask"
            )
        same = segments.unsqueeze(2) == segments.unsqueeze(1)
        return positions - same.int().argmax(2), same.unsqueeze(1)
    if real is None:
        return positions.unsqueeze(0), None
    seen = real != 0
    return (ops.cumsum(seen.long(), 1) - 1).clamp(min=0), seen[:, None, None, :]
