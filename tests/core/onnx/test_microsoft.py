"""The operators of com.microsoft give what onnxruntime gives, over their attributes and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.native

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)
U8, I8, I32, I64 = np.uint8, np.int8, np.int32, np.int64


def real(*shape: int) -> Array:
    return np.asarray(RNG.normal(size=shape)).astype(np.float32)


def whole(low: int, high: int, shape: Sequence[int], dtype: Any = I32) -> Array:
    return np.asarray(RNG.integers(low, high, shape)).astype(dtype)


def scale(*shape: int) -> Array:
    return np.asarray(RNG.uniform(0.01, 0.1, shape)).astype(np.float32)


def model(
    op: str, inputs: Sequence[Any], outputs: Sequence[int], constant: Sequence[int], attrs: Any
) -> Any:
    """A model of one node. outputs: for each the type's number, 0 for one that is not asked for."""
    helper, names, infos, held = onnx.helper, [], [], []
    for i, x in enumerate(inputs):
        names.append("" if x is None else f"i{i}")
        if x is not None and i in constant:
            held.append(onnx.numpy_helper.from_array(np.asarray(x), f"i{i}"))
        elif x is not None:
            kind = helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype)
            infos.append(helper.make_tensor_value_info(f"i{i}", kind, np.shape(x)))
    results = [f"o{i}" if kind else "" for i, kind in enumerate(outputs)]
    node = helper.make_node(op, names, results, domain=attrs.pop("domain", "com.microsoft"))
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attrs.items())
    told = [
        helper.make_tensor_value_info(n, kind, None)
        for n, kind in zip(results, outputs, strict=True)
        if n
    ]
    graph = helper.make_graph([node], "g", infos, told, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def compare(
    device: str,
    op: str,
    inputs: Sequence[Any],
    *,
    outputs: Sequence[int] = (1,),
    constant: Sequence[int] = (),
    near: float = 1e-4,
    steps: int = 0,
    compared: int | None = None,
    **attrs: Any,
) -> None:
    """Run both. near: the relative error of floats. steps: how far integers may be off.

    compared: how many results are looked at, None for all.
    """
    data = model(op, inputs, outputs, constant, attrs).SerializeToString()
    feeds = {
        f"i{i}": np.asarray(x) for i, x in enumerate(inputs) if x is not None and i not in constant
    }
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    found = rl.onnx.load(data, device=device)(**feeds)
    found = [found] if isinstance(found, rl.Tensor) else list(found)
    assert len(found) == len(expected)
    for mine, theirs in zip(found[:compared], expected[:compared], strict=True):
        got = mine.numpy() if isinstance(mine, rl.Tensor) else mine
        assert (got.shape, got.dtype) == (theirs.shape, theirs.dtype)
        if theirs.dtype.kind in "iu":
            assert np.abs(got.astype(I64) - theirs.astype(I64)).max(initial=0) <= steps
            continue
        error = max(near, 2e-3 if theirs.dtype == np.float16 else 0)
        large = float(np.abs(theirs).max(initial=1e-6))
        np.testing.assert_allclose(
            got.astype(np.float64), theirs.astype(np.float64), rtol=error, atol=error * large
        )


@pytest.mark.parametrize("shape", [(), (0, 4), (2, 3, 4)])
def test_activations(shape: tuple[int, ...], device: str) -> None:
    compare(device, "Gelu", [real(*shape)])
    compare(device, "QuickGelu", [real(*shape)], alpha=0.7)
    if shape:
        compare(device, "FastGelu", [real(*shape)])
        compare(device, "BiasGelu", [real(*shape), real(shape[-1])])
        compare(device, "FastGelu", [real(*shape), real(shape[-1])])


def test_norms(device: str) -> None:
    x, skip = real(2, 3, 8), real(2, 3, 8)
    for half in (False, True):
        kind = 10 if half else 1

        def cast(*arrays: Array, half: bool = half) -> list[Array]:
            return [a.astype(np.float16) if half else a for a in arrays]

        outputs = (kind, 0, 0, kind)
        compare(
            device, "SkipSimplifiedLayerNormalization", cast(x, skip, real(8), real(8)),
            outputs=outputs, epsilon=1e-3,
        )  # fmt: skip
        compare(
            device, "SkipLayerNormalization", cast(x, skip, real(8), real(8), real(8)),
            outputs=outputs,
        )  # fmt: skip
        compare(
            device, "SimplifiedLayerNormalization", cast(x, real(8)), outputs=(kind,), domain=""
        )
    compare(device, "SkipLayerNormalization", [x, real(3, 8), real(8)])


@pytest.mark.parametrize("masked", [False, True])
def test_embeddings(masked: bool, device: str) -> None:
    ids, segments = whole(0, 10, (2, 5)), whole(0, 2, (2, 5))
    mask = whole(0, 2, (2, 5)) if masked else None
    rest = [real(10, 8), real(6, 8), real(2, 8), real(8), real(8), mask]
    compare(device, "EmbedLayerNormalization", [ids, segments, *rest], outputs=(1, 6, 1))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_positions(interleaved: int, device: str) -> None:
    places, table = whole(0, 20, (2, 3), I64), (real(20, 4), real(20, 4))
    op = "RotaryEmbedding"
    compare(device, op, [real(2, 3, 32), places, *table], interleaved=interleaved)
    compare(device, op, [real(2, 4, 3, 8), np.array([5]), *table], interleaved=interleaved)
    compare(
        device, op, [real(2, 3, 32), places, real(20, 2), real(20, 2)],
        interleaved=interleaved, num_heads=4, rotary_embedding_dim=4,
    )  # fmt: skip


MASKS: list[tuple[list[Any], int]] = [
    ([[1, 1, 0], [1, 0, 0]], 0), ([2, 3], 0), ([3, 2, 1, 0], 0), ([[0, 0, 1], [1, 1, 1]], 1),
    ([[0, 0, 0], [1, 1, 1]], 0),
]  # fmt: skip


@pytest.mark.parametrize(("mask", "causal"), MASKS)
def test_attention_masks(mask: list[Any], causal: int, device: str) -> None:
    inputs = [real(2, 3, 6), real(6, 24), real(24), np.array(mask, I32)]
    compare(device, "Attention", inputs, num_heads=2, unidirectional=causal)


def test_attention_and_its_past(device: str) -> None:
    inputs = [real(2, 3, 6), real(6, 24), None, None, real(2, 2, 2, 2, 4)]
    for causal in (0, 1):
        compare(device, "Attention", inputs, outputs=(1, 1), num_heads=2, unidirectional=causal)
    sizes: dict[str, Any] = {"qkv_hidden_sizes": [8, 8, 12]}
    compare(device, "Attention", [real(2, 3, 6), real(6, 28), real(28)], num_heads=2, **sizes)


def test_multi_head_attention(device: str) -> None:
    op, q, k, v = "MultiHeadAttention", real(2, 3, 8), real(2, 5, 8), real(2, 5, 12)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], I32)
    compare(device, op, [q, k, v], num_heads=2, scale=0.2)
    compare(device, op, [q, k, v, real(28), mask], num_heads=2)
    compare(device, op, [q, real(2, 2, 5, 4), real(2, 2, 5, 4)], num_heads=2)
    new, past = [real(2, 3, 8) for _ in range(3)], [real(2, 2, 2, 4) for _ in range(2)]
    inputs = [*new, real(24), mask, real(1, 2, 3, 5), *past]
    compare(device, op, inputs, outputs=(1, 1, 1), num_heads=2, unidirectional=1)
    compare(device, op, [q, k, v, None, mask], outputs=(1, 1, 1, 1), num_heads=2)


