"""A real GPU: are its results right, and how fast are operators, language models and training?

    make gpu                          everything on the first WebGPU adapter, within 8 minutes
    python benchmarks/gpu.py --smoke  tiny sizes on any adapter, to check that it runs; no figures

On an adapter that computes on the CPU it runs as with --smoke. The stages, in this order; what is
done is kept after each of them in results/gpu-NAME.json, so a run that is cut keeps the rest:

- check: a sample of every family of kernels, beside the cpu's results (gpu_check.py);
- models: llamas of random weights, of 1.1 billion parameters in q4_0 and q4_k_m and of SmolLM2's
  shape in q4_0, with prompts of 512 and 2,000 tokens and 64 tokens after each; beside llama.cpp's
  Vulkan backend on the same files with and without matrix units, and PyTorch (float16, eager);
  the shorter prompt also in the modes that round (`rl.set_linear_mode`);
- ops: operators beside PyTorch on CUDA (gpu_ops.py);
- training: a step of a small CNN under `rl.jit`, beside PyTorch;
- sweep: what `rl.autotune` measures of the kernels that have a choice, and what it picks.

The peers run where they are: torch with CUDA (and transformers), and llama.cpp's libraries in the
folder that RUSHLIGHT_LLAMA names, else of the npm package. Answers are compared with llama.cpp's.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import gpu_check
import gpu_ops
import numpy as np
from measure import BEGAN, HERE, keep, machine, markdown, step, tell
from random_models import LLAMA, byte_tokenizer, write
from turns import Side

import rushlight as rl
from rushlight import nn

ROUNDS = 3
TINY = {
    **LLAMA,
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
SMOLLM2 = {
    **LLAMA,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}
MODELS = {
    "llama 1.1 B, q4_0": (LLAMA, "q4_0"),
    "llama 1.1 B, q4_k_m": (LLAMA, "q4_k_m"),
    "SmolLM2's shape, q4_0": (SMOLLM2, "q4_0"),
}
VULKAN = {"@node-llama-cpp/linux-x64-vulkan": "3.22.1"}
# The modes that round (rl.set_linear_mode), of which a GPU has kernels.
MODES = ("float16", "int8")
# How llama.cpp runs: by its own choice, and with the arithmetic that WebGPU has.
BARE = {"GGML_VK_DISABLE_COOPMAT": "1", "GGML_VK_DISABLE_COOPMAT2": "1"}
RUNS: dict[str, dict[str, str]] = {"llama.cpp": {}, "llama.cpp without matrix units": BARE}


def prompts(vocabulary: int, length: int) -> list[list[int]]:
    """Random prompts, of which no two begin alike; the first is to warm up."""
    rng = np.random.default_rng(length)
    return [rng.integers(0, vocabulary, length).tolist() for _ in range(ROUNDS + 1)]


def answers(
    model: Any, asked: list[list[int]], count: int, linear: str = "exact"
) -> dict[str, Any]:
    """Seconds of prompts, and of each of `count` tokens after them; the last prompt's tokens.

    linear: the mode of products with quantized weights.
    """
    samples: dict[str, Any] = {"prefill": [], "decode": []}
    for turn, ids in enumerate(asked):
        began = time.perf_counter()
        steps = model.tokens(ids, max_new_tokens=count + 1, temperature=0, linear=linear)
        tokens = [next(steps).id]
        first = time.perf_counter()
        tokens += [token.id for token in steps]
        if turn and len(tokens) > 1:
            samples["prefill"].append(first - began)
            samples["decode"].append((time.perf_counter() - first) / (len(tokens) - 1))
    return {**samples, "tokens": tokens}


@contextmanager
def peer(command: list[str], env: dict[str, str], name: str) -> Iterator[Side]:
    """A peer's process, which ends with the block."""
    side = Side(command, env, name)
    try:
        yield side
    finally:
        side.process.terminate()
        side.process.wait()


def torch_cuda(call: str, **arguments: Any) -> Any:
    """PyTorch's answer to a call; None where it has no CUDA."""
    probe = "import torch, transformers, sys; sys.exit(not torch.cuda.is_available())"
    if subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode:
        return None
    with peer([sys.executable, str(HERE / "sides" / "torch_cuda.py")], {}, "torch") as side:
        return side.ask(call, **arguments)


def llama_folder() -> Path | None:
    """The folder of llama.cpp's libraries with a GPU backend; None where none can be had."""
    if folder := os.environ.get("RUSHLIGHT_LLAMA"):
        return Path(folder)
    from peers import npm

    try:
        return next(npm(VULKAN).glob("@node-llama-cpp/linux-x64-vulkan/bins/*"), None)
    except (OSError, subprocess.CalledProcessError):
        return None


def llama_cpp(folder: Path | None, file: Path, asked: list[list[int]], count: int) -> Any:
    """llama.cpp's samples by the way it runs; a message in place of those that failed."""
    if folder is None:
        return {}
    found: dict[str, Any] = {}
    script = str(HERE / "sides" / "llama_gpu.py")
    for name, env in RUNS.items():
        with peer([sys.executable, script, str(folder)], env, name) as side:
            try:
                ran = side.ask("run", file=str(file), prompts=asked, count=count)
                found[name] = ran | side.ask("about")
            except RuntimeError as error:
                found[name] = {"note": str(error)}
    return found


