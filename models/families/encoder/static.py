"""Static embeddings: a text is the mean of its tokens' vectors (model2vec and others)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import LoadError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.static import StaticEncoder


@dataclass
class Config:
    """The keys of config.json."""

    normalize: bool = False
    model_type: str = "model2vec"


def config_of(tensors: Mapping[str, Any]) -> dict[str, object]:
    """config.json of a checkpoint without one."""
    return {"model_type": "static_embedding"}


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint's tensors with rows as int64."""
    return {n: t.to(dtype="int64") if n == "mapping" else t for n, t in tensors.items()}


def build(config: dict[str, Any], names: Collection[str]) -> StaticEncoder:
    """The model of a checkpoint with these tensors, on the meta device."""
    choose("pooling", config.get("pooling", "mean"), ("mean",))
    known = read_config(Config, config, ("StaticModel",))
    shapes = {n: shape_of(names, n) for n in ("embeddings", "mapping", "weights") if n in names}
    plain = "embedding.weight"
    if "embeddings" not in shapes and plain not in names:
        raise LoadError('the checkpoint has neither "embedding.weight" nor "embeddings"')
    return StaticEncoder(known, shapes or {plain: shape_of(names, plain)})


def shape_of(tensors: Any, name: str) -> tuple[int, ...]:
    """The shape of a checkpoint's tensor."""
    t = tensors[name]
    return tuple(getattr(t, "shape", t))


FAMILY = Family(
    model_types=("model2vec", "static_embedding"),
    tasks=("feature-extraction",),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    # Folders of sentence-transformers have no config.json.
    tensors=("embedding.weight", "embeddings"),
    config_of=config_of,
)
