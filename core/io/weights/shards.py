"""Finding the files of a model's weights: folders, the index of shards, parts of a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.weights.source import open_regular

_MOST_VALUES = 1 << 26  # bytes in memory, beside twice the file's: 350,000 tensors
_MAX_INDEX = 100_000_000


# Files of one checkpoint and the endings of others, in the order in which they are preferred.
_WHOLE = ("model.safetensors", "pytorch_model.bin")
_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".npz")
# What trainers write beside a model, and Marian's shortlists: no weights of it.
_OTHERS = re.compile(
    r"(training_args|(optimizer|scheduler|optim|rng_state|random_states|scaler|lex\.).*"
    r"|adapter_model|adapter)\.(bin|pt|pth|safetensors|npz)"
)
# A file of the same weights in another dtype, the one with the most bits first.
_VARIANT = re.compile(r"(.+)\.(fp32|bf16|fp16)(\.\w+)")
_DTYPES = ("fp32", "bf16", "fp16")
_MOST_PARTS = 4096
_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE | re.DOTALL)


def split_parts(name: str) -> list[str]:
    """The paths of all parts of the split file that `name` is a part of; else `name` alone.

    llama.cpp calls them NAME-00001-of-00003.gguf and so on. At most 4096 parts are supported.
    """
    match = _SPLIT.fullmatch(name)
    if match is None or not 1 <= int(match[2]) <= int(match[3]) <= _MOST_PARTS:
        return [name]
    return [f"{match[1]}-{n:05}-of-{match[3]}{match[4]}" for n in range(1, int(match[3]) + 1)]


def weights_in(folder: Path) -> Path:
    """The weight file of a model's folder, or the index of its shards.

    model.safetensors, else its index, else the only *.safetensors; then in the same way files of
    PyTorch and NumPy: pytorch_model.bin, its index, the only *.bin, *.pt, *.pth or *.npz. Adapters
    and states of optimizers are none; of X.fp16 and X.fp32 the latter is taken, and X before both.
    Raises FileNotFoundError that lists the folder's files.
    """
    names = sorted(path.name for path in folder.iterdir())
    for usual in _WHOLE:
        ending = Path(usual).suffix
        chosen = [name for name in (usual, f"{usual}.index.json") if name in names]
        others = _plainest(n for n in names if n.endswith(ending) and not _OTHERS.fullmatch(n))
        if chosen or len(others) == 1:
            return folder / (chosen or others)[0]
        if others:
            break
    else:
        others = _plainest(n for n in names if n.endswith(_ENDINGS) and not _OTHERS.fullmatch(n))
        if len(others) == 1:
            return folder / others[0]
    listed = ", ".join(others or names[:12]) or "nothing"
    raise FileNotFoundError(f"{folder} has no model.safetensors; it has {listed}")


def _plainest(names: Iterable[str]) -> list[str]:
    """The names without variants in other dtypes of a file that is there too."""
    plain = list(names)
    for name in list(plain):
        variant = _VARIANT.fullmatch(name)
        if variant is None:
            continue
        better = [f"{variant[1]}{variant[3]}"]
        better += [f"{variant[1]}.{d}{variant[3]}" for d in _DTYPES[: _DTYPES.index(variant[2])]]
        if any(name_there in plain for name_there in better):
            plain.remove(name)
    return plain


def taken(
    path: Path, named: Mapping[str, Collection[str]], shards: Mapping[str, Collection[str]]
) -> dict[str, set[str]]:
    """The tensors to take from each shard of an index: all that it has, each once.

    named: what the index says of each shard, which wins where two have a tensor; shards: what each
    has. FormatError for a tensor that no shard has.

    `path` is the index, for messages.
    """
    owners: dict[str, str] = {}
    for shard, names in shards.items():
        owners |= {n: shard for n in names if n in named[shard] or n not in owners}
    for shard, names in named.items():
        if missing := sorted(set(names) - owners.keys()):
            raise FormatError(
                f'{path}: tensor "{missing[0]}" should be in {shard}, which does not have it'
            )
    return {shard: {n for n, owner in owners.items() if owner == shard} for shard in shards}


def read_index(path: Path) -> dict[str, set[str]]:
    """The shards that an index names, in its order, each with the names of its tensors.

    Raises FormatError for a file that is not an index, for a shard whose name leads out of the
    folder, and for a missing shard.
    """
    if path.stat().st_size > _MAX_INDEX:
        raise FormatError(f"{path} has more than {_MAX_INDEX} bytes: it is not an index")
    with open_regular(path) as file:
        index = parse_json(file.read(), str(path), depth=16, most=_MOST_VALUES)
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not places or not isinstance(places, dict):
        raise FormatError(f"{path} is not an index of shards: it has no weight_map")
    ending = ".bin" if path.name.endswith(".bin.index.json") else ".safetensors"
    shards: dict[str, set[str]] = {}
    for name, shard in places.items():
        if type(shard) is not str or not _is_file_name(shard, ending):
            raise FormatError(
                f'{path}: tensor "{name}" should be in {shard!r:.100}, which is not the name '
                "of a file beside the index"
            )
        shards.setdefault(shard, set()).add(name)
    for shard in shards:
        if not (path.parent / shard).is_file():
            raise FormatError(f"{path}: the shard {shard} is missing in {path.parent}")
    return shards


def _is_file_name(name: str, ending: str) -> bool:
    """Whether the name is that of a file: of at most 255 bytes, and in no other folder."""
    size = len(name.encode("utf-8", "surrogatepass"))
    return (
        name.endswith(ending)
        and size <= 255
        and not any(c in "/\\:\0" or "\ud800" <= c <= "\udfff" for c in name)
    )
