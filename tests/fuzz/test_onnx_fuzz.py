"""Mutated ONNX files run or raise one error that says why, within bounds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import parser

pytestmark = pytest.mark.native  # needs a process of its own

CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "600"))
CALLS = 3_000_000  # of functions: a changed condition may let a loop run to the bound of a plan

TEXTS = {
    "convolution": """agraph (float[1, 2, 6, 6] x) => (float[1, 3, P] y)
        <float[3, 2, 3, 3] w = {1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1,
        1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1,
        1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1}, int64[3] s = {1, 3, -1}> {
        c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
        r = Relu (c) p = MaxPool <kernel_shape = [2, 2]> (r) y = Reshape (p, s) }""",
    "shapes": """agraph (float[N, 4] x) => (float[K, M] y)
        <int64[1] at = {1}, int64[1] zero = {0}, int64[2] tiles = {2, 2}> {
        s = Shape (x) n = Gather (s, at) e = Concat <axis = 0> (n, at)
        f = ConstantOfShape <value = float[1] {2.0}> (e) t = Transpose <perm = [1, 0]> (f)
        a = Expand (t, n) b = Slice (x, zero, n, at) c = Tile (b, tiles)
        l, r = Split <axis = 1, num_outputs = 2> (c) u = Transpose (x) y = MatMul (l, u) }""",
    "loop": """agraph (int64 n, float[3] x) => (float[3] y, float[M, 3] rows, seq(float[3]) items)
        <int64 zero = {0}> { e = SequenceEmpty <dtype = 1> ()
        y, items, rows = Loop (n, , x, e) <body = b (int64 i, bool c, float[3] s, seq(float[3]) q)
        => (bool again, float[3] next, seq(float[3]) longer, float[3] row) {
        again = Identity (c) k = Cast <to = 1> (i) next = Add (s, k)
        longer = SequenceInsert (q, next) row = SequenceAt (longer, i) }> }""",
    "branches": """agraph (bool c, float[3] x, float[4, 3] w) => (float[3] y, float[3] last)
        { y = If (c) <then_branch = t () => (float[3] a) { a = Neg (x) },
        else_branch = e () => (float[3] b) { b = Abs (x) }>
        last, rows = Scan <num_scan_inputs = 1, body = b (float[3] s, float[3] z)
        => (float[3] next, float[3] row) { next = Max (s, z) row = Mul (next, next) }> (x, w) }""",
    "strings": """agraph (string[3] x, float[3] f) => (int64[3] y, string[P] z) {
        two = StringConcat (x, x) z = StringNormalizer <case_change_action = "UPPER"> (two)
        y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "aa"], values_int64s = [4, 5]> (two) }""",
    "trees": """agraph (float[3, 2] x) => (float[3, 1] y) {
        y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
        nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0],
        nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0],
        nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2],
        target_ids = [0, 0], target_weights = [1.0, 2.0]> (x) }""",
}  # fmt: skip


def test_mutated_files_run_or_raise(
    tmp_path: Path, outcomes_of: Callable[..., list[dict[str, Any]]]
) -> None:
    seeds = []
    for name, text in TEXTS.items():
        head = '<ir_version: 10, opset_import: ["": 20, "ai.onnx.ml": 3]>\n'
        seeds.append(tmp_path / name)
        seeds[-1].write_bytes(parser.parse_model(head + text).SerializeToString())
    outcomes = outcomes_of("onnx_worker.py", CASES, tmp_path, 0, CASES, *seeds)
    wrong = {
        number: o
        for number, o in enumerate(outcomes)
        if o["outcome"] not in {"ran", "refused"} or o["calls"] > CALLS
    }
    assert not wrong, f"{len(wrong)} cases, the first: {next(iter(wrong.items()))}"
    # Mutations that all do the same would test little; a reader that refuses all would pass.
    counts = Counter(o["outcome"] for o in outcomes)
    assert counts["ran"] > 0.1 * CASES and counts["refused"] > 0.2 * CASES, counts
