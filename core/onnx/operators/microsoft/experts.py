"""Mixtures of experts: MoE, and QMoE, whose experts hold packed weights."""

from __future__ import annotations

from typing import Any

from rushlight.core.basis.dtype import float32, int64
from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.microsoft.entering import contrib
from rushlight.core.onnx.operators.microsoft.packed_weights import (
    corrections,
    padded_to,
    unpacked_weight,
)
from rushlight.core.onnx.registry import Call


def chosen_experts(
    call: Call, scores: Any, normalized: bool, weights: Any = None
) -> tuple[Any, Any]:
    """The experts of each row (rows, k) and their weights, which sum to one if normalized."""
    count = call.int("k", 1)
    if call.flag("use_sparse_mixer"):
        raise call.fail("use_sparse_mixer=1 is not supported")
    best, experts = rl.topk(scores.to(float32), count, -1)
    if weights is not None:
        best = rl.gather(weights.to(float32), -1, experts)
        if normalized:
            best = best / rl.sum(best, -1, keepdim=True)
        return experts, best
    if normalized:
        return experts, rl.softmax(best, -1)
    every = rl.softmax(scores.to(float32), -1)
    return experts, rl.gather(every, -1, experts)


def activated(call: Call, first: Any, third: Any) -> Any:
    """What the activation makes of the first layer's result, and of the third's if there is one."""
    kinds = ("relu", "gelu", "silu", "swiglu", "identity", "relu2", "geglu")
    kind = call.choice("activation_type", "relu", *kinds)
    fusion, limit = call.int("swiglu_fusion", 0), call.float("swiglu_limit", float("inf"))
    alpha, beta = call.float("activation_alpha", 1.0), call.float("activation_beta", 0.0)
    if call.flag("swiglu_limit_after_activation"):
        raise call.fail("swiglu_limit_after_activation=1 is not supported")
    if kind in ("swiglu", "geglu"):
        if third is None and fusion == 1:  # gate and up are neighbours
            pairs = first.reshape(*first.shape[:-1], first.shape[-1] // 2, 2)
            first, third = pairs[..., 0], pairs[..., 1]
        elif third is None and fusion == 2:
            first, third = rl.chunk(first, 2, -1)
        if third is None:
            raise call.fail(f"swiglu_fusion={fusion} needs fc3_experts_weights")
        if kind == "geglu":
            return F.gelu(first, approximate="tanh") * third
        if limit != float("inf"):
            first, third = rl.clamp(first, max=limit), rl.clamp(third, -limit, limit)
        gate = first if alpha == 1.0 else first * alpha
        return first * rl.sigmoid(gate) * (third + beta if beta else third)
    plain: Any = {
        "relu": rl.relu, "gelu": F.gelu, "silu": F.silu, "identity": lambda x: x,
        "relu2": lambda x: rl.square(rl.relu(x)),
    }[kind]  # fmt: skip
    result = plain(first)
    return result if third is None else result * third


def _mixed(call: Call, x: Any, experts: Any, weights: Any, layers: list[Any]) -> Any:
    """The sum of the experts' results. layers: functions of rows and experts; the third or None."""
    flat = x.reshape(-1, x.shape[-1])
    count = experts.shape[-1]
    spread = flat.unsqueeze(1).expand(flat.shape[0], count, flat.shape[1])
    experts = experts.to(int64)
    first, second, third = layers
    gated = None if third is None else third(spread, experts)
    hidden = activated(call, first(spread, experts), gated)
    results = second(hidden, experts)
    return rl.sum(results * weights.unsqueeze(-1), 1).to(x.dtype).reshape(x.shape)


def _layer(weight: Any, bias: Any, less: Any = None) -> Any:
    """A function of rows and their experts; None without a weight.

    less: (experts, rows, groups), what each element of a group of blocks lacks.
    """
    if weight is None:
        return None

    def run(rows: Any, experts: Any) -> Any:
        wide = padded_to(rows, weight.shape[-1])
        result = F.linear_experts(wide, weight, experts, bias)
        if less is None:
            return result
        sums = rl.sum(wide.reshape(*wide.shape[:-1], less.shape[-1], -1), -1)
        return result + F.linear_experts(sums, less, experts)

    return run


@contrib("MoE", stored=(2, 4, 6))
def moe(
    call: Call,
    x: Any,
    scores: Any,
    weight1: Any,
    bias1: Any,
    weight2: Any,
    bias2: Any = None,
    weight3: Any = None,
    bias3: Any = None,
) -> Any:
    """The weighed results of each row's best experts, networks of two or three layers."""
    normalized = call.flag("normalize_routing_weights")
    experts, weights = chosen_experts(call, scores, normalized)
    layers = [_layer(weight1, bias1), _layer(weight2, bias2), _layer(weight3, bias3)]
    return _mixed(call, x, experts, weights, layers)


@contrib("QMoE", stored=(2, 5, 8))
def quantized_moe(call: Call, x: Any, scores: Any, *rest: Any) -> Any:
    """MoE with experts of packed weights of 2, 4 or 8 bits."""
    call.choice("quant_type", "int", "int")
    inputs = [x, scores, *rest, *[None] * (21 - 2 - len(rest))]
    if any(t is not None for t in inputs[15:]):
        raise call.fail("scales of activations and global scales are not supported")
    if call.int("weights_prepacked", -1) > 0:
        raise call.fail("weights_prepacked=1 is not supported; supported: 0, and -1 on a CPU")
    call.ignore("accuracy_level")
    bits, size = call.int("expert_weight_bits", 4), call.int("block_size", 0)
    layers = []
    for number, places in enumerate(((2, 3, 4, 11), (5, 6, 7, 12), (8, 9, 10, 13)), 1):
        own = call.int(f"fc{number}_expert_weight_bits", bits)
        weight, scales, bias, zeros = (inputs[p] for p in places)
        less = None
        if weight is not None and weight.dtype.kind != "q":
            weight = _expanded(call, weight, scales, zeros, own, size, places[3])
        elif scales is not None:
            count, rows = weight.shape[:2]
            less = corrections(count * rows, scales, zeros, own).reshape(count, rows, -1)
        layers.append(_layer(weight, bias, less))
    # Without weights of their own experts share one, whatever normalize_routing_weights says, as
    # onnxruntime has it on a CPU.
    normalized = call.flag("normalize_routing_weights") or inputs[14] is None
    experts, weights = chosen_experts(call, scores, normalized, inputs[14])
    return _mixed(call, x, experts, weights, layers)


def _expanded(
    call: Call,
    weight: Any,
    scales: Any,
    zeros: Any,
    bits: int,
    size: int,
    place: int,
) -> Any:
    """(experts, rows, columns) of packed bytes, in float32."""
    count, rows, nbytes = weight.shape
    groups = nbytes * 8 // bits // size if size > 0 else 1
    if zeros is not None and size <= 0:
        raise call.fail("zero points without block_size are not supported")
    codes = weight.reshape(count, rows, groups, nbytes // groups)
    return unpacked_weight(call, codes, scales, zeros, bits, place)
