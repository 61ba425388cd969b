"""LoRA, rsLoRA and DoRA on linear layers, embeddings, convolutions and experts.

Hu et al., 2021, "LoRA: Low-Rank Adaptation of Large Language Models"; Kalajdzievski, 2023, "A Rank
Stabilization Scaling Factor for Fine-Tuning with LoRA"; Liu et al., 2024, "DoRA: Weight-Decomposed
Low-Rank Adaptation".
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rushlight.core import nn, ops
from rushlight.core.functional.network.dropout import dropout
from rushlight.core.functional.network.embedding import embedding
from rushlight.core.nn import init
from rushlight.core.nn.parameter import Parameter, parameter
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import LoraConfig
from rushlight.models.adapters.layer import (
    CONVOLUTIONS,
    Adapter,
    Factor,
    Layer,
    Weights,
    convolved,
    lengths,
    matrix,
    plain,
    pointwise,
    sizes,
    wide,
)
from rushlight.models.layers.mlp import ExpertStack, TransposedLinear


class Lora(Adapter):
    """W x + scale * B A x. With DoRA: m * (W x + scale * B A x) / |W + scale * B A|.

    The lengths |...| of rows take no gradient (section 4.3 of DoRA's paper).
    """

    lora_magnitude_vector: Parameter | None = None

    def __init__(self, layer: Layer, config: LoraConfig, path: str) -> None:
        self.rank = config.rank_of(path)
        alpha, r = config.alpha_of(path), self.rank
        self.scale = alpha / (math.sqrt(r) if config.use_rslora else r)
        self.dropout, self.dora = config.lora_dropout, config.use_dora
        self._init = config.init_lora_weights
        self._make(layer, config)
        self._fill()

    def reset_parameters(self) -> None:
        """Zeros; `start` sets what differs."""
        for _, p in self._own_parameters():
            init.zeros_(p)

    def _make(self, layer: Layer, config: LoraConfig) -> None:
        raise NotImplementedError

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """A (rank, ...) and B (out, rank, ...)."""
        raise NotImplementedError

    def start(self, layer: Layer) -> None:
        """Set the parameters as training begins: the layer computes as without the adapter."""
        a, b = self.factors
        with autograd.no_grad():
            if self._init == "gaussian":
                init.normal_(a, std=1 / self.rank)
            else:
                init.kaiming_uniform_(a, a=math.sqrt(5))
            init.zeros_(b)
            if self._init is False:
                init.kaiming_uniform_(b, a=math.sqrt(5))
            self._start_dora(layer)

    def _start_dora(self, layer: Layer) -> None:
        if self.lora_magnitude_vector is not None:
            self.lora_magnitude_vector.copy_(self._lengths(layer, plain(layer.weight)))

    def delta(self, layer: Layer) -> Tensor:
        """scale * B A in the shape that the layer's weight has."""
        a, b = self.factors
        product: Tensor = (matrix(b) @ matrix(a)) * self.scale
        return product.reshape(layer.weight.shape)

    def _lengths(self, layer: Layer, weight: Tensor) -> Tensor:
        """|W + scale * B A| for each output, in the shape of the magnitudes."""
        adapted_weight = weight + self.delta(layer).detach()
        dims = tuple(range(1, adapted_weight.ndim))
        norms = lengths(adapted_weight, dims)
        return norms.transpose(0, 1) if adapted_weight.ndim > 2 else norms.reshape(-1)

    def _stretch(self, layer: Layer, weight: Tensor) -> Tensor:
        """m / |W + scale * B A|, which has the gradient of m."""
        assert self.lora_magnitude_vector is not None
        return self.lora_magnitude_vector / self._lengths(layer, weight)

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, True) if self.training and self.dropout else x

    def _product(self, layer: Layer, x: Tensor) -> Tensor:
        """scale * B A x."""
        raise NotImplementedError

    def _base(self, layer: Layer, x: Tensor) -> Tensor:
        """W x, without a bias."""
        raise NotImplementedError

    def _outputs(self, t: Tensor) -> Tensor:
        """A value for each output, in a shape that the layer's result takes."""
        return t

    def after(self, layer: Layer, x: Tensor, y: Tensor) -> Tensor:
        """See Adapter."""
        dropped = self._dropped(x)
        more = self._product(layer, dropped)
        if self.dora:
            stretch = self._outputs(self._stretch(layer, plain(layer.weight)))
            if dropped is x:
                bias = layer.bias
                base = y if bias is None else y - self._outputs(bias)
            else:
                base = self._base(layer, dropped)
            more = (stretch - 1) * base + stretch * more
        return (y + more).to(y.dtype)

    def merged(self, layer: Layer, weight: Tensor, bias: Tensor | None) -> Weights:
        """See Adapter."""
        merged = weight + self.delta(layer).detach()
        if self.dora:
            # The lengths are those of the weight that the adapter was trained with.
            ratio = self._stretch(layer, plain(layer.weight)).detach().reshape(-1)
            axis = -1 if isinstance(layer, TransposedLinear | nn.Embedding) else 0
            merged = merged * ratio.reshape(
                [-1 if d == axis % merged.ndim else 1 for d in range(merged.ndim)]
            )
        added_bias = getattr(getattr(self, "lora_B", None), "bias", None)
        if added_bias is not None:
            if bias is None:
                raise ValueError("merge: the adapter has a bias, and the layer has none")
            bias = bias + added_bias.detach() * self.scale
        return merged, bias


