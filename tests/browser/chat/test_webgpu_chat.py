"""Chat on WebGPU: the adapter by name, the switch, a lost device, no memory; SmolLM2 as on cpu."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

READY = 'html[data-state="ready"]'
LIGHT = "A rushlight is a cheap light:\n\nrush\nfat\n\nNo wax."
WEIGHTS = "chain.gguf"
# In front of worker.js: the devices that it opens, and a GPU that is full when it is told to be.
HANDLES = b"""{
  self.devices = [];
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...options) {
    const device = await requestDevice.apply(this, options);
    self.devices.push(device);
    const { popErrorScope } = device;
    device.popErrorScope = () =>
      popErrorScope.call(device).then((e) => (self.full ? new GPUOutOfMemoryError("no") : e));
    return device;
  };
}
"""


def say(page: Any, words: str, button: str = "") -> None:
    """Send a message, or press a button, and wait for the end of the answer."""
    before = page.get_attribute("html", "data-round")
    if button:
        page.click(button)
    else:
        page.fill("#draft", words)
        page.press("#draft", "Enter")
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])', timeout=120_000)


def switch(page: Any, device: str) -> None:
    """Choose the other device and wait until the model is loaded on it."""
    before = page.get_attribute("html", "data-round")
    page.check(f'input[name="device"][value="{device}"]', force=True)
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])', timeout=120_000)


def answers(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".assistant .body").all_inner_texts()]


def endless(page: Any) -> None:
    """An answer to "clock" goes on until something ends it."""
    page.evaluate(
        """() => {
          const form = document.getElementById("settings");
          Object.assign(form.maxNewTokens, { value: 1e7 });
          Object.assign(form.overflow, { value: "shift" });
        }"""
    )


def open_chat(pages: Any, place: Any, query: str = "") -> Any:
    page = pages.open(f"{place.url}chat/{query}", viewport={"width": 1280, "height": 900})
    page.wait_for_function("document.getElementById('adapter').innerText.length > 0")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    return page


def test_chat_names_the_adapter_and_switches(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    place = serve(chat_site)
    page = open_chat(pages, place)
    # SwiftShader computes in software: the page chooses the CPU, and says why.
    assert page.is_checked('input[name="device"][value="cpu"]')
    software = "CPU; the WebGPU adapter (google swiftshader) computes in software: slower."
    assert page.inner_text("#adapter") == software
    page.check('input[name="device"][value="webgpu"]', force=True)
    line = page.inner_text("#adapter")
    assert line.startswith("WebGPU: ") and "swiftshader" in line.lower() and "software" in line
    say(page, "light")
    assert answers(page) == [LIGHT]
    assert "3.7 M parameters on WebGPU (google swiftshader)" in page.inner_text("#device")
    place.mischief.log.clear()
    switch(page, "cpu")
    assert "on the CPU, relaxed SIMD" in page.inner_text("#device")
    assert page.inner_text("#adapter") == software
    say(page, "light")
    assert answers(page) == [LIGHT] * 2
    assert [method for method, _ in place.mischief.asked(WEIGHTS) if method == "GET"] == []
    # The choice is kept, and nothing is loaded by it.
    page.reload()
    page.wait_for_function("document.getElementById('adapter').innerText.includes('CPU')")
    assert page.inner_text("#device") == ""
    switch_only = 'input[name="device"][value="webgpu"]'
    page.check(switch_only, force=True)
    page.reload()
    page.wait_for_function("document.getElementById('adapter').innerText.includes('WebGPU')")
    assert page.is_checked(switch_only)


def test_stop_on_webgpu_keeps_what_there_is(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    page = open_chat(pages, serve(chat_site), "?device=webgpu")
    endless(page)
    page.fill("#draft", "clock")
    page.press("#draft", "Enter")
    page.wait_for_function("document.querySelector('.assistant .body')?.innerText.length > 20")
    say(page, "", "#stop")
    stopped = answers(page)
    assert stopped[0].startswith("tick tock tick tock")
    say(page, "light")
    assert answers(page) == [*stopped, LIGHT], "it went on, or the worker did"


@pytest.mark.parametrize("way", ["#retry", "#use-cpu"])
def test_a_lost_gpu_says_so_and_the_model_can_be_reloaded(
    way: str, pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    place = serve(chat_site)
    place.mischief.prepend["/rushlight/worker.js"] = HANDLES
    page = open_chat(pages, place, "?device=webgpu")
    endless(page)
    page.fill("#draft", "clock")
    page.press("#draft", "Enter")
    page.wait_for_function("document.querySelector('.assistant .body')?.innerText.length > 20")
    page.workers[0].evaluate("() => self.devices[0].destroy()")
    page.wait_for_selector("#error", state="visible")
    assert page.inner_text("#error-title") == "the GPU was lost, and the model with it"
    assert "Load the model again" in page.inner_text("#error-hint")
    assert page.inner_text("#retry") == "Reload the model" and page.is_visible("#use-cpu")
    page.wait_for_selector(READY)
    said = answers(page)[0]
    assert said.startswith("tick tock"), "what had come was lost"
    place.mischief.log.clear()
    page.evaluate("document.getElementById('settings').maxNewTokens.value = 4")
    say(page, "", way)
    assert not page.is_visible("#error"), page.inner_text("#error")
    assert answers(page) == ["tick tock tick tock"]
    where = "WebGPU (google swiftshader)" if way == "#retry" else "the CPU, relaxed SIMD"
    assert where in page.inner_text("#device")
    assert [method for method, _ in place.mischief.asked(WEIGHTS) if method == "GET"] == []


def test_a_gpu_without_room_leaves_the_cpu(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    place = serve(chat_site)
    place.mischief.prepend["/rushlight/worker.js"] = HANDLES + b"self.full = true;\n"
    page = open_chat(pages, place, "?device=webgpu")
    say(page, "light")
    assert page.inner_text("#error-title") == "the GPU has no memory left for this model"
    assert page.inner_text("#error-hint") == "Use the CPU, or choose a smaller model."
    assert answers(page) == [] and page.inner_text("#device") == ""
    say(page, "", "#use-cpu")
    assert not page.is_visible("#error"), page.inner_text("#error")
    assert answers(page) == [LIGHT] and page.is_checked('input[name="device"][value="cpu"]')


def test_without_webgpu_the_page_says_why(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    place = serve(chat_site)
    place.mischief.prepend["/rushlight/worker.js"] = b"delete WorkerNavigator.prototype.gpu;\n"
    page = open_chat(pages, place, "?device=webgpu")
    assert page.inner_text("#adapter").startswith("CPU: this browser has no WebGPU; use a browser")
    assert page.is_disabled('input[name="device"][value="webgpu"]')
    assert page.is_checked('input[name="device"][value="cpu"]')
    say(page, "light")
    assert answers(page) == [LIGHT]


def test_a_page_of_its_own_generates_on_webgpu_without_waiting_in_python(
    pages: Any,
    serve: Callable[..., Any],
    chat_site: Path,
    warm_start: Path,
    tmp_path: Path,
    chain_native: Any,
) -> None:
    """`load_async` and `tokens_async` from Python in the page itself, in a browser like Safari."""
    (tmp_path / "rushlight").symlink_to(chat_site / "rushlight")
    (tmp_path / "models").symlink_to(chat_site / "models")
    (tmp_path / "start").symlink_to(warm_start)
    shutil.copy(Path(__file__).parents[1] / "data" / "python.js", tmp_path)
    (tmp_path / "index.html").write_text("<!doctype html><title>Python</title>", encoding="utf-8")
    url = serve(tmp_path, plain=True).url
    python = pages.start_python(url, jspi=False)
    found = python(
        f"""
