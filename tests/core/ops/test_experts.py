"""linear_experts: rows that name the matrix they go through, of any storage dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.nn import functional as F
from rushlight.core.tools.testing import assert_close, block_draws, draws

EXPERTS, OUT, COLUMNS = 5, 12, 64
BLOCKS = [name for name, dtype in DTYPES.items() if dtype.kind == "q"]


def blocks(name: str, device: str) -> tuple[rl.Tensor, Any]:
    """A stack of experts in blocks, and its values."""
    dtype = DTYPES[name]
    columns = max(COLUMNS, dtype.block)
    raw = block_draws(5, dtype, EXPERTS * OUT * columns // dtype.block)
    t = rl.Tensor.from_buffer(raw.tobytes(), name, (EXPERTS, OUT, columns))
    return t.to(device), t.dequantize().numpy().astype(np.float64)


def expected(x: Any, values: Any, index: Any) -> Any:
    return np.einsum("...k,...mk->...m", x.astype(np.float64), values[index])


def names(shape: tuple[int, ...], seed: int = 9) -> Any:
    return draws(seed, shape, 0, EXPERTS).astype(np.int64)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("rows", [1, 3, 90])
def test_blocks(name: str, rows: int, device: str) -> None:
    weight, values = blocks(name, device)
    columns = weight.shape[-1]
    x, index = draws(1, (rows, columns)).astype(np.float32), names((rows,))
    put, i = rl.tensor(x, device=device), rl.tensor(index, device=device)
    bias = draws(2, (EXPERTS, OUT)).astype(np.float32)
    found = F.linear_experts(put, weight, i, rl.tensor(bias, device=device))
    assert found.dtype is rl.float32
    assert_close(found, expected(x, values, index) + bias[index], "product")
    put.requires_grad_()
    g = draws(3, (rows, OUT)).astype(np.float32)
    out = F.linear_experts(put, weight, i)
    (grad,) = rl.autograd.grad(out, [put], rl.tensor(g, device=device))
    assert grad is not None
    assert_close(grad, expected(g, values.swapaxes(1, 2), index), "product")


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64"])
def test_two_experts_for_each_row(kind: str, device: str) -> None:
    """As in a model: x is the same for every expert that a token has, and lies there once."""
    weight, values = blocks("q8_0", device)
    x, index = draws(1, (4, 7, 1, COLUMNS)).astype(np.float32), names((4, 7, 2))
    wide = rl.tensor(x, device=device).expand(4, 7, 2, COLUMNS)
    given = rl.tensor(index.astype(kind)).to(device)
    found = rl.linear_experts(wide, weight[1:4], given % 3)
    assert_close(found, expected(np.broadcast_to(x, wide.shape), values[1:4], index % 3), "product")
    turned = given.permute(1, 0, 2) % 3
    found = rl.linear_experts(wide.permute(1, 0, 2, 3), weight[1:4], turned)
    right = expected(np.broadcast_to(x, wide.shape), values[1:4], index % 3).swapaxes(0, 1)
    assert_close(found, right, "product")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("out", [3, 8])
def test_narrow_floats(dtype: str, out: int, device: str) -> None:
    x, w = draws(1, (30, 9)), draws(2, (EXPERTS, out, 9))
    index = names((30,))
    rows, weight = (rl.tensor(a).to("float32").to(dtype) for a in (x, w))
    put = rl.tensor(index, device=device)
    found = F.linear_experts(rows.to(device), weight.to(device), put)
    assert found.dtype.name == dtype
    values = weight.float().numpy().astype(np.float64)
    assert_close(found.cpu(), expected(rows.float().numpy(), values, index), "product")
    # The same rows where neighbours of a row lie apart.
    turned = rows.t().contiguous().to(device).t()
    assert np.array_equal(F.linear_experts(turned, weight.to(device), put).tolist(), found.tolist())


@pytest.mark.parametrize("rows", [2, 300])
@pytest.mark.parametrize("bad", [EXPERTS, -1])
def test_an_index_out_of_range(rows: int, bad: int, device: str) -> None:
    index = names((rows,))
    index[-1] = bad
    x, w = rl.ones(rows, 8, device=device), rl.ones(EXPERTS, 4, 8, device=device)
    with pytest.raises(IndexError, match=f"linear_experts: index {bad} is out of range for size 5"):
        F.linear_experts(x, w, rl.tensor(index, device=device)).numpy()
    with pytest.raises(IndexError, match=f"linear_experts_t: index {bad} is out of range"):
        put = rl.tensor(index, device=device)
        rl.core.tensor.op.REGISTRY["linear_experts_t"](x[:, :4], w, put).numpy()
    index[-1] = 0
    good = F.linear_experts(x, w, rl.tensor(index, device=device))
    assert np.all(good.numpy() == 8)


def test_nothing_of_other_rows_gets_into_a_gradient(device: str) -> None:
    x = rl.tensor([[1.0, 2.0], [float("nan"), 1.0]], device=device)
    w = rl.ones(2, 3, 2, device=device).requires_grad_()
    F.linear_experts(x, w, rl.tensor([0, 1], device=device)).sum().backward()
    assert w.grad is not None
    assert np.array_equal(w.grad.numpy()[0], [[1, 2]] * 3)
    assert np.all(np.isnan(w.grad.numpy()[1, :, 0]))


def test_operands_that_do_not_fit_are_named() -> None:
    x, w = rl.ones(3, 4), rl.ones(2, 5, 4)
    i = rl.tensor([0, 1, 0])
    mistakes: tuple[tuple[Any, type[Exception], str], ...] = (
        (
            lambda: rl.linear_experts(x, w[:, :, :3], i),
            ValueError,
            r"linear_experts: x has 4 features in its last dim, weight \(2, 5, 3\) takes 3",
        ),
        (lambda: rl.linear_experts(x, w[0], i), ValueError, r"takes \(experts, out, in\) features"),
        (lambda: rl.linear_experts(x, w, i[:2]), ValueError, r"index is \(2,\); it must be"),
        (lambda: rl.linear_experts(x, w, i.float()), TypeError, "index is float32"),
        (lambda: rl.linear_experts(i, w, i), TypeError, "x is int64; it must be a floating"),
        (lambda: rl.linear_experts(x, w, i, rl.ones(2)), ValueError, r"wants \(2, 5\)"),
    )
    for call, error, text in mistakes:
        with pytest.raises(error, match=text):
            call()
