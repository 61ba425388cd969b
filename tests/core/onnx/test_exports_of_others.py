"""Files of PyTorch's two exporters and of skl2onnx give the results of what they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

DATA = Path(__file__).with_name("data") / "exports"
FILES = sorted(path.stem for path in DATA.glob("*.onnx"))
TOLERANCE = {"cpu": 1e-5, "webgpu": 1e-3}  # of the largest value
# Files in which PyTorch's exporter froze the length; onnxruntime refuses other ones, too.
FROZEN = {"recurrent-dynamo", "words-script"}
pytestmark = pytest.mark.native


@pytest.mark.parametrize("name", FILES)
def test_results_for_the_traced_size_and_another(name: str, device: str) -> None:
    model = rl.onnx.load(DATA / f"{name}.onnx", device=device)
    with np.load(DATA / f"{name.rpartition('-')[0]}.npz") as arrays:
        stored = dict(arrays)
    if name in FROZEN:
        with pytest.raises(rl.FormatError, match="Reshape.*elements do not fit shape"):
            model(*(stored[f"1.{i.name}"] for i in model.inputs))
    sizes = (0, 0, 0) if name in FROZEN else (0, 1, 1, 1)
    for number in sizes:  # the last ones are captured and replayed
        inputs = {i.name: stored[f"{number}.{i.name}"] for i in model.inputs}
        results = model(*inputs.values())
        results = [results] if len(model.outputs) == 1 else list(results)
        assert f"{number}.out{len(results)}" not in stored
        for place, result in enumerate(results):
            expected = stored[f"{number}.out{place}"]
            value = result.numpy() if isinstance(result, rl.Tensor) else result
            assert value.shape == expected.shape, (name, place)
            if expected.dtype.kind in "iu":
                assert (value == expected).all(), (name, place)
                continue
            tolerance = TOLERANCE["cpu" if device == "cpu" else "webgpu"]
            largest = np.abs(expected).max()
            assert np.abs(value - expected).max() <= tolerance * largest, (name, place)


def test_every_exporter_is_there() -> None:
    kinds = {name.rpartition("-")[2] for name in FILES}
    assert kinds == {"dynamo", "script", "sklearn"} and len(FILES) >= 14
