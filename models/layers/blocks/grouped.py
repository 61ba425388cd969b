"""Matrices in groups: each group of features makes its own features (SqueezeBERT, ConvBERT)."""

from __future__ import annotations

from dataclasses import replace

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderLayer, EncoderSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec


class GroupedLinear(nn.Module):
    """x @ weight + bias of each group; the weight is (groups, in, out), or that of a convolution
    over one place, (groups * out, in, 1), if `conv`.
    """

    def __init__(self, inside: int, outside: int, groups: int, conv: bool) -> None:
        if groups < 1 or inside % groups or outside % groups:
            raise FormatError(
                f"config.json: {inside} and {outside} features are not {groups} groups"
            )
        self.groups, self.conv, each = groups, conv, (inside // groups, outside // groups)
        self.weight = parameter(outside, each[0], 1) if conv else parameter(groups, *each)
        self.bias = parameter(outside)
        self._fill()

    def reset_parameters(self) -> None:
        """Normal numbers; biases zero."""
        init.normal_(self.weight)
        init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, in) -> (batch, length, out)."""
        batch, length, _ = x.shape
        weight: Tensor = self.weight
        if self.conv and self.groups == 1:
            return ops.linear(x, weight.reshape(weight.shape[0], -1), self.bias)
        if self.conv:
            weight = weight.reshape(self.groups, -1, weight.shape[1]).transpose(1, 2)
        # (batch, length, in) -> (groups, batch * length, in / groups)
        each = x.reshape(batch * length, self.groups, -1).transpose(0, 1)
        y = (each @ weight).transpose(0, 1).reshape(batch, length, -1)
        return y + self.bias


class GroupedLayer(EncoderLayer):
    """SqueezeBERT's layer (Iandola et al., 2020): each matrix is a grouped convolution.

    groups: of q, k, v, the attention's output, up and down.
    """

    def __init__(self, spec: EncoderSpec, groups: tuple[int, ...]) -> None:
        # The reference's layers have this eps, whatever that of the embeddings is.
        super().__init__(replace(spec, norm=NormSpec("layer", 1e-12)))
        names, width, inner = spec.names, spec.width, spec.inner
        paths = (names.q, names.k, names.v, names.out, names.up, names.down)
        sizes = [(width, width)] * 4 + [(width, inner), (inner, width)]
        for path, (inside, outside), count in zip(paths, sizes, groups, strict=True):
            put(self, path, GroupedLinear(inside, outside, count, conv=True))
