"""Options of generation in the servers' own names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.generation.prefix_cache import PrefixCache
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields

# Numbers of sampling by the names of llama.cpp's and vLLM's servers.
_NUMBERS = (
    "typical_p", "top_n_sigma", "dynatemp_range", "dynatemp_exponent", "xtc_probability",
    "xtc_threshold", "dry_multiplier", "dry_base", "mirostat_tau", "mirostat_eta",
)  # fmt: skip
_WHOLE = (
    "dry_allowed_length", "dry_penalty_last_n", "mirostat", "min_new_tokens", "min_length",
    "no_repeat_ngram_size",
)  # fmt: skip


def further(fields: Fields) -> dict[str, Any]:
    """The options of sampling beyond OpenAI's that a request has and generation follows."""
    options: dict[str, Any] = {}
    for name in _NUMBERS:
        if (number := fields.number(name, -1e6, 1e6)) is not None:
            options[name] = number
    for name in _WHOLE:
        if (count := fields.whole(name, -1, 1 << 30)) is not None:
            options[name] = count
    return options


def form(value: Any, place: str = "response_format") -> dict[str, Any]:
    """The option for an answer's form in OpenAI's spelling; ApiError for one that nothing follows.

    A schema may stand beside the type, as in OpenAI's responses.
    """
    kind = value.get("type") if isinstance(value, Mapping) else value
    if value is None or kind == "text":
        return {}
    supported = ("text", "json_object", "json_schema")
    if not isinstance(value, Mapping) or kind not in supported:
        raise ApiError(
            f"{place} {kind!r} is not supported; supported: {', '.join(supported)}",
            param=place,
            code="unsupported_value",
        )
    if kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    named = Fields(value.get("json_schema", value), place)
    if not named.has("schema"):
        raise named.wrong("schema", "it must be a JSON Schema")
    described = {"name": named.text("name", "answer", most=256), "schema": named.object("schema")}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def keep_prefixes(model: Any, most_bytes: int) -> None:
    """Let a model keep what it read of earlier prompts, within a bound, where it can.

    It raises nothing. Layers whose state cannot be cut back then go on from a kept one.
    """
    if most_bytes > 0 and hasattr(model, "prefix_cache"):
        model.prefix_cache = PrefixCache(most_bytes)
