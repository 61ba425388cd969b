"""A text as sentences, and a sentence as words, marks and phonemes that the text holds itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rushlight.models.speech.speaking import spelled

_LONGEST = 400  # characters of a sentence, beyond which it is cut at a mark or a space
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)|\n\s*\n|[。！？]+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*", re.UNICODE)
_SHORT = re.compile(r"(?:[A-Za-z]\.){2,}|[A-Za-z]+\.", re.ASCII)
_RAW = re.compile(r"\[\[(.*?)\]\]", re.S)
# What is heard of other signs: a pause, or the end of a sentence.
_MARKS = {
    ",": ",", ";": ";", ":": ":", ".": ".", "!": "!", "?": "?", "…": ".", "—": ",", "–": ",",
    "(": ",", ")": ",", "[": ",", "]": ",", "。": ".", "！": "!", "？": "?", "、": ",", "，": ",",
    "¿": "", "¡": "", "\n": ",",
}  # fmt: skip


@dataclass(frozen=True)
class Spoken:
    """A part of a text from `start` to `end`.

    kind: "word", "mark", or "phonemes" that the text holds between [[ and ]]. text: a word in small
    letters, as it was written where `letters`; a mark; phonemes.
    """

    kind: str
    text: str
    start: int
    end: int
    letters: bool = False


def sentences(text: str) -> list[tuple[int, int]]:
    """The first place and the end of each sentence of a text; () where nothing is written.

    Ends are full stops, question and exclamation marks before a space, and empty lines. A stop
    after an initial or an abbreviation ends none. What is longer than 400 characters is cut at a
    comma or a space.
    """
    spans, begin = [], 0
    raw = [(m.start(), m.end()) for m in _RAW.finditer(text)]
    for m in _END.finditer(text):
        if any(start < m.start() < end for start, end in raw):
            continue
        if m[0].startswith(".") and _goes_on(text, m.start(), m.end()):
            continue
        spans.append((begin, m.end()))
        begin = m.end()
    spans.append((begin, len(text)))
    short = (cut for start, end in spans for cut in _cut(text, start, end))
    return [(start, end) for start, end in short if any(map(str.isalnum, text[start:end]))]


def _goes_on(text: str, stop: int, end: int) -> bool:
    """Whether a full stop belongs to an abbreviation or an initial: the sentence goes on."""
    before = re.search(r"(?:[A-Za-z]\.)*[A-Za-z]+$", text[max(0, stop - 24) : stop])
    after = re.match(r"\s+(\S)", text[end:])
    if before is None or after is None:
        return False
    word = before[0]
    if len(word) == 1:
        return word != "I" and word.isupper() and after[1].isupper()
    known = word.lower() in spelled.ABBREVIATIONS
    if known and word.lower() in spelled.PLAIN:
        return word[0].isupper() or after[1].isdigit()
    titles = known and word[0].isupper() and "." not in word
    return known and (titles or not after[1].isupper())


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > _LONGEST:
        window = text[start : start + _LONGEST]
        at = max((window.rfind(mark) for mark in (", ", "; ", ": ", "— ")), default=-1) + 1
        at = at if at > _LONGEST // 4 else window.rfind(" ") + 1
        at = at if at > 0 else _LONGEST
        yield start, start + at
        start += at
    yield start, end


def parts(text: str, start: int, end: int) -> Iterator[Spoken]:
    """The words, marks and phonemes of a sentence, in order.

    A number has several words, which all have its place in the text. ValueError for [[ without ]].
    """
    place = start
    while place < end:
        char = text[place]
        if text.startswith("[[", place):
            raw = _RAW.match(text, place)
            if raw is None:
                raise ValueError(f"the text has [[ without ]] at character {place}")
            yield Spoken("phonemes", raw[1].strip(), place, raw.end())
            place = raw.end()
        elif (number := _number(text, place, end)) is not None:
            stop, said = number
            yield from (Spoken("word", name, place, stop) for name in said.split())
            place = stop
        elif (short := _SHORT.match(text, place, end)) and _is_short(text, short, end):
            known = spelled.ABBREVIATIONS.get(short[0][:-1].lower())
            for name in (known or short[0].lower().replace(".", " ")).split():
                yield Spoken("word", name, place, short.end())
            place = short.end()
            if not text[place:end].strip(" \"'”’)"):  # it ends the sentence, too
                yield Spoken("mark", ".", place - 1, place)
        elif word := _WORD.match(text, place, end):
            plain = word[0].replace("’", "'")
            yield Spoken("word", plain.lower(), place, word.end(), plain.isupper())
            place = word.end()
        else:
            if (mark := _MARKS.get(char)) and _pauses(text, place, end):
                yield Spoken("mark", mark, place, place + 1)
            elif char in spelled.SIGNS:
                for name in spelled.SIGNS[char].split():
                    yield Spoken("word", name, place, place + 1)
            elif char == "." and place + 1 < end and text[place + 1].isalnum():
                yield Spoken("word", "dot", place, place + 1)
            place += 1


def _number(text: str, place: int, end: int) -> tuple[int, str] | None:
    char = text[place]
    first = char in "-−" and (place == 0 or text[place - 1].isspace())
    at = place + 1 if first and place + 1 < end else place
    if text[at] not in "$£€¥.0123456789" or (place and text[place - 1].isdigit()):
        return None
    if text[at] == "." and not (at + 1 < end and text[at + 1].isdigit() and at == place):
        return None
    found = spelled.number_at(text[:end], at)
    if found is None:
        return None
    return (found[0], f"minus {found[1]}") if at > place else found


def _is_short(text: str, short: re.Match[str], end: int) -> bool:
    """Whether letters with full stops are an abbreviation, or initials."""
    word, after = short[0], text[short.end() : end]
    if word.count(".") > 1:
        return True
    known = word[:-1].lower()
    if known in spelled.PLAIN:
        return (word[0].isupper() or known == "no") and bool(re.match(r"\s+[A-Z\d]", after))
    if len(known) == 1:
        return word != "I." and word.isupper() and bool(re.match(r"\s+[A-Z]", after))
    return known in spelled.ABBREVIATIONS and bool(after.strip() or known == "etc")


def _pauses(text: str, place: int, end: int) -> bool:
    """Whether a mark is heard: none is within a word or a number, such as in example.com."""
    after = text[place + 1 : end][:1]
    return not (text[place] in ".:,\n" and after.isalnum() and text[place] != "\n") and not (
        text[place] == "\n" and (not text[place + 1 : end].strip() or text[:place][-1:] in ",.;:!?")
    )
