"""Numbers, money, times and signs written as English words."""

from __future__ import annotations

import re
from collections.abc import Callable

_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen""".split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
_THOUSANDS = ("", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion")
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_MONEY = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
}
_MORE = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion"}
_UNITS = {
    "km": "kilometers", "m": "meters", "cm": "centimeters", "mm": "millimeters", "kg": "kilograms",
    "g": "grams", "mg": "milligrams", "lb": "pounds", "lbs": "pounds", "oz": "ounces",
    "ft": "feet", "mph": "miles per hour", "km/h": "kilometers per hour", "ms": "milliseconds",
    "kb": "kilobytes", "mb": "megabytes", "gb": "gigabytes", "tb": "terabytes", "hz": "hertz",
    "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz", "°c": "degrees celsius",
    "°f": "degrees fahrenheit", "°": "degrees", "%": "percent",
}  # fmt: skip
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_LONGEST = 21  # digits that are read as one number


def cardinal(digits: str) -> str:
    """A whole number in words; its digits one by one where it has more than 21."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > _LONGEST:
        return each_digit(digits)
    if len(digits) <= 3:
        return _below_thousand(int(digits))
    words: list[str] = []
    number, place = int(digits), 0
    while number:
        number, rest = divmod(number, 1000)
        if rest:
            words.insert(0, f"{_below_thousand(rest)} {_THOUSANDS[place]}".strip())
        place += 1
    return " ".join(words)


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = [f"{_ONES[hundreds]} hundred"] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10])
        rest %= 10
        if rest:
            words.append(_ONES[rest])
    elif rest or not hundreds:
        words.append(_ONES[rest])
    return " ".join(words)


def each_digit(digits: str) -> str:
    """Digits one by one."""
    return " ".join(_ONES[int(digit)] for digit in digits)


def ordinal(digits: str) -> str:
    """A whole number's place, such as twenty first."""
    before, space, last = cardinal(digits).rpartition(" ")
    if last in _ORDINALS:
        last = _ORDINALS[last]
    else:
        last = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return before + space + last


def year(digits: str) -> str:
    """Four digits as a year."""
    first, second = digits[:2], digits[2:]
    if digits[1:3] == "00" or (digits[0] == "2" and digits[1] == "0" and digits[2] == "0"):
        return cardinal(digits)
    if second == "00":
        return f"{cardinal(first)} hundred"
    return f"{cardinal(first)} {'oh ' if second[0] == '0' else ''}{cardinal(second)}"


def _plain(number: str) -> str:
    """A number with a fraction, perhaps; with commas, perhaps."""
    whole, point, rest = number.replace(",", "").partition(".")
    words = cardinal(whole or "0")
    return f"{words} point {each_digit(rest)}" if point and rest else words


def _money(m: re.Match[str]) -> str:
    one, many, small_one, small_many = _MONEY[m[1]]
    whole, fraction, more = m[2].replace(",", ""), m[3], (m[4] or "").strip().lower()
    if more:
        amount = _plain(f"{whole}.{fraction}" if fraction else whole)
        return f"{amount} {_MORE.get(more, more)} {many}"
    words = [f"{cardinal(whole)} {one if int(whole) == 1 else many}"]
    if fraction and small_one:
        cents = int(f"{fraction}0"[:2])
        if cents:
            small = f"{cardinal(str(cents))} {small_one if cents == 1 else small_many}"
            words = [small] if not int(whole) else [*words, "and", small]
    return " ".join(words)


def _time(m: re.Match[str]) -> str:
    hour, minute, half = m[1], m[2], (m[3] or "").lower().replace(".", "").strip()
    words = [cardinal(hour)]
    if int(minute):
        words.append(f"oh {cardinal(minute)}" if minute[0] == "0" else cardinal(minute))
    elif not half:
        words.append("o'clock" if 0 < int(hour) < 13 else "hundred")
    return " ".join([*words, *half])


def _fraction(m: re.Match[str]) -> str:
    top, bottom = m[1], int(m[2])
    name = {2: "half", 4: "quarter"}.get(bottom) or ordinal(m[2])
    if int(top) != 1:
        name = "halves" if name == "half" else f"{name}s"
    return f"{cardinal(top)} {name}"


def _measured(m: re.Match[str]) -> str:
    unit = _UNITS[m[2].lower()]
    if m[1] == "1" and unit != "percent":
        first, space, rest = unit.partition(" ")
        first = {"feet": "foot"}.get(first, first.removesuffix("s") if first != "hertz" else first)
        unit = first + space + rest
    return f"{_plain(m[1])} {unit}"


# What is read as words, the first that fits; each stands alone, with no letter or digit beside it.
_FORMS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (
        rf"([$£€¥])({_NUMBER})(?:\.(\d+))?(\s?(?:thousand|million|billion|trillion|bn|[kmb])\b)?",
        _money,
    ),
    (r"(\d{1,2}):([0-5]\d)(\s?[ap]\.?m\.?)?", _time),
    (rf"({_NUMBER})(?:st|nd|rd|th)", lambda m: ordinal(m[1].replace(",", ""))),
    (r"(\d{1,2})/(\d{1,2})(?![/\d])", _fraction),
    (r"(1[1-9]\d\d|20\d\d)(?:s)", lambda m: f"{year(m[1])}s".replace("ys", "ies")),
    (rf"({_NUMBER}(?:\.\d+)?)\s?({_UNIT})(?![\w])", _measured),
    (r"(1[1-9]\d\d|20\d\d)(?![\d.,]*\d)", lambda m: year(m[1])),
    (rf"({_NUMBER}?\.\d+|{_NUMBER})", lambda m: _plain(m[1])),
)
_ANY = [(re.compile(pattern, re.I), words) for pattern, words in _FORMS]
SIGNS = {
    "&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "#": "number",
    "°": "degrees",
    "<": "less than", ">": "greater than", "~": "about", "×": "times", "÷": "divided by",
    "$": "dollars", "£": "pounds", "€": "euros", "/": "slash", "*": "times", "_": " ",
    "^": "to the",
}  # fmt: skip
# Endings stand for the words; a full stop after one ends no sentence.
ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor",
    "st": "saint", "jr": "junior", "sr": "senior", "vs": "versus", "etc": "et cetera",
    "no": "number", "vol": "volume", "fig": "figure", "approx": "approximately",
    "dept": "department",
    "gen": "general", "gov": "governor", "capt": "captain", "col": "colonel", "lt": "lieutenant",
    "sgt": "sergeant", "rev": "reverend", "hon": "honorable", "inc": "incorporated",
    "ltd": "limited", "co": "company", "corp": "corporation", "ave": "avenue", "blvd": "boulevard",
    "rd": "road", "mt": "mount", "jan": "january", "feb": "february", "mar": "march",
    "apr": "april", "jun": "june", "jul": "july", "aug": "august", "sep": "september",
    "sept": "september", "oct": "october", "nov": "november", "dec": "december",
    "e.g": "for example", "i.e": "that is", "a.m": "a m", "p.m": "p m", "u.s": "u s", "u.k": "u k",
    "ph.d": "p h d",
}  # fmt: skip
# Words by themselves, which only a capital makes an abbreviation where it ends a sentence.
PLAIN = frozenset("no co fig mar gen col sat sun st".split())


def number_at(text: str, place: int) -> tuple[int, str] | None:
    """The end of the number, amount or time that stands at `place`, and its words; None if none."""
    for pattern, words in _ANY:
        if m := pattern.match(text, place):
            return m.end(), words(m)
    return None
