"""Operators of networks, images and signals agree with ONNX Runtime where the suite has no case."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core import onnx as rl_onnx
from rushlight.core.basis.errors import FormatError

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.native
Array = npt.NDArray[Any]
OF = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return OF.normal(size=shape).astype(np.float32)


def made(
    op: str, inputs: list[Array | None], attributes: dict[str, Any], opset: int, outputs: int
) -> tuple[bytes, dict[str, Array]]:
    """A model of one node, and what goes in; integers of shapes are constants."""
    h = onnx.helper
    names = ["" if x is None else f"i{n}" for n, x in enumerate(inputs)]
    feeds = {n: np.asarray(x) for n, x in zip(names, inputs, strict=True) if x is not None}
    fixed = {n: x for n, x in feeds.items() if op in ("Resize", "DFT") and n != "i0"}
    node = h.make_node(op, names, [f"o{n}" for n in range(outputs)], **attributes)
    infos = [
        h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in feeds.items()
        if n not in fixed
    ]
    constants = [onnx.numpy_helper.from_array(x, n) for n, x in fixed.items()]
    results = [h.make_empty_tensor_value_info(f"o{n}") for n in range(outputs)]
    graph = h.make_graph([node], "one", infos, results, constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    return model.SerializeToString(), {n: x for n, x in feeds.items() if n not in fixed}


def ours(
    op: str,
    inputs: list[Array | None],
    attributes: dict[str, Any],
    opset: int = 17,
    outputs: int = 1,
    device: str = "cpu",
) -> list[Array]:
    file, feeds = made(op, inputs, attributes, opset, outputs)
    got = rl_onnx.load(file, device=device)(**feeds)
    return [y.numpy() for y in ([got] if outputs == 1 else got)]


ROIS = np.array([[0, 0, 5, 6], [1, 2, 9, 3]], np.float32)
LENGTHS = np.array([2, 5, 3], np.int32)
SCALES = np.array([1, 1, 0.6, 1.5], np.float32)
CASES: dict[str, tuple[str, list[Array | None], dict[str, Any], int, int]] = {
    "conv of pads that differ": (
        "Conv",
        [normal(2, 4, 7, 8), normal(6, 2, 3, 2), normal(6)],
        {"pads": [0, 1, 2, 3], "strides": [2, 1], "group": 2, "dilations": [1, 2]},
        11,
        1,
    ),
    "conv of same pads before": (
        "Conv",
        [normal(1, 2, 5, 6, 7), normal(3, 2, 2, 3, 2)],
        {"auto_pad": "SAME_LOWER", "strides": [2, 1, 3]},
        11,
        1,
    ),
    "transpose to a shape": (
        "ConvTranspose",
        [normal(2, 3, 5), normal(3, 2, 3), normal(2)],
        {"strides": [3], "output_shape": [14]},
        11,
        1,
    ),
    "max of columns first": (
        "MaxPool",
        [normal(1, 2, 5, 6, 4)],
        {"kernel_shape": [2, 3, 2], "pads": [0, 1, 1, 1, 1, 0], "storage_order": 1},
        12,
        2,
    ),
    "means that leave pads out": (
        "AveragePool",
        [normal(2, 2, 7, 6)],
        {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1], "ceil_mode": 1},
        11,
        1,
    ),
    "regions of their own counts": (
        "RoiAlign",
        [normal(2, 3, 8, 9), ROIS, np.array([1, 0])],
        {"output_height": 2, "output_width": 3, "spatial_scale": 0.9},
        16,
        1,
    ),
    "lstm of lengths": (
        "LSTM",
        [
            normal(5, 3, 4),
            normal(2, 8, 4),
            normal(2, 8, 2),
            normal(2, 16),
            LENGTHS,
            None,
            None,
            normal(2, 6),
        ],
        {"direction": "bidirectional", "hidden_size": 2, "clip": 0.7},
        14,
        3,
    ),
    "lstm as a layer": (
        "LSTM",
        [normal(5, 3, 4), normal(1, 8, 4), normal(1, 8, 2), normal(1, 16), LENGTHS],
        {"direction": "reverse", "hidden_size": 2},
        14,
        3,
    ),
    "gru with functions": (
        "GRU",
        [normal(4, 3, 2), normal(1, 9, 2), normal(1, 9, 3), None, LENGTHS - 1],
        {"hidden_size": 3, "activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3],
         "activation_beta": [0.4]},
        14,
        2,
    ),
    "resize of opset 10": ("Resize", [normal(1, 2, 5, 6), SCALES], {"mode": "nearest"}, 10, 1),
    "cubic resize": (
        "Resize",
        [normal(1, 2, 5, 6), None, SCALES],
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        13,
        1,
    ),
    "upsample of opset 7": (
        "Upsample",
        [normal(1, 2, 3, 4)],
        {"mode": "linear", "scales": [1.0, 1.0, 2.0, 3.0]},
        7,
        1,
    ),
    "batch norm of opset 7": (
        "BatchNormalization",
        [normal(2, 3, 4), normal(3), normal(3), normal(3), abs(normal(3))],
        {},
        7,
        1,
    ),
    "layer norm of three outputs": (
        "LayerNormalization", [normal(2, 3, 4), normal(3, 4), normal(1, 4)], {"axis": 1}, 17, 3
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_runtime(device: str, name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    op, inputs, attributes, opset, outputs = CASES[name]
    file, feeds = made(op, inputs, attributes, opset, outputs)
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    got = ours(op, inputs, attributes, opset, outputs, device)
    for y, expected in zip(got, session.run(None, feeds), strict=True):
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_sums_of_many_integers_are_exact(device: str) -> None:
    # 9 * 400 products of up to 255 * 255 do not fit the 24 bits of float32.
    x, w = (OF.integers(200, 256, s).astype(np.uint8) for s in ((1, 400, 4, 5), (2, 400, 3, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64))
    assert expected.max() > 1 << 26
    (y,) = ours("ConvInteger", [x, w], {}, 10, device=device)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("n", [7, 12, 600, 1024])
def test_transforms_of_any_length_and_back(device: str, n: int) -> None:
    x = normal(2, n, 2)
    (y,) = ours("DFT", [x], {}, device=device)
    expected = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], expected, atol=1e-3)
    (back,) = ours("DFT", [y], {"inverse": 1}, device=device)
    np.testing.assert_allclose(back, x, atol=1e-5)


def test_boxes_that_overlap_less_stay() -> None:
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6], [0, 0, 1, 1]]], np.float32)
    scores = np.array([[[0.8, 0.9, 0.1, 0.8]]], np.float32)
    inputs: list[Array | None] = [boxes, scores, np.array(9), np.array(0.5, np.float32)]
    (kept,) = ours("NonMaxSuppression", inputs, {}, 11)
    assert kept.tolist() == [[0, 0, 1], [0, 0, 3], [0, 0, 2]]


def test_batches_of_nothing(device: str) -> None:
    empty = np.zeros((0, 3, 8, 8), np.float32)
    assert ours("Conv", [empty, normal(4, 3, 3, 3)], {}, device=device)[0].shape == (0, 4, 6, 6)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    assert ours("MaxPool", [empty], pool, device=device)[0].shape == (0, 3, 4, 4)
    norm: list[Array | None] = [empty, *(abs(normal(3)) for _ in range(4))]
    assert ours("BatchNormalization", norm, {}, device=device)[0].shape == (0, 3, 8, 8)


def test_a_layer_learns() -> None:
    file, feeds = made("Conv", [normal(1, 2, 5, 5), normal(3, 2, 3, 3)], {}, 17, 1)
    x, w = (rl.tensor(v, requires_grad=True) for v in feeds.values())
    rl_onnx.load(file)(x, w).sum().backward()
    assert w.grad is not None and x.grad is not None and w.grad.shape == w.shape


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "told"),
    [
        ("Conv", [(1, 2, 5, 5), (3, 2, 3, 3)], {"pads": [1, 1]}, "pads=.*there must be 4"),
        ("Conv", [(1, 2), (3, 2)], {}, "1 to 3 dims"),
        ("MaxPool", [(1, 2, 3)], {"kernel_shape": [5]}, "does not fit"),
        ("LRN", [(1, 2, 3)], {}, "'size' is missing"),
        ("Resize", [(1, 1, 2, 2)], {}, "scales or sizes"),
        ("RNN", [(2, 1, 3), (2, 4, 3), (2, 4, 4)], {}, "direction=forward takes 1"),
    ],
)
def test_what_does_not_fit_is_named(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], told: str
) -> None:
    with pytest.raises(FormatError, match=told):
        inputs: list[Array | None] = [normal(*s) for s in shapes]
        file, feeds = made_plainly(op, inputs, attributes)
        rl_onnx.load(file)(**feeds)


def made_plainly(
    op: str, inputs: list[Array | None], attributes: dict[str, Any]
) -> tuple[bytes, dict[str, Array]]:
    """`made` without inferring shapes, which refuses some of these itself."""
    h = onnx.helper
    feeds = {f"i{n}": x for n, x in enumerate(inputs) if x is not None}
    infos = [h.make_tensor_value_info(n, 1, x.shape) for n, x in feeds.items()]
    node = h.make_node(op, list(feeds), ["y"], **attributes)
    graph = h.make_graph([node], "one", infos, [h.make_empty_tensor_value_info("y")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString(), feeds
