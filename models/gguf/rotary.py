"""Rotary positions as a GGUF file has them: keys, and divisors of the frequencies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import LoadError
from rushlight.core.nn.rope import Rope
from rushlight.core.tensor.convert import tensor
from rushlight.models.gguf.names import FACTORS
from rushlight.models.gguf.shapes import rotary_of
from rushlight.models.gguf.weights import Weight
from rushlight.models.model import Model

_ROPE, _LONG, _SHORT = FACTORS
# llama.cpp reads no divisors of frequencies of these architectures, and says nothing.
_WITHOUT_DIVISORS = ("falcon-h1", "dots1")
_STILL = 1e30  # the divisor of pairs that are not rotated


def rope_of(kind: str, model: Model) -> tuple[dict[str, Any], list[Weight]]:
    """The scaling of rotary positions: keys, or divisors of the frequencies.

    Layers with a window never have one, where they have positions of their own.
    """
    spec = rotary_of(model)
    if spec is None:
        return {}, []
    rope, key = model.rotary.ropes[spec], f"{kind}.rope.scaling"
    plain = spec.theta ** (-2.0 * np.arange(spec.dim // 2) / spec.dim)

    def divisors(name: str, frequencies: Any) -> Weight:
        factors = (plain / np.array(frequencies)).astype(np.float32)
        return Weight(name, float32, factors.shape, partial(tensor, factors))

    if rope.long:
        return {
            f"{key}.original_context_length": np.uint32(rope.limit),
            f"{key}.attn_factor": np.float32(rope.amplitude),
        }, [divisors(_LONG, rope.long), divisors(_SHORT, rope.frequencies)]
    kinds = json.loads(spec.scaling or "{}")
    if kinds.get("rope_type", kinds.get("type")) == "yarn":
        told = {"deepseek2": _magnified, "mistral3": _shared}.get(kind, _yarn)
        return told(key, kinds, rope), []
    if rope.amplitude != 1 or rope.stretch:
        raise LoadError(
            f"rotary positions scaled by {kinds.get('rope_type', kinds.get('type'))!r:.40} cannot "
            "be written as GGUF; supported: default, linear, llama3, longrope, yarn"
        )
    turned = np.array(rope.frequencies)
    turned[turned == 0] = plain[turned == 0] / _STILL
    factors = (plain / turned).astype(np.float32)
    if (factors != factors[0]).any():
        if kind in _WITHOUT_DIVISORS:
            raise LoadError(
                f"rotary positions scaled by {kinds.get('rope_type')!r:.40} cannot be written as "
                f"GGUF of {kind}: llama.cpp does not read their divisors there",
                hint="use the folder itself",
            )
        return {}, [divisors(_ROPE, turned)]
    if factors[0] != 1:
        return {f"{key}.type": "linear", f"{key}.factor": float(factors[0])}, []
    return {}, []


def _magnified(key: str, scaling: Mapping[str, Any], rope: Rope) -> dict[str, Any]:
    """The keys of yarn of latent attention, whose scores have the amplitude."""
    share, amplitude = float(scaling.get("mscale_all_dim") or 0), float(rope.amplitude)
    if not share or amplitude != 1:
        raise LoadError(
            f"yarn with mscale_all_dim {share:g} and an amplitude of {amplitude:g} cannot be "
            "written as GGUF of deepseek2: the amplitude must be 1",
            hint="use the folder itself",
        )
    return _yarn(key, scaling, rope, 1.0) | {f"{key}.yarn_log_multiplier": np.float32(0.1 * share)}


def _shared(key: str, scaling: Mapping[str, Any], rope: Rope) -> dict[str, Any]:
    """The keys of yarn whose amplitude is divided by that of `mscale_all_dim`."""
    share = float(scaling.get("mscale_all_dim") or 0) if scaling.get("mscale") else 0.0
    grown = 0.1 * np.log(float(scaling["factor"]))
    keys = _yarn(key, scaling, rope, (grown + 1) / (grown * share + 1))
    return keys | {f"{key}.yarn_log_multiplier": np.float32(share)}


def _yarn(
    key: str, scaling: Mapping[str, Any], rope: Rope, amplitude: float | None = None
) -> dict[str, Any]:
    """The keys of yarn; LoadError where llama.cpp would scale cos and sin otherwise."""
    factor = float(scaling["factor"])
    amplitude = 0.1 * np.log(factor) + 1 if amplitude is None else amplitude
    if not np.isclose(rope.amplitude, amplitude) or not scaling.get("truncate", True):
        raise LoadError(
            "yarn with attention_factor, mscale or truncate cannot be written as GGUF",
            hint="use the folder itself",
        )
    keys: dict[str, Any] = {
        f"{key}.type": "yarn",
        f"{key}.factor": np.float32(factor),
        f"{key}.original_context_length": np.uint32(scaling["original_max_position_embeddings"]),
    }
    for ours, theirs in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
        if scaling.get(ours):
            keys[f"{key}.{theirs}"] = np.float32(scaling[ours])
    return keys
