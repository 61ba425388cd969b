"""The tokenizer of RWKV's world models: the longest token that fits, from the left.

A line of the vocabulary's file is an id, a string or bytes as Python writes them, and the length in
bytes: `261 '\\n\\n' 2`. Id 0, the end of a text, has no line.
"""

from __future__ import annotations

import ast
import re

import numpy as np

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.text.tokenizer import Encoding, Spellings, Tokenizer
from rushlight.core.io.text.tokenizer_checks import check_id, check_text

WORLD = "rwkv_vocab_v20230424.txt"  # the file's name
_LONGEST = 512  # bytes of a token; so a byte of a text costs a bounded time
_LARGEST = 1 << 24
_ESCAPE = r"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00[01][0-9a-fA-F]{5})"
_LINE = re.compile(
    rf"(\d{{1,8}}) (b?(?:'(?:[^'\\]|{_ESCAPE})*'|\"(?:[^\"\\]|{_ESCAPE})*\")) (\d{{1,4}})\r?"
)
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")


class WorldTokenizer(Tokenizer):
    """A tokenizer from the bytes of such a file; the same in a Python process and in a tab.

    Raises FormatError, with the file's `name` and the line, for a broken one.
    """

    def __init__(self, vocabulary: bytes, name: str = WORLD) -> None:
        self._tokens: dict[int, bytes] = {}
        self._ids: dict[bytes, int] = {}
        try:
            lines = vocabulary.decode().split("\n")
        except UnicodeDecodeError as error:
            raise FormatError(f"{name}: {error}") from None
        for number, line in enumerate(lines, 1):
            if line:
                self._add(line, f"{name}: line {number}")
        lacking = [byte for byte in range(256) if bytes([byte]) not in self._ids]
        if lacking:
            raise FormatError(f"{name}: no token is the byte {lacking[0]}, which texts may have")
        # Lengths of the tokens that begin with these one or two bytes, the largest first.
        lengths: dict[bytes, set[int]] = {}
        for token in self._ids:
            lengths.setdefault(token[:2], set()).add(len(token))
        self._lengths = {start: sorted(sizes, reverse=True) for start, sizes in lengths.items()}
        self.vocab_size, self.pad_id = max(self._tokens) + 1, 0

    def _add(self, line: str, where: str) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            raise FormatError(f"{where} is {brief(line)}; it must be an id, a token and its length")
        id, text = int(match[1]), match[2]
        token = text[1:-1] if "\\" not in text and text[0] != "b" else self._value(text, where)
        try:
            token = token.encode() if isinstance(token, str) else token
        except UnicodeEncodeError:
            raise FormatError(f"{where} has a lone surrogate, {brief(text)}") from None
        if len(token) != int(match[3]) or not 0 < len(token) <= _LONGEST:
            raise FormatError(
                f"{where}: {brief(text)} has {len(token)} bytes, not {match[3]}; a token has 1 to "
                f"{_LONGEST}"
            )
        if not 0 < id < _LARGEST or id in self._tokens or token in self._ids:
            raise FormatError(
                f"{where}: id {id} or token {brief(text)} is out of range or repeated"
            )
        self._tokens[id], self._ids[token] = token, id

    @staticmethod
    def _value(text: str, where: str) -> str | bytes:
        # The pattern lets through one literal with plain escapes.
        try:
            value: str | bytes = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            raise FormatError(f"{where}: {brief(text)} is not a string or bytes") from None
        return value

    def to_file(self) -> bytes:
        """The bytes of a vocabulary's file."""
        return "".join(f"{i} {t!r} {len(t)}\n" for i, t in sorted(self._tokens.items())).encode()

    def bytes_of(self, id: int) -> bytes | None:
        """The bytes of the token with this id, or None."""
        return self._tokens.get(id)

    def spellings(self) -> Spellings:
        """The bytes of every token."""
        return Spellings([], None, [], dict(self._tokens))

    def token_to_id(self, token: str) -> int | None:
        """The id of `token`, or None; bytes that are no text are spelled <0xE4><0xBD>."""
        check_text("token_to_id", token)
        token_id = self._ids.get(token.encode())
        if token_id is None and _BYTES.fullmatch(token):
            token_id = self._ids.get(bytes(int(pair, 16) for pair in re.findall("x(..)", token)))
        return token_id

    def id_to_token(self, id: int) -> str | None:
        """The token with this id, or None; bytes that are no text are spelled <0xE4><0xBD>."""
        token = self._tokens.get(check_id("id_to_token", id))
        if token is None:
            return None
        try:
            return token.decode()
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in token)

    def _encode(
        self, texts: list[str], add_special_tokens: bool, *, words: bool = False
    ) -> list[Encoding]:
        return [self._encoded(text) for text in texts]

    def _encoded(self, text: str) -> Encoding:
        data, ids, place = text.encode(), [], 0
        ends = [0]
        while place < len(data):
            # A last byte, and one that begins no longer token, is a token by itself.
            for size in self._lengths.get(data[place : place + 2], (1,)):
                token_id = self._ids.get(data[place : place + size])
                if token_id is not None and place + size <= len(data):
                    break
            else:
                token_id, size = self._ids[data[place : place + 1]], 1
            assert token_id is not None  # every byte is a token
            ids.append(token_id)
            place += size
            ends.append(place)
        # The code point that each byte belongs to.
        points = np.cumsum((np.frombuffer(data, np.uint8) & 0xC0) != 0x80) - 1
        edges = zip(ends, ends[1:], strict=False)
        offsets = [(int(points[a]), int(points[b - 1]) + 1) for a, b in edges]
        return Encoding(ids, offsets, [False] * len(ids), list(range(len(ids))))

    def _decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return b"".join(self._tokens.get(id, b"") for id in ids).decode("utf-8", "replace")
