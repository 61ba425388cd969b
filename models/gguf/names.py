"""A GGUF file as a checkpoint in the Hugging Face layout, by the family's `Architecture`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.text.gguf_tokenizer import from_gguf as tokenizer_files
from rushlight.core.io.text.gguf_tokenizer import stop_ids
from rushlight.core.io.text.gguf_world import is_world, world_files
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import LARGEST, checked
from rushlight.models.families import families, family_of
from rushlight.models.gguf.architecture import KEYS, Architecture, Regroup, architecture_of
from rushlight.models.gguf.pooling import RANK, pooling_files, pooling_type

Metadata = Mapping[str, Any]
# Keys that change numbers in llama.cpp -> the value at which they do not, or the key that says it.
NEUTRAL: dict[str, Any] = {
    "attention.causal": True,
    "rope.freq_base_swa": "rope.freq_base",
    "rope.dimension_count_swa": "rope.dimension_count",
    "ssm.dt_b_c_rms": False,
    "final_logit_softcapping": 0.0,
    "attention.sliding_window": 0,
    "expert_group_count": (0, 1),
    "expert_gating_func": (0, 1, 2),
    "rope.scaling.yarn_ext_factor": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.alpha": 0.0,
}
# Those that it reads of all architectures, and of some: its logits changed with them (0.5.0).
UNREAD = {
    "*": (
        "attention.causal",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "expert_group_count",
    ),
    "deepseek2": ("expert_gating_func",),
    "gemma2": ("rope.freq_base_swa", "rope.dimension_count_swa"),
    "gemma3": ("final_logit_softcapping", "rope.dimension_count_swa"),
    "gemma3n": ("rope.dimension_count_swa",),
    "cohere2": ("rope.dimension_count_swa",),
    "llama4": ("rope.freq_base_swa",),
    "gpt-oss": ("rope.freq_base_swa",),
    "lfm2": ("attention.sliding_window",),
    "mamba": ("ssm.dt_b_c_rms",),
    "hunyuan-dense": ("rope.scaling.alpha",),
}
# Types of keys that are no fields of a configuration.
_TYPES = {
    "pattern": "Any",
    "temperature": "float",
    "alibi": "float",
    "sections": "Any",
    "is_causal": "bool",
}
# The first token of an answer, a key of both config.json and metadata.
START = "decoder_start_token_id"
# Tensors of divisors of the rotary frequencies.
FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


def as_checkpoint(
    metadata: Metadata, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, bytes], dict[str, Tensor]]:
    """(small files, tensors) as in a folder of the Hugging Face layout.

    Raises LoadError for an unsupported architecture and for an unknown tensor, FormatError for a
    key with a value of another type or out of range, or that does not fit the tensors.
    """
    name = metadata.get("general.architecture")
    count, gate = (metadata.get(f"{name}.{k}") for k in ("expert_count", "expert_gating_func"))
    kinds = {
        f"{name}/experts": isinstance(count, int) and count,
        f"{name}/sigmoid": gate == 2,
        f"{name}/rank": pooling_type(str(name), metadata) == RANK,
        f"{name}/gated": "enc.blk.0.ffn_gate.weight" in tensors,
    }
    kind = next((k for k, has in kinds.items() if has and k in families("gguf_types")), name)
    family = family_of(kind, "general.architecture", "gguf_types")
    architecture = architecture_of(family, str(kind))
    _check_unread(str(name), metadata, {*{**KEYS, **architecture.keys}.values()})
    metadata, tensors = _without_predicted(str(name), metadata, tensors)
    width = metadata.get(f"{name}.embedding_length")
    files, rest = pooling_files(
        str(name),
        metadata,
        tensors,
        width if type(width) is int else 0,
        ranks=str(kind).endswith("/rank"),
    )
    used = {n: t for n, t in rest.items() if n not in FACTORS}
    renamed = {architecture.renamed(n): t for n, t in used.items()}
    for key, (stored, shape) in architecture.numbers.items():
        renamed |= _numbers(key, stored, shape, metadata.get(key))
    config = _config(str(name), family.config, architecture, metadata, tensors, renamed)
    for group in architecture.regroups:
        _regroup(renamed, group, config)
    for n, t in renamed.items():
        transform = architecture.transform(n)
        if transform is not None:
            renamed[n] = transform.undo(t, config)
    read = {
        "architectures",
        "is_causal",
        "num_labels",
        *(field.name for field in fields(family.config)),
    }
    config = {key: value for key, value in config.items() if key in read}
    # A model without a vocabulary works on token ids only.
    kind = metadata.get("tokenizer.ggml.model", "none")
    if not isinstance(kind, str) or kind not in ("none", "no_vocab"):
        _check_tokens(metadata, config.get("vocab_size"))
        if is_world(metadata):
            files |= world_files(metadata)
        else:
            files["tokenizer.json"], files["tokenizer_config.json"] = tokenizer_files(metadata)
        config["eos_token_id"] = sorted(stop_ids(metadata))
    start = metadata.get(f"{name}.{START}")
    if type(start) is int:
        config[START] = start
    files["config.json"] = json.dumps(config).encode()
    return files, renamed


def _numbers(key: str, stored: str, shape: tuple[int, ...], values: Any) -> dict[str, Tensor]:
    """Tensors of one number, of a metadata key with a number for each layer."""
    numbers = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(numbers, list) or any(type(number) is not float for number in numbers):
        raise FormatError(f"{key} is {brief(values)}; it must have a number for each layer")
    return {stored.format(i): tensor([v]).reshape(*shape) for i, v in enumerate(numbers)}


def _without_predicted(
    name: str, metadata: Metadata, tensors: Mapping[str, Tensor]
) -> tuple[Metadata, Mapping[str, Tensor]]:
    """Without the last layers that predict several tokens at once, which take no part."""
    key, more = f"{name}.block_count", metadata.get(f"{name}.nextn_predict_layers")
    count = metadata.get(key)
    if not isinstance(count, int) or not isinstance(more, int) or not 0 < more < count:
        return metadata, tensors
    layer = re.compile(r"blk\.(\d{1,4})\.")
    first_layers = {
        n: t
        for n, t in tensors.items()
        if not (match := layer.match(n)) or int(match[1]) < count - more
    }
    return {**metadata, key: count - more}, first_layers


def _regroup(renamed: dict[str, Tensor], group: Regroup, config: dict[str, Any]) -> None:
    if group.undo is None:
        return
    for first in [n for n in renamed if n.endswith(group.theirs[0])]:
        base = first.removesuffix(group.theirs[0])
        if missing := [end for end in group.theirs if base + end not in renamed]:
            raise FormatError(f"the file has {first}, but no {base}{missing[0]}")
        regrouped = group.undo(config, *(renamed.pop(base + end) for end in group.theirs))
        renamed |= zip((base + end for end in group.ours), regrouped, strict=True)


def _check_tokens(metadata: Metadata, rows: Any) -> None:
    """Raise FormatError for more tokens than rows of the embedding."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and isinstance(rows, int) and len(tokens) > rows:
        raise FormatError(
            f"tokenizer.ggml.tokens has {len(tokens)} entries, more than the {rows} rows of "
            "token_embd.weight"
        )


