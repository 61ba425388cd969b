"""Tokens of texts for voices: of phonemes, as Piper's voices take them, or of characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.models.layers.speech.voice import VoiceText
from rushlight.models.small_files import small_json
from rushlight.models.speech.speaking import espeak, lexicon, words
from rushlight.models.speech.speaking.words import Spoken

VOCABULARY = "vocab.json"
PHONEMIZERS = ("auto", "espeak", "lexicon")
_PAD, _BEGIN, _END, _SPACE = "_", "^", "$", " "
_ENGLISH = ("en", "eng")
_MOST_IDS = 64  # of a phoneme


@dataclass(frozen=True)
class Reading:
    """How a text is read.

    lexicon: words and their phonemes. phonemizer: "espeak", "lexicon", or "auto": espeak where it
    is installed.
    """

    lexicon: Mapping[str, str]
    phonemizer: str = "auto"


class Phonemes:
    """Tokens of phonemes: what is said of each, and what stands before, between and after them."""

    def __init__(
        self,
        ids: Mapping[str, tuple[int, ...]],
        language: str,
        voice: str,
        text: str | None = None,
    ) -> None:
        """language: such as en. voice: eSpeak's name of it. text: of a lexicon, if there is one."""
        self.ids, self.language, self.voice, self._text = ids, language, voice, text
        self._lexicon: lexicon.Lexicon | None = None

    @property
    def speaks_english(self) -> bool:
        """Whether words are English ones."""
        return self.language in _ENGLISH

    def read(self, text: str, reading: Reading) -> Iterator[VoiceText]:
        """The sentences of a text, each with its tokens.

        ValueError for a text without a word, and for a phoneme that the voice does not have.
        """
        spans = words.sentences(text)
        if not spans:
            raise ValueError("text-to-speech: the text has no word to say")
        for start, end in spans:
            spoken = self._phonemes(text, start, end, reading)
            if any(part.kind != "mark" and part.text for part in spoken):
                yield self._tokens(text, spoken)

    def _phonemes(self, text: str, start: int, end: int, reading: Reading) -> list[Spoken]:
        """The words of a sentence as phonemes, and marks."""
        spoken = list(words.parts(text, start, end))
        runs: list[list[int]] = [[]]  # words with no mark between them
        for i, part in enumerate(spoken):
            if part.kind == "word":
                runs[-1].append(i)
            else:
                runs.append([])
        for run in filter(None, runs):
            for i, phonemes in zip(
                run, self._say(text, [spoken[i] for i in run], reading), strict=True
            ):
                part = spoken[i]
                spoken[i] = Spoken("word", phonemes, part.start, part.end)
        return spoken

    def _say(self, text: str, run: list[Spoken], reading: Reading) -> list[str]:
        phonemes_of = {word.lower(): phonemes for word, phonemes in reading.lexicon.items()}
        installed = reading.phonemizer != "lexicon" and (
            reading.phonemizer == "espeak" or espeak.program() is not None
        )
        if installed:
            free = [part for part in run if part.text not in phonemes_of]
            [line] = espeak.phonemes([" ".join(p.text for p in free)], self.voice) if free else [""]
            said = iter(_aligned(line.split(), len(free)))
            return [phonemes_of[p.text] if p.text in phonemes_of else next(said) for p in run]
        if not self.speaks_english:
            unknown = [part for part in run if part.text not in phonemes_of]
            if unknown:
                first = unknown[0]
                raise ValueError(
                    f"text-to-speech: {text[first.start : first.end]!r} at character "
                    f"{first.start}: phonemes of {self.language or 'this language'} are not known "
                    f"here; {espeak.WAY_OUT}"
                )
            return [phonemes_of[part.text] for part in run]
        if self._lexicon is None:
            known = None if self._text is None else lexicon.Lexicon(self._text)
            self._lexicon = lexicon.fetched() if known is None else known
        for part in run:
            letter = next((c for c in part.text if ord(c) > 0x24F and c.isalpha()), None)
            if letter is not None:
                raise ValueError(
                    f"text-to-speech: {letter!r} at character {part.start} is of a script that the "
                    f"voice does not speak; it speaks {self.language}"
                )
        english = lexicon.English(self._lexicon, phonemes_of)
        return english.phonemes([(part.text, part.letters) for part in run])

    def _tokens(self, text: str, spoken: list[Spoken]) -> VoiceText:
        ids, written, mark = [*self.ids[_BEGIN], *self.ids[_PAD]], "", ""
        spans: list[tuple[int, int, int, int]] = []
        for part in spoken:
            if part.kind == "mark":  # of several, the one that ends the sentence
                if written and part.text in self.ids and (not mark or part.text in ".!?"):
                    mark = part.text
                continue
            if written:
                between = mark + _SPACE
                ids += self._ids(text, Spoken("mark", between, part.start, part.end))
                written, mark = written + between, ""
            first = len(ids)
            ids += self._ids(text, part)
            written += part.text
            same = spans and spans[-1][:2] == (part.start, part.end)
            begun = spans.pop()[2] if same else first
            spans.append((part.start, part.end, begun, len(ids)))
        if mark:
            ids += self._ids(text, Spoken("mark", mark, 0, 0))
        return VoiceText((*ids, *self.ids[_END]), tuple(spans), written + mark)

    def _ids(self, text: str, part: Spoken) -> list[int]:
        """The ids of phonemes, with those between them after each."""
        ids: list[int] = []
        for place, symbol in enumerate(unicodedata.normalize("NFD", part.text)):
            known = self.ids.get(symbol)
            if known is None:
                where = text[part.start : part.end]
                raise ValueError(
                    f"text-to-speech: phoneme {symbol!r} ({place + 1} of {part.text!r}, for "
                    f"{where!r} at character {part.start}) is not one of the voice's; it has "
                    f"{' '.join(s for s in self.ids if s not in (_PAD, _BEGIN, _END, _SPACE))}"
                )
            ids += [*known, *self.ids[_PAD]]
        return ids


