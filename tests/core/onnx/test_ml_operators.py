"""The operators of ai.onnx.ml agree with onnxruntime on models made at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import rushlight as rl

pytestmark = pytest.mark.native

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
Array = np.ndarray[Any, Any]


def model_of(
    op: str, inputs: dict[str, Any], outputs: dict[str, int], version: int = 3, **attributes: Any
) -> bytes:
    """A file of one node. inputs: arrays by name; outputs: element types by name."""
    node = helper.make_node(op, list(inputs), list(outputs), domain="ai.onnx.ml", **attributes)
    infos = []
    for name, value in inputs.items():
        kind = STRING if value.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(value.dtype)
        infos.append(helper.make_tensor_value_info(name, kind, value.shape))
    results = [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()]
    graph = helper.make_graph([node], "g", infos, results)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(model.SerializeToString())


def check(
    content: bytes, inputs: dict[str, Any], device: str = "cpu", highest: bool = False
) -> None:
    """Assert that a file gives what it does in onnxruntime.

    highest: the first result is the label "a" or "b" of the higher score.
    """
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    if highest:
        expected[0] = np.array(["a", "b"], np.object_)[expected[1].argmax(1)]
    outcome = rl.onnx.load(content, device=device)(**inputs)
    found = [outcome] if len(expected) == 1 else list(outcome)
    for one, want in zip(found, expected, strict=True):
        got = one.numpy() if isinstance(one, rl.Tensor) else one
        assert got.shape == want.shape
        if want.dtype.kind in "OU":
            assert got.tolist() == want.tolist()
        else:
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def trees_of(
    rng: np.random.Generator, trees: int, depth: int, modes: tuple[str, ...], missing: bool
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Attributes of random trees, and (tree, node) of their leaves."""
    columns: dict[str, list[Any]] = {
        f"nodes_{n}": []
        for n in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                  "falsenodeids", "missing_value_tracks_true")
    }  # fmt: skip
    leaves = []
    for tree in range(trees):
        todo, made = [(0, 0)], 1
        while todo:
            number, level = todo.pop(0)
            leaf = level == depth or (level > 0 and rng.random() < 0.3)
            low, high = (0, 0) if leaf else (made, made + 1)
            if leaf:
                leaves.append((tree, number))
            else:
                todo += [(low, level + 1), (high, level + 1)]
                made += 2
            row = (
                tree,
                number,
                int(rng.integers(0, 4)),
                0.0 if leaf else float(rng.integers(-2, 3)),
                "LEAF" if leaf else str(rng.choice(modes)),
                low,
                high,
                int(missing and rng.random() < 0.5),
            )
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns, leaves


