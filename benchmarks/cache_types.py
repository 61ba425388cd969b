"""The cache's dtypes on SmolLM2-135M: how far predictions move, and how much memory it takes.

    python benchmarks/cache_types.py [--windows 8] [--tokens 4096]

Windows of 512 tokens of Alice in Wonderland, the second half of each counted. The divergence is
that from a float32 cache. The memory is that of one conversation of --tokens tokens: what the cache
holds, and what it adds to the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from measure import high_water, markdown, run, step, tell_row
from texts import book

NAME, CONTEXT = "smollm2-135m-instruct", 512


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """A row for each dtype."""
    import dataclasses

    from rushlight import models
    from rushlight.models.generation.sampling import CACHE_TYPES
    from rushlight.models.perplexity import perplexity

    model: Any = models.load(NAME)
    ids = model.prompt_ids(book("alice29.txt"))[: chosen.windows * CONTEXT]
    rows = []
    for dtype in CACHE_TYPES:
        base = None if dtype == "float32" else model
        with step(f"{dtype}: perplexity"):
            figures = perplexity(model, ids, context=CONTEXT, base=base, cache_type=dtype)
        command = [sys.executable, __file__, "--fill", dtype, "--tokens", str(chosen.tokens)]
        with step(f"{dtype}: a conversation"):
            filled = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append({"dtype": dtype, **dataclasses.asdict(figures), **json.loads(filled.stdout)})
        tell_row(cells(rows[-1]))
    return {"results": rows, "tokens": chosen.tokens}


def fill(dtype: str, tokens: int) -> None:
    """Read `tokens` tokens into a cache and print its size and what the peak memory grew by."""
    import rushlight as rl

    model: Any = rl.models.load(NAME)
    ids = model.prompt_ids(book("alice29.txt"))[:tokens]

    def read(cache: Any, count: int) -> None:
        with rl.no_grad(), rl.linear_mode("fast"):
            for start in range(0, count, 128):
                model(rl.tensor([ids[start : start + 128]]), cache, logits_to_keep=1)

    read(model.new_cache(1, dtype), 256)  # the weights are in memory now
    before = high_water()
    cache = model.new_cache(1, dtype)
    read(cache, len(ids))
    print(json.dumps({"cache_mb": cache.nbytes / 2**20, "added_mb": high_water() - before}))


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    apart = ("", "") if row["kl"] is None else (f"{row['kl']:.1e}", f"{row['same_top']:.2%}")
    return [row["dtype"], f"{row['perplexity']:.3f}", *apart, row["cache_mb"], row["added_mb"]]


def table(result: dict[str, Any]) -> str:
    """Divergence and memory by dtype."""
    of_tokens = f"of {result['tokens']} tokens"
    head = [
        "cache",
        "perplexity",
        "KL from float32, nats",
        "same likeliest token",
        f"MB {of_tokens}",
        "MB added to the peak",
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    if "--fill" in sys.argv:
        fill(sys.argv[2], int(sys.argv[4]))
    else:
        options: dict[str, dict[str, Any]] = {
            "--windows": {"type": int, "default": 8, "help": "windows of 512 tokens"},
            "--tokens": {"type": int, "default": 4096, "help": "tokens of the conversation"},
        }
        run("cache_types", __doc__, {"native": measure}, table, options)
