"""Layers without weights: activations, dropout, identity, flatten."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core import ops
from rushlight.core.functional.network.activations import before, done
from rushlight.core.functional.network.dropout import dropout
from rushlight.core.functional.shape import flatten, unflatten
from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor


class _Inplace(Module):
    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Whether the input is overwritten."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as input."""
        return done(input, ops.relu(input), self.inplace)


class GELU(Module):
    """x times the normal distribution function of x; approximate: "none" (erf) or "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as input."""
        return ops.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The formula."""
        return f"approximate={self.approximate!r}"


class SiLU(_Inplace):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as input."""
        return done(input, ops.silu(before(input, self.inplace)), self.inplace)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as input."""
        return ops.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as input."""
        return ops.sigmoid(input)


class Softmax(Module):
    """exp(x) along `dim`, scaled to sum to one."""

    def __init__(self, dim: int | None = None) -> None:
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as input."""
        return ops.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """The dim."""
        return f"dim={self.dim}"


class Dropout(Module):
    """In training, zeros each element with probability `p` and scales the others by 1/(1-p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p is {p}; it must be from 0 to 1")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as input; input itself in eval mode."""
        return done(input, dropout(input, self.p, self.training), self.inplace)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Identity(Module):
    """Returns its input; the constructor ignores its arguments, as in torch."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """input itself."""
        return input


class Flatten(Module):
    """Joins the dims start_dim to end_dim into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """A view of input if its layout allows, else a copy."""
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dims."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Parts `dim` into several of these sizes; one may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """A view of the input if its layout allows, else a copy."""
        return unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dim and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Softmax2d(Module):
    """Softmax over the channels of (n, c, h, w) or (c, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape as the input; ValueError for other numbers of dims."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: input is {input.shape}; it must have 3 or 4 dims")
        return ops.softmax(input, -3)
