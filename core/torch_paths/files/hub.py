"""torch.hub: checkpoints by their address. Code of others is neither fetched nor run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rushlight.core import io
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.fetch import http
from rushlight.core.settings.standins import refuse_all

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

_folder: dict[str, str] = {}
_HASH = re.compile(r"-([a-f0-9]+)\.")


def get_dir() -> str:
    """Where files are kept: what `set_dir` was given, $TORCH_HOME/hub, or a folder of the cache."""
    if "hub" in _folder:
        return _folder["hub"]
    home = os.environ.get("TORCH_HOME")
    return str((Path(home) if home else http.cache_dir() / "torch") / "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep files in this folder."""
    _folder["hub"] = os.path.expanduser(d)


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch a file. FormatError if its SHA-256 does not begin with hash_prefix."""
    fetched = Path(f"{os.fspath(dst)}.fetched")
    http.download(url, fetched)
    try:
        digest = http.file_hash(fetched)
        if hash_prefix and not digest.startswith(hash_prefix):
            raise FormatError(
                f"download_url_to_file: the SHA-256 of {url} is {digest}; it should "
                f"begin with {hash_prefix}"
            )
        fetched.replace(dst)
    finally:
        fetched.unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What the file at this address holds, as `rl.load` reads it; kept for the next time.

    check_hash: the file's name ends in a dash and the first digits of its SHA-256.
    """
    name = file_name or Path(urlsplit(url).path).name
    cached = Path(model_dir or Path(get_dir()) / "checkpoints") / name
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        said = _HASH.search(name) if check_hash else None
        download_url_to_file(url, cached, said and said.group(1), progress)
    return io.load(cached, map_location=map_location)


load_url = load_state_dict_from_url

globals().update(
    refuse_all(
        "hub",
        "load list help",
        "code of others is neither fetched nor run; load a model with rl.models.load(name) or "
        "rl.pipeline, a checkpoint with rl.hub.load_state_dict_from_url",
    )
)
