"""Loops, scans, sequences, optionals and strings agree with onnxruntime, planned and run late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser

import rushlight as rl

pytestmark = pytest.mark.native

Array = np.ndarray[Any, Any]


def content_of(text: str) -> bytes:
    """The file of a model in onnx's text form."""
    model: onnx.ModelProto = parser.parse_model(text)
    return bytes(model.SerializeToString())


def check(content: bytes, inputs: dict[str, Any], device: str = "cpu") -> Any:
    """Assert that a file gives what it does in onnxruntime; the module."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    module = rl.onnx.load(content, device=device)
    for _ in range(2):
        outcome = module(**inputs)
        same([outcome] if len(expected) == 1 else list(outcome), expected)
    return module


def same(got: Any, want: Any) -> None:
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
        return
    got = got.numpy() if isinstance(got, rl.Tensor) else np.asarray(got)
    assert got.shape == np.asarray(want).shape
    assert got.dtype.kind == "O" or got.dtype == want.dtype
    if got.dtype.kind == "O":
        assert got.tolist() == want.tolist()
    else:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


LOOP = """
<ir_version: 10, opset_import: ["": 17]>
agraph (int64 n, bool go, float[3] x) => (float[3] last, float[m, 3] rows, int64[m] turns)
{
    limit = Constant <value = float {40}> ()
    last, rows, turns = Loop (n, go, x) <body = b (int64 i, bool c, float[3] s)
        => (bool again, float[3] next, float[3] row, int64 turn) {
        two = Constant <value = float {2}> ()
        next = Mul (s, two)
        row = Sub (next, x)
        turn = Identity (i)
        total = ReduceSum <keepdims = 0> (next)
        again = Less (total, limit)
    }>
}
"""
COUNTED = LOOP.replace("again = Less (total, limit)", "again = Identity (c)")


@pytest.mark.parametrize("turns", [0, 1, 5])
@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize("text", [LOOP, COUNTED])
def test_loops(device: str, turns: int, go: bool, text: str) -> None:
    inputs = {
        "n": np.array(turns, np.int64),
        "go": np.array(go),
        "x": np.array([1, 2, 3], np.float32),
    }
    rows_if_none = turns == 0 or not go
    module = rl.onnx.load(content_of(text), device=device)
    if not rows_if_none:
        check(content_of(text), inputs, device)
        return
    # onnxruntime gives what no turn has made the sizes that the file declares.
    last, rows, numbers = module(**inputs)
    same(last, inputs["x"])
    assert tuple(rows.shape) == (0, 3) and rows.dtype is rl.float32
    assert tuple(numbers.shape) == (0,) and numbers.dtype is rl.int64


def test_a_counted_loop_is_planned_and_one_that_depends_on_values_is_not() -> None:
    inputs = {"n": np.array(3, np.int64), "go": np.array(True), "x": np.ones(3, np.float32)}
    for text, whole in ((COUNTED, True), (LOOP, False)):
        module: Any = rl.onnx.load(content_of(text))
        module(**inputs)
        (prepared,) = list(module._plans.values())[-1:]
        assert prepared.plan.is_whole == whole


def test_loops_of_endless_turns_are_refused(
    count_steps: Callable[[Callable[[], Any]], int],
) -> None:
    module = rl.onnx.load(content_of(COUNTED))
    inputs = {"go": np.array(True), "x": np.ones(3, np.float32)}

    def run() -> None:
        with pytest.raises(rl.FormatError, match="Loop.*more than 1000000 nodes"):
            module(n=np.array(2**62, np.int64), **inputs)

    assert count_steps(run) < 100_000


SCAN = """
<ir_version: 10, opset_import: ["": 17]>
agraph (float[3] h, float[N, 3, M] x, float[K, M, N] w) => (float[3] last, float[P, M] rows)
{
    last, rows = Scan <num_scan_inputs = 2, scan_input_axes = [-1, 1],
        scan_input_directions = [0, 1], scan_output_axes = [1], scan_output_directions = [1],
        body = b (float[3] s, float[N, 3] a, float[K, N] c) => (float[3] next, float[P] row) {
        most = ReduceMax <keepdims = 0, axes = [0]> (a)
        next = Add (s, most)
        row = ReduceSum <keepdims = 0> (c)
        some = Mul (row, row)
        one = Constant <value = int64[1] {-1}> ()
        flat = Reshape (some, one)
    }> (h, x, w)
}
""".replace("=> (float[3] next, float[P] row)", "=> (float[3] next, float[P] flat)")


@pytest.mark.parametrize("length", [1, 4])
def test_scans(device: str, length: int) -> None:
    rng = np.random.default_rng(length)
    inputs = {
        "h": rng.normal(size=3).astype(np.float32),
        "x": rng.normal(size=(2, 3, length)).astype(np.float32),
        "w": rng.normal(size=(5, length, 2)).astype(np.float32),
    }
    check(content_of(SCAN), inputs, device)


def test_scans_without_slices(device: str) -> None:
    module = rl.onnx.load(content_of(SCAN), device=device)
    x, w = np.ones((2, 3, 0), np.float32), np.ones((5, 0, 2), np.float32)
    last, rows = module(h=np.ones(3, np.float32), x=x, w=w)
    same(last, np.ones(3, np.float32))
    assert tuple(rows.shape) == (1, 0) and rows.dtype is rl.float32


def test_scans_of_opset_8_have_lengths() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "a"], ["next"]),
            helper.make_node("Identity", ["next"], ["row"]),
        ],
        "b",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("s", "a")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("next", "row")],
    )
    node = helper.make_node("Scan", ["n", "h", "x"], ["y", "z"], num_scan_inputs=1, body=body)
    infos = [
        helper.make_tensor_value_info("n", TensorProto.INT64, [3]),
        helper.make_tensor_value_info("h", TensorProto.FLOAT, [3, 2]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4, 2]),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "z")]
    graph = helper.make_graph([node], "g", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    rng = np.random.default_rng(0)
    inputs = {
        "n": np.array([4, 1, 2], np.int64),
        "h": rng.normal(size=(3, 2)).astype(np.float32),
        "x": rng.normal(size=(3, 4, 2)).astype(np.float32),
    }
    check(model.SerializeToString(), inputs)


SEQUENCES = """
<ir_version: 10, opset_import: ["": 18]>
agraph (seq(float[N]) s, float[M] x) => (seq(float[N]) t, float[P] all, int64 n, float[N] last)
{
    one = Constant <value = int64 {1}> ()
    behind = Constant <value = int64 {-1}> ()
    longer = SequenceInsert (s, x, one)
    fewer = SequenceErase (longer, behind)
    t = SequenceMap <body = b (float[N] a) => (float[N] c) { c = Neg (a) }> (fewer)
    all = ConcatFromSequence <axis = 0> (t)
    n = SequenceLength (t)
    last = SequenceAt (t, behind)
}
"""


def test_sequences_go_in_and_come_out(device: str) -> None:
    rng = np.random.default_rng(0)
    items = [rng.normal(size=n).astype(np.float32) for n in (2, 3, 1)]
    check(content_of(SEQUENCES), {"s": items, "x": np.ones(4, np.float32)}, device)
    module = rl.onnx.load(content_of(SEQUENCES), device=device)
    with pytest.raises(TypeError, match="must be a list"):
        module(s=items[0], x=items[1])
    with pytest.raises(rl.FormatError, match="position 1 is out of range for 0 items"):
        module(s=[], x=items[1])


OPTIONALS = """
<ir_version: 10, opset_import: ["": 18]>
agraph (optional(float[N]) x) => (bool there, float[M] y)
{
    there = OptionalHasElement (x)
    y = If (there) <
        then_branch = t () => (float[M] a) { a = OptionalGetElement (x) },
        else_branch = e () => (float[M] b) { b = Constant <value = float[2] {5, 6}> () }>
}
"""


def test_optionals(device: str) -> None:
    module = rl.onnx.load(content_of(OPTIONALS), device=device)
    there, y = module(np.ones(3, np.float32))
    assert there.item() and y.tolist() == [1, 1, 1]
    there, y = module()
    assert not there.item() and y.tolist() == [5, 6]


STRINGS = """
<ir_version: 10, opset_import: ["": 20]>
agraph (string[N] x) => (string[M] y, string[N, K] pieces, int64[N] counts, bool[N] whole)
{
    y = StringNormalizer <case_change_action = "UPPER", stopwords = ["THE", "of"]> (x)
    pieces, counts = StringSplit <delimiter = " ", maxsplit = 2> (x)
    whole = RegexFullMatch <pattern = "[a-z]+( .*)?"> (x)
}
"""


def test_strings() -> None:
    words = np.array(["the", "a b c d", "", "Of", "ab 1"], np.object_)
    outcome = rl.onnx.load(content_of(STRINGS))(words)
    same(outcome["y"], np.array(["A B C D", "", "AB 1"], np.object_))
    same(outcome["counts"], np.array([1, 3, 0, 1, 2], np.int64))
    assert outcome["pieces"].tolist()[1] == ["a", "b", "c d"]
    assert outcome["whole"].tolist() == [True, True, False, False, True]


FUNCTION = """
<ir_version: 10, opset_import: ["": 17, "f": 1]>
agraph (bool c, float[N] x) => (float[N] y) { y = f.Scaled <by = 3.0> (c, x) }
<opset_import: ["": 17], domain: "f">
Scaled <by> (c, x) => (y)
{
    y = If (c) <
        then_branch = t () => (float[N] a) {
            k = Constant <value_float: float = @by> ()
            a = Mul (x, k)
        },
        else_branch = e () => (float[N] b) { b = Identity (x) }>
}
"""


def test_graphs_within_functions_have_their_attributes() -> None:
    module = rl.onnx.load(content_of(FUNCTION))
    x = np.array([1, 2], np.float32)
    assert module(np.array(True), x).tolist() == [3, 6]
    assert module(np.array(False), x).tolist() == [1, 2]
