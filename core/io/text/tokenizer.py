"""Tokenizers: text to ids with offsets and back, equal in a Python process and in a tab.

A Python process uses the `tokenizers` package; a tab uses web/tokenizer/tokenizer.js over parts of
`@huggingface/tokenizers`, which gives the same ids, offsets and special mask.
Truncation and padding are done here, for both.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.core.basis.errors import BlockingReadError, FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.tokenizer_checks import (
    check_id,
    check_parts,
    check_text,
    format_errors,
)

_TAB = sys.platform == "emscripten"
# Common names of the padding and the unknown token, for files that name none.
_NAMES = {"pad_token": ("[PAD]", "<pad>"), "unk_token": ("[UNK]", "<unk>")}


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of one text.

    `offsets[i]` is the range of the text, in code points, that token i comes from; (0, 0) for
    tokens that were added around the text. `special[i]` is true for added tokens, but not for a
    special token that is written in the text. `words`, where they were asked for: tokens of one
    word have one number, -1 is none.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    special: list[bool]
    words: list[int] = field(default_factory=list, compare=False)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Spellings:
    """The tokens of a vocabulary by id, None for ids without one; what they are in a text.

    decoder: the object of tokenizer.json. added: id, text, and whether a token is special. raw: the
    tokens' bytes, for a tokenizer that has no decoder.
    """

    tokens: list[str | None]
    decoder: dict[str, Any] | None
    added: list[tuple[int, str, bool]]
    raw: dict[int, bytes] | None = None


class Tokenizer(ABC):
    """A tokenizer. `load_tokenizer` makes that of a tokenizer.json; all methods are synchronous.

    `pad_id` is the id that pads shorter rows of a batch, `unk_id` that of what is not in the
    vocabulary; None if no file names one. `vocab_size` counts the vocabulary with the added tokens.
    `post_processor` is that of tokenizer.json, `prefix` that of tokens within a word.
    """

    vocab_size: int
    pad_id: int | None
    unk_id: int | None = None
    post_processor: Any = None
    prefix: str = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> Tokenizer:
        """The tokenizer itself, which nothing changes: copies of a model share it."""
        return self

    def encode(
        self, text: str, *, add_special_tokens: bool = True, max_length: int | None = None
    ) -> Encoding:
        """The tokens of `text`, with the special tokens of the file's template around them.

        Longer results are cut to `max_length` tokens at the end of the text; special tokens are
        kept. Raises ValueError for a lone surrogate in `text` and for a `max_length` below the
        number of special tokens.
        """
        check_text("encode", text)
        (encoding,) = self._encode([text], add_special_tokens)
        return _truncated(encoding, max_length)

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = True,
        max_length: int | None = None,
    ) -> list[Encoding]:
        """`encode` for several texts at once, without padding (see `pad_batch`)."""
        if isinstance(texts, str):
            raise TypeError("encode_batch: texts is one str; give a list of them, or use encode")
        rows = list(texts)
        for text in rows:
            check_text("encode_batch", text)
        return [_truncated(e, max_length) for e in self._encode(rows, add_special_tokens)]

    def encode_parts(self, texts: list[str]) -> list[Encoding]:
        """The tokens of texts without special ones, with `words`."""
        return self._encode(texts, False, words=True)

    def join(self, tokens: list[str]) -> str:
        """The text of tokens that are spelled as in the vocabulary."""
        return " ".join(tokens)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `ids`; ids without a token are skipped.

        Raises ValueError for an id that is negative or does not fit in 32 bits.
        """
        numbers = [int(i) for i in ids]
        for number in numbers:
            check_id("decode", number)
        return self._decode(numbers, skip_special_tokens)

    def spellings(self) -> Spellings:
        """Every token as the vocabulary spells it, and how spellings become text.

        Raises ValueError for a tokenizer that cannot say it.
        """
        raise ValueError(f"{type(self).__name__} does not say how its tokens are spelled")

    @abstractmethod
    def token_to_id(self, token: str) -> int | None:
        """The id of `token`, or None."""

    @abstractmethod
    def id_to_token(self, id: int) -> str | None:
        """The token with this id as the vocabulary spells it, or None."""

    @abstractmethod
    def _encode(
        self, texts: list[str], add_special_tokens: bool, *, words: bool = False
    ) -> list[Encoding]: ...

    @abstractmethod
    def _decode(self, ids: list[int], skip_special_tokens: bool) -> str: ...


