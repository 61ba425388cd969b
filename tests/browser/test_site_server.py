"""The site's server: a status for every path, and visitors who send nothing, slowly or too much."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rushlight.site.builder.serve import Handler, Server, make_server

pytestmark = pytest.mark.native

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A site with links out of it, and what they lead to beside it."""
    outside, site = tmp_path / "outside", tmp_path / "site"
    for folder in (outside / "there", site / "sub", site / "page"):
        folder.mkdir(parents=True)
    (outside / "index.html").write_text("secret")
    (site / "site.json").write_text("{}")
    (site / "weights.bin").write_bytes(CONTENT)
    (site / "page" / "index.html").write_text("page")
    (site / "sub" / "index.html").symlink_to(outside / "index.html")
    (site / "out").symlink_to(outside)
    (site / "inner.html").symlink_to(site / "page" / "index.html")
    (site / "loop").symlink_to(site / "loop")
    os.mkfifo(site / "pipe")
    return site


@pytest.fixture
def server(place: Path) -> Iterator[Server]:
    found = make_server(place, 0)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=60)


def ask(server: Server, target: str, *headers: str) -> tuple[int, bytes]:
    """Status and body of a request whose target is sent as it is."""
    lines = [f"GET {target} HTTP/1.1", "Host: x", "Connection: close", *headers]
    with connect(server) as visitor:
        visitor.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b"".join(iter(lambda: visitor.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/page/", 200),
        ("/page", 301),
        ("/inner.html", 200),
        ("/page/../page/", 200),
        ("/sub/", 404),
        ("/sub/index.html", 404),
        ("/out/", 404),
        ("/out", 404),
        ("/out/index.html", 404),
        ("/loop", 404),
        ("/loop/", 404),
        ("/pipe", 404),
        ("/%00", 404),
        ("/a%00/", 404),
        ("/" + "x" * 300, 404),
        ("/" + "x" * 300 + "/", 404),
        ("/%ff%fe", 404),
        ("http://[/", 400),
        ("http://[/page/", 400),
        ("/../outside", 404),
        ("/../nowhere", 404),
        ("/../outside/there", 404),
        ("/%2e%2e/outside/", 404),
        ("/../../../../../../../../etc", 404),
        ("/../../../../../../../../nowhere", 404),
    ],
)
def test_every_path_has_a_status(
    server: Server, capfd: pytest.CaptureFixture[str], target: str, status: int
) -> None:
    found, body = ask(server, target)
    assert found == status and b"secret" not in body
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("span", "status"),
    [
        ("bytes=0-9", 206),
        (f"bytes={'9' * 40}-", 416),
        (f"bytes={'9' * 4301}-", 200),
        (f"bytes=0-{'9' * 40}", 206),
        (f"bytes=0-{'9' * 4301}", 200),
        ("bytes=\u0663-", 200),
    ],
)
def test_a_range_of_any_length(
    server: Server, capfd: pytest.CaptureFixture[str], span: str, status: int
) -> None:
    found, body = ask(server, "/weights.bin", f"Range: {span}")
    assert found == status
    assert CONTENT.startswith(body) or status == 416
    assert "Traceback" not in capfd.readouterr().err


def test_a_visitor_who_sends_nothing_is_let_go(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < Handler.timeout <= 30, "the usual time"
    monkeypatch.setattr(Handler, "timeout", 0.1)
    for begun in (b"", b"GET / HT", b"GET /page/ HTTP/1.1\r\nHost: x\r\n\r\n"):
        with connect(server) as visitor:
            visitor.sendall(begun)
            while visitor.recv(1 << 16):  # the answer, if any, and then the end
                pass


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\nHo", b"GET /weights.bin HTTP/1.1\r\n\r\n"]
)
def test_slow_visitors_do_not_keep_others_out(
    server: Server, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    """Those who send nothing, a part of a request, or take nothing of the answer."""
    assert Server.most <= 128
    monkeypatch.setattr(Server, "most", 4)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            visitor = stack.enter_context(connect(server))
            visitor.sendall(begun)
        assert ask(server, "/page/") == (200, b"page")
        assert len(server._open) <= 4


def test_who_comes_last_is_answered_where_all_others_are_answered(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No connection waits but the new one, which is not the one to go."""
    monkeypatch.setattr(Server, "most", 4)
    begun, go_on = threading.Semaphore(0), threading.Event()
    copy: Callable[..., None] = Handler._copy

    def slow(self: Handler, path: Path, start: int, end: int) -> None:
        if path.name == "weights.bin":
            begun.release()
            assert go_on.wait(60)
        copy(self, path, start, end)

    monkeypatch.setattr(Handler, "_copy", slow)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            visitor = stack.enter_context(connect(server))
            visitor.sendall(b"GET /weights.bin HTTP/1.1\r\nHost: x\r\n\r\n")
        assert all(begun.acquire(timeout=60) for _ in range(4))
        assert ask(server, "/page/") == (200, b"page")
        go_on.set()


def test_who_is_answered_stays(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that goes is the one that has been waiting longest, not one that is answered."""
    monkeypatch.setattr(Server, "most", 4)
    begun, go_on = threading.Event(), threading.Event()
    copy: Callable[..., None] = Handler._copy

    def slow(self: Handler, path: Path, start: int, end: int) -> None:
        if path.name == "weights.bin":
            begun.set()
            assert go_on.wait(60)
        copy(self, path, start, end)

    monkeypatch.setattr(Handler, "_copy", slow)
    with connect(server) as download, contextlib.ExitStack() as stack:
        download.sendall(b"GET /weights.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert begun.wait(60)
        for _ in range(20):
            stack.enter_context(connect(server))
        assert ask(server, "/page/") == (200, b"page")
        go_on.set()
        answer = b"".join(iter(lambda: download.recv(1 << 16), b""))
    assert answer.endswith(CONTENT)


@pytest.mark.parametrize(
    "target",
    ["/\\evil.com/..", "//evil.com/..", "/%5Cevil.com/%2e%2e", "///x/..", "/page/.//../page"],
)
def test_a_redirect_stays_on_the_site(server: Server, target: str) -> None:
    """A folder asked for without its slash is named as it was found, not as it was asked."""
    lines = [f"GET {target} HTTP/1.1", "Host: x", "Connection: close"]
    with connect(server) as visitor:
        visitor.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b"".join(iter(lambda: visitor.recv(1 << 16), b"")).decode()
    found = [row for row in answer.splitlines() if row.startswith("Location:")]
    assert found in (["Location: /"], ["Location: /page/"]), answer
