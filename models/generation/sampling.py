"""Sampling: the options, and the published rules that choose the next token from logits.

The rules apply in this order: logit bias; repetition penalty (Keskar et al., 2019); frequency and
presence penalties (as in OpenAI's API); token mask; temperature; top-k (Fan et al., 2018); top-p
(Holtzman et al., 2019); min-p (Nguyen et al., 2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import Device
from rushlight.core.basis.dtype import bool_
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]

# The dtypes of a cache that generation takes.
CACHE_TYPES = ("float32", "float16", "q8_0")


@dataclass(frozen=True)
class Options:
    """How to choose tokens and when to stop; ValueError or TypeError for an invalid option.

    temperature 0 is greedy. top_k 0, top_p 1 and min_p 0 keep all tokens. logit_bias: a number
    added to the logit, by token id. token_mask: a boolean per token, false for forbidden ones. If
    it is a tensor on the model's device, the caller may write to it between two tokens: the next
    token obeys it, and no step is computed ahead. stop: text that ends the answer and is not part
    of it. overflow: "error" raises if the context is full, "shift" drops the oldest half. linear:
    the mode of products with quantized weights, see `rl.set_linear_mode`. cache_type: the dtype of
    cached keys and values; float16 takes half of float32's memory and q8_0 about a quarter.
    response_format: the form of the answer, see `constrained.formats.form_of`.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    token_mask: Tensor | Sequence[bool] | Array | None = field(default=None, compare=False)
    seed: int | None = None
    stop: str | Sequence[str] = ()
    response_format: Any = field(default=None, compare=False)
    overflow: str = "error"
    linear: str = "fast"
    cache_type: str = "float32"

    def __post_init__(self) -> None:
        _whole("max_new_tokens", self.max_new_tokens, 1)
        _whole("top_k", self.top_k, 0)
        _within("temperature", self.temperature, 0, 1e6)
        _within("top_p", self.top_p, 0, 1, open_low=True)
        _within("min_p", self.min_p, 0, 1)
        _within("repetition_penalty", self.repetition_penalty, 0, 1e6, open_low=True)
        _within("frequency_penalty", self.frequency_penalty, -1e6, 1e6)
        _within("presence_penalty", self.presence_penalty, -1e6, 1e6)
        if self.seed is not None:
            _whole("seed", self.seed, 0)
        if any(not isinstance(s, str) or not s for s in self.stops):
            raise ValueError(f"generate: stop is {self.stop!r}; each must be a non-empty text")
        if self.linear not in ("exact", "fast"):
            raise ValueError(f'generate: linear is {self.linear!r}; it must be "exact" or "fast"')
        if self.cache_type not in CACHE_TYPES:
            raise ValueError(
                f"generate: cache_type is {self.cache_type!r}; it must be one of "
                f"{', '.join(CACHE_TYPES)}"
            )
        if self.overflow not in ("error", "shift"):
            raise ValueError(
                f'generate: overflow is {self.overflow!r}; it must be "error" or "shift"'
            )

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"generate: {name} is {value!r}; it must be a whole number")
    if value < least:
        raise ValueError(f"generate: {name} is {value}; it must be at least {least}")


def _within(name: str, value: Any, low: float, high: float, *, open_low: bool = False) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"generate: {name} is {value!r}; it must be a number")
    if not low <= value <= high or (open_low and value == low) or math.isnan(value):
        raise ValueError(f"generate: {name} is {value}; it must be from {low} to {high}")


def checked(options: Options, vocab: int, device: Device) -> None:
    """Raise TypeError or ValueError if a bias or mask does not fit the model's vocabulary."""
    bad = [i for i in options.logit_bias if not 0 <= i < vocab]
    if bad:
        raise ValueError(f"generate: logit_bias names token {bad[0]}; the vocabulary has {vocab}")
    mask = options.token_mask
    if mask is None:
        return
    place = mask.device if isinstance(mask, Tensor) else device
    truths = mask if isinstance(mask, Tensor) else np.asarray(mask)
    if truths.dtype not in (bool_, np.bool_):
        raise TypeError("generate: token_mask must hold a boolean for each token")
    if truths.shape != (vocab,):
        raise ValueError(
            f"generate: token_mask is {tuple(truths.shape)}; it must be ({vocab},), a boolean "
            "for each token"
        )
    if place is not device:
        raise ValueError(f"generate: token_mask is on {place}, the model is on {device}")
