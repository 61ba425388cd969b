"""The simpler simple recurrent unit (Kim et al., 2019), in place of a decoder's self-attention."""

from __future__ import annotations

from rushlight.core import nn
from rushlight.core.functional.network.state_space import linear_recurrence
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache


class SSRU(nn.Module):
    """relu(c[t]), where c[t] = f c[t - 1] + (1 - f) W x[t], and f is a gate of x[t]."""

    def __init__(self, width: int) -> None:
        self.candidate = nn.Linear(width, width, bias=False)
        self.forget = nn.Linear(width, width)

    def forward(self, x: Tensor, cache: Cache | None, layer: int) -> Tensor:
        """(batch, length, width) -> the same, after the state that the cache holds."""
        keep = self.forget(x).sigmoid().float()
        new = (1 - keep) * self.candidate(x).float()
        state = None if cache is None else cache.state(layer)[0]
        states = linear_recurrence(keep, new, state)
        if cache is not None:
            cache.set_state(layer, states[:, -1])
        return states.relu().to(x.dtype)
