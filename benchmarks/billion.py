"""Models of a billion random weights on the CPU beside llama.cpp: prompt and answer, tokens/s.

    python benchmarks/billion.py native [--threads 1,2]  beside llama.cpp (node-llama-cpp)
    python benchmarks/billion.py tab [--site DIR]        beside llama.cpp in WebAssembly (wllama)

A small model measures overhead, these measure kernels: a llama 2048 wide in each of --types, and a
mixture of experts in q4_k_m (see random_models.py). Prompts of 120 tokens and 16 new greedy tokens,
as in smollm2_cpu.py, which says how turns are taken and tokens compared; natively also a prompt of
2,000 tokens and the answer after it (--long 0 leaves it out). In the tab the peer reads a token or
two in a second: there is only the llama in q4_0, with one sample by each in a browser of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import run, step
from random_models import SHAPES, write
from smollm2 import NAME
from smollm2_cpu import Work, beside_llama, beside_wllama, prompts, table
from texts import book

TYPES, TYPES_IN_TAB = "q4_0,q4_k_m,q5_k_m,q6_k,q8_0,iq4_xs", "q4_0"
LONG = 2000
# Of 49,152 random logits the largest two are often as near as roundings; after a difference all
# tokens differ. Two libraries that compute different things would agree in none.
AGREE = 0.2


def files(types: str, mixture: int, folder: Path) -> Iterator[tuple[str, str, Path]]:
    """(shape, file type, file) of each model; a file is deleted when the next is asked for."""
    llama, experts = SHAPES
    mixtures = [(experts, "q4_k_m")] if mixture else []
    for shape, kind in [*((llama, kind) for kind in types.split(",")), *mixtures]:
        out = folder / f"{kind}.gguf"
        with step(f"write {shape}, {kind}"):
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
    result: dict[str, Any] = {"results": [], "samples": {}, "versions": {}}
    short = [ids for ids, _ in prompts((chosen.rounds or 2) + 1)]
    types, mixture = chosen.types or TYPES, 1 if chosen.mixture is None else chosen.mixture
    with TemporaryDirectory() as folder:
        for shape, kind, file in files(types, mixture, Path(folder)):
            for threads in map(int, chosen.threads.split(",")):
                works = [Work(short, facts={"model": f"{shape}, {kind}"})]
                if chosen.long and kind == "q4_k_m" and threads == 2:
                    # The processes are warm, and a sample takes many seconds.
                    named = {"model": f"{shape}, {kind}, {LONG} tokens"}
                    works.append(Work(long_prompts(chosen.long), 0, named))
                rows, samples, versions = beside_llama(
                    file, works, threads, chosen.linear, agree=AGREE
                )
                result["results"] += rows
                for work, taken in zip(works, samples, strict=True):
                    result["samples"][f"{work.facts['model']}, {threads}"] = taken
                result["versions"] |= versions
    return result


def warmed(given: list[tuple[list[int], str]]) -> list[tuple[list[int], str]]:
    """The prompts; the first, which warms, cut to a few tokens that their text encodes to."""
    import rushlight as rl

    tokenizer: Any = rl.models.load(NAME).tokenizer
    for count in range(8, len(given[0][0])):
        few = given[0][0][:count]
        text = tokenizer.decode(few)
        if tokenizer.encode(text, add_special_tokens=False).ids == few:
            return [(few, text), *given[1:]]
    return given


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both in one page, for each model."""
    result: dict[str, Any] = {"results": [], "samples": {}, "versions": {}}
    contenders, rounds = ["rushlight", "wllama, 1 thread"], chosen.rounds or 1
    types = chosen.types or TYPES_IN_TAB
    with TemporaryDirectory() as folder:
        for shape, kind, file in files(types, chosen.mixture or 0, Path(folder)):
            model = f"{shape}, {kind}"
            rows, result["samples"][model], versions = beside_wllama(
                file,
                warmed(prompts(rounds + 1)),
                contenders,
                chosen.site,
                chosen.linear,
                rounds,
                agree=AGREE,
                model=model,
            )
            result["results"] += rows
            result["versions"] |= versions
    return result


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--types": {"help": f"file types of the llama: {TYPES}; in the tab {TYPES_IN_TAB}"},
        "--mixture": {"type": int, "help": "the mixture of experts: 1 natively, 0 in the tab"},
        "--linear": {"default": "fast", "help": "the mode of linear layers"},
        "--rounds": {"type": int, "help": "samples of each: 2 natively, 1 in the tab"},
        "--long": {"type": int, "default": 1, "help": f"samples of prompts of {LONG} tokens"},
    }
    run("billion", __doc__, {"native": native, "tab": tab}, table, options)
