"""Downloads over HTTP: one file, or a span of one, with resume, hash check and progress."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import importlib
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

try:  # absent on Windows and in the tab: there downloads take no lock
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

Progress = Callable[[int, int | None], None]
Digest = tuple[str, str]  # the kind of hash, and its value in hexadecimal

READ_TIMEOUT = 30.0  # seconds without a byte before a connection counts as broken
BACKOFF = (0.5, 1.0, 2.0)  # seconds between attempts at a server that answered and then failed
_CHUNK = 1 << 18
_HEALTHY = 1 << 20  # an attempt that brings this many bytes does not count as a failure
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


class FetchError(OSError):
    """A download failed.

    `url` is the requested address, `status` the HTTP status or None. `hint` says how to fix the
    error; it is part of the message.
    """

    def __init__(
        self, message: str, url: str = "", status: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        self.url = url
        self.status = status
        self.hint = hint


class HashError(FetchError):
    """The received bytes have another size or hash than expected. They are deleted."""


class NoRangeError(Exception):
    """The server ignored a Range header and sent the whole file."""


class _CutError(Exception):
    """The connection broke; another attempt may succeed."""


def cache_dir() -> Path:
    """The cache folder: $RUSHLIGHT_CACHE, $XDG_CACHE_HOME/rushlight or ~/.cache/rushlight."""
    if folder := os.environ.get("RUSHLIGHT_CACHE"):
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rushlight"


def file_hash(path: Path, kind: str = "sha256") -> str:
    """The hash of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def is_there(dest: Path, sha256: str | None) -> bool:
    """Whether the file `dest` exists and has that hash, if one is given."""
    return dest.is_file() and (sha256 is None or file_hash(dest) == sha256.lower())


def download(
    url: str,
    dest: Path,
    *,
    sha256: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    resume: bool = True,
    timeout: float = 5.0,
) -> None:
    """Fetch `url` to the file `dest`, which appears once it is complete and its hash is right.

    The bytes gather in `dest` + ".part". If `sha256` can check the joined file, a broken download
    resumes where it broke, and so does the part that an earlier call left (`resume`). If the server
    ignores Range, the download starts over. `timeout` is for connecting, in seconds. `progress`
    gets (bytes so far, total bytes or None). A `dest` with the right hash is not downloaded again.
    Raises FetchError, and HashError for a wrong size or hash.
    """
    digest = None if sha256 is None else ("sha256", sha256.lower())
    with alone_in(dest.parent):
        fetch_file(url, dest, digest, size, progress, resume=resume, timeout=timeout)


def fetch_file(
    url: str,
    dest: Path,
    digest: Digest | None,
    size: int | None,
    progress: Progress | None,
    *,
    resume: bool = True,
    timeout: float,
) -> None:
    """download() with any kind of hash, for a caller that holds the folder's lock.

    `url` is read into `dest`; `digest` is the kind and the hash, `size` the bytes expected, None
    for unknown ones; `progress(done, total)`; `resume`: a part that is there is gone on with;
    `timeout` in seconds. Raises FetchError and HashError.
    """
    for place in (dest, part_of(dest)):
        if place.is_dir():
            raise FetchError(
                f"{place} is a folder, where {shown(url)} is to be kept; remove it", url
            )
    if digest and dest.exists() and file_hash(dest, digest[0]) == digest[1]:
        return
    part_file = part_of(dest)
    if digest is None or not resume:
        part_file.unlink(missing_ok=True)
    resumed = part_file.exists()
    pull(url, part_file, None, size, progress, timeout, keep=digest is not None)
    try:
        check(part_file, digest, url)
    except HashError:
        if not resumed:
            raise
        # The part was damaged or of another file. The server may still have the right file.
        pull(url, part_file, None, size, progress, timeout, keep=True)
        check(part_file, digest, url)
    part_file.replace(dest)


def part_of(dest: Path) -> Path:
    """The file in which the bytes of `dest` gather until they are complete and checked."""
    return dest.with_name(dest.name + ".part")


def check(part: Path, digest: Digest | None, url: str) -> None:
    """Delete `part` and raise HashError unless its hash is the expected one.

    `digest` is the kind and the hash, None for unknown; `url` is in the message.
    """
    if digest is None or (actual := file_hash(part, digest[0])) == digest[1]:
        return
    size = part.stat().st_size
    part.unlink()
    raise HashError(
        f"{shown(url)}: {digest[0]} of the {size} bytes received is {actual}, "
        f"expected {digest[1]}; nothing was kept",
        url,
    )


def pull(
    url: str,
    part: Path,
    span: tuple[int, int] | None,
    size: int | None,
    progress: Progress | None,
    timeout: float,
    *,
    keep: bool,
) -> None:
    """Complete the file `part` to the bytes [start, stop) of `url`, or to all of them.

    After a broken connection the server is asked again; with `keep` only for the missing bytes. A
    server that cannot be reached is an error at once, so that a caller can try its next source.
    Raises FetchError, and NoRangeError if the server sent the whole file instead of a span.

    `size` is the bytes expected or None; `progress(done, total)`; `timeout` in seconds.
    """
    failures, answered = 0, False
    while True:
        before = part.stat().st_size if keep and part.exists() else 0
        try:
            _attempt(url, part, before, span, size, progress, timeout)
            return
        except _CutError as cut:
            error, answered = FetchError(f"{shown(url)}: {cut}", url), True
        except FetchError as refused:
            error, answered = refused, answered or refused.status is not None
            if not answered or (refused.status or 503) not in _TRANSIENT:
                raise
        if part.exists() and part.stat().st_size - before >= _HEALTHY:
            failures = 0
        if failures == len(BACKOFF):
            if not keep:
                part.unlink(missing_ok=True)
            raise error
        time.sleep(BACKOFF[failures])
        failures += 1


