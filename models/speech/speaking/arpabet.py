"""The sounds of the CMU dictionary in the symbols of the IPA that eSpeak's American voices have."""

from __future__ import annotations

from collections.abc import Sequence

_CONSONANTS = {
    "B": "b", "CH": "tʃ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "dʒ", "K": "k",
    "L": "l", "M": "m", "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t",
    "TH": "θ", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
_VOWELS = {
    "AA": "ɑː", "AE": "æ", "AH": "ʌ", "AO": "ɔː", "AW": "aʊ", "AY": "aɪ", "EH": "ɛ", "ER": "ɜː",
    "EY": "eɪ", "IH": "ɪ", "IY": "iː", "OW": "oʊ", "OY": "ɔɪ", "UH": "ʊ", "UW": "uː",
}  # fmt: skip
_UNSTRESSED = {"AH": "ə", "ER": "ɚ", "IY": "i"}
_BEFORE_R = {"IY": "ɪ", "UW": "ʊ", "EY": "ɛ", "AE": "æ"}
_HISSING = frozenset("S Z SH ZH CH JH".split())
_STRESS = {"0": "", "1": "ˈ", "2": "ˌ"}
# Words that are said without stress, or in another way than alone.
WEAK = {
    "a": "ɐ", "an": "ɐn", "the": "ðə", "of": "ʌv", "to": "tə", "and": "ænd", "in": "ɪn", "is": "ɪz",
    "it": "ɪt", "that": "ðæt", "for": "fɔːɹ", "on": "ɔn", "was": "wʌz", "with": "wɪð", "as": "æz",
    "at": "æt", "by": "baɪ", "this": "ðɪs", "from": "fɹʌm", "be": "biː", "are": "ɑːɹ", "or": "ɔːɹ",
    "i": "aɪ", "you": "juː", "he": "hiː", "she": "ʃiː", "we": "wiː", "they": "ðeɪ", "but": "bʌt",
    "have": "hæv", "has": "hɐz", "had": "hæd", "his": "hɪz", "her": "hɜː", "my": "maɪ",
    "your": "jʊɹ", "their": "ðɛɹ", "will": "wɪl", "would": "wʊd", "can": "kæn", "could": "kʊd",
    "do": "duː", "if": "ɪf", "its": "ɪts", "were": "wɜː", "than": "ðɐn", "not": "nˌɑːt",
    "what": "wˌʌt", "when": "wˌɛn", "which": "wˌɪtʃ", "who": "hˌuː", "so": "sˌoʊ", "up": "ˌʌp",
    "should": "ʃˌʊd", "there": "ðɛɹ", "them": "ðˌɛm", "me": "mˌiː", "us": "ˌʌs", "our": "ˌaʊɚ",
    "been": "bˌɪn", "into": "ˌɪntʊ", "him": "hˌɪm", "no": "nˈoʊ", "i'm": "aɪm", "it's": "ɪts",
}  # fmt: skip
# Before a vowel.
_BEFORE_VOWEL = {"the": "ðɪ", "to": "tʊ"}
VOWELS = frozenset("aɑɐʌæɔeɛɜəɚiɪᵻoʊuœøyɒ")


def weak(word: str, following: str) -> str | None:
    """How a word that is not stressed sounds before other sounds; None for another word."""
    first = following.lstrip("ˈˌ")[:1]
    if word in _BEFORE_VOWEL and first in VOWELS and first:
        return _BEFORE_VOWEL[word]
    return WEAK.get(word)


def ipa(sounds: Sequence[str], spelling: str = "") -> str:
    """Sounds of the dictionary, such as HH AH0 L OW1, in IPA.

    The mark of stress stands before its vowel. spelling: the word, by which endings are told.
    KeyError for what is no sound of the dictionary.
    """
    out: list[str] = []
    count = sum(sound[-1:].isdigit() for sound in sounds)
    for i, sound in enumerate(sounds):
        after = sounds[i + 1] if i + 1 < len(sounds) else ""
        before = sounds[i - 1] if i else ""
        if not sound[-1:].isdigit():
            out.append(_consonant(sound, before, after))
            continue
        vowel, stress = sound[:-1], sound[-1]
        if count == 1 and stress == "0" and len(sounds) > 1:
            stress = "1"
        last = before if i == len(sounds) - 2 else ""
        ending = (after == "D" and last in ("T", "D") and spelling.endswith("ed")) or (
            after == "Z" and last in _HISSING and spelling.endswith(("es", "'s"))
        )
        if stress == "0":
            symbol = _UNSTRESSED.get(vowel, _VOWELS[vowel])
            if vowel == "IY" and after[-1:].isdigit():
                symbol = "ɪ"
            elif vowel == "AH" and not i and spelling[:1] == "a":
                symbol = "ɐ"
            elif vowel in ("IH", "AH") and ending:
                symbol = "ᵻ"
        else:
            symbol = _VOWELS[vowel]
            if vowel == "ER" and after[-1:].isdigit():
                symbol = "ɜːɹ"
        if after == "R":
            symbol = _BEFORE_R.get(vowel, symbol)
        out.append(_STRESS[stress] + symbol)
    return "".join(out)


def _consonant(sound: str, before: str, after: str) -> str:
    voiced = before[-1:].isdigit() or before == "R"
    if sound == "T" and voiced and after[-1:] == "0" and after != "AH0":
        return "ɾ"
    return _CONSONANTS[sound]
