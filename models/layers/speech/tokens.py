"""What the tokens of a Whisper checkpoint mean: languages, tasks, timestamps, suppressed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.models.small_files import small_json

# Whisper's languages in the order of their tokens; the last came with large-v3.
LANGUAGES = tuple(
    """en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th
    ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa
    si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln
    ha ba jw su yue""".split()
)
MULTILINGUAL = 51865  # the smallest vocabulary of a model of several languages
TIMES = 1501  # timestamps from 0 to 30 s in steps of 0.02 s
# Heads of the decoder whose attention follows the words, as layer.head: openai-whisper's table, by
# the decoder's layers and heads, and the vocabulary. large-v1 has the sizes of large-v2.
_PUBLISHED = {
    (4, 6, 51864): "1.0 2.0 2.5 3.0 3.1 3.2 3.3 3.4",  # tiny.en
    (4, 6, 51865): "2.2 3.0 3.2 3.3 3.4 3.5",
    (6, 8, 51864): "3.3 4.7 5.1 5.5 5.7",  # base.en
    (6, 8, 51865): "3.1 4.2 4.3 4.7 5.1 5.2 5.4 5.6",
    (12, 12, 51864): "6.6 7.0 7.3 7.8 8.2 8.5 8.7 9.0 9.4 9.8 9.10 10.0 10.1 10.2 10.3 10.6 10.11 "
    "11.2 11.4",  # small.en
    (12, 12, 51865): "5.3 5.9 8.0 8.4 8.7 8.8 9.0 9.7 9.9 10.5",
    (24, 16, 51864): "11.4 14.1 14.12 14.14 15.4 16.0 16.4 16.9 17.12 17.14 18.7 18.10 18.15 20.0 "
    "20.3 20.9 20.14 21.12",  # medium.en
    (24, 16, 51865): "13.15 15.4 15.15 16.1 20.0 23.4",
    (32, 20, 51865): "10.12 13.17 16.11 16.12 16.13 17.15 17.16 18.4 18.11 18.19 19.11 21.2 21.3 "
    "22.3 22.9 22.12 23.5 23.7 23.13 25.5 26.1 26.12 27.15",  # large-v2
    (32, 20, 51866): "7.0 10.17 12.18 13.12 16.1 17.14 19.11 21.4 24.1 25.6",  # large-v3
    (4, 20, 51866): "2.4 2.11 3.3 3.6 3.11 3.14",  # large-v3-turbo
}
_OTHERS = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
_SPELLINGS = {"nospeech": ("nospeech", "nocaptions")}


@dataclass(frozen=True)
class SpeechTokens:
    """Ids of special tokens by name without <| and |>; None where the vocabulary lacks one.

    languages: codes and their tokens; empty for English alone. timestamp_begin: the token of 0.00
    s; each further one is 0.02 s later. suppress: never written; begin_suppress: not written first.
    alignment_heads: pairs of a decoder layer and a head whose attention follows the words.
    """

    ids: Mapping[str, int]
    vocab: int
    languages: Mapping[str, int] = field(default_factory=dict)
    suppress: tuple[int, ...] = ()
    begin_suppress: tuple[int, ...] = ()
    alignment_heads: tuple[tuple[int, int], ...] = ()

    def __getattr__(self, name: str) -> int | None:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.ids.get(name)

    @property
    def multilingual(self) -> bool:
        """Whether the model was trained on several languages."""
        return bool(self.languages)

    @property
    def timestamp_begin(self) -> int | None:
        """The token <|0.00|>: the one after <|notimestamps|>."""
        last = self.ids.get("notimestamps")
        return None if last is None or last + 1 >= self.vocab else last + 1

    def prompt(
        self, language: str | None = None, task: str = "transcribe", timestamps: bool = True
    ) -> list[int]:
        """The tokens that a transcript begins with.

        language: a code; of models of several languages only. task: "transcribe", or "translate"
        to English. Raises ValueError for what the model does not have.
        """
        if task not in ("transcribe", "translate"):
            raise ValueError(f"task {task!r} is not supported; supported: transcribe, translate")
        names = ["startoftranscript", *([task] if self.multilingual else [])]
        names += [] if timestamps else ["notimestamps"]
        missing = [name for name in names if name not in self.ids]
        if missing:
            raise ValueError(f"the vocabulary has no token <|{missing[0]}|>")
        if not self.multilingual:
            if language not in (None, "en") or task != "transcribe":
                raise ValueError(f"the model transcribes English only, not {language!r} ({task})")
            return [self.ids[name] for name in names]
        code = "en" if language is None else language
        if code not in self.languages:
            known = ", ".join(self.languages)
            raise ValueError(f"language {code!r} is not supported; supported: {known}")
        return [self.ids[names[0]], self.languages[code], *(self.ids[n] for n in names[1:])]


def special_tokens(vocab: int) -> list[str]:
    """The tokens after those of the text, of a vocabulary of so many, timestamps included."""
    english = vocab < MULTILINGUAL
    languages = LANGUAGES[:99] if english else LANGUAGES[: vocab - MULTILINGUAL + 99]
    names = ["endoftext", "startoftranscript", *languages, *_OTHERS]
    return [f"<|{n}|>" for n in names] + [f"<|{i / 50:.2f}|>" for i in range(TIMES)]


def stored_tokens(
    files: Mapping[str, bytes], tokenizer: Tokenizer | None, vocab: int, layers: int, heads: int
) -> SpeechTokens:
    """The tokens by the tokenizer and generation_config.json, else config.json.

    Without alignment heads in the files they are those of the published model of these sizes, else
    all heads of the later half of the decoder.
    FormatError for ids that the vocabulary lacks, and heads that there are not.
    """
    stored = small_json(files, "config.json") | small_json(files, "generation_config.json")
    ids: dict[str, int] = {}
    languages: dict[str, int] = {}
    for name in ("endoftext", "startoftranscript", *_OTHERS):
        for spelling in _SPELLINGS.get(name, (name,)):
            token_id = None if tokenizer is None else tokenizer.token_to_id(f"<|{spelling}|>")
            if token_id is not None and token_id < vocab:
                ids[name] = token_id
    if tokenizer is not None and vocab >= MULTILINGUAL:
        for code in LANGUAGES:
            token_id = tokenizer.token_to_id(f"<|{code}|>")
            if token_id is not None and token_id < vocab:
                languages[code] = token_id
    suppress, begin = (
        _ids(stored, name, vocab) for name in ("suppress_tokens", "begin_suppress_tokens")
    )
    return SpeechTokens(
        ids, vocab, languages, suppress, begin, _heads(stored, vocab, layers, heads)
    )


def _ids(stored: Mapping[str, Any], name: str, vocab: int) -> tuple[int, ...]:
    token_ids = stored.get(name)
    token_ids = [] if token_ids is None else token_ids
    if not isinstance(token_ids, list) or not all(
        type(i) is int and -1 <= i < vocab for i in token_ids
    ):
        raise FormatError(f"{name} is {brief(token_ids)}; it must be tokens of {vocab}")
    return tuple(i for i in token_ids if i >= 0)


def _heads(
    stored: Mapping[str, Any], vocab: int, layers: int, heads: int
) -> tuple[tuple[int, int], ...]:
    pairs, published = (
        stored.get("alignment_heads"),
        _PUBLISHED.get((layers, heads, vocab)),
    )
    if pairs is None and published is not None:
        return tuple((int(i), int(h)) for i, h in (p.split(".") for p in published.split()))
    if pairs is None:
        return tuple((i, h) for i in range(layers // 2, layers) for h in range(heads))
    good = isinstance(pairs, list) and all(
        isinstance(pair, list)
        and [type(n) for n in pair] == [int, int]
        and 0 <= pair[0] < layers
        and 0 <= pair[1] < heads
        for pair in pairs
    )
    if not good:
        raise FormatError(
            f"alignment_heads is {brief(pairs)}; it must be pairs of one of {layers} layers and "
            f"one of {heads} heads"
        )
    return tuple((i, h) for i, h in pairs)
