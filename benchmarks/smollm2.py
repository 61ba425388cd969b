"""SmolLM2-135M-Instruct (GGUF, Q4_1): load, first token, tokens per second and peak memory.

    python benchmarks/smollm2.py native            a Python process
    python benchmarks/smollm2.py tab [--site DIR]  headless Chromium on a built site

The site must hold the model (`rushlight site build --models smollm2-135m-instruct`). Every figure
is written to benchmarks/results/ with its raw samples, versions, machine and load average. Before
anything is timed, greedy tokens in `exact` mode are compared with those of the reference (the
golden file of tests/parity). The default mode is timed.
"""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import HERE, high_water, markdown, opened, run, served, step
from turns import renderer_peak

PARITY = HERE.parent / "tests" / "parity" / "data"
NAME = "smollm2-135m-instruct"
ROUNDS = 5
PROMPT_TOKENS = 120
NEW_TOKENS = 16


def goldens() -> dict[str, Any]:
    """The reference's tensors: the ids of prompts, and the greedy tokens after them."""
    from rushlight.core.io.weights.safetensors import load_safetensors

    return {n: t.numpy() for n, t in load_safetensors(PARITY / "smollm2.safetensors").items()}


def check(ids: list[int]) -> None:
    """Stop if the tokens after the first golden prompt differ from the reference's."""
    expected = goldens()["0.greedy"].tolist()[: len(ids)]
    if ids != expected:
        raise SystemExit(f"tokens differ from the reference's: {ids} for {expected}")


def prompts() -> list[list[int]]:
    """One prompt of PROMPT_TOKENS tokens per round. No two begin alike, so none is reused."""
    golden_ids = [v.tolist() for n, v in goldens().items() if n.endswith(".ids")]
    long = max(golden_ids, key=len)
    return [long[i : i + PROMPT_TOKENS] for i in range(10, 10 + 7 * ROUNDS, 7)]


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Tokens per second from the median samples, in front of the samples."""
    prefill, decode = np.median(result["prefill_s"]), np.median(result["decode_s"])
    return {
        "prefill_tokens_per_s": PROMPT_TOKENS / float(prefill),
        "decode_tokens_per_s": (NEW_TOKENS - 1) / float(decode),
        **result,
    }


def native() -> dict[str, Any]:
    """Load and generate in this fresh process."""
    began = time.perf_counter()
    import rushlight as rl

    imported = time.perf_counter() - began
    from rushlight.models.hub.names import resolve

    folder = resolve(NAME)
    texts = prompts()
    golden = goldens()["0.ids"].tolist()
    before = high_water()
    began = time.perf_counter()
    model = rl.models.load(folder)
    loaded = time.perf_counter() - began
    load_peak = high_water() - before
    next(iter(model.tokens(golden, max_new_tokens=1)))
    first = time.perf_counter() - began
    check([t.id for t in model.tokens(golden, max_new_tokens=8, linear="exact")])
    prefill, decode = [], []
    for ids in texts:
        began = time.perf_counter()
        steps = model.tokens(ids, max_new_tokens=NEW_TOKENS)
        count = 1
        next(steps)
        prefill.append(time.perf_counter() - began)
        began = time.perf_counter()
        count += sum(1 for _ in steps)
        took = time.perf_counter() - began
        decode.append(took * (NEW_TOKENS - 1) / max(count - 1, 1))
    return summary(
        {
            "import_s": imported,
            "load_s": loaded,
            "load_and_first_token_s": first,
            "load_peak_mb": load_peak,
            "generate_peak_mb": high_water() - before,
            "prefill_s": prefill,
            "decode_s": decode,
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
        }
    )


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module">
import { createRushlight } from "./rushlight/client.js";
const now = () => performance.now() / 1000;
async function run(model, prompt, maxNewTokens) {
  let stats = null;
  const ids = [];
  const onToken = ({ id }) => ids.push(id);
  const onDone = (found) => { stats = found; };
  for await (const _ of model.generate(prompt, { maxNewTokens, onToken, onDone }));
  return { ids, ...stats };
}
window.boot = async () => {
  const rl = await createRushlight();
  const started = now();
  const before = (await rl.info()).heapBytes;
  Object.assign(window, { rl, before });
  return { started };
};
window.start = async (prompt, linear) => {
  const { rl, before } = window;
  const called = now();
  const model = await rl.load("./models/NAME/", { linear });
  const loaded = now();
  const heapLoaded = (await rl.info()).heapBytes - before;
  await run(model, prompt, 1);
  const first = now();
  const heapFirst = (await rl.info()).heapBytes - before;
  window.model = model;
  return { called, loaded, first, heapLoaded, heapFirst };
};
window.generate = (prompt, maxNewTokens) => run(window.model, prompt, maxNewTokens);
window.heap = async () => (await window.rl.info()).heapBytes - window.before;
window.info = () => window.rl.info();
</script>""".replace("NAME", NAME)


