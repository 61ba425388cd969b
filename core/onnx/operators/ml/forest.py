"""Decision trees as tables: all trees of an ensemble are walked at once, level by level.

A row's place in every tree is one tensor (trees, rows). A step reads the place's feature, its split
and the child to go to. Trees are sorted by depth: those which have ended are not read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.registry import Call
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
_DEEPEST = 4096
_MOST_PLACES = 1 << 22  # of rows in trees that are walked at once
_MOST_WEIGHTS = 1 << 27


@dataclass(slots=True)
class Forest:
    """Trees as tables over their nodes; leaves come after the inner nodes, in the order of weights.

    inner: how many nodes are no leaves. roots: by falling depth. going: how many trees go on at
    each level. child: for each inner node where it goes when its test is true and when it is false;
    a leaf goes to itself. tests: of LEQ, LT and EQ those that there are, `mode` says each node's.
    missing: whether NaN counts as true, None where it never does. weights: (leaves, targets).
    present: whether a leaf has a weight for a target, None where all have.
    """

    inner: int
    roots: Array
    going: list[int]
    feature: Array
    split: Array
    child: Array
    mode: Array
    tests: list[int]
    missing: Array | None
    weights: Array
    present: Array | None
    targets: int

    @property
    def tables(self) -> list[Array]:
        """The arrays that a walk reads as tensors."""
        rest = [] if self.missing is None else [self.missing]
        modes = [self.mode] if len(self.tests) > 1 else []
        return [self.roots, self.feature, self.split, self.child, self.weights, *rest, *modes]


@dataclass(slots=True)
class Nodes:
    """The inner nodes of a file's trees, and where each goes: an inner node, or ~leaf."""

    feature: Array
    split: Array
    mode: Array
    missing: Array
    true: Array
    false: Array
    roots: Array


def make_forest(
    call: Call, nodes: Nodes, weights: Array, present: Array | None, targets: int
) -> Forest:
    """The tables of trees. FormatError for children that do not exist and for nodes in circles."""
    inner, leaves = len(nodes.feature), len(weights)
    for places in (nodes.true, nodes.false, nodes.roots):
        if len(places) and not ((places < inner) & (places >= -leaves)).all():
            raise call.fail("a tree has a child that is no node of it")
    if inner and not 0 <= nodes.feature.min() <= nodes.feature.max() < 1 << 31:
        raise call.fail(f"a tree tests feature {nodes.feature.max()}; at least one is out of range")
    if inner + leaves >= 1 << 29:
        raise call.fail(f"its trees have {inner + leaves} nodes")
    # Modes whose test is that of another with the branches exchanged.
    swapped = np.isin(nodes.mode, (GTE, GT, NEQ))
    mode = nodes.mode.copy()
    for old, new in ((GTE, LT), (GT, LEQ), (NEQ, EQ)):
        mode[nodes.mode == old] = new
    # NaN is unequal to all, and is else of the true branch where the file says so.
    missing = np.where(nodes.mode == NEQ, False, nodes.missing.astype(bool) ^ swapped)
    true = np.where(swapped, nodes.false, nodes.true)
    false = np.where(swapped, nodes.true, nodes.false)
    children = np.stack([_placed(true, inner), _placed(false, inner)], 1).reshape(-1)
    own = np.repeat(np.arange(inner, inner + leaves), 2)
    child = np.concatenate([children, own]).astype(np.int32)
    roots, going = _by_depth(call, _placed(nodes.roots, inner), child, inner)
    kind = np.int32
    pad = np.zeros(leaves, np.int64)
    tests = sorted({int(m) for m in mode}) or [LEQ]
    return Forest(
        inner,
        roots.astype(kind),
        going,
        np.concatenate([nodes.feature, pad]).astype(kind),
        np.concatenate([nodes.split, pad.astype(nodes.split.dtype)]),
        child,
        np.concatenate([mode, pad]).astype(kind),
        tests,
        np.concatenate([missing, pad]).astype(kind) if missing.any() else None,
        weights,
        present,
        targets,
    )


def _placed(places: Array, inner: int) -> Array:
    """Places of nodes and ~leaves as rows of the tables."""
    return np.where(places >= 0, places, inner - 1 - places)


def _by_depth(call: Call, roots: Array, child: Array, inner: int) -> tuple[Array, list[int]]:
    """The roots by falling depth, and how many trees have a further level at each."""
    depth = np.zeros(len(roots), np.int64)
    owner, front = np.arange(len(roots)), roots
    level = 0
    while True:
        open_ = front < inner
        owner, front = owner[open_], front[open_]
        if not len(front):
            break
        level += 1
        if level > _DEEPEST:
            raise call.fail(f"a tree is deeper than {_DEEPEST}, or its nodes go in a circle")
        depth[owner] = level
        both = np.concatenate([front * 2, front * 2 + 1])
        pairs = np.unique(np.stack([np.concatenate([owner, owner]), child[both]]), axis=1)
        owner, front = pairs[0], pairs[1]
        if len(front) > 4 * (inner + len(child)):
            raise call.fail("its trees share too many nodes")
    order = np.argsort(-depth, kind="stable")
    going = [int((depth > n).sum()) for n in range(level)]
    return roots[order], going


