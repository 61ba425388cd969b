"""What every kind of adapter on one layer is: its parameters, and how they change the layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import TransposedLinear

Weights = tuple[Tensor, Tensor | None]
Layer = Any  # a module with a weight, of one of the kinds that an adapter takes
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Factor(nn.Module):
    """One matrix of an adapter. It is no layer, so that `quantize_` leaves it as it is."""

    def __init__(self, shape: Sequence[int], bias: bool = False) -> None:
        self.weight = parameter(*shape)
        self.bias = parameter(shape[0]) if bias else None
        self._fill()

    def reset_parameters(self) -> None:
        """Zeros; the adapter sets what differs."""
        nn.init.zeros_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Adapter(nn.Module):
    """The parameters of one adapter on one layer, under PEFT's names.

    The layer calls `before` with its input and `after` with its input and its result; `merged`
    gives the weight and the bias that do the same without the adapter, in float32.
    """

    def before(self, layer: Layer, x: Tensor) -> Tensor:
        """What the layer reads in place of `x`."""
        return x

    def after(self, layer: Layer, x: Tensor, y: Tensor) -> Tensor:
        """What the layer gives in place of `y`."""
        return y

    def after_call(self, layer: Layer, args: tuple[Any, ...], y: Tensor) -> Tensor:
        """`after`, of all that the layer was called with."""
        return self.after(layer, args[0], y)

    def merged(self, layer: Layer, weight: Tensor, bias: Tensor | None) -> Weights:
        """The layer's weight, (out, in, ...) or as it lies, and bias, changed by the adapter."""
        raise NotImplementedError


def plain(weight: Tensor) -> Tensor:
    """The values of a weight in any storage dtype, in float32 or float64, without history."""
    values = weight.detach()
    values = values.dequantize() if values.dtype.kind == "q" else values
    return values if values.dtype.name == "float64" else values.to(float32)


def wide(x: Tensor, factor: Tensor) -> Tensor:
    """`x` in the factor's dtype, where that is wider: small products keep their precision."""
    return x.to(factor.dtype) if factor.dtype.itemsize > x.dtype.itemsize else x


def sizes(layer: Layer) -> tuple[int, int]:
    """(in, out) of a layer: features, channels, or rows and width of a table."""
    if isinstance(layer, CONVOLUTIONS):
        return layer.in_channels, layer.out_channels
    if isinstance(layer, nn.Embedding):
        return layer.num_embeddings, layer.embedding_dim
    rows, columns = layer.weight.shape
    return (rows, columns) if isinstance(layer, TransposedLinear) else (columns, rows)


def convolved(layer: Layer, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The convolution of `layer`, with another weight and without groups of its own."""
    copy: Any = object.__new__(type(layer))
    names = ("stride", "padding", "dilation", "padding_mode", "kernel_size")
    vars(copy).update({name: getattr(layer, name) for name in names})
    groups = layer.in_channels // weight.shape[1]
    vars(copy).update(weight=weight, bias=bias, groups=groups)
    out: Tensor = copy.forward(x)
    return out


def pointwise(layer: Layer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution of `layer`'s rank with a kernel of one element, in the layer's groups."""
    out: Tensor = type(layer).function(x, weight, bias, 1, 0, 1, layer.groups)
    return out


def matrix(t: Tensor) -> Tensor:
    """(out, ...) -> (out, n)."""
    return t.reshape(t.shape[0], -1)


def lengths(weight: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The Euclidean lengths over `dims`, which stay with size 1; without history."""
    norms: Tensor = ops.sqrt((weight.detach() ** 2).sum(dims, True))
    return norms


def core(t: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """t (r, r, k...), a (r, out), b (r, in) -> (out, in, k...)."""
    r, kernel = t.shape[0], t.shape[2:]
    inner = b.t() @ t.reshape(r, r, -1)  # (r, in, k)
    product: Tensor = a.t() @ inner.reshape(r, -1)
    return product.reshape(a.shape[1], b.shape[1], *kernel)
