"""The layers of these kinds: what is added to a weight, or what rotates a layer's input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.functional.linalg.solving import solve
from rushlight.core.functional.network.dropout import dropout
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import AdapterConfig
from rushlight.models.adapters.kinds.configs import (
    AdaLoraConfig,
    HiraConfig,
    LoKrConfig,
    OFTConfig,
    VeraConfig,
)
from rushlight.models.adapters.layer import (
    CONVOLUTIONS,
    Adapter,
    Factor,
    Layer,
    Weights,
    convolved,
    core,
    plain,
    sizes,
    wide,
)


class Change(Adapter):
    """W + delta: `delta` gives what is added, in the shape of the layer's weight."""

    dropout = 0.0

    def reset_parameters(self) -> None:
        """Zeros; `start` sets what differs."""
        for p in self.parameters():
            init.zeros_(p)

    def start(self, layer: Layer) -> None:
        """Set the parameters as training begins: random numbers but for the last factor."""
        with autograd.no_grad():
            for p in list(self.parameters())[:-1]:
                init.kaiming_uniform_(p, a=math.sqrt(5))

    def delta(self, layer: Layer) -> Tensor:
        """What is added to the weight."""
        raise NotImplementedError

    def after(self, layer: Layer, x: Tensor, y: Tensor) -> Tensor:
        """See Adapter."""
        weight = self.delta(layer)
        x = dropout(x, self.dropout, True) if self.training and self.dropout else x
        x = wide(x, weight)
        if isinstance(layer, CONVOLUTIONS):
            return (y + convolved(layer, x, weight)).to(y.dtype)
        return (y + ops.linear(x, weight)).to(y.dtype)

    def merged(self, layer: Layer, weight: Tensor, bias: Tensor | None) -> Weights:
        """See Adapter."""
        return weight + self.delta(layer).detach(), bias


class AdaLora(Change):
    """lora_A (rank, in), lora_E (rank, 1), lora_B (out, rank)."""

    def __init__(self, layer: Layer, config: AdaLoraConfig, path: str) -> None:
        (inside, outside), r = sizes(layer), config.rank_of(path)
        alpha = config.lora_alpha if config.lora_alpha > 0 else float(config.init_r)
        self.scale, self.dropout = alpha / (config.init_r + 1e-5), config.lora_dropout
        self.lora_A, self.lora_B = parameter(r, inside), parameter(outside, r)
        self.lora_E = parameter(r, 1)
        self._fill()

    def start(self, layer: Layer) -> None:
        """See Change; E is zero."""
        with autograd.no_grad():
            init.normal_(self.lora_A, std=0.02)
            init.normal_(self.lora_B, std=0.02)

    def delta(self, layer: Layer) -> Tensor:
        """See Change."""
        delta: Tensor = self.lora_B @ (self.lora_A * self.lora_E) * self.scale
        return delta


class Hira(Change):
    """hira_A (rank, in), hira_B (out, rank)."""

    def __init__(self, layer: Layer, config: HiraConfig, path: str) -> None:
        (inside, outside), r = sizes(layer), config.rank_of(path)
        self.dropout = config.hira_dropout
        self.hira_A, self.hira_B = parameter(r, inside), parameter(outside, r)
        self._fill()

    def delta(self, layer: Layer) -> Tensor:
        """See Change."""
        delta: Tensor = plain(layer.weight) * (self.hira_B @ self.hira_A)
        return delta


class Vera(Change):
    """vera_lambda_d (rank,), vera_lambda_b (out,); the file's matrices are put beside them."""

    projections: tuple[Tensor, Tensor] | None = None

    def __init__(self, layer: Layer, config: VeraConfig, path: str) -> None:
        _, outside = sizes(layer)
        self.dropout = config.vera_dropout
        self.vera_lambda_d, self.vera_lambda_b = parameter(config.r), parameter(outside)
        self._fill()

    def start(self, layer: Layer) -> None:
        """ValueError: the matrices are those of a file."""
        raise ValueError("VeraConfig: new adapters are not supported; supported: those of files")

    def delta(self, layer: Layer) -> Tensor:
        """See Change."""
        assert self.projections is not None
        (inside, outside), (a, b) = sizes(layer), self.projections
        left = self.vera_lambda_b.unsqueeze(1) * b[:outside].to(layer.weight.device)
        delta: Tensor = left @ (self.vera_lambda_d.unsqueeze(1) * a[:, :inside].to(left.device))
        return delta


