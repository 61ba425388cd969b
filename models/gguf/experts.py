"""GGUF of experts that are routed as DeepSeek V3's are: metadata keys, and names of corrections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.gguf.architecture import Transform

# Keys of config.json -> metadata keys without the architecture's prefix.
ROUTED = {
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "first_k_dense_replace": "leading_dense_block_count",
    "n_routed_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "n_shared_experts": "expert_shared_count",
    "norm_topk_prob": "expert_weights_norm",
    "routed_scaling_factor": "expert_weights_scale",
}
CORRECTED = {"blk.{}.exp_probs_b.bias": "model.layers.{}.mlp.gate.e_score_correction_bias"}


def scored(model: Any) -> dict[str, Any]:
    """The key that says what is made of the router's numbers: the sigmoid, not the softmax."""
    return {"expert_gating_func": np.uint32(2)}


def stack_of(count: Callable[[Mapping[str, Any]], int], down: bool) -> Transform:
    """Matrices of `count` experts that lie below one another, as a stack; down: transposed."""

    def redo(t: Tensor, c: Mapping[str, Any]) -> Tensor:
        if t.ndim == 3:
            return t
        each = t.reshape(count(c), -1, t.shape[-1])
        return each.transpose(1, 2).contiguous() if down else each

    return Transform(lambda t, c: t, redo)
