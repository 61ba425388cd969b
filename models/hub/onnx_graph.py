"""Tensors of ONNX graphs, for checkpoints that are made of them when they are fetched.

The files are protocol buffers, described by onnx.proto.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.io.protobuf import fields

Array = npt.NDArray[Any]
_NUMBERS = {  # TensorProto.DataType
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
}
_WHOLE = {10: np.uint16}  # what is stored of it as whole numbers
_DEEPEST = 8  # graphs within graphs


def constants(data: bytes, what: str) -> dict[str, Array]:
    """All tensors of a graph by name: initializers, and constant nodes by their outputs.

    Those of the branches of a condition are there too. FormatError, which names `what`, for bytes
    that are not such a graph.
    """
    arrays: dict[str, Array] = {}
    for number, graph in fields(data, what):
        if number == 7 and isinstance(graph, memoryview):
            arrays |= _constants(graph, what, _DEEPEST)
    return arrays


def _constants(graph: memoryview, what: str, deeper: int) -> Iterator[tuple[str, Array]]:
    if not deeper:
        raise FormatError(f"{what}: graphs lie deeper than {_DEEPEST} within one another")
    for kind, value in fields(graph, what):
        if not isinstance(value, memoryview):
            continue
        if kind == 5:
            yield _tensor(value, what)
        if kind != 1:
            continue
        parts = list(fields(value, what))
        output = next((bytes(v) for n, v in parts if n == 2 and isinstance(v, memoryview)), b"")
        for attribute in (v for n, v in parts if n == 5 and isinstance(v, memoryview)):
            for n, inner in fields(attribute, what):
                if n == 5 and isinstance(inner, memoryview):
                    yield output.decode("utf-8", "replace"), _tensor(inner, what)[1]
                elif n == 6 and isinstance(inner, memoryview):
                    yield from _constants(inner, what, deeper - 1)


def read_graph(data: bytes, what: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The initializers of a graph, and the node that each is first an input of.

    FormatError, which names `what`, for bytes that are not such a graph.
    """
    tensors: dict[str, Array] = {}
    users: dict[str, str] = {}
    for number, graph in fields(data, what):
        if number != 7 or not isinstance(graph, memoryview):
            continue
        for kind, value in fields(graph, what):
            if kind == 5 and isinstance(value, memoryview):
                name, tensors[name] = _tensor(value, what)
            elif kind == 1 and isinstance(value, memoryview):
                parts = list(fields(value, what))
                texts = [(n, bytes(v).decode("utf-8", "replace")) for n, v in parts if n in (1, 3)]
                node = next((text for n, text in texts if n == 3), "")
                for n, text in texts:
                    if n == 1:
                        users.setdefault(text, node)
    return tensors, users


def _tensor(view: memoryview, what: str) -> tuple[str, Array]:
    dims: list[int] = []
    kind, name, raw = 0, "", b""
    integers: list[int] = []
    for number, value in fields(view, what):
        if number == 1:
            dims += [value] if isinstance(value, int) else []
        elif number == 2:
            kind = value
        elif number == 8:
            name = bytes(value).decode("utf-8", "replace")
        elif number in (4, 9, 10):  # single numbers lie in fields of their own
            raw = bytes(value)
        elif number in (5, 7):
            integers += [value] if isinstance(value, int) else _varints(value)
    dtype = np.dtype(_NUMBERS.get(kind, np.void))
    if integers:
        raw = np.array(integers, np.uint64).astype(_WHOLE.get(kind, dtype)).tobytes()
    fits = count_elements(tuple(dims)) <= MOST_ELEMENTS and kind in _NUMBERS
    if not fits or math.prod(dims) * dtype.itemsize != len(raw):
        raise FormatError(f"{what}: tensor {name!r:.100} of type {kind} has {len(raw)} bytes")
    return name, np.frombuffer(raw, dtype).reshape(dims)


def _varints(view: memoryview) -> list[int]:
    numbers, value, shift = [], 0, 0
    for byte in view:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            numbers.append(value & (2**64 - 1))
            value = shift = 0
    return numbers
