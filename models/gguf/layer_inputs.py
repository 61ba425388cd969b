"""GGUF of Gemma 4: heads of two widths, inputs per layer, layers that share keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.models.gguf.architecture import Architecture, listed
from rushlight.models.layers.building import FULL, SLIDING
from rushlight.models.layers.decoder import DecoderNames

_LAYER = {
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
    "layer_output_scale.weight": "layer_scalar",
}
_WHOLE = {
    "per_layer_token_embd": "embed_tokens_per_layer",
    "per_layer_model_proj": "per_layer_model_projection",
    "per_layer_proj_norm": "per_layer_projection_norm",
}


def gemma4(names: DecoderNames) -> Architecture:
    """Gemma 4's dense models."""
    return Architecture(
        "gemma4_text",
        "Gemma4ForCausalLM",
        keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "sliding_window": "attention.sliding_window",
            "head_dim": "attention.key_length_swa",
            "global_head_dim": "attention.key_length",
            "num_key_value_heads": "",
            "each_heads": "attention.head_count_kv",
            "intermediate_size": "",
            "each_inner": "feed_forward_length",
            "pattern": "attention.sliding_window_pattern",
            "local_theta": "rope.freq_base_swa",
            "final_logit_softcapping": "final_logit_softcapping",
            "hidden_size_per_layer_input": "embedding_length_per_layer_input",
            "num_kv_shared_layers": "attention.shared_kv_layers",
        },
        adjust=_adjust,
        decoder=names,
        metadata=_tell,
        folded=("streams.vocab",),
        parts={f"blk.{{}}.{theirs}": f"model.layers.{{}}.{ours}" for theirs, ours in _LAYER.items()}
        | {theirs: f"model.{ours}" for theirs, ours in _WHOLE.items()},
    )


def _each(key: str, value: Any, count: int) -> list[int]:
    """A number of each layer, from one of all layers or a list."""
    if type(value) is int:
        return [value] * count
    numbers = listed(f"gemma4.{key}", value, int, [])
    if len(numbers) != count:
        raise FormatError(f"gemma4.{key} is {brief(numbers)}; it must have {count} numbers")
    return numbers


def _adjust(c: dict[str, Any]) -> None:
    count = c["num_hidden_layers"]
    usual = [(i + 1) % 6 != 0 for i in range(count)]
    within = listed("gemma4.attention.sliding_window_pattern", c.get("pattern"), bool, usual)
    heads = _each("attention.head_count_kv", c.pop("each_heads", None), count)
    inner = _each("feed_forward_length", c.pop("each_inner", None), count)
    full = [i for i, near in enumerate(within[:count]) if not near]
    wide = c.get("global_head_dim") or c["hidden_size"] // max(c["num_attention_heads"], 1)
    base = c.get("rope_theta", 1000000.0)
    c.setdefault("hidden_size_per_layer_input", 0)
    c.setdefault("num_kv_shared_layers", 0)
    c.update(
        attention_bias=False,  # llama.cpp reads none
        layer_types=[SLIDING if near else FULL for near in within],
        num_key_value_heads=next((heads[i] for i in range(count) if i not in full), heads[0]),
        intermediate_size=inner[0],
        use_double_wide_mlp=inner[-1] == 2 * inner[0],
        vocab_size_per_layer_input=c.get("vocab_size", 0),
        per_layer_config={
            str(i): {"head_dim": wide, "num_key_value_heads": heads[i]} for i in full
        },
        attention_k_eq_v=bool(full)
        and not any(f".{full[0]}.self_attn.v_proj." in name for name in c["names"]),
        rope_parameters={
            FULL: {**(c.pop("rope_scaling", None) or {}), "rope_theta": base},
            SLIDING: {"rope_type": "default", "rope_theta": c.pop("local_theta", base)},
        },
    )


def _tell(model: Any) -> dict[str, Any]:
    layers = model.spec.layers
    attention = [layer.attention for layer in layers]
    near = [a for a in attention if a.window is not None] or attention
    full = [a for a in attention if a.window is None] or attention
    own = sum(a.keys_of is None for a in attention)
    lending = [(i, a.window is not None) for i, a in enumerate(attention) if a.lends]
    if own < len(attention) and lending != [(own - 2, True), (own - 1, False)]:
        raise LoadError(
            f"the model cannot be written as GGUF: layers {[i for i, _ in lending]} lend their "
            f"keys, in llama.cpp's gemma4 a layer with a window, {own - 2}, and a full one, "
            f"{own - 1}",
            hint="use the folder itself",
        )
    told: dict[str, Any] = {
        "attention.sliding_window_pattern": np.array([a.window is not None for a in attention]),
        "attention.shared_kv_layers": len(attention) - own,
        "embedding_length_per_layer_input": model.spec.streams.features,
        "attention.head_count_kv": np.array([a.kv_heads for a in attention], np.int32),
        "feed_forward_length": np.array([layer.mlp.inner for layer in layers], np.int32),
        "rope.freq_base_swa": near[0].rotary.theta,
    }
    for end, a in (("", full[0]), ("_swa", near[0])):
        told |= {f"attention.{part}_length{end}": a.head_dim for part in ("key", "value")}
        told[f"rope.dimension_count{end}"] = a.head_dim
    return told
