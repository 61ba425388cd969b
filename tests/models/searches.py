"""Searches of text-to-text models: options, and the sources that all of them share."""

from __future__ import annotations

from typing import Any

ROWS = ("mt5", "t5-gated", "marian-vocabularies", "bart", "m2m_100")
SOURCES = [[5, 6, 7, 8, 9, 5, 6], [10, 11, 12], [40]]
# These end many answers of the tiny models.
_ENDS = [20, 23, 36, 49]
_ALL: dict[str, Any] = {"decoder_start_token_id": 3, "max_new_tokens": 10}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "ends": {"eos_token_id": _ENDS, "min_length": 4},
    "no repeats": {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    "source": {"encoder_no_repeat_ngram_size": 1, "encoder_repetition_penalty": 0.6,
               "min_new_tokens": 3, "eos_token_id": _ENDS[:1]},
    "beams": {"num_beams": 4, "num_return_sequences": 3, "eos_token_id": _ENDS},
    "long": {"num_beams": 3, "length_penalty": 2.5, "eos_token_id": _ENDS, "early_stopping": True},
    "short": {"num_beams": 3, "length_penalty": -1.0, "eos_token_id": _ENDS[0]},
    "never": {"num_beams": 3, "length_penalty": 0.4, "eos_token_id": _ENDS,
              "early_stopping": "never"},
    "forced": {"num_beams": 2, "forced_bos_token_id": 7, "forced_eos_token_id": 36,
               "eos_token_id": 36, "begin_suppress_tokens": [20, 61], "no_repeat_ngram_size": 3},
    "words": {"num_beams": 2, "bad_words_ids": [[61], [20, 23], [65, 36], [10]],
              "suppress_tokens": [49], "eos_token_id": [10, 20],
              "sequence_bias": [[[23], -2.0], [[20, 30], 4.0]]},
    "decay": {"exponential_decay_length_penalty": (2, 1.6), "eos_token_id": 30,
              "max_length": 12, "max_new_tokens": None},
}  # fmt: skip
SEARCHES = {name: {**_ALL, **options} for name, options in SEARCHES.items()}
# Options of what is drawn from, on scores that a test makes.
DRAWS: list[dict[str, Any]] = [
    {"temperature": 0.6, "top_k": 4},
    {"top_k": 0, "top_p": 0.6},
    {"top_k": 0, "min_p": 0.3},
    {"top_k": 0, "typical_p": 0.5},
    {"top_k": 0, "epsilon_cutoff": 0.08},
    {"top_k": 0, "eta_cutoff": 0.4},
    {"temperature": 2.0, "top_k": 7, "top_p": 0.8, "num_beams": 3},
    {"top_k": 0, "top_p": 0.1, "num_beams": 2},
    {"top_k": 5, "renormalize_logits": True},
]