class LoraLinear(Lora):
    """On a linear layer: lora_A.weight (rank, in), lora_B.weight (out, rank)."""

    def _make(self, layer: Layer, config: LoraConfig) -> None:
        inside, outside = sizes(layer)
        self.lora_A = Factor((self.rank, inside))
        self.lora_B = Factor((outside, self.rank), config.lora_bias)
        if config.use_dora:
            self.lora_magnitude_vector = parameter(outside)

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """See Lora."""
        return self.lora_A.weight, self.lora_B.weight

    def delta(self, layer: Layer) -> Tensor:
        """See Lora; transposed where the weight lies so."""
        a, b = self.factors
        product: Tensor = (b @ a) * self.scale
        return product.t() if isinstance(layer, TransposedLinear) else product

    def _lengths(self, layer: Layer, weight: Tensor) -> Tensor:
        adapted_weight = weight + self.delta(layer).detach()
        return lengths(adapted_weight, (0 if isinstance(layer, TransposedLinear) else 1,)).reshape(
            -1
        )

    def _product(self, layer: Layer, x: Tensor) -> Tensor:
        a, b = self.factors
        bias = self.lora_B.bias
        inner = ops.linear(wide(x, a), a) * self.scale
        return ops.linear(inner, b, None if bias is None else bias * self.scale)

    def _base(self, layer: Layer, x: Tensor) -> Tensor:
        weight = layer.weight
        return ops.linear(x, weight.t() if isinstance(layer, TransposedLinear) else weight)


class LoraEmbedding(Lora):
    """On a table: lora_embedding_A (rank, rows), lora_embedding_B (width, rank)."""

    def _make(self, layer: Layer, config: LoraConfig) -> None:
        if config.lora_bias:
            raise ValueError("LoraConfig: lora_bias is not supported for an embedding")
        rows, width = sizes(layer)
        self.lora_embedding_A = parameter(self.rank, rows)
        self.lora_embedding_B = parameter(width, self.rank)
        if config.use_dora:
            self.lora_magnitude_vector = parameter(width)

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """See Lora."""
        return self.lora_embedding_A, self.lora_embedding_B

    def start(self, layer: Layer) -> None:
        """See Lora. Here A is zero, and B normal numbers."""
        with autograd.no_grad():
            init.zeros_(self.lora_embedding_A)
            init.normal_(self.lora_embedding_B)
            if self._init is False:
                init.normal_(self.lora_embedding_A)
            self._start_dora(layer)

    def delta(self, layer: Layer) -> Tensor:
        """See Lora."""
        a, b = self.factors
        product: Tensor = (b @ a).t() * self.scale
        return product

    def _lengths(self, layer: Layer, weight: Tensor) -> Tensor:
        # PEFT's are those of the columns: one for each feature.
        return lengths(weight + self.delta(layer).detach(), (0,)).reshape(-1)

    def after(self, layer: Layer, x: Tensor, y: Tensor) -> Tensor:
        """See Adapter. Nothing is dropped out: `x` are indices."""
        a, b = self.factors
        row = layer.padding_idx
        more = ops.linear(embedding(x, a.t(), padding_idx=row) * self.scale, b)
        if self.dora:
            stretch = self._stretch(layer, plain(layer.weight))
            return (stretch * y + stretch * more).to(y.dtype)
        return (y + more).to(y.dtype)


