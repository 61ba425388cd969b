"""English words that no dictionary has: their sounds by their letters."""

from __future__ import annotations

import re
from collections.abc import Iterator

# How the letters themselves are called, in sounds of the CMU dictionary.
NAMES = {
    "a": "EY1", "b": "B IY1", "c": "S IY1", "d": "D IY1", "e": "IY1", "f": "EH1 F", "g": "JH IY1",
    "h": "EY1 CH", "i": "AY1", "j": "JH EY1", "k": "K EY1", "l": "EH1 L", "m": "EH1 M",
    "n": "EH1 N", "o": "OW1", "p": "P IY1", "q": "K Y UW1", "r": "AA1 R", "s": "EH1 S",
    "t": "T IY1", "u": "Y UW1", "v": "V IY1", "w": "D AH1 B AH0 L Y UW0", "x": "EH1 K S",
    "y": "W AY1", "z": "Z IY1",
}  # fmt: skip
# Each rule: what is before, the letters, what follows, and their sounds; - is anything. The first
# that fits is taken.
_TABLE = """
    - tion - SH AH N; - sion - ZH AH N; - ture $|s$ CH ER; - cious - SH AH S; - tious - SH AH S;
    - tial - SH AH L; - cial - SH AH L; - ough t AO; - augh t AO; - ough - OW; - eigh - EY;
    - igh - AY; - tch - CH; - sch - SH; - dge - JH; - ck - K; - ch [lrs] K; - ch - CH; - sh - SH;
    - ph - F; ^ wr - R; ^ kn - N; ^ gn - N; ^ ps - S; - th - TH; - wh - W; - qu - K W; - gh $;
    - gh - G; - ng $|[sd]$ NG; - nk - NG K; - mb $ M; - sc [eiy] S; - c [eiy] S; - cc - K;
    - c - K; - gg - G; - g [ei](?!r$)|y$ JH; - g - G; - ai|ay - EY; - au|aw - AO; - ee|ea r IH;
    - ee|ea|ie(?=[a-z]) - IY; - ei|ey(?=[a-z]) - EY; - ey $ IY; - eu|ew - UW; - oa|oe - OW;
    - oi|oy - OY; - oo k UH; - oo - UW; - ou s$ AH; - ou|ow(?=[a-z]) - AW; - ow $ OW;
    - ue|ui - UW; - are $|s$ EH R; - ire $|s$|d$ AY R; - ore $|s$|d$ AO R; - ure $|s$|d$ Y UH R;
    - ar - AA R; - or - AO R; - er|ir|ur|yr (?![aeiouy]) ER; - a [bcdfgklmnpstvz]e(?:s?$|d$) EY;
    - e [bcdfgklmnpstvz]e(?:s?$|d$) IY; - i [bcdfgklmnpstvz]e(?:s?$|d$) AY;
    - o [bcdfgklmnpstvz]e(?:s?$|d$) OW; - u [bcdfgklmnpstvz]e(?:s?$|d$) UW;
    - y [bcdfgklmnpstvz]e(?:s?$|d$) AY; [td] ed $ IH D; [kpfsxh] ed $ T; [a-z]{2} ed $ D;
    ch|sh es $ IH Z; [sxz] es $ IH Z; [a-z]{2}l e $; [bdfgkptz] le $ AH L; [a-z]{2} e $|s$;
    - a $ AH; - ia - IY AH; - io - IY OW; - a - AE; - e $ IY; - e - EH; - i $ IY; - i - IH;
    - o $|[aeiou] OW; - o - AA; - u $|[aeiou] UW; - u - AH; ^ y - Y; - y $ IY; - y - IH;
    - x - K S; ^ j - JH; - j - JH; - q - K; [bdglmnrvwaeiouy] s $ Z; - ss? - S; - z+ - Z;
    - r+h? - R; - b+ - B; - d+ - D; - f+ - F; - h - HH; - k+ - K; - l+ - L; - m+ - M; - n+ - N;
    - p+ - P; - t+ - T; - v+ - V; - w - W
"""


def _rules() -> Iterator[tuple[re.Pattern[str], re.Pattern[str], str]]:
    """What stands before, the letters with what follows, and the sounds."""
    for row in _TABLE.replace("\n", " ").split(";"):
        before, letters, after, *sounds = row.split()
        behind = "" if before == "-" else f"(?<={before})"
        ahead = "" if after == "-" else f"(?={after})"
        yield re.compile(behind), re.compile(f"(?:{letters}){ahead}"), " ".join(sounds)


_RULES = tuple(_rules())
_VOWELS = frozenset("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split())


def spelled_out(word: str) -> list[str]:
    """The names of the letters of a word, with the last of them stressed."""
    names = [NAMES[letter] for letter in word if letter in NAMES]
    weaker = [name.replace("1", "2") for name in names[:-1]] + names[-1:]
    return " ".join(weaker).split()


def sounds_of(word: str) -> list[str]:
    """The sounds of a word of small letters, by rules; the stress is on the first vowel, or on the
    one before an ending such as -tion. Letters that no rule has are left out."""
    if len(word) > 1 and not re.search("[aeiouy]", word):
        return spelled_out(word)
    sounds: list[str] = []
    place = 0
    while place < len(word):
        for before, letters, out in _RULES:
            m = letters.match(word, place)
            if m and m.end() > place and _fits(before, word, place):
                sounds += out.split()
                place = m.end()
                break
        else:
            place += 1
    vowels = [i for i, sound in enumerate(sounds) if sound in _VOWELS]
    if not vowels:
        return spelled_out(word)
    late = re.search(r"(?:[tsc]ion|[tc]ious|ity|ic|ical|ial|ian)s?$", word)
    back = 3 if re.search(r"(?:ity|ical)s?$", word) else 2
    stressed = vowels[-back] if late and len(vowels) >= back else vowels[0]
    return [
        sound + ("1" if i == stressed else "0") if i in vowels else sound
        for i, sound in enumerate(sounds)
    ]


def _fits(before: re.Pattern[str], word: str, place: int) -> bool:
    return not before.pattern or before.match(word, place) is not None
