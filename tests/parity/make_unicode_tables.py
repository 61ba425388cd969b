"""Write web/tokenizer/unicode.js: the character classes that the `tokenizers` package works with.

The package carries the tables of several Unicode versions (8 for punctuation and controls, 9 for
decomposition, 16 for letters and digits), while a browser's own property escapes follow whatever
version the browser was built with. So that ids do not depend on the browser, the classes are
measured here from the package itself, one code point after the other, and committed.

    python tests/parity/make_unicode_tables.py > web/tokenizer/unicode.js
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable

import tokenizers
from tokenizers import normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]

HEADER = """\
/** The character classes of Hugging Face's `tokenizers`, as packed ranges of code points.
 *
 * Written by tests/parity/make_unicode_tables.py from tokenizers {version}; do not edit. The
 * numbers are base 36 and alternate: how far the next range starts after the last one's end, and
 * how many code points it has.
 */
"""

CLASSES = {
    "control": "what BertNormalizer's clean_text removes",
    "cjk": "what BertNormalizer's handle_chinese_chars puts spaces around",
    "mark": "the nonspacing marks that BertNormalizer's strip_accents removes",
    "compose": "what NFD decomposes or reorders",
    "punctuation": "what BertPreTokenizer splits off",
    "space": "white space",
    "letter": "\\p{L} of the byte-level pattern",
    "number": "\\p{N} of the byte-level pattern",
    "compat": "what NFKD changes but NFD does not",
    "combining": "the marks that StripAccents removes",
}

# General categories of \\p{...} in the package's patterns, by their names in unicode.js.
CATEGORIES = {
    "P": "categoryP",
    "S": "categoryS",
    "M": "categoryM",
    "Lu": "categoryLu",
    "Ll": "categoryLl",
    "Lt": "categoryLt",
    "Lm": "categoryLm",
    "Lo": "categoryLo",
    "Nd": "categoryNd",
}
SCRIPTS = (
    "Han Hiragana Katakana Hangul Bopomofo Latin Cyrillic Greek Arabic Hebrew Thai Devanagari "
    "Bengali Tamil Telugu Georgian Armenian Khmer Lao Myanmar Ethiopic"
).split()
CATEGORIES |= {script: f"script{script}" for script in SCRIPTS}
# Characters of words besides letters, marks and decimal digits.
WORDS = {
    "wordOfPatterns": "\\w of patterns, but for \\p{L}, \\p{M} and \\p{Nd}",
    "wordOfWhitespace": "\\w of the pre-tokenizer Whitespace, but for the same",
}


def _bert(**on: bool) -> normalizers.Normalizer:
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def _words(pre_tokenizer: pre_tokenizers.PreTokenizer, text: str) -> int:
    return len(pre_tokenizer.pre_tokenize_str(text))


def measure(codes: Iterable[int] = CODE_POINTS) -> dict[str, list[int]]:
    """Those of `codes`, which rise, that are in each class."""
    clean, cjk = _bert(clean_text=True), _bert(handle_chinese_chars=True)
    strip, nfd = _bert(strip_accents=True), normalizers.NFD()
    nfkd, marks = normalizers.NFKD(), normalizers.StripAccents()
    bert = pre_tokenizers.BertPreTokenizer()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found: dict[str, list[int]] = {name: [] for name in CLASSES}
    for code in codes:
        char = chr(code)
        if clean.normalize_str(char) == "":
            found["control"].append(code)
        if cjk.normalize_str(char) != char:
            found["cjk"].append(code)
        plain = nfd.normalize_str(char)
        if plain == char and strip.normalize_str(char) == "":
            found["mark"].append(code)
        # U+0345 has the highest combining class and U+0334 the lowest, so a mark between moves.
        if plain != char or nfd.normalize_str(f"\u0345{char}\u0334") != f"\u0345{char}\u0334":
            found["compose"].append(code)
        if nfkd.normalize_str(char) != plain:
            found["compat"].append(code)
        if marks.normalize_str(char) == "":
            found["combining"].append(code)
        words = _words(bert, f"a{char}a")
        if words == 2:
            found["space"].append(code)
        elif words == 3:
            found["punctuation"].append(code)
        if _words(byte_level, f"a{char}") == 1:
            found["letter"].append(code)
        elif _words(byte_level, f"1{char}") == 1:
            found["number"].append(code)
    return found


def measure_categories(codes: Iterable[int] = CODE_POINTS) -> dict[str, list[int]]:
    """Those of `codes`, which rise, that \\p{...} matches, by category."""
    text = "".join(map(chr, codes))
    found = {}
    for category in CATEGORIES:
        others = normalizers.Replace(tokenizers.Regex(rf"\p{{{category}}}"), "").normalize_str(text)
        rest = set(others)
        found[category] = [ord(char) for char in text if char not in rest]
    return found


def measure_words(codes: Iterable[int] = CODE_POINTS) -> dict[str, list[int]]:
    """Those of `codes`, which rise, that are in each class of WORDS."""
    text, whitespace = "".join(map(chr, codes)), pre_tokenizers.Whitespace()
    rest = normalizers.Replace(tokenizers.Regex(r"[\p{L}\p{M}\p{Nd}]"), "").normalize_str(text)
    others = set(normalizers.Replace(tokenizers.Regex(r"\w"), "").normalize_str(rest))
    return {
        "wordOfPatterns": [ord(char) for char in rest if char not in others],
        "wordOfWhitespace": [ord(c) for c in rest if _words(whitespace, f"a{c}a") == 1],
    }


def _base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def pack(codes: list[int]) -> str:
    """The ascending `codes` as alternating gaps and lengths in base 36."""
    numbers: list[int] = []
    end = 0
    for code in codes:
        if numbers and code == end:
            numbers[-1] += 1
        else:
            numbers += [code - end, 1]
        end = code + 1
    return " ".join(map(_base36, numbers))


def unpack(packed: str) -> list[int]:
    """The code points that `pack` packed."""
    codes: list[int] = []
    at = 0
    numbers = [int(digits, 36) for digits in packed.split()]
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        codes += range(at + gap, at + gap + length)
        at += gap + length
    return codes


def render() -> str:
    """The text of web/tokenizer/unicode.js."""
    found = measure()
    parts = [HEADER.format(version=tokenizers.__version__)]
    for name, meaning in CLASSES.items():
        lines = "\n".join(textwrap.wrap(pack(found[name]), 100))
        parts.append(f"\n/** {name}: {meaning}. */\nexport const {name} = `\n{lines}\n`;\n")
    for category, codes in measure_categories().items():
        name, lines = CATEGORIES[category], "\n".join(textwrap.wrap(pack(codes), 100))
        meaning = f"\n/** {name}: \\p{{{category}}} of patterns. */\n"
        told = "" if category in SCRIPTS else meaning
        parts.append(f"{told}export const {name} = `\n{lines}\n`;\n")
    for name, codes in measure_words().items():
        lines = "\n".join(textwrap.wrap(pack(codes), 100))
        parts.append(f"\n/** {name}: {WORDS[name]}. */\nexport const {name} = `\n{lines}\n`;\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(render())
