"""LoRA adapters in GGUF, as llama.cpp's converter writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import LoadError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import LoraConfig
from rushlight.models.families import family_of
from rushlight.models.gguf.architecture import (
    STACKED,
    TRANSPOSED,
    Architecture,
    Transform,
    architecture_of,
    kind_of,
)

_ENDS = (".lora_a", ".lora_b")


def as_peft(
    model: Any, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[LoraConfig, dict[str, Tensor]]:
    """The configuration and the tensors by PEFT's names.

    A tensor NAME of the model has NAME.lora_a (rank, in) and NAME.lora_b (out, rank); of the table
    lora_a is (rows, rank). Products are scaled by adapter.lora.alpha / rank, or not where that is
    zero. LoadError for a file of another kind, of another architecture than the model's, and for
    tensors that the model does not have.
    """
    family = family_of(model.config.model_type, "model_type")
    wanted = {
        "general.type": ("adapter",),
        "adapter.type": ("lora",),
        "general.architecture": tuple(kind.partition("/")[0] for kind in family.gguf_types),
    }
    for key, supported in wanted.items():
        told = metadata.get(key)
        if not isinstance(told, str) or told not in supported:
            raise LoadError(
                f"an adapter's {key} is {brief(told)}; it must be "
                f"{' or '.join(supported) or 'of a family that GGUF has'}"
            )
    architecture = architecture_of(family, kind_of(family, model))
    if "adapter.alora.invocation_tokens" in metadata:
        raise LoadError("adapter.alora.invocation_tokens: activated LoRA is not supported")
    alpha = metadata.get("adapter.lora.alpha", 0.0)
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not abs(alpha) < 1e9:
        raise LoadError(f"adapter.lora.alpha is {brief(alpha)}; it must be a number")
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, t in tensors.items():
        if not name.endswith(_ENDS):
            raise LoadError(
                f"the adapter holds a tensor {name!r:.100}; names end with {' or '.join(_ENDS)}"
            )
        t = t.dequantize() if t.dtype.kind == "q" else t
        if t.ndim != 2 or 0 in t.shape:
            raise LoadError(f"the adapter's {name!r:.100} is {t.shape}; it must be a matrix")
        pairs.setdefault(name[: -len(_ENDS[0])], {})[name[-1]] = t
    by_name: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for name, pair in pairs.items():
        if len(pair) < 2:
            raise LoadError(f"the adapter has one of the two tensors of {name!r:.100}")
        ours = architecture.renamed(name)
        path, a, b = ours.rpartition(".")[0], pair["a"], _rows(architecture, model, ours, pair["b"])
        ranks[path] = b.shape[1]
        table = name == "token_embd.weight"
        ends = (
            ("lora_embedding_A", "lora_embedding_B")
            if table
            else ("lora_A.weight", "lora_B.weight")
        )
        by_name |= {f"{path}.{ends[0]}": a.t() if table else a, f"{path}.{ends[1]}": b}
    if not ranks:
        raise LoadError("the adapter holds no tensors")
    r = Counter(ranks.values()).most_common(1)[0][0]
    literal = {path: path.replace(".", r"\.") for path in ranks}
    config = LoraConfig(
        target_modules=sorted(ranks),
        r=r,
        lora_alpha=alpha or r,
        rank_pattern={literal[path]: n for path, n in ranks.items() if n != r},
        alpha_pattern={} if alpha else {literal[p]: n for p, n in ranks.items() if n != r},
    )
    return config, by_name


def _rows(architecture: Architecture, model: Any, name: str, b: Tensor) -> Tensor:
    """lora_b in the order of rows that the checkpoint has."""
    transform: Transform | None = architecture.transform(name)
    config = dict(vars(model.config))
    if transform is None or transform is TRANSPOSED:
        return b
    if transform is STACKED and config.get("stacked"):
        return b
    if not transform.rows:
        raise LoadError(f"an adapter of {name} in GGUF is not supported")
    if config.get("num_key_value_heads", 0) is None:
        config["num_key_value_heads"] = config.get("num_attention_heads")
    return transform.undo(b, config)
