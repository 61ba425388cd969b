"""Networks of inverted residuals, described block by block: EfficientNet and its kin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.activations import hardsigmoid
from rushlight.core.functional.network.padding import pad
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
    convolutions and norms (widen, deep, narrow) and of the squeeze (reduce, expand). act: its own;
    hard: whether the squeeze ends in a hard sigmoid (Howard et al., 2019). between: the squeeze's
    inner activation, if it is not the block's.
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
    act: str = ""
    hard: bool = False
    between: str = ""


@dataclass(frozen=True)
class MobileSpec:
    """A network: its stem, blocks and last convolution, with their paths.

    blocks: a Block, or the path of a module and the module. paths: "stem", "stem_norm", "head" and,
    where it has one, "head_norm". late: the last convolution reads the mean. head_bias: of it.
    """

    channels: int
    stem: int
    head: int
    stem_padding: Padding
    act: str
    eps: float
    blocks: Sequence[Block | tuple[str, nn.Module]]
    paths: Mapping[str, str]
    last: int = 0  # channels of the last block, 0 for what a Block says
    late: bool = False
    head_bias: bool = False


class MobileNet(ImageModel):
    """A network of a MobileSpec; squeeze and excitation is Hu et al.'s (2017)."""

    def __init__(self, config: Any, spec: MobileSpec, labels: tuple[str, ...]) -> None:
        self.config, self.spec, self.labels = config, spec, labels
        self.act = activation(spec.act)
        end = spec.blocks[-1] if spec.blocks else None
        last = end.outputs if isinstance(end, Block) else spec.last or spec.stem
        self._conv("stem", spec.paths, spec.channels, spec.stem, 3, 2)
        self._conv("head", spec.paths, last, spec.head, 1, bias=spec.head_bias)
        for block in spec.blocks:
            if isinstance(block, Block):
                self._block(block)
            else:
                put(self, *block)
        if labels:
            put(self, "classifier", nn.Linear(spec.head, len(labels)))

    def _conv(
        self,
        name: str,
        paths: Mapping[str, str],
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        put(self, paths[name], nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=bias))
        if f"{name}_norm" in paths:
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

    def _run(
        self,
        x: Tensor,
        name: str,
        paths: Mapping[str, str],
        act: Callable[[Tensor], Tensor] | None,
    ) -> Tensor:
        y: Tensor = self.get_submodule(paths[name])(x)
        if f"{name}_norm" in paths:
            y = self.get_submodule(paths[f"{name}_norm"])(y)
        return y if act is None else act(y)

    def _through(self, x: Tensor, b: Block) -> Tensor:
        act = activation(b.act) if b.act else self.act
        y = self._run(x, "widen", b.paths, act) if b.kind == "inverted" else x
        y = self._run(_padded(y, b.padding, b.kernel, b.stride), "deep", b.paths, act)
        if b.squeezed:
            mean = y.mean((2, 3), keepdim=True)
            between = activation(b.between) if b.between else act
            small = between(self.get_submodule(b.paths["reduce"])(mean))
            large = self.get_submodule(b.paths["expand"])(small)
            y = y * (hardsigmoid(large) if b.hard else large.sigmoid())
        if b.kind != "single":
            y = self._run(y, "narrow", b.paths, None)
        return x + y if b.adds else y

    def hidden(self, pixels: Tensor) -> Tensor:
        spec = self.spec
        x = _padded(self.checked(pixels, spec.channels), spec.stem_padding, 3, 2)
        x = self._run(x, "stem", spec.paths, self.act)
        for block in spec.blocks:
            if isinstance(block, Block):
                x = self._through(x, block)
            else:
                x = self.get_submodule(block[0])(x)
        return x if spec.late else self._run(x, "head", spec.paths, self.act)

    def encode_image(self, pixels: Tensor) -> Tensor:
        mean = self.hidden(pixels).mean((2, 3), keepdim=True)
        pooled = self._run(mean, "head", self.spec.paths, self.act) if self.spec.late else mean
        return pooled.flatten(1)


def _padded(x: Tensor, padding: Padding, kernel: int, stride: int) -> Tensor:
    if padding == "same":
        return padded_same(x, kernel, stride)
    sides = (kernel // 2,) * 4 if isinstance(padding, str) else padding
    return pad(x, sides) if any(sides) else x