def tab(site: Path) -> dict[str, Any]:
    """Open the page in a new browser, and again with everything cached."""
    golden = goldens()["0.ids"].tolist()
    with served(PAGE, {"": site}) as address, opened(address) as page:
        visits = []
        for number in range(4):
            if number:
                page.reload()
            linear = "fast" if number else "exact"
            with step(f"visit {number + 1} of 4"):
                visit = page.evaluate("boot()")
                visit["renderer_before_mb"] = renderer_peak()
                visit |= page.evaluate("(given) => start(...given)", [golden, linear])
            if not number:
                check(page.evaluate("(ids) => generate(ids, 8)", golden)["ids"])
            visits.append({**visit, "renderer_mb": renderer_peak()})
        cold, *cached = visits
        prefill, decode = [], []
        for ids in prompts():
            with step("an answer"):
                answer = page.evaluate("([ids, n]) => generate(ids, n)", [ids, NEW_TOKENS])
            prefill.append(answer["seconds"]["prefill"])
            count = max(answer["generatedTokens"] - 1, 1)
            decode.append(answer["seconds"]["decode"] * (NEW_TOKENS - 1) / count)
        heap = page.evaluate("heap()")
        info = page.evaluate("info()")
        peak = renderer_peak()
        version = page.context.browser.version
    return summary(
        {
            "cold": cold,
            "cached": cached,
            "prefill_s": prefill,
            "decode_s": decode,
            "heap_grown_by_generation_mb": (heap - cached[-1]["heapFirst"]) / 2**20,
            "heap_grown_mb": heap / 2**20,
            "renderer_peak_mb": peak,
            "versions": {**info, "chromium": version},
        }
    )


def table(result: dict[str, Any]) -> str:
    """The figures of one place."""
    rows: list[list[object]] = [
        ["prompt, tokens per second", result["prefill_tokens_per_s"]],
        ["answer, tokens per second", result["decode_tokens_per_s"]],
    ]
    if "cold" in result:
        cached = float(np.median([visit["first"] for visit in result["cached"]]))
        rows += [
            ["page opened to first token, first visit, s", result["cold"]["first"]],
            ["page opened to first token, weights kept, s", cached],
            ["wasm heap added, MB", result["heap_grown_mb"]],
            ["the page's process, peak MB", result["renderer_peak_mb"]],
        ]
    else:
        rows += [
            ["load, s", result["load_s"]],
            ["load and first token, s", result["load_and_first_token_s"]],
            ["peak memory added by loading, MB", result["load_peak_mb"]],
            ["peak memory added by loading and generating, MB", result["generate_peak_mb"]],
        ]
    return markdown(["", "rushlight"], rows)


if __name__ == "__main__":
    places = {"native": lambda _: native(), "tab": lambda chosen: tab(chosen.site)}
    run("smollm2", __doc__, places, table)
