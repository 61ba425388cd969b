"""The gate: a page of another site cannot drive a server on this machine; keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.native

CHAT: Any = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
PATH = "/v1/chat/completions"


def counted(running: Any) -> int:
    return int(running.server.engine.counts["written_tokens"])


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Origin": "https://evil.example"}, "origin_not_allowed"),
        ({"Origin": "null"}, "origin_not_allowed"),
        ({"Host": "evil.example"}, "host_not_allowed"),
        ({"Host": "evil.example:80", "Origin": "http://evil.example:80"}, "host_not_allowed"),
        ({"Host": "127.0.0.1.evil.example"}, "host_not_allowed"),
        ({"Host": ""}, "host_not_allowed"),
        ({"Sec-Fetch-Site": "cross-site"}, "origin_not_allowed"),
        ({"Content-Type": "text/plain"}, "content_type_not_allowed"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "content_type_not_allowed"),
    ],
)
def test_a_page_of_another_site_starts_no_work(
    running: Any, http: httpx.Client, headers: dict[str, str], code: str
) -> None:
    before = counted(running)
    answer = http.post(PATH, json=CHAT, headers=headers)
    assert answer.status_code == 403 and answer.json()["error"]["code"] == code
    assert "access-control-allow-origin" not in answer.headers
    assert counted(running) == before and not running.server.engine.active
    if "Origin" in headers:
        assert http.options(PATH, headers=headers).status_code == 403


def test_names_of_this_machine_are_taken(running: Any, http: httpx.Client) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]"):
        headers = {"Host": f"{host}:{running.port}", "Origin": f"http://{host}:{running.port}"}
        assert http.post(PATH, json=CHAT, headers=headers).status_code == 200


def test_a_key_and_origins_that_are_listed(start: Callable[..., Any], writer: Any) -> None:
    server = start({"tiny": writer}, key="secret", origins=["https://page.example"])
    with httpx.Client(base_url=server.address, timeout=120) as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wröng"}):
            raw = [(k.encode(), v.encode()) for k, v in headers.items()]
            answer = http.post(PATH, json=CHAT, headers=raw)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
        assert http.get("/health").status_code == 200
        assert http.get("/v1/models").status_code == 401
        good = {"Authorization": "Bearer secret"}
        assert http.post(PATH, json=CHAT, headers={**good, "Host": "any.name"}).status_code == 200
        assert http.get("/v1/models", headers={"x-api-key": "secret"}).status_code == 200
        page = {"Origin": "https://page.example"}
        wanted = {"Access-Control-Request-Headers": "authorization,x-stainless-lang"}
        asked = http.options(PATH, headers=page | wanted)  # a browser asks first, without the key
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-headers"] == "authorization,x-stainless-lang"
        answer = http.post(PATH, json=CHAT, headers=good | page)
        for found in (asked, answer):
            assert found.headers["access-control-allow-origin"] == "https://page.example"
        other = {"Origin": "https://other.example"}
        assert http.post(PATH, json=CHAT, headers=good | other).status_code == 403
    server.stop()
