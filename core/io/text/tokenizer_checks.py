"""Checks of a tokenizer.json and of texts that libraries leave out: growth, panics, surrogates."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.basis.errors import FormatError

# Characters that one character of a text may become, and that may be put before a text. The longest
# known row is NFKC's: 18 for one.
_MOST_GROWTH = 64
MOST_ADDED = 1024  # special tokens around a text
# The time for a word grows with the square of this.
_LONGEST_WORD = 1000
_LISTS = ("normalizers", "pretokenizers", "processors", "decoders")


def check_parts(parts: dict[str, Any]) -> None:
    """Raise FormatError if a part would make texts grow without end or end the library.

    `parts` are the objects of tokenizer.json under `normalizer`, `pre_tokenizer`, `post_processor`
    and `decoder`, of `model` the entry `max_input_chars_per_word`, and under `added_tokens` those
    that take blanks along.
    """
    before = [*_steps(parts.get("normalizer")), *_steps(parts.get("pre_tokenizer"))]
    _check_growth("normalizer", before)
    _check_growth("decoder", list(_steps(parts.get("decoder"))))
    for step in before:
        if step.get("type") == "FixedLength" and step.get("length") == 0:
            raise FormatError("tokenizer.json: pre_tokenizer FixedLength has length 0")
    _check_added(list(_steps(parts.get("post_processor"))))
    for token in parts.get("added_tokens", ()):
        text = token["content"]
        # Every blank of a run would match such a token, and each would look through the whole run.
        if (token["rstrip"] and text[:1].isspace()) or (token["lstrip"] and text[-1:].isspace()):
            raise FormatError(
                f"tokenizer.json: added token {text[:100]!r} is blank where it takes blanks along"
            )
    longest = (parts.get("model") or {}).get("max_input_chars_per_word")
    if isinstance(longest, int) and longest > _LONGEST_WORD:
        raise FormatError(
            f"tokenizer.json: model max_input_chars_per_word {longest} is more than {_LONGEST_WORD}"
        )


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """The steps of a part in order, without the sequences around them."""
    waiting = [part]
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict):
            inner = next((step[key] for key in _LISTS if isinstance(step.get(key), list)), None)
            if inner is None:
                yield step
            else:
                waiting += reversed(inner)


def _check_growth(part: str, steps: list[dict[str, Any]]) -> None:
    """Bound what a character becomes, walking back from the last step.

    `weight[c]` is the most characters that c is worth before the step; `rest` is that of all
    characters that `weight` does not name.
    """
    weight: dict[str, float] = {}
    rest, added = 1.0, 0.0

    def worth(text: str) -> float:
        return sum(weight.get(char, rest) for char in text)

    for step in reversed(steps):
        kind = step.get("type")
        if kind == "Replace":
            pattern, content = step.get("pattern") or {}, worth(step.get("content") or "")
            if not (pattern.get("String") or pattern.get("Regex")):
                raise FormatError(f"tokenizer.json: {part} Replace has an empty pattern")
            exact = pattern.get("String")
            if exact:
                weight |= {c: max(weight.get(c, rest), content / len(exact)) for c in exact}
            else:  # a match has at least one character of any kind
                weight = {c: max(w, content) for c, w in weight.items()}
                rest = max(rest, content)
        elif kind == "Prepend":
            added += worth(step.get("prepend") or "")
        else:
            rest = max([rest, *weight.values()]) * _factor(step)
            weight = {}
        if max([rest, added, *weight.values()]) > _MOST_GROWTH:
            raise FormatError(
                f"tokenizer.json: the {part} can make a text over {_MOST_GROWTH} times as long",
                hint="its steps repeat what others put in",
            )


def _factor(step: dict[str, Any]) -> int:
    """How much longer a step without a pattern makes a text whose characters it knows."""
    match step.get("type"):
        case "ByteLevel":  # a character for each byte, of two bytes itself
            return 2
        case "BPEDecoder":
            return 1 if step.get("suffix") else 2
        case "Precompiled":
            return _longest_row(step.get("precompiled_charsmap") or "")
    return 1


def _longest_row(charsmap: str) -> int:
    """The characters of the longest text that SentencePiece's table puts in."""
    try:
        raw = base64.b64decode(charsmap, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FormatError(f"tokenizer.json: precompiled_charsmap is not base64: {error}") from None
    size = int.from_bytes(raw[:4], "little")
    if len(raw) < 4 or size % 4 or not 4 <= size <= len(raw) - 4:
        raise FormatError(
            f"tokenizer.json: precompiled_charsmap has {len(raw)} bytes and a trie of {size}"
        )
    rows = raw[4 + size :].decode("utf-8", "replace").split("\0")
    return max(1, *map(len, rows))


def _check_added(steps: list[dict[str, Any]]) -> None:
    """A template has the text once, and the tokens that it puts around it are few."""
    count = 0
    for step in steps:
        if step.get("type") != "TemplateProcessing":
            continue
        single, known = step.get("single") or [], step.get("special_tokens") or {}
        sequences = [piece["Sequence"].get("id") for piece in single if "Sequence" in piece]
        if sequences != ["A"]:
            raise FormatError(
                f"tokenizer.json: the post_processor template has the texts {sequences}, not ['A']"
            )
        for name in (piece["SpecialToken"]["id"] for piece in single if "SpecialToken" in piece):
            if name not in known:
                raise FormatError(
                    f"tokenizer.json: the post_processor has no ids of {name[:100]!r}"
                )
            count += len(known[name]["ids"])
    if count > MOST_ADDED:
        raise FormatError(f"tokenizer.json: the post_processor adds {count} tokens to a text")


@contextmanager
def format_errors(doing: str = "") -> Iterator[None]:
    """Turn an error of the library, and a panic of its Rust, into a FormatError about the file."""
    try:
        yield
    except (MemoryError, FormatError):
        raise
    except BaseException as error:
        # The package raises plain Exception for every error; a panic is not even that.
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        reason = str(error).removeprefix("Error: ").removeprefix("tokenizer.json: ")
        raise FormatError(f"tokenizer.json: {doing}{reason}") from error


def check_text(caller: str, text: str) -> None:
    """Raise unless `text` is a str that UTF-8 can write."""
    if not isinstance(text, str):
        raise TypeError(f"{caller}: a text must be a str, not {type(text).__name__}")
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise ValueError(
            f"{caller}: the text has a lone surrogate U+{code:04X} at index {error.start}, which "
            'is not a character; text.encode("utf-8", "replace").decode() replaces it'
        ) from None


def check_id(caller: str, id: int) -> int:
    """`id`; raises ValueError if it is outside the range of ids."""
    if not 0 <= id < 2**32:
        raise ValueError(f"{caller}: {id} is not a token id; ids are from 0 to {2**32 - 1}")
    return id
