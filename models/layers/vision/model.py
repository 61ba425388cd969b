"""ImageModel: the base class of image families."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.jit.function import jit
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.image.imagenet import CLASSES
from rushlight.models.image.preprocessor_config import FILES, TORCHVISION, as_file, processor_of
from rushlight.models.image.processor import Processor
from rushlight.models.layers.heads import labels_of
from rushlight.models.model import Model
from rushlight.models.small_files import small_json

HEAD = "ForImageClassification"
MOST_CLASSES = 1 << 20


class ImageModel(Model):
    """Pixels (batch, channels, height, width), normalized -> logits (batch, classes).

    Without a head `forward` gives the last hidden state: (batch, tokens, width) of a transformer,
    (batch, channels, height, width) of a convolutional net. labels: the names of the classes, ()
    without a head. processor: the steps from images to pixels. image_size: (height, width) where
    other sizes are refused, else None.
    """

    labels: tuple[str, ...] = ()
    processor: Processor = TORCHVISION
    problem: str | None = None  # config.json's problem_type
    image_size: tuple[int, int] | None = None
    classifier_path = "classifier"  # of the module that makes logits of a vector

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read what the checkpoint asks of images and says of its classes."""
        self.problem = small_json(files, "config.json").get("problem_type")
        # Files of torchvision and timm name no classes; 1000 are those of their training.
        if len(self.labels) == len(CLASSES) and self.labels[0] == "LABEL_0":
            self.labels = CLASSES
        self.processor = processor_of(files, self.processor)
        if not any(name in files for name in FILES):  # what is saved says it
            told = json.dumps(as_file(self.processor), indent=2).encode()
            self.files = {**self.files, FILES[1]: told}

    def encode_image(self, pixels: Tensor) -> Tensor:
        """One vector for each image (batch, n): what a head would classify.

        Here: the mean over the places of a convolutional net.
        """
        mean: Tensor = self.hidden(pixels).mean((2, 3))
        return mean

    def hidden(self, pixels: Tensor) -> Tensor:
        """The last hidden state of pixels."""
        raise NotImplementedError

    def forward(self, pixels: Tensor) -> Tensor:
        if not self.labels:
            return self.hidden(pixels)
        logits: Tensor = self.get_submodule(self.classifier_path)(self.encode_image(pixels))
        return logits

    def checked(self, pixels: Tensor, channels: int = 3) -> Tensor:
        """The pixels; ValueError where their shape is not the model's."""
        fits = pixels.ndim == 4 and pixels.shape[1] == channels and min(pixels.shape) > 0
        size = self.image_size
        if not fits or (size is not None and pixels.shape[2:] != size):
            height, width = size or ("height", "width")
            raise ValueError(
                f"{self.config.model_type}: pixels are {pixels.shape}; they must be (batch, "
                f"{channels}, {height}, {width})"
            )
        return pixels


@jit
def captured(model: ImageModel, what: str, *given: Any, **more: Any) -> Any:
    """What the method `what` of a model makes of tensors; a later call of their shapes replays."""
    return getattr(model, what)(*given, **more)


def classes_of(config: Mapping[str, Any], base: str, backbone: bool = True) -> tuple[str, ...]:
    """The names of the classes of BASEForImageClassification; () where config.json names BASEModel,
    or BASEBackbone.

    LoadError for another architecture, or without `backbone` for that one.
    """
    named = config.get("architectures") or [f"{base}{HEAD}"]
    if named == [f"{base}{HEAD}"]:
        return labels_of(config)
    if named == [f"{base}Model"] or (backbone and named == [f"{base}Backbone"]):
        return ()
    raise ArchitectureError(named, (f"{base}{HEAD}", f"{base}Model"))


def numbered_classes(count: int, what: str) -> tuple[str, ...]:
    """Names of `count` classes without names; FormatError, which names `what`, for a bad count."""
    if not 0 <= count <= MOST_CLASSES:
        raise FormatError(f"{what} is {count}; there are 0 to {MOST_CLASSES} classes")
    return tuple(f"LABEL_{i}" for i in range(count))
