"""The kinds of state that a layer may ask the cache to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.core.basis.packed import BLOCK


@dataclass(frozen=True)
class KeysAndValues:
    """Keys and values of `heads` heads; window: the number of tokens that one may attend to.

    No heads: the layer reads what another one keeps. index: features of a further key per token, by
    which blocks of keys are chosen.
    """

    heads: int
    features: int
    value_features: int | None = None
    window: int | None = None
    index: int = 0

    @property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """(heads, features) of each cached tensor."""
        if not self.heads:
            return ()
        both = (self.heads, self.features), (self.heads, self.value_features or self.features)
        return (*both, (1, self.index)) if self.index else both


@dataclass(frozen=True)
class Latent:
    """Compressed keys and values: per token, rows of these sizes, shared by all heads."""

    features: tuple[int, ...]
    window: int | None = None

    @property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """(heads, features) of each cached tensor."""
        return tuple((1, n) for n in self.features)


@dataclass(frozen=True)
class State:
    """A recurrent state: tensors (batch, *shape) that summarize all tokens; zeros at first."""

    shapes: tuple[tuple[int, ...], ...]


CacheSpec = KeysAndValues | Latent | State


def check_packed(specs: Sequence[CacheSpec]) -> None:
    """Raise ValueError if q8_0 cannot hold what a layer keeps."""
    for i, spec in enumerate(specs):
        if isinstance(spec, State):
            continue
        if not isinstance(spec, KeysAndValues):
            raise ValueError(
                f"cache: layer {i} keeps compressed keys and values, which q8_0 does not hold; "
                'use "float16" or "float32"'
            )
        for _, features in spec.rows:
            if features % BLOCK:
                raise ValueError(
                    f"cache: layer {i} has {features} features per head, q8_0 holds multiples of "
                    f'{BLOCK}; use "float16" or "float32"'
                )
