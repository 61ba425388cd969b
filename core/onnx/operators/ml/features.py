"""Features: scaled, normalized, filled in, compared, taken out and put together."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import FLOAT
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.operators.ml.scores import DOMAIN, like
from rushlight.core.onnx.operators.strings import texts_of
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.tensor.tensor import Tensor


def _per_feature(call: Call, name: str, values: list[float], x: Tensor) -> Tensor:
    count = x.shape[-1] if x.ndim else 1
    if len(values) not in (1, count):
        raise call.fail(f"{name} has {len(values)} numbers for {count} features")
    numbers = like(values, x)
    return numbers if len(values) > 1 else numbers.reshape(())


@operator("Scaler", domain=DOMAIN)
def scaler(call: Call, x: Tensor) -> Any:
    """(x - offset) * scale, of each feature or of all."""
    call.result_kinds = [FLOAT]
    x = x.to("float32")
    offset, scale = call.floats("offset", [0.0]), call.floats("scale", [1.0])
    return (x - _per_feature(call, "offset", offset, x)) * _per_feature(call, "scale", scale, x)


@operator("Normalizer", domain=DOMAIN)
def normalizer(call: Call, x: Tensor) -> Any:
    """Each row over its largest value, the sum of magnitudes, or the root of that of squares."""
    call.result_kinds = [FLOAT]
    norm = call.choice("norm", "MAX", "MAX", "L1", "L2")
    rows = x.to("float32")
    if not rows.numel() or not rows.ndim:
        return rows
    if norm == "MAX":
        size = rows.amax(-1, keepdim=True)
    elif norm == "L1":
        size = rl.abs(rows).sum(-1, keepdim=True)
    else:
        size = rl.sqrt((rows * rows).sum(-1, keepdim=True))
    return rows / rl.where(size == 0, rl.ones_like(size), size)


@operator("Imputer", domain=DOMAIN)
def imputer(call: Call, x: Tensor) -> Any:
    """The values that equal one (NaN too) become another, of each feature or of all."""
    floats = x.dtype.kind == "f"
    call.ignore("replaced_value_int64", "replaced_value_float")
    name = "imputed_value_floats" if floats else "imputed_value_int64s"
    values: list[float] = call.floats(name) if floats else call.ints(name)
    wanted = (
        call.float("replaced_value_float", 0.0) if floats else call.int("replaced_value_int64", 0)
    )
    call.ignore("imputed_value_floats", "imputed_value_int64s")
    hit = rl.isnan(x) if wanted != wanted else x == like(wanted, x)
    return rl.where(hit, _per_feature(call, name, values, x), x)


@operator("Binarizer", domain=DOMAIN)
def binarizer(call: Call, x: Tensor) -> Any:
    """1 above the threshold, 0 elsewhere."""
    return (x > like(call.float("threshold", 0.0), x)).to(x.dtype)


@operator("ArrayFeatureExtractor", domain=DOMAIN, raw=True)
def array_feature_extractor(call: Call, x: Value, places: Value) -> Any:
    """The features at some places of the last dim, as (N, places)."""

    def pick(inner: Call, values: Any, wanted: Any) -> Any:
        if isinstance(values, np.ndarray):
            rows = values.reshape(-1, values.shape[-1])
            return rows[:, np.asarray(wanted).reshape(-1)]
        rows = values.reshape(-1, values.shape[-1]) if values.ndim != 2 else values
        return rl.index_select(rows, 1, wanted.reshape(-1))

    if not x.shape or (isinstance(places.data, np.ndarray) and not _inside(places.data, x)):
        raise call.fail(f"places outside of the {x.shape[-1] if x.shape else 0} features")
    text = isinstance(x.data, np.ndarray) and x.data.dtype.kind == "O"
    if text:
        call.interpreter.host(places, f"{call.title}: the places")
    return call.interpreter.apply(call, pick, [x, places], host=(1,) if text else ())


def _inside(places: Any, x: Value) -> bool:
    return bool(((places >= 0) & (places < x.shape[-1])).all())


@operator("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(call: Call, *inputs: Tensor) -> Any:
    """The inputs side by side as floats, each with the number of features that is declared."""
    call.result_kinds = [FLOAT]
    widths = call.ints("inputdimensions", [])
    rows = []
    for place, x in enumerate(inputs):
        row = x.reshape(1, -1) if x.ndim < 2 else x.reshape(x.shape[0], -1)
        row = row.to("float32")
        width = widths[place] if place < len(widths) else row.shape[1]
        if not 0 <= width < 1 << 31:
            raise call.fail(f"inputdimensions has {width}")
        if width > row.shape[1]:
            rest = (row.shape[0], width - row.shape[1])
            row = rl.cat([row, rl.zeros(rest, dtype=row.dtype, device=row.device)], 1)
        rows.append(row[:, :width])
    return rl.cat(rows, 1)


@operator("OneHotEncoder", domain=DOMAIN, raw=True)
def one_hot_encoder(call: Call, x: Value) -> Any:
    """1 at each element's place among the categories, along a new last dim."""
    texts, numbers = call.texts("cats_strings", None), call.ints("cats_int64s", None)
    zeros = call.flag("zeros", True)
    if texts:
        places = {text: i for i, text in enumerate(texts)}
        array = texts_of(call, x)
        hot = np.zeros((array.size, len(texts)), np.float32)
        for row, text in zip(hot, array.reshape(-1), strict=True):
            if text in places:
                row[places[text]] = 1
            elif not zeros:
                raise call.fail(f"{text!r} is no category")
        return Value(hot.reshape(*array.shape, len(texts)), FLOAT)
    if not numbers:
        raise call.fail("there are no categories")
    if not zeros:
        known = call.interpreter.host(x, f"{call.title}: its input").astype(np.int64)
        if not np.isin(known, numbers).all():
            raise call.fail("a value is no category")

    def encode(inner: Call, values: Tensor) -> Tensor:
        inner.result_kinds = [FLOAT]
        whole = values.to("int64").unsqueeze(-1)
        return (whole == like(np.array(numbers, np.int64), whole)).to("float32")

    return call.interpreter.apply(call, encode, [x])
