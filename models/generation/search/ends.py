"""Tokens that a checkpoint's files name, checked, and those of them that end an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.small_files import small_json

FILE = "generation_config.json"
# Tokens out of range change nothing here.
_HARMLESS = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
)
_SEVERAL = (
    "eos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "decoder_start_token_id",
)


def end_tokens(files: Mapping[str, bytes], config: Any, vocab: int) -> tuple[int, ...]:
    """The tokens that end an answer: eos_token_id of generation_config.json, or else of `config`.

    Those outside the vocabulary are left out. FormatError for another type.
    """
    name, value = "config.json", getattr(config, "eos_token_id", None)
    if "eos_token_id" in (stored := small_json(files, FILE)):
        name, value = FILE, stored["eos_token_id"]
    try:
        ids = None if value is None else token_ids("eos_token_id", value, vocab)
    except TypeError as error:
        raise FormatError(f"{name}: {error}") from None
    return () if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)


def token_ids(key: str, value: Any, vocab: int) -> Any:
    """A token, or several, of the key of a file; None where none is left.

    Those out of range are left out if they can never be written. ValueError for others, TypeError
    for what are no tokens.
    """
    several = isinstance(value, list)
    ids = value if several else [value]
    if (
        not all(type(i) is int for i in ids)
        or (several and key not in _SEVERAL)
        or (not several and key.endswith("suppress_tokens"))
    ):
        raise TypeError(f"{key} is {brief(value)}; it must be a token, or a list of them")
    inside = [i for i in ids if 0 <= i < vocab]
    if inside != ids and key not in _HARMLESS:
        raise ValueError(f"{key} is {brief(value)}; there are {vocab} tokens")
    if several:
        return inside or None
    return inside[0] if inside else None
