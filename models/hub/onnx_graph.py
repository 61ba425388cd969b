"""Tensors of ONNX graphs, for checkpoints that are made of them when they are fetched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from rushlight.core.io.protobuf import read
from rushlight.core.io.weights.source import BytesSource
from rushlight.core.onnx.proto import Graph, Model, TensorRecord, parse_model
from rushlight.core.onnx.weights import array_of, check_sizes

Array = npt.NDArray[Any]


def constants(data: bytes, what: str) -> dict[str, Array]:
    """All tensors of a graph by name: initializers, and constant nodes by their outputs.

    Those of the branches of a condition are there too. FormatError, which names `what`, for bytes
    that are not such a graph.
    """
    source = BytesSource(data, what)
    model = read(parse_model(source), source)
    return _arrays(dict(_records(model.graph)), source)


def read_graph(data: bytes, what: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The initializers of a graph, and the node that each is first an input of.

    FormatError, which names `what`, for bytes that are not such a graph.
    """
    source = BytesSource(data, what)
    model: Model = read(parse_model(source), source)
    users: dict[str, str] = {}
    for node in model.graph.nodes:
        for name in node.inputs:
            users.setdefault(name, node.name)
    records = model.graph.initializers.items()
    dense = {name: record for name, record in records if isinstance(record, TensorRecord)}
    return _arrays(dense, source), users


def _records(graph: Graph) -> Iterator[tuple[str, TensorRecord]]:
    for name, record in graph.initializers.items():
        if isinstance(record, TensorRecord):
            yield name, record
    for node in graph.nodes:
        for attribute in node.attributes.values():
            if isinstance(attribute.value, TensorRecord) and node.outputs:
                yield node.outputs[0], attribute.value
            elif isinstance(attribute.value, Graph):
                yield from _records(attribute.value)


def _arrays(records: dict[str, TensorRecord], source: BytesSource) -> dict[str, Array]:
    check_sizes(list(records.values()), source)
    return {name: read(array_of(record, source), source) for name, record in records.items()}
