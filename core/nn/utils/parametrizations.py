"""Weights as direction and size, of spectral norm one, or orthogonal: new and old spellings."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.functional.creation import eye, of_data
from rushlight.core.functional.linalg.products import householder_product, matrix_exp
from rushlight.core.functional.linalg.solving import solve
from rushlight.core.nn.module import Module
from rushlight.core.nn.parameter import Parameter
from rushlight.core.nn.utils.parametrize import register_parametrization, remove_parametrizations
from rushlight.core.ops.join import cat
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
            for to, matrix, vector in ((u, rows, v), (v, rows.T, u)):
                value = matrix @ vector
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


class _Orthogonal(Module):
    base: Any

    def __init__(self, map_: str, trivial: bool) -> None:
        self.map = map_
        if trivial:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        tall = x if x.shape[-2] >= x.shape[-1] else x.mT
        n, k = tall.shape[-2:]
        if self.map == "householder":
            below = tall.tril(-1)
            out = householder_product(below, 2 / (1 + below.square().sum(-2)))
            out = out * tall.detach().diagonal(0, -2, -1).sign().unsqueeze(-2)
        else:
            low = tall.tril()
            low = low if n == k else cat([low, low.new_zeros(*low.shape[:-1], n - k)], -1)
            skew = low - low.mT
            if self.map == "matrix_exp":
                out = matrix_exp(skew)
            else:  # Cayley's map
                identity = eye(n, dtype=x.dtype, device=x.device)
                out = solve(identity - skew / 2, identity + skew / 2)
            out = out[..., :k]
        if self._saved_buffers:
            out = self.base @ out
        return out if tall is x else out.mT

    def right_inverse(self, value: Tensor) -> Tensor:
        if not self._saved_buffers and self.map != "householder":
            raise NotImplementedError(
                f"orthogonal: assigning needs use_trivialization=True for {self.map}"
            )
        tall = value if value.shape[-2] >= value.shape[-1] else value.mT
        matrix = tall.detach().cpu().numpy()
        if not self._saved_buffers:
            reflectors, _ = _reflectors(matrix)
            reflected = of_data(reflectors, dtype=value.dtype, device=value.device)
            return reflected if tall is value else reflected.mT
        n, k = matrix.shape[-2:]
        if n > k:
            more = randn(*matrix.shape[:-1], n - k, dtype=tall.dtype).numpy()
            matrix = np.concatenate([matrix, more], -1)
        eps = 10 * n * np.finfo(matrix.dtype).eps
        if n > k or np.abs(np.swapaxes(matrix, -1, -2) @ matrix - np.eye(n)).max(initial=0) > eps:
            q, r = np.linalg.qr(matrix)
            matrix = q * np.sign(np.diagonal(r, 0, -2, -1))[..., None, :]
        self.base = of_data(matrix, dtype=value.dtype, device=value.device)
        # Every map makes the identity of this.
        identity = -eye(*value.shape[-2:], dtype=value.dtype, device=value.device)
        return identity.expand(*value.shape).clone()


def _reflectors(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Any]:
    """Householder vectors below the diagonal of matrices, whose product is Q; on it, signs."""
    raw, tau = np.linalg.qr(values, mode="raw")
    vectors = np.swapaxes(raw, -1, -2).copy()
    diagonal = np.arange(vectors.shape[-1])
    vectors[..., diagonal, diagonal] = np.sign(vectors[..., diagonal, diagonal]) * np.where(
        tau == 0, -1, 1
    )
    return vectors, tau


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix, or a batch of them, orthogonal (Lezcano-Casado, 2019).

    orthogonal_map: "matrix_exp" (for square ones by default), "cayley" or "householder".
    use_trivialization: the map is taken from the present value on. ValueError for another map, and
    for an attribute that is no matrix.

    `module` has the attribute `name`; it is returned.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        raise ValueError(f"orthogonal: {type(module).__name__} has no matrix {name!r}")
    usual = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    chosen = orthogonal_map or usual
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f"orthogonal: orthogonal_map {chosen!r} is not supported; supported: "
            "matrix_exp, cayley, householder"
        )
    parametrization = _Orthogonal(chosen, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the weight's norm along `dim` apart from its direction (Salimans and Kingma, 2016).

    `module` has the attribute `name`; it is returned. Raises ValueError where there is no such
    parameter.
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide the weight by its largest singular value, by power iteration (Miyato et al., 2018).

    `module` has the attribute `name`; it is returned. `n_power_iterations` are made in each forward
    in training, `eps` keeps norms from zero, `dim` has the outputs: 1 of transposed convolutions,
    else 0. Raises AttributeError where there is no such parameter.
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    weight = getattr(module, name)
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps)
    )


def old_weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """`weight_norm` with the parameters `weight_g` and `weight_v`, set before each forward.

    `module` has the attribute `name`; it is returned. `dim` is that of the norms. Raises
    AttributeError where there is no such parameter.
    """
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
    for suffix in ("", "_g", "_v"):
        delattr(module, name + suffix)
    setattr(module, name, Parameter(value.detach()))
    return module


def old_spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """`spectral_norm` with the parameter `weight_orig` and the buffers `weight_u` and `weight_v`.

    The weight is set before each forward. Source: PyTorch's documentation of the older form.

    `module` has the attribute `name`; it is returned. `n_power_iterations` are made in each forward
    in training, `eps` keeps norms from zero, `dim` has the outputs. Raises ValueError for no
    iterations, AttributeError where there is no such parameter.
    """
    if n_power_iterations <= 0:
        raise ValueError(
            f"spectral_norm: n_power_iterations is {n_power_iterations}; it must be positive"
        )
    transposed = type(module).__name__.startswith("ConvTranspose")
    axis = int(transposed) if dim is None else dim
    weight = getattr(module, name)
    norm = _SpectralNorm(weight, 0, axis, eps)
    delattr(module, name)
    setattr(module, f"{name}_orig", Parameter(weight.detach()))
    with autograd.no_grad():
        rows = norm._rows(weight.detach()) if weight.ndim > 1 else weight.detach().reshape(-1, 1)
        for letter, n in (("u", rows.shape[0]), ("v", rows.shape[1])):
            value = randn(n, dtype=weight.dtype, device=weight.device)
            module.register_buffer(f"{name}_{letter}", value / value.norm().clamp(min=eps))
    setattr(module, name, weight.detach())

    def compute(layer: Module, args: Any = None) -> None:
        original = getattr(layer, f"{name}_orig")
        u, v = getattr(layer, f"{name}_u"), getattr(layer, f"{name}_v")
        table = norm._rows(original) if original.ndim > 1 else original.reshape(-1, 1)
        if layer.training:
            with autograd.no_grad():
                fixed = table.detach()
                for _ in range(n_power_iterations):
                    for to, matrix, vector in ((v, fixed.T, u), (u, fixed, v)):
                        value = matrix @ vector
                        to.copy_(value / value.norm().clamp(min=eps))
        u, v = u.clone(), v.clone()
        setattr(layer, name, original / (u * (table @ v)).sum())

    handle = module.register_forward_pre_hook(compute)
    vars(module)[f"_{name}_spectral"] = handle, compute
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a plain parameter again, after either `spectral_norm`."""
    if f"_{name}_spectral" not in vars(module):
        return remove_parametrizations(module, name)
    handle, compute = vars(module).pop(f"_{name}_spectral")
    handle.remove()
    mode, module.training = module.training, False
    with autograd.no_grad():
        compute(module)
    module.training = mode
    value = getattr(module, name).detach()
    saved_names = module._saved_buffers
    rest = {n: saved for n, saved in saved_names.items() if n not in (f"{name}_u", f"{name}_v")}
    for suffix in ("", "_orig", "_u", "_v"):
        delattr(module, name + suffix)
    object.__setattr__(module, "_saved_buffers", rest)
    setattr(module, name, Parameter(value))
    return module
