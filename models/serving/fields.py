"""Fields of a request's body: each is read once, with its type and range; the rest is named."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rushlight.models.serving.errors import ApiError

MOST_TEXT = 1 << 23  # characters of one text


class Fields:
    """An object of a request. A field that is null counts as absent. Wrong ones are ApiErrors."""

    def __init__(self, body: Any, where: str = "") -> None:
        if not isinstance(body, Mapping):
            place = where or "the body"
            raise ApiError(f"{place} must be an object of JSON, not {_kind(body)}", param=where)
        self.body, self.where = body, where
        self._read: set[str] = set()

    def name(self, key: str) -> str:
        """The path of a field, for messages."""
        return f"{self.where}.{key}" if self.where else key

    def wrong(self, key: str, words: str, code: str | None = None) -> ApiError:
        """An error about a field: its name, its value, and what it must be."""
        name = self.name(key)
        return ApiError(f"{name} is {brief(self.body.get(key))}; {words}", param=name, code=code)

    def value(self, key: str) -> Any:
        """A field's value, or None."""
        self._read.add(key)
        return self.body.get(key)

    def has(self, key: str) -> bool:
        """Whether a field is there and not null."""
        return self.value(key) is not None

    def text(self, key: str, default: str = "", *, most: int = MOST_TEXT) -> str:
        """A text of at most `most` characters."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, "it must be a text")
        if len(value) > most:
            raise ApiError(
                f"{self.name(key)} has {len(value)} characters; at most {most}",
                param=self.name(key),
            )
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, "it must be true or false")
        return value

    def whole(self, key: str, least: int, most: int) -> int | None:
        """A whole number in a range; None if absent."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(key, f"it must be a whole number from {least} to {most}")
        return value

    def number(self, key: str, least: float, most: float) -> float | None:
        """A number in a range; None if absent."""
        value = self.value(key)
        if value is None:
            return None
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or not math.isfinite(value) or not least <= value <= most:
            raise self.wrong(key, f"it must be a number from {least:g} to {most:g}")
        return float(value)

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """One of some texts."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(key, f"supported: {', '.join(choices)}")
        return value

    def items(self, key: str, most: int) -> list[Any]:
        """A list of at most `most` items; empty if absent."""
        value = self.value(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(key, "it must be a list")
        if len(value) > most:
            raise ApiError(
                f"{self.name(key)} has {len(value)} items; at most {most}", param=self.name(key)
            )
        return value

    def object(self, key: str) -> dict[str, Any]:
        """An object of JSON; empty if absent."""
        value = self.value(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(key, "it must be an object of JSON")
        return value

    def texts(self, key: str, most: int) -> list[str]:
        """A text, or a list of at most `most` texts, none of them empty."""
        value = self.value(key)
        rows = [value] if isinstance(value, str) else self.items(key, most)
        if any(not isinstance(row, str) or not row for row in rows):
            raise self.wrong(key, "it must be a text, or a list of texts, none of them empty")
        if any(len(row) > MOST_TEXT for row in rows):
            raise ApiError(f"{self.name(key)} has a text of more than {MOST_TEXT} characters")
        return list(rows)

    def only(self, key: str, values: Sequence[Any], why: str) -> None:
        """Refuse a field unless it is absent or has one of the values that change nothing."""
        value = self.value(key)
        if value is not None and not any(value is v or value == v for v in values):
            raise self.wrong(key, f"it is not supported: {why}", "unsupported_parameter")

    def ignored(self, *names: str) -> None:
        """Accept fields that change no answer."""
        self._read.update(names)

    def done(self) -> None:
        """Refuse the fields that nobody has read."""
        left = [key for key in self.body if key not in self._read]
        if left:
            name = self.name(brief(left[0]) if not isinstance(left[0], str) else left[0][:80])
            raise ApiError(
                f"unrecognized field {name}; remove it", param=name, code="unknown_parameter"
            )


def brief(value: Any) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", type(None): "null", bool: "a truth value"}
    return names.get(type(value), "a number")
