"""What an op's rules are given: shapes and dtypes of values, attributes, saved values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout, Shape

Uses = int | str  # the index of an input, or "out"


class Meta:
    """Shape and dtype of a value without the value: arguments and result of `infer`."""

    __slots__ = ("dtype", "layout")

    def __init__(self, dtype: DType, layout: Layout) -> None:
        self.dtype = dtype
        self.layout = layout

    @property
    def shape(self) -> Shape:
        """Sizes of the dims."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.layout.shape)

    def numel(self) -> int:
        """Number of elements."""
        return self.layout.numel

    def fresh(self, shape: Sequence[int] | None = None, dtype: DType | None = None) -> Meta:
        """A new contiguous Meta; shape and dtype default to this one's."""
        layout = Layout.contiguous(self.shape if shape is None else shape)
        return Meta(dtype or self.dtype, layout)


@dataclass(frozen=True, slots=True)
class Context:
    """A gradient rule's first argument: the op's attributes, shapes and dtypes."""

    attrs: Mapping[str, Any]
    inputs: tuple[Meta | None, ...]
    out: Meta
    needs: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A gradient rule: `fn(context, grad, *saved)`, and the values to save for it."""

    fn: Callable[..., Any]
    uses: tuple[Uses, ...] = ()


def rule(fn: Callable[..., Any], *uses: Uses) -> Rule:
    """A gradient rule that uses the inputs with these indices, or "out", the op's result."""
    return Rule(fn, uses)
