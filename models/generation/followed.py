"""What a language model follows of generation_config.json, where a caller says nothing else.

It gives defaults of `sampling.Options`. What they forbid is a mask, written before each token. The
rules are those of text to text, `search.rules`.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.sampling import Options
from rushlight.models.generation.search.ends import FILE
from rushlight.models.small_files import small_json

if TYPE_CHECKING:
    from rushlight.models.generation.session import DecodeSession

log = logging.getLogger("rushlight")

# What only drawing looks at.
_DRAWN = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
# What forbids tokens, by those before them.
BANS = (
    "no_repeat_ngram_size",
    "bad_words_ids",
    "suppress_tokens",
    "begin_suppress_tokens",
    "min_length",
    "min_new_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
# The defaults of `sampling.Options` that the file may give.
NUMBERS = (
    "max_new_tokens",
    *_DRAWN,
    "repetition_penalty",
    "sequence_bias",
    "exponential_decay_length_penalty",
    *BANS,
)
# What changes an answer in the reference, and not here, with the values that change none.
_LEFT: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "encoder_repetition_penalty": (1,),
    "guidance_scale": (1,),
    "watermarking_config": (),
    "num_return_sequences": (1,),
    "penalty_alpha": (0,),
    "dola_layers": (),
}
_LEFT_DRAWN: dict[str, tuple[Any, ...]] = {"top_h": ()}
NAMES = frozenset(field.name for field in fields(Options))
# transformers' spellings that are not fields of Options; the last two change nothing.
SPELLED = ("do_sample", "stop_strings", "generation_config", "pad_token_id", "use_cache")


class Followed:
    """The defaults of a checkpoint for `sampling.Options`.

    files: of the checkpoint; ends: the tokens that end an answer. FormatError for a value of
    another type or out of range; keys that are not followed are named in one warning. Without
    generation_config.json there is nothing. max_length is not followed: an answer has
    max_new_tokens.
    """

    def __init__(self, files: Mapping[str, bytes], vocab: int, ends: Collection[int] = ()) -> None:
        self.vocab = vocab
        self.numbers: dict[str, Any] = {}
        self.drawn: dict[str, Any] = {"temperature": 1.0, "top_k": 50}  # of those who draw
        self.ends = frozenset(ends)
        if FILE not in files:
            return
        from rushlight.models.generation.search.stored import checked_options

        stored = small_json(files, FILE)
        draws = stored.get("do_sample") is True
        left = [
            key
            for key, none in (_LEFT | (_LEFT_DRAWN if draws else {})).items()
            if stored.get(key) is not None and stored[key] not in none
        ]
        if left:
            log.warning("%s: %s is not followed", FILE, ", ".join(left))
        checked = {key: stored[key] for key in NUMBERS if stored.get(key) is not None}
        checked = checked_options(FILE, checked, vocab, draws)
        self.numbers = {key: checked[key] for key in NUMBERS if key in checked}
        self.drawn |= {key: self.numbers[key] for key in _DRAWN if key in self.numbers}
        if draws:  # with the reference's defaults
            self.numbers = self.drawn | self.numbers
        else:  # these are for those who draw
            for key in ("temperature", "typical_p", "epsilon_cutoff", "eta_cutoff"):
                self.numbers.pop(key, None)

    def options(self, given: Mapping[str, Any], ends: Collection[int] | None = None) -> Options:
        """The options of a call: those given, then the file's, then ours; None is not given.

        ends: the tokens that end an answer if no eos_token_id is given. Names are those of
        `sampling.Options`, and transformers' do_sample, stop_strings and generation_config, an
        object of options or one with `to_dict`. TypeError for another name, which names the
        nearest.
        """
        asked = {name: value for name, value in given.items() if value is not None}
        config = asked.pop("generation_config", None)
        if config is not None:
            asked = _of_config(config) | asked
        for name in asked:
            if name not in NAMES and name not in SPELLED:
                near = difflib.get_close_matches(name, (*NAMES, *SPELLED[:2]), 1)
                hint = f" did you mean {near[0]!r}?" if near else ""
                raise TypeError(
                    f"generate: option {name!r} is not supported;{hint} supported: "
                    f"{', '.join(sorted((*NAMES, *SPELLED)))}"
                )
        for name in ("pad_token_id", "use_cache"):
            asked.pop(name, None)
        if "stop_strings" in asked:
            stops = asked.pop("stop_strings")
            asked.setdefault("stop", stops)
        defaults = dict(self.numbers)
        draws = asked.pop("do_sample", None)
        if draws:
            defaults = self.drawn | defaults
        elif draws is False:
            asked["temperature"] = 0
        if asked.get("mirostat"):  # it takes the place of what narrows
            defaults = {name: v for name, v in defaults.items() if name not in _DRAWN}
            defaults["temperature"] = self.drawn["temperature"]
        if asked.get("penalty_alpha"):
            defaults.pop("temperature", None)
        if "max_length" in asked and "max_new_tokens" not in asked:
            defaults.pop("max_new_tokens", None)
        elif "max_new_tokens" in asked:
            asked.pop("max_length", None)
        if asked.get("eos_token_id") is None:
            asked["eos_token_id"] = sorted(self.ends if ends is None else ends)
        return Options(**defaults | asked)

    def begin(
        self, session: DecodeSession, options: Options, prompts: Sequence[Sequence[int]]
    ) -> Bans | None:
        """The bans on answers to `prompts`, whose mask `session` obeys; None without any."""
        return (
            Bans(self.vocab or session.sampler.vocab, session, options, prompts)
            if (banned(options))
            else None
        )


def _of_config(config: Any) -> dict[str, Any]:
    """The options of a GenerationConfig: a mapping, or an object with `to_dict`."""
    values = config if isinstance(config, Mapping) else config.to_dict()
    known = {*NAMES, *SPELLED} - {"generation_config"}
    return {
        name: value
        for name, value in values.items()
        if name in known and value is not None and (name, value) != ("max_length", 20)
    }


def banned(options: Options) -> dict[str, Any]:
    """The options that forbid tokens, where they do."""
    values = {name: getattr(options, name) for name in BANS}
    return {name: v for name, v in values.items() if v not in (None, 0, [], ())}


def rules_of(options: Options, prompt: int, vocab: int) -> Any:
    """transformers' rules that forbid tokens after a prompt of so many tokens."""
    from rushlight.models.generation.search.options import SearchOptions
    from rushlight.models.generation.search.rules import Rules

    chosen = SearchOptions(**banned(options), eos_token_id=sorted(options.ends))
    return Rules(chosen, prompt, prompt + options.most(prompt), vocab, [[]])


