"""Architectures in GGUF that need more than a table, each by the names of its family."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.ops import cat, full
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.gguf.architecture import (
    STACKED,
    Architecture,
    Regroup,
    Transform,
    listed,
    stacked,
)
from rushlight.models.gguf.scans import CHANNELS, DECAY_ROWS, ROWS, ssm
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.building import FULL, SLIDING
from rushlight.models.layers.decoder import DecoderNames
from rushlight.models.layers.mlp import MLPNames


def chatglm(names: DecoderNames, attention: AttentionNames, mlp: MLPNames) -> Architecture:
    """ChatGLM's: keys of its own; all q are before all k, as where heads share keys."""

    def adjust(c: dict[str, Any]) -> None:
        c.update(
            num_layers=c["num_hidden_layers"], padded_vocab_size=c.pop("vocab_size", 0),
            rope_ratio=c.get("rope_theta", 10000.0) / 10000, multi_query_attention=True,
            multi_query_group_num=c["num_key_value_heads"], add_qkv_bias=c["attention_bias"],
            kv_channels=c.get("head_dim") or c["hidden_size"] // max(c["num_attention_heads"], 1),
        )  # fmt: skip

    def rows(t: Any, c: Any) -> Any:
        return stacked(t, {**c, "stacked": c["multi_query_attention"]})

    return Architecture(
        "chatglm", "ChatGLMModel", keys={
            "layernorm_epsilon": "attention.layer_norm_rms_epsilon",
            "ffn_hidden_size": "feed_forward_length", "seq_length": "context_length",
        }, adjust=adjust, decoder=names, attention=attention, mlp=mlp, share=0.5,
        transforms={attention.qkv: Transform(lambda t, c: t, rows)},
        metadata=lambda model: {
            "attention.key_length": model.config.kv_channels, "vocab_size": model.vocab_size,
        },
    )  # fmt: skip


def lfm2(names: DecoderNames, attention: AttentionNames, mlp: MLPNames) -> Architecture:
    """LFM2's: a layer without heads of keys is a convolution."""

    def adjust(c: dict[str, Any]) -> None:
        heads = c["full_attn_idxs"]
        heads = heads.tolist() if isinstance(heads, np.ndarray) else heads
        if not isinstance(heads, list) or any(type(n) is not int or n < 0 for n in heads):
            raise FormatError(f"lfm2.attention.head_count_kv is {brief(heads)}; one for each layer")
        c.update(
            full_attn_idxs=[i for i, n in enumerate(heads) if n], block_auto_adjust_ff_dim=False,
            num_key_value_heads=max([1, *heads]),
        )  # fmt: skip

    def told(model: Any) -> dict[str, Any]:
        specs = [layer.attention for layer in model.spec.layers]
        return {
            "attention.head_count_kv": np.array([getattr(one, "kv_heads", 0) for one in specs],
                                                np.int32),
            "feed_forward_length": model.spec.layers[0].mlp.inner, "vocab_size": model.vocab_size,
        }  # fmt: skip

    layer = "model.layers.{}.conv."
    return Architecture(
        "lfm2", "Lfm2ForCausalLM", keys={
            "norm_eps": "attention.layer_norm_rms_epsilon", "conv_L_cache": "shortconv.l_cache",
            "full_attn_idxs": "attention.head_count_kv", "num_key_value_heads": "",
        }, adjust=adjust, decoder=names, attention=attention, mlp=mlp, metadata=told,
        transforms={"conv.conv.weight": CHANNELS}, parts={
            "token_embd_norm": f"{names.base}.{names.norm}",
            "blk.{}.shortconv.conv": f"{layer}conv",
            "blk.{}.shortconv.in_proj": f"{layer}in_proj",
            "blk.{}.shortconv.out_proj": f"{layer}out_proj",
        },
    )  # fmt: skip


