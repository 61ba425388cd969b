"""SmolLM2-135M-Instruct (GGUF, Q4_1) on the CPU beside llama.cpp: prompt and answer, tokens/s.

    python benchmarks/smollm2_cpu.py native [--threads 1,2]  beside llama.cpp (node-llama-cpp)
    python benchmarks/smollm2_cpu.py tab [--site DIR]        beside llama.cpp in WebAssembly
                                                             (wllama) on one thread and on two

All run the same file of weights, with prompts of 120 tokens, no two of which begin alike, and 16
new greedy tokens. Rushlight runs `--linear fast`: it rounds activations to 16 bits in blocks of 32
(llama.cpp always rounds to 8). The mode is recorded. Natively the tokens of `exact` mode are first
compared with the reference's. All tokens are compared with each peer's: the share AGREE of them
must come before the first difference. The prompt's time ends with the first new token; the answer's
time is that of the later tokens. Memory is the peak of a process, in the tab that of a page in a
browser of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measure import HERE, markdown, opened, processor_ms, run, served
from peers import LLAMA, WLLAMA, node_path, npm
from smollm2 import NAME, NEW_TOKENS, PROMPT_TOKENS, goldens
from turns import alternate, compared, page_process, python_side, renderer_peak, sides

# The share of greedy tokens before the first difference; rounding decides near ties.
AGREE = 0.6


def prompts(count: int) -> list[tuple[list[int], str]]:
    """Prompts of PROMPT_TOKENS tokens as ids and text. No two begin alike, so none is reused.

    Each text encodes to the same ids, for the peer that accepts only text.
    """
    import rushlight as rl

    tokenizer: Any = rl.models.load(NAME).tokenizer
    long = max((v.tolist() for n, v in goldens().items() if n.endswith(".ids")), key=len)
    found: list[tuple[list[int], str]] = []
    for start in range(10, len(long) - PROMPT_TOKENS, 5):
        ids = long[start : start + PROMPT_TOKENS]
        text = tokenizer.decode(ids)
        if tokenizer.encode(text, add_special_tokens=False).ids == ids:
            found.append((ids, text))
    if len(found) < count:
        raise SystemExit(f"there are {len(found)} prompts for {count} rounds")
    return found[:count]


def agreement(found: dict[str, list[list[int]]], least: float) -> dict[str, float]:
    """The share of greedy tokens before the first difference, for each peer; at least `least`."""
    own = found["rushlight"]
    shares = {}
    for name, theirs in found.items():
        if name == "rushlight":
            continue
        same = 0
        for a, b in zip(own, theirs, strict=True):
            same += next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
        shares[name] = same / sum(map(len, own))
        if not shares[name] >= least:
            raise SystemExit(f"tokens agree with {name}'s for {shares[name]:.0%}, not {least:.0%}")
    return shares


def rows_of(
    samples: dict[str, list[dict[str, Any]]], length: int, **facts: Any
) -> list[dict[str, Any]]:
    """A row for prompts of `length` tokens and one for answers."""
    return [
        {"what": label, **facts, **compared(samples, work, what)}
        for label, what, work in (("prompt", "prefill", length), ("answer", "decode", 1))
    ]


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    from rushlight.core.io.hub.names import resolve

    (model,) = resolve(NAME).glob("*.gguf")
    found: dict[str, Any] = {"results": [], "samples": {}, "versions": dict(LLAMA)}
    given = [ids for ids, _ in prompts(chosen.rounds + 1)]
    for threads in map(int, chosen.threads.split(",")):
        rows, found["samples"][str(threads)], versions = beside_llama(
            model, given, threads, chosen.linear, chosen.rounds, check_exact
        )
        found["results"] += rows
        found["versions"] |= versions
    return found


def check_exact(side: Any) -> None:
    """Stop if Rushlight's tokens in `exact` mode differ from the reference's."""
    first = goldens()["0.ids"].tolist()
    said = side.ask("generate", ids=first, count=8, linear="exact")["ids"]
    if said != goldens()["0.greedy"].tolist()[: len(said)]:
        raise SystemExit(f"tokens differ from the reference's: {said}")


def beside_llama(
    file: Path,
    given: list[list[int]],
    threads: int,
    linear: str,
    rounds: int,
    check: Callable[[Any], None] = lambda side: None,
    agree: float = AGREE,
    **facts: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """Rows, samples and versions of a GGUF file's answers to `given`, beside llama.cpp's."""
    own, env = python_side("python.py", threads)
    script = str(HERE / "sides" / "llama.mjs")
    node = ["node", script, str(threads), str(npm(LLAMA))]
    commands = {"rushlight": ([*own, "rushlight"], env),
                "llama.cpp": (node, {"PATH": node_path()})}  # fmt: skip
    context = max(1024, max(map(len, given)) + NEW_TOKENS)
    with sides(commands) as at:
        ours = at["rushlight"].ask("load", folder=str(file))
        check(at["rushlight"])
        ours["linear"] = at["rushlight"].ask("linear", mode=linear)
        theirs = at["llama.cpp"].ask("load", model=str(file), context=context)
        loads = {"rushlight": ours, "llama.cpp": theirs}

        def sample(name: str, turn: int) -> Any:
            mode = {"linear": linear} if name == "rushlight" else {}
            return at[name].ask("generate", ids=given[turn + 1], count=NEW_TOKENS, **mode)

        samples = alternate(list(at), sample, rounds)
        agreed = agreement({n: [s["ids"] for s in taken] for n, taken in samples.items()}, agree)
        facts = {"threads": threads, "linear": ours["linear"], "agreed": agreed, **facts}
        rows = rows_of(samples, len(given[0]), **facts)
        for row in rows:
            row["peak_mb"] = {name: side.peak_mb for name, side in at.items()}
            row["added_mb"] = {n: side.peak_mb - loads[n]["before_mb"]
                               for n, side in at.items()}  # fmt: skip
            print(line(row), flush=True)
        versions = {key: value for side in at.values() for key, value in side.ask("about").items()}
    return rows, samples, versions


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/smollm2.js"></script>"""
CONTENDERS = ["rushlight", "wllama, 1 thread", "wllama, 2 threads"]


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """All three in one page, then each in a browser of its own, for its memory."""
    from rushlight.core.io.hub.names import resolve

    (model,) = resolve(NAME).glob("*.gguf")
    rows, samples, versions = beside_wllama(
        model, prompts(chosen.rounds + 1), CONTENDERS, chosen.site, chosen.linear, chosen.rounds
    )
    return {"results": rows, "samples": samples, "versions": versions}


