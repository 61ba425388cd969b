"""onnx's own backend suite over rl.onnx: `python tests/core/onnx/suite.py --device webgpu -k conv`.

The cases come from the package onnx, which makes them when they are asked for. The script prints a
table of what passes, and every case that does not.
"""

from __future__ import annotations

import argparse
import collections
import functools
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl

# Cases that fail on every device, by a pattern of their names, and why.
EXCEPTIONS: dict[str, str] = {
    "test_training_dropout(_default)?(_mask)?": "it expects NumPy's random numbers",
    "test_bernoulli.*": "it expects NumPy's random numbers",
    "test_resize_downsample_scales_(linear|cubic)_align_corners": "it divides by size * scale, "
    "not by the new size, as PyTorch, whose exporter writes such files, and onnxruntime do",
    "test_gradient_of_add(_and_mul)?": "Gradient is refused: differentiate the module instead",
}
# Cases that webgpu refuses by a rule of its own, beside those with float64 or complex tensors.
WEBGPU_EXCEPTIONS: dict[str, str] = {
    "test_det_(2d|nd)": "factorizations are on cpu",
    "test_reduce_log_sum_exp_empty_set_expanded": "its function casts to float64",
    "test_attention_local_window_gqa_rank4_mask_expanded": "its function casts to float64",
}
GROUPS = ("node", "simple", "pytorch-converted", "pytorch-operator")
# What webgpu computes with: the suite's other cases are left to cpu.
_ON_WEBGPU = {1, 2, 3, 5, 6, 7, 9, 12}  # float32, integers up to 32 bits, int64, bool


@functools.cache
def cases(group: str) -> list[Any]:
    """The cases of a group of the suite, ordered by name."""
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = collect_testcases(None) if group == "node" else load_model_tests(kind=group)
    return sorted((c for c in made if c.kind != "real"), key=lambda case: case.name)


def model_and_data(case: Any) -> tuple[bytes, list[tuple[list[Any], list[Any]]]]:
    """A case's file, and (inputs, outputs) of each of its data sets."""
    from onnx import numpy_helper

    if case.model is not None:
        return case.model.SerializeToString(), case.data_sets
    folder = Path(case.model_dir)
    sets = []
    for place in sorted(folder.glob("test_data_set_*")):
        sides = []
        for side in ("input", "output"):
            files = sorted(
                place.glob(f"{side}_*.pb"), key=lambda p: int(re.findall(r"\d+", p.stem)[-1])
            )
            sides.append([_value(path.read_bytes(), numpy_helper) for path in files])
        sets.append((sides[0], sides[1]))
    return (folder / "model.onnx").read_bytes(), sets


def _value(data: bytes, numpy_helper: Any) -> Any:
    import onnx

    tensor = onnx.TensorProto()
    tensor.ParseFromString(data)
    return numpy_helper.to_array(tensor)


def run(case: Any, device: str) -> None:
    """Load and run a case. AssertionError where a result is not what the case says."""
    content, data_sets = model_and_data(case)
    model = rl.onnx.load(content, device=device)
    rtol, atol = (case.rtol, case.atol) if device == "cpu" else (max(case.rtol, 1e-3), 1e-5)
    for inputs, outputs in data_sets:
        results = model(*map(_plain, inputs))
        results = [results] if len(model.outputs) == 1 else list(results)
        assert len(results) == len(outputs)
        for result, expected in zip(results, outputs, strict=True):
            check(result, expected, rtol, max(atol, case.atol))


def _plain(value: Any) -> Any:
    """A value as a caller without ml_dtypes has it."""
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "data_type"):  # types that NumPy has not are messages
        from onnx import numpy_helper

        return numpy_helper.to_array(value)
    return value


def _is_foreign(array: np.ndarray[Any, Any]) -> bool:
    return str(array.dtype.type.__module__) == "ml_dtypes"


