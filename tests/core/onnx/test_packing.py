"""Packed weights of a file become blocks when it is loaded, and multiply as onnxruntime has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.native

Array = npt.NDArray[Any]


def packed(numbers: Array, bits: int) -> Array:
    """Numbers in bytes, the first in the lowest bits; rows are filled up."""
    each = 8 // bits
    filled = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % each)])
    parts = filled.reshape(*filled.shape[:-1], -1, each) << np.arange(0, 8, bits)
    bytes_of: Array = parts.sum(-1).astype(np.uint8)
    return bytes_of


def saved(
    nodes: Sequence[Any], held: dict[str, Array], inputs: Any, outputs: Sequence[str]
) -> bytes:
    """A model's bytes. inputs: name -> (type's number, shape)."""
    helper = onnx.helper
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, *v) for n, v in inputs.items()],
        [helper.make_tensor_value_info(n, 1, None) for n in outputs],
        [onnx.numpy_helper.from_array(v, n) for n, v in held.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(made.SerializeToString())


def matmul(bits: int, size: int, columns: int, zeros: str, halves: bool) -> tuple[bytes, Array]:
    """A model of one MatMulNBits with 7 outputs, and an input for it."""
    rng = np.random.default_rng(bits * size + columns)
    groups = -(-columns // size)
    scales = rng.uniform(0.1, 1, (7, groups)).astype(np.float16 if halves else np.float32)
    held: dict[str, Array] = {
        "b": rng.integers(0, 256, (7, groups, size * bits // 8)).astype(np.uint8),
        "s": scales.astype(np.float32),
        "c": rng.normal(size=7).astype(np.float32),
    }
    if zeros == "packed":
        held["z"] = packed(rng.integers(0, 1 << bits, (7, groups)), bits)
    elif zeros == "floats":
        held["z"] = rng.uniform(0, (1 << bits) - 1, (7, groups)).astype(np.float32)
    node = onnx.helper.make_node(
        "MatMulNBits", ["x", "b", "s", "z" if zeros else "", "", "c"], ["y"],
        domain="com.microsoft", K=columns, N=7, bits=bits, block_size=size, accuracy_level=1,
    )  # fmt: skip
    x = rng.normal(size=(2, 3, columns)).astype(np.float32)
    return saved([node], held, {"x": (1, x.shape)}, ["y"]), x


def blocks(module: Any) -> dict[str, str]:
    """The dtypes of a module's quantized tensors by name."""
    state = module.state_dict()
    return {name: t.dtype.name for name, t in state.items() if t.dtype.kind == "q"}


CASES = [
    (4, 32, 64, "", True, "q4_0"), (4, 128, 256, "", True, "q4_0"), (4, 32, 64, "", False, "n4_32"),
    (4, 32, 64, "packed", True, "h4_32"), (4, 32, 91, "packed", False, "n4_32"),
    (4, 64, 128, "packed", False, "n4_64"), (4, 256, 512, "packed", False, "n4_128"),
    (4, 16, 64, "packed", False, "n4_16"), (4, 16, 48, "packed", False, ""),
    (4, 32, 64, "floats", False, "n4_32"), (2, 32, 64, "packed", False, "n2_32"),
    (2, 16, 64, "", False, ""), (8, 32, 64, "", True, "q8_0"), (8, 64, 128, "", False, "n8_32"),
    (8, 32, 96, "packed", True, "q8_0"),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "size", "columns", "zeros", "halves", "kind"), CASES)
def test_products(
    bits: int, size: int, columns: int, zeros: str, halves: bool, kind: str, device: str
) -> None:
    data, x = matmul(bits, size, columns, zeros, halves)
    module = rl.onnx.load(data, device=device)
    assert set(blocks(module).values()) == ({kind} if kind else set())
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    found = module(x).numpy()
    error = 1e-4 * float(np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=error)


def test_what_blocks_are_made_of_goes() -> None:
    """Codes, scales and zero points are no tensors of the module any more."""
    module = rl.onnx.load(matmul(4, 32, 64, "packed", False)[0])
    kept = {name: t for name, t in module.state_dict().items() if name != "c"}
    (name,) = kept
    assert name.startswith("b") and kept[name].dtype.name == "n4_32"
    assert kept[name].nbytes == 7 * 2 * 21