class Characters:
    """Tokens of characters, with one that says nothing between them: MMS-TTS."""

    def __init__(
        self, ids: Mapping[str, int], config: Mapping[str, Any], blank: int | None
    ) -> None:
        """config: tokenizer_config.json. blank: the token between others, None for none."""
        self.ids, self.blank = ids, blank
        self.language = str(config.get("language") or "")
        self.normalize = config.get("normalize", True) is not False
        self.romanized = bool(config.get("is_uroman", False))
        unknown = config.get("unk_token", "<unk>")
        unknown = unknown.get("content") if isinstance(unknown, dict) else unknown
        self.unknown = ids.get(str(unknown))
        self._longer = sorted((s for s in ids if len(s) > 1), key=len, reverse=True)

    def read(self, text: str, reading: Reading) -> Iterator[VoiceText]:
        """The sentences of a text, each with its tokens; see `Phonemes.read`."""
        if reading.lexicon:
            raise ValueError(
                "text-to-speech: lexicon is for voices of phonemes; this one takes letters"
            )
        spoken = False
        for start, end in words.sentences(text):
            sentence = self._tokens(text, start, end)
            if len(sentence.words):
                spoken = True
                yield sentence
        if not spoken:
            raise ValueError(
                f"text-to-speech: the text {brief(text)} has no letter that the voice speaks; it "
                f"speaks {' '.join(s for s in self.ids if len(s) == 1 and s.isalnum())}"
            )

    def characters(self, text: str) -> list[tuple[str, int]]:
        """The characters that are tokens, each with its place in the text, as transformers' class
        `VitsTokenizer` has them."""
        if self.romanized and not text.isascii():
            raise ValueError(
                "text-to-speech: the voice takes Roman letters; write the text in them, such as "
                "uroman makes them (pip install uroman)"
            )
        if self.language == "ron":
            text = text.replace("ț", "ţ")
        characters = (
            list(self._lowered(text)) if self.normalize else [(c, i) for i, c in enumerate(text)]
        )
        if self.normalize:
            characters = [(c, i) for c, i in characters if c in self.ids]
            while characters and characters[0][0].isspace():
                characters.pop(0)
            while characters and characters[-1][0].isspace():
                characters.pop()
        return characters

    def _lowered(self, text: str) -> Iterator[tuple[str, int]]:
        place = 0
        while place < len(text):
            known = next((s for s in self._longer if text.startswith(s, place)), "")
            if known or text[place] in self.ids:
                for char in known or text[place]:
                    yield char, place
                place += len(known) or 1
                continue
            for char in text[place].lower():
                yield char, place
            place += 1

    def ids_of(self, characters: list[str]) -> list[int]:
        """The ids of characters, with blanks. ValueError for one that the voice does not have."""
        ids: list[int] = [] if self.blank is None else [self.blank]
        for char in characters:
            number = self.ids.get(char, self.unknown)
            if number is None:
                raise ValueError(f"text-to-speech: {char!r} is no character of the voice")
            ids += [number] if self.blank is None else [number, self.blank]
        return ids

    def _tokens(self, text: str, start: int, end: int) -> VoiceText:
        sentence = text[start:end]
        if self.language in _ENGLISH and any(c.isdigit() for c in sentence):
            characters = []
            for part in words.parts(text, start, end):
                characters += [
                    (c, part.start - start) for c in f" {part.text}" if part.kind == "word"
                ]
            characters = [(c, i) for c, i in characters[1:] if c in self.ids]
        else:
            characters = self.characters(sentence)
        wide = 1 if self.blank is None else 2
        spans: list[tuple[int, int, int, int]] = []
        inside = False
        for i, (char, place) in enumerate(characters):
            token = i * wide + (wide > 1)
            if not char.isalnum() and char not in "'-’":
                inside = False
            elif inside:
                begin, _, first, _ = spans[-1]
                spans[-1] = (begin, start + place + 1, first, token + wide)
            else:
                spans.append((start + place, start + place + 1, token, token + wide))
                inside = True
        return VoiceText(
            tuple(self.ids_of([char for char, _ in characters])),
            tuple(spans),
            "".join(char for char, _ in characters),
        )


