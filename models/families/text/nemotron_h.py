"""Nemotron-H (NVIDIA, 2025): a layer is Mamba2, attention without positions, an MLP or experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.scans import CHANNELS, DECAY_ROWS, GROUPED, ROWS
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.feed_forward import FeedForwardSpec
from rushlight.models.layers.blocks.state_space import Mamba2Spec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec, MakeBlock
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.routing import RoutingSpec

ARCHITECTURES = ("NemotronHForCausalLM",)
NAMES = DecoderNames(
    base="backbone",
    embedding="embeddings",
    before_attention="norm",
    attention="mixer",
    before_mlp=None,
    norm="norm_f",
)
FED = "feed_forward_length"  # as GGUF has it
# The letters of hybrid_override_pattern, and names of older files.
KINDS = {
    "M": "linear_attention",
    "*": "full_attention",
    "-": "mlp",
    "E": "moe",
    "mamba": "linear_attention",
    "attention": "full_attention",
}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    neutral = {
        # The reference's block reads time_step_min alone.
        "time_step_limit": (),
        "mamba_dt_limit": (),
        "attention_bias": (),
        "sliding_window": (),
        "mamba_ssm_cache_dtype": (),
        "use_mamba_kernels": (),
        "moe_shared_expert_overlap": (),
        "n_shared_experts": (),
        "mamba_proj_bias": (),
        "expand": (),
        "mamba_expand": (),
        "chunk_size": (),
        "num_nextn_predict_layers": (),
        "mtp_layers_block_type": (),
        "mtp_hybrid_override_pattern": (),
        "mamba_dt_init_floor": (),
        "mamba_dt_max": (),
    }

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int | None = None  # the kinds of layers say it
    layers_block_type: Any = None
    hybrid_override_pattern: str | None = None
    num_attention_heads: int = 32
    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 4096
    intermediate_size: int = 21504
    mlp_hidden_act: str = "relu2"
    mlp_bias: bool = False
    ssm_state_size: int = 128
    mamba_num_heads: int = 128
    mamba_head_dim: int = 64
    mamba_hidden_act: str = "silu"
    n_groups: int = 8
    mamba_n_groups: int | None = None
    conv_kernel: int = 4
    mamba_d_conv: int | None = None
    time_step_min: float = 0.001
    mamba_dt_min: float | None = None
    use_conv_bias: bool = True
    mamba_conv_bias: bool | None = None
    use_bias: bool = False
    n_routed_experts: int = 8
    moe_intermediate_size: int = 7688
    moe_shared_expert_intermediate_size: int = 7688
    moe_latent_size: int | None = None
    num_experts_per_tok: int = 2
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool | None = False  # changes nothing
    eos_token_id: Any = None
    model_type: str = "nemotron_h"


def kinds(c: Config) -> list[str]:
    """The kind of each layer."""
    key, given = "layers_block_type", c.layers_block_type
    if given is None and c.hybrid_override_pattern is not None:
        key, given = "hybrid_override_pattern", list(c.hybrid_override_pattern)
    if given is None:
        given = ["linear_attention", "moe", "full_attention", "mlp"]
    named = [KINDS.get(k, k) if isinstance(k, str) else k for k in given]
    if not named or any(kind not in KINDS.values() for kind in named):
        raise FormatError(
            f"config.json: {key} is {brief(given)}; supported kinds of layers: "
            f"{', '.join(dict.fromkeys(KINDS.values()))}"
        )
    return named


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    least = c.time_step_min if c.mamba_dt_min is None else c.mamba_dt_min
    act, width = c.mlp_hidden_act, c.hidden_size
    experts = ExpertsSpec(
        c.n_routed_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        act,
        c.norm_topk_prob,
        MLPSpec(c.moe_shared_expert_intermediate_size, act, gated=False, bias=c.mlp_bias),
        routing=RoutingSpec(
            "sigmoid",
            correction="e_score_correction_bias",
            groups=c.n_group,
            kept=c.topk_group,
            best=2,
            scale=c.routed_scaling_factor,
        ),
        gated=False,
        latent=c.moe_latent_size,
        latent_bias=c.mlp_bias,
        names=MLPNames(shared="shared_experts"),
    )
    blocks: dict[str, Callable[[], AttentionSpec | MakeBlock]] = {
        "linear_attention": lambda: Mamba2Spec(
            width,
            c.mamba_num_heads,
            c.mamba_head_dim,
            c.n_groups if c.mamba_n_groups is None else c.mamba_n_groups,
            c.ssm_state_size,
            c.conv_kernel if c.mamba_d_conv is None else c.mamba_d_conv,
            c.use_bias,
            c.use_conv_bias if c.mamba_conv_bias is None else c.mamba_conv_bias,
            c.mamba_hidden_act,
            (least, float("inf")),
            c.layer_norm_epsilon,
        ),
        "full_attention": lambda: AttentionSpec(
            c.num_attention_heads,
            c.num_key_value_heads or c.num_attention_heads,
            c.head_dim or width // max(c.num_attention_heads, 1),
        ),
        "mlp": lambda: FeedForwardSpec(
            width, MLPSpec(c.intermediate_size, act, gated=False, bias=c.mlp_bias)
        ),
        "moe": lambda: FeedForwardSpec(width, experts),
    }
    return DecoderSpec(
        c.vocab_size,
        width,
        c.max_position_embeddings,
        tuple(LayerSpec(blocks[kind](), None) for kind in kinds(c)),
        NormSpec("rms", c.layer_norm_epsilon),
        names=NAMES,  # the reference never ties the head
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the model's names, which begin with `model` in other files."""
    return {
        f"backbone.{name.removeprefix('model.')}" if name.startswith("model.") else name: t
        for name, t in tensors.items()
    }


