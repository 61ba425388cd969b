"""The parts of a model in the order in which they run, and what each of them needs of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.errors import LoadError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import CacheSpec, State

if TYPE_CHECKING:
    from rushlight.models.model import Model

# Tokens whose keys and values a device must have room for, beside the weights.
KEPT = 2048


@dataclass(frozen=True)
class Paths:
    """The paths of a model's modules: those before its layers, the layers, and those after them.

    What is in none of them lies where the first ones are. width: of the states between layers.
    head: the path of a head that has the embedding's weight, under which other libraries place it.
    """

    before: tuple[str, ...]
    layers: tuple[str, ...]
    after: tuple[str, ...] = ()
    width: int = 0
    head: str = ""


@dataclass(frozen=True)
class Part:
    """What is placed as one: `name` says it, `paths` are its modules.

    nbytes: of its weights. cache_bytes: of its cache for the first tokens. largest: bytes of its
    largest tensor.
    """

    name: str
    paths: tuple[str, ...]
    nbytes: int
    cache_bytes: int
    largest: int


def paths_of(model: Model) -> Paths:
    """The paths of a model's parts; LoadError for a model without layers that can be placed."""
    paths = model.parts_in_order()
    if paths is None or not paths.layers:
        raise LoadError(
            f"{model.config.model_type}: device_map places the layers of decoders and of encoders "
            "of texts; this model has none of these",
            hint='leave device_map out, and give device="webgpu" or device="cpu"',
        )
    return paths


def nbytes_of(t: Tensor, dtype: DType | None) -> int:
    """Bytes of a weight once its floating elements are of `dtype`, if that is given."""
    kind = t.dtype if dtype is None or not t.dtype.is_floating_point else dtype
    return kind.nbytes(t.numel())


def parts_of(
    model: Model, tensors: Mapping[str, Tensor], dtype: DType | None
) -> tuple[Paths, list[Part]]:
    """The parts of a model in order: what is before its layers, each layer, what is after them."""
    paths = paths_of(model)
    sizes: dict[str, list[int]] = {path: [] for path in ("", *paths.layers, *paths.after)}
    owners = {f"{p}." for p in (*paths.layers, *paths.after)}
    for name, t in tensors.items():
        pieces = name.split(".")
        prefixes = (".".join(pieces[:i]) for i in range(1, len(pieces)))
        path = next((p for p in prefixes if f"{p}." in owners), "")
        sizes[path].append(nbytes_of(t, dtype))
    cache_bytes = kept_bytes(model, len(paths.layers))

    def part(name: str, own: tuple[str, ...], cache: int = 0) -> Part:
        each = [n for path in own or ("",) for n in sizes[path]]
        return Part(name, own, sum(each), cache, max(each, default=0))

    before = part("the embedding and what is beside the layers", ())
    layers = [part(path, (path,), cache_bytes[i]) for i, path in enumerate(paths.layers)]
    after = [part(" and ".join(paths.after), paths.after)] if paths.after else []
    return paths, [before, *layers, *after]


def kept_bytes(model: Model, layers: int, tokens: int = KEPT) -> list[int]:
    """For each layer the bytes of what a float32 cache keeps of the first `tokens` tokens."""
    specs: Sequence[CacheSpec] = model.cache_specs() if hasattr(model, "cache_specs") else ()
    total = [0] * layers
    limit = min(tokens, getattr(model, "context_length", tokens))
    for i, spec in enumerate(specs):
        total[i % layers] += _bytes(spec, limit)
    return total


def _bytes(spec: CacheSpec, tokens: int) -> int:
    item = float32.itemsize
    if isinstance(spec, State):
        sizes = 0
        for shape in spec.shapes:
            count = 1
            for side in shape:
                count *= side
            sizes += count
        return item * sizes
    tokens = tokens if spec.window is None else min(tokens, spec.window)
    return item * tokens * sum(heads * features for heads, features in spec.rows)


def carried_bytes(model: Any, places: Any, dtype: DType) -> int:
    """Bytes that a token of an answer carries between devices: see `Placement.carried`.

    dtype: of the states between layers. What layers leave for later ones is not in it.
    """
    paths: Paths = places.paths
    state, total = paths.width * dtype.itemsize, 0
    here = places.first
    total += 0 if here is places.main else 8  # the token
    for device in places.layers:
        total += 0 if device is here else state
        here = device
    for path in paths.after:
        device = places.after[path]
        total += 0 if device is here else state
        here = device
    if paths.head and here is not places.first:
        total, here = total + state, places.first
    rows: int = getattr(model, "vocab_size", 0) if paths.after else 0
    total += 0 if here is places.main else rows * dtype.itemsize
    # Positions, angles, and the numbers of tokens in the caches.
    rotary = getattr(model, "rotary", None)
    angles = sum(4 * spec.dim for spec in rotary.ropes) if rotary is not None else 0
    specs = model.cache_specs() if hasattr(model, "cache_specs") else ()
    limit = getattr(model, "context_length", 0)
    windows = {getattr(s, "window", None) for s in specs if not isinstance(s, State)}
    counts = len({w if w is not None and w < limit else None for w in windows})
    beside = set(places.layers) - {places.main}
    return total + len(beside) * (angles + 8 + 8 * counts)
