"""SmolLM2-135M-Instruct decoding on WebGPU beside tinygrad's WebGPU backend: tokens per second.

    python benchmarks/smollm2_webgpu.py native            both as processes, on the first adapter
    python benchmarks/smollm2_webgpu.py tab [--site DIR]  Rushlight in a tab, on SwiftShader, and
                                                          tinygrad as a process on the same one

Both run the same GGUF file (Q4_1), prompts and greedy answers. tinygrad runs its own LLM runner on
Dawn (sides/tinygrad_llm.py) under its JIT, with the fastest of its documented settings: REALIZE=1
(weights unpacked once), natively as float16. SwiftShader has no shader-f16. There version 0.13
compiles none of its kernels, and 0.14 none for float16 weights, so 0.14 runs with HALF=0. The
tokens after an answer's first are timed, warm, in turns; in the tab there are few, as the peer
takes seconds for each. "By processor time" compares the processor time of the processes. The first
prompt's tokens are compared with the reference's. The share of tokens before the first difference
from the peer is recorded.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure import (
    CHROMIUM,
    HERE,
    WEBGPU,
    browser_processes,
    markdown,
    opened,
    processor_ms,
    run,
    served,
    step,
)
from peers import TINYGRAD, TINYGRAD_F32, pypi
from smollm2 import NAME, goldens
from turns import Side, alternate, compared, page_process, python_side, sides

CONTEXT = 512
PROMPTS = (0, 2, 9)  # golden prompts of 5, 13 and 38 tokens
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/smollm2.js"></script>"""


def prompts() -> list[list[int]]:
    """Token ids of the golden prompts."""
    return [goldens()[f"{i}.ids"].tolist() for i in PROMPTS]


def check(ids: list[int]) -> None:
    """Stop if the first prompt's tokens differ from the reference's."""
    if ids[:8] != goldens()["0.greedy"].tolist()[: len(ids[:8])]:
        raise SystemExit(f"tokens differ from the reference's: {ids}")


def tinygrad_side(packages: Mapping[str, str], environment: Mapping[str, str]) -> Any:
    """Command and environment of tinygrad."""
    place = pypi(packages)
    (dawn,) = place.glob("pydawn/lib/libwebgpu_dawn_x86_64.so")
    (python, _, *_), _ = python_side("tinygrad_llm.py", 1)
    env = {"PYTHONPATH": str(place), "DEV": "WEBGPU", "WEBGPU_PATH": str(dawn), "REALIZE": "1"}
    return [python, str(HERE / "sides" / "tinygrad_llm.py")], {**env, **environment}


def model_file() -> Path:
    """The GGUF file."""
    from rushlight.models.hub.names import resolve

    (model,) = Path(resolve(NAME)).glob("*.gguf")
    return model


def result(samples: dict[str, list[dict[str, Any]]], versions: dict[str, Any]) -> dict[str, Any]:
    """The row, with the share of tokens that agree."""
    agreed = 0
    for ours, theirs in zip(samples["rushlight"], samples["tinygrad"], strict=True):
        pairs = list(zip(ours["ids"], theirs["ids"], strict=False))
        agreed += next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    row = {
        **compared(samples, 1, "decode"),
        "agreed": agreed / sum(len(s["ids"]) for s in samples["rushlight"]),
    }
    return {"results": [row], "samples": samples, "versions": versions}


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns."""
    token_rows = prompts()
    command, env = python_side("python.py", 1)
    commands = {
        "rushlight": ([*command, "rushlight"], env),
        "tinygrad": tinygrad_side(TINYGRAD, {}),
    }
    with sides(commands) as started:
        started["rushlight"].ask("load", folder=str(model_file().parent), device="webgpu")
        started["tinygrad"].ask("load", model=str(model_file()), context=CONTEXT)

        def sample(name: str, turn: int) -> Any:
            more = {"linear": "fast"} if name == "rushlight" else {}
            ids = token_rows[turn % len(token_rows)]
            answer = started[name].ask("generate", ids=ids, count=chosen.tokens or 12, **more)
            if name == "rushlight" and turn % len(token_rows) == 0:
                check(answer["ids"])
            return answer

        samples = alternate(list(started), sample, chosen.rounds or 3, warm=2)
        versions = {k: v for side in started.values() for k, v in side.ask("about").items()}
    import rushlight as rl

    versions["adapter"] = rl.device("webgpu").info["device"]
    return result(samples, versions)


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """A page of Rushlight, and a process of tinygrad on the same adapter."""
    if not SWIFTSHADER.exists():
        raise SystemExit(f"{CHROMIUM}'s SwiftShader is not at {SWIFTSHADER}")
    folders = {"": chosen.site, "web": HERE / "web", "model.gguf": model_file()}
    token_rows, count = prompts()[:2], chosen.tokens or 4
    marks: list[float] = []  # seconds computed: before, at the first token, after the last
    driver = {name: str(SWIFTSHADER) for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES")}
    command, env = tinygrad_side(TINYGRAD_F32, {**driver, "HALF": "0"})
    with ExitStack() as stack:
        started = stack.enter_context(sides({"tinygrad": (command, env)}))
        address = stack.enter_context(served(PAGE, folders))
        page = stack.enter_context(opened(address, WEBGPU))
        page.wait_for_function("window.bench")
        with step("load rushlight"):
            about = page.evaluate("bench.open(['rushlight'], 'fast', 'webgpu')")
        renderer, (gpu,) = page_process(page), browser_processes(os.getpid(), "gpu-process")

        def mark() -> None:
            marks.append((processor_ms(renderer) + processor_ms(gpu)) / 1000)

        page.expose_function("mark", mark)
        peer: Side = started["tinygrad"]
        peer.ask("load", model=str(model_file()), context=CONTEXT)

        def sample(name: str, turn: int) -> Any:
            ids = token_rows[(turn + 1) % len(token_rows)]  # the shorter one warms
            if name == "tinygrad":
                return peer.ask("generate", ids=ids, count=count)
            marks.clear()
            answer = page.evaluate(
                "([ids, count]) => bench.generate('rushlight', ids, '', count)",
                [ids, count],
            )
            if ids == token_rows[0]:
                check(answer["ids"])
            _, first, last = marks
            answer["decode_processor_s"] = (last - first) / (len(answer["ids"]) - 1)
            return answer

        samples = alternate(["rushlight", "tinygrad"], sample, chosen.rounds or 2, warm=1)
        versions = {**about, **peer.ask("about"), "chromium": page.context.browser.version}
    return result(samples, {**versions, "adapter": "SwiftShader"})


def table(found: dict[str, Any]) -> str:
    """Tokens per second."""
    (row,) = found["results"]
    head = [
        "tokens per second",
        "rushlight",
        "tinygrad",
        "times tinygrad",
        "by processor time",
        "tokens that agree",
    ]
    values = [
        row["per_s"]["rushlight"],
        row["per_s"]["tinygrad"],
        row["times"]["tinygrad"],
        row["times_by_processor"].get("tinygrad", ""),
        f"{row['agreed']:.0%}",
    ]
    return markdown(head, [[f"answer, on {found['versions']['adapter']}", *values]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--rounds": {"type": int, "help": "answers of each: 3 natively, 2 in the tab"},
        "--tokens": {"type": int, "help": "of an answer: 12 natively, 4 in the tab"},
    }
    run("smollm2_webgpu", __doc__, {"native": native, "tab": tab}, table, options)