def check(result: Any, expected: Any, rtol: float, atol: float) -> None:
    """Compare values, dtypes and shapes; of types that NumPy has not, the values."""
    if isinstance(expected, list | tuple):
        assert isinstance(result, list) and len(result) == len(expected), (result, expected)
        for a, b in zip(result, expected, strict=True):
            check(a, b, rtol, atol)
        return
    if expected is None or isinstance(expected, dict):
        assert result == expected, (result, expected)
        return
    expected = np.asarray(_plain(expected))
    if isinstance(result, rl.Tensor):
        result = result.detach().host_values()
    result = np.asarray(result)
    assert result.shape == expected.shape, f"shape {result.shape}, not {expected.shape}"
    if expected.dtype.kind in "OUS":
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in expected.reshape(-1)]
        assert [str(v) for v in result.reshape(-1)] == texts, (result, expected)
        return
    if not _is_foreign(expected):
        assert result.dtype == expected.dtype, f"dtype {result.dtype}, not {expected.dtype}"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    if expected.dtype.name == "bfloat16":  # two steps: the suite rounds each intermediate
        rtol = max(rtol, 2.0**-6)
    if expected.dtype.kind in "fc" and expected.size:  # the rounding of the largest, once
        largest = np.abs(expected[np.isfinite(expected)].astype(wide)).max(initial=0)
        atol = max(atol, 2.0**-23 * float(largest.real))
    np.testing.assert_allclose(
        result.astype(wide), expected.astype(wide), rtol=rtol, atol=atol, equal_nan=True
    )


def runs_on(case: Any, device: str) -> bool:
    """Whether a device's own rules allow a case: webgpu has neither float64 nor complex numbers."""
    if device == "cpu":
        return True
    import onnx

    graph = onnx.load_from_string(model_and_data(case)[0]).graph
    return all(_kinds(info.type) <= _ON_WEBGPU for info in (*graph.input, *graph.output))


def _kinds(kind: Any) -> set[int]:
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _kinds(getattr(kind, which).elem_type)
    return {kind.tensor_type.elem_type} if which == "tensor_type" else {8}


def excepted(case: Any, device: str) -> str:
    """Why a case is expected to fail on a device; "" for one that must pass."""
    rows = EXCEPTIONS if device == "cpu" else {**EXCEPTIONS, **WEBGPU_EXCEPTIONS}
    return next((why for pattern, why in rows.items() if re.fullmatch(pattern, case.name)), "")


def outcomes(
    device: str, group: str, pattern: str = "", shard: int = 0, shards: int = 1
) -> dict[str, Exception | None]:
    """What each case of a group gave: None where it passed, else the exception.

    shard, shards: every `shards`th case from number `shard` on.
    """
    out: dict[str, Exception | None] = {}
    for case in cases(group)[shard::shards]:
        if not re.search(pattern, case.name) or not runs_on(case, device):
            continue
        try:
            with np.errstate(all="ignore"):
                run(case, device)
            out[case.name] = None
        except Exception as error:  # every failure of a case is reported, whatever it is
            out[case.name] = error
    return out


def main(arguments: Sequence[str]) -> int:
    """Print the table; the number of cases that fail without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-k", default="", help="a regular expression of names")
    options = parser.parse_args(arguments)
    wrong = 0
    print(f"| group, {options.device} | cases | pass | expected to fail |\n|---|---|---|---|")
    told: list[str] = []
    for group in GROUPS:
        by_name = {case.name: case for case in cases(group)}
        counts: collections.Counter[str] = collections.Counter()
        for name, error in outcomes(options.device, group, options.k).items():
            why = excepted(by_name[name], options.device)
            counts["pass" if error is None else "expected" if why else "fail"] += 1
            if error is not None:
                told.append(f"{name}: {why or f'{type(error).__name__}: {error}'}")
        wrong += counts["fail"]
        print(f"| {group} | {counts.total()} | {counts['pass']} | {counts['expected']} |")
    print("\n".join(line.splitlines()[0][:200] for line in told))
    return min(wrong, 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
