"""Tables from keys to values: labels, categories and maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import (
    DOUBLE,
    FLOAT,
    INT16,
    INT32,
    INT64,
    STRING,
    ElementType,
)
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.operators.ml.scores import DOMAIN, once
from rushlight.core.onnx.operators.strings import objects
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
_KINDS = {"f": FLOAT, "d": DOUBLE, "l": INT64, "q": INT64, "i": INT32, "h": INT16, "O": STRING}
_MOST_ROWS = 1 << 22  # elements of a map's tensor, and entries of maps


def kind_of(array: Array) -> ElementType:
    """The element type of a table's values."""
    return _KINDS[array.dtype.char]


def _column(call: Call, name: str) -> Array | None:
    """The keys or values of a table: strings, integers, floats or a tensor."""
    if call.has(f"{name}_tensor"):
        array = np.asarray(call.tensor(f"{name}_tensor")).reshape(-1)
        return objects([_plain(t) for t in array], array.shape) if _is_text(array) else array
    if call.has(f"{name}_strings"):
        texts = call.texts(f"{name}_strings")
        return objects(texts, (len(texts),))
    if call.has(f"{name}_int64s"):
        return np.array(call.ints(f"{name}_int64s"), np.int64)
    if call.has(f"{name}_floats"):
        return np.array(call.floats(f"{name}_floats"), np.float32)
    return None


def _is_text(array: Array) -> bool:
    return array.dtype.kind in "OUS"


def _plain(item: Any) -> Any:
    return str(item, "utf-8", "replace") if isinstance(item, bytes) else item


def _default(call: Call, values: Array) -> Any:
    if call.has("default_tensor"):
        return np.asarray(call.tensor("default_tensor")).reshape(-1)[0]
    if _is_text(values):
        return call.text("default_string", "_Unused")
    if values.dtype.kind in "iu":
        return call.int("default_int64", -1)
    return call.float("default_float", -0.0)


@operator("LabelEncoder", domain=DOMAIN, raw=True)
def label_encoder(call: Call, x: Value) -> Any:
    """Each element's value in the table of keys and values, the default for one that is no key."""
    if call.opset < 2:
        texts = call.texts("classes_strings")
        keys, values = objects(texts, (len(texts),)), np.arange(len(texts), dtype=np.int64)
        call.ignore("default_int64", "default_string")
        if not _is_strings(x):
            keys, values = values, keys
        return _mapped(call, x, keys, values, _default(call, values))
    columns = _column(call, "keys"), _column(call, "values")
    keys, values = (np.empty(0, np.int64) if c is None else c for c in columns)
    if len(keys) != len(values) or not len(keys):
        raise call.fail(f"{len(keys)} keys for {len(values)} values")
    call.ignore("default_int64", "default_string", "default_float", "default_tensor")
    return _mapped(call, x, keys, values, _default(call, values))


@operator("CategoryMapper", domain=DOMAIN, raw=True)
def category_mapper(call: Call, x: Value) -> Any:
    """Strings to integers or integers to strings, by a table."""
    texts, numbers = call.texts("cats_strings"), call.ints("cats_int64s")
    if len(texts) != len(numbers):
        raise call.fail(f"{len(texts)} strings for {len(numbers)} integers")
    strings, integers = objects(texts, (len(texts),)), np.array(numbers, np.int64)
    call.ignore("default_int64", "default_string")
    if _is_strings(x):
        return _mapped(call, x, strings, integers, call.int("default_int64", -1))
    return _mapped(call, x, integers, strings, call.text("default_string", "_Unused"))


def _is_strings(x: Value) -> bool:
    return isinstance(x.data, np.ndarray) and _is_text(x.data)


def _mapped(call: Call, x: Value, keys: Array, values: Array, default: Any) -> Value:
    if _is_text(keys) != _is_strings(x):
        have = "strings" if _is_strings(x) else "numbers"
        raise call.fail(f"the input is of {have}, the keys are not")
    kind = kind_of(values)
    if _is_text(keys) or _is_text(values):
        array = call.interpreter.host(x, f"{call.title}: its input")
        table = {_key(k): v for k, v in zip(keys.tolist(), values.tolist(), strict=True)}
        out = [table.get(_key(item), default) for item in array.reshape(-1).tolist()]
        if _is_text(values):
            return Value(objects(out, array.shape), kind)
        return Value(np.array(out, values.dtype).reshape(array.shape), kind)
    if not isinstance(x.data, Tensor | np.ndarray):
        raise call.fail("its input is no tensor")
    keys, values = once(call, lambda: _sorted(keys, values, default, call.opset >= 4))

    def look_up(inner: Call, items: Tensor, ordered: Tensor, results: Tensor) -> Tensor:
        inner.result_kinds = [kind]
        flat = items.reshape(-1)
        ordered = ordered.to(flat.dtype)
        last = ordered.shape[0] - 1
        place = rl.searchsorted(ordered, flat).clamp(0, last).to("int64")
        hit = rl.index_select(ordered, 0, place) == flat
        if flat.dtype.kind == "f":
            # The table's last two rows are those of NaN and of what is no key.
            hit = hit & ~rl.isnan(flat)
        place = rl.where(hit, place, rl.full_like(place, last + 2))
        if flat.dtype.kind == "f":
            place = rl.where(rl.isnan(flat), rl.full_like(place, last + 1), place)
        return rl.index_select(results, 0, place).reshape(items.shape)

    made: Value = call.interpreter.apply(
        call, look_up, [x, Value(keys, kind_of(keys)), Value(values, kind)]
    )[0]
    return made


