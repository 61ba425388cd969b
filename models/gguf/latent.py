"""GGUF of latent attention (llama.cpp's deepseek2): DeepSeek V2 and V3, and models like them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.gguf.architecture import Architecture, Regroup, floats
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames

_INSIDE = "model.layers.{}.self_attn."
_NAMES = {
    "attn_kv_a_mqa": "kv_a_proj_with_mqa",
    "attn_kv_a_norm": "kv_a_layernorm",
    "attn_q_a": "q_a_proj",
    "attn_q_a_norm": "q_a_layernorm",
    "attn_q_b": "q_b_proj",
}
# llama.cpp's names of the projections to latents and from that of queries.
STORED = {f"blk.{{}}.{theirs}": _INSIDE + ours for theirs, ours in _NAMES.items()}


def head_sizes(c: dict[str, Any]) -> None:
    """A file has the size of a head of queries; that of values may be missing."""
    c["qk_nope_head_dim"] = c.get("key", 0) - c["qk_rope_head_dim"]
    c["v_head_dim"] = c.get("value") or None


def tell_sizes(model: Any) -> dict[str, Any]:
    """The sizes of a head."""
    attention = model.spec.layers[0].attention
    return {
        "attention.key_length": attention.plain + attention.rotary.dim,
        "attention.value_length": attention.value,
    }


def latent(model_type: str, architecture: str, mlp: MLPNames, score: str) -> Architecture:
    """The architecture of a family whose routers give softmax or sigmoid scores."""

    def adjust(c: dict[str, Any]) -> None:
        # Older files have the sizes of a head, newer ones also those of the row in the cache.
        key = c.get("key_mla") or c.get("key", 0)
        c["qk_nope_head_dim"] = key - c["qk_rope_head_dim"]
        c["v_head_dim"] = c.get("value_mla") or c.get("value", 0)
        c["q_lora_rank"] = c.get("q_lora_rank") or None
        for name, value in {
            "first_k_dense_replace": 0,
            "n_shared_experts": 0,
            "n_group": 1,
            "topk_group": 1,
            "norm_topk_prob": False,
        }.items():
            c.setdefault(name, value)
        c["routed_scaling_factor"] = c.get("routed_scaling_factor") or 1.0
        if score == "softmax":
            c["topk_method"] = "group_limited_sum" if c["n_group"] > 1 else "greedy"
            if c["norm_topk_prob"]:
                raise FormatError("deepseek2.expert_weights_norm is true; it needs sigmoid scores")

    def tell(model: Any) -> dict[str, Any]:
        attention = model.spec.layers[0].attention
        dim = attention.rotary.dim
        experts = [e.mlp for e in model.spec.layers if isinstance(e.mlp, ExpertsSpec)]
        _refuse(model, experts)
        routing, shared = experts[0].routing, experts[0].shared
        return {
            "attention.head_count_kv": 1,
            "attention.q_lora_rank": attention.query_rank or 0,
            "attention.kv_lora_rank": attention.rank,
            "attention.key_length": attention.rank + dim,
            "attention.value_length": attention.rank,
            "attention.key_length_mla": attention.plain + dim,
            "attention.value_length_mla": attention.value,
            "expert_weights_norm": routing.normalized,
            "expert_gating_func": np.uint32(1 + (score == "sigmoid")),
            "expert_group_count": routing.groups,
            "expert_group_used_count": routing.kept,
            "expert_shared_count": 0 if shared is None else shared.inner // experts[0].inner,
            "leading_dense_block_count": len(model.spec.layers) - len(experts),
        }

    names = {
        "attn_kv_b": "kv_b_proj",
        "attn_k_b": "k_b_proj",
        "attn_v_b": "v_b_proj",
    }
    corrected = {"blk.{}.exp_probs_b.bias": "model.layers.{}.mlp.gate.e_score_correction_bias"}
    return Architecture(
        model_type, architecture, keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon", "head_dim": "",
            "first_k_dense_replace": "leading_dense_block_count", "key": "attention.key_length",
            "q_lora_rank": "attention.q_lora_rank", "kv_lora_rank": "attention.kv_lora_rank",
            "key_mla": "attention.key_length_mla", "value_mla": "attention.value_length_mla",
            "value": "attention.value_length", "qk_rope_head_dim": "rope.dimension_count",
            "n_routed_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
            "moe_intermediate_size": "expert_feed_forward_length",
            "n_shared_experts": "expert_shared_count", "n_group": "expert_group_count",
            "topk_group": "expert_group_used_count", "norm_topk_prob": "expert_weights_norm",
            "routed_scaling_factor": "expert_weights_scale",
        }, adjust=adjust, mlp=mlp, metadata=tell,
        parts=STORED
        | {f"blk.{{}}.{theirs}": _INSIDE + ours for theirs, ours in names.items()}
        | (corrected if score == "sigmoid" else {}), regroups=(Regroup(
            ("kv_b_proj.weight",), ("k_b_proj.weight", "v_b_proj.weight"), _joined, _split,
        ),),
    )  # fmt: skip


def _refuse(model: Any, experts: Sequence[ExpertsSpec]) -> None:
    attention, eps = model.spec.layers[0].attention, model.spec.norm.eps
    positions = json.loads(attention.rotary.scaling or "{}")
    scaling = positions.get("rope_type", positions.get("type", "default"))
    for reason, unsupported in {
        "biases": attention.bias,
        "no experts": not experts,
        f"norms with eps {eps:g}": eps != 1e-6,
        "groups of experts chosen by their best one": any(
            e.routing.groups > 1 and e.routing.best != 2 for e in experts
        ),
        f"positions scaled by {scaling}": scaling not in ("default", "yarn"),
    }.items():
        if unsupported:
            raise LoadError(
                f"latent attention with {reason} cannot be written as GGUF of deepseek2",
                hint="use the folder itself",
            )


def _joined(c: dict[str, Any], k: Tensor, v: Tensor) -> tuple[Tensor]:
    """(heads, rank, plain) and (heads, value, rank) -> (heads * (plain + value), rank)."""
    heads, rank = c["num_attention_heads"], c["kv_lora_rank"]
    if k.shape != (heads, rank, c["qk_nope_head_dim"]) or v.shape != (heads, c["v_head_dim"], rank):
        raise FormatError(
            f"attn_k_b is {k.shape} and attn_v_b {v.shape}; the metadata asks for "
            f"({heads}, {rank}, {c['qk_nope_head_dim']}) and ({heads}, {c['v_head_dim']}, {rank})"
        )
    # The rows of one stack are the columns of the other, which blocks cannot be.
    return (cat([floats(k).transpose(1, 2), floats(v)], 1).reshape(-1, rank),)


def _split(c: dict[str, Any], both: Tensor) -> tuple[Tensor, Tensor]:
    each = both.reshape(c["num_attention_heads"], -1, c["kv_lora_rank"])
    plain = c["qk_nope_head_dim"]
    return each[:, :plain].transpose(1, 2).contiguous(), each[:, plain:].contiguous()
