"""Finding the files of a model's weights: folders, and the index of a sharded checkpoint."""

from __future__ import annotations

from pathlib import Path

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.weights.source import open_regular

_MAX_INDEX = 100_000_000


def weights_in(folder: Path) -> Path:
    """The weight file of a model's folder, or the index of its shards.

    model.safetensors, else model.safetensors.index.json, else the only *.safetensors.
    Raises FileNotFoundError that lists the folder's files.
    """
    for name in ("model.safetensors", "model.safetensors.index.json"):
        if (folder / name).exists():
            return folder / name
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return others[0]
    there = ", ".join(p.name for p in others or sorted(folder.iterdir())[:12]) or "nothing"
    raise FileNotFoundError(f"{folder} has no model.safetensors; it has {there}")


def read_index(path: Path) -> dict[str, set[str]]:
    """The shards that an index names, in its order, each with the names of its tensors.

    Raises FormatError for a file that is not an index, for a shard whose name leads out of the
    folder, and for a missing shard.
    """
    if path.stat().st_size > _MAX_INDEX:
        raise FormatError(f"{path} has more than {_MAX_INDEX} bytes: it is not an index")
    with open_regular(path) as file:
        index = parse_json(file.read(), str(path), depth=16)
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not places or not isinstance(places, dict):
        raise FormatError(f"{path} is not an index of shards: it has no weight_map")
    shards: dict[str, set[str]] = {}
    for name, shard in places.items():
        if type(shard) is not str or not _is_file_name(shard):
            raise FormatError(
                f'{path}: tensor "{name}" should be in {shard!r:.100}, which is not the name '
                "of a file beside the index"
            )
        shards.setdefault(shard, set()).add(name)
    for shard in shards:
        if not (path.parent / shard).is_file():
            raise FormatError(f"{path}: the shard {shard} is missing in {path.parent}")
    return shards


def _is_file_name(name: str) -> bool:
    """Whether the name is that of a file: of at most 255 bytes, and in no other folder."""
    size = len(name.encode("utf-8", "surrogatepass"))
    return (
        name.endswith(".safetensors")
        and size <= 255
        and not any(c in "/\\:\0" or "\ud800" <= c <= "\udfff" for c in name)
    )
