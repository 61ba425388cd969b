"""Complex numbers: memory, files, refusals and gradients against differences; transforms."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close, check_gradient, draws


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Complex draws."""
    return draws(1, shape) + 1j * draws(2, shape)


def test_parts_share_memory() -> None:
    x = rl.tensor([[1 + 2j, 3 - 4j]])
    assert x.dtype is rl.complex64 and x.dtype.is_complex and not x.dtype.is_floating_point
    pairs = rl.view_as_real(x[:, 1:])
    assert pairs.tolist() == [[[3.0, -4.0]]]
    pairs += 1
    assert x.tolist() == [[1 + 2j, 4 - 3j]] and x.imag.tolist() == [[2.0, -3.0]]
    assert rl.view_as_complex(pairs).item() == 4 - 3j and x.mH.tolist() == [[1 - 2j], [4 + 3j]]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_numpy_and_npz(dtype: str, tmp_path: Any) -> None:
    x = numbers(2, 3).astype(dtype)
    t = rl.from_numpy(x)
    assert t.dtype.name == dtype and t.numpy() is not None
    np.testing.assert_array_equal(t.numpy(), x)
    file = io.BytesIO()
    np.savez(file, x=x)
    path = tmp_path / "x.npz"
    path.write_bytes(file.getvalue())
    np.testing.assert_array_equal(rl.load(path)["x"].numpy(), x)


def test_gradients_agree_with_differences() -> None:
    def transformed(pairs: rl.Tensor) -> rl.Tensor:
        x = rl.view_as_complex(pairs)
        return rl.view_as_real(rl.fft.fft(x * x.conj() * x) / (x + 3))

    check_gradient(transformed, [draws(1, (2, 3, 2))], label="fft")


def test_sum_of_the_definition() -> None:
    x = numbers(3, 7)
    way = np.exp(-2j * np.pi * np.outer(np.arange(7), np.arange(7)) / 7)
    found = rl.fft.fft(rl.tensor(x))
    assert_close(rl.view_as_real(found), np.stack([(x @ way).real, (x @ way).imag], -1), "product")
    back = rl.fft.irfft(rl.fft.rfft(rl.tensor(x.real)), n=7)
    assert_close(back, x.real, "product")


def test_a_signal_comes_back_from_its_spectrogram() -> None:
    x = rl.tensor(draws(1, (2, 100)))
    w = rl.hann_window(16, dtype=rl.float64)
    found = rl.istft(rl.stft(x, 16, window=w, return_complex=True), 16, window=w, length=100)
    assert_close(found, x.numpy(), "product")


def test_refusals_name_the_dtype(device: str) -> None:
    x = rl.tensor([1 + 2j])
    with pytest.raises(TypeError, match="floor: complex64 is not supported; take parts by real"):
        x.floor()
    if device == "webgpu":
        with pytest.raises(TypeError, match="webgpu has no complex64; compute on cpu"):
            x.to(device)
        with pytest.raises(TypeError, match="webgpu has no complex64"):
            rl.fft.rfft(rl.ones(4, device=device))
    else:
        assert x.to(device).tolist() == [1 + 2j]


def test_products_and_running_sums_of_complex_numbers() -> None:
    z = np.array([[1 + 2j, -1j, 0.5], [2, 1 - 1j, 3j]])
    x = rl.from_numpy(z)
    for found, expected in (
        (x.prod(1), z.prod(1)),
        (x.prod(), z.prod()),
        (x.cumsum(1), z.cumsum(1)),
        (x.cumprod(0), z.cumprod(0)),
        (rl.linalg.vecdot(x, x), (z.conj() * z).sum(1)),
    ):
        assert found.dtype is rl.complex128
        np.testing.assert_allclose(found.numpy(), expected, 1e-14)
    edge = rl.nextafter(rl.tensor([math.inf], dtype=rl.float64), rl.zeros(1, dtype=rl.float64))
    assert edge.item() == rl.finfo(rl.float64).max
