"""GGUF of RWKV 6 and 7: vectors of mixtures in one tensor, matrices of low rank turned around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.gguf.architecture import Architecture, Regroup, Transform, floats
from rushlight.models.layers.blocks.rwkv_files import NAMES

_SHARED = {
    "attn_norm": "ln1", "attn_norm_2": "ln2", "time_mix_ln": "att.ln_x",
    "time_mix_key": "att.key", "time_mix_value": "att.value", "time_mix_output": "att.output",
    "time_mix_receptance": "att.receptance", "channel_mix_key": "ffn.key",
    "channel_mix_value": "ffn.value",
}  # fmt: skip
_SIX = {
    "time_mix_gate": "att.gate", "channel_mix_receptance": "ffn.receptance",
    "channel_mix_lerp_k.weight": "ffn.time_maa_k", "channel_mix_lerp_r.weight": "ffn.time_maa_r",
    "time_mix_first.weight": "att.time_faaaa", "time_mix_decay.weight": "att.time_decay",
    **{f"time_mix_decay_w{i}.weight": f"att.time_decay_w{i}" for i in (1, 2)},
    **{f"time_mix_w{i}.weight": f"att.time_maa_w{i}" for i in (1, 2)},
    **{f"time_mix_lerp_{n}.weight": f"att.time_maa_{n}" for n in "xwkvrg"},
}  # fmt: skip
_SEVEN = {
    "channel_mix_lerp_k.weight": "ffn.x_k",
    **{f"time_mix_{n}.weight": f"att.{n}" for n in ("k_k", "k_a", "r_k")},
    **{f"time_mix_{n}{i}.weight": f"att.{n}{i}" for n in "wavg" for i in range(3)},
}  # fmt: skip


def _turned(t: Tensor, config: Mapping[str, Any]) -> Tensor:
    return t if t.ndim < 2 else floats(t).transpose(-2, -1)


_VECTOR = Transform(lambda t, c: t.reshape(1, 1, -1), lambda t, c: t.reshape(-1))
_TURNED = Transform(_turned, _turned)
_HEADS = Transform(
    lambda t, c: t.reshape(-1, size) if (size := c["head_dim"]) and not t.numel() % size else t,
    _VECTOR.redo,
)


def _fused(names: Sequence[str]) -> Regroup:
    """The vectors `names` in one tensor."""

    def apart(c: Mapping[str, Any], t: Tensor) -> Sequence[Tensor]:
        if t.ndim < 2 or t.shape[0] != len(names):
            raise FormatError(f"time_mix_lerp_fused is {t.shape}; it has {len(names)} vectors")
        return [t[i].reshape(-1) for i in range(len(names))]

    def together(c: Mapping[str, Any], *each: Tensor) -> Sequence[Tensor]:
        return [stack([t.reshape(1, 1, -1) for t in each])]

    return Regroup(tuple(names), ("att.fused",), apart, together)


def rwkv(version: int, architecture: str) -> Architecture:
    """RWKV's of version 6 or 7."""
    six = version == 6
    keys = {
        "layer_norm_epsilon": "attention.layer_norm_epsilon", "head_size": "wkv.head_size",
        "time_mix_extra_dim": "time_mix_extra_dim", "time_decay_extra_dim": "time_decay_extra_dim",
        "halved_every": "rescale_every_n_layers",
    } if six else {
        "norm_eps": "attention.layer_norm_epsilon", "head_dim": "wkv.head_size",
        "decay_low_rank_dim": "attention.decay_lora_rank",
        "a_low_rank_dim": "attention.iclr_lora_rank",
        "v_low_rank_dim": "attention.value_residual_mix_lora_rank",
        "gate_low_rank_dim": "attention.gate_lora_rank",
    }  # fmt: skip
    names = _SHARED | (_SIX if six else _SEVEN) | {"time_mix_lerp_fused.weight": "att.fused"}
    turned = ("time_maa_w1", "time_maa_w2", "time_decay_w1", "time_decay_w2") if six else tuple(
        f"{n}{i}" for n in "wavg" for i in (1, 2)
    )  # fmt: skip
    vectors = ("att.time_maa_x", "att.time_decay", "ffn.time_maa_k", "ffn.time_maa_r") if six else (
        "att.w0", "att.a0", "att.v0", "att.k_k", "att.k_a", "ffn.x_k"
    )  # fmt: skip
    prefix, order = ("att.time_maa_", "wkvrg") if six else ("att.x_", "rwkvag")
    return Architecture(
        f"rwkv{version}", architecture, keys=keys, decoder=NAMES, metadata=_tell,
        fixed={} if six else {"group_norm_eps": 64e-5},
        transforms=dict.fromkeys(turned, _TURNED) | dict.fromkeys(vectors, _VECTOR)
        | {"att.r_k": _HEADS}, parts={
            **{f"blk.{{}}.{theirs}": f"blocks.{{}}.{ours}" for theirs, ours in names.items()},
            "token_embd_norm": "blocks.0.ln0",
        }, regroups=(_fused([prefix + name for name in order]),),
        filled=lambda model: {} if six else _unread(model),
    )  # fmt: skip


def _tell(model: Any) -> dict[str, Any]:
    one = model.spec.layers[0].attention
    if model.spec.tied:
        raise LoadError(f"RWKV {one.version} with a tied head cannot be written as GGUF",
                        hint="use the folder itself")  # fmt: skip
    return {"attention.head_count": 0, "feed_forward_length": one.inner,
            "wkv.head_size": one.size}  # fmt: skip


def _unread(model: Any) -> dict[str, tuple[int, ...]]:
    """The first layer's v0, v1 and v2, which take no part."""
    one = model.spec.layers[0].attention
    channels, rank = one.heads * one.size, one.ranks[1]
    shapes = (channels,), (rank, one.width), (channels, rank)
    return {f"blk.0.time_mix_v{i}.weight": shape for i, shape in enumerate(shapes)}
