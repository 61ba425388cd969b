"""How likely a language model finds a text, token by token, and its hidden states."""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import linear_mode
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import int64
from rushlight.core.ops.attention import attention_weights
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.session import longest_part

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM


@dataclass(frozen=True)
class Scores:
    """The tokens of a text and the logarithm of each one's probability after those before it.

    The very first token of all has none before it, and is not among them.
    """

    ids: list[int]
    logprobs: list[float]

    @property
    def total(self) -> float:
        """The logarithm of the text's probability."""
        return float(np.sum(self.logprobs))

    @property
    def perplexity(self) -> float:
        """exp of the mean of -log p; NaN without tokens."""
        return float(np.exp(-np.mean(self.logprobs))) if self.logprobs else float("nan")


ScoreSteps = Steps[Readback[Any], Any, Scores]


def scored(
    model: CausalLM,
    text: str | Sequence[int],
    prompt: str | Sequence[int] | None,
    linear: str,
    cache_type: str,
) -> ScoreSteps:
    """The steps of `CausalLM.score`: readbacks, whose values the caller sends."""
    if prompt is None:
        ids, first = model.prompt_ids(text), 1
    else:
        before = model.prompt_ids(prompt)
        after = (
            model.encode_text(text, add_special_tokens=False)
            if isinstance(text, str)
            else model.prompt_ids(text)
        )
        ids, first = [*before, *after], len(before)
    if len(ids) > model.context_length:
        raise ValueError(
            f"score: the text has {len(ids)} tokens, the context holds {model.context_length}; "
            "score it in parts"
        )
    cache = model.new_cache(1, cache_type)
    size, logs = longest_part(cache), []
    cache.expect([len(ids)])
    if model.reads_at_once or model.rotary.jumps(0, len(ids)):
        size = len(ids)
    for start in range(0, len(ids) - 1, size):
        part = ids[start : min(start + size, len(ids) - 1)]
        after_each = from_numpy(np.array(ids[start + 1 : start + 1 + len(part)], np.int64))
        with autograd.no_grad(), linear_mode(linear):
            given = tensor([part], dtype=int64, device=model.device)
            rows = model(given, cache)[0].float().log_softmax(-1)
            chosen = rows.gather(1, after_each.to(model.device).unsqueeze(1))
        values: Array = yield chosen[:, 0].contiguous().readback()
        logs += values.tolist()
    return Scores(ids[first:], logs[first - 1 :])


def hidden_states(model: Any, ids: Tensor) -> list[Tensor]:
    """The hidden states (batch, length, width) before each layer, and the last ones.

    They are those of transformers' output_hidden_states: the last are what the head reads. ids:
    (batch, length) int64. ValueError for a model without a stack of layers.
    """
    spec: Any = getattr(model, "spec", None)
    if not hasattr(model, "hidden") or not hasattr(spec, "names"):
        raise ValueError(f"hidden_states: {model.config.model_type} does not give hidden states")
    states: list[Tensor] = []

    def before(module: Any, given: Any) -> None:
        states.append(given[0])

    layers = model.get_submodule(f"{spec.names.base}.{spec.names.layers}".lstrip("."))
    hooks = [layer.register_forward_pre_hook(before) for layer in layers]
    try:
        last: Tensor = model.hidden(ids)
        return [*states, last]
    finally:
        for hook in hooks:
            hook.remove()


def attentions(model: Any, ids: Tensor) -> list[Tensor]:
    """The weights (batch, heads, length, length) of each layer that attends, the first layer first.

    They are those of transformers' output_attentions. ids: (batch, length) int64. ValueError for a
    model that does not attend by `ops.attention`, as recurrent ones.
    """
    with autograd.no_grad(), attention_weights() as weights:
        if hasattr(model, "hidden"):
            model.hidden(ids)
    if not weights:
        raise ValueError(f"attentions: {model.config.model_type} gives no attention weights")
    return weights
