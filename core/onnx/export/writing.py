"""ModelProto on a file: messages of the protocol buffers, weights written one after another.

The numbers of the fields are those of onnx.proto (github.com/onnx/onnx); the wire format is
described at protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.files.replacing import replacing

Array = npt.NDArray[Any]
ALIGNMENT = 4096  # of a weight in a file beside the model, so that it can be mapped
SMALLEST_OUTSIDE = 1024  # bytes; smaller weights stay in the model
LARGEST = 2**31 - 1  # bytes of a message


def varint(value: int) -> bytes:
    """An integer as a varint; negative ones in ten bytes."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number: int, value: int) -> bytes:
    """A field that is an integer."""
    return varint(number << 3) + varint(value)


def message(number: int, data: bytes | str) -> bytes:
    """A field that is a message, a string or bytes."""
    body = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(body)) + body


def integers(number: int, values: Iterable[int]) -> bytes:
    """A packed field of integers."""
    return message(number, b"".join(map(varint, values)))


def attribute(name: str, value: Any) -> bytes:
    """AttributeProto of an int, float, string, list of one of these, TensorProto or GraphProto.

    Messages are passed as (kind, bytes), where kind is "tensor" or "graph".
    """
    head = message(1, name)
    if isinstance(value, bool | int | np.integer):
        return head + integer(3, int(value)) + integer(20, 2)
    if isinstance(value, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + integer(20, 1)
    if isinstance(value, str):
        return head + message(4, value) + integer(20, 3)
    if isinstance(value, tuple) and len(value) == 2 and value[0] in ("tensor", "graph"):
        kind, body = value
        return (
            head
            + message(5 if kind == "tensor" else 6, body)
            + integer(20, 4 if kind == "tensor" else 5)
        )
    values = list(value)
    if values and isinstance(values[0], float):
        return head + message(7, struct.pack(f"<{len(values)}f", *values)) + integer(20, 6)
    if values and isinstance(values[0], str):
        return head + b"".join(message(9, v) for v in values) + integer(20, 8)
    return head + integers(8, values) + integer(20, 7)


def node(
    op: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Any],
    name: str,
    domain: str = "",
) -> bytes:
    """NodeProto."""
    parts = [message(1, i) for i in inputs] + [message(2, o) for o in outputs]
    parts += [message(3, name), message(4, op)]
    parts += [message(5, attribute(key, value)) for key, value in attributes.items()]
    if domain:
        parts.append(message(7, domain))
    return b"".join(parts)


def tensor(name: str, number: int, dims: Sequence[int], raw: bytes) -> bytes:
    """TensorProto with its elements."""
    return integers(1, dims) + integer(2, number) + message(8, name) + message(9, raw)


def value_info(name: str, number: int, dims: Sequence[int | str]) -> bytes:
    """ValueInfoProto of a tensor; a name stands for a free size."""
    sizes = b"".join(
        message(1, message(2, d) if isinstance(d, str) else integer(1, d)) for d in dims
    )
    kind = message(1, integer(1, number) + message(2, sizes))
    return message(1, name) + message(2, kind)


@dataclass(slots=True)
class Weight:
    """An initializer: its name, element type, shape, size, and what gives its bytes."""

    name: str
    number: int
    dims: tuple[int, ...]
    nbytes: int
    read: Callable[[], bytes]


@dataclass(slots=True)
class File:
    """What a model's file says. The lists hold messages."""

    ir_version: int
    opsets: Mapping[str, int]
    producer: tuple[str, str]
    name: str
    nodes: list[bytes]
    inputs: list[bytes]
    outputs: list[bytes]
    weights: list[Weight]
    metadata: Mapping[str, str]


def _head(weight: Weight) -> bytes:
    return integers(1, weight.dims) + integer(2, weight.number) + message(8, weight.name)


def _entry(key: str, value: str) -> bytes:
    return message(1, key) + message(2, value)


def write(file: File, path: str | os.PathLike[str], external_data: bool) -> None:
    """Write a model; with external_data its large weights into a file beside it, PATH.data.

    ValueError for a model over 2 GB in one file.
    """
    target = Path(path)
    beside = f"{target.name}.data"
    inside: list[tuple[Weight, bytes]] = []  # with the message up to the bytes
    outside: list[tuple[Weight, int]] = []
    at = 0
    for weight in file.weights:
        if external_data and weight.nbytes >= SMALLEST_OUTSIDE:
            at = -(-at // ALIGNMENT) * ALIGNMENT
            outside.append((weight, at))
            told = [("location", beside), ("offset", str(at)), ("length", str(weight.nbytes))]
            head = _head(weight) + b"".join(message(13, _entry(*t)) for t in told) + integer(14, 1)
            inside.append((weight, head))
            at += weight.nbytes
        else:
            inside.append((weight, _head(weight) + varint(9 << 3 | 2) + varint(weight.nbytes)))
    far = {id(weight) for weight, _ in outside}
    lengths = [len(h) + (0 if id(w) in far else w.nbytes) for w, h in inside]
    before = b"".join(message(1, n) for n in file.nodes) + message(2, file.name)
    after = b"".join(message(11, i) for i in file.inputs)
    after += b"".join(message(12, o) for o in file.outputs)
    heads = [varint(5 << 3 | 2) + varint(n) for n in lengths]
    size = len(before) + len(after) + sum(map(len, heads)) + sum(lengths)
    if size > LARGEST - (1 << 16):
        raise ValueError(
            f"onnx.export: the model takes {size} bytes, and a file of ONNX has at most 2 GB; pass "
            "external_data=True, which writes weights into a file beside it"
        )
    top = integer(1, file.ir_version) + message(2, file.producer[0]) + message(3, file.producer[1])
    end = b"".join(
        message(8, (message(1, domain) if domain else b"") + integer(2, version))
        for domain, version in file.opsets.items()
    )
    end += b"".join(message(14, _entry(k, v)) for k, v in file.metadata.items())
    if outside:
        with replacing(target.with_name(beside)) as out:
            _write_outside(out, outside)
    with replacing(target) as out:
        out.write(top + varint(7 << 3 | 2) + varint(size) + before)
        for (weight, head), start in zip(inside, heads, strict=True):
            out.write(start + head)
            if id(weight) not in far:
                _write_bytes(out, weight)
        out.write(after + end)


def _write_outside(out: BinaryIO, weights: Sequence[tuple[Weight, int]]) -> None:
    place = 0
    for weight, start in weights:
        out.write(b"\0" * (start - place))
        _write_bytes(out, weight)
        place = start + weight.nbytes


def _write_bytes(out: BinaryIO, weight: Weight) -> None:
    data = weight.read()
    assert len(data) == weight.nbytes, f"{weight.name}: {len(data)} bytes for {weight.nbytes}"
    out.write(data)
