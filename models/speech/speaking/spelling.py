"""Tokens of characters by a SentencePiece file, as SpeechT5's voices have them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.protobuf import fields
from rushlight.models.layers.speech.voice import VoiceText
from rushlight.models.speech.speaking import words

FILE, TOKENIZER = "spm_char.model", "tokenizer.json"
_SPACE, _END, _UNKNOWN = "▁", "</s>", "<unk>"


class Spelling:
    """Tokens of characters: a space before each word, and an end."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids

    def read(self, text: str, reading: Any) -> Iterator[VoiceText]:
        """The sentences of a text, each with its tokens; numbers are spelled in English.

        `reading` is of voices of phonemes. ValueError for a text without a word, and for a letter
        that the voice does not have.
        """
        spans = words.sentences(text)
        if not spans:
            raise ValueError("text-to-speech: the text has no word to say")
        for start, end in spans:
            yield self._sentence(text, start, end)

    def _sentence(self, text: str, start: int, end: int) -> VoiceText:
        ids: list[int] = []
        spans: list[tuple[int, int, int, int]] = []
        said: list[str] = []

        def put(characters: str, place: int) -> None:
            for char in characters:
                number = self.ids.get(_SPACE if char == " " else char)
                if number is None and char.isalnum():
                    raise ValueError(
                        f"text-to-speech: {char!r} at character {place} is none of the voice's "
                        f"letters; it has {''.join(c for c in self.ids if len(c) == 1)}"
                    )
                if number is None:  # another sign, which the reference reads as unknown
                    number = self.ids[_UNKNOWN]
                ids.append(number)
                said.append(char)

        for first, last, written in _written(text, start, end):
            put(" ", first)
            begun = len(ids)
            put(written, first)
            if any(map(str.isalnum, written)):  # marks around a word are no part of it
                ahead, behind = _around(written), _around(written[::-1])
                place = first + _around(text[first:last]), last - _around(text[first:last][::-1])
                same = spans and spans[-1][:2] == place
                begun = spans.pop()[2] if same else begun + ahead
                spans.append((*place, begun, len(ids) - behind))
        return VoiceText((*ids, self.ids[_END]), tuple(spans), "".join(said).strip())


def _around(text: str) -> int:
    """How many characters stand before the first letter or digit."""
    return next((i for i, char in enumerate(text) if char.isalnum()), 0)


def _written(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """What stands between spaces in a sentence, with its place; numbers as words."""
    place = start
    for piece in text[start:end].split():
        first = text.index(piece, place)
        place = first + len(piece)
        if not any(map(str.isdigit, piece)):
            yield first, place, unicodedata.normalize("NFKC", piece)
            continue
        parts = [p for p in words.parts(text, first, place) if p.text]
        for at, part in enumerate(parts):
            mark = parts[at + 1] if at + 1 < len(parts) else None
            if part.kind != "mark":
                ends = mark.text if mark is not None and mark.kind == "mark" else ""
                yield first, place, part.text + ends


def spelling_of(files: Mapping[str, bytes], count: int) -> tuple[Spelling | None, dict[str, bytes]]:
    """What makes tokens by spm_char.model or tokenizer.json, of ids below `count`, and its file.

    None where there is neither in `files`. FormatError for a damaged file.
    """
    if FILE in files:
        ids: dict[str, int] = {}
        for number, value in fields(files[FILE], FILE):
            if number == 1:
                if not isinstance(value, memoryview):
                    raise FormatError(f"{FILE} is damaged: a token is no message")
                piece = next((bytes(v) for n, v in fields(value, FILE) if n == 1), b"")
                ids[piece.decode("utf-8", "replace")] = len(ids)
        kept = FILE
    elif TOKENIZER in files:
        told = parse_json(files[TOKENIZER], TOKENIZER, depth=16)
        model = told.get("model") if isinstance(told, dict) else None
        vocabulary = model.get("vocab") if isinstance(model, dict) else None
        if not isinstance(vocabulary, dict | list):
            raise FormatError(f"{TOKENIZER} has no vocabulary of characters")
        rows = (
            vocabulary.items()
            if isinstance(vocabulary, dict)
            else ((row[0], i) for i, row in enumerate(vocabulary) if isinstance(row, list) and row)
        )
        ids = {str(token): number for token, number in rows}
        kept = TOKENIZER
    else:
        return None, {}
    good = all(type(number) is int and 0 <= number < count for number in ids.values())
    missing = [token for token in (_SPACE, _END, _UNKNOWN) if token not in ids]
    if not good or missing:
        raise FormatError(
            f"{kept} has no {brief(missing)}, or ids that are not below vocab_size {count}"
        )
    return Spelling(ids), {kept: files[kept]}
