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

NATIVE: Any = _backends.RushlightBackend  # type: ignore[attr-defined]
# Functions of einops.tests that run operations of backends, by module.
THEIRS = {
    "test_einsum": "test_functional test_functional_errors",
    "test_ops": "test_collapsed_ellipsis_errors_out test_ellipsis_ops_imperative "
    "test_rearrange_array_api test_reduce_array_api test_reduction_imperatives "
    "test_reduction_stress_imperatives test_reduction_with_callable_imperatives "
    "test_concatenations_and_stacking test_gradients_imperatives test_tiling_imperatives "
    "test_repeat_imperatives test_repeat_array_api test_list_inputs "
    "test_reduction_imperatives_booleans",
    "test_other": "test_parse_shape_imperative test_is_float_type test_einops_threading",
    "test_packing": "test_pack_unpack_against_numpy test_pack_unpack_array_api",
}


@pytest.fixture
def theirs(device: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A module of einops' tests, for which einops knows NumPy and Rushlight on the device."""

    class Here(NATIVE):  # type: ignore[misc]
        def from_numpy(self, x: Any) -> Any:
            if device != "cpu" and x.dtype in (np.float64, np.int64):
                x = x.astype(f"{x.dtype.kind}4")
            return super().from_numpy(x).detach().to(device).requires_grad_(x.dtype.kind == "f")

    backends = [_backends.NumpyBackend(), Here()]
    monkeypatch.setenv("EINOPS_TEST_BACKENDS", "numpy")
    tests = importlib.import_module("einops.tests")

    def collected(symbolic: bool = False, layers: bool = False) -> list[Any]:
        return [] if symbolic or layers else backends

    def load(name: str) -> Any:
        monkeypatch.setattr(tests, "collect_test_backends", collected)
        sys.modules.pop(f"einops.tests.{name}", None)
        module = importlib.import_module(f"einops.tests.{name}")
        if name == "test_einsum":
            module.valid_backends_functional.append("rushlight")
        return module

    return load


@pytest.mark.native
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("module", "name"), [(m, name) for m, names in THEIRS.items() for name in names.split()]
)
def test_of_einops(module: str, name: str, theirs: Callable[[str], Any]) -> None:
    getattr(theirs(module), name)()
