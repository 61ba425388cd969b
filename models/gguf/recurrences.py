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
    "attn_norm": "ln1",
    "attn_norm_2": "ln2",
    "time_mix_ln": "att.ln_x",
    "time_mix_key": "att.key",
    "time_mix_value": "att.value",
    "time_mix_output": "att.output",
    "time_mix_receptance": "att.receptance",
    "channel_mix_key": "ffn.key",
    "channel_mix_value": "ffn.value",
}


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


def rwkv(
    model_type: str,
    architecture: str,
    keys: Mapping[str, str],
    names: Mapping[str, str],
    turned: Sequence[str],
    vectors: Sequence[str],
    mixed: Sequence[str],
    **more: Any,
) -> Architecture:
    """The architecture of a version of RWKV.

    names: of its own tensors in GGUF, within a layer. turned: matrices that GGUF has transposed.
    vectors: those that it has as (1, 1, n). mixed: vectors that it has in one tensor, in order.
    """
    known = _SHARED | dict(names) | {"time_mix_lerp_fused.weight": "att.fused"}
    return Architecture(
        model_type,
        architecture,
        keys=keys,
        decoder=NAMES,
        metadata=_tell,
        transforms=dict.fromkeys(turned, _TURNED)
        | dict.fromkeys(vectors, _VECTOR)
        | {"att.r_k": _HEADS},
        parts={
            **{f"blk.{{}}.{theirs}": f"blocks.{{}}.{ours}" for theirs, ours in known.items()},
            "token_embd_norm": "blocks.0.ln0",
        },
        regroups=(_fused(mixed),),
        **more,
    )


def _tell(model: Any) -> dict[str, Any]:
    attention = model.spec.layers[0].attention
    if model.spec.tied:
        raise LoadError(
            f"RWKV {attention.version} with a tied head cannot be written as GGUF",
            hint="use the folder itself",
        )
    return {
        "attention.head_count": 0,
        "feed_forward_length": attention.inner,
        "wkv.head_size": attention.size,
    }