def test_decoding_attention(device: str) -> None:
    op, tokens = "DecoderMaskedMultiHeadAttention", [real(2, 1, 8) for _ in range(3)]
    caches = [real(2, 2, 8, 4), real(2, 2, 8, 4)]
    caches[0][:, :, 4:] = caches[1][:, :, 4:] = 0
    inputs = [*tokens, None, None, *caches, np.array([3], I32), None, None, real(24)]
    shared: dict[str, Any] = {"past_present_share_buffer": 1}
    compare(device, op, inputs, outputs=(1, 1, 1), constant=(7,), num_heads=2, **shared)


GROUPED: list[dict[str, Any]] = [
    {}, {"packed": 1}, {"rotary": 1}, {"rotary": 1, "packed": 1, "rotary_interleaved": 1},
    {"past": 4, "length": 1, "rotary": 1}, {"past": 4, "length": 1, "buffer": 9, "rotary": 1},
    {"past": 5, "length": 1, "local_window_size": 2}, {"length": 6, "local_window_size": 3},
    {"softcap": 2.0}, {"smooth_softmax": 1}, {"sinks": 1}, {"bias": 1}, {"scale": 0.1},
    {"past": 4, "length": 1, "bias": 1}, {"causal": 0}, {"half": 1, "rotary": 1},
    {"batch": 1, "past": 4, "length": 3, "buffer": 10, "rotary": 1},
]  # fmt: skip


