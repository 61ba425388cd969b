"""Servers of OpenAI's interface beside each other: tokens per second of 1, 8 and 32 clients.

Start each on the same file with as many threads, as `rushlight serve model.gguf --parallel 32`
and llama.cpp's `llama-server -m model.gguf -np 32 --port 8081`, then run
`python benchmarks/serving.py rushlight=http://127.0.0.1:8080 llama.cpp=http://127.0.0.1:8081`.
Needs httpx. The servers take turns, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

CLIENTS = (1, 8, 32)
TOPIC = "Write a long story about a candle maker and number {}."


def asked(address: str, number: int, tokens: int) -> int:
    """The tokens of one answer."""
    body = {
        "messages": [{"role": "user", "content": TOPIC.format(number)}],
        "max_tokens": tokens,
        "temperature": 0,
    }
    answer = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=600)
    answer.raise_for_status()
    written: int = answer.json()["usage"]["completion_tokens"]
    return written


def rate(address: str, clients: int, tokens: int, first: int) -> float:
    """Tokens per second of so many clients that ask at once; `first` makes prompts new."""
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        jobs = [pool.submit(asked, address, first + i, tokens) for i in range(clients)]
        written = sum(job.result() for job in jobs)
    return written / (time.perf_counter() - began)


def main() -> None:
    """Measure the servers and print a table of the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="+", help="NAME=ADDRESS of each server")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    servers = dict(server.split("=", 1) for server in given.servers)
    for address in servers.values():
        asked(address, 0, 4)  # what is made once
    first = 1
    print("| clients |", " | ".join(f"{name}, tokens/s" for name in servers), "|")
    print("|---" * (len(servers) + 1) + "|")
    for clients in CLIENTS:
        rates: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(given.rounds):
            for name, address in servers.items():
                rates[name].append(rate(address, clients, given.tokens, first))
                first += clients
        medians = (f"{statistics.median(rates[name]):.1f}" for name in servers)
        print(f"| {clients} |", " | ".join(medians), "|")


if __name__ == "__main__":
    main()
