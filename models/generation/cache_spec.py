"""The kinds of state that a layer may ask the cache to keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KeysAndValues:
    """Keys and values of `heads` heads; window: the number of tokens that one may attend to."""

    heads: int
    features: int
    value_features: int | None = None
    window: int | None = None

    @property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """(heads, features) of each cached tensor."""
        return (self.heads, self.features), (self.heads, self.value_features or self.features)


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
