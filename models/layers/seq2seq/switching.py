"""Feed-forward parts of encoder-decoders that are mixtures of experts: Switch, and NLLB-MoE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS, ExpertStack
from rushlight.models.layers.naming import put
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext

_LEAST = 1.1920929e-07  # of the sum that chosen weights are divided by


@dataclass(frozen=True)
class SwitchSpec:
    """`chosen` of `count` experts for each token, at the path `name` of a layer.

    The weights are the router's softmax, and of two they are divided by their sum. capacity: tokens
    of a text after so many that chose the same expert get nothing; None: all get something. scale:
    of what experts give. up, down: the names of an expert's matrices, which have biases if `bias`.
    """

    count: int
    chosen: int
    inner: int
    activation: str
    name: str
    up: str
    down: str
    bias: bool = False
    router_bias: bool = False
    capacity: int | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.chosen <= self.count:
            raise FormatError(f"config.json: num_experts is {self.count}, less than {self.chosen}")


class Switch(nn.Module):
    """A mixture of plain networks with two matrices (Fedus et al., 2021)."""

    def __init__(self, width: int, spec: SwitchSpec) -> None:
        self.spec, self.activation = spec, ACTIVATIONS[spec.activation]
        put(self, "router.classifier", nn.Linear(width, spec.count, bias=spec.router_bias))
        for name, sizes in ((spec.up, (spec.inner, width)), (spec.down, (width, spec.inner))):
            put(self, f"experts.{name}", ExpertStack(spec.count, *sizes, spec.bias))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> the same."""
        spec = self.spec
        router: Any = self.get_submodule("router.classifier")
        weights, index = router(x).float().softmax(-1).topk(spec.chosen, -1)
        if spec.chosen > 1:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=_LEAST)
        if spec.capacity is not None and x.shape[1] > spec.capacity:
            ours = (index == ops.arange(spec.count, device=index.device)).long()
            place = ops.cumsum(ours, 1).gather(-1, index)
            weights = weights * (place <= spec.capacity).to(weights.dtype)
        # (..., width) -> (..., chosen, width)
        y = x.unsqueeze(-2).expand(*index.shape, x.shape[-1])
        experts: Any = self.get_submodule("experts")
        y = self.activation(experts.get_submodule(spec.up)(y, index))
        y = experts.get_submodule(spec.down)(y, index)
        shares = (weights if spec.scale == 1 else weights * spec.scale).to(y.dtype)
        out: Tensor = (y * shares.unsqueeze(-1)).sum(-2)
        return out


class SwitchLayer(Layer):
    """A layer whose feed-forward part is a `Switch`."""

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int, switch: SwitchSpec) -> None:
        self.switch = switch
        super().__init__(spec, stack, layer)

    def put_feed_forward(self) -> None:
        """Put the mixture where a plain part would be."""
        put(self, self.switch.name, Switch(self.spec.width, self.switch))

    def _mlp(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        out: Tensor = self.get_submodule(self.switch.name)(x)
        return out


@dataclass(frozen=True)
class Switches:
    """Makes layers, those for whose number `sparse` is true with a `Switch`."""

    switch: SwitchSpec
    sparse: Callable[[int], bool]

    def __call__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> nn.Module:
        """The layer of this number."""
        if self.sparse(layer):
            return SwitchLayer(spec, stack, layer, self.switch)
        return Layer(spec, stack, layer)


def with_switches(stack: StackSpec, switch: SwitchSpec, sparse: Callable[[int], bool]) -> StackSpec:
    """`stack` with a mixture in each layer for whose number `sparse` is true."""
    return replace(stack, make=Switches(switch, sparse))
