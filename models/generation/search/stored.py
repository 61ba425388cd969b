"""The defaults of a search that a checkpoint stores, in generation_config.json or config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.generation.search.ends import FILE, token_ids
from rushlight.models.generation.search.options import MOST_BEAMS, NAMES, SearchOptions
from rushlight.models.reference import reference_keys
from rushlight.models.small_files import small_json

# Keys of transformers' GenerationConfig that change answers and are not supported, and their values
# that change none. All other keys change no answer.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "num_beam_groups": (1,),
    "diversity_penalty": (0,),
    "guidance_scale": (1,),
    "penalty_alpha": (0,),
    "constraints": ([],),
    "force_words_ids": ([],),
    "stop_strings": ([],),
    "token_healing": (False,),
    "watermarking_config": (),
    "dola_layers": (),
    "top_h": (),
}
_STORED = NAMES - {"seed", "stop", "linear", "cache_type"}  # the others are the caller's alone
_SPECIAL = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
# One token or several.
_IDS = (
    *_SPECIAL,
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
)
# What is not looked at without do_sample.
_DRAWN = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
_FLAGS = ("do_sample", "remove_invalid_values", "renormalize_logits")


def stored_options(files: Mapping[str, bytes], vocab: int) -> dict[str, Any]:
    """The defaults in generation_config.json, or else in config.json; special tokens in both.

    Without the first file those that config.json lacks are of the family's class in transformers.
    Tokens outside the `vocab` that can never be written are left out. FormatError for a value of
    another type or out of range, and for a key that would change answers and is not supported.
    """
    config = small_json(files, "config.json")
    name, stored = "config.json", config
    values = {key: config[key] for key in _SPECIAL if config.get(key) is not None}
    # This is what configurations of BART called a forced first token.
    if config.get("force_bos_token_to_be_generated"):
        values["forced_bos_token_id"] = config.get("bos_token_id")
    if FILE in files:
        name, stored = FILE, small_json(files, FILE)
        # A null is none, even if config.json has one.
        values = {key: value for key, value in values.items() if stored.get(key, value) is not None}
    else:
        usual = reference_keys(str(config.get("model_type")))
        for key in (*_SPECIAL, "forced_eos_token_id"):
            value = None if usual is None else usual.keys.get(key)
            if key not in config and isinstance(value, int) and value < vocab:
                values[key] = value
    for key, neutral in _UNSUPPORTED.items():
        value = stored.get(key)
        if value is not None and value not in neutral:
            raise FormatError(
                f"{name}: {key} is {brief(value)}, which is not supported; supported: "
                f"{', '.join(sorted(_STORED))}"
            )
    values |= {key: stored[key] for key in _STORED if stored.get(key) is not None}
    return checked_options(name, values, vocab, values.get("do_sample") is True)


def checked_options(name: str, found: Mapping[str, Any], vocab: int, draws: bool) -> dict[str, Any]:
    """The values of keys of the file `name`; FormatError for one of another type or out of range.

    found: what the file has by key. vocab: the number of tokens, which ids are below. draws:
    whether keys that only drawing looks at are checked too.
    """
    checked: dict[str, Any] = {}
    for key, value in found.items():
        if value is None:
            continue
        try:
            checked[key] = _checked(key, value, vocab)
        except (TypeError, ValueError) as error:
            if draws or key not in _DRAWN:
                why = str(error).removeprefix("generate: ")
                raise FormatError(f"{name}: {why}") from None
    return {key: value for key, value in checked.items() if value is not None}


def _checked(key: str, value: Any, vocab: int) -> Any:
    """The value of a key; TypeError or ValueError where it has none."""
    if key in _IDS:
        return token_ids(key, value, vocab)
    if key in _FLAGS and not isinstance(value, bool):
        raise TypeError(f"{key} is {brief(value)}; it must be true or false")
    if key == "exponential_decay_length_penalty":
        fits = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
        if not fits or not isinstance(value[0], int):
            raise TypeError(f"{key} is {brief(value)}; it must be a length and a factor")
        return tuple(value)
    if key in ("bad_words_ids", "sequence_bias"):
        return _sequences(key, value, vocab)
    beams = {"num_beams": MOST_BEAMS} if key == "num_return_sequences" else {}
    SearchOptions(**{key: value, **beams})
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sequences(key: str, value: Any, vocab: int) -> Any:
    """Lists of tokens, each with a number in a sequence_bias."""
    biased = key == "sequence_bias"
    rows: list[Any] = value if isinstance(value, list) else [None]
    lists = [row[0] if biased and isinstance(row, list) and row else row for row in rows]
    fits = all(
        isinstance(ids, list) and ids and all(type(i) is int and 0 <= i < vocab for i in ids)
        for ids in lists
    ) and (not biased or all(len(row) == 2 and _is_number(row[1]) for row in rows))
    if not fits:
        raise TypeError(f"{key} is {brief(value)}; it must be lists of one of {vocab} tokens")
    return value