def beside_wllama(
    file: Path,
    given: list[tuple[list[int], str]],
    contenders: Sequence[str],
    site: Path,
    linear: str,
    rounds: int,
    agree: float = AGREE,
    **facts: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """Rows, samples and versions of a GGUF file's answers to `given`, beside wllama's."""
    folders = {"": site, "node_modules": npm(WLLAMA), "web": HERE / "web",
               "model.gguf": file}  # fmt: skip
    generate = "([name, ids, text, count]) => bench.generate(name, ids, text, count)"
    open_ = "([names, linear]) => bench.open(names, linear)"
    peaks: dict[str, float] = {}
    marks: list[float] = []  # seconds that the page's process computed: before, first token, last

    def ask(page: Any, name: str, turn: int) -> dict[str, Any]:
        marks.clear()
        found: dict[str, Any] = page.evaluate(generate, [name, *given[turn + 1], NEW_TOKENS])
        began, first, last = marks
        each = max(len(found["tokens"]) - 1, 1)
        return {**found, "prefill_processor_s": first - began,
                "decode_processor_s": (last - first) / each}  # fmt: skip

    with served(PAGE, folders, isolated=True) as address:
        with opened(address) as page:
            page.wait_for_function("window.bench")
            pid = page_process(page)
            page.expose_function("mark", lambda: marks.append(processor_ms(pid) / 1000))
            about = page.evaluate(open_, [contenders, linear])
            samples = alternate(contenders, lambda name, turn: ask(page, name, turn), rounds)
            version = page.context.browser.version
        for name in contenders:
            with opened(address) as page:
                page.wait_for_function("window.bench")
                about |= page.evaluate(open_, [[name], linear])
                page.evaluate(generate, [name, *given[0], NEW_TOKENS])
                peaks[name] = renderer_peak()
    agreed = agreement({n: [s["tokens"] for s in taken] for n, taken in samples.items()}, agree)
    facts = {"linear": about["linear"], "agreed": agreed, "peak_mb": peaks, **facts}
    rows = rows_of(samples, len(given[0][0]), **facts)
    for row in rows:
        print(line(row), flush=True)
    return rows, samples, {**about, **WLLAMA, "chromium": version}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    by = row["times_by_processor"]
    return [*(row[fact] for fact in ("model", "what", "threads", "linear") if fact in row),
            *row["per_s"].values(), *row["times"].values(), *by.values(),
            *row["peak_mb"].values()]  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """A finished row as text."""
    return "  ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in cells(row))


def table(result: dict[str, Any]) -> str:
    """Tokens per second, and memory."""
    row = result["results"][0]
    names, peers = list(row["per_s"]), list(row["times"])
    facts = {"model": "model", "what": "tokens per second", "threads": "threads", "linear": "mode"}
    head = [*(said for fact, said in facts.items() if fact in row), *names,
            *(f"times {name}" for name in peers),
            *(f"times {name} by processor time" for name in row["times_by_processor"]),
            *(f"{name}, peak MB" for name in names)]  # fmt: skip
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--linear": {"default": "fast", "help": "the mode of linear layers"},
        "--rounds": {"type": int, "default": 5, "help": "samples of each"},
    }
    run("smollm2_cpu", __doc__, {"native": native, "tab": tab}, table, options)