def leaves_of(forest: Forest, x: Tensor, tables: list[Tensor]) -> Tensor:
    """The leaf (trees, rows) that each row of `x` (rows, features) comes to."""
    roots, feature, split, child, _, *rest = tables
    missing = rest.pop(0) if forest.missing is not None else None
    mode = rest.pop(0) if rest else None
    rows, trees = x.shape[0], roots.shape[0]
    columns = x.t().reshape(-1)
    wide = "int64" if x.numel() >= 1 << 31 else "int32"
    row = rl.arange(rows, device=x.device).to(wide).reshape(1, -1)
    place = roots.reshape(-1, 1).expand(trees, rows)
    ended: list[Tensor] = []
    for going in forest.going:
        if going < place.shape[0]:
            ended.append(place[going:])
            place = place[:going]
        flat = place.reshape(-1)

        def read(table: Tensor, at: Tensor = flat) -> Tensor:
            return rl.index_select(table, 0, at).reshape(-1, rows)

        at = read(feature).to(wide) * rows + row
        value = rl.index_select(columns, 0, at.reshape(-1)).reshape(-1, rows)
        bound = read(split)
        passed = _tested(forest.tests, value, bound, None if mode is None else read(mode))
        if missing is not None:
            passed = passed | (rl.isnan(value) & (read(missing) > 0))
        step = place * 2 + (~passed).to(place.dtype)
        place = rl.index_select(child, 0, step.reshape(-1)).reshape(-1, rows)
    ended.append(place)
    return (rl.cat(ended[::-1], 0) if len(ended) > 1 else place) - forest.inner


def _tested(tests: list[int], value: Tensor, bound: Tensor, mode: Tensor | None) -> Tensor:
    outcomes = {LEQ: rl.le, LT: rl.lt, EQ: rl.eq}
    passed = outcomes[tests[0]](value, bound)
    for test in tests[1:]:
        assert mode is not None
        passed = rl.where(mode == test, outcomes[test](value, bound), passed)
    return passed


def walked(forest: Forest, x: Tensor, tables: list[Tensor], aggregate: str) -> Tensor:
    """The sum, mean, least or greatest of the weights (rows, targets) of every row's leaves."""
    trees, rows = len(forest.roots), x.shape[0]
    if not trees or not rows:
        return rl.zeros((rows, forest.targets), dtype=tables[4].dtype, device=x.device)
    width = forest.weights.shape[1] if forest.weights.ndim > 1 else 1
    at_once = max(1, _MOST_PLACES // (trees * max(width, 1)))
    pieces = [
        _summed(forest, x[start : start + at_once], tables, aggregate)
        for start in range(0, rows, at_once)
    ]
    return rl.cat(pieces, 0) if len(pieces) > 1 else pieces[0]


def _summed(forest: Forest, x: Tensor, tables: list[Tensor], aggregate: str) -> Tensor:
    leaves, weights = leaves_of(forest, x, tables), tables[4]
    trees, rows = leaves.shape
    per = rl.index_select(weights, 0, leaves.reshape(-1)).reshape(trees, rows, -1)
    if aggregate in ("SUM", "AVERAGE"):
        total = per.sum(0)
        return total / trees if aggregate == "AVERAGE" else total
    lowest = aggregate == "MIN"
    if forest.present is None:
        return per.amin(0) if lowest else per.amax(0)
    there = tensor(forest.present, device=x.device).to("int32")
    there = rl.index_select(there, 0, leaves.reshape(-1)).reshape(trees, rows, -1) > 0
    away = rl.full_like(per, float("inf") if lowest else float("-inf"))
    kept = rl.where(there, per, away)
    best = kept.amin(0) if lowest else kept.amax(0)
    return rl.where(there.any(0), best, rl.zeros_like(best))


def dense_weights(
    call: Call, leaf: Array, target: Array, weight: Array, leaves: int, targets: int
) -> tuple[Array, Array | None]:
    """(leaves, targets) of weights, and which of them the file has; None if it has all."""
    if targets < 1 or leaves * targets > _MOST_WEIGHTS:
        raise call.fail(f"{leaves} leaves of {targets} targets; at most {_MOST_WEIGHTS} weights")
    if len(target) and not ((target >= 0) & (target < targets)).all():
        raise call.fail(f"a leaf's target is none of {targets}")
    out = np.zeros((leaves, targets), weight.dtype)
    np.add.at(out, (leaf, target), weight)
    present = np.zeros((leaves, targets), bool)
    present[leaf, target] = True
    return out, None if present.all() else present
