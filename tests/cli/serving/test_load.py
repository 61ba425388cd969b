"""Many clients at once, some of which go away: answers are those of single runs, none is lost."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from rushlight.cli.serving.held import Limits
from rushlight.models.generation.steps import Token

pytestmark = pytest.mark.native

CLIENTS, TURNS, TOKENS = 64, 1, 20


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def streamed(http: httpx.Client, body: Any, most: int | None = None) -> str:
    """The text of a streamed answer; the client goes away after `most` events."""
    text = ""
    with http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        for count, line in enumerate(line for line in answer.iter_lines() if line):
            if count == most:
                return text
            if line != "data: [DONE]":
                chunk = json.loads(line.removeprefix("data: "))
                text += "".join(c["delta"].get("content") or "" for c in chunk["choices"])
    assert line == "data: [DONE]"
    return text


def test_every_answer_is_that_of_a_single_run(running: Any) -> None:
    model = running.server.models[0].model
    words = [f"client {i} turn {j}" for i in range(CLIENTS) for j in range(TURNS)]
    asked: list[Any] = [
        {"messages": [{"role": "user", "content": text}], "max_tokens": TOKENS,
         "temperature": 0.9 * (i % 2), "seed": i}
        for i, text in enumerate(words)
    ]  # fmt: skip
    singles = [
        "".join(model.chat(b["messages"], max_new_tokens=TOKENS, temperature=b["temperature"],
                           seed=b["seed"]))
        for b in asked
    ]  # fmt: skip

    def client(i: int) -> None:
        draw = random.Random(i)
        with httpx.Client(base_url=running.address, timeout=300) as http:
            for j in range(TURNS):
                n = i * TURNS + j
                if draw.random() < 0.2:
                    streamed(http, asked[n], draw.randrange(1, 6))
                elif draw.random() < 0.5:
                    assert streamed(http, asked[n]).strip() == singles[n].strip()
                else:
                    answer = http.post("/v1/chat/completions", json=asked[n]).json()
                    assert answer["choices"][0]["message"]["content"].strip() == singles[n].strip()

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    engine = running.server.engine
    until(lambda: not engine.active and not engine.waiting)
    caches = running.server.models[0].caches
    assert caches.nbytes <= caches.most_bytes


@pytest.fixture
def gated(start: Callable[..., Any], writer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server whose model writes a token when it is let to: (server, let, tokens it wrote)."""
    let, wrote = threading.Semaphore(0), [0]

    def steps(prompt: Any, **options: Any) -> Iterator[Token]:
        for count in range(1, options["max_new_tokens"] + 1):
            assert let.acquire(timeout=120)
            wrote[0] += 1
            yield Token(70, "g", -1.0, "length" if count == options["max_new_tokens"] else "")

    monkeypatch.setattr(writer, "steps", steps)
    monkeypatch.setattr(writer, "alone", lambda ids: True)
    server = start({"tiny": writer}, Limits(parallel=2, waiting=2))
    yield server, let, wrote
    let.release(10_000)
    server.stop()


ASK: Any = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 100}


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_stops_its_answer_within_a_token(gated: Any, stream: bool) -> None:
    server, let, wrote = gated
    engine = server.server.engine
    if stream:
        with (
            ThreadPoolExecutor(1) as pool,
            httpx.Client(base_url=server.address, timeout=120) as http,
        ):
            asked = pool.submit(streamed, http, ASK, 3)
            until(lambda: bool(engine.active))
            (job,) = engine.active
            let.release(5)
            asked.result()
    else:
        waiting = HTTPConnection("127.0.0.1", server.port, timeout=120)
        headers = {"Content-Type": "application/json"}
        waiting.request("POST", "/v1/chat/completions", json.dumps(ASK), headers)
        until(lambda: bool(engine.active))
        (job,) = engine.active
        let.release(5)
        until(lambda: wrote[0] == 5)
        waiting.close()
    until(lambda: job.cancelled)
    before = wrote[0]
    let.release(50)
    until(lambda: not engine.active)
    assert before <= 5 and wrote[0] - before <= 1


def test_the_queue_is_bounded_and_fair(gated: Any) -> None:
    server, let, _ = gated
    engine = server.server.engine
    with ThreadPoolExecutor(4) as pool, httpx.Client(base_url=server.address, timeout=120) as http:

        def post() -> Any:
            return pool.submit(http.post, "/v1/chat/completions", json=ASK)

        def two_are_active() -> bool:
            if engine.waiting and not let._value:
                let.release()  # else the first one's next token keeps the second waiting
            return len(engine.active) == 2

        asked = [post()]
        until(lambda: bool(engine.active))
        asked += [post()]
        until(two_are_active)
        asked += [post(), post()]
        until(lambda: engine.waiting == 2)
        refused = http.post("/v1/chat/completions", json=ASK)
        assert refused.status_code == 503 and refused.headers["retry-after"]
        assert refused.json()["error"]["code"] == "queue_full"
        assert "llamacpp:requests_deferred 2" in http.get("/metrics").text
        assert sum(slot["is_processing"] for slot in http.get("/slots").json()) == 2
        let.release(1000)
        assert [a.result().status_code for a in asked] == [200] * 4


def test_a_request_whose_time_is_over_keeps_what_was_written(gated: Any) -> None:
    server, let, _ = gated
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=server.address, timeout=120) as http:
        asked = pool.submit(http.post, "/v1/chat/completions", json=ASK)
        until(lambda: bool(server.server.engine.active))
        (job,) = server.server.engine.active
        let.release(3)
        until(lambda: job.facts.get("written") == 3)
        job.until = 0.0
        let.release()
        (choice,) = asked.result().json()["choices"]
        assert choice["finish_reason"] == "length" and choice["message"]["content"].strip("g") == ""
        assert len(choice["message"]["content"]) in (3, 4)


def test_a_server_that_stops_ends_what_is_written(gated: Any) -> None:
    server, let, _ = gated
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=server.address, timeout=120) as http:
        let.release(2)
        asked = pool.submit(streamed, http, {**ASK, "max_tokens": 4})
        until(lambda: bool(server.server.engine.active))
        server.uvicorn.should_exit = True
        let.release(2)
        assert asked.result() == "gggg"
        server.thread.join(120)
        assert not server.server.engine.is_alive()
