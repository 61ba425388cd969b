"""Tokens of phonemes as Kokoro's voices have them: one sign for each diphthong and affricate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.layers.speech.voice import VoiceText
from rushlight.models.speech.speaking import lexicon, words
from rushlight.models.speech.speaking.tokens import Phonemes, Reading
from rushlight.models.speech.speaking.words import Spoken

# By the first letter of a voice's name: its language, and eSpeak's name of it.
LANGUAGES = {
    "a": ("en", "en-us"),
    "b": ("en", "en-gb"),
    "e": ("es", "es"),
    "f": ("fr", "fr-fr"),
    "h": ("hi", "hi"),
    "i": ("it", "it"),
    "p": ("pt", "pt-br"),
}
# And those whose sounds nothing here makes.
_OTHERS = {"j": "Japanese", "z": "Chinese"}
# eSpeak's signs, of which the longest are first, and Kokoro's.
_ALL = (("d͡ʒ", "ʤ"), ("t͡ʃ", "ʧ"), ("dʒ", "ʤ"), ("tʃ", "ʧ"), ("r", "ɹ"))
_ENGLISH = (
    *_ALL,
    ("aɪ", "I"), ("aʊ", "W"), ("eɪ", "A"), ("ɔɪ", "Y"), ("e", "A"), ("x", "k"), ("ç", "k"),
    ("ɐ", "ə"), ("ɚ", "əɹ"), ("ɬ", "l"), ("ʔ", "t"), ("\u0303", ""), ("\u0329", ""),
)  # fmt: skip
_AMERICAN = (("oʊ", "O"), ("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɪə", "iə"), ("ː", ""), ("ɾ", "T"))
_BRITISH = (("eə", "ɛː"), ("iə", "ɪə"), ("əʊ", "Q"))


def kokoro_signs(phonemes: str, letter: str) -> str:
    """Phonemes of eSpeak, or of the IPA as our lexicon has them, in Kokoro's signs.

    letter: the first of a voice's name, which says its language.
    """
    rows = _ENGLISH if letter in "ab" else _ALL
    first, after = (_BRITISH, ()) if letter == "b" else ((), _AMERICAN if letter == "a" else ())
    for old, new in (*first, *after[:1], *rows, *after[1:]):
        phonemes = phonemes.replace(old, new)
    return phonemes.replace("o", "ɔ") if letter in "ab" else phonemes


class KokoroPhonemes(Phonemes):
    """Tokens for the voices of a language; sentences are cut where the model cannot hold them."""

    def __init__(
        self, ids: Mapping[str, tuple[int, ...]], letter: str, most: int, text: str | None
    ) -> None:
        """letter: of the language. most: tokens of a sentence. text: of a lexicon, if any."""
        language, voice = LANGUAGES.get(letter, (_OTHERS.get(letter, letter), ""))
        super().__init__(ids, language, voice, text)
        self.letter, self.most = letter, most

    def read(self, text: str, reading: Reading) -> Iterator[VoiceText]:
        """The sentences of a text, each with its tokens; see `Phonemes.read`."""
        spans = words.sentences(text)
        if not spans:
            raise ValueError("text-to-speech: the text has no word to say")
        for start, end in spans:
            spoken = self._phonemes(text, start, end, reading)
            if any(part.kind != "mark" and part.text for part in spoken):
                yield from self._cut(text, spoken)

    def _cut(self, text: str, spoken: list[Spoken]) -> Iterator[VoiceText]:
        said = self._tokens(text, spoken)
        if len(said.ids) <= self.most:
            yield said
            return
        if len(spoken) < 2:
            raise ValueError(
                f"text-to-speech: {brief(spoken[0].text)} at character {spoken[0].start} has "
                f"{len(said.ids) - 2} phonemes; the voice takes {self.most - 2} at a time"
            )
        half = len(spoken) // 2
        marks = [i + 1 for i, part in enumerate(spoken[:-1]) if part.kind == "mark"]
        at = min(marks, key=lambda i: abs(i - half)) if marks else half
        for part in (spoken[:at], spoken[at:]):
            if any(piece.kind != "mark" and piece.text for piece in part):
                yield from self._cut(text, part)

    def _say(self, text: str, run: list[Spoken], reading: Reading) -> list[str]:
        known = {word.lower() for word in reading.lexicon}
        if not self.voice and any(part.text not in known for part in run):
            first = next(part for part in run if part.text not in known)
            raise ValueError(
                f"text-to-speech: {text[first.start : first.end]!r} at character {first.start}: "
                f"phonemes of {self.language} are not known here; write them between [[ and ]], or "
                "in a lexicon"
            )
        if not self.voice:
            own = {word.lower(): phonemes for word, phonemes in reading.lexicon.items()}
            return [own[part.text] for part in run]
        return [kokoro_signs(said, self.letter) for said in super()._say(text, run, reading)]

    def _ids(self, text: str, part: Spoken) -> list[int]:
        ids: list[int] = []
        for place, symbol in enumerate(part.text):
            known = self.ids.get(symbol)
            if known is None:
                where = text[part.start : part.end]
                raise ValueError(
                    f"text-to-speech: phoneme {symbol!r} ({place + 1} of {part.text!r}, for "
                    f"{where!r} at character {part.start}) is not one of the voice's; it has "
                    f"{' '.join(s for s in self.ids if s not in '_^$ ')}"
                )
            ids += known
        return ids


def readers_of(
    files: Mapping[str, bytes], config: Any, most: int
) -> tuple[dict[str, KokoroPhonemes], dict[str, bytes]]:
    """What makes tokens, by the first letter of a voice's name, and the small files of it.

    config: its `vocab` has the id of each sign. most: tokens of a sentence. FormatError for ids
    that are not below n_token.
    """
    vocabulary = config.vocab
    good = isinstance(vocabulary, dict) and all(
        type(i) is int and 0 <= i < config.n_token for i in vocabulary.values()
    )
    if not good or " " not in vocabulary:
        raise FormatError(
            f"config.json: vocab is no object of phonemes, a space among them, and ids below "
            f"n_token {config.n_token}"
        )
    ids: dict[str, tuple[int, ...]] = {sign: (i,) for sign, i in vocabulary.items()}
    ids |= {"_": (), "^": (0,), "$": (0,)}
    kept = {name: files[name] for name in (lexicon.FILE,) if name in files}
    text = kept[lexicon.FILE].decode("utf-8", "replace") if kept else None
    letters = (*LANGUAGES, *_OTHERS)
    return {letter: KokoroPhonemes(ids, letter, most, text) for letter in letters}, kept
