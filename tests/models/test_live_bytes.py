"""Bytes that live on the GPU over time: windows of speech, chats, loads and frees leave none."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import DeviceError

TIMES = 20


@pytest.fixture
def gpu() -> Iterator[rl.Device]:
    """The first adapter; skipped where there is none, a failure under RUSHLIGHT_REQUIRE."""
    device = rl.device("webgpu")
    try:
        _ = device.info
    except DeviceError as error:
        if "webgpu" in os.environ.get("RUSHLIGHT_REQUIRE", ""):
            raise
        pytest.skip(str(error))
    gc.collect()
    yield device


def live(gpu: rl.Device) -> int:
    """Bytes of the buffers that something holds."""
    gc.collect()
    gpu.synchronize()
    backend: Any = gpu.backend
    with backend.lock:
        backend.pool.collect()
        return int(backend.pool.used)


def made(gpu: rl.Device) -> int:
    """How many buffers were created so far."""
    backend: Any = gpu.backend
    return int(backend.port.created["buffers"])


def holds(gpu: rl.Device, run: Callable[[int], object], first: int = 2) -> None:
    """Repeated runs leave as many live bytes as the first ones, and create no buffer."""
    for i in range(first):
        run(i)
    after, buffers = live(gpu), made(gpu)
    for i in range(first, TIMES):
        run(i)
    assert abs(live(gpu) - after) <= 0.01 * after
    assert made(gpu) == buffers


def test_windows_of_speech(gpu: rl.Device, rows: ModuleType, table: ModuleType) -> None:
    m = rows.model("whisper", table, "webgpu")
    config = {"num_mel_bins": m.mels, "max_source_positions": m.frames}
    features = table.features_of(config)
    state: list[Any] = [None]

    def window(number: int) -> None:
        with rl.no_grad():
            states = m.encode(rl.tensor(features * (1 + number), device=gpu))
        state[0] = m.start(states, reuse=state[0])
        for token in range(4 + number % 5):
            m.step(state[0], np.full((len(features), 1 if token else 3), token)).numpy()

    holds(gpu, window, first=6)


def test_chats(gpu: rl.Device, tiny: Any) -> None:
    m = tiny("webgpu")
    options = {"max_new_tokens": 6, "temperature": 0}

    def chat(number: int) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "abc" * (1 + number % 4)}]
        answer = "".join(m.chat(messages, **options))
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "de"}]
        assert list(m.chat(messages, **options)) is not None

    holds(gpu, chat, first=8)


def test_loads_and_frees(gpu: rl.Device, tiny: Any) -> None:
    def load(number: int) -> None:
        m = tiny("webgpu")
        list(m.generate([5, 6, 7], max_new_tokens=4, temperature=0))

    holds(gpu, load)


def test_layers_on_two_devices(gpu: rl.Device, tiny: Any) -> None:
    m = tiny("cpu")
    split = rl.models.assemble(
        m.files, dict(m.state_dict()), device_map={"": "webgpu", "model.layers.1": "cpu"}
    )

    def chat(number: int) -> None:
        list(split.generate([5, 6, 7 + number % 3] * 3, max_new_tokens=4, temperature=0))

    holds(gpu, chat, first=4)
