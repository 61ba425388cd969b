"""A language model's head: its parameters, what comes before it, and logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import LoadError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm


@dataclass(frozen=True)
class HeadTransform:
    """norm(act(dense(x))) before the head: names of both parts, and whether dense has a bias."""

    dense: str
    norm: str
    activation: str = "gelu"
    bias: bool = False

    def __post_init__(self) -> None:
        choose("classifier_activation", self.activation, tuple(ACTIVATIONS))


class HeadBias(nn.Module):
    """The bias of a head whose weight is the embedding's."""

    def __init__(self, vocab: int) -> None:
        self.bias = parameter(vocab)

    def reset_parameters(self) -> None:
        """Zeros."""
        init.zeros_(self.bias)


@nn.layers_on("meta")
def put_head(model: Any) -> None:
    """Put the head that a decoder's `spec` tells into it, and what may be stored beside it."""
    spec, names = model.spec, model.spec.names
    model.duplicates = {}
    if (transform := spec.transform) is not None and not spec.headless:
        put(model, transform.dense, nn.Linear(spec.width, spec.width, bias=transform.bias))
        put(model, transform.norm, make_norm(spec.width, spec.norm))
    model.headless = f"{names.head}.weight" if spec.headless else ""
    if spec.tied:
        table = f"{names.base}.{names.embedding}.weight".lstrip(".")
        model.duplicates = {f"{names.head}.weight": table}
        if spec.head_bias:
            put(model, names.head, HeadBias(spec.vocab))
    elif not spec.headless:
        inside = spec.embedding_width or spec.width
        put(model, names.head, nn.Linear(inside, spec.head_rows or spec.vocab, bias=spec.head_bias))


def logits_of(model: Any, hidden: Tensor) -> Tensor:
    """(..., width) -> (..., vocab) by a decoder's head, or by its embedding if they are tied."""
    spec, names = model.spec, model.spec.names
    if spec.headless:
        raise LoadError(
            f"{model.config.model_type}: the checkpoint has no {names.head}.weight, so there are "
            "no logits",
            hint="load a checkpoint that was saved with its head",
        )
    if (transform := spec.transform) is not None:
        act = ACTIVATIONS[transform.activation]
        hidden = act(model.get_submodule(transform.dense)(hidden))
        hidden = model.get_submodule(transform.norm)(hidden)
    if spec.tied:
        head: Any = model.get_submodule(names.head) if spec.head_bias else None
        weight = model.get_submodule(f"{names.base}.{names.embedding}".lstrip(".")).weight
        if hidden.device is not weight.device:  # the layers lie on several devices
            hidden = hidden.to(device=weight.device)
        out = ops.linear(hidden, weight, None if head is None else head.bias)
    else:
        out = model.get_submodule(names.head)(hidden)
    if spec.logits_scale != 1:
        out = out * spec.logits_scale
    cap = spec.logits_softcap
    return out if cap is None else (out / cap).tanh() * cap


def last_hidden(x: Tensor, keep: int, lengths: Tensor | None) -> Tensor:
    """The hidden states of the last `keep` tokens, (batch, keep, width); 0 keeps all."""
    if not keep:
        return x
    if lengths is None:
        return x[:, -keep:]
    # (batch,) -> (batch, keep, width)
    lengths = lengths.to(device=x.device)
    positions = (lengths.unsqueeze(1) + ops.arange(-keep, 0, device=x.device)).clamp(min=0)
    return x.gather(1, positions.unsqueeze(-1).expand(x.shape[0], keep, x.shape[2]))
