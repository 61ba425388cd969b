"""Published ONNX files: the results of onnxruntime, on every device, captured and not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.native
TOLERANCE = {"cpu": 1e-4, "webgpu": 1e-3}  # of the largest value
# Activations that are rounded to 8 bits by their own smallest and largest: a value that rounds the
# other way changes all that follows by a step. Two levels of optimization of onnxruntime differ by
# 2.6e-2 and 5.2e-2 in these files.
# u2netp: with float64 its results differ by 6.8e-5 here and by 4.5e-5 in onnxruntime.
STEPS = {"u2netp": 2e-4, "titles-encoder": 0.1, "titles-decoder": 0.1}


def _files() -> Any:
    place = Path(__file__).with_name("real_files.py")
    spec = importlib.util.spec_from_file_location("real_files", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


real: Any = _files()
# The others take software adapters too long; their operators are those of these.
ON_WEBGPU = ["magika", "ocr-recognizer", "silero"]


def expected(path: Path, inputs: dict[str, Any]) -> list[Any]:
    """onnxruntime's results, without the saturation of its 8-bit products on older processors."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


@pytest.mark.parametrize("name", sorted(real.FILES))
def test_results_are_those_of_onnxruntime(name: str) -> None:
    check(name, "cpu")


def test_results_on_each_device(device: str) -> None:
    for name in ON_WEBGPU if device != "cpu" else ["magika"]:
        check(name, device)


def check(name: str, device: str) -> None:
    """Compare a file's results: as it runs at first, when it is captured, and replayed."""
    path, inputs = real.file(name), real.inputs(name)
    wanted = expected(path, inputs)
    model = rl.onnx.load(path, device=device)
    tolerance = STEPS.get(name, TOLERANCE["cpu" if device == "cpu" else "webgpu"])
    for _ in range(3):
        results = model(**inputs)
        results = [results] if len(wanted) == 1 else list(results)
        assert len(results) == len(wanted)
        for result, value in zip(results, wanted, strict=True):
            assert tuple(result.shape) == value.shape
            differences = np.abs(result.numpy().astype(np.float64) - value)
            assert differences.max() < tolerance * np.abs(value).max(), name
