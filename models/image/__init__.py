"""Images for models: reading files, resizing as Pillow does, and what checkpoints ask for."""

from rushlight.models.image.boxes import (
    batched_nms,
    box_area,
    box_convert,
    box_iou,
    nms,
    soft_nms,
)
from rushlight.models.image.files import load
from rushlight.models.image.plot import plot
from rushlight.models.image.processor import Processor
from rushlight.models.image.resize import resize, stretched

__all__ = [
    "Processor", "batched_nms", "box_area", "box_convert", "box_iou", "load", "nms", "plot",
    "resize", "soft_nms", "stretched",
]  # fmt: skip
