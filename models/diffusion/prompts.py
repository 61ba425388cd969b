"""Prompts: weights of words, written (word:1.2), and texts longer than an encoder's context."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import int64
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.text.clip import ClipText, TextStates, framed, ids_of

_UP, _DOWN = 1.1, 1 / 1.1
_TOKENS = re.compile(
    r"\\[()\[\]\\]|\(|\[|:\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*\)|\)|\]|[^\\()\[\]:]+|:|\\"
)
_MOST = 32  # windows of a prompt


def weighted(prompt: str) -> list[tuple[str, float]]:
    """The pieces of a prompt with their weights.

    (words) have 1.1 times the weight, (words:1.5) the number's, [words] 1/1.1 of it; brackets may
    lie in each other, and a backslash before one makes it a letter. ValueError for a weight that
    is no number above 0 and at most 10.
    """
    pieces: list[list[Any]] = []
    round_open: list[int] = []
    square_open: list[int] = []

    def scale(first: int, factor: float) -> None:
        for piece in pieces[first:]:
            piece[1] *= factor

    for match in _TOKENS.finditer(prompt):
        text, number = match[0], match[1]
        if text.startswith("\\") and len(text) == 2:
            pieces.append([text[1], 1.0])
        elif text == "(":
            round_open.append(len(pieces))
        elif text == "[":
            square_open.append(len(pieces))
        elif number is not None and round_open:
            factor = float(number)
            if not (0 < factor <= 10 and math.isfinite(factor)):
                raise ValueError(f"prompt: the weight {number} is not above 0 and at most 10")
            scale(round_open.pop(), factor)
        elif text == ")" and round_open:
            scale(round_open.pop(), _UP)
        elif text == "]" and square_open:
            scale(square_open.pop(), _DOWN)
        else:
            pieces.append([text, 1.0])
    for first in round_open:
        scale(first, _UP)
    for first in square_open:
        scale(first, _DOWN)
    joined: list[tuple[str, float]] = []
    for text, weight in pieces:
        if joined and joined[-1][1] == weight:
            joined[-1] = (joined[-1][0] + text, weight)
        else:
            joined.append((text, weight))
    return joined or [("", 1.0)]


class Windows:
    """Prompts in windows of an encoder's context, all with the same number of windows."""

    def __init__(self, tokenizer: Any, prompts: list[str], context: int) -> None:
        room = context - 2
        texts = []
        for prompt in prompts:
            ids: list[int] = []
            weights: list[float] = []
            for text, weight in weighted(prompt):
                some = ids_of(tokenizer, text)
                ids += some
                weights += [weight] * len(some)
            texts.append((ids, weights))
        self.count = max(1, *(math.ceil(len(ids) / room) for ids, _ in texts))
        self._rows = (tokenizer, texts, context)
        if self.count > _MOST:
            raise ValueError(f"prompt: {self.count * room} tokens; at most {_MOST * room}")

    def rows(self, count: int) -> tuple[list[list[list[int]]], list[list[float]]]:
        """For each of `count` windows the ids (prompts, context); each prompt's weights."""
        tokenizer, texts, context = self._rows
        room = context - 2
        windows, weights = [], []
        for number in range(count):
            part = slice(number * room, (number + 1) * room)
            windows.append([framed(tokenizer, ids[part], context) for ids, _ in texts])
        for _, ids in texts:
            flat: list[float] = []
            for number in range(count):
                some = ids[number * room : (number + 1) * room]
                flat += [1.0, *some, *[1.0] * (context - 1 - len(some))]
            weights.append(flat)
        return windows, weights


def encoded(
    encoder: ClipText, windows: Windows, count: int, layer: int | None, normed: bool
) -> tuple[Tensor, Tensor]:
    """(states (prompts, count * context, width), vectors of the first windows) of prompts.

    layer: the place of the state, from the end; None for what the last norm gives. normed: whether
    a state goes through that norm.
    """
    device = next(iter(encoder.parameters())).device
    rows, weights = windows.rows(count)
    outputs: list[Tensor] = []
    pooled: Tensor | None = None
    for window in rows:
        states: TextStates = encoder(tensor(window, dtype=int64, device=device))
        pooled = states.pooled if pooled is None else pooled
        if layer is None:
            outputs.append(states.final)
        else:
            chosen = states.states[layer]
            outputs.append(encoder.norm(chosen) if normed else chosen)
    joined = cat(outputs, 1) if len(outputs) > 1 else outputs[0]
    assert pooled is not None
    if any(weight != 1.0 for row in weights for weight in row):
        factors = tensor(np.asarray(weights, np.float32), device=device).to(dtype=joined.dtype)
        before = joined.mean((1, 2), keepdim=True)
        joined = joined * factors[:, :, None]
        joined = joined * (before / joined.mean((1, 2), keepdim=True))
    return joined, pooled
