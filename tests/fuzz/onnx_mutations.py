"""Mutations of ONNX files: of their bytes, and of the fields of their messages."""

from __future__ import annotations

import random
from typing import Any

import onnx

NUMBERS = (0, 1, 2, 3, 5, 16, 255, -1, -2, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1)
OPS = ("Add", "Neg", "MatMul", "Loop", "Scan", "If", "Reshape", "Conv", "Concat", "Split", "Gather",
       "Expand", "Tile", "Pad", "ConstantOfShape", "Range", "SequenceAt", "SequenceInsert", "Cast",
       "TreeEnsembleRegressor", "LabelEncoder", "StringConcat", "Transpose", "TopK", "Slice",
       "Nothing")  # fmt: skip


def scrambled(content: bytes, rng: random.Random) -> bytes:
    """Some bytes are others, are missing, or stand twice."""
    for _ in range(rng.choice([1, 1, 2, 8])):
        at, how = rng.randrange(len(content) or 1), rng.randrange(4)
        if how == 0:
            content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        elif how == 1:
            content = content[:at]
        elif how == 2:
            content = content[:at] + content[at + rng.randrange(1, 9) :]
        else:
            content = content[:at] + content[at : at + rng.randrange(1, 64)] + content[at:]
    return content


def graphs(graph: Any) -> list[Any]:
    """A graph and those within its nodes."""
    out = [graph]
    for node in graph.node:
        for attribute in node.attribute:
            out += graphs(attribute.g) if attribute.HasField("g") else []
    return out


def _node(graph: Any, rng: random.Random, names: list[str]) -> None:
    node = rng.choice(list(graph.node))
    how = rng.randrange(6)
    if how == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif how == 1:
        node.op_type = rng.choice(OPS)
    elif how == 2 and node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(names)
    elif how == 3:
        node.input.append(rng.choice(names))
    elif how == 4 and node.input:
        del node.input[rng.randrange(len(node.input))]
    else:
        graph.node.remove(node)


def _attribute(graph: Any, rng: random.Random) -> None:
    held = [(n, a) for n in graph.node for a in n.attribute]
    if not held:
        return
    node, attribute = rng.choice(held)
    number = rng.choice(NUMBERS)
    if rng.random() < 0.15:
        node.attribute.remove(attribute)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = number
    elif attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = number
    elif attribute.HasField("t"):
        _tensor(attribute.t, rng)
    elif attribute.strings:
        attribute.strings[rng.randrange(len(attribute.strings))] = b"x"
    else:
        attribute.type = rng.randrange(0, 15)


def _tensor(tensor: Any, rng: random.Random) -> None:
    how, number = rng.randrange(4), rng.choice(NUMBERS)
    if how == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = number
    elif how == 1:
        tensor.data_type = rng.randrange(0, 28)
    elif tensor.int64_data:
        tensor.int64_data[rng.randrange(len(tensor.int64_data))] = number
    elif tensor.raw_data and how == 2:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data))]
    elif tensor.data_type == 7 and tensor.raw_data:
        tensor.raw_data = (number % 2**64).to_bytes(8, "little") * (len(tensor.raw_data) // 8)
    else:
        tensor.dims.append(number)


def changed(content: bytes, rng: random.Random) -> bytes:
    """A model whose nodes, attributes, tensors or types are others."""
    model = onnx.ModelProto.FromString(content)
    names = [*(i.name for i in model.graph.input), "nothing", ""]
    names += [name for node in model.graph.node for name in node.output]
    for _ in range(rng.choice([1, 1, 2, 4])):
        graph = rng.choice(graphs(model.graph))
        how = rng.randrange(8)
        if how < 3 and graph.node:
            _node(graph, rng, names)
        elif how < 6:
            _attribute(graph, rng)
        elif how == 6 and graph.initializer:
            _tensor(rng.choice(list(graph.initializer)), rng)
        else:
            model.opset_import[0].version = rng.choice([1, 7, 8, 11, 13, 17, 22, 99])
    return bytes(model.SerializeToString())


def mutate(content: bytes, number: int) -> bytes:
    """The mutation of a valid file that has this number."""
    rng = random.Random(number)
    return scrambled(content, rng) if rng.random() < 0.3 else changed(content, rng)
