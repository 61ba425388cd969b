"""einops over tensors: its own tests with our backend, and both orders of import."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import einops
import numpy as np
import pytest
from einops import _backends

import rushlight as rl

NATIVE: Any = vars(_backends)["RushlightBackend"]
NUMPY: Any = _backends.NumpyBackend
# Functions of einops.tests that run operations of backends, by module.
THEIRS = {
    "test_einsum": "test_functional test_functional_errors",
    "test_ops": "test_collapsed_ellipsis_errors_out test_ellipsis_ops_imperative "
    "test_rearrange_array_api test_reduce_array_api test_reduction_imperatives "
    "test_reduction_stress_imperatives test_reduction_with_callable_imperatives "
    "test_concatenations_and_stacking test_gradients_imperatives test_tiling_imperatives "
    "test_repeat_imperatives test_repeat_array_api test_list_inputs "
    "test_reduction_imperatives_booleans",
    "test_other": "test_parse_shape_imperative test_is_float_type",
    "test_packing": "test_pack_unpack_against_numpy test_pack_unpack_array_api",
}


@pytest.fixture
def theirs(device: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A module of einops' tests, for which einops knows NumPy and Rushlight on the device."""

    class Here(NATIVE):  # type: ignore[misc]
        # Its tests give the library of this name 7 dims; a kernel of webgpu walks up to 8.
        framework_name = "rushlight" if device == "cpu" else "rushlight, like oneflow"

        def from_numpy(self, x: Any) -> Any:
            if device != "cpu" and x.dtype in (np.float64, np.int64):
                x = x.astype(f"{x.dtype.kind}4")
            return rl.from_numpy(x).to(device).requires_grad_(x.dtype.kind == "f")

        def arange(self, start: int, stop: int) -> Any:
            return rl.arange(start, stop, device=device)

        def tile(self, x: Any, repeats: Any) -> Any:
            return x.repeat(tuple(repeats))

    backends = [backend() for backend in (NUMPY, Here)]
    monkeypatch.setenv("EINOPS_TEST_BACKENDS", "numpy")
    tests = importlib.import_module("einops.tests")

    def collected(symbolic: bool = False, layers: bool = False) -> list[Any]:
        return [] if symbolic or layers else backends

    def load(name: str) -> Any:
        monkeypatch.setattr(tests, "collect_test_backends", collected)
        sys.modules.pop(f"einops.tests.{name}", None)
        module: Any = importlib.import_module(f"einops.tests.{name}")
        if name == "test_einsum":
            module.valid_backends_functional.append(Here.framework_name)
        if name == "test_ops" and device != "cpu":  # its products need float64
            module.REDUCTIONS = [r for r in module.REDUCTIONS if r != "prod"]
        return module

    return load


@pytest.mark.native
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("module", "name"), [(m, name) for m, names in THEIRS.items() for name in names.split()]
)
def test_of_einops(module: str, name: str, theirs: Callable[[str], Any]) -> None:
    getattr(theirs(module), name)()


@pytest.mark.native
@pytest.mark.parametrize("first", ["einops", "rushlight"])
def test_either_is_imported_first(first: str) -> None:
    second = {"einops": "rushlight", "rushlight": "einops"}[first]
    program = f"""
import sys
import {first}
assert {second!r} not in sys.modules
import {second}
x = rushlight.arange(6.0, requires_grad=True)
y = einops.rearrange(x, "(a b) -> b a", a=2)
assert y.tolist() == [[0, 3], [1, 4], [2, 5]]
einops.reduce(y * y, "b a -> ", "sum").backward()
assert x.grad.tolist() == [0, 2, 4, 6, 8, 10]
assert not any(type(f).__module__ == "rushlight.core.einops" for f in sys.meta_path)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_patterns(device: str) -> None:
    x = rl.arange(24.0, device=device).reshape(2, 3, 4)
    array = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for found, expected in (
        (einops.rearrange(x, "a b c -> c (b a)"), einops.rearrange(array, "a b c -> c (b a)")),
        (einops.repeat(x, "a b c -> a (b r) c", r=2), np.repeat(array, 2, 1)),
        (einops.reduce(x, "a b c -> b", "max"), array.max((0, 2))),
        (einops.reduce(x + 1, "a b c -> b c", "prod"), (array + 1).prod(0)),
        (einops.einsum(x, x, "a b c, d b c -> a d"), np.einsum("abc,dbc->ad", array, array)),
        (einops.pack([x, x[:, 0]], "a * c")[0], np.concatenate([array, array[:, :1]], 1)),
    ):
        assert isinstance(found, rl.Tensor) and found.device == x.device
        np.testing.assert_allclose(found.numpy(), expected, 1e-6)
    assert einops.asnumpy(x).tolist() == array.tolist()
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 4}
