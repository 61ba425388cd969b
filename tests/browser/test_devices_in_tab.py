"""The devices of a tab: what they are, and what is said where WebGPU or its adapter is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.warm_start

ASK = """
import rushlight as rl
from rushlight.core.basis.errors import DeviceError

async def tried(use):
    try:
        found = use()
        await found if hasattr(found, "__await__") else None
    except DeviceError as error:
        return str(error)

said = {
    "devices": [str(d) for d in rl.devices()],
    "info": await tried(lambda: rl.device("webgpu").info),
    "tensor": await tried(lambda: rl.ones(2, device="webgpu")),
    "opened": await tried(lambda: rl.device_async("webgpu")),
    "cpu": (rl.ones(2) + 1).tolist(),
}
said
"""


def check(said: dict[str, Any], why: str, hint: str) -> None:
    assert said["devices"] == ["cpu"] and said["cpu"] == [2, 2]
    for text in (said["info"], said["tensor"], said["opened"]):
        assert text.startswith(f"webgpu: {why}"), text
        assert "\n  hint: " in text and hint in text and 'device="cpu"' in text, text


@pytest.fixture(scope="module")
def python(module_pages: Any, module_serve: Any, python_place: Path) -> Any:
    """Python in a page, whose webgpu device is not yet open."""
    return module_pages.start_python(module_serve(python_place, plain=True).url)


@pytest.mark.parametrize(
    ("how", "why", "hint"),
    [
        (
            "Object.defineProperty(navigator, 'gpu', { value: undefined, configurable: true })",
            "this browser has no WebGPU",
            "use a browser that has it (Chrome",
        ),
        (
            "Object.defineProperty(navigator, 'gpu', "
            "{ value: { requestAdapter: async () => null }, configurable: true })",
            "the browser offers no WebGPU adapter",
            "graphics acceleration",
        ),
    ],
    ids=["no WebGPU", "no adapter"],
)
def test_a_missing_requirement_of_webgpu_is_named(
    python: Any, how: str, why: str, hint: str
) -> None:
    python.page.evaluate(how)
    try:
        check(python(ASK), why, hint)
    finally:
        python.page.evaluate("delete navigator.gpu")  # the prototype's own shows again


def test_a_tab_knows_its_adapter(python: Any) -> None:
    found = python("""
names = [str(d) for d in rl.devices()]
device = rl.devices()[1]
x = rl.arange(6, device="webgpu")  # opened as it is used
info = {**device.info, "features": list(device.info["features"])}
[names, device is x.device is await rl.device_async("webgpu"), x.tolist(), info]
""")
    assert found[:3] == [["cpu", "webgpu"], True, [0, 1, 2, 3, 4, 5]]
    info = found[3]
    assert info["device"] and info["backend"] == "browser" and info["type"] == "CPU"
    assert info["limits"]["maxStorageBufferBindingSize"] >= 128 << 20
    known = {"shader-f16", "subgroups", "timestamp-query", "packed-4x8-integer-dot-product"}
    assert set(info["features"]) <= known


def test_a_page_without_https_is_told_so(pages: Any, serve: Any, python_place: Path) -> None:
    url = serve(python_place, plain=True).url.replace("127.0.0.1", "plain.example")
    why = "this page is not a secure context, so it has no WebGPU"
    check(pages.start_python(url)(ASK), why, "serve the page over https or from localhost")


def test_a_browser_that_was_started_without_webgpu(
    launch: Any, pages: Any, serve: Any, python_place: Path
) -> None:
    bare = launch(["--no-sandbox", "--disable-gpu", "--disable-features=WebGPU,WebGPUService"])
    try:
        opened = type(pages)(bare)
        said = opened.start_python(serve(python_place, plain=True).url)(ASK)
        assert opened.close() == []
    finally:
        bare.close()
    check(said, "", "")


def test_a_gpu_process_that_dies_loses_the_device(
    launch: Any, flags: list[str], pages: Any, serve: Any, python_place: Path
) -> None:
    own = launch(flags)
    try:
        opened = type(pages)(own)
        python = opened.start_python(serve(python_place, plain=True).url)
        python("""
import rushlight as rl
from rushlight.core.basis.errors import DeviceLostError
x = rl.ones(3, device="webgpu")
(x + 1).numpy()
None
""")
        own.new_browser_cdp_session().send("Browser.crashGpuProcess")
        said = python("""
import asyncio
async def until_lost():
    for _ in range(1200):
        try:
            await (x + 1).numpy_async()
        except DeviceLostError as error:
            return str(error)
        await asyncio.sleep(0.1)
said = await until_lost()
rl.device("webgpu").reset()
[said, (rl.ones(3, device="webgpu") + 1).tolist()]
""")
        opened.close()
    finally:
        own.close()
    assert "webgpu: the device was lost" in said[0] and "reset()" in said[0]
    assert said[1] == [2, 2, 2]


# A device that is lost between the end of a mapping and the copy of its bytes.
UNMAPPED = """
from pyodide.code import run_js
import rushlight as rl
from rushlight.core.basis.errors import DeviceLostError
run_js('''
  const { requestDevice } = GPUAdapter.prototype, { mapAsync } = GPUBuffer.prototype;
  GPUAdapter.prototype.requestDevice = async function (...given) {
    return (globalThis.opened = await requestDevice.apply(this, given));
  };
  globalThis.cut = () => {
    GPUBuffer.prototype.mapAsync = async function (...given) {
      await mapAsync.apply(this, given);
      GPUBuffer.prototype.mapAsync = mapAsync;
      opened.destroy();
    };
  };
''')
said = []
for way in ("numpy_async", "numpy"):
    await rl.device_async("webgpu")
    x = rl.ones(3, device="webgpu") + 1
    run_js("cut()")
    try:
        found = getattr(x, way)()
        said.append(str(await found if way == "numpy_async" else found))
    except DeviceLostError as error:
        said.append(str(error))
    rl.device("webgpu").reset()
said
"""


def test_a_device_that_is_lost_during_a_read_is_named(
    pages: Any, serve: Any, python_place: Path
) -> None:
    python = pages.start_python(serve(python_place, plain=True).url)
    for said in python(UNMAPPED):
        assert "webgpu: the device was lost" in said and "reset()" in said
