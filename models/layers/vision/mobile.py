"""Networks of inverted residuals, described block by block: EfficientNet and its kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.folding import pad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import activation, padded_same
from rushlight.models.layers.vision.model import ImageModel

# left, right, top, bottom; "same": TensorFlow's; "even": half of the kernel on every side.
Padding = str | tuple[int, int, int, int]


@dataclass(frozen=True)
class Block:
    """A block: `wide` channels between, a convolution of each, and a squeeze of `squeezed`.

    kind: "inverted" (Sandler et al., 2018), "plain" (without the widening), "fused" (widening and
    convolution are one, Gupta and Akin, 2020) or "single" (one convolution). paths: of its
    convolutions and norms (widen, deep, narrow) and of the squeeze (reduce, expand).
    """

    kind: str
    inputs: int
    outputs: int
    wide: int
    kernel: int
    stride: int
    squeezed: int
    adds: bool
    padding: Padding
    paths: Mapping[str, str]


@dataclass(frozen=True)
class MobileSpec:
    """A network: its stem, blocks and last convolution, with their paths.

    paths: "stem", "stem_norm", "head" and "head_norm".
    """

    channels: int
    stem: int
    head: int
    stem_padding: Padding
    act: str
    eps: float
    blocks: Sequence[Block]
    paths: Mapping[str, str]


class MobileNet(ImageModel):
    """A network of a MobileSpec; squeeze and excitation is Hu et al.'s (2017)."""

    def __init__(self, config: Any, spec: MobileSpec, labels: tuple[str, ...]) -> None:
        self.config, self.spec, self.labels = config, spec, labels
        self.act = activation(spec.act)
        last = spec.blocks[-1].outputs if spec.blocks else spec.stem
        self._conv("stem", spec.paths, spec.channels, spec.stem, 3, 2)
        self._conv("head", spec.paths, last, spec.head, 1)
        for block in spec.blocks:
            self._block(block)
        if labels:
            put(self, "classifier", nn.Linear(spec.head, len(labels)))

    def _conv(
        self, name: str, paths: Mapping[str, str], inputs: int, outputs: int, kernel: int,
        stride: int = 1, groups: int = 1,
    ) -> None:  # fmt: skip
        put(self, paths[name], nn.Conv2d(
            inputs, outputs, kernel, stride, groups=groups, bias=False
        ))  # fmt: skip
        put(self, paths[f"{name}_norm"], nn.BatchNorm2d(outputs, self.spec.eps))

    def _block(self, b: Block) -> None:
        if b.kind == "single":
            self._conv("deep", b.paths, b.inputs, b.outputs, b.kernel, b.stride)
            return
        if b.kind == "inverted":
            self._conv("widen", b.paths, b.inputs, b.wide, 1)
        if b.kind == "fused":
            self._conv("deep", b.paths, b.inputs, b.wide, b.kernel, b.stride)
        else:
            self._conv("deep", b.paths, b.wide, b.wide, b.kernel, b.stride, b.wide)
        if b.squeezed:
            put(self, b.paths["reduce"], nn.Conv2d(b.wide, b.squeezed, 1))
            put(self, b.paths["expand"], nn.Conv2d(b.squeezed, b.wide, 1))
        self._conv("narrow", b.paths, b.wide, b.outputs, 1)

    def _run(self, x: Tensor, name: str, paths: Mapping[str, str], act: bool = True) -> Tensor:
        norm = self.get_submodule(paths[f"{name}_norm"])
        made: Tensor = norm(self.get_submodule(paths[name])(x))
        return self.act(made) if act else made

    def _through(self, x: Tensor, b: Block) -> Tensor:
        y = self._run(x, "widen", b.paths) if b.kind == "inverted" else x
        y = self._run(_padded(y, b.padding, b.kernel, b.stride), "deep", b.paths)
        if b.squeezed:
            mean = y.mean((2, 3), keepdim=True)
            small = self.act(self.get_submodule(b.paths["reduce"])(mean))
            y = y * self.get_submodule(b.paths["expand"])(small).sigmoid()
        if b.kind != "single":
            y = self._run(y, "narrow", b.paths, act=False)
        return x + y if b.adds else y

    def hidden(self, pixels: Tensor) -> Tensor:
        spec = self.spec
        x = _padded(self.checked(pixels, spec.channels), spec.stem_padding, 3, 2)
        x = self._run(x, "stem", spec.paths)
        for block in spec.blocks:
            x = self._through(x, block)
        return self._run(x, "head", spec.paths)


def _padded(x: Tensor, padding: Padding, kernel: int, stride: int) -> Tensor:
    if padding == "same":
        return padded_same(x, kernel, stride)
    sides = (kernel // 2,) * 4 if isinstance(padding, str) else padding
    return pad(x, sides) if any(sides) else x
