"""Quantized graphs: what is joined, what is not, and that results are those of onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

pytestmark = pytest.mark.native
Array = npt.NDArray[Any]
R = np.random.default_rng(0)


def model(
    nodes: list[Any], inputs: dict[str, Array], weights: dict[str, Array], outputs: list[str]
) -> bytes:
    """A graph of these nodes; sizes of inputs are those of the arrays, those of outputs free."""
    types = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, types(x.dtype), x.shape) for n, x in inputs.items()],
        [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in outputs],
        [numpy_helper.from_array(x, n) for n, x in weights.items()],
    )
    for info in graph.output:
        info.ClearField("type")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


JOINED = ("scaled_product", "dequantized_product", "quantized_conv")


def expected(file: bytes, inputs: dict[str, Array], plain: bool = False) -> list[Array]:
    """What onnxruntime gives without sums of 16 bits that saturate."""
    options = ort.SessionOptions()
    if plain:  # without joining nodes of its own
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, inputs)
    return results


def run(
    file: bytes, inputs: dict[str, Array], tmp_path: Any, device: str
) -> tuple[list[Array], list[str]]:
    """The outputs of the second call, and the operators and joined functions of the plan."""
    path = tmp_path / "model.onnx"
    path.write_bytes(file)
    module = rl.onnx.load(path, device=device)
    for _ in range(2):
        out = module(**inputs)
    (prepared,) = module._plans.values()
    names = [(s.operator.run.__name__, s.call.node.op) for s in prepared.plan.steps]
    steps = [joined if joined in JOINED else op for joined, op in names]
    results = [out] if isinstance(out, rl.Tensor) else list(out)
    return [x.cpu().numpy() for x in results], steps


def bytes_of(shape: tuple[int, ...], dtype: str) -> Array:
    info = np.iinfo(dtype)
    return R.integers(info.min, info.max + 1, shape).astype(dtype)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    names = ["" if n == "_" else n for n in inputs.split()]
    return helper.make_node(op, names, output.split(), **attributes)


X = R.normal(size=(2, 5, 24)).astype(np.float32)
DYNAMIC = [
    node("DynamicQuantizeLinear", "x", "q qs qz"),
    node("MatMulInteger", "q w qz wz", "sums"),
    node("Cast", "sums", "floats", to=TensorProto.FLOAT),
    node("Mul", "qs ws", "scale"),
    node("Mul", "floats scale", "scaled"),
    node("Add", "bias scaled", "y"),
]


def dynamic_weights(dtype: str, columns: bool) -> dict[str, Array]:
    wide = (17,) if columns else ()
    return {
        "w": bytes_of((24, 17), dtype),
        "wz": bytes_of(wide, dtype),
        "ws": R.random(wide).astype(np.float32),
        "bias": R.normal(size=17).astype(np.float32),
    }


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("columns", [False, True])
def test_dynamic_products_are_joined(dtype: str, columns: bool, tmp_path: Any, device: str) -> None:
    file = model(DYNAMIC, {"x": X}, dynamic_weights(dtype, columns), ["y"])
    found, steps = run(file, {"x": X}, tmp_path, device)
    assert "scaled_product" in steps
    assert not {"MatMulInteger", "Cast", "Add"} & set(steps)
    np.testing.assert_allclose(found[0], expected(file, {"x": X})[0], rtol=2e-5, atol=2e-5)


def _misses() -> Iterator[tuple[str, list[Any], dict[str, Array], list[str]]]:
    weights = dynamic_weights("uint8", False)
    yield "sums leave", DYNAMIC, weights, ["y", "sums"]
    yield "floats leave", DYNAMIC, weights, ["y", "floats"]
    twice = [*DYNAMIC, node("Neg", "floats", "z")]
    yield "floats are read twice", twice, weights, ["y", "z"]
    rows = weights | {"ws": R.random((5, 1)).astype(np.float32)}
    yield "a scale of rows", DYNAMIC, rows, ["y"]
    ints = [*DYNAMIC[:2], node("Cast", "sums", "y", to=TensorProto.INT64)]
    yield "whole numbers", ints, weights, ["y"]


@pytest.mark.parametrize("miss", list(_misses()), ids=lambda miss: miss[0])
def test_what_is_not_joined(miss: Any, tmp_path: Any, device: str) -> None:
    _, nodes, weights, outputs = miss
    used = {name for n in nodes for name in n.input}
    file = model(nodes, {"x": X}, {n: w for n, w in weights.items() if n in used}, outputs)
    found, steps = run(file, {"x": X}, tmp_path, device)
    assert "MatMulInteger" in steps
    assert "scaled_product" not in steps
    for mine, theirs in zip(found, expected(file, {"x": X}, plain=True), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)


def test_a_bias_of_another_shape_stays_an_add(tmp_path: Any, device: str) -> None:
    weights = dynamic_weights("int8", False) | {"bias": R.random((5, 17)).astype(np.float32)}
    file = model(DYNAMIC, {"x": X}, weights, ["y"])
    found, steps = run(file, {"x": X}, tmp_path, device)
    assert steps[-2:] == ["scaled_product", "Add"]
    np.testing.assert_allclose(found[0], expected(file, {"x": X})[0], rtol=2e-5, atol=2e-5)


def scale(*shape: int) -> Array:
    return (R.random(shape) * 0.05 + 0.01).astype(np.float32)


def quantized_convolution(
    channels: int, groups: int, kernel: int, per_filter: bool, **attributes: Any
) -> tuple[list[Any], dict[str, Array], dict[str, Array]]:
    """Nodes, inputs and weights of a Conv between DequantizeLinear and QuantizeLinear."""
    filters = 2 * groups
    each = (filters,) if per_filter else ()
    weights: dict[str, Any] = {
        "xs": scale(),
        "xz": bytes_of((), "uint8"),
        "w": bytes_of((filters, channels // groups, kernel, kernel), "int8"),
        "ws": scale(*each),
        "wz": np.zeros(each, np.int8),
        "b": R.integers(-4000, 4000, filters).astype(np.int32),
        "ys": np.float32(0.9),
        "yz": np.uint8(117),
    }
    weights["bs"] = np.broadcast_to(weights["xs"] * weights["ws"], filters).astype(np.float32)
    weights["bz"] = np.zeros(filters, np.int32)
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w ws wz", "wf", axis=0),
        node("DequantizeLinear", "b bs bz", "bf", axis=0),
        node("Conv", "xf wf bf", "yf", group=groups, kernel_shape=[kernel, kernel], **attributes),
        node("QuantizeLinear", "yf ys yz", "y"),
    ]
    return nodes, {"x": bytes_of((2, channels, 9, 8), "uint8")}, weights


CONVOLUTIONS: dict[str, Any] = {
    "points": (6, 1, 1, True, {}),
    "strides": (6, 1, 1, False, {"strides": [2, 3]}),
    "windows": (3, 1, 3, True, {"pads": [1, 1, 1, 1]}),
    "uneven": (4, 1, 3, False, {"pads": [0, 1, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    "apart": (6, 6, 3, True, {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "groups": (6, 2, 3, True, {"auto_pad": "SAME_UPPER"}),
    "each channel": (4, 4, 3, True, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "each channel apart": (3, 3, 2, False, {"dilations": [2, 3]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_quantized_convolutions_are_joined(name: str, tmp_path: Any, device: str) -> None:
    *sizes, attributes = CONVOLUTIONS[name]
    nodes, inputs, weights = quantized_convolution(*sizes, **attributes)
    file = model(nodes, inputs, weights, ["y"])
    found, steps = run(file, inputs, tmp_path, device)
    assert steps.count("quantized_conv") == 1
    assert "Conv" not in steps
    assert steps.count("DequantizeLinear") <= 1  # the bias
    wanted = expected(file, inputs)[0]
    off = np.abs(found[0].astype(int) - wanted.astype(int))
    assert off.max() <= 1
    assert (off > 0).mean() < 0.01  # ties


def test_a_convolution_whose_result_leaves_is_not_joined(tmp_path: Any, device: str) -> None:
    nodes, inputs, weights = quantized_convolution(6, 1, 1, True)
    file = model(nodes, inputs, weights, ["y", "yf"])
    found, steps = run(file, inputs, tmp_path, device)
    assert "Conv" in steps
    assert "quantized_conv" not in steps
    np.testing.assert_allclose(found[1], expected(file, inputs)[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["MatMul", "Gemm", "Gemm turned", "MatMul to floats"])
@pytest.mark.parametrize("columns", [False, True])
def test_quantized_products_are_joined(
    form: str, columns: bool, tmp_path: Any, device: str
) -> None:
    op, _, more = form.partition(" ")
    shape = (3, 5, 24) if op == "MatMul" else (5, 24)
    each = (17,) if columns else ()
    weights: dict[str, Any] = {
        "xs": scale(),
        "xz": bytes_of((), "uint8"),
        "w": bytes_of((17, 24) if more == "turned" else (24, 17), "int8"),
        "ws": scale(*each),
        "wz": np.zeros(each, np.int8),
        "ys": np.float32(1.1),
        "yz": np.int8(-7),
    }
    attributes = {"transB": 1} if more == "turned" else {}
    bias = ""
    if op == "Gemm":
        weights["bias"], bias = R.normal(size=17).astype(np.float32), "bias"
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w ws wz", "wf", axis=0 if more == "turned" else 1),
        node(op, f"xf wf {bias}", "yf", **attributes),
        node("QuantizeLinear", "yf ys yz", "y"),
    ]
    if more == "to floats":
        nodes, weights = nodes[:-1], {k: v for k, v in weights.items() if k[0] != "y"}
    inputs = {"x": bytes_of(shape, "uint8")}
    file = model(nodes, inputs, weights, ["yf" if more == "to floats" else "y"])
    found, steps = run(file, inputs, tmp_path, device)
    assert steps == ["dequantized_product"]
    wanted = expected(file, inputs)[0]
    if more == "to floats":
        np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-3)
    else:
        assert np.abs(found[0].astype(int) - wanted.astype(int)).max() <= 1


@pytest.mark.parametrize("rows", [1, 5])
def test_quantized_products_of_rows_are_not_joined(rows: int, tmp_path: Any, device: str) -> None:
    """A scale along the summed dim belongs to no column."""
    weights: dict[str, Any] = {
        "xs": scale(),
        "xz": bytes_of((), "uint8"),
        "w": bytes_of((24, 24), "int8"),
        "ws": scale(24),
        "wz": np.zeros(24, np.int8),
    }
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w ws wz", "wf", axis=0),
        node("MatMul", "xf wf", "y"),
    ]
    inputs = {"x": bytes_of((rows, 24), "uint8")}
    file = model(nodes, inputs, weights, ["y"])
    found, steps = run(file, inputs, tmp_path, device)
    assert "dequantized_product" not in steps
    wanted = expected(file, inputs, plain=True)[0]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_products_of_wide_integers_wrap_around(dtype: str) -> None:
    info = np.iinfo(dtype)
    a, b = (R.integers(info.min, info.max, s).astype(dtype) for s in ((20, 30), (30, 25)))
    got = rl.matmul(rl.from_numpy(a), rl.from_numpy(b)).numpy()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, np.einsum("ij,jk->ik", a, b))
