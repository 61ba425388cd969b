"""GGUF of Gemma 3n: streams of features, inputs per layer, layers that share keys."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from rushlight.core.basis.errors import LoadError
from rushlight.core.functional.joining import stack
from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.gguf.architecture import Architecture, Regroup, Transform, listed
from rushlight.models.layers.building import FULL, SLIDING
from rushlight.models.layers.decoder import DecoderNames

# What llama.cpp has as constants: streams, the width of a layer's input, the rank of the augmented
# residual, the layers with keys of their own, those with sparse gates and the share that is shut.
_STREAMS, _FEATURES, _RANK, _OWN, _SPARSE, _SHUT = 4, 256, 64, 20, 10, 0.95
_LAYER = {
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
    "altup_router": "altup.modality_router",
    "altup_correct_coef": "altup.correction_coefs",
    "altup_predict_coef": "altup.prediction_coefs",
    "altup_correct_scale.weight": "altup.correct_output_scale",
    "altup_router_norm": "altup.router_norm",
    "laurel_l": "laurel.linear_left",
    "laurel_r": "laurel.linear_right",
    "laurel_post_norm": "laurel.post_laurel_norm",
}
_WHOLE = {
    "per_layer_token_embd": "embed_tokens_per_layer",
    "altup_proj": "altup_projections",
    "per_layer_model_proj": "per_layer_model_projection",
    "per_layer_proj_norm": "per_layer_projection_norm",
    "altup_unembd_proj": "altup_unembed_projections",
}


def gemma3n(names: DecoderNames) -> Architecture:
    """Gemma 3n's. What llama.cpp has as constants must be so."""
    return Architecture(
        "gemma3n_text",
        "Gemma3nForCausalLM",
        keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "sliding_window": "attention.sliding_window",
            "rope_local_base_freq": "rope.freq_base_swa",
            "layer_types": "attention.sliding_window_pattern",
            "final_logit_softcapping": "final_logit_softcapping",
            "altup_active_idx": "altup.active_idx",
            "altup_num_inputs": "altup.num_inputs",
            "hidden_size_per_layer_input": "embedding_length_per_layer_input",
            "num_kv_shared_layers": "attention.shared_kv_layers",
            "activation_sparsity_pattern": "activation_sparsity_scale",
        },
        fixed={"laurel_rank": _RANK},
        adjust=_adjust,
        decoder=names,
        metadata=_tell,
        transforms={"embed_tokens_per_layer": Transform(lambda t, c: t, _padded)},
        parts={f"blk.{{}}.{theirs}": f"model.layers.{{}}.{ours}" for theirs, ours in _LAYER.items()}
        | {theirs: f"model.{ours}" for theirs, ours in _WHOLE.items()},
        regroups=(_stack("altup_projections"), _stack("altup_unembed_projections")),
        folded=("streams.vocab",),
        filled=_unread,
    )


def _stack(name: str) -> Regroup:
    """The matrices of the streams but the first, in one tensor."""
    ours = tuple(f"{name}.{i}.weight" for i in range(_STREAMS - 1))

    def apart(c: dict[str, Any], t: Tensor) -> Sequence[Tensor]:
        return [t[i] for i in range(t.shape[0])]

    def together(c: dict[str, Any], *each: Tensor) -> Sequence[Tensor]:
        return [stack(each)]

    return Regroup(ours, (f"{name}.weight",), apart, together)


def _padded(t: Tensor, c: Any) -> Tensor:
    """As many rows as tokens: those past the table read its first row."""
    more = c["vocab_size"] - t.shape[0]
    return cat([t, t[:1].expand(more, t.shape[1])]) if more > 0 else t


def _adjust(c: dict[str, Any]) -> None:
    count = c["num_hidden_layers"]
    sparse = listed(
        "gemma3n.activation_sparsity_scale",
        c.get("activation_sparsity_pattern"),
        float,
        [NormalDist().inv_cdf(_SHUT)] * _SPARSE,
    )
    windows = listed(
        "gemma3n.attention.sliding_window_pattern",
        c.get("layer_types"),
        bool,
        [(i + 1) % 5 != 0 for i in range(count)],
    )
    shares = [NormalDist().cdf(value) for value in sparse] + [0.0] * (count - len(sparse))
    c.update(
        activation_sparsity_pattern=[round(s, 6) for s in shares[:count]],
        layer_types=[SLIDING if is_sliding else FULL for is_sliding in windows],
        vocab_size_per_layer_input=c.get("vocab_size", 0),
    )
    c.setdefault("num_kv_shared_layers", max(count - _OWN, 0))
    if isinstance(c.get("intermediate_size"), np.ndarray):
        c["intermediate_size"] = c["intermediate_size"].tolist()


def _tell(model: Any) -> dict[str, Any]:
    spec, layers = model.spec, model.spec.layers
    streams, attention = spec.streams, [layer.attention for layer in layers]
    sizes = streams.streams, streams.features, streams.rank, streams.active, streams.corrected
    with_keys = sum(a.keys_of is None for a in attention)
    requirements = {
        "streams, features, rank, active and correct scale": (
            sizes,
            (_STREAMS, _FEATURES, _RANK, 0, True),
        ),
        "layers with keys": (with_keys, min(_OWN, len(layers))),
        "widths of MLPs": (len({layer.mlp.inner for layer in layers}), 1),
        "sparsity": (
            [layer.mlp.sparsity for layer in layers],
            [_SHUT * (i < _SPARSE) for i in range(len(layers))],
        ),
        "lending layers": (
            [i for i, a in enumerate(attention) if a.lends],
            [_OWN - 2, _OWN - 1] if len(layers) > _OWN else [],
        ),
        "soft cap of logits": (spec.logits_softcap, 30.0),
    }
    for name, (has, wants) in requirements.items():
        if has != wants:
            raise LoadError(
                f"the model cannot be written as GGUF: its {name} is {has}, in llama.cpp's "
                f"gemma3n {wants}",
                hint="use the folder itself",
            )
    shut = [NormalDist().inv_cdf(s) if (s := x.mlp.sparsity) else -np.inf for x in layers]
    return {
        "feed_forward_length": layers[0].mlp.inner,
        "attention.shared_kv_layers": len(layers) - with_keys,
        "attention.sliding_window_pattern": np.array([a.window is not None for a in attention]),
        "activation_sparsity_scale": np.array(shut, np.float32),
    }


def _unread(model: Any) -> dict[str, tuple[int, ...]]:
    """Keys and values of the layers that read those of others."""
    unread_shapes: dict[str, tuple[int, ...]] = {}
    for i, layer in enumerate(model.spec.layers):
        a = layer.attention
        if a.keys_of is not None:
            shape = a.kv_heads * a.head_dim, model.spec.width
            unread_shapes |= {f"blk.{i}.attn_{n}.weight": shape for n in "kv"}
            unread_shapes[f"blk.{i}.attn_k_norm.weight"] = (a.head_dim,)
    return unread_shapes
