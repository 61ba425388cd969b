"""Segment Anything as graphs: a map of an image, and masks of what prompts point at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.dtype import int64
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.onnx.graph import (
    GraphConfig,
    GraphModel,
    Graphs,
    ask,
    names_in,
    refuse_outputs,
)


class PromptGraph(GraphModel, ImageModel):
    """Segment Anything: `maps(pixels)` sees an image once; `masks` answers prompts of it."""

    tasks = ("mask-generation",)

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        told = config.get("vision_config")
        side = told.get("image_size") if isinstance(told, dict) else None
        side = side if type(side) is int and 0 < side <= 1 << 14 else 1024
        self.image_size = (side, side)
        self.processor = replace(KINDS["Sam"], longest=side, pad=(side, side))

    def hidden(self, pixels: Tensor) -> Tensor:
        """The map (batch, channels, height, width) of pixels."""
        return next(iter(self.maps(pixels).values()))

    def encode_image(self, pixels: Tensor) -> Tensor:
        """The map of pixels."""
        return self.hidden(pixels)

    def forward(self, pixels: Tensor) -> Tensor:
        """The map of pixels."""
        return self.hidden(pixels)

    def maps(self, pixels: Tensor) -> dict[str, Tensor]:
        """What `masks` takes of a picture: the outputs of its encoder."""
        return ask(self.graph("vision_encoder"), {"pixel_values": pixels})

    def masks(
        self,
        seen: dict[str, Tensor],
        points: Tensor | None = None,
        labels: Tensor | None = None,
        boxes: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mask logits (n, 1 + masks, height, width) and scores (n, 1 + masks) of n prompts.

        seen: what `maps` gave. points (n, m, 2): x and y in the pixels that were encoded, with
        labels (n, m): 1 for the object, 0 for what is around it. boxes (n, 4): left, top, right,
        bottom. The first mask is the best of the others, as the graph has none for prompts without
        doubt. Raises ValueError for boxes that the graph does not take, and for no prompt.
        """
        graph = self.graph("prompt_encoder_mask_decoder")
        inputs = names_in(graph)
        if boxes is not None and "input_boxes" not in inputs:
            refuse_outputs(graph, f"it takes {', '.join(inputs)}, so no boxes; give points")
        if points is None and (boxes is None or "input_points" in inputs):
            if boxes is None:
                raise ValueError(f"{self.config.model_type}: a prompt is missing; give points")
            count, device = boxes.shape[0], boxes.device
            points = ops.zeros(count, 0, 2, device=device)
            labels = ops.zeros(count, 0, dtype=int64, device=device)
        given: dict[str, Any] = dict(seen)
        if points is not None and labels is not None:
            given |= {"input_points": points.unsqueeze(0), "input_labels": labels.unsqueeze(0)}
        if "input_boxes" in inputs:
            none = ops.zeros(1, 0, 4, device=self.device)
            given["input_boxes"] = none if boxes is None else boxes.unsqueeze(0)
        results = ask(graph, given)
        scores, masks = results["iou_scores"][0], results["pred_masks"][0]
        best = scores.argmax(1, keepdim=True)
        index = best[:, :, None, None].expand(-1, 1, *masks.shape[2:])
        first = masks.gather(1, index)
        return ops.cat([first, masks], 1), ops.cat([scores.gather(1, best), scores], 1)
