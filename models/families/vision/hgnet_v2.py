"""HGNet version 2 (Peng et al., 2024): D-FINE's backbone, which also classifies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.convolutional.hgnet import HGNet
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.outputs.stages import stages_of

_STAGES = (
    "stage_in_channels",
    "stage_mid_channels",
    "stage_out_channels",
    "stage_num_blocks",
    "stage_kernel_size",
    "stage_numb_of_layers",
    "stage_downsample_strides",
)


def _four(*numbers: int) -> Any:
    return field(default_factory=lambda: list(numbers))


@dataclass
class Config:
    """The keys of config.json."""

    num_channels: int = 3
    embedding_size: int = 64  # that of what the stages say, as what follows
    depths: list[int] = _four(3, 4, 6, 3)
    hidden_sizes: list[int] = _four(256, 512, 1024, 2048)
    hidden_act: str = "relu"
    stem_channels: list[int] = _four(3, 32, 48)
    stem_strides: list[int] = _four(2, 1, 1, 2, 1)
    stage_in_channels: list[int] = _four(48, 128, 512, 1024)
    stage_mid_channels: list[int] = _four(48, 96, 192, 384)
    stage_out_channels: list[int] = _four(128, 512, 1024, 2048)
    stage_num_blocks: list[int] = _four(1, 1, 3, 1)
    stage_downsample: list[bool] = field(default_factory=lambda: [False, True, True, True])
    stage_downsample_strides: list[int] = _four(2, 2, 2, 2)
    stage_light_block: list[bool] = field(default_factory=lambda: [False, False, True, True])
    stage_kernel_size: list[int] = _four(3, 3, 5, 5)
    stage_numb_of_layers: list[int] = _four(6, 6, 6, 6)
    use_learnable_affine_block: bool = False
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    model_type: str = "hgnet_v2"


class HGNetV2(ImageModel):
    """HGNet in transformers' names."""

    classifier_path = "fc"

    def __init__(self, c: Config, labels: tuple[str, ...], last: int) -> None:
        self.config, self.labels, self.last, net = c, labels, last, HGNet(c)
        self.embedder, self.encoder = (net.get_submodule(n) for n in ("embedder", "encoder"))
        if labels:
            self.fc = nn.Linear(c.stage_out_channels[-1], len(labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        maps = HGNet.forward(self, self.checked(pixels, self.config.num_channels))  # type: ignore
        return maps[self.last]


def checked(c: Config) -> Config:
    """The configuration; FormatError for lists that do not agree."""
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    count = len(c.stage_in_channels)
    lists = [getattr(c, name) for name in _STAGES]
    flags = [c.stage_downsample, c.stage_light_block]
    whole = all(type(n) is int and 1 <= n <= 1 << 14 for sizes in lists for n in sizes)
    even = all(len(sizes) == count for sizes in (*lists, *flags, c.hidden_sizes))
    if not whole or not even or len(c.stem_channels) != 3 or len(c.stem_strides) != 5:
        raise FormatError("config.json: the lists of hgnet_v2's stages and stem do not agree")
    return c


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> HGNetV2:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = checked(read_config(Config, config | {"architectures": None}))
    labels = classes_of(config, "HGNetV2")
    last = -1 if labels else stages_of(config, len(c.stage_in_channels))[-1]
    return HGNetV2(c, labels, last)


FAMILY = Family(
    model_types=("hgnet_v2",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
)