def _config(
    name: str,
    kind: type,
    architecture: Architecture,
    metadata: Metadata,
    tensors: Mapping[str, Tensor],
    renamed: Mapping[str, Tensor],
) -> dict[str, Any]:
    decoder, attention, mlp = architecture.decoder, architecture.attention, architecture.mlp

    def biased(part: str) -> bool:
        return any(n.endswith(f"{part}.bias") for n in renamed)

    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "architectures": [architecture.architecture],
        "tie_word_embeddings": f"{decoder.head}.weight" not in renamed,
    }
    config["attention_bias"] = biased(attention.qkv or attention.q)
    config["mlp_bias"] = biased(mlp.gate_up or mlp.up)
    config["attention_norms"] = any(f".{attention.q_norm}." in n for n in renamed)
    known = {field.name: field for field in fields(kind)}
    config["inside"] = {n.partition(".0.")[2] for n in renamed}  # the names in the first layer
    config["names"] = renamed.keys()
    config |= architecture.fixed
    for key, rows_of in architecture.rows.items():
        config[key] = next(iter(renamed[rows_of].shape), 0) if rows_of in renamed else 0
    read_values: dict[str, Any] = {}
    keys = {**KEYS, **architecture.keys}
    for key, stored in keys.items():
        value = metadata.get(f"{name}.{stored}")
        if value is not None:
            real = "float" if "theta" in key or key.endswith("beta") else "int"
            listed = key == "pattern" or key.startswith("each_")
            of = "Any" if listed else _TYPES.get(key, real)
            of = str(known[key].type) if key in known else of
            config[key] = read_values[stored] = checked(f"{name}.{stored}", key, of, value)
    # The embedding's rows give the size of the vocabulary; the metadata may differ.
    embedding = renamed.get(f"{decoder.base}.{decoder.embedding}.weight".removeprefix("."))
    if embedding is not None and embedding.ndim == 2:
        config["vocab_size"] = embedding.shape[0]
    needed = {s for k, s in keys.items() if s and k in known and known[k].default is MISSING}
    for stored in sorted(needed | {"attention.head_count", "block_count", "embedding_length"}):
        if stored not in read_values and not (stored == "vocab_size" and "vocab_size" in config):
            raise FormatError(f"the metadata has no {name}.{stored}")
    config.setdefault("num_key_value_heads", config.get("num_attention_heads"))
    _check_layers(f"{name}.block_count", read_values["block_count"], tensors)
    width, heads = read_values["embedding_length"], read_values["attention.head_count"]
    head = read_values.get("attention.key_length") or width // max(heads, 1)
    if "rope.dimension_count" not in keys.values():
        share = _share(f"{name}.rope.dimension_count", metadata, head)
        if "partial_rotary_factor" in known:
            config["partial_rotary_factor"] = share
        elif share != architecture.share:
            raise FormatError(
                f"{name}.rope.dimension_count is {share * head:g}, which differs from a head's "
                f"{head} features"
            )
    if scaling := _scaling(name, metadata, tensors):
        if "rope_scaling" in known:
            config["rope_scaling"] = scaling
        elif "rope_parameters" in known:
            theta = {"rope_theta": config["rope_theta"]} if "rope_theta" in config else {}
            config["rope_parameters"] = {**scaling, **theta}
        else:
            raise FormatError(
                f"{name}.rope: positions scaled by {scaling['rope_type']} are not supported for "
                f"{name}; supported: unscaled ones"
            )
    architecture.adjust(config)
    return config


