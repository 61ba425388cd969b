"""What each file type costs in quality: sizes, perplexities and divergences, beside llama.cpp's.

    python benchmarks/quality.py [--models trained,smollm2] [--types q8_0,q4_k_m] [--windows 4]

Two models are quantized by Rushlight: a llama that train_llama.py trains here (once, into the
cache), and SmolLM2-135M, whose weights come as Q4_1 and are dequantized first. The text is the part
of Alice in Wonderland that the first was not trained on, in windows of 512 tokens; the divergence
is that from the model before. A type with "+" was made with an importance matrix of another text.
llama.cpp computes the perplexity of the same files from the same token ids. Tokens per second are
those of 64 tokens after a prompt of 64, greedy, the fastest of three; --speed leaves them out at 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import HERE, markdown, run, step, tell_row
from peers import LLAMA, npm
from train_llama import parts, train

CONTEXT, NEW_TOKENS = 512, 64
STEPS = 200  # of the small llama's training
TYPES = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_k_m+", "q4_0", "iq4_xs", "q3_k_m", "q2_k+")


def source(name: str) -> tuple[str, str]:
    """The model to quantize, as `rl.models.load` takes it, and its own name."""
    from rushlight.core.io.hub.fetch import cache_dir

    if name == "smollm2":
        return "smollm2-135m-instruct", "SmolLM2-135M"
    if name != "trained":
        raise SystemExit(f"--models {name} is not supported; supported: trained, smollm2")
    folder = cache_dir() / "benchmarks" / f"trained-llama-{STEPS}"
    if not (folder / "tokenizer.json").is_file():  # written last
        with step("train the small llama"):
            train(folder, STEPS, "cpu", parts()[0])
    return str(folder), "trained, 3.3 M"


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Rows of every model and type; the first of a model is the model before."""
    from rushlight import models
    from rushlight.models.gguf.quantize import dequantize, quantize
    from rushlight.models.importance import importance

    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for name in chosen.models.split(","):
            checkpoint, label = source(name)
            base_file, important = (
                Path(folder) / f"{name}.gguf",
                Path(folder) / f"{name}.imatrix.gguf",
            )
            train_text, text = parts()
            with step(f"{label}: weights in float32, and their importance"):
                dequantize(checkpoint, base_file, "f32")
                base: Any = models.load(base_file)
                ids = base.prompt_ids(text)[: chosen.windows * CONTEXT]
                seen = base.prompt_ids(train_text)[: 2 * chosen.windows * CONTEXT]
                importance(base, seen, context=CONTEXT, linear="exact").save(important)
            for kind in ("f32", *chosen.types.split(",")):
                file = base_file
                if kind != "f32":
                    file = Path(folder) / f"{name}-{kind}.gguf"
                    wanted = important if kind.endswith("+") else None
                    with step(f"quantize to {kind}"):
                        quantize(checkpoint, file, kind.rstrip("+"), imatrix=wanted)
                model: Any = models.load(file)
                row = {"model": label, "type": kind, **sizes(file)}
                with step(f"{kind}: perplexity"):
                    row |= found(model, ids, None if kind == "f32" else base)
                with step(f"{kind}: llama.cpp's"):
                    row["llama_cpp"] = llama_cpp(file, ids)
                row["speed"], row["speeds"] = {}, {}
                for device in chosen.speed.split(","):
                    if device != "0":
                        with step(f"{kind}: tokens per second on {device}"):
                            row["speeds"][device] = speeds(file, ids, device)
                        row["speed"][device] = max(row["speeds"][device])
                rows.append(row)
                tell_row(cells(row))
                if kind != "f32":
                    del model
                    file.unlink()
    return {"results": rows, "windows": chosen.windows, "versions": LLAMA}


def sizes(file: Path) -> dict[str, float]:
    """Bytes of the file, and bits for each weight of its tensors."""
    from rushlight.core.io import read_tables

    entries = [e for _, table, _ in read_tables(file) for e in table.entries.values()]
    count = sum(e.nbytes // e.dtype.itemsize * e.dtype.block for e in entries)
    return {"mb": file.stat().st_size / 1e6, "bits": 8 * sum(e.nbytes for e in entries) / count}


def found(model: Any, ids: Sequence[int], base: Any) -> dict[str, Any]:
    """Perplexity, and the divergence from the model before."""
    from rushlight.models.perplexity import perplexity

    return dataclasses.asdict(perplexity(model, ids, context=CONTEXT, base=base, linear="exact"))


def llama_cpp(file: Path, ids: Sequence[int]) -> float:
    """The perplexity by the same definition of what llama.cpp computes."""
    spec = importlib.util.spec_from_file_location("llama_cpp", HERE.parent / "tests/llama_cpp.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = npm(LLAMA) / "@node-llama-cpp" / "linux-x64" / "bins" / "linux-x64"
    library, losses = module.LlamaCpp(folder), []
    for start in range(0, len(ids) - CONTEXT + 1, CONTEXT):
        window, first = ids[start : start + CONTEXT], CONTEXT // 2
        with library.model(file, CONTEXT) as model:
            model.logits(window[:first])
            # Of a batch with all its logits: llama.cpp's own tool computes them so, too.
            rows = model.every(window[first:-1])
            for token, row in zip(window[first + 1 :], rows, strict=True):
                logits = row.astype(np.float64)
                top = logits.max()
                losses.append(top + np.log(np.exp(logits - top).sum()) - logits[token])
    return float(np.exp(np.mean(losses)))


def speeds(file: Path, ids: Sequence[int], device: str) -> list[float]:
    """Tokens per second of answers, after the first token."""
    from rushlight import models

    model: Any = models.load(file, device=device)
    taken = []
    for turn in range(4):  # the first one captures
        prompt = ids[turn * 64 : turn * 64 + 64]
        steps = model.tokens(prompt, max_new_tokens=NEW_TOKENS)
        next(steps)
        began = time.perf_counter()
        count = sum(1 for _ in steps)
        taken.append(count / (time.perf_counter() - began))
    return taken[1:]


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    apart = ("", "") if row["kl"] is None else (f"{row['kl']:.2e}", f"{row['same_top']:.1%}")
    return [
        row["model"],
        row["type"],
        row["mb"],
        f"{row['bits']:.2f}",
        f"{row['perplexity']:.4f}",
        f"{row['llama_cpp']:.4f}",
        *apart,
        *row["speed"].values(),
    ]


def table(result: dict[str, Any]) -> str:
    """Size, quality and speed by model and type."""
    devices = [f"token/s, {d}" for d in result["results"][0]["speed"]]
    head = ["model", "type", "MB", "bits per weight", "perplexity", "llama.cpp's", "KL, nats",
            "same likeliest token", *devices]  # fmt: skip
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--models": {"default": "trained,smollm2", "help": "which models"},
        "--types": {"default": ",".join(TYPES), "help": "which file types"},
        "--windows": {"type": int, "default": 4, "help": "windows of 512 tokens, at most"},
        "--speed": {"default": "cpu", "help": "devices to time, or 0"},
    }
    run("quality", __doc__, {"native": measure}, table, options)
