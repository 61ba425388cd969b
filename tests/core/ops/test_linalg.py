"""Linear algebra where torch is no measure: errors, singular matrices, refusals, many matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close, draws

linalg: Any = rl.linalg  # with names of arguments that its types do not have


def test_errors_say_what_failed() -> None:
    singular = rl.ones(2, 2)
    with pytest.raises(linalg.LinAlgError, match=r"linalg.solve: Singular matrix"):
        linalg.solve(singular, rl.ones(2))
    with pytest.raises(linalg.LinAlgError, match=r"linalg.cholesky: Matrix is not positive"):
        linalg.cholesky(-singular)
    with pytest.raises(linalg.LinAlgError, match="diagonal.*: at 2"):
        linalg.lu_factor_ex(singular, check_errors=True)
    with pytest.raises(RuntimeError, match=r"matrices of shape \(2, 3\) must be square"):
        linalg.inv(rl.ones(2, 3))
    with pytest.raises(RuntimeError, match="float16 is not supported; use .float()"):
        linalg.det(rl.ones(2, 2, dtype=rl.float16))
    with pytest.raises(RuntimeError, match=r"use mode='reduced'"):
        linalg.qr(rl.ones(3, 2).requires_grad_(), "complete").R.sum().backward()
    with pytest.raises(AttributeError, match="linalg.eigs is not there"):
        linalg.eigs  # noqa: B018
    with pytest.raises(linalg.LinAlgError, match="ldl_factor_ex: D has a zero.*: at 1"):
        linalg.ldl_factor(rl.zeros(2, 2))
    with pytest.raises(RuntimeError, match="pivots must be from 1 to 2"):
        linalg.ldl_solve(rl.eye(2), rl.tensor([3, 1]), rl.ones(2, 1))


def test_a_singular_matrix_among_others() -> None:
    a = rl.tensor([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 4.0]]])
    found, info = linalg.solve_ex(a, rl.ones(2, 2, 1))
    assert info.tolist() == [2, 0] and found[1].reshape(2).tolist() == [0.5, 0.25]
    assert bool(found[0].isnan().all())
    factor, info = linalg.cholesky_ex(rl.tensor([[4.0, 2.0], [2.0, 0.0]]))
    assert info.item() == 2 and factor[:, 0].tolist() == [2.0, 1.0]


def test_the_determinant_of_a_singular_matrix_has_a_gradient() -> None:
    a = rl.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=rl.float64).requires_grad_()
    a.det().backward()
    assert a.grad is not None
    assert_close(a.grad, np.array([[4.0, -2.0], [-2.0, 1.0]]), "several")


def test_equal_singular_values_leave_a_finite_gradient() -> None:
    a = rl.eye(3, dtype=rl.float64).requires_grad_()
    linalg.matrix_norm(a, "nuc").backward()
    assert a.grad is not None
    assert_close(a.grad, np.eye(3), "several")


@pytest.mark.parametrize("n", [1, 2, 17, 60])
def test_factors_multiply_to_the_matrix(n: int) -> None:
    x = draws(n, (2, n + 3, n))
    a, square = rl.tensor(x), rl.tensor(x[:, :n])
    q, r = linalg.qr(a)
    assert_close(q @ r, x, "product")
    u, s, vh = linalg.svd(a)
    assert u.shape[-1] == n + 3
    assert_close((u[..., :n] * s.unsqueeze(-2)) @ vh, x, "product")
    p, low, up = linalg.lu(a)
    assert_close(p @ low @ up, x, "product")
    w, v = linalg.eigh(square + square.mT)
    assert_close((v * w.unsqueeze(-2)) @ v.mT, x[:, :n] + x[:, :n].swapaxes(-1, -2), "product")
    chol = linalg.cholesky(a.mT @ a)
    assert_close(chol @ chol.mT, np.swapaxes(x, -1, -2) @ x, "product")
    sign, size = linalg.slogdet(square)
    assert_close(sign * size.exp(), np.linalg.det(x[:, :n]), "several")


def test_out_and_names_of_arguments() -> None:
    a, b = rl.eye(2) * 2, rl.ones(2, 1)
    assert linalg.solve(A=a, B=b).tolist() == [[0.5], [0.5]]
    out: Any = rl.empty(2, 2)
    assert linalg.inv(a, out=out) is out and out.tolist() == [[0.5, 0.0], [0.0, 0.5]]
    assert rl.inverse(a).tolist() == a.inverse().tolist() == out.tolist()
    assert math.isinf(linalg.cond(rl.ones(2, 2), 1).item())


def test_blocks_of_ldl_that_end_behind_the_matrix_are_named() -> None:
    x, b = rl.eye(3), rl.ones(3, 1)
    with pytest.raises(linalg.LinAlgError, match="negative come in pairs"):
        linalg.ldl_solve(x, rl.tensor([1, 2, -3]), b)
