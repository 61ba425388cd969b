"""Nodes after one whose shapes depend on values: planned when like shapes come again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

import rushlight as rl
from rushlight.core.jit import capture


def masked_model(count: int = 12) -> onnx.ModelProto:
    """x (n, 4): its rows with a positive first element, through layers of a weight."""
    nodes = [
        h.make_node("Slice", ["x", "zero", "one", "one"], ["first"]),  # along axis 1
        h.make_node("Greater", ["first", "limit"], ["mask"]),
        h.make_node("Squeeze", ["mask", "one"], ["flat"]),
        h.make_node("NonZero", ["flat"], ["places"]),
        h.make_node("Squeeze", ["places", "zero"], ["rows"]),
        h.make_node("Gather", ["x", "rows"], ["y0"]),
    ]
    for i in range(count):
        nodes += [
            h.make_node("MatMul", [f"y{i}", "w"], [f"m{i}"]),
            h.make_node("Tanh", [f"m{i}"], [f"y{i + 1}"]),
        ]
    nodes.append(h.make_node("ReduceSum", [f"y{count}"], ["sum"], keepdims=0))
    nodes.append(h.make_node("Shape", [f"y{count}"], ["shape"]))
    w = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    graph = h.make_graph(
        nodes,
        "masked",
        [h.make_tensor_value_info("x", T.FLOAT, ["n", 4])],
        [
            h.make_tensor_value_info(f"y{count}", T.FLOAT, ["k", 4]),
            h.make_tensor_value_info("sum", T.FLOAT, []),
            h.make_tensor_value_info("shape", T.INT64, [2]),
        ],
        [
            numpy_helper.from_array(w, "w"),
            numpy_helper.from_array(np.array([0]), "zero"),
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(np.array(0, np.float32), "limit"),
        ],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)])


def expected(x: Any) -> tuple[Any, Any, Any]:
    w = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    y = x[x[:, 0] > 0]
    for _ in range(12):
        y = np.tanh(y @ w)
    return y, y.sum(), np.array(y.shape)


def rows(seed: int, positive: int, count: int = 6) -> Any:
    x = np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)
    x[:, 0] = -np.abs(x[:, 0]) - 0.1
    x[:positive, 0] *= -1
    return x


@pytest.fixture
def module(device: Any, tmp_path: Any) -> Any:
    path = tmp_path / "masked.onnx"
    onnx.save(masked_model(), path)
    return rl.onnx.load(path, device=device)


def test_results_stay_the_same(module: Any) -> None:
    """Whether shapes are new, come again, or come between others; none of the rows too."""
    for seed, positive in enumerate([3, 3, 3, 2, 3, 2, 2, 0, 0, 0, 3]):
        x = rows(seed, positive)
        for mine, theirs in zip(module(x), expected(x), strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-5)


def test_shapes_that_come_again_run_captured(module: Any, monkeypatch: Any) -> None:
    from rushlight.core.onnx import interpreter

    ran: list[str] = []
    node = interpreter.Interpreter.node

    def watched(self: Any, each: Any, scope: Any) -> None:
        ran.append(each.op)
        node(self, each, scope)

    monkeypatch.setattr(interpreter.Interpreter, "node", watched)
    for seed in range(4):
        module(rows(seed, 3))
    ran.clear()
    module(rows(9, 3))
    assert ran == ["NonZero"]
    module(rows(9, 1))  # another shape: its nodes run one by one
    assert ran.count("MatMul") == 12


def test_gradients_reach_the_weights(module: Any) -> None:
    module.requires_grad_()
    x = rows(1, 3)
    grads = []
    for _ in range(4):
        module.zero_grad()
        module(x)["sum"].backward()
        grads.append(next(p for p in module.parameters()).grad.numpy())
    for grad in grads[1:]:
        assert np.abs(grad).max() > 0
        np.testing.assert_allclose(grad, grads[0], atol=1e-5)


def test_within_a_captured_function(module: Any) -> None:
    """A read of values is an error there, as without ONNX."""

    def second(x: rl.Tensor) -> Any:
        return module(x)[1]

    fn: Any = rl.jit(second)
    with pytest.raises(rl.CaptureError):
        fn(rl.tensor(rows(1, 3), device=module.device))
    assert not capture.active


def chain_model() -> onnx.ModelProto:
    nodes = [h.make_node("Tanh", ["x"], ["y0"])]
    nodes += [h.make_node("Mul", [f"y{i}", "x"], [f"y{i + 1}"]) for i in range(4)]
    graph = h.make_graph(
        nodes,
        "chain",
        [h.make_tensor_value_info("x", T.FLOAT, ["n"])],
        [h.make_tensor_value_info("y4", T.FLOAT, ["n"])],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)])


def test_shapes_that_change_with_each_call_get_no_plans(tmp_path: Any) -> None:
    """The first four do; then a shape must come twice."""
    onnx.save(chain_model(), tmp_path / "chain.onnx")
    module: Any = rl.onnx.load(tmp_path / "chain.onnx")
    for n in [*range(20), 19, 19, 19, 3]:
        x = np.linspace(-1, 1, n, dtype=np.float32)
        np.testing.assert_allclose(module(x).numpy(), np.tanh(x) * x**4, atol=1e-6)
    assert len(module._plans) == 5