class NativeTokenizer(Tokenizer):
    """A tokenizer.json through the `tokenizers` package."""

    def __init__(self, tokenizer_json: bytes, tokenizer_config: bytes | None = None) -> None:
        from tokenizers import Tokenizer as Package

        with format_errors():
            self._package = Package.from_buffer(bytes(tokenizer_json))
            parts = _package_parts(self._package)
            check_parts(parts)
        self.post_processor = parts.get("post_processor")
        self.prefix = parts["model"]["continuing_subword_prefix"] or ""
        padding = self._package.padding
        self._package.no_padding()
        self._package.no_truncation()
        self.vocab_size = self._package.get_vocab_size(with_added_tokens=True)
        named = padding["pad_id"] if padding else None
        self.pad_id = _named_id(self, "pad_token", tokenizer_config) if named is None else named
        self.unk_id = _named_id(self, "unk_token", tokenizer_config)

    def to_json(self) -> bytes:
        """The tokenizer.json of this tokenizer, as the package writes it."""
        return self._package.to_str().encode()

    def token_to_id(self, token: str) -> int | None:
        """The id of `token`, or None."""
        check_text("token_to_id", token)
        token_id: int | None = self._package.token_to_id(token)
        return token_id

    def id_to_token(self, id: int) -> str | None:
        """The token with this id as the vocabulary spells it, or None."""
        token: str | None = self._package.id_to_token(check_id("id_to_token", id))
        return token

    def spellings(self) -> Spellings:
        """Every token as the vocabulary spells it, and how spellings become text."""
        rows = self._package.get_added_tokens_decoder().items()
        added = [(id, token.content, bool(token.special)) for id, token in rows]
        by_id = {id: token for token, id in self._package.get_vocab(False).items()}
        decoder = _package_parts(self._package).get("decoder")
        count = max([-1, *by_id]) + 1
        return Spellings([by_id.get(id) for id in range(count)], decoder, added)

    def join(self, tokens: list[str]) -> str:
        """The text of tokens that are spelled as in the vocabulary."""
        with format_errors("decode: "):
            decoder = self._package.decoder
            return " ".join(tokens) if decoder is None else str(decoder.decode(tokens))

    def _encode(
        self, texts: list[str], add_special_tokens: bool, *, words: bool = False
    ) -> list[Encoding]:
        # A single text does not use the package's thread pool, which does not survive a fork.
        with format_errors("encode: "):
            if len(texts) == 1:
                rows = [self._package.encode(texts[0], add_special_tokens=add_special_tokens)]
            else:
                rows = self._package.encode_batch(texts, add_special_tokens=add_special_tokens)
        encodings = [
            Encoding(r.ids, r.offsets, [m == 1 for m in r.special_tokens_mask]) for r in rows
        ]
        for row, encoding in zip(rows if words else (), encodings, strict=False):
            encoding.words.extend(-1 if word is None else word for word in row.word_ids)
        return encodings

    def _decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        with format_errors("decode: "):
            text: str = self._package.decode(ids, skip_special_tokens=skip_special_tokens)
        return text


