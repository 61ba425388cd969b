"""Classes that torch's layers derive from: to be derived from, and asked for with isinstance.

Layers here have bases of their own, so isinstance asks a list of them.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor


class _Family(type):
    """A class whose instances are also those of `members`."""

    members: tuple[type, ...] = ()

    def __instancecheck__(cls, value: object) -> bool:
        return super().__instancecheck__(value) or isinstance(value, cls.members)

    def __subclasscheck__(cls, kind: type) -> bool:
        return super().__subclasscheck__(kind) or issubclass(kind, cls.members)


def _layers(*ends: str) -> tuple[type, ...]:
    """The layers of rl.nn whose names end so."""
    return tuple(getattr(nn, name) for name in nn.__all__ if name.endswith(ends))


class _Loss(Module, metaclass=_Family):
    """A loss with `reduction`: "none", "mean" or "sum"."""

    members = _layers("Loss", "Loss2d")
    reduction: str

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduces = reduce is None or reduce
            mean = size_average is None or size_average
            reduction = ("mean" if mean else "sum") if reduces else "none"
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight for each class."""

    members = (
        nn.BCELoss,
        nn.BCEWithLogitsLoss,
        nn.CrossEntropyLoss,
        nn.MultiLabelSoftMarginLoss,
        nn.MultiMarginLoss,
        nn.NLLLoss,
    )

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _DropoutNd(Module, metaclass=_Family):
    """A layer that drops values with probability p."""

    members = _layers("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout: p is {p}; it must be between 0 and 1")
        self.p, self.inplace = p, inplace


class _MaxPoolNd(Module, metaclass=_Family):
    """A layer that takes the maximum of windows."""

    members = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


class _AvgPoolNd(Module, metaclass=_Family):
    """A layer that takes the mean of windows."""

    members = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)


class _AdaptiveAvgPoolNd(Module, metaclass=_Family):
    """A layer that takes means to a size."""

    members = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)


class _AdaptiveMaxPoolNd(Module, metaclass=_Family):
    """A layer that takes maxima to a size."""

    members = (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)


def _addindent(s_: str, num_spaces: int) -> str:
    """The text with all lines but the first moved in."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(" " * num_spaces + line for line in rest)])
