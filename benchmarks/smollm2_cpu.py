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
from typing import Any, NamedTuple

from measure import HERE, markdown, opened, processor_ms, run, served, step, tell_row
from peers import LLAMA, WEB, WLLAMA, node_path, npm
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
    pairs: list[tuple[list[int], str]] = []
    for start in range(10, len(long) - PROMPT_TOKENS, 5):
        ids = long[start : start + PROMPT_TOKENS]
        text = tokenizer.decode(ids)
        if tokenizer.encode(text, add_special_tokens=False).ids == ids:
            pairs.append((ids, text))
    if len(pairs) < count:
        raise SystemExit(f"there are {len(pairs)} prompts for {count} rounds")
    return pairs[:count]


def agreement(found: dict[str, list[list[int]]], least: float) -> dict[str, float]:
    """The share of greedy tokens before the first difference, for each peer; at least `least`."""
    ours = found["rushlight"]
    shares = {}
    for name, theirs in found.items():
        if name == "rushlight":
            continue
        same = 0
        for a, b in zip(ours, theirs, strict=True):
            same += next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
        shares[name] = same / sum(map(len, ours))
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


class Work(NamedTuple):
    """Prompts of one length, one for each round."""

    prompts: list[list[int]]
    warm: int = 1  # rounds that are dropped
    facts: dict[str, Any] = {}  # noqa: RUF012, which a row begins with


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    from rushlight.models.hub.names import resolve

    (model,) = resolve(NAME).glob("*.gguf")
    result: dict[str, Any] = {"results": [], "samples": {}, "versions": dict(LLAMA)}
    works = [Work([ids for ids, _ in prompts((chosen.rounds or 5) + 1)])]
    for threads in map(int, chosen.threads.split(",")):
        rows, (result["samples"][str(threads)],), versions = beside_llama(
            model, works, threads, chosen.linear, check_exact
        )
        result["results"] += rows
        result["versions"] |= versions
    return result


def check_exact(side: Any) -> None:
    """Stop if Rushlight's tokens in `exact` mode differ from the reference's."""
    first = goldens()["0.ids"].tolist()
    said = side.ask("generate", ids=first, count=8, linear="exact")["ids"]
    if said != goldens()["0.greedy"].tolist()[: len(said)]:
        raise SystemExit(f"tokens differ from the reference's: {said}")


