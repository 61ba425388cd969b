"""What comes before a language model's head, and a head that has a bias alone."""

from __future__ import annotations

from rushlight.core import nn, ops
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor


class HeadBias(nn.Module):
    """The bias of a head whose weight is the embedding's."""

    def __init__(self, vocab: int) -> None:
        self.bias = parameter(vocab)

    def reset_parameters(self) -> None:
        """Zeros."""
        init.zeros_(self.bias)


def last_hidden(x: Tensor, keep: int, lengths: Tensor | None) -> Tensor:
    """The hidden states of the last `keep` tokens, (batch, keep, width); 0 keeps all."""
    if not keep:
        return x
    if lengths is None:
        return x[:, -keep:]
    # (batch,) -> (batch, keep, width)
    at = (lengths.unsqueeze(1) + ops.arange(-keep, 0, device=x.device)).clamp(min=0)
    return x.gather(1, at.unsqueeze(-1).expand(x.shape[0], keep, x.shape[2]))