class LoraConv(Lora):
    """On a convolution: A has its kernel, and rank channels; B has a kernel of one element."""

    def _make(self, layer: Layer, config: LoraConfig) -> None:
        groups, ones = layer.groups, (1,) * len(layer.kernel_size)
        if self.rank % groups:
            raise ValueError(
                f"LoraConfig: the rank {self.rank} is no multiple of the {groups} groups of a "
                "convolution; choose another rank, or leave the layer out with exclude_modules"
            )
        inside, outside = sizes(layer)
        self.lora_A = Factor((self.rank, inside, *layer.kernel_size))
        self.lora_B = Factor((outside, self.rank // groups, *ones), config.lora_bias)
        if config.use_dora:
            self.lora_magnitude_vector = parameter(1, outside, *ones)

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """See Lora."""
        return self.lora_A.weight, self.lora_B.weight

    def delta(self, layer: Layer) -> Tensor:
        """See Lora; ValueError for a convolution in groups, which has no such weight."""
        if layer.groups > 1:
            raise ValueError(
                f"an adapter of a convolution of {layer.groups} groups reads all channels: it "
                "cannot be merged, nor have DoRA"
            )
        return super().delta(layer)

    def _outputs(self, t: Tensor) -> Tensor:
        ones = (1,) * (self.lora_A.weight.ndim - 2)
        return t.reshape(-1, *ones)

    def _product(self, layer: Layer, x: Tensor) -> Tensor:
        a, b = self.factors
        bias = self.lora_B.bias
        inner = convolved(layer, wide(x, a), a) * self.scale
        return pointwise(layer, inner, b, None if bias is None else bias * self.scale)

    def _base(self, layer: Layer, x: Tensor) -> Tensor:
        return convolved(layer, x, layer.weight)


class LoraStack(Lora):
    """On the matrices of all experts: lora_A.weight (experts, rank, in), lora_B.weight (experts,
    out, rank).
    """

    def _make(self, layer: Layer, config: LoraConfig) -> None:
        if config.use_dora or config.lora_bias:
            name = "use_dora" if config.use_dora else "lora_bias"
            raise ValueError(
                f"LoraConfig: {name} is not supported for experts; leave them out with "
                "exclude_modules"
            )
        count, outside, inside = layer.weight.shape
        self.lora_A = Factor((count, self.rank, inside))
        self.lora_B = Factor((count, outside, self.rank))

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """See Lora."""
        return self.lora_A.weight, self.lora_B.weight

    def start(self, layer: Layer) -> None:
        """See Lora."""
        a, b = self.factors
        with autograd.no_grad():
            for matrices, normal in ((a, self._init == "gaussian"), (b, False)):
                for expert in matrices:
                    if normal:
                        init.normal_(expert, std=1 / self.rank)
                    else:
                        init.kaiming_uniform_(expert, a=math.sqrt(5))
            if self._init is not False:
                init.zeros_(b)

    def delta(self, layer: Layer) -> Tensor:
        """See Lora."""
        a, b = self.factors
        product: Tensor = (b @ a) * self.scale
        return product

    def after_call(self, layer: Layer, args: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """See Adapter. The second argument is the expert of each row."""
        (a, b), index = self.factors, args[1]
        inner = ops.linear_experts(wide(self._dropped(args[0]), a), a, index) * self.scale
        more = ops.linear_experts(inner, b, index)
        return (y + more).to(y.dtype)


KINDS: Mapping[tuple[type, ...], type[Lora]] = {
    (nn.Linear, TransposedLinear): LoraLinear,
    (nn.Embedding,): LoraEmbedding,
    CONVOLUTIONS: LoraConv,
    (ExpertStack,): LoraStack,
}
