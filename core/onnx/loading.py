"""Loading ONNX files: a path, an address, bytes or a Source becomes a module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rushlight.core.backends import device as as_device
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.opening import opened
from rushlight.core.io.protobuf import read
from rushlight.core.io.weights.source import Source, is_address, open_source
from rushlight.core.onnx import operators as operators  # the table is filled by its import
from rushlight.core.onnx.module import OnnxModule, registered
from rushlight.core.onnx.packing import pack_weights
from rushlight.core.onnx.proto import Graph, Model, Node, TensorRecord, parse_model
from rushlight.core.onnx.registry import NEWEST, OPERATORS, unsupported
from rushlight.core.onnx.weights import (
    SMALL,
    Files,
    array_of,
    as_stored,
    check_sizes,
    from_bytes,
    in_one_piece,
    is_weight,
    load_weight,
    named,
    plain,
)
from rushlight.core.tensor.tensor import Tensor


def load(file: Any, *, device: Any = None) -> OnnxModule:
    """The module of an ONNX file.

    file: a path, an http(s) address, bytes, an open file or a Source. Tensors in files beside it
    are found by its path or address. device: where the weights go and calls compute; None is the
    default device. Opsets 7 and newer of ai.onnx, those of ai.onnx.ml, and the operators of
    com.microsoft that published models use.

    Raises FormatError for what is no ONNX model, is damaged or has an operator that is not
    supported, which it names; FileNotFoundError for a missing file.
    """
    source, folder, close = _opened(file)
    try:
        model = read(parse_model(source), source)
        files = Files(source, folder, open_source)
        weights = read_weights(model, files)
        check_operators(model)
        pack_weights(model, weights, files)
    finally:
        if close:
            source.close()
    where = as_device(device)
    return OnnxModule(model, weights, source.name).to(device=where)


def open_model(file: Any) -> tuple[Source, bool, Model]:
    """A file's source, whether to close it, and its graph without weights.

    Raises as `load`.
    """
    source, _, close = _opened(file)
    model = read(parse_model(source), source)
    check_sizes(plain(model), source)
    return source, close, model


def _opened(file: Any) -> tuple[Source, Path | str | None, bool]:
    if not isinstance(file, str | os.PathLike):
        return opened(file), None, False
    if is_address(file):
        return open_source(file), str(file), True
    return *open_path(file), True


def open_path(file: str | os.PathLike[str]) -> tuple[Source, Path]:
    """The source of a path, and its folder. FormatError for a folder."""
    path = Path(file)
    if path.is_dir():
        raise FormatError(
            f"{path} is a folder", hint="name the .onnx file in it, such as onnx/model.onnx"
        )
    return open_source(path), path.parent


def read_weights(model: Model, files: Files) -> dict[str, Tensor]:
    """Read a model's small tensors into their records; its weights, as tensors by name.

    FormatError for tensors whose bytes are not those of their shapes.
    """
    records = plain(model)
    check_sizes(records, files.source)
    weights: dict[str, Tensor] = {}
    for record in records:
        name, tensor = _read(record, files, weights)
        if tensor is not None:
            weights[name] = tensor
    return weights


def _read(
    record: TensorRecord, files: Files, weights: dict[str, Tensor]
) -> tuple[str, Tensor | None]:
    whole = in_one_piece(record)
    large = is_weight(record)
    if not large or record.count <= SMALL:
        if record.external is not None:
            source, span = files.place_of(record)
            record.array = from_bytes(source.read(span.start, span.nbytes), record, source.name)
        else:
            record.array = read(array_of(record, files.source), files.source)
        record.array.flags.writeable = False
    if not large:
        return "", None
    name = named(record, weights)
    if whole:
        source, span = files.place_of(record)
        weight = load_weight(record, source, span)
    else:
        array = record.array
        if array is None:
            array = read(array_of(record, files.source), files.source)
        weight = as_stored(array, record)
    return name, registered(name, weight)


def check_operators(model: Model) -> None:
    """FormatError with every operator of a model that is not supported, and opsets too new."""
    missing = list(dict.fromkeys(unsupported_nodes(model)))
    if missing:
        more = f" (and {len(missing) - 5} more)" if len(missing) > 5 else ""
        raise FormatError("; ".join(missing[:5]) + more)


def unsupported_nodes(model: Model) -> Iterator[str]:
    """What is said of each node that no operator or function of the model serves."""
    for domain, version in model.opsets.items():
        if version > NEWEST.get(domain, version):
            told = f"opset {version} of {domain or 'ai.onnx'} is not supported"
            yield f"{told}; the newest is {NEWEST[domain]}"
    for node in nodes_of(model):
        if (node.domain, node.op, node.overload) in model.functions:
            continue
        if (node.domain, node.op) not in OPERATORS:
            yield unsupported(node)


def nodes_of(model: Model) -> Iterator[Node]:
    """Every node of a model, those of graphs within nodes and of functions too."""
    todo: list[list[Node]] = [model.graph.nodes, *(f.nodes for f in model.functions.values())]
    while todo:
        for node in todo.pop():
            yield node
            for attribute in node.attributes.values():
                value = attribute.value
                for item in value if isinstance(value, list) else [value]:
                    if isinstance(item, Graph):
                        todo.append(item.nodes)