def agreeing(own: list[int], theirs: list[int]) -> int:
    """How many tokens are equal before the first that differs."""
    equal = [a == b for a, b in zip(own, theirs, strict=False)]
    return equal.index(False) if False in equal else len(equal)


def models(smoke: bool) -> Iterator[dict[str, Any]]:
    """A row for each model and length of prompt."""
    folder = None if smoke else llama_folder()
    chosen = {"a tiny llama, q4_0": (TINY, "q4_0")} if smoke else MODELS
    lengths, count = ((12, 20), 3) if smoke else ((512, 2000), 64)
    with tempfile.TemporaryDirectory() as place:
        for name, (config, kind) in chosen.items():
            file = Path(place) / "model.gguf"
            with step(f"{name}: write and load"):
                write(config, kind, file, byte_tokenizer(config["vocab_size"]))
                began = time.perf_counter()
                model: Any = rl.models.load(file, device="webgpu")
                rl.device("webgpu").synchronize()
                loaded = time.perf_counter() - began
            nbytes = sum(p.nbytes for p in model.state_dict().values())
            for length in lengths:
                asked = prompts(config["vocab_size"], length)
                with step(f"{name}: prompts of {length}"):
                    own = answers(model, asked, count)
                row = {"model": name, "prompt": length, "nbytes": nbytes, "loaded": loaded}
                row |= {"rushlight": own, "modes": {}}
                for mode in MODES if length == lengths[0] else ():
                    with step(f"{name}: prompts of {length} in {mode}"):
                        row["modes"][mode] = answers(model, asked, count, mode)
                if smoke:
                    exact = answers(rl.models.load(file), asked, count)["tokens"]
                    if agreeing(own["tokens"], exact) < count + 1:
                        raise SystemExit(f"tokens on webgpu, {own['tokens']}, are not {exact}")
                else:
                    row["peers"] = llama_cpp(folder, file, asked, count)
                    if length == 512 and kind == "q4_0":
                        row["peers"]["torch"] = torch_cuda(
                            "llama", config=config, prompt=length, count=count, rounds=ROUNDS
                        )
                yield row
            del model


def ops(smoke: bool) -> dict[str, Any]:
    """Seconds of the operators, ours and PyTorch's, or a message in their place."""
    own: dict[str, Any] = {}
    for case in gpu_ops.cases(smoke):
        try:
            own[case.name] = gpu_ops.timed(
                case, rl, "webgpu", nn.functional, lambda r: r.reshape(-1)[:1].numpy()
            )
        except Exception as error:  # the others are still worth their time
            own[case.name] = f"{type(error).__name__}: {error}"[:200]
        tell(f"{case.name}: {own[case.name]}"[:99])
    return {"rushlight": own, "torch": None if smoke else torch_cuda("ops", smoke=False)}


def training(batch: int, count: int) -> list[float]:
    """Seconds of a training step of a network of two convolutions: forward, backward and AdamW."""
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 49, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    ).to("webgpu")
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-3)
    x = rl.rand(batch, 1, 28, 28, device="webgpu")
    y = rl.from_numpy(np.arange(batch, dtype=np.int32) % 10).to("webgpu")

    @rl.jit
    def one_step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    first, samples = one_step(x, y).item(), []
    for turn in range(ROUNDS + 1):
        began = time.perf_counter()
        for _ in range(count):
            loss = one_step(x, y)
        last = loss.item()
        if turn:
            samples.append((time.perf_counter() - began) / count)
    if not last < first:
        raise SystemExit(f"the loss did not fall: it went from {first} to {last}")
    return samples


def sweep() -> list[dict[str, Any]]:
    """What autotune measures on this adapter: classes of work, times and choices."""
    return [{"class": str(row), **row._asdict()} for row in rl.autotune("webgpu")]


