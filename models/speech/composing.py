"""Codes of music from a text: one step after another, guided, greedy or drawn."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.philox import uniform
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.tasks.record import Progress

Codes = npt.NDArray[np.int64]


def compose(
    model: Any, ids: Tensor, mask: Tensor, frames: int, options: Mapping[str, Any]
) -> Generator[Any, Any, Codes]:
    """Codes (batch, codebooks, frames) for texts' token ids (batch, length): a run's steps.

    `model` is a `MusicModel`, and `mask` (batch, length) tells padding by zeros. options:
    guidance_scale, how far the logits go beyond those without a text (Ho and Salimans, 2022);
    do_sample, temperature, top_k and seed.
    """
    c, drawn = model.inner, 0
    guided = options["guidance_scale"] > 1
    batch, books, delay = len(ids), c.num_codebooks, model.delay
    with no_grad():
        states = model.read(ids, mask)
        if guided:
            states, mask = cat([states, model.blank(states)], 0), cat([mask, mask], 0)
        held = model.remembered(states)
    total = frames + delay
    codes = np.full((batch, books, total), c.pad_token_id, np.int64)
    lag = np.arange(books) // model.channels
    for at in range(total - 1):
        with no_grad():
            last = codes[:, :, at : at + 1]
            given = tensor(np.concatenate([last, last]) if guided else last, device=ids.device)
            logits = model.step(given, held, mask)[:, :, -1].to(float32)
            if guided:
                with_text, without = logits[:batch], logits[batch:]
                logits = without + (with_text - without) * options["guidance_scale"]
        values = np.asarray((yield logits.readback()))
        chosen = _drawn(values, options, drawn) if options["do_sample"] else values.argmax(-1)
        drawn += values.size
        inside = (at + 1 > lag) & (at + 1 <= lag + frames)
        codes[:, :, at + 1] = np.where(inside, chosen, c.pad_token_id)
        yield Progress("compose", at + 1, total - 1)
    rows = [codes[:, k, lag[k] + 1 : lag[k] + 1 + frames] for k in range(books)]
    return np.stack(rows, 1)


def _drawn(logits: Any, options: Mapping[str, Any], drawn: int) -> Codes:
    """A code of each row of logits (batch, codebooks, codes), drawn from the likeliest `top_k`.

    drawn: the random numbers that were used before.
    """
    values = logits.astype(np.float64) / options["temperature"]
    most = min(options["top_k"], values.shape[-1])
    least = np.partition(values, -most, -1)[..., -most, None]
    values = np.where(values < least, -np.inf, values)
    # The largest of logits with Gumbel's noise is a draw of their softmax.
    chance = uniform(options["seed"], drawn, values.size).astype(np.float64).reshape(values.shape)
    noise = -np.log(-np.log(np.clip(chance, 1e-9, 1 - 1e-9)))
    return np.asarray((values + noise).argmax(-1))
