"""Codes of logits: the likeliest, or drawn of the likeliest ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, brief

Draw = Callable[[tuple[int, ...]], npt.NDArray[np.float32]]


def pick(
    logits: npt.NDArray[Any],
    draw: Draw,
    temperature: float,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> npt.NDArray[np.int64]:
    """A code (rows,) of each row of logits (rows, codes).

    draw: normal numbers of a shape, one for each row. temperature: 0 for the likeliest codes; above
    1 for more variety. top_k: how many codes are drawn from; None for all. FormatError for logits
    that are not finite, which wrong weights give.
    """
    values = np.asarray(logits, np.float64)
    if np.isnan(values).any():
        raise FormatError("text-to-speech: the weights give no speech: numbers are not finite")
    if temperature <= 0:
        return np.asarray(values.argmax(-1))
    values = values / temperature
    if top_k is not None and top_k < values.shape[-1]:
        least = np.partition(values, -top_k, -1)[:, -top_k, None]
        values = np.where(values < least, -np.inf, values)
    weights = np.exp(values - values.max(-1, keepdims=True))
    if top_p < 1:
        order = np.argsort(-weights, -1, kind="stable")
        sorted_weights = np.take_along_axis(weights, order, -1)
        before = np.cumsum(sorted_weights, -1) - sorted_weights
        beyond = before >= top_p * sorted_weights.sum(-1, keepdims=True)
        np.put_along_axis(weights, order, np.where(beyond, 0.0, sorted_weights), -1)
    sums = np.cumsum(weights, -1)
    chances = [0.5 * (1 + math.erf(z / math.sqrt(2))) for z in draw((len(values),)).tolist()]
    shares = np.asarray(chances)[:, None] * sums[:, -1:]
    return np.asarray((sums <= shares).sum(-1).clip(max=values.shape[-1] - 1))


def temperature_of(options: Mapping[str, Any], told: Mapping[str, Any]) -> float:
    """How much codes vary: the option noise_scale, else what generation_config.json says.

    options: those of text-to-speech. told: generation_config.json's. FormatError for a temperature
    that is no number of 0 or more.
    """
    if (asked := options.get("noise_scale")) is not None:
        return float(asked)
    if not told.get("do_sample", False):
        return 0.0
    return number_of(told, "temperature", 1.0, 0.0, 1e6)


def number_of(told: Mapping[str, Any], key: str, usual: float, least: float, most: float) -> float:
    """The number under `key`; `usual` where it is missing or null.

    FormatError, with generation_config.json's name, for another type or a number that is not
    `least` to `most`.
    """
    value = usual if told.get(key) is None else told[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise FormatError(
            f"generation_config.json: {key} is {brief(value)}; it must be a number from "
            f"{least:g} to {most:g}"
        )
    return float(value)


def count_of(told: Mapping[str, Any], key: str, usual: int, least: int, most: int) -> int:
    """The whole number under `key`, as `number_of` has it, with its arguments and errors."""
    value = number_of(told, key, usual, least, most)
    if value != int(value):
        raise FormatError(f"generation_config.json: {key} is {value}; it must be a whole number")
    return int(value)
