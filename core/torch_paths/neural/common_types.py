"""torch.nn.common_types: what layers take for sizes, for annotations."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor.tensor import Tensor

_scalar_or_tuple_any_t = Any | tuple[Any, ...]
_scalar_or_tuple_1_t = Any | tuple[Any]
_scalar_or_tuple_2_t = Any | tuple[Any, Any]
_scalar_or_tuple_3_t = Any | tuple[Any, Any, Any]
_scalar_or_tuple_4_t = Any | tuple[Any, Any, Any, Any]
_scalar_or_tuple_5_t = Any | tuple[Any, Any, Any, Any, Any]
_scalar_or_tuple_6_t = Any | tuple[Any, Any, Any, Any, Any, Any]
_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_4_t = int | tuple[int, int, int, int]
_size_5_t = int | tuple[int, int, int, int, int]
_size_6_t = int | tuple[int, int, int, int, int, int]
_size_any_opt_t = int | None | tuple[int | None, ...]
_size_2_opt_t = int | None | tuple[int | None, int | None]
_size_3_opt_t = int | None | tuple[int | None, int | None, int | None]
_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_ratio_any_t = float | tuple[float, ...]
_tensor_list_t = Tensor | tuple[Tensor, ...]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