def falcon_h1(names: DecoderNames) -> Architecture:
    """Falcon-H1's: multipliers are multiplied into the weights."""

    def adjust(c: dict[str, Any]) -> None:
        c.update(
            mamba_rms_norm="mamba.norm.weight" in c["inside"], mamba_norm_before_gate=False,
            mamba_conv_bias="mamba.conv1d.bias" in c["inside"],
        )  # fmt: skip

    def times(of: Callable[[Any], tuple[float, float]]) -> Transform:
        # The factors of a weight and of its bias.
        return Transform(lambda t, c: t, lambda t, c: t * of(c)[t.ndim < 2])

    def steps(t: Tensor, c: Any) -> Tensor:
        shared = c["mamba_n_groups"] * c["mamba_d_state"]
        heads = c["mamba_n_heads"]
        inner = (t.shape[0] - 2 * shared - heads) // 2
        sizes = (inner, inner, shared, shared, heads)
        by = [full((n,), s) for n, s in zip(sizes, c["ssm_multipliers"], strict=True)]
        rows = cat(by).to(t.device) * (c["ssm_in_multiplier"] if t.ndim > 1 else 1)
        return t * (rows.unsqueeze(1) if t.ndim > 1 else rows)

    def tell(model: Any) -> dict[str, Any]:
        spec = model.spec
        if spec.tied and spec.embedding_scale != spec.logits_scale:
            raise LoadError("a tied head with a multiplier of its own cannot be written as GGUF")
        scan = spec.layers[0].beside[1]
        return {"ssm.inner_size": scan.heads * scan.head, "vocab_size": model.vocab_size,
                "attention.key_length": spec.layers[0].attention.head_dim,
                "attention.value_length": spec.layers[0].attention.head_dim}  # fmt: skip

    def at(name: str) -> Callable[[Any], tuple[float, float]]:
        return lambda c: (c[name], c[name])

    plain = ssm("mamba2", "", replace(names, attention="mamba"), adjust)
    grouped = Transform(lambda t, c: t.reshape(-1), lambda t, c: t.reshape(c["mamba_n_groups"], -1))
    whole = "attention_in_multiplier"
    return Architecture(
        "falcon_h1", "FalconH1ForCausalLM", keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon", "mamba_d_conv": "ssm.conv_kernel",
            "mamba_d_ssm": "ssm.inner_size", "mamba_d_state": "ssm.state_size",
            "mamba_n_heads": "ssm.time_step_rank", "mamba_n_groups": "ssm.group_count",
        }, adjust=adjust, decoder=names, metadata=tell,
        folded=(".scales", ".scale", "embedding_scale", "logits_scale"),
        transforms={
            "conv1d.weight": CHANNELS, "A_log": DECAY_ROWS, "D": ROWS, "mamba.norm": grouped,
            "q_proj": times(lambda c: (c[whole], 1)), "v_proj": times(lambda c: (c[whole], 1)),
            "k_proj": times(lambda c: (c[whole] * c["key_multiplier"], c["key_multiplier"])),
            "o_proj": times(at("attention_out_multiplier")), "embed_tokens": times(
                at("embedding_multiplier")), "lm_head": times(at("lm_head_multiplier")),
            "out_proj": times(at("ssm_out_multiplier")),
            "in_proj": Transform(lambda t, c: t, steps),
            "gate_proj": times(lambda c: (c["mlp_multipliers"][0],) * 2),
            "down_proj": times(lambda c: (c["mlp_multipliers"][1],) * 2),
        }, parts={
            **plain.parts, "blk.{}.ffn_norm": f"model.layers.{{}}.{names.before_mlp}.weight",
        },
    )  # fmt: skip


def falcon(names: DecoderNames, attention: AttentionNames, mlp: MLPNames) -> Architecture:
    """Falcon's: of two norms the first is that of the MLP."""

    def adjust(c: dict[str, Any]) -> None:
        two = "ln_attn.weight" in c["inside"]
        c.update(
            new_decoder_architecture=two or c["num_key_value_heads"] > 1, stacked=True,
            num_kv_heads=c["num_key_value_heads"], num_ln_in_parallel_attn=1 + two,
        )  # fmt: skip

    def same(c: Any, *both: Tensor) -> tuple[Tensor, ...]:
        return both

    return Architecture(
        "falcon", "FalconForCausalLM", keys={
            "layer_norm_epsilon": "attention.layer_norm_epsilon",
            "ffn_hidden_size": "feed_forward_length",
        }, adjust=adjust, decoder=names, attention=attention, mlp=mlp,
        transforms={attention.qkv: STACKED},
        parts={"blk.{}.attn_norm_2": f"{names.base}.{names.layers}.{{}}.ln_attn"},
        regroups=tuple(
            Regroup((f"ln_attn.{end}", f"ln_mlp.{end}"),
                    (f"ln_attn.{end}", f"{names.before_attention}.{end}"), same, same)
            for end in ("weight", "bias")
        ),
    )  # fmt: skip


def olmo2(names: DecoderNames) -> Architecture:
    """OLMo 2's and 3's, which has windows; there positions are not scaled."""

    def adjust(c: dict[str, Any]) -> None:
        within = listed("olmo2.attention.sliding_window_pattern", c.get("pattern"), bool,
                        [(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])])  # fmt: skip
        if c.get("window"):
            kinds = [SLIDING if one else FULL for one in within]
            c.update(model_type="olmo3", sliding_window=c["window"], layer_types=kinds)

    def tell(model: Any) -> dict[str, Any]:
        each = [layer.attention for layer in model.spec.layers]
        near = [a for a in each if a.window is not None]
        if any(json.loads(a.rotary.scaling or "{}").get("rope_type", "default") != "default"
               for a in near):  # fmt: skip
            raise LoadError("scaled positions of layers with windows cannot be written as GGUF")
        return {
            "attention.sliding_window": near[0].window,
            "attention.sliding_window_pattern": np.array([a.window is not None for a in each]),
        } if near else {}  # fmt: skip

    return Architecture(
        "olmo2", "Olmo2ForCausalLM", keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "window": "attention.sliding_window", "pattern": "attention.sliding_window_pattern",
        }, adjust=adjust, decoder=names, metadata=tell,
    )  # fmt: skip