class Bans:
    """The mask of the tokens that may follow, a row for each answer."""

    def complete(self, row: int = 0) -> bool:
        """Whether nothing may follow a row's answer: bans never say so."""
        return False

    def __init__(
        self,
        vocab: int,
        session: DecodeSession,
        options: Options,
        prompts: Sequence[Sequence[int]],
    ) -> None:
        self._asked = session.sampler.mask  # the caller's
        self._vocab = vocab
        self._rules = [rules_of(options, len(row), vocab) for row in prompts]
        session.obey(np.ones((len(prompts), vocab), np.bool_))
        self._session = session
        self.write(prompts)

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        """Allow what may follow each of `rows`."""
        allowed = np.concatenate(
            [
                allowed_by(rule, row, self._vocab)
                for rule, row in zip(self._rules, rows, strict=True)
            ]
        )
        mask = self._session.sampler.mask
        assert isinstance(mask, Tensor)
        new = from_numpy(allowed).to(mask.device)
        mask.copy_(new if self._asked is None else new & self._asked)


def allowed_by(rules: Any, row: Sequence[int], vocab: int) -> np.ndarray[Any, Any]:
    """(1, vocab) booleans: the tokens that may follow `row`; if all are forbidden, none is."""
    plain = np.zeros((1, vocab), np.float32)
    allowed: np.ndarray[Any, Any] = np.isfinite(rules(plain, [row], drawn=False))
    return allowed if allowed.any() else np.ones_like(allowed)