def _aligned(phonemes: list[str], count: int) -> list[str]:
    """Words of phonemes for `count` words; where eSpeak joined some, the first has those of all."""
    if len(phonemes) == count or not count:
        return phonemes
    out: list[list[str]] = [[] for _ in range(count)]
    for i, word in enumerate(phonemes):
        out[min(i * count // max(len(phonemes), 1), count - 1)].append(word)
    return [" ".join(row) for row in out]


def tokens_of(
    files: Mapping[str, bytes], config: Any
) -> tuple[Phonemes | Characters | None, dict[str, bytes]]:
    """What makes tokens for a voice, by its small files and config.json, and the files of it.

    None where the files say nothing of it. FormatError for damaged files.
    """
    own_files = {name: files[name] for name in (VOCABULARY, lexicon.FILE) if name in files}
    text = files[lexicon.FILE].decode("utf-8", "replace") if lexicon.FILE in files else None
    if (voice := getattr(config, "voice", None)) is not None:
        return _piper(voice, config.vocab_size, text), own_files
    if VOCABULARY not in files:
        return None, own_files
    vocabulary = parse_json(files[VOCABULARY], VOCABULARY, depth=3)
    good = isinstance(vocabulary, dict) and all(
        type(i) is int and 0 <= i < config.vocab_size for i in vocabulary.values()
    )
    if not good:
        raise FormatError(
            f"{VOCABULARY} is not an object of characters and ids below {config.vocab_size}"
        )
    settings = small_json(files, "tokenizer_config.json")
    between = None if settings.get("add_blank") is False else 0
    if settings.get("phonemize", True) is not False:
        pads: tuple[int, ...] = () if between is None else (between,)
        ids: dict[str, tuple[int, ...]] = {
            symbol: (number,) for symbol, number in vocabulary.items()
        }
        ids |= {_PAD: pads, _BEGIN: (), _END: ()}
        return Phonemes(ids, "en", "en-us", text), own_files
    return Characters(vocabulary, settings, between), own_files


def _piper(config: Mapping[str, Any], most: int, text: str | None) -> Phonemes:
    raw = config.get("phoneme_id_map")
    rows = raw.items() if isinstance(raw, dict) else ()
    ids: dict[str, tuple[int, ...]] = {}
    for symbol, row in rows:
        numbers = row if isinstance(row, list) else [row]
        fits = len(numbers) <= _MOST_IDS and all(type(i) is int and 0 <= i < most for i in numbers)
        if not fits:
            raise FormatError(
                f"config.json: phoneme_id_map gives {symbol!r} the ids {brief(row)}; the voice has "
                f"ids 0 to {most - 1}"
            )
        ids[symbol] = tuple(numbers)
    missing = [symbol for symbol in (_PAD, _BEGIN, _END, _SPACE) if symbol not in ids]
    if missing:
        raise FormatError(f"config.json: phoneme_id_map has no {' '.join(map(repr, missing))}")
    voice = str(config.get("espeak") or "en-us")
    language = str(config.get("language") or voice).replace("_", "-").partition("-")[0].lower()
    return Phonemes(ids, language, voice, text)
