"""Weights as direction and size, and weights of spectral norm one: new and old spellings."""

from __future__ import annotations

from typing import Any

from rushlight.core.nn.module import Module
from rushlight.core.nn.parameter import Parameter
from rushlight.core.nn.utils.parametrize import register_parametrization, remove_parametrizations
from rushlight.core.ops.random import randn
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor


def _norm(v: Tensor, dim: int | None) -> Tensor:
    """The norm over all dims but `dim`, or over all."""
    if dim is None or dim == -1:
        return v.square().sum().sqrt()
    rest = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return v.square().sum(rest, keepdim=True).sqrt()


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        self.dim = dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return v * (g / _norm(v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return _norm(weight, self.dim), weight


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Tensor, rounds: int, dim: int, eps: float) -> None:
        self.n_power_iterations, self.dim, self.eps = rounds, dim % max(weight.ndim, 1), eps
        if weight.ndim > 1:
            with autograd.no_grad():
                rows = self._rows(weight.detach())
                for name, size in zip(("_u", "_v"), rows.shape, strict=True):
                    draw = randn(size, device=weight.device).to(weight.dtype)
                    self.register_buffer(name, draw / draw.norm())
                self._iterate(rows, 15)

    def _rows(self, weight: Tensor) -> Tensor:
        return weight.transpose(0, self.dim).reshape(weight.shape[self.dim], -1)

    def _iterate(self, rows: Tensor, rounds: int) -> None:
        u, v = self._u, self._v
        for _ in range(rounds):
            for to, matrix, given in ((u, rows, v), (v, rows.T, u)):
                value = matrix @ given
                to.copy_(value / value.norm().clamp(min=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return weight / weight.norm().clamp(min=self.eps)
        rows = self._rows(weight)
        if self.training:
            with autograd.no_grad():
                self._iterate(rows.detach(), self.n_power_iterations)
        u, v = self._u, self._v
        out: Tensor = weight / (u.clone() * (rows @ v.clone())).sum()
        return out

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the weight's norm along `dim` apart from its direction (Salimans and Kingma, 2016)."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:  # fmt: skip
    """Divide the weight by its largest singular value, by power iteration (Miyato et al., 2018)."""
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    weight = getattr(module, name)
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps)
    )


def old_weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """`weight_norm` with the parameters `weight_g` and `weight_v`, set before each forward."""
    weight, norm = getattr(module, name), _WeightNorm(dim)
    delattr(module, name)
    with autograd.no_grad():
        g, v = norm.right_inverse(weight.detach())
    setattr(module, f"{name}_g", Parameter(g))
    setattr(module, f"{name}_v", Parameter(v))

    def compute(layer: Module, args: Any = None) -> None:
        setattr(layer, name, norm(getattr(layer, f"{name}_g"), getattr(layer, f"{name}_v")))

    compute(module)
    handle = module.register_forward_pre_hook(compute)
    vars(module)[f"_{name}_norm"] = handle, norm
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a plain parameter again, after either `weight_norm`."""
    if f"_{name}_norm" not in vars(module):
        return remove_parametrizations(module, name)
    handle, norm = vars(module).pop(f"_{name}_norm")
    handle.remove()
    with autograd.no_grad():
        value = norm(getattr(module, f"{name}_g"), getattr(module, f"{name}_v"))
    for part in ("", "_g", "_v"):
        delattr(module, name + part)
    setattr(module, name, Parameter(value.detach()))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a plain parameter again."""
    return remove_parametrizations(module, name)