import rushlight as rl
m = await rl.models.load_async("{url}models/chain/chain.gguf", device="webgpu")
weight = m.state_dict()["model.layers.0.self_attn.q_proj.weight"].storage
tokens = [t async for t in m.tokens_async("a light", max_new_tokens=4)]
[str(m.device), weight.weights_layout, [t.id for t in tokens], "".join(t.text for t in tokens)]
"""
    )
    expected = list(chain_native.tokens("a light", max_new_tokens=4))
    text = "".join(t.text for t in expected)
    assert found == ["webgpu", "planes", [t.id for t in expected], text]


def test_the_client_works_on_webgpu_with_jspi_removed(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    place = serve(chat_site)
    remove = b"delete WebAssembly.Suspending; delete WebAssembly.promising;\n"
    place.mischief.prepend["/rushlight/worker.js"] = remove
    page = pages.open(f"{place.url}rushlight/runtime.json")
    found = page.evaluate(
        """async () => {
          const { createRushlight } = await import("/rushlight/client.js");
          const rl = await createRushlight();
          const llm = await rl.load("/models/chain/", { device: "webgpu" });
          let text = "";
          const options = { maxNewTokens: 3, temperature: 0.5, topP: 0.9, seed: 1 };
          for await (const piece of llm.generate("a light", options)) text += piece;
          const bert = await rl.load("/models/tiny/", { device: "webgpu" });
          const [vector] = await bert.encode("light");
          return [(await rl.info()).jspi, llm.device, text, vector.length];
        }"""
    )
    assert found == [False, "webgpu", "A rushlight is a", 64]


def test_smollm2_on_webgpu_answers_as_on_cpu_with_its_weights_outside_the_heap(
    pages: Any, serve: Callable[..., Any], tmp_path: Path
) -> None:
    folder = resolve("smollm2-135m-instruct")
    build(tmp_path / "site", [("smollm2-135m-instruct", folder)])
    place = serve(tmp_path / "site")
    page = pages.open(f"{place.url}rushlight/runtime.json")
    page.set_default_timeout(800_000)
    ask = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    found = page.evaluate(
        """async (ask) => {
          const { createRushlight } = await import("/rushlight/client.js");
          const rl = await createRushlight();
          const heap = async () => (await rl.info()).heapBytes;
          const before = await heap();
          const m = await rl.load("/models/smollm2-135m-instruct/", { device: "webgpu" });
          const loaded = await heap();
          const tokens = [];
          let stats;
          const options = { maxNewTokens: 5, onToken: (t) => tokens.push(t),
            onDone: (s) => (stats = s) };
          for await (const _ of m.chat(ask, options)) continue;
          return { grown: loaded - before, after: (await heap()) - before, tokens, stats,
            load: m.seconds };
        }""",
        ask,
    )
    weights = next(folder.glob("*.gguf")).stat().st_size
    figures = {"heap MB": found["grown"] / 1e6, "load s": found["load"], **found["stats"]}
    print(json.dumps({key: figures[key] for key in ("heap MB", "load s", "seconds")}))
    # The vocabulary and what Python makes of it, in the steps that a heap grows by.
    assert found["grown"] <= 0.45 * weights
    assert found["after"] <= 0.6 * weights
    native = rl.models.load("smollm2-135m-instruct")
    expected = list(native.tokens(native.chat_ids(ask), max_new_tokens=5))
    assert [t["id"] for t in found["tokens"]] == [t.id for t in expected]
    logprobs = [t["logprob"] for t in found["tokens"]]
    assert logprobs == pytest.approx([t.logprob for t in expected], abs=2e-3)
