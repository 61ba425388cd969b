"""Weights into GPU buffers: pieces of any size, the choice of a device, budgets, lost devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.warm_start

TEXTS = ["a rush and a little fat", "cheap light", "the bee was in the lamp . " * 20, "who ?"]
WEIGHTS = "model.safetensors"
# In front of worker.js: the devices that it opens, for tests that destroy one.
KEEP_DEVICES = b"""{
  self.devices = [];
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...options) {
    const device = await requestDevice.apply(this, options);
    self.devices.push(device);
    return device;
  };
}
"""
NO_WEBGPU = b"delete WorkerNavigator.prototype.gpu;\n"
TRY = """async (body) => {
  try { return { value: await body() }; }
  catch ({ name, message, hint }) { return { name, message, hint }; }
}"""


def attempt(page: Any, body: str) -> dict[str, Any]:
    """The value or the error of an async JavaScript body."""
    found: dict[str, Any] = page.evaluate(f"({TRY})(async () => {{ {body} }})")
    return found


def start(pages: Any, url: str) -> Any:
    """A page with `rl`, the runtime."""
    page = pages.open(f"{url}rushlight/runtime.json")
    page.evaluate(
        """async () => {
          const { createRushlight } = await import("/rushlight/client.js");
          window.rl = await createRushlight();
        }"""
    )
    return page


def test_any_pieces_of_a_stream_reach_their_places(shared_page: Any) -> None:
    """Tensors at odd offsets and of odd lengths, in the heap, in buffers, and as blocks."""
    found = shared_page.evaluate(
        """async () => {
          const { Scatter } = await import("/rushlight/places.js");
          const file = Uint8Array.from({ length: 9000 }, (_, i) => (i * 7 + (i >> 8)) & 255);
          // (offset, bytes, kind, place): gaps between some, others touch.
          const rows = [[3, 1001, 0, 50], [1004, 999, 1, 1], [2010, 1, 1, 2], [2011, 4, 1, 3],
            [2015, 1800, 2, 0], [3815, 90, 2, 1], [3905, 720, 2, 2], [4700, 4001, 1, 4]];
          const expected = rows.map(([at, n]) => [...file.slice(at, at + n)].join());
          let random = 1;
          const next = (n) => (random = (random * 48271) % 2147483647) % n;
          const wrong = [];
          for (let round = 0; round < 60; round += 1) {
            const heap = new Uint8Array(2000);
            const buffers = {}, blocks = [[], [], []];
            let current = -1;
            const builder = {
              open: (i) => ((current = i), (buffers[10 + i] = new Uint8Array(360)), [10 + i, 360]),
              commit: (n) => blocks[current].push(...buffers[10 + current].slice(0, n)),
              check: async () => {},
              port: { writeBytes(handle, at, bytes) {
                if (at % 4 || bytes.length % 4) throw new Error("no whole words");
                (buffers[handle] ??= new Uint8Array(4004)).set(bytes, at);
              } },
            };
            const scatter = new Scatter(rows.flat(), () => heap, builder);
            const largest = [1, 3, 64, 500, 9000][round % 5];
            for (let at = 0; at < file.length; ) {
              const bytes = file.slice(at, at + 1 + next(largest));
              scatter.write(at, bytes);
              at += bytes.length;
            }
            rows.forEach(([, n, kind, place], i) => {
              const got = [heap.slice(place, place + n), buffers[place]?.slice(0, n),
                blocks[place]][kind];
              if ([...got].join() !== expected[i]) wrong.push([round, i]);
            });
          }
          return wrong;
        }"""
    )
    assert found == []


def test_vectors_on_webgpu_are_those_of_python(shared_page: Any, native: Any) -> None:
    found = shared_page.evaluate(
        """async (texts) => {
          const found = [];
          for (const device of ["auto", "webgpu", "auto"]) {
            const m = await rl.load("/models/tiny/", { device });
            const rows = (await m.encode(texts, { batchSize: 3 })).map((v) => [...v]);
            found.push([m.device, m.adapter, m.why, rows]);
            if (device === "auto") await m.dispose();
          }
          return found;
        }""",
        TEXTS,
    )
    expected = native.encode(TEXTS).numpy()
    for device, adapter, why, rows in found:
        assert np.abs(np.array(rows) - expected).max() <= 1e-5
        if device == "webgpu":
            assert why == "" and "swiftshader" in adapter.lower()
    # An adapter in software is slower than the C kernels; with a model on it or not.
    assert [row[0] for row in found] == ["cpu", "webgpu", "cpu"]
    software = "the WebGPU adapter (google swiftshader) computes in software, which is slower"
    assert [row[1:3] for row in found[::2]] == [["", software]] * 2


def test_the_adapter_is_named_and_an_unknown_device_refused(shared_page: Any) -> None:
    found = shared_page.evaluate("() => rl.adapter()")
    assert "swiftshader" in found["name"].lower() and found["software"] is True
    wrong = attempt(shared_page, "return rl.load('/models/tiny/', { device: 'tpu' })")
    assert wrong["message"] == 'load: device "tpu" is not supported; supported: cpu, webgpu, auto'


def test_without_an_adapter_auto_is_the_cpu_and_says_why(
    pages: Any, serve: Callable[..., Any], site: Any
) -> None:
    place = serve(site)
    place.mischief.prepend["/rushlight/worker.js"] = NO_WEBGPU
    page = start(pages, place.url)
    found = page.evaluate(
        """async () => {
          const m = await rl.load("/models/tiny/", { device: "auto" });
          return [m.device, m.adapter, m.why, (await m.encode("light"))[0].length];
        }"""
    )
    assert found == ["cpu", "", "this browser has no WebGPU", 64]
    wrong = attempt(page, "return rl.load('/models/tiny/', { device: 'webgpu' })")
    assert wrong["name"] == "DeviceError" and "no WebGPU" in wrong["message"]
    assert "use a browser that has it" in wrong["hint"]


def test_a_budget_is_checked_before_the_download_and_costs_nothing_kept(
    pages: Any, serve: Callable[..., Any], site: Any
) -> None:
    place = serve(site)
    page = start(pages, place.url)
    load = "return (await rl.load('/models/tiny/', { device: 'webgpu', memoryBudget: %s })).device"
    assert attempt(page, load % "undefined")["value"] == "webgpu"
    wrong = attempt(page, load % 1_000_000)
    assert wrong["name"] == "DeviceMemoryError"
    assert wrong["message"] == "the GPU has no memory left for this model"
    assert wrong["hint"] == "Use the CPU, or choose a smaller model."
    place.mischief.log.clear()
    again = attempt(page, "return (await rl.load('/models/tiny/')).device")
    assert again["value"] == "cpu", again
    assert place.mischief.asked(WEIGHTS) == [], "the kept file was thrown away"


def test_a_lost_device_says_so_and_loading_opens_another(
    pages: Any, serve: Callable[..., Any], site: Any, native: Any
) -> None:
    place = serve(site)
    place.mischief.prepend["/rushlight/worker.js"] = KEEP_DEVICES
    page = start(pages, place.url)
    page.evaluate(
        "async () => { window.m = await rl.load('/models/tiny/', { device: 'webgpu' }); }"
    )
    page.workers[0].evaluate("() => self.devices[0].destroy()")
    lost = attempt(page, "return m.encode('light')")
    assert lost["name"] == "DeviceLostError", lost
    assert "the GPU was lost" in lost["message"] and "Load the model again" in lost["hint"]
    found = page.evaluate(
        """async () => {
          await m.dispose();
          m = await rl.load("/models/tiny/", { device: "webgpu" });
          return [...(await m.encode("light"))[0]];
        }"""
    )
    assert np.abs(np.array(found) - native.encode("light").numpy()).max() <= 1e-5
    assert page.workers[0].evaluate("() => self.devices.length") == 2


# The bytes of buffers, once they have stayed the same for a while: some are freed a moment later.
RESTS = """async () => {
  for (let before = NaN; before !== self.held; ) {
    before = self.held;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return self.held;
}"""


def test_memory_of_the_gpu_is_given_back(pages: Any, serve: Callable[..., Any], site: Any) -> None:
    place = serve(site)
    count = b"""{
      self.held = 0;
      const { createBuffer } = GPUDevice.prototype, { destroy } = GPUBuffer.prototype;
      GPUDevice.prototype.createBuffer = function (options) {
        self.held += options.size;
        return createBuffer.call(this, options);
      };
      GPUBuffer.prototype.destroy = function () {
        self.held -= this.size;
        return destroy.call(this);
      };
    }
    """
    place.mischief.prepend["/rushlight/worker.js"] = count
    page = start(pages, place.url)
    held = []
    for _ in range(3):
        page.evaluate(
            """async () => {
              const m = await rl.load("/models/tiny/", { device: "webgpu" });
              await m.encode("light");
              await m.dispose();
            }"""
        )
        held.append(page.workers[0].evaluate(RESTS))
    assert held[2] == held[1] < 2**20, held


@pytest.mark.parametrize("call", ["encode", "load"])
def test_out_of_memory_is_readable(
    call: str, pages: Any, serve: Callable[..., Any], site: Any
) -> None:
    """The browser says so some time after the buffer was asked for."""
    place = serve(site)
    full = b"""{
      const { pushErrorScope, popErrorScope } = GPUDevice.prototype;
      const open = [];
      GPUDevice.prototype.pushErrorScope = function (kind) {
        open.push(kind);
        return pushErrorScope.call(this, kind);
      };
      GPUDevice.prototype.popErrorScope = function () {
        const full = open.pop() === "out-of-memory" && self.full;
        return popErrorScope.call(this).then((e) => (full ? new GPUOutOfMemoryError("no") : e));
      };
    }
    """
    place.mischief.prepend["/rushlight/worker.js"] = full
    page = start(pages, place.url)
    load = "window.m = await rl.load('/models/tiny/', { device: 'webgpu' });"
    if call == "encode":
        page.evaluate(f"async () => {{ {load} }}")
    page.workers[0].evaluate("() => { self.full = true; }")
    wrong = attempt(page, "return m.encode('light')" if call == "encode" else load)
    assert wrong["name"] == "DeviceMemoryError", wrong
    assert "Use the CPU" in wrong["hint"]