def _sorted(keys: Array, values: Array, default: Any, of_nan: bool) -> tuple[Array, Array]:
    """Keys that rise, and their values; then that of NaN and the default. The last one counts."""
    rest = np.array(default, values.dtype).item()
    missing = np.isnan(keys) if keys.dtype.kind == "f" else np.zeros(len(keys), np.bool_)
    for_nan = values[missing][-1].item() if of_nan and missing.any() else rest
    kept = dict(zip(keys[~missing].tolist(), values[~missing].tolist(), strict=True))
    order = sorted(kept)
    results = [*(kept[k] for k in order), for_nan, rest]
    if not order:
        order, results = [0], [rest, *results]
    return np.array(order, keys.dtype), np.array(results, values.dtype)


def _key(item: Any) -> Any:
    item = _plain(item)
    return "nan" if item != item else item


# Maps.


@operator("ZipMap", domain=DOMAIN, raw=True)
def zip_map(call: Call, x: Value) -> Any:
    """For each row a map from the labels to its values."""
    texts, numbers = call.texts("classlabels_strings", None), call.ints("classlabels_int64s", None)
    labels: list[Any] = texts or numbers or []
    rows = call.interpreter.host(x, f"{call.title}: its input")
    rows = rows.reshape(1, -1) if rows.ndim < 2 else rows
    if rows.ndim != 2 or rows.shape[1] != len(labels) or rows.size > _MOST_ROWS:
        raise call.fail(f"an input of the shape {rows.shape} for {len(labels)} labels")
    return Value([Value(dict(zip(labels, row, strict=True))) for row in rows.tolist()])


def _map_of(call: Call, x: Value | None) -> dict[Any, Any]:
    if x is None or not isinstance(x.data, dict):
        raise call.fail("its input is no map")
    return {_plain(key): _number(value) for key, value in x.data.items()}


def _number(value: Any) -> Any:
    if isinstance(value, Value):
        value = value.data
    if isinstance(value, Tensor | np.ndarray):
        value = np.asarray(value.numpy() if isinstance(value, Tensor) else value).reshape(-1)[0]
    return _plain(value)


@operator("DictVectorizer", domain=DOMAIN, raw=True)
def dict_vectorizer(call: Call, x: Value) -> Any:
    """A map's values in the order of the vocabulary, zero for a key that it has not."""
    texts, numbers = call.texts("string_vocabulary", None), call.ints("int64_vocabulary", None)
    vocabulary: list[Any] = texts or numbers or []
    given = _map_of(call, x)
    strings = any(isinstance(v, str) for v in given.values())
    row = [given.get(key, "" if strings else 0) for key in vocabulary]
    if strings:
        return Value(objects(row, (1, len(row))), STRING)
    whole = x.kind is INT64 or all(isinstance(v, int | np.integer) for v in given.values())
    kind = x.kind if x.kind in (DOUBLE, FLOAT, INT64) else INT64 if whole else FLOAT
    return Value(np.array([row], kind.stored), kind)


@operator("CastMap", domain=DOMAIN, raw=True)
def cast_map(call: Call, x: Value) -> Any:
    """A map's values in the order of the keys, or each at the place that its key is."""
    form = call.choice("map_form", "DENSE", "DENSE", "SPARSE")
    to = call.choice("cast_to", "TO_FLOAT", "TO_FLOAT", "TO_STRING", "TO_INT64")
    most = call.int("max_map", 1)
    given = _map_of(call, x)
    if not all(isinstance(key, int | np.integer) for key in given):
        raise call.fail("the keys of its map must be integers")
    if form == "DENSE":
        row = [given[key] for key in sorted(given)]
    else:
        wrong = [key for key in given if not 0 <= key < most]
        if most > _MOST_ROWS or wrong:
            raise call.fail(f"max_map={most} for keys such as {[*wrong, *given][:1]}")
        row = [given.get(key, "" if to == "TO_STRING" else 0) for key in range(most)]
    if to == "TO_STRING":
        return Value(objects([_written(v) for v in row], (1, len(row))), STRING)
    kind = FLOAT if to == "TO_FLOAT" else INT64
    try:
        return Value(
            np.array([[float(v) if kind is FLOAT else int(v) for v in row]], kind.stored), kind
        )
    except (ValueError, OverflowError) as error:
        raise call.fail(f"a value of its map is no number: {error}") from None


def _written(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