class LoKr(Change):
    """lokr_w1 or lokr_w1_a and _b, lokr_w2 or lokr_w2_a and _b, with lokr_t2 for a kernel."""

    def __init__(self, layer: Layer, config: LoKrConfig, path: str) -> None:
        r = config.rank_of(path)
        self.scale = config.alpha_of(path) / r
        rows, columns, *kernel = layer.weight.shape
        (a, b), (c, d) = (_parts(n, config.decompose_factor) for n in (rows, columns))
        if config.decompose_both and r < max(a, c) / 2:
            self.lokr_w1_a, self.lokr_w1_b = parameter(a, r), parameter(r, c)
        else:
            self.lokr_w1 = parameter(a, c)
        self.effective = config.use_effective_conv2d and math.prod(kernel) > 1
        if r >= max(b, d) / 2:
            self.lokr_w2 = parameter(b, d, *kernel)
        elif self.effective:
            ends = kernel if len(kernel) > 1 else [*kernel, 1]
            self.lokr_t2 = parameter(r, r, *ends)
            self.lokr_w2_a, self.lokr_w2_b = parameter(r, b), parameter(r, d)
        else:
            self.lokr_w2_a = parameter(b, r)
            self.lokr_w2_b = parameter(r, d * math.prod(kernel))
        self.shape = (b, d, math.prod(kernel))
        self._fill()

    def start(self, layer: Layer) -> None:
        """See Change; w1 is zero."""
        with autograd.no_grad():
            for name, p in self.named_parameters():
                if name not in ("lokr_w1", "lokr_w1_a"):
                    init.kaiming_uniform_(p, a=math.sqrt(5))

    def delta(self, layer: Layer) -> Tensor:
        """See Change."""
        factors: Any = self
        w1 = factors.lokr_w1 if hasattr(self, "lokr_w1") else factors.lokr_w1_a @ factors.lokr_w1_b
        if hasattr(self, "lokr_w2"):
            w2 = factors.lokr_w2
        elif hasattr(self, "lokr_t2"):
            w2 = core(factors.lokr_t2, factors.lokr_w2_a, factors.lokr_w2_b)
        else:
            w2 = factors.lokr_w2_a @ factors.lokr_w2_b
        b, d, kernel = self.shape
        # (a, 1, c, 1, 1) * (1, b, 1, d, kernel) -> (a b, c d, kernel)
        first = w1.reshape(w1.shape[0], 1, w1.shape[1], 1, 1)
        product: Tensor = first * w2.reshape(1, b, 1, d, kernel) * self.scale
        return product.reshape(layer.weight.shape)


def _parts(size: int, factor: int) -> tuple[int, int]:
    """Two numbers whose product is `size`: `factor` and the rest, or the nearest to its root."""
    if factor > 0 and size % factor == 0:
        return factor, size // factor
    most = min(math.isqrt(size), factor if factor > 0 else size)
    first = next(n for n in range(max(most, 1), 0, -1) if size % n == 0)
    return first, size // first


class Oft(Adapter):
    """oft_R.weight (blocks, size * (size - 1) / 2): the upper triangles of skew matrices."""

    def __init__(self, layer: Layer, config: OFTConfig, path: str) -> None:
        inside, _ = sizes(layer)
        size = config.oft_block_size or (inside // config.r if config.r else 0)
        if not 0 < size <= inside or inside % size or config.coft:
            raise ValueError(
                f"OFTConfig: oft_block_size {size} of {inside} inputs and coft {config.coft} are "
                "not supported; supported: sizes that divide the inputs, coft False"
            )
        self.size, self.blocks = size, inside // size
        # PEFT's series has a fourth term too if it is to have three.
        terms = {3: 4}.get(config.num_cayley_neumann_terms, config.num_cayley_neumann_terms)
        self.terms = max(terms, 1) if config.use_cayley_neumann else 0
        count = 1 if config.block_share else self.blocks
        self.oft_R = Factor((count, size * (size - 1) // 2))
        self._fill()

    def reset_parameters(self) -> None:
        """Zeros: nothing is rotated."""
        init.zeros_(self.oft_R.weight)

    def start(self, layer: Layer) -> None:
        """Nothing is set."""

    def rotations(self) -> Tensor:
        """(blocks, size, size)."""
        flat: Tensor = self.oft_R.weight
        rows, columns = (
            [i for i in range(self.size) for _ in range(i + 1, self.size)],
            [j for i in range(self.size) for j in range(i + 1, self.size)],
        )
        upper_places = tensor(
            [r * self.size + c for r, c in zip(rows, columns, strict=True)],
            device=flat.device,
            dtype="int64",
        )
        flat_square = ops.zeros(flat.shape[0], self.size**2, dtype=flat.dtype, device=flat.device)
        upper = flat_square.index_copy(1, upper_places, flat).reshape(-1, self.size, self.size)
        skew = upper - upper.transpose(1, 2)
        identity = tensor(
            [[float(i == j) for j in range(self.size)] for i in range(self.size)],
            device=flat.device,
            dtype=flat.dtype.name,
        )
        if not self.terms:
            # R (I + Q) = I - Q, so that R is (I - Q) (I + Q)^-1.
            rotations = solve(identity + skew, identity - skew, left=False)
            return rotations.expand(self.blocks, self.size, self.size)
        rotations, power = identity.expand(skew.shape[0], self.size, self.size), skew
        for n in range(1, self.terms):
            rotations = rotations + power * (1.0 if n == self.terms - 1 and n > 2 else 2.0)
            power = power @ skew
        return rotations.expand(self.blocks, self.size, self.size)

    def before(self, layer: Layer, x: Tensor) -> Tensor:
        """See Adapter."""
        rotations = self.rotations()
        parts = wide(x, rotations).reshape(-1, self.blocks, self.size).transpose(0, 1)
        turned = (parts @ rotations).transpose(0, 1).reshape(x.shape)
        return turned.to(x.dtype)

    def merged(self, layer: Layer, weight: Tensor, bias: Tensor | None) -> Weights:
        """See Adapter."""
        parts = weight.reshape(weight.shape[0], self.blocks, self.size).transpose(0, 1)
        turned = parts @ self.rotations().detach().transpose(1, 2)
        return turned.transpose(0, 1).reshape(weight.shape), bias


KINDS: dict[type[AdapterConfig], Mapping[tuple[type, ...], Callable[..., Adapter]]] = {
    AdaLoraConfig: {(nn.Linear,): AdaLora},
    HiraConfig: {(nn.Linear,): Hira},
    LoKrConfig: {(nn.Linear, nn.Conv1d, nn.Conv2d): LoKr},
    OFTConfig: {(nn.Linear,): Oft},
    VeraConfig: {(nn.Linear,): Vera},
}