def test_a_mapped_file_is_read_once_and_let_go(tmp_path: Path) -> None:
    """Its pages are given back, and the blocks stay what they were."""
    rng = np.random.default_rng(5)
    held: dict[str, Array] = {
        "b": rng.integers(0, 256, (256, 16, 16)).astype(np.uint8),
        "s": rng.uniform(0.1, 1, (256, 16)).astype(np.float32),
        "w": rng.normal(size=(256, 64)).astype(np.float32),
    }
    make = onnx.helper.make_node
    nodes = [
        make(
            "MatMulNBits", ["x", "b", "s"], ["h"], domain="com.microsoft", K=512, N=256, bits=4,
            block_size=32,
        ),
        make("MatMul", ["h", "w"], ["y"]),
    ]  # fmt: skip
    data = saved(nodes, held, {"x": (1, (2, 512))}, ["y"])
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    x = rng.normal(size=(2, 512)).astype(np.float32)
    found, expected = rl.onnx.load(path)(x), rl.onnx.load(data)(x)
    assert np.array_equal(found.numpy(), expected.numpy())
    assert path.read_bytes() == data


def test_a_table_and_a_head_share_blocks(device: str) -> None:
    """A tied embedding that a file reshapes for its second use is one tensor."""
    rng = np.random.default_rng(3)
    held: dict[str, Array] = {
        "codes": rng.integers(0, 256, (40, 2, 16)).astype(np.uint8),
        "s": rng.uniform(0.1, 1, (40, 2)).astype(np.float16).astype(np.float32),
        "shape": np.array([40, 32], np.int64),
    }
    make = onnx.helper.make_node
    nodes = [
        make("Reshape", ["codes", "shape"], ["table"]),
        make(
            "GatherBlockQuantized", ["table", "ids", "s"], ["x"], domain="com.microsoft",
            bits=4, block_size=32,
        ),
        make(
            "MatMulNBits", ["x", "codes", "s"], ["y"], domain="com.microsoft", K=64, N=40,
            bits=4, block_size=32,
        ),
    ]  # fmt: skip
    data = saved(nodes, held, {"ids": (7, (2, 3))}, ["x", "y"])
    ids = rng.integers(-40, 40, (2, 3))
    module = rl.onnx.load(data, device=device)
    assert list(blocks(module).values()) == ["q4_0"] and len(module.state_dict()) == 1
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for found, expected in zip(module(ids), session.run(None, {"ids": ids}), strict=True):
        error = 1e-4 * float(np.abs(expected).max())
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=error)


@pytest.mark.parametrize("kind", [0, 1])
def test_weights_of_bitsandbytes(kind: int, device: str) -> None:
    rng = np.random.default_rng(kind)
    held: dict[str, Array] = {
        "b": rng.integers(0, 256, 6 * 40 // 2).astype(np.uint8),
        "s": rng.uniform(0.1, 1, 6 * 40 // 16).astype(np.float32),
    }
    node = onnx.helper.make_node(
        "MatMulBnb4", ["x", "b", "s"], ["y"], domain="com.microsoft", K=40, N=6, block_size=16,
        quant_type=kind,
    )  # fmt: skip
    data = saved([node], held, {"x": (1, (3, 40))}, ["y"])
    x = rng.normal(size=(3, 40)).astype(np.float32)
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    found = rl.onnx.load(data, device=device)(x).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_an_index_out_of_the_table_gives_zeros(device: str) -> None:
    held: dict[str, Array] = {
        "b": np.full((4, 16), 0x99, np.uint8),
        "s": np.ones((4, 1), np.float32),
    }
    node = onnx.helper.make_node(
        "GatherBlockQuantized", ["b", "ids", "s"], ["y"], domain="com.microsoft", bits=4,
        block_size=32,
    )  # fmt: skip
    data = saved([node], held, {"ids": (7, (3,))}, ["y"])
    found = rl.onnx.load(data, device=device)(np.array([1, 4, -5])).numpy()
    assert np.array_equal(found, np.repeat([[1.0], [0.0], [0.0]], 32, axis=1))
