"""Custom ops: one definition that runs on every device, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tensor.op import REGISTRY
from rushlight.core.tools.testing import assert_close, check_gradient, draws

SOURCE = """
fn test_halved(v: f32) -> f32 {
  return v * 0.5;
}

fn test_bump(a: f32, b: f32) -> f32 {
  return a * a - 2.0 * test_halved(b);
}
"""


def _slope(g: rl.Tensor, a: rl.Tensor, b: rl.Tensor, out: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    return g * a * 2, -g


BUMP = rl.custom_op("test_bump", numpy=lambda a, b: a * a - b, wgsl=SOURCE, gradient=_slope)
PLAIN = rl.custom_op(
    "test_plain", numpy=lambda a: a + 1, wgsl="fn test_plain(a: f32) -> f32 { return a + 1.0; }"
)


def test_a_custom_op_broadcasts_and_promotes(device: str) -> None:
    a, b = draws(1, (3, 5)).astype(np.float32), draws(2, (5,)).astype(np.float32)
    x, y = rl.tensor(a, device=device), rl.tensor(b, device=device)
    want = a.astype(float) ** 2 - b
    assert_close(BUMP(x, y).cpu(), want, "several")
    assert_close(BUMP(x.t(), y.unsqueeze(1)).cpu(), want.T, "several")
    assert_close(BUMP(x, 1).cpu(), a.astype(float) ** 2 - 1, "several")
    assert BUMP(rl.tensor([3], device=device), 1.0).tolist() == [8]
    half = BUMP(x.half(), y.half())
    assert half.dtype is rl.float16
    assert_close(half.cpu(), want, "several")


def test_its_gradient(device: str) -> None:
    x = rl.tensor([1.0, -2.0], device=device).requires_grad_()
    y = rl.tensor(0.5, device=device).requires_grad_()
    BUMP(x, y).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert x.grad.tolist() == [2, -4] and y.grad.item() == -2
    assert not PLAIN(x).requires_grad, "no rule was given"
    if device == "cpu":
        check_gradient(BUMP, [draws(3, (2, 3)), draws(4, (2, 3))])


def test_the_library_stays_as_it_was() -> None:
    assert not any("test_" in name for name in REGISTRY)
    assert BUMP.__name__ == "test_bump"


@pytest.mark.parametrize(
    ("name", "wgsl", "says"),
    [
        ("test_bump", "fn test_bump(a: f32) -> f32 { return a; }", "op 'test_bump' already exists"),
        ("test_x", "fn other(a: f32) -> f32 { return a; }", "does not define `fn test_x"),
        ("test_x", "fn test_x(a: i32) -> i32 { return a; }", "does not define `fn test_x"),
        ("test_x", "fn test_x() -> f32 { return 1.0; }", "test_x takes 0 values"),
        ("exp_f", "fn exp_f(a: f32) -> f32 { return a; }", "the library defines exp_f already"),
        ("not a name", "", "does not define"),
    ],
)
def test_invalid_custom_ops_are_refused(name: str, wgsl: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rl.custom_op(name, numpy=np.exp, wgsl=wgsl)


def test_wrong_calls_say_what_is_wrong() -> None:
    with pytest.raises(TypeError, match="takes 2 operands, got 1"):
        BUMP(rl.ones(2))
    bad: Any = rl.custom_op(
        "test_bad",
        numpy=lambda a: a,
        wgsl="fn test_bad(a: f32) -> f32 { return a; }",
        gradient=lambda g, a, out: (g, g),
    )
    with pytest.raises(ValueError, match="returned 2 gradients for 1 inputs"):
        bad(rl.ones(2).requires_grad_()).sum().backward()
