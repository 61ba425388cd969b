"""device="auto" of the tab's worker: a GPU if there is one, and the CPU with the reason if not."""

from __future__ import annotations

import asyncio

import pytest

import rushlight as rl
from rushlight.web.worker import session


@pytest.mark.parametrize("software", [False, True])
@pytest.mark.parametrize("opened", [False, True])
def test_auto_takes_no_adapter_that_computes_in_software(
    software: bool, opened: bool, gpu: rl.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "runs_in_software", lambda device: software)
    gpu.reset()
    held = rl.ones(2, device=gpu) if opened else None
    name = "" if software else str(rl.device(gpu).info["device"])
    found = asyncio.run(session.place("auto", None))
    assert (found["device"], found["adapter"]) == ("cpu" if software else "webgpu", name)
    assert ("computes in software, which is slower" in found["why"]) == software
    if held is not None:  # a model that is on the adapter stays there
        assert (held + 1).tolist() == [2, 2]
    # Who asks for it gets it.
    found = asyncio.run(session.place("webgpu", None))
    assert found == {"device": "webgpu", "adapter": str(gpu.info["device"]), "why": ""}
