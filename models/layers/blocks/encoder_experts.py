"""Experts in some layers of an encoder, as in Nomic's embedding models."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderLayer, EncoderSpec
from rushlight.models.layers.mlp import Experts, ExpertsSpec


@dataclass(frozen=True)
class SomeExperts:
    """The layers of an encoder: the second of every `every` ones has experts."""

    every: int
    experts: ExpertsSpec

    def __call__(self, spec: EncoderSpec, layer: int) -> nn.Module:
        """The layer with this number."""
        return ExpertsLayer(spec, self.experts) if layer % self.every == 1 else EncoderLayer(spec)


class ExpertsLayer(EncoderLayer):
    """A layer with experts in place of the MLP."""

    def __init__(self, spec: EncoderSpec, experts: ExpertsSpec) -> None:
        self.experts = experts
        super().__init__(spec)

    def put_fed(self, width: int) -> None:
        """Make the experts."""
        self.mlp = Experts(width, self.experts)

    def fed(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> the same."""
        out: Tensor = self.mlp(x)
        return out