def beside_llama(
    file: Path,
    works: Sequence[Work],
    threads: int,
    linear: str,
    check: Callable[[Any], None] = lambda side: None,
    agree: float = AGREE,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Rows, samples of each work, and versions: a GGUF file's answers beside llama.cpp's.

    The works share a pair of processes, in their order; a row's memory is the peak so far.
    """
    command, env = python_side("python.py", threads)
    script = str(HERE / "sides" / "llama.mjs")
    node = ["node", script, str(threads), str(npm(LLAMA))]
    commands = {
        "rushlight": ([*command, "rushlight"], env),
        "llama.cpp": (node, {"PATH": node_path()}),
    }
    context = max(1024, max(len(ids) for work in works for ids in work.prompts) + NEW_TOKENS)
    results: list[dict[str, Any]] = []
    samples_of_works: list[dict[str, Any]] = []
    with sides(commands) as started:
        ours = started["rushlight"].ask("load", folder=str(file))
        check(started["rushlight"])
        ours["linear"] = started["rushlight"].ask("linear", mode=linear)
        theirs = started["llama.cpp"].ask("load", model=str(file), context=context)
        loads = {"rushlight": ours, "llama.cpp": theirs}
        for work in works:

            def sample(name: str, turn: int, work: Work = work) -> Any:
                mode = {"linear": linear} if name == "rushlight" else {}
                ids = work.prompts[turn + work.warm]
                return started[name].ask("generate", ids=ids, count=NEW_TOKENS, **mode)

            samples = alternate(list(started), sample, len(work.prompts) - work.warm, work.warm)
            samples_of_works.append(samples)
            said = {n: [s["ids"] for s in taken] for n, taken in samples.items()}
            facts = {
                "threads": threads,
                "linear": ours["linear"],
                "agreed": agreement(said, agree),
                **work.facts,
            }
            rows = rows_of(samples, len(work.prompts[0]), **facts)
            for row in rows:
                row["peak_mb"] = {name: side.peak_mb for name, side in started.items()}
                row["added_mb"] = {
                    n: side.peak_mb - loads[n]["before_mb"] for n, side in started.items()
                }
                tell_row(cells(row))
            results += rows
        versions = {
            key: value for side in started.values() for key, value in side.ask("about").items()
        }
    return results, samples_of_works, versions


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/smollm2.js"></script>"""
CONTENDERS = ["rushlight", "wllama, 1 thread", "wllama, 2 threads"]


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """All three in one page, then each in a browser of its own, for its memory."""
    from rushlight.models.hub.names import resolve

    (model,) = resolve(NAME).glob("*.gguf")
    rounds = chosen.rounds or 3
    rows, samples, versions = beside_wllama(
        model, prompts(rounds + 1), CONTENDERS, chosen.site, chosen.linear, rounds
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
    """Rows, samples and versions of a GGUF file's answers to `given`, beside wllama's.

    The contenders take turns in one page; then each has a browser of its own, for its memory. With
    one round each has only the latter, where its sample is taken, too. The first prompt warms.
    """
    folders = {"": site, "node_modules": npm(WEB), "web": HERE / "web", "model.gguf": file}
    generate = "([name, ids, text, count]) => bench.generate(name, ids, text, count)"
    open_ = "([names, linear]) => bench.open(names, linear)"
    about: dict[str, Any] = {}
    peaks: dict[str, float] = {}
    marks: list[float] = []  # seconds that the page's process computed: before, first token, last

    def start(page: Any, names: Sequence[str]) -> None:
        page.wait_for_function("window.bench")
        pid = page_process(page)
        page.expose_function("mark", lambda: marks.append(processor_ms(pid) / 1000))
        with step(f"load {', '.join(names)}"):
            about.update(page.evaluate(open_, [names, linear]))
        about["chromium"] = page.context.browser.version

    def ask(page: Any, name: str, turn: int) -> dict[str, Any]:
        marks.clear()
        answer: dict[str, Any] = page.evaluate(generate, [name, *given[turn + 1], NEW_TOKENS])
        began, first, last = marks
        each = max(len(answer["tokens"]) - 1, 1)
        return {
            **answer,
            "prefill_processor_s": first - began,
            "decode_processor_s": (last - first) / each,
        }

    samples: dict[str, list[dict[str, Any]]] = {}
    with served(PAGE, folders, isolated=True) as address:
        if rounds > 1:
            with opened(address) as page:
                start(page, contenders)
                samples = alternate(contenders, lambda name, turn: ask(page, name, turn), rounds)
        for name in contenders:
            with opened(address) as page:
                start(page, [name])
                ids, text = given[0]
                with step(f"{name}: a warm answer"):
                    page.evaluate(generate, [name, ids, text, NEW_TOKENS if rounds > 1 else 2])
                if rounds == 1:
                    samples |= alternate([name], lambda who, _: ask(page, who, 0), 1, 0)  # noqa: B023
                peaks[name] = renderer_peak()
    agreed = agreement({n: [s["tokens"] for s in taken] for n, taken in samples.items()}, agree)
    facts = {"linear": about["linear"], "agreed": agreed, "peak_mb": peaks, **facts}
    rows = rows_of(samples, len(given[-1][0]), **facts)
    for row in rows:
        tell_row(cells(row))
    return rows, samples, {**about, **WLLAMA}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    by = row["times_by_processor"]
    return [
        *(row[fact] for fact in ("model", "what", "threads", "linear") if fact in row),
        *row["per_s"].values(),
        *row["times"].values(),
        *by.values(),
        *row["peak_mb"].values(),
    ]


def table(result: dict[str, Any]) -> str:
    """Tokens per second, and memory."""
    row = result["results"][0]
    names, peers = list(row["per_s"]), list(row["times"])
    facts = {"model": "model", "what": "tokens per second", "threads": "threads", "linear": "mode"}
    head = [
        *(said for fact, said in facts.items() if fact in row),
        *names,
        *(f"times {name}" for name in peers),
        *(f"times {name} by processor time" for name in row["times_by_processor"]),
        *(f"{name}, peak MB" for name in names),
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--linear": {"default": "fast", "help": "the mode of linear layers"},
        "--rounds": {"type": int, "help": "samples of each: 5 natively, 3 in the tab"},
    }
    run("smollm2_cpu", __doc__, {"native": native, "tab": tab}, table, options)
