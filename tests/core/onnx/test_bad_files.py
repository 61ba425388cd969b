"""Bad files and bad calls are one clear error each, within bounded time and memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

import rushlight as rl

pytestmark = pytest.mark.native

X = np.ones(3, np.float32)
HUGE = (2**40, 2**62)


def content_of(text: str, opsets: str = '"": 18') -> bytes:
    """The file of a model in onnx's text form."""
    model: ModelProto = parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]>\n{text}")
    return bytes(model.SerializeToString())


GRAPHS = {
    "a circle": ("y = Add (x, b) b = Neg (y)", "Add.*gives 'b'"),
    "no such input": ("y = Add (x, nothing)", "Add.*gives 'nothing'"),
    "no such output": ("z = Neg (x)", "no node computes the output 'y'"),
    "too few inputs": ("y = Add (x)", "Add.*it has 1 inputs; the operator takes 2"),
    "shapes": (
        "k = Constant <value = float[2] {1, 2}> () y = Add (x, k)",
        r"Add.*do not broadcast",
    ),
    "no operator": ("y = Nothing (x)", "Nothing.* is not supported"),
    "no attribute": ("y = Cast (x)", "Cast.*the attribute 'to' is missing"),
    "an attribute too many": ("y = Neg <speed = 3> (x)", "Neg.*the attribute 'speed'"),
    "another kind": ("y = Transpose <perm = 1.5> (x)", "Transpose.*'perm' is of kind float"),
    "no sequence": ("n = SequenceLength (x) y = Cast <to = 1> (n)", "its input is no sequence"),
    "a sequence": ("s = SequenceConstruct (x) y = Neg (s)", "Neg.*is no tensor but a list"),
}


@pytest.mark.parametrize("name", list(GRAPHS))
def test_graphs_that_do_not_fit(name: str) -> None:
    nodes, message = GRAPHS[name]
    with pytest.raises(rl.FormatError, match=message):
        rl.onnx.load(content_of(f"agraph (float[3] x) => (float[N] y) {{ {nodes} }}"))(X)


def test_calls_that_do_not_fit() -> None:
    module = rl.onnx.load(
        content_of("agraph (float[3] x, int8[N] i) => (float[3] y) { y = Neg (x) }")
    )
    i = np.ones(2, np.int8)
    for error, message, args, kwargs in (
        (TypeError, "the input 'i' .* is missing", (X,), {}),
        (TypeError, "takes 2 inputs; 3 are given", (X, i, i), {}),
        (TypeError, "has no input 'j'", (X,), {"j": i}),
        (TypeError, "'x' is given twice", (X,), {"x": X}),
        (TypeError, "'i' is float32; it must be int8", (X, X), {}),
        (TypeError, "'x' is a list of <U1", (["a"] * 3, i), {}),
        (ValueError, "'x' has the shape", (np.ones((3, 1), np.float32), i), {}),
        (ValueError, "dim 0 has the size 4", (np.ones(4, np.float32), i), {}),
        (ValueError, "has the value 300; int8", (X, np.array([1, 300])), {}),
    ):
        with pytest.raises(error, match=message):
            module(*args, **kwargs)


VAST = {
    "ConstantOfShape": "n = Constant <value = int64[1] {$}> () y = ConstantOfShape (n)",
    "Expand": "n = Constant <value = int64[2] {$, 3}> () e = Expand (x, n) y = Neg (e)",
    "Tile": "n = Constant <value = int64[1] {$}> () e = Tile (x, n) y = Neg (e)",
    "Pad": "n = Constant <value = int64[2] {0, $}> () y = Pad (x, n)",
    "Range": """n = Constant <value = int64 {$}> () z = Constant <value = int64 {0}> ()
        o = Constant <value = int64 {1}> () r = Range (z, n, o) y = Cast <to = 1> (r)""",
    "Split": "y, z = Split <num_outputs = $> (x)",
    "OneHot": """n = Constant <value = int64 {$}> () v = Constant <value = float[2] {0, 1}> ()
        i = Cast <to = 7> (x) y = OneHot (i, n, v)""",
}


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("op", list(VAST))
def test_vast_sizes(op: str, size: int) -> None:
    nodes = VAST[op].replace("$", str(size))
    module = rl.onnx.load(content_of(f"agraph (float[3] x) => (float[N] y) {{ {nodes} }}"))
    with pytest.raises((ValueError, rl.DeviceMemoryError), match=r"\d{12}"):
        module(X)


def _initialized(
    dims: list[int], raw: bytes, kind: int = TensorProto.FLOAT, **external: Any
) -> bytes:
    record = TensorProto(name="w", data_type=kind, dims=dims)
    if external:
        record.data_location = TensorProto.EXTERNAL
        for key, value in external.items():
            record.external_data.add(key=key, value=str(value))
    else:
        record.raw_data = raw
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("x", "y")]
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [record])
    opsets = [helper.make_opsetid("", 17)]
    content: bytes = helper.make_model(graph, opset_imports=opsets).SerializeToString()
    return content