def table(found: dict[str, Any]) -> str:
    """The adapter and what was wrong; rates of models, operators and training, beside the peers."""
    about = ", ".join(str(v) for v in found["versions"].values() if v)
    parts = [f"{about}; copy: {found['copy']['gb_per_s']:.0f} GB/s."]
    if "check" in found:
        lines = found["check"]["wrong"]
        parts[0] += f" {found['check']['samples']} samples of kernels: {len(lines)} wrong."
        parts += [f"- {line}" for line in lines]
    if found.get("models"):
        names = list(RUNS)
        head = ["tokens/s of prompt, answer", "loaded in s", "rushlight"]
        modes = [m for m in MODES if any(m in row.get("modes", {}) for row in found["models"])]
        head += [f"{mode}; tokens that equal exact's" for mode in modes]
        head += [*names, "torch, float16"]
        head += ["of the copy's bandwidth", "tokens that equal llama.cpp's"]
        rows = [_model_row(row, found["copy"], modes) for row in found["models"]]
        parts.append(markdown(head, rows))
    if "ops" in found:
        peers = found["ops"]["torch"] or {}
        rows = []
        for case in gpu_ops.cases(found.get("smoke", False)):
            own, theirs = found["ops"]["rushlight"].get(case.name), peers.get(case.name)
            if isinstance(own, list):
                their = median(theirs) if isinstance(theirs, list) else None
                rows.append(gpu_ops.row(case, median(own), their))
            elif own is not None:
                rows.append([case.name, own, "", "", "", ""])
        parts.append(markdown(["op", "us", "TFLOP/s", "GB/s", "torch, us", "times torch's"], rows))
    if "training" in found:
        told, theirs = found["training"], found["training"]["torch"]
        row = [
            f"a step, batches of {told['batch']}",
            1000 * median(told["seconds"]),
            1000 * median(theirs) if theirs else "",
        ]
        parts.append(markdown(["training", "ms", "torch, ms"], [row]))
    if "sweep" in found:
        picked = sum(row["choice"] != row["guess"] for row in found["sweep"])
        parts.append(
            f"Autotune measured {len(found['sweep'])} classes; in {picked} the guess lost."
        )
    return "\n\n".join(parts)


def _model_row(row: dict[str, Any], copied: dict[str, Any], modes: list[str]) -> list[object]:
    def rates(samples: Any) -> str:
        if not samples or "prefill" not in samples:
            return ""
        prompt, answer = (median(samples[what]) for what in ("prefill", "decode"))
        return f"{row['prompt'] / prompt:.0f}, {1 / answer:.0f}"

    peers = row.get("peers", {})
    own = row["rushlight"]
    share = row["nbytes"] / median(own["decode"]) / 1e9 / copied["gb_per_s"]
    theirs = peers.get("llama.cpp", {}).get("tokens")
    same = f"{agreeing(own['tokens'], theirs)} of {len(own['tokens'])}" if theirs else ""
    rest = [rates(peers.get(name)) for name in (*RUNS, "torch")]
    rounding = []
    for mode in modes:
        samples = row.get("modes", {}).get(mode)
        alike = f"; {agreeing(own['tokens'], samples['tokens'])}" if samples else ""
        rounding.append(rates(samples) + alike)
    name = f"{row['model']}, {row['prompt']}"
    return [name, row.get("loaded", ""), rates(own), *rounding, *rest, share, same]


def adapter() -> dict[str, str]:
    """The adapter that is measured, and the versions of what drives it."""
    info = rl.device("webgpu").info
    return {"adapter": info["device"], "driver": info["description"], "rushlight": rl.__version__}


def main() -> int:
    """Run the stages; 1 if a result of the GPU is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; nothing is kept")
    parser.add_argument("--stages", help="some of check,models,ops,training,sweep, by commas")
    parser.add_argument("--budget", type=float, default=480, help="seconds; later stages are left")
    chosen = parser.parse_args()
    smoke = chosen.smoke or rl.device("webgpu").info["type"] == "CPU"
    if smoke:
        tell("tiny sizes, which say nothing of speed")
    from matmul_native import bandwidth

    found: dict[str, Any] = {"versions": adapter(), "machine": machine(), "smoke": smoke}
    found["copy"] = bandwidth(16 << 20 if smoke else 512 << 20)
    name = "gpu-" + re.sub(r"[^a-z0-9]+", "-", found["versions"]["adapter"].lower()).strip("-")

    def check() -> dict[str, Any]:
        count, lines = gpu_check.wrong(smoke)
        return {"samples": count, "wrong": lines}

    def rows() -> list[dict[str, Any]]:
        kept: list[dict[str, Any]] = []
        for row in models(smoke):
            kept.append(row)
            found["models"] = kept
            if time.perf_counter() - BEGAN > chosen.budget * 0.7:
                tell("the rest of the models is left out: the time is short")
                break
        return kept

    batch, steps = (4, 2) if smoke else (256, 50)
    stages: dict[str, Callable[[], Any]] = {
        "check": check,
        "models": rows,
        "ops": lambda: ops(smoke),
        "training": lambda: {
            "batch": batch,
            "seconds": training(batch, steps),
            "torch": None if smoke else torch_cuda("cnn", batch=batch, count=steps, rounds=ROUNDS),
        },
        "sweep": sweep,
    }
    # A software adapter's sweep takes minutes; it has tests of its own.
    usual = [name for name in stages if name != "sweep" or not smoke]
    for stage in chosen.stages.split(",") if chosen.stages else usual:
        if time.perf_counter() - BEGAN > chosen.budget:
            tell(f"{stage} is left out: {chosen.budget:.0f} seconds are over")
            continue
        with step(stage):
            found[stage] = stages[stage]()
        found["seconds"] = time.perf_counter() - BEGAN
        if not smoke:
            keep(name, found)
    print(table(found)) if smoke else keep(name, found, table(found))
    return 1 if found.get("check", {}).get("wrong") else 0


if __name__ == "__main__":
    sys.exit(main())
