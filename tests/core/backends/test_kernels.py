"""Kernels at sizes where they take another path: blocks, chunks of rows, large sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close, draws


@pytest.mark.parametrize("name", ["erf", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("shape", [(40001,), (3, 20001)])
def test_functions_computed_by_blocks(device: str, name: str, shape: tuple[int, ...]) -> None:
    x = draws(1, shape, -5, 5).astype(np.float32)
    calls: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
        "erf": rl.erf,
        "gelu": rl.gelu,
        "gelu_tanh": lambda t: rl.gelu(t, approximate="tanh"),
    }
    call = calls[name]
    tensor = rl.tensor(x, device=device)
    whole = call(tensor).cpu().numpy().reshape(-1)
    flat = x.reshape(-1)
    some = np.arange(0, flat.size, 97)
    references: dict[str, Callable[[float], float]] = {
        "erf": math.erf,
        "gelu": lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2)),
        "gelu_tanh": lambda v: (
            0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
        ),
    }
    reference = references[name]
    assert_close(whole[some], [reference(float(v)) for v in flat[some]], "cancelling")
    strided = rl.tensor(np.repeat(flat, 2), device=device)[::2]
    # Not every vector unit rounds a strided pass alike.
    assert_close(call(strided).cpu(), whole.astype(np.float64), "cancelling")


def test_erf_far_out(device: str) -> None:
    x = rl.tensor([3.9, 4.0, 4.05, 4.2, 6.0, 30.0, 1e30, float("inf"), 0.0, 1e-30], device=device)
    for y, sign in ((rl.erf(x), 1), (rl.erf(-x), -1)):
        assert_close(y.cpu(), [sign * math.erf(v) for v in x.tolist()])
    far = rl.tensor([-6.0, -30.0, -1e30], device=device)
    assert rl.gelu(far).tolist() == [0, 0, 0], "1 + erf leaves nothing for x to multiply"


def test_attention_in_chunks_of_rows(device: str) -> None:
    """More queries than are held at once, each row seen by its own mask."""
    n = 1100
    q = rl.tensor(draws(1, (1, 1, n, 2)).astype(np.float32), device=device)
    mask = rl.tensor(draws(2, (1, 1, n, 5)) > 0, device=device)
    bias = rl.tensor(draws(3, (1, 1, n, 5)).astype(np.float32), device=device)
    k, v = q[:, :, :5], q[:, :, 5:10]
    offset = rl.tensor([3 - n], device=device)
    whole = rl.attention(q, k, v, bias=bias, mask=mask, causal=True, q_offset=offset, window=700)
    for rows in (slice(0, 10), slice(1020, 1030), slice(1090, 1100)):
        part = rl.attention(
            q[:, :, rows],
            k,
            v,
            bias=bias[:, :, rows],
            mask=mask[:, :, rows],
            causal=True,
            q_offset=offset + rows.start,
            window=700,
        )
        assert_close(whole[:, :, rows].cpu(), part.cpu().numpy(), "product")
    assert float(whole[:, :, 1090:].abs().sum()) > 0


def test_large_sums_stay_accurate(device: str) -> None:
    x = draws(1, (1 << 18,), 0, 1).astype(np.float32)
    total = math.fsum(x.tolist())
    assert abs(rl.tensor(x, device=device).sum().item() / total - 1) < 1e-6
    assert abs(rl.tensor(x, device=device).mean().item() / (total / x.size) - 1) < 1e-6
    half = rl.tensor(x, device=device).half()
    assert abs(half.mean().item() - total / x.size) < 1e-3, "summed in float32"
    counted = rl.ones(70000, dtype=rl.bool, device=device)
    assert counted.sum().item() == 70000
    assert rl.full((300,), 255, dtype=rl.uint8, device=device).sum().item() == 76500


def test_products_with_odd_layouts(device: str) -> None:
    a, b = draws(1, (33, 17)), draws(2, (17, 29))
    x, y = (rl.tensor(v.astype(np.float32), device=device) for v in (a, b))
    want = a.astype(np.float32).astype(float) @ b.astype(np.float32).astype(float)
    assert_close((x @ y).cpu(), want, "product")
    assert_close((y.t() @ x.t()).cpu(), want.T, "product")
    wide = rl.cat([x, x], 1)
    assert_close((wide[:, 17:] @ y).cpu(), want, "product")
    assert_close((x[:1].expand(5, 17) @ y).cpu(), np.repeat(want[:1], 5, 0), "product")
    assert_close((x.expand(2, 33, 17) @ y).cpu(), np.stack([want, want]), "product")
    bools = (x > 0) @ (y > 0)
    np.testing.assert_array_equal(bools.cpu().numpy(), ((a > 0).astype(int) @ (b > 0)) > 0)