class TabTokenizer(Tokenizer):
    """A tokenizer.json in the tab; `made` is the result of createTokenizer in tokenizer.js."""

    def __init__(self, made: Any, tokenizer_config: bytes | None = None) -> None:
        parts = parse_json(made.parts.encode(), "tokenizer.json", depth=64)
        check_parts(parts)
        self._made = made
        self.post_processor = parts.get("post_processor")
        self.prefix = parts["model"].get("continuing_subword_prefix") or ""
        self.vocab_size, named = int(made.vocabSize), made.padId
        self.pad_id = _named_id(self, "pad_token", tokenizer_config) if named is None else named
        self.unk_id = _named_id(self, "unk_token", tokenizer_config)

    def __reduce__(self) -> Any:
        """TypeError: what JavaScript holds is in this tab alone."""
        raise TypeError(
            "a tokenizer in the tab is not pickled; save the model with save_pretrained, or its "
            "weights with rl.save(model.state_dict(), path)"
        )

    def token_to_id(self, token: str) -> int | None:
        """The id of `token`, or None."""
        check_text("token_to_id", token)
        token_id: int | None = self._made.tokenToId(token)
        return token_id

    def id_to_token(self, id: int) -> str | None:
        """The token with this id as the vocabulary spells it, or None."""
        token: str | None = self._made.idToToken(check_id("id_to_token", id))
        return token

    def spellings(self) -> Spellings:
        """Every token as the vocabulary spells it, and how spellings become text."""
        rows = json.loads(self._made.spellings())
        return Spellings(rows["tokens"], rows["decoder"], list(map(tuple, rows["added"])))

    def join(self, tokens: list[str]) -> str:
        """The text of tokens that are spelled as in the vocabulary."""
        with format_errors("decode: "):
            return str(self._made.join(_to_js(tokens)))

    def _encode(
        self, texts: list[str], add_special_tokens: bool, *, words: bool = False
    ) -> list[Encoding]:
        with format_errors("encode: "):
            answer = self._made.encodeBatch(_to_js(texts), add_special_tokens, words)
        return unpack_rows(answer.to_py().tolist(), words)

    def _decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        with format_errors("decode: "):
            text: str = self._made.decode(_to_js(ids), skip_special_tokens)
        return text


def unpack_rows(numbers: Sequence[int], words: bool = False) -> list[Encoding]:
    """The encodings in a row of integers as web/tokenizer/tokenizer.js packs them.

    Each is its count n, then n ids, n starts, n ends, n special flags, and n words if asked for.
    """
    rows: list[Encoding] = []
    place = 0
    while place < len(numbers):
        n, place = numbers[place], place + 1
        lists = [numbers[place + k * n : place + (k + 1) * n] for k in range(5 if words else 4)]
        (ids, starts, ends, special), more = lists[:4], lists[4:]
        offsets = list(zip(starts, ends, strict=True))
        flags = [flag == 1 for flag in special]
        rows.append(Encoding(list(ids), offsets, flags, *map(list, more)))
        place += len(lists) * n
    return rows


