"""Chronos-Bolt (Ansari et al., 2024): T5 over patches of a series tells quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional import creation
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec
from rushlight.models.layers.seq2seq.stacks import StackContext, Stacked
from rushlight.models.layers.series import SeriesModel


@dataclass(frozen=True)
class BoltSpec:
    """Patches of `patch` numbers, and the forecast. last: a token of its own follows the patches.

    start: the token that the decoder reads.
    """

    context: int
    horizon: int
    patch: int
    quantiles: tuple[float, ...]
    last: bool
    start: int

    def __post_init__(self) -> None:
        if min(self.patch, self.horizon) < 1 or self.context < 1 or self.context % self.patch:
            raise FormatError(
                f"config.json: patches of {self.patch} numbers do not divide a context of "
                f"{self.context}, or a size is not positive"
            )
        if 0.5 not in self.quantiles:
            raise FormatError("config.json: the quantiles are without 0.5, the median")


class Block(nn.Module):
    """Two matrices with a nonlinearity between them, and a third beside them."""

    def __init__(self, inside: int, inner: int, outside: int, activation: str) -> None:
        self.activation = ACTIVATIONS[activation]
        self.hidden_layer = nn.Linear(inside, inner)
        self.output_layer = nn.Linear(inner, outside)
        self.residual_layer = nn.Linear(inside, outside)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inside) -> (..., outside)."""
        inner = self.output_layer(self.activation(self.hidden_layer(x)))
        out: Tensor = inner + self.residual_layer(x)
        return out


class BoltModel(Stacked, SeriesModel):
    """Chronos-Bolt: the quantiles of the next numbers of each series."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Seq2SeqSpec, own: BoltSpec) -> None:
        self.config, self.spec, self.own = config, spec, own
        self.context_length, self.horizon = own.context, own.horizon
        self.quantiles = own.quantiles
        for stack in (spec.encoder, spec.decoder):
            self.put_stack(stack, spec.vocab)
        mlp, count = spec.encoder.mlp, len(own.quantiles) * own.horizon
        self.input_patch_embedding = Block(2 * own.patch, mlp.inner, spec.width, mlp.activation)
        self.output_patch_embedding = Block(spec.width, mlp.inner, count, mlp.activation)
        table = f"{spec.encoder.names.embedding}.weight"
        self.duplicates = {f"{name}.embed_tokens.weight": table for name in ("encoder", "decoder")}

    def forward(self, values: Tensor, known: Tensor | None = None) -> Tensor:
        """(rows, context) -> (rows, quantiles, horizon); known: 0 for missing numbers."""
        own, rows = self.own, values.shape[0]
        known = creation.ones_like(values) if known is None else known.to(values.dtype)
        count = known.sum(1, keepdim=True).clamp(min=1.0)
        loc = (values * known).sum(1, keepdim=True) / count
        scale = ((((values - loc) * known) ** 2).sum(1, keepdim=True) / count).sqrt()
        scale = ops.where(known.sum(1, keepdim=True) > 0, scale, creation.ones_like(scale))
        scale = ops.where(scale == 0, creation.full_like(scale, 1e-5), scale)
        scaled = (values - loc) / scale * known
        shape = rows, own.context // own.patch, own.patch
        seen = known.reshape(*shape)
        x = self.input_patch_embedding(ops.cat([scaled.reshape(*shape), seen], -1))
        real = seen.sum(-1) > 0
        # The last token's number is 1; those before it are in place of patches.
        ids = creation.ones_like(real.long())
        if own.last:
            ids, real = (ops.cat([y, creation.ones_like(y[:, :1])], 1) for y in (ids, real))
        mask = real[:, None, None, :]
        context = StackContext({"mask": mask}, rows=x)
        hidden = self._run(self.spec.encoder, ids * int(own.last), 0, context)
        stack = self.spec.decoder
        crosses = [layer.get_submodule(stack.names.cross) for layer in self._layers(stack)]
        memory = Memory(tuple(cross.memory(hidden) for cross in crosses), mask)
        begun = StackContext({"causal": True}, memory=memory)
        y = self._run(stack, creation.full_like(ids[:, :1], own.start), 0, begun)
        told: Tensor = self.output_patch_embedding(y).reshape(rows, -1)
        return (told * scale + loc).reshape(rows, len(own.quantiles), own.horizon)

    def forecast(self, values: Tensor, known: Tensor) -> Tensor:
        """(batch, context, channels) -> (batch, horizon, channels, 1 + quantiles), by channel."""
        batch, length, channels = values.shape
        rows, seen = (x.transpose(1, 2).reshape(batch * channels, length) for x in (values, known))
        found: Tensor = self(rows, seen)
        median = self.quantiles.index(0.5)
        found = ops.cat([found[:, median : median + 1], found], 1)
        return found.reshape(batch, channels, -1, self.horizon).transpose(1, 3).transpose(2, 3)
