"""Language models and a training step on a real GPU, beside PyTorch on CUDA and llama.cpp.

    python benchmarks/gpu.py          needs a GPU; on a CPU it runs as with --smoke
    python benchmarks/gpu.py --random SmolLM2's shape with random weights, where its file is not
    python benchmarks/gpu.py --smoke  tiny sizes on any adapter, to check that it runs; no figures

Rushlight runs on the first WebGPU adapter. The language models are SmolLM2-135M (its GGUF file) and
a llama of 1.2 billion random parameters in q4_0, with prompts of 512 tokens and 64 tokens after
each. The training step is that of a small CNN under `rl.jit`, on batches of Fashion-MNIST's size.
Decoding is also given as a fraction of a large copy's bandwidth (a token reads all weights once).
The peers run if they are installed: torch with CUDA and transformers (float16 weights, eager), and
llama.cpp's llama-bench (the same GGUF file). First, at a small size, the llama's tokens must equal
those of the cpu device.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from measure import HERE, markdown, run, step
from smollm2 import NAME
from turns import Side

import rushlight as rl
from rushlight import nn

ROUNDS = 5
LLAMA = {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
         "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
         "max_position_embeddings": 2048, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": True, "model_type": "llama"}  # fmt: skip
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
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}


def blocks(rng: np.random.Generator, out: int, taken: int) -> rl.Tensor:
    """A random q4_0 weight with about the deviation of an initial weight."""
    raw = rng.integers(0, 256, (out * taken // 32, 18), dtype=np.uint8)
    raw[:, :2] = np.array([0.2 / taken**0.5], np.float16).view(np.uint8)
    return rl.Tensor.from_buffer(raw.reshape(-1), rl.q4_0, (out, taken))


def llama(config: dict[str, Any], device: str) -> Any:
    """A llama of random weights, the same on every device."""
    rng = np.random.default_rng(0)
    dim, inner = config["hidden_size"], config["intermediate_size"]
    groups = dim // config["num_attention_heads"] * config["num_key_value_heads"]
    tensors = {"model.embed_tokens.weight": blocks(rng, config["vocab_size"], dim)}
    ones = rl.from_numpy(np.ones(dim, np.float32))
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        shapes = {
            "self_attn.q_proj": (dim, dim),
            "self_attn.k_proj": (groups, dim),
            "self_attn.v_proj": (groups, dim),
            "self_attn.o_proj": (dim, dim),
            "mlp.gate_proj": (inner, dim),
            "mlp.up_proj": (inner, dim),
            "mlp.down_proj": (dim, inner),
        }
        for name, shape in shapes.items():
            tensors[f"{layer}.{name}.weight"] = blocks(rng, *shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}.{name}.weight"] = ones
    tensors["model.norm.weight"] = ones
    files = {"config.json": json.dumps(config).encode()}
    return rl.models.assemble(files, tensors, device=device)


def answers(model: Any, vocabulary: int, prompt: int, count: int) -> dict[str, list[float]]:
    """Seconds of prompts, and of each token after them. No two prompts begin alike."""
    rng = np.random.default_rng(1)
    samples: dict[str, list[float]] = {"prefill": [], "decode": []}
    for turn in range(ROUNDS + 1):
        ids = rng.integers(0, vocabulary, prompt).tolist()
        began = time.perf_counter()
        steps = model.tokens(ids, max_new_tokens=count + 1)
        next(steps)
        first = time.perf_counter()
        count_after = sum(1 for _ in steps)
        if turn and count_after:
            samples["prefill"].append(first - began)
            samples["decode"].append((time.perf_counter() - first) / count_after)
    return samples


def same_as_cpu() -> None:
    """Stop if a small llama's tokens differ from those of the cpu device."""
    said = [
        [t.id for t in llama(TINY, device).tokens([1, 2, 3], max_new_tokens=6, linear="exact")]
        for device in ("cpu", "webgpu")
    ]
    if said[0] != said[1]:
        raise SystemExit(f"tokens on webgpu differ from the cpu's: {said}")


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
    def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    first, samples = step(x, y).item(), []
    for turn in range(ROUNDS + 1):
        began = time.perf_counter()
        for _ in range(count):
            loss = step(x, y)
        last = loss.item()
        if turn:
            samples.append((time.perf_counter() - began) / count)
    if not last < first:
        raise SystemExit(f"the loss did not fall: it went from {first} to {last}")
    return samples


def weight_bytes(model: Any) -> int:
    """Bytes that a token reads: every weight once; the embedding is the head."""
    return sum(p.nbytes for p in model.state_dict().values())


