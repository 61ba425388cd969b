"""Operators on strings, which are NumPy arrays of objects, and what counts words of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.patterns import compiled
from rushlight.core.onnx.element_types import BOOL, FLOAT, INT64, STRING
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.registry import Call, operator

Array = npt.NDArray[Any]
_MOST_TEXTS = 1 << 24  # elements of a result


def texts_of(call: Call, value: Value | None, place: int = 0) -> Array:
    """The strings of an input, as str."""
    data = None if value is None else value.data
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "OUS":
        raise call.fail(f"input {place} must be strings")
    return objects([_text(t) for t in data.reshape(-1)], data.shape)


def _text(item: Any) -> str:
    return str(item, "utf-8", "replace") if isinstance(item, bytes) else str(item)


def objects(items: list[Any], shape: Any) -> Array:
    """Strings as an array of a shape."""
    out = np.empty(len(items), np.object_)
    out[:] = items
    return out.reshape(shape)


@operator("StringConcat", raw=True)
def string_concat(call: Call, a: Value, b: Value) -> Any:
    """Each string of `a` with that of `b` behind it, broadcast."""
    left, right = texts_of(call, a, 0), texts_of(call, b, 1)
    shape = np.broadcast_shapes(left.shape, right.shape)
    longest = max(map(len, left.reshape(-1)), default=0) + max(
        map(len, right.reshape(-1)), default=0
    )
    if np.prod([float(n) for n in shape]) * max(longest / 16, 1) > _MOST_TEXTS:
        raise call.fail(f"strings of up to {longest} characters of the shape {shape} are too many")
    pairs = zip(
        np.broadcast_to(left, shape).reshape(-1),
        np.broadcast_to(right, shape).reshape(-1),
        strict=True,
    )
    return Value(objects([first + last for first, last in pairs], shape), STRING)


@operator("StringSplit", raw=True)
def string_split(call: Call, x: Value) -> Any:
    """The pieces of each string along a new last dim, filled with "", and how many there are."""
    texts = texts_of(call, x)
    delimiter, most = call.text("delimiter", None), call.int("maxsplit", None)
    pieces: list[list[str]] = []
    for text in texts.reshape(-1):
        if not text:
            pieces.append([])
        else:
            pieces.append(text.split(delimiter or None, -1 if most is None else most))
    width = max(map(len, pieces), default=0)
    if width * texts.size > _MOST_TEXTS:
        raise call.fail(f"{texts.size} strings of {width} pieces; at most {_MOST_TEXTS}")
    rows = [text for row in pieces for text in (*row, *[""] * (width - len(row)))]
    counts = np.array([len(row) for row in pieces], np.int64).reshape(texts.shape)
    return [Value(objects(rows, (*texts.shape, width)), STRING), Value(counts, INT64)]


@operator("RegexFullMatch", raw=True)
def regex_full_match(call: Call, x: Value) -> Any:
    """Whether the pattern matches each string as a whole."""
    texts = texts_of(call, x)
    pattern = compiled(call.text("pattern"), call.title)
    matches = [pattern.fullmatch(text) for text in texts.reshape(-1)]
    return Value(np.array(matches, np.bool_).reshape(texts.shape), BOOL)


@operator("StringNormalizer", raw=True)
def string_normalizer(call: Call, x: Value) -> Any:
    """The strings without stop words, in one case; a single "" where none is left."""
    texts = texts_of(call, x)
    call.ignore("locale")
    case = call.choice("case_change_action", "NONE", "NONE", "LOWER", "UPPER")
    sensitive = call.flag("is_case_sensitive")
    stops = call.texts("stopwords", [])
    if texts.ndim not in (1, 2) or (texts.ndim == 2 and texts.shape[0] != 1):
        raise call.fail(f"strings of the shape {texts.shape}; it takes [C] or [1, C]")

    def changed(text: str, how: str) -> str:
        return text.lower() if how == "LOWER" else text.upper() if how == "UPPER" else text

    plain = case if case != "NONE" else "LOWER"
    stopped = set(stops) if sensitive else {changed(s, plain) for s in stops}
    kept = [
        text
        for text in texts.reshape(-1)
        if (text if sensitive else changed(text, plain)) not in stopped
    ]
    out = [changed(text, case) for text in kept] or [""]
    return Value(objects(out, (len(out),) if texts.ndim == 1 else (1, len(out))), STRING)


@operator("TfIdfVectorizer", raw=True)
def tf_idf_vectorizer(call: Call, x: Value) -> Any:
    """How often each n-gram of the pool is in each row, by count, presence or weight."""
    mode = call.choice("mode", "", "TF", "IDF", "TFIDF")
    pool: list[Any] = call.ints("pool_int64s", None) or call.texts("pool_strings", None) or []
    if call.has("pool_int64s") and call.has("pool_strings") and call.texts("pool_strings"):
        raise call.fail("the pool has integers and strings")
    by_text = bool(pool) and isinstance(pool[0], str)
    rows = texts_of(call, x) if by_text else call.interpreter.host(x, f"{call.title}: input 0")
    if rows.ndim not in (1, 2):
        raise call.fail(f"an input of {rows.ndim} dims; it takes [C] or [N, C]")
    grams, width = _grams(call, pool)
    shortest, longest = call.int("min_gram_length"), call.int("max_gram_length")
    skips = call.int("max_skip_count")
    if not 0 < shortest <= longest or skips < 0:
        raise call.fail(f"n-grams of {shortest} to {longest} with {skips} skips")
    batch = rows.reshape(-1, rows.shape[-1]) if rows.shape[-1] else rows.reshape(-1, 0)
    if rows.ndim == 2 and not rows.shape[-1]:
        batch = rows
    if batch.shape[0] * width > _MOST_TEXTS:
        raise call.fail(f"{batch.shape[0]} rows of {width} n-grams; at most {_MOST_TEXTS}")
    counts = np.zeros((batch.shape[0], width), np.float32)
    sizes = range(shortest, min(longest, len(call.ints("ngram_counts"))) + 1)
    for row, items in zip(counts, batch.tolist(), strict=True):
        _count_grams(row, items, grams, sizes, skips)
    weights = call.floats("weights", None)
    if mode != "TF":
        scale = np.ones(width, np.float32)
        if weights:
            if len(weights) != len(call.ints("ngram_indexes")):
                raise call.fail(f"{len(weights)} weights for {width} n-grams")
            scale[call.ints("ngram_indexes")] = weights
        counts = (counts > 0) * scale if mode == "IDF" else counts * scale
    return Value(counts.astype(np.float32).reshape((*rows.shape[:-1], width)), FLOAT)


def _grams(call: Call, pool: list[Any]) -> tuple[dict[tuple[Any, ...], list[int]], int]:
    """The places in the result of each n-gram of the pool, and the width of the result."""
    starts, places = call.ints("ngram_counts"), call.ints("ngram_indexes")
    bounds = [*starts, len(pool)]
    if any(a > b for a, b in zip(bounds, bounds[1:], strict=False)) or min(bounds) < 0:
        raise call.fail("ngram_counts does not rise")
    grams: dict[tuple[Any, ...], list[int]] = {}
    number = 0
    for n, (start, stop) in enumerate(zip(bounds, bounds[1:], strict=False), 1):
        if (stop - start) % n:
            raise call.fail(f"{stop - start} items of the pool are no {n}-grams")
        for at in range(start, stop, n):
            if number >= len(places):
                raise call.fail(f"ngram_indexes has {len(places)} places, too few")
            grams.setdefault(tuple(pool[at : at + n]), []).append(places[number])
            number += 1
    if min(places, default=0) < 0 or max(places, default=0) >= _MOST_TEXTS:
        raise call.fail("ngram_indexes is out of range")
    return grams, max(places, default=-1) + 1


def _count_grams(
    row: Array, items: list[Any], grams: dict[tuple[Any, ...], list[int]], sizes: range, skips: int
) -> None:
    for size in sizes:
        for step in range(1, min(skips, len(items)) + 2):
            span = (size - 1) * step
            for begin in range(max(len(items) - span, 0)):
                for place in grams.get(tuple(items[begin : begin + span + 1 : step]), ()):
                    row[place] += 1
            if size == 1:
                break  # one item has nothing to skip