def _check_unread(name: str, metadata: Metadata, read: set[str]) -> None:
    """Raise FormatError for a key that changes numbers in llama.cpp and is not read here."""
    for key in (*UNREAD["*"], *UNREAD.get(name, ())):
        value, neutral = metadata.get(f"{name}.{key}"), NEUTRAL[key]
        if (
            key in read
            or value is None
            or (isinstance(neutral, str) and (value == metadata.get(f"{name}.{neutral}")))
        ):
            continue
        several = neutral if isinstance(neutral, tuple) else (neutral,)
        if isinstance(neutral, str) or not any(
            type(value) is type(neutral_value) and value == neutral_value
            for neutral_value in several
        ):
            wanted = f"{name}.{neutral}" * isinstance(neutral, str) or ", ".join(map(str, several))
            raise FormatError(
                f"{name}.{key} is {brief(value)}, which is not supported; supported: {wanted}"
            )


def _check_layers(key: str, count: int, tensors: Mapping[str, Tensor]) -> None:
    """Raise FormatError unless the file has tensors of exactly `count` layers."""
    numbers = (
        int(layer[1]) for n in tensors if (layer := re.match(r"(?:enc\.)?blk\.(\d{1,4})\.", n))
    )
    layers = max(numbers, default=-1) + 1
    if layers != count:
        raise FormatError(f"{key} is {count}, but the file has tensors of {layers} layers")


