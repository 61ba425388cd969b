"""Loading a model takes little memory beyond its file: the peak of a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rushlight.models.hub.names import resolve

pytestmark = pytest.mark.native  # reads /proc

PEAK = """
import json, sys
import rushlight as rl

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

peaks = [peak()]
"""
# The peak before loading, after it, after every byte of the weights was read, and at the end.
LOAD = """
model = rl.models.load(sys.argv[1])
peaks.append(peak())
for parameter in model.parameters():
    parameter.sum()
peaks.append(peak())
model.encode("a candle")
peaks.append(peak())
"""


def _peaks(work: str, argument: str) -> list[int]:
    """What `work` appends to `peaks`, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{PEAK}{work}print(json.dumps(peaks))", argument],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout)
    return found


def test_minilm_loads_within_its_size_and_60_megabytes() -> None:
    folder = resolve("all-minilm-l6-v2")
    size = (folder / "model.safetensors").stat().st_size
    before, loaded, read, encoded = _peaks(LOAD, str(folder))
    assert loaded - before <= 60_000_000  # views of the file: nothing of it is read yet
    assert read - before <= size + 60_000_000  # the weights are in memory once, not twice
    assert encoded - before <= size + 100_000_000


def test_the_measure_sees_memory_that_is_used() -> None:
    before, after = _peaks("held = b'x' * (200 << 20)\npeaks.append(peak())\n", "")
    assert 190 << 20 <= after - before <= 300 << 20


# Reading every byte of the file, as the first token does, and then more tokens.
GENERATE = """
model = rl.models.load(sys.argv[1])
peaks.append(peak())
list(model.tokens([504, 3575, 282, 4649, 314], max_new_tokens=1))
peaks.append(peak())
list(model.tokens([504, 3575, 282, 4649, 314], max_new_tokens=8))
peaks.append(peak())
"""


def test_a_quantized_model_runs_within_its_size_and_60_megabytes() -> None:
    folder = resolve("smollm2-135m-instruct")
    (file,) = folder.glob("*.gguf")
    size = file.stat().st_size
    before, loaded, first, later = _peaks(GENERATE, str(folder))
    assert loaded - before <= 1.1 * size + 60_000_000
    # The weights in float32 would take 540 MB, the head alone 113.
    assert first - before <= 1.1 * size + 60_000_000
    assert later - first <= 8_000_000
