"""Models of the Hugging Face hub: selecting, downloading and checking a repository's files."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.hub.fetch import FetchError, HashError, Progress

log = logging.getLogger("rushlight")

_WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
# Wanted where there are no safetensors; the last two are Kokoro's.
_PICKLED = ("pytorch_model*.bin", "adapter_model.bin", "kokoro-v*.pth", "voices/*.pt")
_CONFIGS = ("config.json", "onnx/tts.json")  # beside ONNX files; the last one is Supertonic's
# Copies of the weights in other formats; and a language's layers, of which MMS has a thousand.
_OTHERS = ("onnx/*", "openvino/*", "coreml/*", "original/*", "consolidated*", "*.index.fp*.json",
           "adapter.*.safetensors")  # fmt: skip


_INDEX = "model_index.json"  # of a pipeline of diffusers

# (the paths of a repository, its config.json or model_index.json) -> those that are meant.
Select = Callable[[Sequence[str], Mapping[str, Any]], list[str]]


def fetch_repository(
    repository: str,
    revision: str | None = None,
    progress: Progress | None = None,
    onnx: Select | None = None,
    only_onnx: bool = False,
    pipeline: Select | None = None,
) -> Path:
    """The local snapshot of a hub repository; files missing in the cache are downloaded.

    onnx: chooses ONNX files, which are downloaded where there are no other weights, or with
    `only_onnx` in place of them. pipeline: chooses the files of a pipeline of diffusers by its
    model_index.json. `repository` is its id, `revision` its branch, tag or commit.

    Sizes and hashes are checked against those of the revision on the hub. Without a connection a
    snapshot in the cache is used. Raises FetchError, with a hint for a gated or private repository,
    and HashError, which deletes the wrong file.

    `progress(done, total)` counts bytes.
    """
    import huggingface_hub as hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    name = f"{repository}@{revision}" if revision else repository
    try:
        with _readable(name, repository):
            info = hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
    except FetchError as error:
        if error.status is not None:
            raise
        with contextlib.suppress(LocalEntryNotFoundError):
            return Path(hub.snapshot_download(repository, revision=revision, local_files_only=True))
        raise
    files = [f for f in info.siblings or () if _is_wanted(f.rfilename)]
    if only_onnx:
        files = [f for f in files if not f.rfilename.endswith(".safetensors")]
    siblings = info.siblings or ()
    if pipeline is not None and not only_onnx and _INDEX in (f.rfilename for f in siblings):
        chosen = _chosen(hub, repository, revision, name, siblings, _INDEX, pipeline)
        files = [f for f in siblings if f.rfilename in chosen]
    weights = any(f.rfilename.endswith((".safetensors", "_model.bin")) for f in files)
    graphs = [] if weights else _graphs(hub, repository, revision, name, info.siblings or (), onnx)
    if only_onnx and graphs:
        files += graphs
    elif not weights:
        pickled = [
            f
            for f in info.siblings or ()
            if any(fnmatch.fnmatch(f.rfilename, pattern) for pattern in _PICKLED)
        ]
        if not pickled and not graphs:
            there = ", ".join(f.rfilename for f in (info.siblings or ())[:12])
            raise FetchError(f"{name} has neither .safetensors nor {_PICKLED[0]}; it has {there}")
        files += pickled or graphs
    total = sum(f.size or 0 for f in files)
    done, folder = 0, Path()
    for file in files:
        path = _fetched(repository, revision, info.sha, file, _reporter(progress, done, total))
        done += file.size or 0
        if progress is not None:
            progress(done, total)
        folder = path.parents[file.rfilename.count("/")]
    log.info("%s: served by the hub, commit %s", name, info.sha)
    return folder


def fetch_file(
    repository: str,
    names: Sequence[str],
    revision: str | None = None,
    progress: Progress | None = None,
) -> Path | None:
    """The first of some files that a hub repository has; None where it has none of them.

    It is downloaded if the cache has it not, and checked as `fetch_repository` checks files;
    `repository`, `revision`, `progress(done, total)` and the errors that it raises are as there.
    `names` are paths in the repository. Without a connection the cache is asked.
    """
    import huggingface_hub as hub

    try:
        with _readable(repository, repository):
            info = hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
    except FetchError as error:
        if error.status is not None:
            raise
        for name in names:
            cached = hub.try_to_load_from_cache(repository, name, revision=revision)
            if isinstance(cached, str):
                return Path(cached)
        raise
    files = {f.rfilename: f for f in info.siblings or ()}
    file = next((files[name] for name in names if name in files), None)
    if file is None:
        return None
    total = file.size or 0
    path = _fetched(repository, revision, info.sha, file, _reporter(progress, 0, total))
    if progress is not None:
        progress(total, total)
    return path


def _fetched(
    repository: str,
    revision: str | None,
    commit: str | None,
    file: Any,
    tell: Callable[[int], None] | None,
) -> Path:
    """The file of a repository in the cache, downloaded and checked where it was not there."""
    import huggingface_hub as hub

    name = f"{repository}@{revision}" if revision else repository
    cached = hub.try_to_load_from_cache(repository, file.rfilename, revision=commit)
    if isinstance(cached, str):
        return Path(cached)
    with _readable(name, repository):
        options = _bar_options(hub.hf_hub_download, tell)
        # By the revision's name, so that the cache can resolve it without a connection.
        path = Path(hub.hf_hub_download(repository, file.rfilename, revision=revision, **options))
    _check(path, file, name)
    return path


def _graphs(
    hub: Any,
    repository: str,
    revision: str | None,
    name: str,
    siblings: Sequence[Any],
    onnx: Select | None,
) -> list[Any]:
    """The ONNX files of a repository that are meant; [] where it has none."""
    paths = [f.rfilename for f in siblings]
    config = next((path for path in _CONFIGS if path in paths), None)
    if onnx is None or config is None or not any(".onnx" in path for path in paths):
        return []
    chosen = _chosen(hub, repository, revision, name, siblings, config, onnx)
    return [f for f in siblings if f.rfilename in chosen]


def _chosen(
    hub: Any,
    repository: str,
    revision: str | None,
    name: str,
    siblings: Sequence[Any],
    config: str,
    select: Select,
) -> set[str]:
    """The paths of a repository that `select` chooses by one of its small files."""
    with _readable(name, repository):
        place = hub.hf_hub_download(repository, config, revision=revision)
    told = parse_json(Path(place).read_bytes(), config, depth=16)
    paths = [f.rfilename for f in siblings]
    return set(select(paths, told if isinstance(told, dict) else {}))


def _is_wanted(path: str) -> bool:
    def fits(patterns: tuple[str, ...]) -> bool:
        return any(fnmatch.fnmatch(path, p) for p in patterns)

    return fits(_WANTED) and not fits(_OTHERS)


def _check(path: Path, file: Any, name: str) -> None:
    """Delete a downloaded file and raise HashError unless its size and hash are the hub's.

    The hub has a sha256 of large files, and git's blob hash of small ones.
    """
    size = path.stat().st_size
    digest = hashlib.sha256() if file.lfs else hashlib.sha1(b"blob %d\0" % size)
    expected = file.lfs.sha256 if file.lfs else file.blob_id
    with path.open("rb") as data:
        while chunk := data.read(1 << 20):
            digest.update(chunk)
    if expected is None or digest.hexdigest() == expected:
        return
    path.resolve().unlink()
    path.unlink(missing_ok=True)
    raise HashError(
        f"{name}: {digest.name} of the {size} bytes received for {file.rfilename} is "
        f"{digest.hexdigest()}, expected {expected}; nothing was kept"
    )


def _reporter(progress: Progress | None, before: int, total: int) -> Callable[[int], None] | None:
    if progress is None:
        return None
    done = before

    def tell(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total)

    return tell


def _bar_options(function: Any, tell: Callable[[int], None] | None) -> dict[str, Any]:
    """The argument that makes huggingface_hub report to `tell` instead of drawing a bar."""
    if tell is None or "tqdm_class" not in inspect.signature(function).parameters:
        return {}
    from huggingface_hub import utils

    report, base = tell, cast(Any, utils).tqdm

    class Bar(base):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})
            report(int(options.get("initial") or 0))

        def update(self, n: float | None = 1) -> None:
            report(int(n or 0))

    return {"tqdm_class": Bar}


@contextlib.contextmanager
def _readable(name: str, repository: str) -> Iterator[None]:
    """Turn the exceptions of huggingface_hub into FetchError with a hint."""
    from huggingface_hub import errors

    page = f"https://huggingface.co/{repository}"
    login = "set HF_TOKEN to an access token, or run `hf auth login`"
    try:
        yield
    except errors.GatedRepoError as error:
        raise FetchError(
            f"{name} is gated: the hub requires that you accept its terms",
            page,
            _status(error),
            f"accept them at {page}, then {login}",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise FetchError(f"{name}: the repository has no such revision", page, 404) from error
    except errors.RepositoryNotFoundError as error:
        raise FetchError(
            f"{name}: neither a folder here nor a public repository of the hub has that name",
            page,
            _status(error),
            f"check the spelling; if it is private, {login}",
        ) from error
    except Exception as error:  # its versions use two HTTP libraries with different exceptions
        status = _status(error)
        message = f"{name} cannot be fetched from the hub: {str(error).splitlines()[0]:.300}"
        kind = HashError if "Consistency check failed" in message else FetchError
        hint = login if status in {401, 403} else None
        raise kind(message, page, status, hint) from error


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
