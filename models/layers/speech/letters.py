"""The vocabulary of a CTC head: letters, the blank, and what stands between words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rushlight.core.basis.errors import FormatError, brief, nearest
from rushlight.core.basis.jsontext import parse_json
from rushlight.models.small_files import find_tokenizer, small_json

MARK = "\u2581"  # that begins a piece of text that has a space before it
_USUAL_LANGUAGE = "eng"  # of files that have several and name none, as in transformers
_CONFIGS = ("special_tokens_map.json", "tokenizer_config.json")
# The special tokens that transformers' Wav2Vec2CTCTokenizer has where no file names them.
_NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


@dataclass(frozen=True)
class Letter:
    """A token that frames first to stop - 1 say, with the log probability of each of them."""

    text: str
    first: int
    stop: int
    logs: tuple[float, ...]


@dataclass(frozen=True)
class Letters:
    """The text of each token id; "" for those that are not written.

    blank: the id that says nothing. space: what is written between words. lower: text is written in
    small letters, whatever the vocabulary has. words: whether a token stands between words, or
    tokens are pieces of which the first of a word begins with the mark of a space.
    """

    texts: tuple[str, ...]
    blank: int
    space: str = " "
    lower: bool = False

    @property
    def words(self) -> bool:
        """Whether a token stands between words, or begins one."""
        return any(text.isspace() or text.startswith(MARK) for text in self.texts)

    def read(self, ids: Sequence[int], logs: Sequence[float]) -> list[list[Letter]]:
        """The letters of each word of frames' likeliest tokens (Graves et al., 2006, section 3.2).

        Equal neighbours are one token; then blanks are dropped. logs: the log probability of each
        frame's token.
        """
        spans, frame = [], 0
        for token, run in groupby(ids):
            first, frame = frame, frame + len(list(run))
            spans.append((token, first, frame, tuple(logs[first:frame])))
        return self.spelled(spans)

    def spelled(
        self, spans: Iterable[tuple[int, int, int, tuple[float, ...]]]
    ) -> list[list[Letter]]:
        """The letters of each word of tokens: id, first frame, the one after the last, and logs."""
        words: list[list[Letter]] = [[]]
        for token, first, stop, logs in spans:
            text = "" if token == self.blank else self.texts[token]
            if text.startswith(MARK):
                words.append([])
                text = text.removeprefix(MARK)
                text = text.replace(MARK, " ")
            elif text.isspace():
                words.append([])
                continue
            if text:
                text = text.lower() if self.lower else text
                words[-1].append(Letter(text, first, stop, logs))
        return [word for word in words if word]


def stored_letters(
    files: Mapping[str, bytes], vocab: int, pad: int | None, language: str | None = None
) -> Letters | None:
    """The vocabulary of tokenizer.json, or of vocab.json and added tokens; None without them.

    pad: config.json's padding token, the blank where no tokenizer's file names one that is there.
    Of vocabularies for several languages it is that of `language`, see `language_in`. FormatError
    for files that are damaged, and for a language that they do not have.
    """
    config: dict[str, Any] = {}
    for name in _CONFIGS:
        config |= small_json(files, name)
    tokens = _tokens(files, config, vocab, language or language_in(files))
    if tokens is None:
        return None
    named = {name: _content(config.get(name, usual)) for name, usual in _NAMES.items()}
    blank = tokens.get(named["pad_token"] or "", pad)
    if blank is None or not 0 <= blank < vocab:
        raise FormatError(f"the blank is {blank}; it must be one of {vocab} tokens: pad_token")
    texts = [""] * vocab
    between = _content(config.get("word_delimiter_token", "|"))
    for text, i in tokens.items():
        texts[i] = " " if text == between else "" if text in named.values() else text
    space = config.get("replace_word_delimiter_char", " ")
    if not isinstance(space, str) or len(space) > 16:
        raise FormatError(f"replace_word_delimiter_char is {brief(space)}; it must be a short text")
    return Letters(tuple(texts), blank, space, config.get("do_lower_case") is True)


def language_in(files: Mapping[str, bytes]) -> str:
    """The language of a checkpoint of many: target_lang of tokenizer_config.json, or English."""
    told = small_json(files, "tokenizer_config.json").get("target_lang")
    return told if isinstance(told, str) and told else _USUAL_LANGUAGE


def _tokens(
    files: Mapping[str, bytes], config: Mapping[str, Any], vocab: int, language: str
) -> dict[str, int] | None:
    """Tokens and their ids below `vocab`, of one language where there are several."""
    if "vocab.json" not in files:
        tokenizer = find_tokenizer(files)
        if tokenizer is None:
            return None
        each = ((tokenizer.id_to_token(i), i) for i in range(vocab))
        return {text: i for text, i in each if text is not None}
    vocabulary = parse_json(files["vocab.json"], "vocab.json", depth=3)
    if (
        isinstance(vocabulary, dict)
        and vocabulary
        and all(isinstance(v, dict) for v in vocabulary.values())
    ):
        if language not in vocabulary:
            near = ", ".join(nearest(language, list(vocabulary), 4) or list(vocabulary)[:4])
            raise FormatError(
                f"vocab.json has vocabularies of {len(vocabulary)} languages, and none of "
                f"target_lang {brief(language)}; there are: {near}"
            )
        vocabulary = vocabulary[language]
    good = isinstance(vocabulary, dict) and all(
        type(i) is int and i >= 0 for i in vocabulary.values()
    )
    if not good or len(set(vocabulary.values())) != len(vocabulary):
        raise FormatError("vocab.json is not an object of tokens and their ids")
    added = config.get("added_tokens_decoder")
    for key, token in (added if isinstance(added, dict) else {}).items():
        if key.isdecimal() and len(key) < 9 and (text := _content(token)):
            vocabulary.setdefault(text, int(key))
    return {text: i for text, i in vocabulary.items() if i < vocab}


def _content(token: Any) -> str | None:
    """The text of a special token, which files hold as it is or as an object."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None
