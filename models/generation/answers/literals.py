"""Calls in the forms of programs: f(a="x", b=[1, 2]) and call:f{a:1}, read without running them.

A reader of its own, in linear time and to a bounded depth: answers are texts from outside.
"""

from __future__ import annotations

import json
import re
from typing import Any

_DEEPEST = 64
_BLANKS = re.compile(r"[ \t\r\n]*+")
_NAME = re.compile(r"[^\W\d][\w.-]{0,255}+")
_NUMBER = re.compile(r"[-+]?(?:\d++(?:_\d++)*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?")
_PLAIN = re.compile(r"[^\\'\"\n]++")
_KEY = re.compile(r"[^\s:{}\[\],\"'<]{1,256}+")
_WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
# Texts that stand for quotes, with those that end them: Gemma's have them as tokens.
_QUOTES = ('<|"|>', "<escape>", '"""', "'''", '"', "'")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0",
            "\n": ""}  # fmt: skip
_LONGEST = 4000  # digits of a number


class Malformed(ValueError):
    """A text that is no call in such a form."""


class Literals:
    """Reads values and calls from `text`, from the place `at` on; Malformed for anything else."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at = text, at

    def blanks(self) -> None:
        """Go past blanks."""
        match = _BLANKS.match(self.text, self.at)
        self.at = self.at if match is None else match.end()

    def sees(self, word: str) -> bool:
        """Whether `word` comes next after blanks; goes past it if so."""
        self.blanks()
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def expect(self, word: str) -> None:
        """Go past `word`, which has to come next."""
        if not self.sees(word):
            raise Malformed(word)

    def ended(self) -> bool:
        """Whether only blanks are left."""
        self.blanks()
        return self.at >= len(self.text)

    def name(self) -> str:
        """A name, which may have dots and dashes."""
        self.blanks()
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise Malformed("name")
        self.at = match.end()
        return match[0]

    def call(self) -> tuple[str, dict[str, Any]]:
        """name(key=value, ...)."""
        name = self.name()
        self.expect("(")
        return name, self._fields(")", "=", 0)

    def braced(self) -> tuple[str, dict[str, Any]]:
        """name{key:value, ...}."""
        name = self.name()
        self.expect("{")
        return name, self._fields("}", ":", 0)

    def value(self, deep: int = 0) -> Any:
        """A text, a number, a truth value, none, a list, a tuple or a dict."""
        if deep > _DEEPEST:
            raise Malformed("depth")
        self.blanks()
        text, place = self.text, self.at
        for quote in _QUOTES:
            if text.startswith(quote, place):
                return self._quoted(quote)
        for opening, closing in (("[", "]"), ("(", ")")):
            if self.sees(opening):
                return self._items(closing, deep)
        if self.sees("{"):
            return self._fields("}", ":", deep + 1)
        if (number := _NUMBER.match(text, place)) is not None and len(number[0]) < _LONGEST:
            self.at = number.end()
            is_integer = number[0].lstrip("+-").replace("_", "").isdigit()
            return int(number[0]) if is_integer else float(number[0])
        word = _NAME.match(text, place)
        if word is not None and word[0] in _WORDS:
            self.at = word.end()
            return _WORDS[word[0]]
        raise Malformed("value")

    def _items(self, closing: str, deep: int) -> list[Any]:
        items: list[Any] = []
        while not self.sees(closing):
            items.append(self.value(deep + 1))
            if not self.sees(","):
                self.expect(closing)
                break
        return items

    def _fields(self, closing: str, sign: str, deep: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not self.sees(closing):
            self.blanks()
            key: Any = None
            if any(self.text.startswith(quote, self.at) for quote in _QUOTES):
                key = self.value(deep)
            elif (match := (_KEY if sign == ":" else _NAME).match(self.text, self.at)) is not None:
                key, self.at = match[0], match.end()
            if not isinstance(key, str):
                raise Malformed("key")
            self.expect(sign)
            fields[key] = self.value(deep + 1)
            if not self.sees(","):
                self.expect(closing)
                break
        return fields

    def _quoted(self, quote: str) -> str:
        self.at += len(quote)
        if len(quote) > 1 and quote[0] == "<":  # what is between tokens has no escapes
            end = self.text.find(quote, self.at)
            if end < 0:
                raise Malformed("quote")
            text, self.at = self.text[self.at : end], end + len(quote)
            return text
        parts: list[str] = []
        while not self.text.startswith(quote, self.at):
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None:
                parts.append(plain[0])
                self.at = plain.end()
                continue
            if self.at >= len(self.text):
                raise Malformed("quote")
            char = self.text[self.at]
            self.at += 1
            parts.append(self._escaped() if char == "\\" else char)
        self.at += len(quote)
        return "".join(parts)

    def _escaped(self) -> str:
        char = self.text[self.at : self.at + 1]
        self.at += 1
        size = {"x": 2, "u": 4, "U": 8}.get(char)
        if size is None:
            return _ESCAPES.get(char, char if char in "\\'\"" else f"\\{char}")
        digits = self.text[self.at : self.at + size]
        if not re.fullmatch(f"[0-9a-fA-F]{{{size}}}", digits):
            raise Malformed("escape")
        self.at += size
        number = int(digits, 16)
        after = self.text[self.at : self.at + 6]
        if 0xD800 <= number < 0xDC00 and re.fullmatch(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}", after):
            self.at += 6
            return str(json.loads(f'"\\u{digits}{after}"'))
        if number > 0x10FFFF:
            raise Malformed("escape")
        return "\ufffd" if 0xD800 <= number < 0xE000 else chr(number)


def literal_of(text: str) -> Any:
    """The value of a text that is a literal of Python; None for any other text."""
    reader = Literals(text)
    try:
        value = reader.value()
        return value if reader.ended() else None
    except (Malformed, RecursionError, ValueError):
        return None
