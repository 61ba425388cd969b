"""ONNX files in a tab that cannot wait: the graph by ranges, then weights as a stream."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
WIDE = 1200  # a weight of 5.8 MB: the file is longer than what is brought whole

RUN = """
import numpy as np
import rushlight as rl
told = []
def tell(*numbers):
    told.append(numbers)
module = await rl.onnx.load_async({address!r}, device={device!r}, progress=tell)
x = np.linspace(-1, 1, {width}, dtype=np.float32)[None]
sums = []
for _ in range(3):
    y = await module.call_async(x=x)
    sums.append(float(np.abs(await y.numpy_async()).sum()))
weight = dict(module.named_parameters())["w"]
[str(weight.device.type), sums, list(told[-1])]
"""
REFUSE = """
import rushlight as rl
device = await rl.device_async({device!r})
if {budget} is not None:
    device.backend.set_memory_budget({budget})
try:
    await rl.onnx.load_async({address!r}, device=device)
    said = ""
except Exception as error:
    said = f"{{type(error).__name__}}: {{error}}"
if {budget} is not None:
    device.backend.set_memory_budget(None)
said
"""


@pytest.fixture(scope="module")
def files() -> Any:
    """The module that writes small files of ONNX."""
    path = HERE.parent / "core/onnx/test_load_async.py"
    spec = importlib.util.spec_from_file_location("onnx_files", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def python(module_pages: Any, module_serve: Any, python_place: Path) -> Any:
    """Python in a page that cannot wait in the middle of Python."""
    url = module_serve(python_place, plain=True).url
    return module_pages.start_python(url, jspi=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, files: Any) -> Path:
    """A model with its weight within, and the same with the weight in a file beside it."""
    place = tmp_path_factory.mktemp("onnx")
    weight, bias = weight_and_bias()
    (place / "within.onnx").write_bytes(files.model_of(weight, bias))
    (place / "data").mkdir()
    (place / "data/w.bin").write_bytes(bytes(64) + weight.tobytes())
    (place / "apart.onnx").write_bytes(files.model_of(weight, bias, beside="data/w.bin"))
    (place / "missing.onnx").write_bytes(files.model_of(weight, bias, beside="data/none.bin"))
    (place / "odd.onnx").write_bytes(files.model_of(weight, bias, op="NoSuchOp"))
    return place


def weight_and_bias() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(WIDE, WIDE)).astype(np.float32)
    return weight, rng.normal(size=WIDE).astype(np.float32)


def ranges(place: Any, name: str) -> list[int]:
    """The bytes of each range of a file that was asked for; -1 for all of it."""
    out = []
    for method, asked in place.mischief.asked(name):
        ends = re.findall(r"\d+", asked)
        if method == "GET":
            out.append(int(ends[1]) - int(ends[0]) + 1 if len(ends) == 2 else -1)
    return out


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
@pytest.mark.parametrize("name", ["within", "apart"])
def test_weights_are_streamed_to_their_device(
    name: str, where: str, python: Any, folder: Path, module_serve: Any, files: Any
) -> None:
    place = module_serve(folder, cors=True)
    address = f"{place.url}{name}.onnx"
    found, sums, last = python(RUN.format(address=address, device=where, width=WIDE))
    weight, bias = weight_and_bias()
    x = np.linspace(-1, 1, WIDE, dtype=np.float32)[None]
    assert found == where
    assert sums == pytest.approx([np.maximum(x @ weight + bias, 0).sum()] * 3, rel=1e-4)
    big = "w.bin" if name == "apart" else "within.onnx"
    asked = ranges(place, big)
    assert asked.count(-1) == 1, "the weights come in one request"
    assert all(n <= 1 << 17 for n in asked), "and the graph by ranges"
    assert last[0] == last[1] >= weight.nbytes


def test_what_does_not_fit_is_refused_before_the_download(
    python: Any, folder: Path, module_serve: Any
) -> None:
    place = module_serve(folder, cors=True)
    address = f"{place.url}within.onnx"
    budget = 1 << 20
    said = python(REFUSE.format(address=address, device="webgpu", budget=budget))
    assert "exceed the memory budget" in said
    assert -1 not in ranges(place, "within.onnx"), "no weights"
    said = python(REFUSE.format(address=f"{place.url}odd.onnx", device="webgpu", budget=None))
    assert "NoSuchOp" in said
    assert -1 not in ranges(place, "odd.onnx")


def test_a_missing_file_and_a_server_without_ranges(
    python: Any,
    folder: Path,
    module_serve: Any,
    module_pages: Any,
    python_place: Path,
) -> None:
    module_pages.expect("404")
    place = module_serve(folder, cors=True)
    address = f"{place.url}missing.onnx"
    said = python(REFUSE.format(address=address, device="cpu", budget=None))
    assert "data/none.bin" in said and "404" in said
    (python_place / "onnx").symlink_to(folder)
    try:  # the page's own server has no ranges
        code = RUN.format(address="onnx/within.onnx", device="cpu", width=WIDE)
        assert python(code)[0] == "cpu"
    finally:
        (python_place / "onnx").unlink()