def pad_batch(
    encodings: Sequence[Encoding], pad_id: int, *, length: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(ids, mask), both (n, length): rows filled with `pad_id` on the right, mask False there.

    `length` is that of the longest row unless given. Raises ValueError for a row that is longer.

    `encodings` are the rows.
    """
    longest = max(map(len, encodings), default=0)
    width = longest if length is None else length
    if longest > width:
        raise ValueError(f"pad_batch: a row has {longest} tokens, more than length {width}")
    ids = np.full((len(encodings), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(encodings), width), dtype=np.bool_)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = encoding.ids
        mask[row, : len(encoding)] = True
    return ids, mask


def load_tokenizer(tokenizer_json: bytes, tokenizer_config: bytes | None = None) -> Tokenizer:
    """A tokenizer from the bytes of tokenizer.json; tokenizer_config.json names the padding token.

    The file's truncation and padding settings are ignored; the arguments of `encode` and
    `pad_batch` decide. Raises FormatError for a broken file, for one that would make texts grow
    without end (`check_parts`) and, in a tab, for models other than WordPiece, BPE and Unigram.
    `encode` and `decode` raise it for a text that the file's parts fail at. In a tab the first call
    imports JavaScript modules, which needs JSPI; without it BlockingReadError points to
    `load_tokenizer_async`.
    """
    if not _TAB:
        return NativeTokenizer(tokenizer_json, tokenizer_config)
    if _imported is None:
        from pyodide.ffi import can_run_sync, run_sync  # type: ignore[import-not-found]

        if not can_run_sync():
            raise BlockingReadError(
                "load_tokenizer has to wait for JavaScript modules, which needs JSPI here",
                hint="await load_tokenizer_async(...) once; later calls do not wait",
            )
        run_sync(import_modules())
    return _make(tokenizer_json, tokenizer_config)


async def load_tokenizer_async(
    tokenizer_json: bytes, tokenizer_config: bytes | None = None
) -> Tokenizer:
    """`load_tokenizer` for tabs without JSPI; works in a Python process too."""
    if not _TAB:
        return NativeTokenizer(tokenizer_json, tokenizer_config)
    await import_modules()
    return _make(tokenizer_json, tokenizer_config)


# (our adapter's module, @huggingface/tokenizers), once imported.
_imported: tuple[Any, Any] | None = None


async def import_modules() -> None:
    """Import the JavaScript of the tab's tokenizer; later `load_tokenizer` does not wait."""
    global _imported
    if _imported is not None:
        return
    from rushlight.web import import_js

    _imported = (await import_js("tokenizer.js"), await import_js("tokenizers.js"))


def _make(tokenizer_json: bytes, tokenizer_config: bytes | None) -> TabTokenizer:
    assert _imported is not None
    adapter, library = _imported
    with format_errors():
        tokenizer = adapter.createTokenizer(library, _to_js(bytes(tokenizer_json)))
    return TabTokenizer(tokenizer, tokenizer_config)


def _to_js(value: Any) -> Any:
    from pyodide.ffi import to_js

    return to_js(value)


def _package_parts(package: Any) -> dict[str, Any]:
    """The parts of a loaded tokenizer.json, without its vocabulary."""
    names = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    stages = {name: getattr(package, name) for name in names}
    parts = {name: json.loads(stage.__getstate__()) for name, stage in stages.items() if stage}
    longest = getattr(package.model, "max_input_chars_per_word", None)
    added = [
        {"content": token.content, "lstrip": token.lstrip, "rstrip": token.rstrip}
        for token in package.get_added_tokens_decoder().values()
    ]
    model = {
        "max_input_chars_per_word": longest,
        "continuing_subword_prefix": getattr(package.model, "continuing_subword_prefix", None),
    }
    return {**parts, "model": model, "added_tokens": added}


def _named_id(tokenizer: Tokenizer, key: str, tokenizer_config: bytes | None) -> int | None:
    """The id of the token that tokenizer_config.json names under `key`, or of a common name."""
    if tokenizer_config is not None:
        try:
            config = parse_json(tokenizer_config, "tokenizer_config.json", depth=16)
            token = config.get(key)
        except AttributeError as error:
            raise FormatError(f"tokenizer_config.json: {error}") from error
        if isinstance(token, dict):  # an added token with its properties
            token = token.get("content")
        if isinstance(token, str):
            try:
                return tokenizer.token_to_id(token)
            except ValueError as error:
                raise FormatError(f"tokenizer_config.json: {key}: {error}") from None
    return next((i for t in _NAMES[key] if (i := tokenizer.token_to_id(t)) is not None), None)


def _truncated(encoding: Encoding, max_length: int | None) -> Encoding:
    """`encoding` cut to `max_length` by dropping the last tokens that are not special."""
    if max_length is None or len(encoding) <= max_length:
        return encoding
    room = max_length - sum(encoding.special)
    if room < 0:
        raise ValueError(
            f"encode: max_length {max_length} has no room for the {sum(encoding.special)} special "
            "tokens; raise it or pass add_special_tokens=False"
        )
    places: list[int] = []
    for i, special in enumerate(encoding.special):
        if special or room > 0:
            places.append(i)
            room -= not special
    return Encoding(
        [encoding.ids[i] for i in places],
        [encoding.offsets[i] for i in places],
        [encoding.special[i] for i in places],
    )