@pytest.mark.parametrize("case", GROUPED, ids=str)
def test_grouped_attention(case: dict[str, Any], device: str) -> None:
    case = dict(case)
    names = ("packed", "rotary", "past", "buffer", "sinks", "bias", "half")
    packed, rotary, past, buffer, sinks, bias, half = (case.pop(n, 0) for n in names)
    batch, length = case.pop("batch", 2), case.pop("length", 3)
    heads, groups, width = 4, 2, 16
    total = past + length
    q, k, v = real(batch, length, 64), real(batch, length, 32), real(batch, length, 32)
    inputs: list[Any] = [q, k, v]
    if packed:
        inputs = [np.concatenate([q, k, v], -1), None, None]
    caches: list[Any] = [None, None]
    if past:
        # Rows after the past are whatever was in the buffer; both write over them or keep them.
        caches = [real(batch, groups, buffer or past, width) for _ in range(2)]
        for cache in caches:
            cache[:, :, total:] = 0
    inputs += [*caches, np.full(batch, total - 1, I32), np.array(total, I32)]
    inputs += [real(32, 8), real(32, 8)] if rotary else [None, None]
    inputs += [None, real(batch, heads, length, total) if bias else None]
    inputs += [real(heads) if sinks else None]
    if half:
        inputs = [
            x.astype(np.float16) if x is not None and x.dtype == np.float32 else x for x in inputs
        ]
    compare(
        device, "GroupQueryAttention", inputs, outputs=(10 if half else 1,) * 3, constant=(6,),
        num_heads=heads, kv_num_heads=groups, do_rotary=rotary, **case,
    )  # fmt: skip


def test_grouped_attention_of_rows_of_several_lengths(device: str) -> None:
    inputs = [real(2, 1, 64), real(2, 1, 32), real(2, 1, 32), real(2, 2, 4, 16), real(2, 2, 4, 16)]
    for cache in inputs[3:]:
        cache[1, :, 2:] = 0  # of the second row two keys are past
    inputs += [np.array([4, 2], I32), np.array(5, I32), real(32, 8), real(32, 8)]
    # Rows of a cache that no key has been written to hold anything in onnxruntime.
    compare(
        device, "GroupQueryAttention", inputs, outputs=(1, 1, 1), compared=1, constant=(6,),
        num_heads=4, kv_num_heads=2, do_rotary=1,
    )  # fmt: skip


@pytest.mark.parametrize("turned", [0, 1])
def test_fused_products(turned: int, device: str) -> None:
    a = real(2, 4, 3) if turned else real(2, 3, 4)
    compare(device, "FusedMatMul", [a, real(2, 4, 5)], transA=turned, alpha=0.5)
    batch = real(3, 2, 7, 4) if turned else real(2, 3, 7, 4)
    batch = np.moveaxis(real(2, 3, 7, 4), -2, 0).copy() if turned else batch
    compare(device, "FusedMatMul", [batch, real(2, 3, 4, 5)], transBatchA=turned)
    activations: list[tuple[str, dict[str, Any]]]
    activations = [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2})]
    for name, more in activations:
        inputs = [real(3, 4), real(5, 4) if turned else real(4, 5), real(5)]
        compare(device, "FusedGemm", inputs, transB=turned, activation=name, beta=2.0, **more)
    inputs = [real(1, 4, 6, 5), real(6, 2, 3, 3), real(6), real(1, 6, 6, 5)]
    compare(device, "FusedConv", inputs, activation="Relu", pads=[1, 1, 1, 1], group=2)