def rows_of(rng: np.random.Generator, missing: bool) -> Array:
    x = rng.integers(-3, 4, (23, 4)).astype(np.float32)
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("modes", [MODES[:1], MODES[2:3], MODES])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressors(device: str, modes: tuple[str, ...], aggregate: str) -> None:
    rng = np.random.default_rng(len(modes) + 7 * len(aggregate))
    missing = len(modes) == 1 and modes != ("BRANCH_NEQ",)
    columns, leaves = trees_of(rng, 7, 4, modes, missing)
    targets = [(t, n, k) for t, n in leaves for k in range(2)]
    content = model_of(
        "TreeEnsembleRegressor",
        {"x": rows_of(rng, missing)},
        {"y": FLOAT},
        n_targets=2,
        aggregate_function=aggregate,
        base_values=[0.25, -1.0],
        target_treeids=[t for t, _, _ in targets],
        target_nodeids=[n for _, n, _ in targets],
        target_ids=[k for _, _, k in targets],
        target_weights=rng.normal(size=len(targets)).astype(np.float32).tolist(),
        **columns,
    )
    check(content, {"x": rows_of(rng, missing)}, device)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("classes", "ids", "base"),
    [
        (3, "all", 0),
        (3, "all", 3),
        (2, "all", 0),
        (2, "first", 0),
        (2, "first", 1),
        (2, "second", 0),
    ],
)
@pytest.mark.parametrize("positive", [True, False])
def test_tree_classifiers(
    transform: str, classes: int, ids: str, base: int, positive: bool
) -> None:
    rng = np.random.default_rng(classes + base)
    columns, leaves = trees_of(rng, 5, 3, ("BRANCH_LEQ",), False)
    numbers = {"all": range(classes), "first": range(1), "second": range(1, 2)}[ids]
    votes = [(t, n, k) for t, n in leaves for k in numbers]
    weights = rng.normal(size=len(votes)).astype(np.float32)
    more: dict[str, Any] = {"classlabels_strings": ["a", "b", "c"][:classes], **columns}
    if base:
        more["base_values"] = [0.125, -0.25, 0.5][:base]
    content = model_of(
        "TreeEnsembleClassifier",
        {"x": rows_of(rng, False)},
        {"y": STRING, "z": FLOAT},
        post_transform=transform,
        class_treeids=[t for t, _, _ in votes],
        class_nodeids=[n for _, n, _ in votes],
        class_ids=[k for _, _, k in votes],
        class_weights=(np.abs(weights) / 8 if positive else weights).tolist(),
        **more,
    )
    # Of two classes that both have scores, onnxruntime takes the second whenever it is above 0.
    top = classes == 2 and ids == "all"
    check(content, {"x": rows_of(rng, False)}, highest=top)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("scores", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_linear_models(device: str, transform: str, scores: int, dtype: Any) -> None:
    rng = np.random.default_rng(scores)
    x = rng.normal(size=(9, 4)) * 3
    weights = rng.normal(size=4 * scores).tolist()
    parts = {"coefficients": weights, "intercepts": rng.normal(size=scores).tolist()}
    inputs = {"x": x.astype(dtype)}
    content = model_of(
        "LinearClassifier",
        inputs,
        {"y": INT64, "z": FLOAT},
        post_transform=transform,
        classlabels_ints=[5, 7, 9][: max(scores, 2)],
        **parts,
    )
    check(content, inputs, device)
    if dtype is np.float32:
        content = model_of(
            "LinearRegressor",
            inputs,
            {"y": FLOAT},
            post_transform=transform,
            targets=scores,
            **parts,
        )
        check(content, inputs, device)


def _features() -> dict[str, tuple[str, dict[str, Any], Callable[[Any], Any]]]:
    plain = {"scale": [2.0, 3.0, 0.5, 1.0], "offset": [1.0, 0.0, -1.0, 2.0]}
    return {
        "scaler": ("Scaler", plain, lambda x: x),
        "scaler of one": ("Scaler", {"scale": [2.0], "offset": [1.0]}, lambda x: x),
        "max": ("Normalizer", {"norm": "MAX"}, lambda x: np.abs(x)),
        "l1": ("Normalizer", {"norm": "L1"}, lambda x: x),
        "l2": ("Normalizer", {"norm": "L2"}, lambda x: x),
        "imputer": (
            "Imputer",
            {"imputed_value_floats": [9.0, 8.0, 7.0, 6.0], "replaced_value_float": float("nan")},
            lambda x: np.where(x > 1, np.nan, x).astype(np.float32),
        ),
        "binarizer": ("Binarizer", {"threshold": 0.25}, lambda x: x),
        "one hot": (
            "OneHotEncoder",
            {"cats_int64s": [0, 1, -1], "zeros": 1},
            lambda x: np.round(x),
        ),
    }


@pytest.mark.parametrize("name", list(_features()))
def test_features(device: str, name: str) -> None:
    op, attributes, prepared = _features()[name]
    inputs = {"x": prepared(np.random.default_rng(3).normal(size=(6, 4)).astype(np.float32))}
    check(model_of(op, inputs, {"y": FLOAT}, **attributes), inputs, device)


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ("keys_strings", "values_int64s"),
        ("keys_strings", "values_strings"),
        ("keys_int64s", "values_strings"),
        ("keys_int64s", "values_floats"),
        ("keys_floats", "values_int64s"),
        ("keys_floats", "values_floats"),
    ],
)
def test_label_encoders(device: str, keys: str, values: str) -> None:
    tables: dict[str, list[Any]] = {
        "strings": ["b", "a", "", "d"],
        "int64s": [4, -1, 9, 2],
        "floats": [0.5, -2.0, float("nan"), 7.0],
    }
    kinds: dict[str, tuple[int, Any]] = {
        "strings": (STRING, np.object_),
        "int64s": (INT64, np.int64),
        "floats": (FLOAT, np.float32),
    }
    of_key, of_value = keys[5:], values[7:]
    unknown: dict[str, Any] = {"strings": "zz", "int64s": 3, "floats": 3.0}
    items = [*tables[of_key], unknown[of_key]]
    inputs: dict[str, Any] = {"x": np.array(items, kinds[of_key][1])}
    default = {"strings": "default_string", "int64s": "default_int64", "floats": "default_float"}
    attributes: dict[str, Any] = {
        keys: tables[of_key],
        values: tables[of_value],
        default[of_value]: {"strings": "?", "int64s": -7, "floats": 1.5}[of_value],
    }
    content = model_of("LabelEncoder", inputs, {"y": kinds[of_value][0]}, **attributes)
    check(content, inputs, device)


def test_rows_of_many_trees_are_read_level_by_level(
    count_steps: Callable[[Callable[[], Any]], int],
) -> None:
    """The work in Python does not grow with the trees."""

    def model(trees: int) -> Any:
        columns, leaves = trees_of(np.random.default_rng(0), trees, 4, ("BRANCH_LT",), False)
        content = model_of(
            "TreeEnsembleRegressor",
            {"x": rows_of(np.random.default_rng(1), False)},
            {"y": FLOAT},
            n_targets=1,
            target_treeids=[t for t, _ in leaves],
            target_nodeids=[n for _, n in leaves],
            target_ids=[0] * len(leaves),
            target_weights=[1.0] * len(leaves),
            **columns,
        )
        return rl.onnx.load(content)

    x = rows_of(np.random.default_rng(1), False)
    few, many = model(25), model(100)
    few(x), many(x)
    assert count_steps(lambda: many(x)) < 2 * count_steps(lambda: few(x))


def test_damaged_trees_are_refused() -> None:
    columns, leaves = trees_of(np.random.default_rng(0), 2, 3, ("BRANCH_LT",), False)
    given = {
        "n_targets": 1,
        "target_treeids": [t for t, _ in leaves],
        "target_nodeids": [n for _, n in leaves],
        "target_ids": [0] * len(leaves),
        "target_weights": [1.0] * len(leaves),
    }
    x = {"x": rows_of(np.random.default_rng(1), False)}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("circle", {"nodes_truenodeids": [0] * len(columns["nodes_modes"])}),
        ("has not", {"nodes_falsenodeids": [999] * len(columns["nodes_modes"])}),
        ("for 13 nodes|numbers for", {"nodes_values": [1.0]}),
        ("feature", {"nodes_featureids": [2**40] * len(columns["nodes_modes"])}),
        ("target", {"target_ids": [2**40] * len(leaves)}),
        ("targets", {"n_targets": 2**62}),
    ]
    for message, changed in wrong:
        content = model_of(
            "TreeEnsembleRegressor", x, {"y": FLOAT}, **{**columns, **given, **changed}
        )
        with pytest.raises(rl.FormatError, match=message):
            rl.onnx.load(content)(**x)
