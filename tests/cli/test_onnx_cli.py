"""`rushlight inspect` and `run` of ONNX files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run as rushlight

pytestmark = pytest.mark.native


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """An exported network of images (n, 3, h, w) to 5 numbers."""
    model = rl.nn.Sequential(
        rl.nn.Conv2d(3, 4, 3), rl.nn.ReLU(), rl.nn.AdaptiveAvgPool2d(1), rl.nn.Flatten(),
        rl.nn.Linear(4, 5),
    )  # fmt: skip
    path = tmp_path / "net.onnx"
    free = {"pixels": {0: "batch", 2: "height", 3: "width"}}
    rl.onnx.export(
        model, (rl.randn(1, 3, 12, 14),), path,
        input_names=["pixels"], output_names=["scores"], dynamic_shapes=free,
    )  # fmt: skip
    return path


def test_inspect_tells_operators_and_costs(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rushlight(["inspect", str(net), "--size", "height=20", "--size", "width=30"]) == 0
    told = capsys.readouterr().out
    assert "input     pixels: float[batch, 3, height, width]" in told
    assert "batch=1, height=20, width=30" in told and "Conv" in told
    assert rushlight(["inspect", str(net), "--json", "--size", "height=20"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["operators"]["Conv"] == 1 and not facts["refused"]
    convolution = next(cost for cost in facts["costs"] if cost["op"] == "Conv")
    assert convolution["shape"] == [1, 4, 18, 222]
    assert convolution["operations"] == 2 * 4 * 18 * 222 * 27


def test_run_takes_arrays_images_and_random_numbers(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    pixels = np.linspace(0, 1, 2 * 3 * 8 * 9, dtype=np.float32).reshape(2, 3, 8, 9)
    np.save(tmp_path / "x.npy", pixels)
    out = tmp_path / "out.npz"
    assert rushlight(["run", str(net), "-i", f"pixels={tmp_path / 'x.npy'}", "-o", str(out)]) == 0
    expected = rl.onnx.load(net)(pixels)
    with np.load(out) as arrays:
        np.testing.assert_allclose(arrays["scores"], expected.numpy(), rtol=1e-6)
    assert "scores  float32[2, 5]" in capsys.readouterr().out
    Image.new("RGB", (40, 30), (255, 0, 128)).save(tmp_path / "red.png")
    assert rushlight(["run", str(net), "-i", f"pixels={tmp_path / 'red.png'}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    red = np.array([1, 0, 128 / 255], np.float32)
    shown = np.broadcast_to(red[:, None, None], (3, 30, 40))[None]
    by_hand = rl.onnx.load(net)(np.array(shown)).numpy().reshape(-1)
    np.testing.assert_allclose(told["outputs"]["scores"]["values"], by_hand, rtol=1e-4, atol=1e-6)
    assert rushlight(["run", str(net), "--random", "--times", "--repeat", "2"]) == 0
    assert "slowest nodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "needs --input pixels=..., or --random"),
        (["-i", "image=x.npy"], "the file's inputs are pixels"),
        (["-i", "pixels=nothing.png"], "no such file, and no JSON"),
        (["--random", "-o", "out.txt"], "must be .npz or .npy"),
        (["--random", "--size", "height=none"], "must be a positive number"),
        (["--random", "--device", "gpu9"], "is not available"),
    ],
)
def test_mistakes_are_told(
    net: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rushlight(["run", str(net), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_unsupported_operators_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from onnx import TensorProto, helper

    node = helper.make_node("Fancy", ["x"], ["y"], domain="acme", name="n1")
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "y")]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    path = tmp_path / "odd.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    assert rushlight(["inspect", str(path)]) == 0
    assert "acme:Fancy" in capsys.readouterr().out
    assert rushlight(["run", str(path), "--random"]) == 2
    assert "acme:Fancy ('n1')" in capsys.readouterr().err
