"""Tree ensembles: the nodes of files as forests, and their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import DOUBLE, FLOAT, INT32
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.operators.ml.forest import (
    EQ,
    MEMBER,
    Forest,
    Nodes,
    dense_weights,
    make_forest,
    walked,
)
from rushlight.core.onnx.operators.ml.scores import (
    DOMAIN,
    TRANSFORMS,
    as_rows,
    both,
    chosen,
    labels_of,
    like,
    once,
    transform_of,
    transformed,
)
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
_MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
          "BRANCH_MEMBER"]  # fmt: skip
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _numbers(call: Call, name: str, default: Any = None) -> Array:
    """Floats of an attribute, or doubles of that which ends in _as_tensor."""
    if call.has(f"{name}_as_tensor"):
        return np.asarray(call.tensor(f"{name}_as_tensor")).reshape(-1)
    return np.array(call.floats(name, default if default is not None else []), np.float32)


def _integers(call: Call, name: str, count: int, default: int | None = None) -> Array:
    given = call.ints(name, None)
    if not given and default is not None:
        return np.full(count, default, np.int64)
    if given is None or len(given) != count:
        raise call.fail(f"{name} has {len(given or [])} numbers for {count} nodes")
    return np.array(given, np.int64)


def _old_forest(call: Call, prefix: str, targets: int) -> Forest:
    """The forest of a regressor or classifier: nodes and weights have numbers within their tree."""
    call.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    modes = call.texts("nodes_modes", [])
    count = len(modes)
    wrong = sorted({m for m in modes if m not in _MODES[:6] and m != "LEAF"})
    if wrong:
        raise call.fail(f"nodes_modes has {wrong[:3]}; supported: {[*_MODES[:6], 'LEAF']}")
    tree, number = _integers(call, "nodes_treeids", count), _integers(call, "nodes_nodeids", count)
    split = _numbers(call, "nodes_values")
    if len(split) != count:
        raise call.fail(f"nodes_values has {len(split)} numbers for {count} nodes")
    row = {pair: i for i, pair in enumerate(zip(tree.tolist(), number.tolist(), strict=True))}
    if len(row) != count:
        raise call.fail("a tree has two nodes of one number")
    leaf = np.array([m == "LEAF" for m in modes], bool)
    code = np.array([-1 if m == "LEAF" else _MODES.index(m) for m in modes], np.int64)
    # The place of each node: among the inner ones, or ~leaf.
    place = np.where(leaf, -np.cumsum(leaf), np.cumsum(~leaf) - 1)
    inner = np.flatnonzero(~leaf)

    def children(name: str) -> Array:
        numbers = _integers(call, name, count)[inner].tolist()
        owners = tree[inner].tolist()
        rows = [row.get(pair, -1) for pair in zip(owners, numbers, strict=True)]
        if -1 in rows:
            raise call.fail(f"{name}: a node has a child that its tree has not")
        return place[np.array(rows, np.int64)]

    # A tree's root is the node that none of its nodes goes to: the first that the file names.
    _, first = np.unique(tree, return_index=True)
    nodes = Nodes(
        _integers(call, "nodes_featureids", count)[inner],
        split[inner],
        code[inner],
        _integers(call, "nodes_missing_value_tracks_true", count, 0)[inner],
        children("nodes_truenodeids"),
        children("nodes_falsenodeids"),
        place[np.sort(first)],
    )
    weights = _numbers(call, f"{prefix}_weights")
    owners, ids = call.ints(f"{prefix}_treeids", []), call.ints(f"{prefix}_nodeids", [])
    target = np.array(call.ints(f"{prefix}_ids", []), np.int64)
    if not len(owners) == len(ids) == len(target) == len(weights):
        raise call.fail(f"the attributes {prefix}_... differ in length")
    rows = [row.get(pair, -1) for pair in zip(owners, ids, strict=True)]
    if -1 in rows:
        raise call.fail(f"{prefix}_nodeids names a node that is not there")
    held = place[np.array(rows, np.int64)] if rows else np.empty(0, np.int64)
    at_leaf = held < 0  # weights of inner nodes are never reached
    dense, present = dense_weights(
        call, ~held[at_leaf], target[at_leaf], weights[at_leaf], int(leaf.sum()), targets
    )
    return make_forest(call, nodes, dense, present, targets)


def _new_forest(call: Call) -> Forest:
    """The forest of TreeEnsemble: inner nodes and leaves are apart."""
    call.ignore("nodes_hitrates")
    split = np.asarray(call.tensor("nodes_splits")).reshape(-1)
    count = len(split)
    mode = np.asarray(call.tensor("nodes_modes")).reshape(-1).astype(np.int64)
    if len(mode) != count or (count and not 0 <= mode.min() <= mode.max() <= MEMBER):
        raise call.fail(f"nodes_modes has {len(mode)} numbers for {count} nodes, or one above 6")
    weight = np.asarray(call.tensor("leaf_weights")).reshape(-1)
    target = np.array(call.ints("leaf_targetids"), np.int64)
    if len(target) != len(weight):
        raise call.fail(f"{len(weight)} leaf_weights for {len(target)} leaf_targetids")

    def children(which: str) -> Array:
        ids = _integers(call, f"nodes_{which}nodeids", count)
        is_leaf = _integers(call, f"nodes_{which}leafs", count, 0) != 0
        if count and not ((ids >= 0) & (ids < np.where(is_leaf, len(weight), count))).all():
            raise call.fail(f"nodes_{which}nodeids: a node has a child that is not there")
        return np.where(is_leaf, ~ids, ids)

    roots = np.array(call.ints("tree_roots"), np.int64)
    if len(roots) and not ((roots >= 0) & (roots < count)).all():
        raise call.fail("tree_roots: a root is no node")
    nodes = Nodes(
        _integers(call, "nodes_featureids", count),
        split,
        mode,
        _integers(call, "nodes_missing_value_tracks_true", count, 0),
        children("true"),
        children("false"),
        roots,
    )
    if (mode == MEMBER).any():
        nodes = _without_members(call, nodes, np.asarray(call.tensor("membership_values")))
    call.ignore("membership_values")
    targets = call.int("n_targets", 1)
    dense, present = dense_weights(
        call, np.arange(len(weight)), target, weight, len(weight), targets
    )
    return make_forest(call, nodes, dense, present, targets)


def _without_members(call: Call, nodes: Nodes, members: Array) -> Nodes:
    """The nodes with every test of membership as a chain of tests of equality."""
    members = members.reshape(-1)
    ends = np.flatnonzero(np.isnan(members))
    pieces = np.split(members, ends)
    sets = [p[~np.isnan(p)] for p in pieces]
    places = np.flatnonzero(nodes.mode == MEMBER)
    if len(sets) < len(places):
        raise call.fail(f"membership_values has {len(sets)} sets for {len(places)} nodes")
    out = {name: getattr(nodes, name).tolist() for name in ("feature", "missing", "true", "false")}
    split, mode = nodes.split.tolist(), nodes.mode.tolist()
    for place, held in zip(places.tolist(), sets, strict=False):
        at, otherwise = place, out["false"][place]
        values = held.tolist() or [float("nan")]
        for number, value in enumerate(values):
            split[at], mode[at] = value, EQ
            if number + 1 == len(values):
                out["false"][at] = otherwise
                break
            following = len(split)
            out["false"][at] = following
            for name in ("feature", "missing", "true"):
                out[name].append(out[name][at])
            out["false"].append(otherwise)
            split.append(value)
            mode.append(EQ)
            at = following
    return Nodes(
        np.array(out["feature"], np.int64),
        np.array(split, nodes.split.dtype),
        np.array(mode, np.int64),
        np.array(out["missing"], np.int64),
        np.array(out["true"], np.int64),
        np.array(out["false"], np.int64),
        nodes.roots,
    )


def _inputs(call: Call, x: Value, forest: Forest) -> list[Value | None]:
    features = x.shape[-1] if isinstance(x.data, Tensor | np.ndarray) and x.shape else 1
    used = int(forest.feature[: forest.inner].max(initial=0))
    if used >= features and forest.inner:
        raise call.fail(f"a tree tests feature {used}; the input has {features}")
    kinds = {"f": FLOAT, "d": DOUBLE, "i": INT32}
    return [x, *(Value(table, kinds[table.dtype.char]) for table in forest.tables)]


def _walk(forest: Forest, x: Tensor, tables: tuple[Tensor, ...], aggregate: str) -> Tensor:
    return walked(forest, as_rows(x), list(tables), aggregate)


@operator("TreeEnsemble", domain=DOMAIN, raw=True)
def tree_ensemble(call: Call, x: Value) -> Any:
    """The weights of the leaves that each row comes to, over all trees (N, targets)."""
    number, of_transform = call.int("aggregate_function", 1), call.int("post_transform", 0)
    if not (0 <= number < len(_AGGREGATES) and 0 <= of_transform < len(TRANSFORMS)):
        raise call.fail(f"aggregate_function={number}, post_transform={of_transform}")
    forest = once(call, lambda: _new_forest(call))

    def run(inner: Call, rows: Tensor, *tables: Tensor) -> Tensor:
        inner.result_kinds = [x.kind]
        scores = _walk(forest, rows, tables, _AGGREGATES[number])
        return transformed(scores, TRANSFORMS[of_transform]).to(rows.dtype)

    return call.interpreter.apply(call, run, _inputs(call, x, forest))


@operator("TreeEnsembleRegressor", domain=DOMAIN, raw=True)
def tree_ensemble_regressor(call: Call, x: Value) -> Any:
    """The targets of each row: the weights of its leaves over all trees, and the base values."""
    aggregate = call.choice("aggregate_function", "SUM", *_AGGREGATES)
    transform, targets = transform_of(call), call.int("n_targets", 1)
    base = _numbers(call, "base_values")
    forest = once(call, lambda: _old_forest(call, "target", targets))
    if len(base) not in (0, targets):
        raise call.fail(f"{len(base)} base_values for {targets} targets")

    def run(inner: Call, rows: Tensor, *tables: Tensor) -> Tensor:
        inner.result_kinds = [FLOAT]
        scores = _walk(forest, rows, tables, aggregate)
        if len(base):
            scores = scores + like(base, scores)
        return transformed(scores, transform).to("float32")

    return call.interpreter.apply(call, run, _inputs(call, x, forest))


@operator("TreeEnsembleClassifier", domain=DOMAIN, raw=True)
def tree_ensemble_classifier(call: Call, x: Value) -> Any:
    """The label of the highest score of each row, and the scores (N, classes)."""
    labels = labels_of(call, "classlabels_int64s")
    transform, base = transform_of(call), _numbers(call, "base_values")
    classes = len(labels)
    forest = once(call, lambda: _old_forest(call, "class", classes))
    # Two classes with the weights of one, as in onnxruntime: the first's stand for the second.
    ids = set(call.ints("class_ids", []))
    binary = classes == 2 and len(ids) == 1
    positive = bool((_numbers(call, "class_weights") >= 0).all())
    if len(base) not in (0, classes) and not (classes == 2 and len(base) == 1):
        raise call.fail(f"{len(base)} base_values for {classes} classes")

    def run(inner: Call, rows: Tensor, *tables: Tensor) -> Any:
        inner.result_kinds = [None, FLOAT]
        scores = _walk(forest, rows, tables, "SUM")
        if binary:
            scores = scores + like(base, scores) if len(base) == 2 else scores
            score = scores[:, min(ids) : min(ids) + 1]
            score = score + like(base, score) if len(base) == 1 else score
            place = (score[:, 0] > (0.5 if positive else 0)).to("int64")
            if ids == {1}:
                return [place, transformed(scores, transform).to("float32")]
            return [place, both(score, transform, positive).to("float32")]
        if len(base):
            scores = scores + like(base, scores)
        return [rl.argmax(scores, 1), transformed(scores, transform).to("float32")]

    place, scores = call.interpreter.apply(call, run, _inputs(call, x, forest))
    return [chosen(call, place, labels), scores]
