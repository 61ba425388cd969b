"""The embedding layer: rows of a table by integer index."""

from __future__ import annotations

from rushlight.core.functional.lookup import embedding
from rushlight.core.functional.network.layers import embedding_bag
from rushlight.core.nn import init
from rushlight.core.nn.module import Module, parameter
from rushlight.core.tensor.tensor import Tensor


class Embedding(Module):
    """A table of `num_embeddings` rows of `embedding_dim` numbers.

    Row `padding_idx` starts as zeros and is not learned.
    """

    _blocks = "table"

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None
    ) -> None:
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is not below {num_embeddings}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = parameter(num_embeddings, embedding_dim)

    def reset_parameters(self) -> None:
        """Normal numbers; zeros in the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Tensor) -> Tensor:
        """Integers (...) -> (..., embedding_dim)."""
        return embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Sizes, and the padding row."""
        pad = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{pad}"


class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a table; see `embedding_bag`."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, mode: str = "mean",
        include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> None:  # fmt: skip
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx
        self.weight = parameter(num_embeddings, embedding_dim)

    def reset_parameters(self) -> None:
        """Normal numbers."""
        init.normal_(self.weight)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Integers (n, k), or (count,) with offsets (n,) -> (n, embedding_dim)."""
        return embedding_bag(
            input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip
