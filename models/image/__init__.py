"""Images for models: reading files, resizing as Pillow does, and what checkpoints ask for."""

from rushlight.models.image.files import load
from rushlight.models.image.processor import Processor
from rushlight.models.image.resize import resize, stretched

__all__ = ["Processor", "load", "resize", "stretched"]