def gguf() -> Architecture:
    """A layer is told by its heads of keys and the width of its feed-forward part."""

    def adjust(c: dict[str, Any]) -> None:
        both = []
        for key, stored in (("layers_block_type", "attention.head_count_kv"), ("pattern", FED)):
            sizes = c.get(key)
            sizes = sizes.tolist() if isinstance(sizes, np.ndarray) else sizes
            if not isinstance(sizes, list) or any(type(n) is not int or n < 0 for n in sizes):
                raise FormatError(f"nemotron_h.{stored} is {brief(sizes)}; one for each layer")
            both.append(sizes)
        fed = "moe" if c.get("n_routed_experts") else "mlp"
        c.update(
            layers_block_type=[
                "full_attention" if heads else fed if inner else "linear_attention"
                for heads, inner in zip(*both, strict=False)
            ],
            num_key_value_heads=max([1, *both[0]]),
            intermediate_size=max([1, *both[1]]),
            mamba_head_dim=c.get("mamba_inner", 0) // max(c.get("mamba_num_heads", 0), 1),
            time_step_min=0.0,
            use_conv_bias=any(name.endswith("conv1d.bias") for name in c["inside"]),
        )

    def tell(model: Any) -> dict[str, Any]:
        blocks = [layer.attention for layer in model.spec.layers]
        scans = [block for block in blocks if isinstance(block, Mamba2Spec)]
        fed = [getattr(block, "mlp", None) for block in blocks]
        if any(isinstance(part, ExpertsSpec) for part in fed):
            raise LoadError(
                "nemotron_h with experts cannot be written as GGUF; without experts it can",
                hint="use the folder itself",
            )
        # llama.cpp has no least time step; published ones make no difference.
        if any(scan.limits[0] > 0.01 for scan in scans):
            raise LoadError(
                f"time_step_min {scans[0].limits[0]:g} cannot be written as GGUF; up to 0.01 can",
                hint="use the folder itself",
            )
        return {
            "attention.head_count_kv": np.array(
                [getattr(b, "kv_heads", 0) for b in blocks], np.int32
            ),
            FED: np.array([0 if part is None else part.inner for part in fed], np.int32),
            "attention.layer_norm_rms_epsilon": model.config.layer_norm_epsilon,
            "ssm.inner_size": scans[0].heads * scans[0].head if scans else 0,
            "expert_count": 0,
            "expert_used_count": 0,
            "expert_group_count": 0,
            "vocab_size": model.vocab_size,
        }

    inside = "backbone.layers.{}.mixer."
    names = {
        "ssm_in.weight": "in_proj.weight",
        "ssm_conv1d": "conv1d",
        "ssm_a": "A_log",
        "ssm_d": "D",
        "ssm_dt.bias": "dt_bias",
        "ssm_norm": "norm",
        "ssm_out.weight": "out_proj.weight",
        "ffn_up": "up_proj",
        "ffn_down": "down_proj",
        "ffn_gate_inp": "gate",
        "exp_probs_b.bias": "gate.e_score_correction_bias",
        "ffn_up_exps": "experts.up_proj",
        "ffn_down_exps": "experts.down_proj",
        "ffn_up_shexp": "shared_experts.up_proj",
        "ffn_down_shexp": "shared_experts.down_proj",
        "ffn_latent_down": "fc1_latent_proj",
        "ffn_latent_up": "fc2_latent_proj",
    }
    return Architecture(
        "nemotron_h",
        "NemotronHForCausalLM",
        keys={
            "layer_norm_epsilon": "attention.layer_norm_epsilon",
            "layers_block_type": "attention.head_count_kv",
            "num_key_value_heads": "",
            "intermediate_size": "",
            "pattern": FED,
            "rotated": "rope.dimension_count",  # without effect: nothing is rotated
            "conv_kernel": "ssm.conv_kernel",
            "ssm_state_size": "ssm.state_size",
            "mamba_num_heads": "ssm.time_step_rank",
            "n_groups": "ssm.group_count",
            "mamba_inner": "ssm.inner_size",
            "n_routed_experts": "expert_count",
            "num_experts_per_tok": "expert_used_count",
            "moe_intermediate_size": "expert_feed_forward_length",
            "moe_shared_expert_intermediate_size": "expert_shared_feed_forward_length",
            "moe_latent_size": "moe_latent_size",
            "norm_topk_prob": "expert_weights_norm",
            "routed_scaling_factor": "expert_weights_scale",
            "n_group": "expert_group_count",
        },
        adjust=adjust,
        decoder=NAMES,
        metadata=tell,
        folded=(".limits",),
        transforms={
            "conv1d.weight": CHANNELS,
            "A_log": DECAY_ROWS,
            "D": ROWS,
            "mixer.norm": GROUPED,
        },
        parts={f"blk.{{}}.{theirs}": inside + ours for theirs, ours in names.items()},
    )


FAMILY = Family(
    model_types=("nemotron_h",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="backbone.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    rename_tensors=rename_tensors,
    gguf_types=("nemotron_h", "nemotron_h_moe"),
    gguf=gguf(),
)
