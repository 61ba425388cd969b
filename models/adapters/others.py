"""Adapters that scale, (IA)^3, and Hadamard products, LoHa, on linear layers and convolutions.

Liu et al., 2022, "Few-Shot Parameter-Efficient Fine-Tuning is Better and Cheaper than In-Context
Learning"; Hyeon-Woo et al., 2021, "FedPara: Low-Rank Hadamard Product for Communication-Efficient
Federated Learning".
"""

from __future__ import annotations

import math

from rushlight.core import ops
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.random import rand
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import IA3Config, LoHaConfig
from rushlight.models.adapters.layer import (
    CONVOLUTIONS,
    Adapter,
    Layer,
    Weights,
    convolved,
    core,
    sizes,
    wide,
)
from rushlight.models.layers.mlp import TransposedLinear


class IA3(Adapter):
    """y * l, or W (x * l) for a feed-forward module; ia3_l has a number for each channel."""

    def __init__(self, layer: Layer, config: IA3Config, path: str) -> None:
        self.feeds = config.feeds_forward(path)
        count = sizes(layer)[0 if self.feeds else 1]
        self._init = config.init_ia3_weights
        if isinstance(layer, CONVOLUTIONS):
            self.ia3_l = parameter(1, count, *(1 for _ in layer.kernel_size))
        else:
            self.ia3_l = parameter(1, count) if self.feeds else parameter(count, 1)
        self._fill()

    def reset_parameters(self) -> None:
        """Ones."""
        init.ones_(self.ia3_l)

    def start(self, layer: Layer) -> None:
        """Set the parameters as training begins."""
        if not self._init:
            init.normal_(self.ia3_l)

    def _channels(self, layer: Layer) -> Tensor:
        ones = (1,) * len(layer.kernel_size) if isinstance(layer, CONVOLUTIONS) else ()
        return self.ia3_l.reshape(-1, *ones)

    def before(self, layer: Layer, x: Tensor) -> Tensor:
        """See Adapter."""
        return (x * self._channels(layer)).to(x.dtype) if self.feeds else x

    def after(self, layer: Layer, x: Tensor, y: Tensor) -> Tensor:
        """See Adapter."""
        return y if self.feeds else (y * self._channels(layer)).to(y.dtype)

    def merged(self, layer: Layer, weight: Tensor, bias: Tensor | None) -> Weights:
        """See Adapter."""
        scale = self.ia3_l.detach().reshape(-1)
        if isinstance(layer, CONVOLUTIONS) and self.feeds and layer.groups > 1:
            # Group g of the outputs reads group g of the channels.
            each = scale.reshape(layer.groups, 1, -1)
            rows = layer.out_channels // layer.groups
            each = each.expand(layer.groups, rows, each.shape[2]).reshape(weight.shape[:2])
            return weight * each.reshape(*each.shape, *(1 for _ in layer.kernel_size)), bias
        axis = int(self.feeds != isinstance(layer, TransposedLinear))
        scaled = weight * scale.reshape([-1 if d == axis else 1 for d in range(weight.ndim)])
        return scaled, bias if self.feeds or bias is None else bias * scale


class LoHa(Adapter):
    """W + scale * (w1_a w1_b) * (w2_a w2_b), element by element."""

    def __init__(self, layer: Layer, config: LoHaConfig, path: str) -> None:
        r = config.rank_of(path)
        self.scale = config.alpha_of(path) / r
        self.rows_out, self.left_out = config.rank_dropout, config.module_dropout
        self._init = config.init_weights
        rows, *rest = layer.weight.shape
        self.effective = config.use_effective_conv2d and math.prod(rest[1:]) > 1
        if self.effective:
            self.hada_t1, self.hada_t2 = (parameter(r, r, *rest[1:]) for _ in range(2))
            first, second = (r, rows), (r, rest[0])
        else:
            first, second = (rows, r), (r, math.prod(rest))
        self.hada_w1_a, self.hada_w1_b = parameter(*first), parameter(*second)
        self.hada_w2_a, self.hada_w2_b = parameter(*first), parameter(*second)
        self._fill()

    def reset_parameters(self) -> None:
        """Zeros; `start` sets what differs."""
        for p in self.parameters():
            init.zeros_(p)

    def start(self, layer: Layer) -> None:
        """Set the parameters as training begins: w2_b is zero, so the adapter changes nothing."""
        with autograd.no_grad():
            for name, p in self.named_parameters():
                if name != "hada_w2_b" or not self._init:
                    init.kaiming_uniform_(p, a=math.sqrt(5))

    def delta(self, layer: Layer) -> Tensor:
        """scale * (w1_a w1_b) * (w2_a w2_b), in the shape of the layer's weight."""
        pairs = [(self.hada_w1_a, self.hada_w1_b), (self.hada_w2_a, self.hada_w2_b)]
        if self.effective:
            cores = (self.hada_t1, self.hada_t2)
            first, second = (core(t, a, b) for t, (a, b) in zip(cores, pairs, strict=True))
        else:
            first, second = (a @ b for a, b in pairs)
        product: Tensor = first * second * self.scale
        return product.reshape(layer.weight.shape)

    def after(self, layer: Layer, x: Tensor, y: Tensor) -> Tensor:
        """See Adapter."""
        weight, ones = self.delta(layer), (1,) * (layer.weight.ndim - 1)
        if self.training and self.rows_out:
            is_kept = (rand(weight.shape[0], device=weight.device) > self.rows_out).to(weight.dtype)
            weight = weight * (is_kept / is_kept.mean()).reshape(-1, *ones)
        if self.training and self.left_out:
            weight = weight * (rand(1, device=weight.device) > self.left_out).to(weight.dtype)
        x = wide(x, weight)
        if isinstance(layer, CONVOLUTIONS):
            more = convolved(layer, x, weight)
        else:
            more = ops.linear(x, weight)
        return (y + more).to(y.dtype)

    def merged(self, layer: Layer, weight: Tensor, bias: Tensor | None) -> Weights:
        """See Adapter."""
        return weight + self.delta(layer).detach(), bias
