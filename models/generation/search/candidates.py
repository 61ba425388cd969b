"""The words that the answers of a search may have: all of a vocabulary, or those of a shortlist.

Marian's lexical shortlists name, for each word of a source, the likeliest words of its translation
(marian-dev's data/shortlist.cpp). Scores of few words cost little, and translations are those of
Marian's engine, which reads the same lists.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.folder import SHORTLIST
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.beams import LOW
from rushlight.models.generation.search.options import SearchOptions, ids_of

if TYPE_CHECKING:
    from rushlight.models.generation.text_to_text import Seq2SeqLM

log = logging.getLogger("rushlight")
_MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")  # magic, checksum, first, best, offsets, words
_MULTIPLE = 8  # Marian's lists have a multiple of this many words
_LEAST = 512  # rows of a head's part; powers of two, so that captured steps are shared
_IDS = (
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "eos_token_id",
)


class Shortlist:
    """The words of a target that stand beside words of a source.

    first: so many words of the target are in every list. The words beside word i are
    words[offsets[i] : offsets[i + 1]]. shared: one vocabulary, so a source's words are listed too.
    """

    def __init__(self, first: int, offsets: Array, words: Array, shared: bool) -> None:
        self.first, self.offsets, self.words, self.shared = first, offsets, words, shared

    def of(self, source: Sequence[int], vocab: int) -> Array:
        """The ids, ascending, that a translation of `source` may have, of `vocab` words."""
        listed = np.zeros(vocab, np.bool_)
        listed[: self.first] = True
        for i in set(source):
            if i + 1 < len(self.offsets):
                listed[self.words[self.offsets[i] : self.offsets[i + 1]]] = True
            if self.shared and i < vocab:
                listed[i] = True
        more = -int(listed.sum()) % _MULTIPLE
        listed[self.first + np.flatnonzero(~listed[self.first :])[:more]] = True
        return np.flatnonzero(listed)


def find_shortlist(files: Mapping[str, bytes], vocab: int) -> Shortlist | None:
    """The shortlist lex.*.bin beside a model of Marian; None if there is none.

    Of several none is used, with a warning. vocab: the words of the target. FormatError for a
    damaged file.
    """
    names = [name for name in files if SHORTLIST.fullmatch(name)]
    if len(names) > 1:
        log.warning("%s: none of these shortlists is used; leave one", ", ".join(names))
    if len(names) != 1:
        return None
    (name,), content = names, files[names[0]]
    head = content[: _HEADER.size]
    if len(head) < _HEADER.size:
        raise FormatError(f"{name} ends in its header")
    magic, _, first, _, rows, count = _HEADER.unpack(head)
    if magic != _MAGIC:
        raise FormatError(f"{name} is no binary shortlist of Marian: it begins with {magic:#x}")
    if _HEADER.size + 8 * rows + 4 * count != len(content):
        raise FormatError(f"{name}: {rows} rows and {count} words are not {len(content)} bytes")
    offsets = np.frombuffer(content, "<u8", rows, _HEADER.size)
    words = np.frombuffer(content, "<u4", count, _HEADER.size + 8 * rows)
    if rows and (offsets[-1] > count or (offsets[1:] < offsets[:-1]).any()):
        raise FormatError(f"{name}: its rows do not lie one after another within {count} words")
    if first > vocab or (count and words.max() >= vocab):
        raise FormatError(f"{name} has words that are not of the {vocab} words of the model")
    shared = not any(file_name.startswith("trgvocab.") for file_name in files)
    return Shortlist(first, offsets.astype(np.int64), words, shared)


class Candidates:
    """The candidates of the rows of a search, numbered from 0, so that scores are of these only.

    count: how many there are. head: rows of the model's head for these, and of its bias; None: the
    model computes the scores of all words. first: the tokens that a decoder begins with; they and
    those that the options name have numbers too. Raises ValueError for one outside the vocabulary.
    """

    def __init__(
        self,
        model: Seq2SeqLM,
        sources: Sequence[Sequence[int]],
        first: Sequence[int],
        options: SearchOptions,
    ) -> None:
        self.vocab = vocab = model.vocab_size
        self.count, self.head = vocab, None
        self._ids: Array | None = None
        if model.shortlist is None:
            return
        lists = {source: model.shortlist.of(source, vocab) for source in map(tuple, sources)}
        every = np.zeros(vocab, np.bool_)
        for listed in lists.values():
            every[listed] = True
        for some in (*sources, ids_of(options.eos_token_id)):
            every[list(self._known(some))] = True
        for token in (*first, *_named(options)):
            if not 0 <= token < vocab:
                raise ValueError(f"generate: token {token} is not one of the {vocab} tokens")
            every[token] = True
        self._ids = ids = np.flatnonzero(every)
        self.count = len(ids)
        self._numbers = np.full(vocab, -1, np.int64)
        self._numbers[ids] = np.arange(len(ids))
        self._listed = np.zeros((len(sources), len(ids)), np.bool_)
        for row, source in zip(self._listed, sources, strict=True):
            row[self._numbers[lists[tuple(source)]]] = True
        size = max(_LEAST, 1 << (len(ids) - 1).bit_length())
        if 2 * size <= vocab:
            self.head = model.head_rows(np.resize(ids, size))

    def _known(self, ids: Iterable[int]) -> Iterable[int]:
        return (i for i in ids if 0 <= i < self.vocab)

    def numbers(self, ids: Iterable[int]) -> list[int]:
        """The numbers of token ids, without ids that are outside the vocabulary."""
        if self._ids is None:
            return list(ids)
        return [int(self._numbers[i]) for i in self._known(ids)]

    def ids(self, numbers: Array) -> Array:
        """The token ids of numbers."""
        return numbers if self._ids is None else self._ids[numbers]

    def options(self, options: SearchOptions) -> SearchOptions:
        """The options with numbers in place of token ids."""
        if self._ids is None:
            return options
        changed: dict[str, Any] = {}
        for name in _IDS:
            value = getattr(options, name)
            if value is not None:
                numbers = self.numbers(ids_of(value))
                changed[name] = numbers[0] if name == "forced_bos_token_id" else numbers
        if options.bad_words_ids is not None:
            changed["bad_words_ids"] = [self.numbers(ids) for ids in options.bad_words_ids]
        if options.sequence_bias is not None:
            changed["sequence_bias"] = [(self.numbers(i), b) for i, b in options.sequence_bias]
        return replace(options, **changed)

    def scores(self, logits: Array) -> Array:
        """The candidates' scores (rows, count) of logits of the head's rows, or of all words."""
        if self._ids is None:
            return logits
        chosen = logits[:, self._ids] if self.head is None else logits[:, : self.count]
        return np.where(self._listed, chosen, LOW)


def _named(options: SearchOptions) -> list[int]:
    """The token ids that options name, of which those that end an answer may be others'."""
    named = [i for name in _IDS[:-1] for i in ids_of(getattr(options, name))]
    lists = [*(options.bad_words_ids or ()), *(ids for ids, _ in options.sequence_bias or ())]
    return named + [i for ids in lists for i in ids]