def _share(key: str, metadata: Metadata, head: int) -> float:
    """The share of a head's features that is rotated."""
    count = metadata.get(key, head)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= head:
        raise FormatError(f"{key} is {brief(count)}, which differs from a head's {head} features")
    return count / head


def _scaling(name: str, metadata: Metadata, tensors: Mapping[str, Tensor]) -> dict[str, Any] | None:
    """The scaling of rotary positions, with llama.cpp's defaults (src/llama-model.cpp).

    A file without a type means linear; `rope.scale_linear` is the older key of the factor.
    """
    factors = {n: _divisors(n, tensors[n]) for n in FACTORS if n in tensors}
    key = f"{name}.rope.scaling"
    kind = metadata.get(f"{key}.type", "longrope" if FACTORS[1] in factors else "linear")
    if not isinstance(kind, str) or kind not in ("none", "linear", "yarn", "longrope"):
        raise FormatError(
            f"{key}.type is {brief(kind)}, which is not supported; supported: none, linear, yarn, "
            "longrope"
        )
    stored = f"{key}.factor"
    stored = stored if stored in metadata else f"{name}.rope.scale_linear"
    factor = _positive(stored, metadata.get(stored, 1.0), zero=True) or 1.0  # 0: not scaled
    factor = 1.0 if kind == "none" else factor
    share = _positive(f"{key}.attn_factor", metadata.get(f"{key}.attn_factor", 1.0))
    original = metadata.get(f"{key}.original_context_length")
    if FACTORS[0] in factors and kind != "yarn":
        # The converter stores llama3's scaling as a divisor for every frequency.
        _only(f"{key}.attn_factor", share)
        divisors = (
            [divisor * factor for divisor in factors[FACTORS[0]]]
            if factor != 1
            else factors[FACTORS[0]]
        )
        return {"rope_type": "factors", "factors": divisors}
    if factors:
        _only(stored, factor)
        scaling = {
            "rope_type": "longrope",
            "long_factor": factors.get(FACTORS[1]),
            "short_factor": factors.get(FACTORS[2]),
            "original_max_position_embeddings": original,
            "attention_factor": metadata.get(f"{key}.attn_factor"),
        }
        return {k: v for k, v in scaling.items() if v is not None}
    if kind != "yarn":
        _only(f"{key}.attn_factor", share)
        return None if factor == 1 else {"rope_type": "linear", "factor": factor}
    scaling = {"rope_type": kind, "factor": factor, "original_max_position_embeddings": original}
    for ours, theirs in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
        scaling[ours] = metadata.get(f"{key}.{theirs}")
    if isinstance(more := metadata.get(f"{key}.yarn_log_multiplier"), float):
        _only(f"{key}.attn_factor", share)
        shared = float(np.float32(more))
        # The converter has a tenth of it for deepseek2, and llama.cpp takes 1 for the other one.
        by = (1.0, shared) if name == "mistral3" else (shared * 10, shared * 10)
        scaling["mscale"], scaling["mscale_all_dim"] = by
    elif share != 1:
        scaling["attention_factor"] = share * (0.1 * math.log(factor) + 1)
    return {k: v for k, v in scaling.items() if v is not None}


def _positive(key: str, value: Any, zero: bool = False) -> float:
    if not isinstance(value, float) or not (0 < value < 1e9 or (zero and value == 0)):
        raise FormatError(f"{key} is {brief(value)}; it must be a positive number")
    return value


def _only(key: str, value: float) -> None:
    if value != 1:
        raise FormatError(f"{key} is {value:g}, which is not supported here; supported: 1")


def _divisors(name: str, stored: Tensor) -> list[float]:
    if stored.ndim != 1 or stored.numel() > LARGEST["head_dim"] or stored.dtype.kind != "f":
        raise FormatError(
            f"{name} is {stored.dtype.name} of shape {stored.shape}; it must have one float per "
            "frequency"
        )
    divisors: list[float] = stored.float().tolist()
    return divisors
