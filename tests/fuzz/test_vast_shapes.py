"""No shape ends the process: every op over sizes up to 2**64, in processes whose end is seen."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.native
WORKER = Path(__file__).with_name("vast_shapes.py")
CASES = 240  # two of each op


@pytest.mark.parametrize(
    ("kernels", "options"), [("simd", ()), ("simd", ("--unchecked",)), ("numpy", ())]
)
def test_ops_refuse_or_work(kernels: str, options: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, WORKER, "0", str(CASES), *options],
        env={**os.environ, "RUSHLIGHT_KERNELS": kernels},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found.get("crashed") and not found.get("wrong"), f"{found}\n{done.stderr}"
    # Cases that all end in one way would test little.
    assert found["done"] > CASES / 10 and found["raised"] > CASES / 10


def _module(place: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rushlight_tests_{place.stem}", place)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lowerings_refuse_or_work() -> None:
    """On webgpu, over a port that runs nothing, so that no case is slow."""
    vast, kernels = _module(WORKER), _module(WORKER.parents[1] / "every_kernel.py")
    device = kernels.device_of(kernels.Recorded(kernels.GPU, ("subgroups",), 1 << 27))
    entries, ends = vast.samples(), {"done": 0, "raised": 0}
    for number in range(4 * CASES):
        try:
            vast.call(number, entries, device)
            ends["done"] += 1
        except vast.REFUSALS:
            ends["raised"] += 1
        except OverflowError as error:  # a value of int64, not a size
            assert "beyond the 32 bits that webgpu holds int64 in" in str(error)
    assert ends["done"] > CASES and ends["raised"] > CASES