@pytest.mark.parametrize(
    ("dims", "raw", "kind"),
    [
        ([2**62], b"", 1),
        ([2**31, 2**31], b"", 1),
        ([-1], b"", 1),
        ([0, 2**62], b"", 1),
        ([3], b"abc", 1),
        ([3], bytes(12), 99),
        ([2**40], b"", 1),
    ],
)
def test_initializers_that_do_not_fit(dims: list[int], raw: bytes, kind: int) -> None:
    with pytest.raises(rl.FormatError, match="tensor 'w'"):
        rl.onnx.load(_initialized(dims, raw, kind))


def test_external_data_stays_in_its_folder(tmp_path: Path) -> None:
    folder, secret = tmp_path / "m", tmp_path / "secret"
    (folder / "below").mkdir(parents=True)
    secret.write_bytes(X.tobytes())
    for name in ("w.bin", "below/w.bin"):
        (folder / name).write_bytes(X.tobytes())
    os.link(secret, folder / "hard")
    (folder / "soft").symlink_to(secret)
    (folder / "way").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    file = folder / "m.onnx"
    for name in ("w.bin", "./w.bin", "below/w.bin"):
        file.write_bytes(_initialized([3], b"", location=name))
        assert rl.onnx.load(file)(X).tolist() == [2, 2, 2]
    wrong = ["../secret", str(secret), "/etc/passwd", "hard", "soft", "way/secret", "..", "",
             "below/../w.bin", "pipe", "below", "C:w", "a\\b", "none", "x" * 5000, "\0",
             "http://a/b"]  # fmt: skip
    for name in wrong:
        file.write_bytes(_initialized([3], b"", location=name))
        with pytest.raises(rl.FormatError):
            rl.onnx.load(file)
    for extra in ({"offset": -1}, {"offset": 4}, {"offset": 2**62}, {"length": 8}, {"length": "x"}):
        file.write_bytes(_initialized([3], b"", location="w.bin", **extra))
        with pytest.raises(rl.FormatError, match="tensor 'w'"):
            rl.onnx.load(file)
    with pytest.raises(rl.FormatError, match="load the model by its path"):
        rl.onnx.load(_initialized([3], b"", location="w.bin"))


def test_links_of_the_hub_cache_are_followed(tmp_path: Path) -> None:
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    folder.mkdir(parents=True)
    (blobs / "a").write_bytes(_initialized([3], b"", location="w.bin"))
    (blobs / "b").write_bytes(X.tobytes())
    (folder / "m.onnx").symlink_to("../../blobs/a")
    (folder / "w.bin").symlink_to("../../blobs/b")
    assert rl.onnx.load(folder / "m.onnx")(X).tolist() == [2, 2, 2]


def test_functions_that_call_themselves() -> None:
    text = """agraph (float[3] x) => (float[3] y) { y = f.g (x) }
    <opset_import: ["": 18, "f": 1], domain: "f"> g (x) => (y) { z = f.g (x) y = f.g (z) }"""
    with pytest.raises(rl.FormatError, match="graphs run deeper than 64"):
        rl.onnx.load(content_of(text, '"": 18, "f": 1'))(X)


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _nested(depth: int) -> bytes:
    """A file of graphs within one another; onnx writes no more than a few."""
    leaf = _field(1, _field(1, b"x") + _field(2, b"o") + _field(4, b"Neg"))
    leaf += _field(12, _field(1, b"o"))
    graph = leaf
    for _ in range(depth):
        node = _field(1, b"c") + _field(2, b"o") + _field(4, b"If")
        for name, inner in ((b"then_branch", graph), (b"else_branch", leaf)):
            node += _field(5, _field(1, name) + _field(6, inner) + b"\xa0\x01\x05")
        graph = _field(1, node) + _field(12, _field(1, b"o"))
    for name, kind in ((b"x", b"\x08\x01"), (b"c", b"\x08\x09")):
        graph += _field(11, _field(1, name) + _field(2, _field(1, kind)))
    return b"\x08\x0a" + _field(7, graph) + _field(8, b"\x10\x11")


def test_graphs_within_graphs() -> None:
    assert rl.onnx.load(_nested(30))(X, np.array(True)).tolist() == [-1, -1, -1]
    for depth in (33, 2000):
        with pytest.raises(rl.FormatError, match="graphs lie deeper than 32"):
            rl.onnx.load(_nested(depth))


def test_every_beginning_of_a_file_is_refused_or_a_model() -> None:
    content = _initialized([3], X.tobytes())
    refused = 0
    for end in range(len(content)):
        try:
            rl.onnx.load(content[:end])(X)
        except rl.FormatError:
            refused += 1
    assert refused > 0.9 * len(content)
