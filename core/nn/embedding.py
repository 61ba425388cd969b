"""The embedding layer: rows of a table by integer index."""

from __future__ import annotations

from typing import Any

from rushlight.core import ops
from rushlight.core.functional.lookup import embedding
from rushlight.core.functional.network.layers import embedding_bag
from rushlight.core.nn import init
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.parameter import Parameter, parameter
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor


class _Rows(Module):
    num_embeddings: int
    embedding_dim: int
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: Parameter


def _table(
    layer: _Rows, count: int, width: int, max_norm: float | None, norm_type: float, scale: bool,
    sparse: bool, weight: Tensor | None, device: Place, dtype: Kind,
) -> None:  # fmt: skip
    if sparse:
        raise NotImplementedError(
            f"{type(layer).__name__}: sparse gradients are not supported; leave out sparse=True"
        )
    if weight is not None and weight.shape != (count, width):
        raise ValueError(
            f"{type(layer).__name__}: _weight is {weight.shape}; it must be {(count, width)}"
        )
    layer.num_embeddings, layer.embedding_dim = count, width
    layer.max_norm, layer.norm_type, layer.scale_grad_by_freq = max_norm, norm_type, scale
    if weight is not None:
        layer.weight = Parameter(weight)
        return
    layer.weight = parameter(count, width)
    layer._fill(device, dtype)


def _limit(layer: _Rows, index: Tensor) -> None:
    """Scale the rows that are used to a norm of at most `max_norm`, in place."""
    if layer.max_norm is None:
        return
    weight = layer.weight.detach()
    with autograd.no_grad():
        norms = weight.norm(layer.norm_type, -1)
        flat = index.reshape(-1)
        used = ops.zeros(norms.shape, device=norms.device).index_add(
            0, flat, ops.ones(flat.shape, device=norms.device)
        )
        long = (used > 0) & (norms > layer.max_norm)
        scale = (layer.max_norm / (norms + 1e-7)).where(long, 1.0)
        weight.mul_(scale.unsqueeze(-1).to(weight.dtype))


class Embedding(_Rows):
    """A table of `num_embeddings` rows of `embedding_dim` numbers.

    Row `padding_idx` starts as zeros and is not learned.
    """

    _blocks = "table"

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: Place = None, dtype: Kind = None,
    ) -> None:  # fmt: skip
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is not below {num_embeddings}")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        _table(self, num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq,
               sparse, _weight, device, dtype)  # fmt: skip
        if _freeze:
            self.weight.requires_grad_(False)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Embedding:
        """A layer over the rows of `embeddings`, (count, dim); freeze: they are not learned."""
        count, width = embeddings.shape
        return cls(count, width, padding_idx, _weight=embeddings, _freeze=freeze, **options)

    def reset_parameters(self) -> None:
        """Normal numbers; zeros in the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Tensor) -> Tensor:
        """Integers (...) -> (..., embedding_dim)."""
        _limit(self, input)
        rows = embedding(input, self.weight, self.padding_idx)
        if self.scale_grad_by_freq and rows.requires_grad:
            count = ops.zeros((self.num_embeddings,), device=input.device)
            flat = input.reshape(-1)
            count = count.index_add(0, flat, ops.ones(flat.shape, device=input.device))
            times = count.index_select(0, flat).reshape(*input.shape, 1).to(rows.dtype)
            rows = rows.detach() + (rows - rows.detach()) / times
        return rows

    def extra_repr(self) -> str:
        """Sizes, and the padding row."""
        pad = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{pad}"


class EmbeddingBag(_Rows):
    """Sums, means or maxima of rows of a table; see `embedding_bag`."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: Place = None, dtype: Kind = None,
    ) -> None:  # fmt: skip
        if scale_grad_by_freq:
            raise NotImplementedError("EmbeddingBag: scale_grad_by_freq is not supported")
        self.mode, self.include_last_offset = mode, include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        _table(self, num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq,
               sparse, _weight, device, dtype)  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """A layer over the rows of `embeddings`, (count, dim); freeze: they are not learned."""
        count, width = embeddings.shape
        made = cls(count, width, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
                   embeddings, include_last_offset, padding_idx)  # fmt: skip
        made.weight.requires_grad_(not freeze)
        return made

    def reset_parameters(self) -> None:
        """Normal numbers; zeros in the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Integers (n, k), or (count,) with offsets (n,) -> (n, embedding_dim)."""
        _limit(self, input)
        return embedding_bag(
            input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip
