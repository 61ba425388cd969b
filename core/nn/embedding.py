"""Embedding layers: rows of a table by integer index, one by one or in bags."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional.network.embedding import embedding, embedding_bag
from rushlight.core.nn import init
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.parameter import Parameter, parameter
from rushlight.core.tensor.tensor import Tensor


class _Rows(Module):
    """A table; sparse: its gradients hold the rows that were used."""

    weight: Parameter

    def _table(
        self,
        count: int,
        width: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale: bool,
        sparse: bool,
        weight: Tensor | None,
        device: Place,
        dtype: Kind,
    ) -> None:
        name = type(self).__name__
        if padding_idx is not None and not -count <= padding_idx < count:
            raise ValueError(f"{name}: padding_idx {padding_idx} is not below {count}")
        if weight is not None and weight.shape != (count, width):
            raise ValueError(f"{name}: _weight is {weight.shape}; it must be {(count, width)}")
        self.num_embeddings, self.embedding_dim = count, width
        self.padding_idx = None if padding_idx is None else padding_idx % count
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale, sparse
        if weight is not None:
            self.weight = Parameter(weight)
            return
        self.weight = parameter(count, width)
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Normal numbers; zeros in the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def _options(self) -> dict[str, Any]:
        names = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
        return {name: getattr(self, name) for name in names}

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        usual = (None, None, 2.0, False, False)
        rest = "".join(
            f", {name}={value}"
            for (name, value), default in zip(self._options().items(), usual, strict=True)
            if value != default
        )
        return f"{self.num_embeddings}, {self.embedding_dim}{rest}"


class Embedding(_Rows):
    """A table of `num_embeddings` rows of `embedding_dim` numbers.

    Row `padding_idx` starts as zeros and is not learned. The options are those of `embedding`.

    `max_norm`: rows that are used are scaled to this norm at most, of order `norm_type`.
    `scale_grad_by_freq` divides a row's gradient by its count in the batch. `sparse`: the
    gradient holds the used rows only. `device` and `dtype` are those of the parameters. Raises
    ValueError for a `padding_idx` outside the table. A call raises IndexError for an index that
    is no row.
    """

    _blocks = "table"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self._table(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            device,
            dtype,
        )
        if _freeze:
            self.weight.requires_grad_(False)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer over the rows of `embeddings`, (count, dim); freeze: they are not learned.

        Row `padding_idx` is not learned. `max_norm`: rows that are used are scaled to this
        norm at most, of order `norm_type`. `scale_grad_by_freq` divides a row's gradient by
        its count in the batch. `sparse`: the gradient holds the used rows only. Raises
        ValueError for `embeddings` of other than two dims, and for a `padding_idx` outside
        of them.
        """
        count, width = embeddings.shape
        return cls(
            count,
            width,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            embeddings,
            freeze,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Integers (...) -> (..., embedding_dim)."""
        return embedding(input, self.weight, **self._options())


class EmbeddingBag(_Rows):
    """Sums, means or maxima of rows of a table; see `embedding_bag`.

    `num_embeddings` rows of `embedding_dim` numbers. `mode`: "sum", "mean" or "max". Row
    `padding_idx` starts as zeros, and counts in no bag. `include_last_offset`: the last offset
    is the end of the last bag. `max_norm`: rows that are used are scaled to this norm at most,
    of order `norm_type`. `scale_grad_by_freq` divides a row's gradient by its count in the
    batch. `sparse`: the gradient holds the used rows only. `device` and `dtype` are those of
    the parameters. Raises ValueError for a `padding_idx` outside the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.mode, self.include_last_offset = mode, include_last_offset
        self._table(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            device,
            dtype,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer over the rows of `embeddings`, (count, dim); freeze: they are not learned.

        The other arguments, `padding_idx`, `mode`, `include_last_offset`, `max_norm`,
        `norm_type`, `scale_grad_by_freq` and `sparse`, are the layer's. Raises ValueError
        for `embeddings` of other than two dims, and for a `padding_idx` outside of them.
        """
        count, width = embeddings.shape
        bag = cls(
            count,
            width,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bag.weight.requires_grad_(not freeze)
        return bag

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Integers (n, k), or (count,) with offsets (n,) -> (n, embedding_dim).

        `input` holds rows' indices, `offsets` where each bag begins, `per_sample_weights`,
        of input's shape, a factor for each row (mode "sum" only). Raises ValueError for
        shapes that do not fit, IndexError for an index that is no row.
        """
        return embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            **self._options(),
        )

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        return f"{super().extra_repr()}, mode={self.mode!r}"
