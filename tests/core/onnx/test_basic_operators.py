"""The basic operators of ONNX: agree with onnxruntime over opsets, dtypes and shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rushlight as rl
from rushlight.core.onnx import load

Array = npt.NDArray[Any]
RNG = np.random.default_rng(7)
INFINITIES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.0, -2.5], np.float32)
IMAGE = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)


def floats(*shape: int) -> Array:
    """Normal numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int64) -> Array:
    """Integers."""
    return RNG.integers(low, high, shape).astype(dtype)


def ints(*values: int) -> Array:
    """A list of int64."""
    return np.array(values, np.int64)


class Case(NamedTuple):
    """A node: inputs, those of them that are constants of the file, and the number of outputs."""

    op: str
    opset: int
    inputs: list[Array]
    attributes: dict[str, Any] = {}
    constants: tuple[int, ...] = ()
    outputs: int = 1


def model_of(case: Case) -> onnx.ModelProto:
    """A file of one node."""
    names = [f"in{i}" for i in range(len(case.inputs))]
    outputs = [f"out{i}" for i in range(case.outputs)]
    infos, records = [], []
    for i, (name, array) in enumerate(zip(names, case.inputs, strict=True)):
        if i in case.constants:
            records.append(numpy_helper.from_array(array, name))
            continue
        kind = (
            TensorProto.STRING
            if array.dtype == object
            else helper.np_dtype_to_tensor_dtype(array.dtype)
        )
        infos.append(helper.make_tensor_value_info(name, kind, array.shape))
    node = helper.make_node(case.op, names, outputs, **case.attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "graph", infos, results, records)
    opsets = [helper.make_opsetid("", case.opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def results_of(case: Case, device: str = "cpu") -> list[Array]:
    """What the module gives, the second time, which replays what the first captured."""
    module = load(model_of(case).SerializeToString(), device=device)
    given = [np.asarray(a) for i, a in enumerate(case.inputs) if i not in case.constants]
    module(*given)
    results = module(*given)
    results = [results] if case.outputs == 1 else list(results)
    return [r.numpy() if isinstance(r, rl.Tensor) else r for r in results]


def check(case: Case, device: str = "cpu") -> None:
    """Shapes, dtypes and values are onnxruntime's."""
    session = onnxruntime.InferenceSession(
        model_of(case).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [f"in{i}" for i in range(len(case.inputs)) if i not in case.constants]
    wanted = session.run(None, {name: case.inputs[int(name[2:])] for name in names})
    for result, expected in zip(results_of(case, device), wanted, strict=True):
        expected = np.asarray(expected)
        assert result.shape == expected.shape
        if expected.dtype.kind in "OUS":
            assert result.tolist() == expected.tolist()
            continue
        assert result.dtype == expected.dtype
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(result, expected)


OLD = [
    *(Case("Softmax", o, [IMAGE], {"axis": 1}) for o in (7, 11, 13)),
    Case("Softmax", 11, [floats(5)], {"axis": 0}),
    *(Case("LogSoftmax", o, [IMAGE]) for o in (7, 13)),
    *(Case("Hardmax", o, [IMAGE], {"axis": 2}) for o in (7, 13)),
    *(Case("Clip", o, [IMAGE], {"min": -0.5, "max": 0.5}) for o in (7, 10)),
    Case("Clip", 13, [IMAGE, np.array(-0.5, np.float32), np.array(0.2, np.float32)], {}, (1,)),
    *(Case("ReduceSum", o, [IMAGE], {"axes": [1, 3], "keepdims": 0}) for o in (7, 11)),
    Case("ReduceSum", 13, [IMAGE, ints(1, -1)]),
    Case("ReduceMax", 18, [IMAGE, ints(0, 2)], {"keepdims": 0}),
    Case("TopK", 7, [IMAGE], {"k": 2, "axis": 1}, (), 2),
    Case("TopK", 11, [np.round(IMAGE), ints(3)], {"largest": 0, "axis": 2}, (1,), 2),
    Case("Slice", 7, [IMAGE], {"axes": [1, 3], "starts": [-2, 1], "ends": [1000, -1]}),
    Case("Slice", 13, [IMAGE, ints(-1, 3), ints(-1000, 0), ints(1, 3), ints(-1, -2)]),
    Case("Squeeze", 11, [floats(1, 3, 1)], {"axes": [0]}),
    Case("Squeeze", 13, [floats(1, 3, 1), ints(-1)]),
    Case("Unsqueeze", 11, [floats(2, 3)], {"axes": [0, 3]}),
    Case("Split", 11, [IMAGE], {"axis": 3, "split": [2, 3]}, (), 2),
    Case("Split", 18, [floats(7)], {"num_outputs": 3}, (), 3),
    Case("Pad", 10, [IMAGE], {"pads": [0, 0, 1, 2, 0, 0, 0, -1], "value": 3.0}),
    *(Case("Dropout", o, [IMAGE]) for o in (7, 10, 13)),
]
MOVES = [
    *(
        Case("Pad", 19, [IMAGE, ints(0, 1, 1, 2, 0, 0, 2, 3)], {"mode": mode}, (1,))
        for mode in ("constant", "reflect", "edge", "wrap")
    ),
    Case("Pad", 19, [floats(4), ints(7, 3)], {"mode": "wrap"}),
    *(
        Case(
            "Resize",
            19,
            [IMAGE, np.zeros(0, np.float32), np.array([1, 1, *scales], np.float32)],
            {"mode": mode, "coordinate_transformation_mode": "align_corners"},
            (1, 2),
        )
        for mode in ("linear", "cubic")
        for scales in ((1.7, 0.6), (0.7, 2.3))
    ),
    Case("Pad", 19, [IMAGE, ints(-1, 2), np.array(2, np.float32), ints(-1)], {}, (1,)),
    Case("Gather", 13, [IMAGE, whole(2, 2, low=-3, high=3)], {"axis": 1}),
    Case("Gather", 13, [IMAGE, np.array(-1)], {"axis": -1}, (1,)),
    Case("Gather", 13, [IMAGE, ints(2, 0)], {"axis": 1}, (1,)),
    Case("Gather", 13, [IMAGE, np.zeros((0, 2), np.int64)], {"axis": 1}),
    Case("GatherElements", 13, [IMAGE, whole(1, 2, 3, 4, low=-3, high=3)], {"axis": 1}),
    Case("GatherND", 13, [IMAGE, whole(2, 2, 2, low=-3, high=3)], {"batch_dims": 1}),
    *(
        Case(
            "ScatterElements",
            18,
            [floats(3, 5), whole(2, 3, low=-5, high=5), floats(2, 3)],
            {"axis": 1, "reduction": way},
        )
        for way in ("add", "mul", "max", "min")
    ),
    *(
        Case(
            "ScatterND",
            18,
            [floats(4, 5), whole(2, 3, 2, low=-4, high=4), floats(2, 3)],
            {"reduction": way},
        )
        for way in ("add", "mul", "max", "min")
    ),
    Case("ScatterND", 11, [floats(4, 5), np.zeros((0, 1), np.int64), floats(0, 5)]),
    Case("Reshape", 14, [floats(0, 3), ints(3, 0)], {"allowzero": 1}),
    Case("Expand", 13, [floats(3, 1), ints(2, 1, 4)]),
    Case("Tile", 13, [floats(2, 3), ints(0, 2)]),
    Case("Concat", 13, [floats(2, 3), floats(2, 0), floats(2, 4)], {"axis": -1}),
    Case(
        "ReverseSequence", 10, [floats(3, 4, 2), ints(1, 0, 4)], {"time_axis": 1, "batch_axis": 0}
    ),
    Case("DepthToSpace", 13, [floats(2, 8, 3, 2)], {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", 13, [floats(2, 3, 4, 6)], {"blocksize": 2}),
    Case("Trilu", 14, [floats(2, 3, 4), np.array(-1)], {"upper": 0}),
    Case("OneHot", 11, [whole(2, 3, low=-6, high=6), ints(4), whole(2)], {"axis": 0}),
    Case("EyeLike", 9, [whole(3, 5)], {"dtype": TensorProto.FLOAT, "k": -2}),
    Case("Range", 11, [np.array(10), np.array(3), np.array(-3)]),
    Case("Compress", 11, [IMAGE, np.array([True, False, True])], {"axis": 1}),
    Case("NonZero", 13, [np.round(IMAGE)]),
    Case("Unique", 11, [np.round(floats(4, 2) / 2)], {"axis": 0, "sorted": 0}, (), 4),
]
NUMBERS = [
    *(
        Case(op, 13, [INFINITIES[:, None], INFINITIES], attributes)
        for op, attributes in (("Max", {}), ("Min", {}), ("Pow", {}), ("Mod", {"fmod": 1}))
    ),
    *(Case("Pow", 13, [abs(IMAGE), np.array(n, np.float32)], {}, (1,)) for n in (2, 0.5, -0.5, 3)),
    *(Case("Gemm", o, [floats(4, 3), floats(5, 4), floats(3, 1)],
           {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}) for o in (7, 13)),
    Case("Gemm", 13, [floats(3, 4), floats(5, 4), floats(5)], {"transB": 1}, (1, 2)),
    Case("MatMul", 13, [floats(3, 0), floats(0, 5)]),
    Case("MatMul", 13, [floats(4), floats(2, 4, 3)]),
    Case("Einsum", 12, [floats(2, 3, 4), floats(2, 4, 5)], {"equation": "...ij, ...jk"}),
    Case("ArgMax", 13, [np.round(IMAGE)], {"axis": 2, "select_last_index": 1}),
    Case("CumSum", 14, [floats(3, 4), np.array(-1)], {"exclusive": 1, "reverse": 1}),
    Case("ReduceProd", 18, [floats(2, 0, 3), ints(1)]),
    Case("ReduceMin", 18, [floats(2, 0, 3), ints(1)]),
    Case("ReduceL2", 18, [IMAGE, ints(2)], {}, (1,)),
    Case("Round", 11, [np.array([0.5, 1.5, 2.5, -0.5, -2.5], np.float32)]),
    Case("IsInf", 10, [INFINITIES], {"detect_negative": 0}),
    Case("DynamicQuantizeLinear", 11, [IMAGE], {}, (), 3),
    Case("QuantizeLinear", 13, [IMAGE, abs(floats(3)) + 0.01, whole(3, dtype=np.int8)]),
    Case("QuantizeLinear", 21, [floats(4, 5), abs(floats(4, 3)) + 0.01, whole(4, 3, dtype=np.int8)],
         {"axis": 1, "block_size": 2}),
    Case("DequantizeLinear", 21, [whole(4, 5, dtype=np.int8), floats(4, 3)],
         {"axis": 1, "block_size": 2}),
    *(Case("Cast", 13, [floats(9) * 9], {"to": to}) for to in (3, 6, 7, 9, 10)),
]  # fmt: skip
TEXTS = np.array([["a", "bc"], ["d", "a"]], object)
STRINGS = [
    Case("Concat", 13, [TEXTS, TEXTS], {"axis": 1}),
    Case("Reshape", 13, [TEXTS, ints(4)]),
    Case("Equal", 19, [TEXTS, np.array(["a"], object)]),
    Case("Where", 16, [np.array([True, False]), TEXTS, np.array("z", object)]),
    Case("Unique", 11, [TEXTS], {}, (), 4),
    Case("Split", 13, [TEXTS], {"axis": 1}, (), 2),
    Case("Cast", 13, [np.array(["1.5", "-2", "inf", "NaN", "1e-5"], object)], {"to": 1}),
    Case("Cast", 13, [whole(4)], {"to": 8}),
    Case("Cast", 13, [np.array([True, False])], {"to": 8}),
    Case("Cast", 13, [np.array([-3.0, 0.1, 1e20, -0.0, 123456.789], np.float32)], {"to": 8}),
    Case("Cast", 13, [np.array([2.0, 0.1, 1e20])], {"to": 8}),
]


def label(case: Case) -> str:
    """The operator and its opset."""
    return f"{case.op}-{case.opset}"


@pytest.mark.parametrize("case", [*OLD, *MOVES, *NUMBERS], ids=label)
def test_agrees_with_onnxruntime(case: Case, device: str) -> None:
    check(case, device)


@pytest.mark.parametrize("case", STRINGS, ids=label)
def test_strings_move(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_integers_stay_exact(dtype: Any) -> None:
    low = 1 if np.dtype(dtype).kind == "u" else -9
    a, b = whole(3, 4, low=low, dtype=dtype), whole(4, low=1, dtype=dtype)
    for op in ("Add", "Mul", "Div", "Max", "Mod"):
        check(Case(op, 14, [a, b]))
    if dtype in (np.int32, np.int64):
        check(Case("Pow", 15, [a, b % 4]))
    check(Case("Clip", 13, [a, np.array(1, dtype), np.array(4, dtype)]))
    check(Case("ReduceMean", 18, [whole(3, 4, dtype=np.int32), ints(1)]))
    if dtype in (np.int32, np.int64):  # onnxruntime has no others
        check(Case("TopK", 11, [a, ints(2)], {}, (), 2))


@pytest.mark.parametrize("signed", [False, True])
def test_products_of_bytes_are_exact(device: str, signed: bool) -> None:
    low, high, dtype = (-128, 128, np.int8) if signed else (0, 256, np.uint8)
    a = whole(3, 700, low=0, high=256, dtype=np.uint8)
    b = whole(700, 4, low=low, high=high, dtype=dtype)
    zero = np.array(120, np.uint8)
    wanted = (a.astype(np.int64) - 120) @ b.astype(np.int64)
    (result,) = results_of(Case("MatMulInteger", 10, [a, b, zero]), device)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, wanted)


NARROW: dict[int, Any] = {
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("kind", NARROW, ids=lambda k: NARROW[k].__name__)
def test_narrow_floats_round_to_even(device: str, kind: int) -> None:
    scales = np.array([1e-5, 1e-3, 1e-1, 1, 100], np.float32)[:, None]
    values = (RNG.standard_normal((5, 400)).astype(np.float32) * scales).reshape(-1)
    halves = np.arange(-40, 40, dtype=np.float32) / 32  # many of them in the middle of two
    values = np.concatenate([values, halves])
    wanted = values.astype(NARROW[kind]).astype(np.float32)
    case = Case("Cast", 23, [values], {"to": kind, "saturate": 0})
    module = load(model_of(case).SerializeToString(), device=device)
    np.testing.assert_array_equal(module(values).float().numpy(), wanted)


def test_a_narrow_weight_is_used_as_it_is_stored(device: str) -> None:
    weight = (RNG.standard_normal((96, 128)) * 0.1).astype(np.float16)
    for rows in (1, 40):
        x = RNG.standard_normal((rows, 96)).astype(np.float16)
        case = Case("MatMul", 17, [x, weight], {}, (1,))
        module = load(model_of(case).SerializeToString(), device=device)
        assert module.weights["in1"].dtype is rl.float16
        wanted = x.astype(np.float32) @ weight.astype(np.float32)
        np.testing.assert_allclose(module(x).float().numpy(), wanted, rtol=2e-3, atol=2e-3)
        module.requires_grad_()
        module(x).float().sum().backward()
        grad = module.weights["in1"].grad
        assert grad is not None
        columns = grad.float().numpy()
        np.testing.assert_allclose(columns[:, 0], x.astype(np.float32).sum(0), rtol=1e-2, atol=1e-2)


def test_random_numbers_differ_by_run_and_agree_by_seed(device: str) -> None:
    like = np.zeros((1000,), np.float32)
    case = Case("RandomUniformLike", 17, [like], {"seed": 1.5, "low": 2.0, "high": 4.0})
    first, again = (load(model_of(case).SerializeToString(), device=device) for _ in range(2))
    draws = [first(like).numpy() for _ in range(2)]
    assert (draws[0] != draws[1]).any()
    np.testing.assert_array_equal(again(like).numpy(), draws[0])
    assert 2 <= draws[0].min() and draws[0].max() < 4 and abs(draws[0].mean() - 3) < 0.1


def test_dropout_in_training_scales_what_it_keeps(device: str) -> None:
    inputs = [np.ones(10000, np.float32), np.array(0.25, np.float32), np.array(True)]
    kept, mask = results_of(Case("Dropout", 13, inputs, {}, (1, 2), 2), device)
    assert mask.dtype == bool and abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(kept, np.where(mask, 1 / 0.75, 0), rtol=1e-6)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("Concat", 13, [floats(2), floats(2)], {"axis": 1}), "the axis 1 is out of range"),
        (Case("Squeeze", 13, [floats(2, 1), ints(0)], {}, (1,)), r"dim 0 of \(2, 1\) is not"),
        (Case("Gather", 13, [floats(2), ints(5)], {}, (1,)), "an index is out of range for dim 0"),
        (Case("TopK", 11, [floats(2), ints(5)], {}, (1,), 2), "k is 5; dim 0 has the size 2"),
    ],
    ids=["Concat", "Squeeze", "Gather", "TopK"],
)
def test_errors_name_node_and_value(case: Case, message: str) -> None:
    names = [f"in{i}" for i in range(len(case.inputs))]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, case.inputs, strict=True)
        if int(n[2:]) not in case.constants
    ]
    outputs = [f"out{i}" for i in range(case.outputs)]
    graph = helper.make_graph(
        [helper.make_node(case.op, names, outputs, **case.attributes)],
        "graph",
        infos,
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(case.inputs[i], names[i]) for i in case.constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)])
    module = load(model.SerializeToString(), device="cpu")
    with pytest.raises(rl.FormatError, match=f"{case.op} .*{message}"):
        module(*[a for i, a in enumerate(case.inputs) if i not in case.constants])


def test_the_rest_of_a_division_has_the_sign_of_the_dividend(device: str) -> None:
    x = rl.tensor([-0.0, 0.0, -3.0, 3.0, -3.5], device=device)
    found = rl.fmod(x, 3.0).numpy()
    assert found.tolist() == [0, 0, 0, 0, -0.5]
    assert np.signbit(found).tolist() == [True, False, True, False, True]
