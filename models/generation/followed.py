"""What a language model follows of generation_config.json, where a caller says nothing else.

Its numbers are defaults of `sampling.Options`; what it forbids is a mask, written before each
token. The rules are those of text to text, `search.rules`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.sampling import Options
from rushlight.models.generation.search.ends import FILE
from rushlight.models.small_files import small_json

if TYPE_CHECKING:
    from rushlight.models.generation.session import DecodeSession

log = logging.getLogger("rushlight")

# The defaults of `sampling.Options` that the file may give.
NUMBERS = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
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
# What changes an answer in the reference, and not here, with the values that change none.
_LEFT: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "encoder_repetition_penalty": (1,),
    "guidance_scale": (1,),
    "sequence_bias": ([],),
    "exponential_decay_length_penalty": (),
    "watermarking_config": (),
    "num_return_sequences": (1,),
    "penalty_alpha": (0,),
    "dola_layers": (),
}
_DRAWN: dict[str, tuple[Any, ...]] = {
    "typical_p": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "top_h": (),
}


class Followed:
    """The defaults of a checkpoint: numbers for `sampling.Options`, and bans.

    files: of the checkpoint; ends: the tokens that end an answer. FormatError for a value of
    another type or out of range; keys that are not followed are named in one warning. Without
    generation_config.json there is nothing. max_length is not followed: an answer has
    max_new_tokens.
    """

    def __init__(self, files: Mapping[str, bytes], vocab: int, ends: Collection[int] = ()) -> None:
        self.vocab = vocab
        self.numbers: dict[str, Any] = {}
        self.bans: dict[str, Any] = {}
        if FILE not in files:
            return
        from rushlight.models.generation.search.stored import checked_options

        stored = small_json(files, FILE)
        draws = stored.get("do_sample") is True
        left = [
            key
            for key, none in (_LEFT | (_DRAWN if draws else {})).items()
            if stored.get(key) is not None and stored[key] not in none
        ]
        if left:
            log.warning("%s: %s is not followed", FILE, ", ".join(left))
        checked = {key: stored[key] for key in (*NUMBERS, *BANS) if stored.get(key) is not None}
        checked = checked_options(FILE, checked, vocab, draws)
        if bans := {key: checked[key] for key in BANS if key in checked}:
            self.bans = bans | {"eos_token_id": sorted(ends)}
        self.numbers = {key: checked[key] for key in NUMBERS if key in checked}
        if draws:  # with the reference's defaults
            self.numbers = {"temperature": 1.0, "top_k": 50} | self.numbers
        else:  # its temperature is for those who draw
            self.numbers.pop("temperature", None)

    def options(self, given: Mapping[str, Any]) -> Options:
        """The options of a call: those given, then the file's, then ours; None is not given."""
        asked = {n: v for n, v in given.items() if v is not None or n not in NUMBERS}
        return Options(**self.numbers | asked)

    def begin(
        self, session: DecodeSession, options: Options, prompts: Sequence[Sequence[int]]
    ) -> Bans | None:
        """The bans on answers to `prompts`, whose mask `session` obeys; None without any."""
        return Bans(self, session, options, prompts) if self.bans else None


class Bans:
    """The mask of the tokens that may follow, a row for each answer."""

    def complete(self, row: int = 0) -> bool:
        """Whether nothing may follow a row's answer: bans never say so."""
        return False

    def __init__(
        self,
        followed: Followed,
        session: DecodeSession,
        options: Options,
        prompts: Sequence[Sequence[int]],
    ) -> None:
        from rushlight.models.generation.search.options import SearchOptions
        from rushlight.models.generation.search.rules import Rules

        self._asked = session.sampler.mask  # the caller's
        self._rules, self._vocab = [], followed.vocab
        for row in prompts:
            chosen = SearchOptions(**followed.bans)
            most = len(row) + options.max_new_tokens
            self._rules.append(Rules(chosen, len(row), most, followed.vocab, [[]]))
        session.obey(np.ones((len(prompts), followed.vocab), np.bool_))
        self._session = session
        self.write(prompts)

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        """Allow what may follow each of `rows`."""
        plain = np.zeros((1, self._vocab), np.float32)
        allowed = np.concatenate(
            [
                np.isfinite(rule(plain, [row], drawn=False))
                for rule, row in zip(self._rules, rows, strict=True)
            ]
        )
        allowed[~allowed.any(1)] = True  # all are forbidden: then none is
        mask = self._session.sampler.mask
        assert isinstance(mask, Tensor)
        new = from_numpy(allowed).to(mask.device)
        mask.copy_(new if self._asked is None else new & self._asked)
