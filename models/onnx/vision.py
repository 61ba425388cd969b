"""Images by graphs: classes, vectors, boxes, segments, depths and foregrounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.basis.errors import LoadError
from rushlight.core.onnx import OnnxModule
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.detection import Detector
from rushlight.models.layers.vision.outputs.masks import QueryMasks
from rushlight.models.model import Model
from rushlight.models.onnx.graph import (
    GraphConfig,
    GraphModel,
    Graphs,
    ask,
    names_in,
    names_out,
    rank,
    refuse_outputs,
    sizes,
)

# Outputs that are a vector of each image, the best first, and those of places.
VECTORS = ("image_embeds", "pooler_output", "image_embedding", "image_features")
STATES = ("last_hidden_state", "hidden_states", "features")
_DEPTH, _BOXES, _MASKS = "predicted_depth", "pred_boxes", ("pred_masks", "masks_queries_logits")
_CLASSES = ("logits", "class_queries_logits")
_FOREGROUND = ("alphas", "output", "mask", "output_image")
_TASKS = "image-classification", "image-feature-extraction"


def image_class(config: GraphConfig, graphs: Graphs) -> Callable[[GraphConfig, Graphs], Model]:
    """The class of the model of graphs that take images. LoadError for outputs that none has."""
    if "prompt_encoder_mask_decoder" in graphs:
        from rushlight.models.onnx.prompts import PromptGraph

        return PromptGraph
    graph = next(iter(graphs.values()))
    inputs, outputs = names_in(graph), names_out(graph)
    if "text_model" in graphs or "input_ids" in inputs:
        from rushlight.models.onnx.clip import ClipGraph

        if "input_ids" in inputs and "logits_per_image" not in outputs and len(graphs) == 1:
            raise LoadError(
                f"{config.model_type}: {graph.name} takes {', '.join(inputs)} and gives "
                f"{', '.join(outputs)}, which no task here reads; load it by rl.onnx.load"
            )
        return ClipGraph
    if any(name in outputs for name in _MASKS):
        return QueryMaskGraph
    if _BOXES in outputs:
        return DetectorGraph
    if _DEPTH in outputs:
        return DepthGraph
    if "logits" in outputs and rank(graph, "logits") == 4:
        return SegmentGraph
    if len(outputs) == 1 and (outputs[0] in _FOREGROUND or rank(graph, outputs[0]) == 4):
        return ForegroundGraph
    return ImageGraph


class ImageGraph(GraphModel, ImageModel):
    """Pixels -> logits (batch, classes) as a graph; without a head its states or its vectors."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.seeing_name = next(iter(graphs))
        self.pixel_name = self.seeing.inputs[0].name
        if "pixel_values" in names_in(self.seeing):
            self.pixel_name = "pixel_values"
        outputs = names_out(self.seeing)
        told = config.get("id2label") is not None or config.get("num_labels") is not None
        self.labels = labels_of(vars(config)) if "logits" in outputs and told else ()
        if "logits" in outputs and not told:
            last = sizes(next(o for o in self.seeing.outputs if o.name == "logits"))[-1:]
            count = last[0] if last and isinstance(last[0], int) else 0
            self.labels = tuple(f"LABEL_{i}" for i in range(count))
        self.tasks = _TASKS[:1] if "logits" in outputs else _TASKS[1:]

    @property
    def seeing(self) -> OnnxModule:
        """The graph of images."""
        return self.graph(self.seeing_name)

    def seen(self, pixels: Tensor) -> Any:
        """The graph's outputs by name, of pixels (batch, channels, height, width)."""
        given = {self.pixel_name: pixels, "pixel_values": pixels}
        return ask(self.seeing, given)

    def hidden(self, pixels: Tensor) -> Tensor:
        """The last hidden state of pixels. ValueError where the graph gives none."""
        results = self.seen(pixels)
        name = next((n for n in (*STATES, *VECTORS) if n in results), "")
        if not name:
            refuse_outputs(self.seeing, "no states of an image")
        states: Tensor = results[name]
        return states

    def encode_image(self, pixels: Tensor) -> Tensor:
        """One vector for each image (batch, n): the graph's own, else that of the first token, or
        the mean over places.
        """
        results = self.seen(pixels)
        own = next((n for n in VECTORS if n in results), "")
        if own:
            return results[own].flatten(1)  # type: ignore[no-any-return]
        name = next((n for n in STATES if n in results), "")
        if not name:
            refuse_outputs(self.seeing, "no vectors of images")
        states: Tensor = results[name]
        return states.mean((2, 3)) if states.ndim == 4 else states[:, 0] if states.ndim == 3 else (
            states
        )  # fmt: skip

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits (batch, classes), or without a head the states."""
        if "logits" not in names_out(self.seeing):
            return self.hidden(pixels)
        logits: Tensor = self.seen(pixels)["logits"]
        return logits


class SegmentGraph(ImageGraph):
    """Pixels -> logits (batch, classes, height, width) of places."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.tasks = ("image-segmentation",)


class DetectorGraph(ImageGraph, Detector):
    """Pixels -> logits of classes, and boxes, of queries."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.labels = labels_of(vars(config))
        self.tasks = ("object-detection",)
        last = sizes(next(o for o in self.seeing.outputs if o.name == "logits"))[-1:]
        # Without a last class, none, scores of classes are independent.
        known = last[0] == len(self.labels) if last and isinstance(last[0], int) else None
        named = ("rt_detr", "rt_detr_v2", "d_fine", "deformable_detr", "conditional_detr")
        self.independent = config.model_type in named if known is None else known

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, queries, classes + 1), and boxes (batch, queries, 4) from 0 to 1."""
        results = self.seen(pixels)
        return results["logits"], results[_BOXES]

    def forward(self, pixels: Tensor) -> Tensor:
        """The logits of `detect`."""
        return self.detect(pixels)[0]


class QueryMaskGraph(ImageGraph, QueryMasks):
    """Pixels -> classes and masks of queries."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.labels = labels_of(vars(config))
        self.tasks = ("image-segmentation",)

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of classes (batch, queries, classes + 1) and of masks (batch, queries, h, w)."""
        results = ask(self.seeing, {self.pixel_name: pixels, "pixel_values": pixels})
        classes = next(results[name] for name in _CLASSES if name in results)
        return classes, next(results[name] for name in _MASKS if name in results)

    def forward(self, pixels: Tensor) -> Tensor:
        """Shares of classes (batch, classes, height, width)."""
        return QueryMasks.forward(self, pixels)


class DepthGraph(ImageGraph):
    """Pixels -> depths (batch, height, width)."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.tasks = ("depth-estimation",)

    def forward(self, pixels: Tensor) -> Tensor:
        """Depths (batch, height, width)."""
        depth: Tensor = self.seen(pixels)[_DEPTH]
        return depth[:, 0] if depth.ndim == 4 else depth


class ForegroundGraph(ImageGraph):
    """Pixels -> logits (batch, 1, height, width) of the foreground."""

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.labels, self.tasks = (), ("background-removal",)
        ends = [node.op for node in self.seeing.model.graph.nodes if set(node.outputs) & set(
            names_out(self.seeing)
        )]  # fmt: skip
        self.shares = bool(ends) and ends[0] in ("Sigmoid", "Clip", "HardSigmoid")

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits (batch, 1, height, width); of a graph that gives shares these are turned back."""
        out: Tensor = next(iter(self.seen(pixels).values()))
        out = out[:, None] if out.ndim == 3 else out
        if not self.shares:
            return out
        shares = out.clamp(1e-6, 1 - 1e-6)
        return (shares / (1 - shares)).log()