def _attempt(
    url: str,
    part: Path,
    have: int,
    span: tuple[int, int] | None,
    size: int | None,
    progress: Progress | None,
    timeout: float,
) -> None:
    """One attempt of pull(): request the bytes after the `have` bytes of `part`; append them."""
    start, stop = span or (0, None)
    size = size if stop is None else stop - start
    if have and have == size:
        return
    if size is not None and have > size:
        have = 0
    first = start + have
    try:
        response = open_url(url, timeout, span=(first, stop) if first or span else None)
    except FetchError as error:
        if error.status != 416 or not have:
            raise
        part.unlink()  # longer than the file on the server: a part of another file
        raise _CutError("the file on the server has changed") from None
    with response:
        total = size
        if response.status == 206:
            begin, file_size = content_range(response, url)
            if begin != first:
                raise FetchError(f"{shown(url)}: asked for byte {first}, got byte {begin}", url)
            total = file_size if span is None else size
        elif span is not None:
            raise NoRangeError
        else:
            have, length = 0, response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else size
        if size is not None and total != size:
            part.unlink(missing_ok=True)
            raise HashError(f"{shown(url)} has {total} bytes, expected {size}", url)
        have = _append(response, part, have, total, progress)
    if total is not None and have < total:
        raise _CutError(f"the connection broke after {have} of {total} bytes")


def _append(
    response: http.client.HTTPResponse,
    part: Path,
    have: int,
    total: int | None,
    progress: Progress | None,
) -> int:
    """Append the body after the first `have` bytes of `part`; return the new size."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("r+b" if part.exists() else "wb") as file:
        file.truncate(have)
        file.seek(have)
        while data := _read(response):
            have += len(data)
            if total is not None and have > total:
                file.truncate(0)
                raise HashError(f"{shown(response.url)} sent more than {total} bytes", response.url)
            file.write(data)
            if progress is not None:
                progress(have, total)
    return have


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(f"the connection broke: {_reason(error)}") from None


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock `folder`, so that other processes wait and then find the files."""
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# --- requests ---------------------------------------------------------------------------------


class _Http(http.client.HTTPConnection):
    """A connection whose timeout applies to connecting; READ_TIMEOUT applies to reading."""

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(READ_TIMEOUT)


class _Https(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(READ_TIMEOUT)


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_Http, request)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_Https, request, context=_certificates())


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not context.get_ca_certs() and not os.environ.get("SSL_CERT_DIR"):
        with contextlib.suppress(ImportError):  # a Python without the system's certificates
            context.load_verify_locations(importlib.import_module("certifi").where())
    return context


def open_url(
    url: str, timeout: float, *, span: tuple[int, int | None] | None = None, accept: str = "*/*"
) -> http.client.HTTPResponse:
    """Request `url`, or its bytes [start, stop). Raises FetchError for any failure.

    `timeout` in seconds; `span` is (start, stop), None for the end; `accept` the media type asked
    for.
    """
    bare, login = _split_login(url)
    if not bare.startswith(("http://", "https://")):
        raise FetchError(f"{bare}: the scheme is not supported; supported: http, https", url)
    headers = {"User-Agent": "rushlight", "Accept": accept, "Accept-Encoding": "identity"}
    if span is not None:
        headers["Range"] = f"bytes={span[0]}-{'' if span[1] is None else span[1] - 1}"
    request = urllib.request.Request(bare, headers=headers)
    if login:  # not sent to the host of a redirect
        request.add_unredirected_header("Authorization", login)
    opener = urllib.request.build_opener(_HttpHandler, _HttpsHandler)
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            hint = " (a login is needed)" if error.code in {401, 403} else ""
            message = f"{bare}: the server answered {error.code} {error.reason}{hint}"
            raise FetchError(message, url, error.code) from None
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(f"{bare}: cannot connect: {_reason(error)}", url) from None
    return response


def read_whole(response: http.client.HTTPResponse) -> bytes:
    """The body of a small response. Raises FetchError if the connection breaks."""
    try:
        return response.read()
    except (OSError, http.client.HTTPException) as error:
        message = f"{shown(response.url)}: the connection broke: {_reason(error)}"
        raise FetchError(message, response.url) from None


def content_range(response: http.client.HTTPResponse, url: str) -> tuple[int, int | None]:
    """The first byte of a partial response, and the size of the whole file or None."""
    header = response.headers.get("Content-Range", "")
    told = re.match(r"bytes (\d+)-\d+/(\d+|\*)", header)
    if told is None:
        raise FetchError(f"{shown(url)}: the server's Content-Range is {header!r}", url)
    return int(told[1]), None if told[2] == "*" else int(told[2])


def shown(url: str) -> str:
    """`url` without user name and password, for messages."""
    return _split_login(url)[0]


def _split_login(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    if "@" not in parts.netloc:
        return url, ""
    login, _, host = parts.netloc.rpartition("@")
    token = base64.b64encode(urllib.parse.unquote(login).encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {token}"


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.URLError):
        error = error.reason if isinstance(error.reason, Exception) else error
    if isinstance(error, TimeoutError):
        return "timeout"
    return str(error) or type(error).__name__