@pytest.mark.parametrize("normalized", [0, 1])
def test_mixtures_of_experts(normalized: int, device: str) -> None:
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("silu", {}),
        ("swiglu", {"swiglu_fusion": 1, "activation_alpha": 1.702, "swiglu_limit": 0.7}),
    ]
    for kind, more in kinds:
        wide = 24 if more else 12
        inputs = [real(5, 8), real(5, 4), real(4, wide, 8), real(4, wide), real(4, 8, 12)]
        compare(
            device, "MoE", [*inputs, real(4, 8)], k=2, activation_type=kind,
            normalize_routing_weights=normalized, **more,
        )  # fmt: skip


@pytest.mark.parametrize(("size", "bits"), [(0, 4), (32, 4), (64, 4), (0, 8)])
def test_mixtures_of_packed_experts(size: int, bits: int, device: str) -> None:
    groups = (64 // size,) if size else ()
    inputs = [
        real(4, 64), real(4, 3), whole(0, 256, (3, 64, 8 * bits), U8), scale(3, 64, *groups),
        real(3, 64), whole(0, 256, (3, 64, 8 * bits), U8), scale(3, 64, *groups), real(3, 64),
    ]  # fmt: skip
    attrs: dict[str, Any] = {"expert_weight_bits": bits, "k": 2, "activation_type": "silu"}
    attrs |= {"block_size": size} if size else {}
    for constant in ((), (2, 3, 5, 6)):
        compare(device, "QMoE", inputs, constant=constant, near=1e-3, **attrs)


@pytest.mark.parametrize("dtype", [U8, I8])
def test_quantized_elements(dtype: Any, device: str) -> None:
    kind = 2 if dtype is U8 else 3

    def some(*shape: int) -> Array:
        return whole(0 if dtype is U8 else -60, 256 if dtype is U8 else 60, shape, dtype)

    def zero() -> Array:
        return np.array(whole(100, 140, (), I32) if dtype is U8 else whole(-20, 20, ()), dtype)

    for op in ("QLinearAdd", "QLinearMul"):
        inputs = [some(2, 3, 4), scale(), zero(), some(4), scale(), zero(), scale(), zero()]
        compare(device, op, inputs, outputs=(kind,), steps=1)
    one = [some(2, 3, 4, 5), scale(), zero(), scale(), zero()]
    compare(device, "QLinearSigmoid", [*one[:3], np.float32(1 / 256), zero()], outputs=(kind,))
    compare(device, "QLinearLeakyRelu", one, outputs=(kind,), alpha=0.1)
    for last in (0, 1):
        pools: dict[str, Any] = {"outputs": (kind,), "steps": 1, "channels_last": last}
        compare(device, "QLinearGlobalAveragePool", one, **pools)
        compare(device, "QLinearAveragePool", one, kernel_shape=[2, 3], pads=[0, 1, 1, 0], **pools)
    parts = [scale(), zero(), some(2, 3), scale(), zero(), some(2, 4), scale(), zero()]
    constant = (0, 1, 3, 4, 6, 7)
    compare(device, "QLinearConcat", parts, outputs=(kind,), constant=constant, steps=1, axis=1)
    inputs = [whole(0, 2, (2, 3), np.bool_), some(2, 3), scale(), zero(), some(3), scale(), zero()]
    constant = (2, 3, 5, 6, 7, 8)
    compare(
        device, "QLinearWhere", [*inputs, scale(), zero()], outputs=(kind,), constant=constant,
        steps=1,
    )  # fmt: skip
    compare(device, "DequantizeLinear", [some(2, 3), scale(3), some(3)], axis=1)
    compare(device, "QuantizeLinear", [real(2, 3), scale(), zero()], outputs=(kind,), steps=1)


def test_quantized_products(device: str) -> None:
    # onnxruntime sums products of bytes in 16 bits on some processors: small weights fit.
    weight, zero = whole(-60, 60, (4, 5), I8), np.array(3, I8)
    inputs = [real(2, 3, 4), weight, scale(5), whole(-9, 9, (5,), I8), real(5)]
    compare(device, "DynamicQuantizeMatMul", inputs, constant=(1, 2, 3))
    levels = whole(0, 256, (3, 4), U8)
    inputs = [levels, weight, scale(), scale(), np.array(120, U8), zero, real(5)]
    compare(device, "MatMulIntegerToFloat", inputs)
    inputs = [levels, scale(), np.array(120, U8), weight, scale(), zero, whole(-99, 99, (5,))]
    compare(device, "QGemm", inputs, alpha=0.5)
    more = [scale() * 10, np.array(120, U8)]
    compare(device, "QGemm", [*inputs, *more], outputs=(2,), steps=1)
    inputs = [
        whole(0, 256, (2, 3, 6), U8), whole(-60, 60, (6, 24), I8), real(24), scale(), scale(),
        np.array([2, 3], I32), np.array(7, U8), np.array(1, I8),
    ]  # fmt: skip
    compare(device, "QAttention", inputs, num_heads=2)


def test_images(device: str) -> None:
    for mode in ("bilinear", "nearest"):
        grid = RNG.uniform(-1.3, 1.3, (2, 4, 3, 2)).astype(np.float32)
        compare(device, "GridSample", [real(2, 3, 5, 6), grid], mode=mode, align_corners=1)
        boxes = RNG.uniform(-0.2, 1.2, (4, 4)).astype(np.float32)
        for size in ([3, 4], [1, 5]):
            inputs = [real(2, 3, 5, 7), boxes, np.array([0, 1, 1, 0], I32), np.array(size, I32)]
            compare(
                device, "CropAndResize", inputs, constant=(3,), mode=mode, extrapolation_value=0.5
            )
    inputs = [real(1, 3, 4, 5), real(3, 2, 3, 3), np.array([1, 0, 1, 1], I64), real(2)]
    compare(device, "ConvTransposeWithDynamicPads", inputs, constant=(2,), strides=[2, 2])


def test_others(device: str) -> None:
    compare(device, "Trilu", [real(2, 4, 5), np.array(1, I64)], constant=(1,), upper=0)
    compare(device, "ExpandDims", [real(2, 3), np.array(-1, I32)], constant=(1,))
    compare(device, "Pad", [real(2, 3), np.array([[1, 0, 0, 2]], I64)], constant=(1,), mode="edge")
    start, limit = np.array([1], np.float32), np.array([4], np.float32)
    compare(device, "Range", [start, limit], constant=(0, 1))
    compare(device, "GatherND", [real(3, 4, 5), np.array([[0, 1], [2, 3]], I64)])
    compare(device, "UnfoldTensor", [real(3, 9)], dim=1, size=3, step=2)
    compare(device, "CDist", [real(4, 3), real(5, 3)], metric="euclidean")
    if device == "cpu":  # they need values of the host, or a solver
        compare(device, "Inverse", [real(2, 4, 4)], near=1e-3)
        values = whole(0, 5, (12,)).astype(np.float32)
        compare(device, "Unique", [values], outputs=(1, 7, 7))
        compare(device, "DynamicTimeWarping", [real(5, 7)], outputs=(6,))
        compare(device, "MurmurHash3", [whole(-9, 9, (5,))], outputs=(12,), seed=42)


def test_refused_operators_say_why() -> None:
    data = model("BeamSearch", [real(2)], (1,), (), {}).SerializeToString()
    with pytest.raises(rl.FormatError, match="searches for texts within the graph"):
        rl.onnx.load(data)(real(2))
