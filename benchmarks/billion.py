"""Models of a billion random weights on the CPU beside llama.cpp: prompt and answer, tokens/s.

    python benchmarks/billion.py native [--threads 1,2]  beside llama.cpp (node-llama-cpp)
    python benchmarks/billion.py tab [--site DIR]        beside llama.cpp in WebAssembly (wllama)

A small model measures overhead, these measure kernels: a llama 2048 wide in each of --types, and a
mixture of experts in q4_k_m (see random_models.py). Prompts of 120 tokens and 16 new greedy tokens,
as in smollm2_cpu.py, which says how turns are taken and tokens compared; natively also a prompt of
2,000 tokens and the answer after it (--long 0 leaves it out).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import run
from random_models import SHAPES, write
from smollm2 import NAME
from smollm2_cpu import beside_llama, beside_wllama, prompts, table
from texts import book

TYPES = "q4_0,q4_k_m,q5_k_m,q6_k,q8_0,iq4_xs"
LONG = 2000
# Of 49,152 random logits the largest two are often as near as roundings; after a difference all
# tokens differ. Two libraries that compute different things would agree in none.
AGREE = 0.2


def files(chosen: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str, Path]]:
    """(shape, file type, file) of each model; a file is deleted when the next is asked for."""
    llama, mixture = SHAPES
    mixtures = [(mixture, "q4_k_m")] if chosen.mixture else []
    for shape, kind in [*((llama, kind) for kind in chosen.types.split(",")), *mixtures]:
        out = folder / f"{kind}.gguf"
        write(SHAPES[shape], kind, out)
        yield shape, kind, out
        out.unlink()


def long_prompts(count: int) -> list[list[int]]:
    """Prompts of LONG tokens, no two of which begin alike."""
    import rushlight as rl

    tokenizer: Any = rl.models.load(NAME).tokenizer
    ids = tokenizer.encode(book("alice29.txt"), add_special_tokens=False).ids
    return [ids[i * LONG : (i + 1) * LONG] for i in range(count)]


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each model and number of threads."""
    found: dict[str, Any] = {"results": [], "samples": {}, "versions": {}}
    short = [ids for ids, _ in prompts(chosen.rounds + 1)]
    with TemporaryDirectory() as folder:
        for shape, kind, file in files(chosen, Path(folder)):
            for threads in map(int, chosen.threads.split(",")):
                given = [("", short, chosen.rounds)]
                if chosen.long and kind == "q4_k_m" and threads == 2:
                    given.append((f", {LONG} tokens", long_prompts(chosen.long + 1), chosen.long))
                for label, ids, rounds in given:
                    model = f"{shape}, {kind}{label}"
                    rows, samples, versions = beside_llama(
                        file, ids, threads, chosen.linear, rounds, agree=AGREE, model=model
                    )
                    found["results"] += rows
                    found["samples"][f"{model}, {threads}"] = samples
                    found["versions"] |= versions
    return found


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both in one page, for each model."""
    found: dict[str, Any] = {"results": [], "samples": {}, "versions": {}}
    contenders = ["rushlight", "wllama, 1 thread"]
    with TemporaryDirectory() as folder:
        for shape, kind, file in files(chosen, Path(folder)):
            model = f"{shape}, {kind}"
            rows, found["samples"][model], versions = beside_wllama(
                file, prompts(chosen.rounds + 1), contenders, chosen.site, chosen.linear,
                chosen.rounds, agree=AGREE, model=model,
            )  # fmt: skip
            found["results"] += rows
            found["versions"] |= versions
    return found


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--types": {"default": TYPES, "help": "file types of the llama"},
        "--mixture": {"type": int, "default": 1, "help": "0 leaves the mixture of experts out"},
        "--linear": {"default": "fast", "help": "the mode of linear layers"},
        "--rounds": {"type": int, "default": 3, "help": "samples of each"},
        "--long": {"type": int, "default": 2, "help": f"samples of prompts of {LONG} tokens"},
    }
    run("billion", __doc__, {"native": native, "tab": tab}, table, options)
