"""Products in the modes that round: in bytes, in runs of 32, and in float16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.lowering.products import gemm
from rushlight.core.backends.webgpu.lowering.products.rounded import byte_types
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.nn import functional as F
from rushlight.core.tools.testing import block_draws, draws

pytestmark = pytest.mark.native
Array = npt.NDArray[Any]
# Sums in float32 of what was rounded, as parts of the root mean square of a result.
_BOUND = 2e-5


def rounded(x: Array) -> Array:
    """The values that the kernels multiply, in float64: a run of 32 has 255 levels."""
    runs = x.astype(np.float32).reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(runs).max(-1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.where(scale > 0, np.round(runs / scale), 0)
    values: Array = (levels * scale.astype(np.float64)).reshape(x.shape)
    return values


def weights(name: str, rows: int, columns: int) -> tuple[rl.Tensor, Array]:
    """A matrix in blocks on the device, and its values."""
    dtype = DTYPES[name]
    raw = block_draws(5, dtype, rows * columns // dtype.block)
    t = rl.Tensor.from_buffer(raw.tobytes(), name, (rows, columns))
    return t.to("webgpu"), t.dequantize().numpy().astype(np.float64)


def apart(got: rl.Tensor, want: Array) -> float:
    """The largest difference, by the root mean square of what is wanted."""
    values = got.cpu().numpy().astype(np.float64)
    return float(np.abs(values - want).max() / np.sqrt(np.mean(want**2)))


@pytest.mark.parametrize("name", list(gemm.BYTES))
def test_every_configuration(name: str, force: Callable[[str], None]) -> None:
    """Rows and columns beyond tiles, halves with scales and sums of their own, a strided row."""
    force(name)
    rows = 1 if gemm.BYTES[name].rows == 1 else 6
    weight, values = weights("q2_k", 70, 512)
    x, bias = draws(1, (512, rows + 1)).astype(np.float32), draws(2, (70,))
    with rl.linear_mode("int8"):
        got = F.linear(
            rl.tensor(x).to("webgpu").t()[1:],
            weight,
            rl.tensor(bias.astype(np.float32)).to("webgpu"),
        )
    want = rounded(np.ascontiguousarray(x.T)[1:]) @ values.T + bias
    assert apart(got, want) < _BOUND


def test_types_of_bytes() -> None:
    """One row, as it is chosen by itself; a type without bytes is computed exactly."""
    assert {"q4_0", "q4_1", "q5_0", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"} <= {
        d.name for d in byte_types()
    }
    for kind in ("q4_0", "q5_1", "q8_0", "q4_k", "q6_k", "iq4_nl", "iq2_s"):
        weight, values = weights(kind, 8, 256)
        x = draws(3, (1, 256)).astype(np.float32)
        with rl.linear_mode("int8"):
            got = F.linear(rl.tensor(x).to("webgpu"), weight)
        exact = DTYPES[kind] not in byte_types()
        assert apart(got, (x if exact else rounded(x)) @ values.T) < _BOUND, kind


def test_captured_steps_keep_their_mode() -> None:
    """A batch of many rows in tiles, with what follows in the same kernel; exact stays exact."""
    weight, values = weights("q8_0", 40, 64)
    x = draws(4, (2, 5, 64)).astype(np.float32)
    given = rl.tensor(x).to("webgpu")
    step: Any = rl.jit(lambda x: F.linear(x, weight).relu() + 1)
    with rl.no_grad():
        for mode in ("int8", "exact", "int8"):
            with rl.linear_mode(mode):
                got = step(given)
            seen = rounded(x) if mode == "int8" else x
            assert apart(got, np.maximum(seen @ values.T, 0) + 1) < _BOUND, mode


@pytest.mark.parametrize("name", ["int8_row", "int8_tile64"])
def test_outliers_and_values_that_are_not_finite(name: str, force: Callable[[str], None]) -> None:
    """1e5 in one feature costs its run of 32 only; an infinity is seen in its row alone."""
    force(name)
    weight, values = weights("q4_0", 64, 128)
    x = draws(6, (2, 128)).astype(np.float32)
    x[0, 40] = 1e5
    x[1, 3:] = 0
    with rl.linear_mode("int8"):
        got = F.linear(rl.tensor(x).to("webgpu"), weight)
        assert apart(got, rounded(x) @ values.T) < _BOUND
        x[0, 70] = np.inf
        far = F.linear(rl.tensor(x).to("webgpu"), weight).cpu().numpy()
    assert not np.isfinite(far[0]).any() and np.isfinite(far[1]).all()


@pytest.mark.parametrize("name", list(gemm.HALVES))
def test_tiles_in_float16(name: str, backend: Any, force: Callable[[str], None]) -> None:
    """Within what float16 rounds, also with an outlier; an infinity is seen in its row alone."""
    if "shader-f16" not in backend.port.features:
        pytest.skip("the adapter has no shader-f16")
    force(name)
    weight, values = weights("q4_k", 70, 256)
    x = draws(6, (3, 256)).astype(np.float32)
    x[0, 40] = 1e5
    x[1, 3:] = 0
    got = F.linear(rl.tensor(x).to("webgpu"), weight)
    want = x @ values.T
    for i in range(3):
        assert apart(got[i], want[i]) < 4e-3, i
    x[0, 70] = np.inf
    far = F.linear(rl.tensor(x).to("webgpu"), weight).cpu().numpy()
    assert not np.isfinite(far[0]).any() and np.isfinite(far[1:]).all()


def test_it_is_asked_for_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fast`, which generation asks for by itself, stays exact here; without packed bytes int8,
    too."""
    backend: Any = rl.device("webgpu").backend
    kind = DTYPES["q4_0"]
    assert [backend.linear_as(mode, kind) for mode in ("exact", "fast", "int8")] == [
        "exact",
        "exact",
        "int8",
    ]
    assert rl.device("cpu").backend.linear_as("int8", kind) in ("fast", "exact")
    monkeypatch.setattr(backend.port, "features", frozenset({"shader-f16"}))
    assert [backend.linear_as(mode, kind) for mode in ("fast", "int8")] == ["exact", "float16"]
    monkeypatch.setattr(backend.port, "features", frozenset())
    assert [backend.linear_as(mode, kind) for mode in ("float16", "int8")] == ["exact", "exact"]
    weight, values = weights("q4_0", 8, 64)
    x = draws(3, (1, 64)).astype(np.float32)
    with rl.linear_mode("int8"):
        assert apart(F.linear(rl.tensor(x).to("webgpu"), weight), x @ values.T) < _BOUND
