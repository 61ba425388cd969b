"""A static server on loopback for a built site, with ranges, validators and content types."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import posixpath
import re
import socket
import sys
import threading
import urllib.parse
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rushlight.site.builder.pages import SiteError

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".wasm": "application/wasm",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".ts": "text/plain; charset=utf-8",
    ".zip": "application/zip",
}
_STEP = 1 << 18


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the files below `root`.

    timeout: seconds after which a connection that sends nothing is closed. stalled: the same for
    one that takes nothing of an answer; a page may be busy meanwhile.
    """

    root: Path
    protocol_version = "HTTP/1.1"
    server_version = "rushlight"
    timeout = 20
    stalled = 120

    def do_GET(self) -> None:
        """Send a file, or the requested range of it."""
        self._send(body=True)

    def do_HEAD(self) -> None:
        """Send a file's headers."""
        self._send(body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because the terminal shows the address."""

    def handle_one_request(self) -> None:
        """Wait for a request and answer it."""
        server: Any = self.server
        server.note(self.connection, waiting=True)
        self.connection.settimeout(self.timeout)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read a request's headers, with which the waiting ends."""
        read = super().parse_request()
        server: Any = self.server
        server.note(self.connection, waiting=False)
        self.connection.settimeout(self.stalled)
        return read

    def locate(self, path: str) -> Path | None:
        """The file or folder that a path of the site names; None for what is not below `root`."""
        inner = posixpath.normpath(path).lstrip("/")
        try:
            target = (self.root / inner).resolve()
            inside = target.is_relative_to(self.root.resolve())
            return target if inside and (target.is_file() or target.is_dir()) else None
        except (OSError, ValueError, RuntimeError):  # a name that no file can have, a loop of links
            return None

    def _send(self, *, body: bool) -> None:
        try:
            quoted = urllib.parse.urlsplit(self.path).path
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, {"Content-Type": "text/plain"}, b"no URL\n", body)
            return
        name = urllib.parse.unquote(quoted)
        path = self.locate(name)
        if path is not None and path.is_dir():
            if not name.endswith("/"):
                # The path as it was found: as it was asked it may name another host.
                inner = posixpath.normpath(f"/{name.lstrip('/')}").lstrip("/")
                place = f"/{urllib.parse.quote(inner)}/" if inner else "/"
                self._answer(HTTPStatus.MOVED_PERMANENTLY, {"Location": place})
                return
            path = self.locate(f"{name}index.html")
        if path is None or not path.is_file():
            self._answer(HTTPStatus.NOT_FOUND, {"Content-Type": "text/plain"}, b"not found\n", body)
            return
        stat = path.stat()
        etag = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
        headers = {
            "Content-Type": TYPES.get(path.suffix, "application/octet-stream"),
            "Last-Modified": formatdate(stat.st_mtime, usegmt=True),
            "ETag": etag,
            "Accept-Ranges": "bytes",
            "Cache-Control": "no-cache",  # revalidate each time, so that a rebuilt site is seen
        }
        if self.headers.get("If-None-Match") == etag:
            self._answer(HTTPStatus.NOT_MODIFIED, headers)
            return
        start, end, status = 0, stat.st_size, HTTPStatus.OK
        # Longer numbers lie past the end of every file; Python does not even read the longest.
        wanted = re.fullmatch(r"bytes=(\d{1,40})-(\d{0,40})", self.headers.get("Range", ""), re.A)
        if wanted and self.headers.get("If-Range", etag) == etag:
            start = int(wanted[1])
            end = min(end, int(wanted[2]) + 1) if wanted[2] else end
            if start >= end:
                headers["Content-Range"] = f"bytes */{stat.st_size}"
                self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
                return
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{stat.st_size}"
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(end - start)}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self._copy(path, start, end)

    def _copy(self, path: Path, start: int, end: int) -> None:
        with path.open("rb") as file:
            file.seek(start)
            while start < end and (content := file.read(min(_STEP, end - start))):
                self.wfile.write(content)
                start += len(content)

    def _answer(
        self, status: HTTPStatus, headers: dict[str, str], content: bytes = b"", body: bool = True
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


class Server(ThreadingHTTPServer):
    """A server with one thread per connection. It does not wait for open connections at its end.

    most: connections at a time. One more closes the one that has been waiting for a request
    longest, or if none is waiting, the one that has been answered longest: slow visitors do not
    keep others out.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    most = 64

    def __init__(self, *args: Any) -> None:
        self._lock = threading.Lock()
        # Whether each connection waits for a request; the last to change is the last.
        self._open: dict[socket.socket, bool] = {}
        super().__init__(*args)

    def note(self, connection: socket.socket, *, waiting: bool) -> None:
        """Note that an open connection waits for a request, or is being answered, from now on."""
        with self._lock:
            if self._open.pop(connection, None) is not None:  # one that was closed stays closed
                self._open[connection] = waiting

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, and close another if there are too many."""
        with self._lock:
            if len(self._open) >= self.most:
                oldest = min(self._open, key=lambda connection: not self._open[connection])
                del self._open[oldest]
                with contextlib.suppress(OSError):  # its visitor was faster
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = True
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection and close it."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Report a failed request, unless the visitor closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        """The address to open."""
        return f"http://127.0.0.1:{self.server_port}/"


def make_server(folder: Path, port: int, tries: int = 20) -> Server:
    """A server of `folder` on loopback, on `port` or the next free one; 0 means any free port.

    Raises SiteError if the folder is not a built site, or if no port is free.

    `tries` ports are tried.
    """
    if not (folder / "site.json").is_file():
        raise SiteError(f"{folder} is not a built site", hint="Run: rushlight site build")
    handler = type("SiteHandler", (Handler,), {"root": folder})
    for number in range(port, port + tries) if port else [0]:
        try:
            return Server(("127.0.0.1", number), handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise SiteError(f"no free port from {port} to {port + tries - 1}", hint="Give another --port.")


def check(server: Server, folder: Path) -> int:
    """Download the pages, the runtime and each model from the running server; returns the bytes.

    Raises SiteError naming the first file that did not arrive complete.
    """
    runtime = json.loads((folder / "rushlight" / "runtime.json").read_text(encoding="utf-8"))
    about = json.loads((folder / "site.json").read_text(encoding="utf-8"))
    wanted = [*(f"rushlight/{row['path']}" for row in runtime["files"]), *about["pages"]]
    for model in json.loads((folder / "models" / "index.json").read_text(encoding="utf-8")):
        place = f"models/{model['name']}"
        manifest = json.loads((folder / place / "manifest.json").read_text(encoding="utf-8"))
        rows = [row for file in manifest["files"] for row in file.get("parts", [file])]
        wanted += [f"{place}/{row['path']}" for row in rows]
    total = 0
    for name in wanted:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        connection.request("GET", "/" + urllib.parse.quote(name))
        answer = connection.getresponse()
        size = 0
        while piece := answer.read(_STEP):
            size += len(piece)
        connection.close()
        path = folder / name
        file = path / "index.html" if path.is_dir() else path
        complete = file.is_file() and size == file.stat().st_size
        if answer.status != HTTPStatus.OK or not complete:
            raise SiteError(
                f"{server.address}{name}: status {answer.status}, {size} bytes: incomplete",
                hint="Build the site again: rushlight site build",
            )
        total += size
    return total