def llama_bench(model: str) -> dict[str, Any]:
    """llama.cpp's own measurement of a file, if it is installed."""
    program = shutil.which("llama-bench")
    if program is None:
        return {"note": "llama-bench is not installed"}
    command = [program, "-m", model, "-p", "512", "-n", "64", "-ngl", "99", "-o", "json"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = json.loads(said.stdout)
    return {
        "prefill_per_s": next(r["avg_ts"] for r in rows if r["n_prompt"]),
        "decode_per_s": next(r["avg_ts"] for r in rows if r["n_gen"]),
    }


def torch_cuda(ask: Callable[[Side], Any]) -> dict[str, Any]:
    """torch's samples, or a note if it is not installed."""
    probe = "import torch, transformers, sys; sys.exit(not torch.cuda.is_available())"
    if subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode:
        return {"note": "torch with CUDA and transformers are not installed"}
    side = Side([sys.executable, str(HERE / "sides" / "torch_cuda.py")], {}, "torch")
    try:
        return {**side.ask("about"), "found": ask(side)}
    finally:
        side.process.terminate()
        side.process.wait()


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """On the first adapter."""
    from matmul_native import bandwidth

    info = rl.device("webgpu").info
    smoke = getattr(chosen, "smoke", False)
    prompt, count, batch = (12, 3, 4) if smoke else (512, 64, 256)
    same_as_cpu()
    result: dict[str, Any] = {
        "models": {},
        "versions": {"adapter": info["device"], "driver": info["description"]},
    }
    copied = result["copy"] = bandwidth(16 << 20 if smoke else 512 << 20)
    models: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
        "llama, 1.2 billion, q4_0": (lambda: llama(LLAMA, "webgpu"), LLAMA),
        "SmolLM2-135M, q4_1": (lambda: rl.models.load(NAME, device="webgpu"), SMOLLM2),
    }
    if getattr(chosen, "random", False):
        del models["SmolLM2-135M, q4_1"]
        models["SmolLM2-135M's shape, q4_0"] = (lambda: llama(SMOLLM2, "webgpu"), SMOLLM2)
    if smoke:
        models = {"a tiny llama, q4_0": (lambda: llama(TINY, "webgpu"), TINY)}
    for name, (make, config) in models.items():
        with step(f"load {name}"):
            model = make()
        samples = answers(model, config["vocab_size"], prompt, count)
        prefill, decode = (median(samples[what]) for what in ("prefill", "decode"))
        moved = weight_bytes(model) / decode / 1e9
        result["models"][name] = {
            "prompt": prompt,
            "prefill_per_s": prompt / prefill,
            "decode_per_s": 1 / decode,
            "gb_per_s": moved,
            "of_copy": moved / copied["gb_per_s"],
            "seconds": samples,
            "torch": torch_cuda(
                lambda side, c=config: side.ask(  # type: ignore[misc]
                    "llama", config=c, prompt=prompt, count=count, rounds=ROUNDS
                )
            ),
        }
        del model
    if "SmolLM2-135M, q4_1" in models:
        from rushlight.models.hub.names import resolve

        (file,) = resolve(NAME).glob("*.gguf")
        result["models"]["SmolLM2-135M, q4_1"]["llama.cpp"] = llama_bench(str(file))
    steps = 2 if smoke else 50
    result["training"] = {
        "batch": batch,
        "seconds": training(batch, steps),
        "torch": torch_cuda(lambda s: s.ask("cnn", batch=batch, count=steps, rounds=ROUNDS)),
    }
    return result


def table(found: dict[str, Any]) -> str:
    """Tokens per second with the fraction of the bandwidth, and milliseconds of a training step."""
    head = [
        "tokens per second",
        "prompt",
        "answer",
        "of the copy's bandwidth",
        "torch, prompt",
        "torch, answer",
        "llama.cpp, answer",
    ]
    rows: list[list[object]] = []
    for name, row in found["models"].items():
        peer = row["torch"].get("found")
        theirs = (
            [row["prompt"] / median(peer["prefill"]), 1 / median(peer["decode"])]
            if peer
            else ["", ""]
        )
        rows.append(
            [
                name,
                row["prefill_per_s"],
                row["decode_per_s"],
                row["of_copy"],
                *theirs,
                row.get("llama.cpp", {}).get("decode_per_s", ""),
            ]
        )
    step = found["training"]
    peer = step["torch"].get("found")
    told = [
        f"a step, batches of {step['batch']}",
        1000 * median(step["seconds"]),
        1000 * median(peer) if peer else "",
    ]
    first = ", ".join(str(v) for v in found["versions"].values())
    return "\n\n".join(
        [
            f"{first}; copy: {found['copy']['gb_per_s']:.0f} GB/s.",
            markdown(head, rows),
            markdown(["training", "ms", "torch, ms"], [told]),
        ]
    )


if __name__ == "__main__":
    if "--smoke" in sys.argv or rl.device("webgpu").info["type"] == "CPU":  # nothing is kept
        with step("tiny sizes, which say nothing of speed"):
            print(table(native(argparse.Namespace(smoke=True))))
    else:
        options: dict[str, dict[str, Any]] = {"--random": {"action": "store_true"}}
        run("gpu", __doc__, {"native": native}, table, options)
