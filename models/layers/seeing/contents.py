"""Pictures and sounds in the messages of a chat: they are taken out, and a part stays for each."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError


@dataclass(frozen=True)
class Medium:
    """What messages hold, as transformers and others spell it.

    kind: the `type` of a part. noun: in errors. types: further types of parts. keys: of a part that
    may hold it. has_data: an object in its place may have its bytes in base64 as `data`.
    """

    kind: str
    noun: str
    types: tuple[str, ...]
    keys: tuple[str, ...]
    has_data: bool = False

    def taken_out(
        self, messages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Any], list[Mapping[str, Any]]]:
        """What messages hold, in their order, and the messages with {"type": kind} for each.

        FormatError for a part of that type that holds none, ValueError for an address.
        """
        values: list[Any] = []
        plain: list[Mapping[str, Any]] = []
        for message in messages:
            content = message.get("content") if isinstance(message, Mapping) else None
            if not isinstance(content, list | tuple):
                plain.append(message)
                continue
            parts: list[Any] = []
            for part in content:
                kind = part.get("type") if isinstance(part, Mapping) else None
                if kind == self.kind or kind in self.types:
                    values.append(self._value(part))
                    part = {"type": self.kind}
                parts.append(part)
            plain.append({**message, "content": parts})
        return values, plain

    def _value(self, part: Mapping[str, Any]) -> Any:
        value = next((part[key] for key in self.keys if part.get(key) is not None), None)
        encoded = "base64" in part
        if isinstance(value, Mapping):
            if self.has_data and "data" in value:
                value, encoded = value["data"], True
            elif "url" in value:
                value, encoded = value["url"], encoded and not self.has_data
        if value is None:
            raise FormatError(
                f'a message has a part {{"type": "{self.kind}"}} without a {self.noun}; give it as '
                f'"{self.kind}", "path", "url" or "base64"'
            )
        return self._opened(value, encoded)

    def _opened(self, value: Any, encoded: bool) -> Any:
        """The bytes of data addresses and of texts in base64; else the value itself."""
        if isinstance(value, str) and value.startswith(("http://", "https://")):
            raise ValueError(
                f"a message has a {self.noun} at {value:.80}; addresses are not fetched: give its "
                f"bytes, a path or data:{self.kind}/...;base64,..."
            )
        if isinstance(value, str) and (encoded or value.startswith("data:")):
            text = value.partition(",")[2] if value.startswith("data:") else value
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise FormatError(f"a {self.noun} in base64 is damaged: {error}") from None
        return value


PICTURES = Medium(
    "image", "picture", ("image_url",), ("image", "url", "path", "base64", "image_url")
)
SOUNDS = Medium(
    "audio",
    "sound",
    ("audio_url", "input_audio"),
    ("audio", "url", "path", "base64", "audio_url", "input_audio"),
    has_data=True,
)
