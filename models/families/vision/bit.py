"""Big Transfer (Kolesnikov et al., 2019): a ResNet of standardized kernels and group norms."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.convolutional.bit import Bit, Config
from rushlight.models.layers.vision.model import ImageModel, classes_of


class BigTransfer(ImageModel):
    """Big Transfer in transformers' names."""

    classifier_path = "classifier.1"

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["Bit"]
        net = Bit(c)
        put(self, "bit", net)
        self.before, last = c.layer_type == "preactivation", net.widths[-1]
        if self.before:
            put(self, "bit.norm", nn.GroupNorm(c.num_groups, last))
        if labels:
            put(self, "classifier.1", nn.Linear(last, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule("bit")
        x: Tensor = net(self.checked(pixels, self.config.num_channels))[-1]
        return ACTIVATIONS[self.config.hidden_act](net.norm(x)) if self.before else x


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> BigTransfer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("layer_type", c.layer_type, ("preactivation", "bottleneck"))
    choose("global_padding", c.global_padding, (None, "same", "SAME"))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    return BigTransfer(c, classes_of(config, "Bit"))


FAMILY = Family(
    model_types=("bit",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="bit.",
    config=Config,
    build=build,
)
