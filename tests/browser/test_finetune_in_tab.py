"""Fine-tuning in the tab: an adapter like a process's, its answers, its files, stopping, errors."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models import finetune

pytestmark = pytest.mark.warm_start

GENERATE = Path(__file__).parents[1] / "models" / "test_generate.py"
ROWS = [
    {"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": "u"}]}
    for a in "abcd"
]
OPTIONS = {"r": 4, "steps": 20, "batchSize": 2, "lr": 0.02, "seed": 3}
TRAIN = """async ([rows, options, device]) => {
  const seen = [];
  const text = async (model) => {
    let said = "";
    const asked = [{ role: "user", content: "a" }];
    for await (const part of model.chat(asked, { maxNewTokens: 4 })) said += part;
    return said;
  };
  window.tuned = await rl.load("/models/llama/", { device });
  const before = await text(tuned);
  const onProgress = (progress) => seen.push(progress);
  const losses = await tuned.finetune(rows, { ...options, name: "mine", onProgress });
  const after = await text(tuned);
  await tuned.setAdapters([]);
  const without = await text(tuned);
  await tuned.setAdapters("mine");
  const files = await tuned.adapterFiles("mine");
  const listed = Object.entries(files).map(([name, bytes]) => [name, [...bytes]]);
  const other = await rl.load("/models/llama/", { device });
  const chosen = Object.entries(files).map(([path, b]) => ({ path, blob: new Blob([b]) }));
  await other.addAdapter(chosen);
  return { before, after, without, again: await text(other), losses, seen, listed };
}"""
STOP = """async ([rows, options]) => {
  const control = new AbortController();
  const onProgress = ({ done }) => done >= 2 && control.abort();
  const given = { ...options, steps: 5000, onProgress, signal: control.signal };
  const said = [];
  const name = (error) => said.push(`${error.name}: ${error.message}`);
  await tuned.finetune(rows, { ...given, name: "stopped" }).catch(name);
  await tuned.setAdapters("stopped").then(() => said.push("it stays"), name);
  await tuned.finetune([rows[0], { text: 1 }], { ...options, name: "none" }).catch(name);
  await tuned.setAdapters("none").catch(name);
  await tuned.finetune(rows, { ...options, name: "mine" }).catch(name);
  await tuned.finetune(rows, { ...options, name: "odd", speed: 1 }).catch(name);
  await tuned.finetune([], { name: "empty" }).catch(name);
  return said;
}"""


def _tiny() -> Any:
    """The tiny llama of the tests of generation."""
    spec = importlib.util.spec_from_file_location("generate_tests", GENERATE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.tiny()


@pytest.mark.parametrize("place", ["cpu", "webgpu"])
def test_an_adapter_is_trained_as_in_a_process(lab: Any, tmp_path: Path, place: str) -> None:
    """Losses, adapter and answers are those of the cpu here, within what a device rounds."""
    close = {"cpu": 1e-4, "webgpu": 1e-3}[place]
    model = _tiny()
    model.save_pretrained(lab.folder / "models" / "llama")
    page = lab.page
    page.evaluate("""async () => {
      const { createRushlight } = await import("/rushlight/client.js");
      window.rl = await createRushlight();
    }""")
    found = page.evaluate(TRAIN, [ROWS, OPTIONS, place])

    rl.manual_seed(3)
    config = rl.adapters.LoraConfig(
        r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    rl.adapters.add_adapter(model, config, "mine")
    losses = finetune.finetune(model, ROWS, steps=20, batch_size=2, lr=0.02, seed=3)
    np.testing.assert_allclose(found["losses"], losses, rtol=close)
    assert losses[-1] < 0.5 * losses[0]
    assert [(s["done"], s["total"]) for s in found["seen"]] == [(i + 1, 20) for i in range(20)]
    assert [s["loss"] for s in found["seen"]] == found["losses"]
    for name, content in found["listed"]:
        (tmp_path / name).write_bytes(bytes(content))
    theirs = rl.load(tmp_path / "adapter_model.safetensors")
    ours = rl.adapters.adapter_state(model, "mine")
    assert theirs.keys() == ours.keys() and len(ours) == 28
    for name, tensor in ours.items():
        np.testing.assert_allclose(theirs[name].numpy(), tensor.detach().numpy(), atol=close)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["r"] == 4

    # The adapter computes at once, is taken off, and comes back from its files: here, in a process.
    loaded = rl.adapters.load_adapter(_tiny(), tmp_path)
    asked = [{"role": "user", "content": "a"}]
    answer = "".join(loaded.chat(asked, max_new_tokens=4, temperature=0))
    assert found["after"] == answer and answer.strip() == "u"
    assert found["again"] == found["after"] != found["before"] == found["without"]

    said = page.evaluate(STOP, [ROWS, OPTIONS])
    assert said[:2] == ["AbortError: signal is aborted without reason", "it stays"]
    assert "row 1: a row's 'text' is 1" in said[2] and "no adapter 'none'" in said[3]
    assert "cannot be called 'mine'" in said[4]
    assert "speed" in said[5] and "there are no rows" in said[6]
