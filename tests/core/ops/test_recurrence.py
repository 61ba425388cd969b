"""wkv and the gated delta rule: float64 NumPy token by token, in pieces, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.tensor.op import Op
from rushlight.core.tools.testing import check_gradient, draws

F: Any = rl.nn.functional
Array = npt.NDArray[Any]
HEADS, KEYS, VALUES = 3, 5, 7


def recurrence(
    r: Array, decay: Array, k: Array, v: Array, a: Any, b: Any, bonus: Any, state: Array
) -> tuple[Array, Array]:
    """One token after another, in float64."""
    state, outs = state.astype(np.float64), []
    for t in range(k.shape[2]):
        new = np.einsum("bhk,bhv->bhkv", k[:, :, t], v[:, :, t])
        if bonus is not None:
            seen = state + bonus[..., None] * new
            outs.append(np.einsum("bhk,bhkv->bhv", r[:, :, t], seen))
        old = 0 if a is None else np.einsum("bhk,bhkv->bhv", a[:, :, t], state)
        state = np.exp(decay[:, :, t])[..., None] * state + new
        if a is not None:
            state = state + np.einsum("bhk,bhv->bhkv", b[:, :, t], old)
        if bonus is None:
            outs.append(np.einsum("bhk,bhkv->bhv", r[:, :, t], state))
    return np.stack(outs, 2), state


def drawn(length: int, kind: str) -> tuple[Array, ...]:
    """r, decay, k, v, a, b, bonus and state; RWKV 7 and the delta rule remove along unit keys."""
    shape = (2, HEADS, length, KEYS)
    r, k, v = draws(1, shape), draws(2, shape), draws(3, (*shape[:3], VALUES))
    k = k / np.sqrt((k**2).sum(-1, keepdims=True))
    rate = np.abs(draws(4, shape)) / 2
    decay = -rate if kind == "7" else -np.exp(4 * draws(5, shape))
    if kind in ("5", "delta"):
        decay = decay[:, :, :1] + 0 * decay if kind == "5" else decay[..., :1]
    return r, decay, k, v, -k, k * rate, draws(6, (HEADS, KEYS)), draws(7, (2, HEADS, KEYS, VALUES))


def close(found: rl.Tensor, expected: Array) -> None:
    assert np.abs(found.numpy() - expected).max() <= 2e-5 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("length", [1, 2, 13, 150])  # one token, part of a chunk, several chunks
@pytest.mark.parametrize("kind", ["5", "6", "7", "delta", "channels"])
def test_it_is_the_recurrence(device: str, kind: str, length: int) -> None:
    r, decay, k, v, a, b, bonus, state = drawn(length, kind)
    on = [rl.tensor(x, dtype="float32", device=device) for x in (r, decay, k, v, a, b, bonus)]
    begin = rl.tensor(state, dtype="float32", device=device)
    beta = np.abs(draws(8, (2, HEADS, length, 1)))
    with rl.no_grad():
        if kind in ("delta", "channels"):
            found = F.gated_delta_rule(
                on[0], on[2], on[3], on[1], rl.tensor(beta, dtype="float32", device=device), begin
            )
            expected = recurrence(r, decay, beta * k, v, -np.exp(decay) * k, beta * k, None, state)
        elif kind == "7":
            found = F.wkv(*on[:6], state=begin)
            expected = recurrence(r, decay, k, v, a, b, None, state)
        else:
            found = F.wkv(*on[:4], bonus=on[6], state=begin)
            expected = recurrence(r, decay, k, v, None, None, bonus, state)
    close(found[0], expected[0])
    close(found[1], expected[1])


def test_pieces_are_the_whole() -> None:
    r, decay, k, v, _, _, _, state = drawn(140, "delta")
    beta = np.abs(draws(8, (2, HEADS, 140, 1)))
    parts = [rl.tensor(x, dtype="float32") for x in (r, k, v, decay, beta)]
    whole, last = F.gated_delta_rule(*parts, rl.tensor(state, dtype="float32"))
    at, now, outs = 0, rl.tensor(state, dtype="float32"), []
    for n in (1, 70, 1, 68):
        out, now = F.gated_delta_rule(*(x[:, :, at : at + n] for x in parts), now)
        outs.append(out)
        at += n
    close(rl.cat(outs, 2), whole.numpy())
    close(now, last.numpy())


def test_one_key_again_and_again_stays_exact() -> None:
    # Powers of the triangle reach 1e18 here; its inverse is small.
    k, v = np.ones((1, 1, 64, 1)), draws(1, (1, 1, 64, 2))
    zero, one = np.zeros((1, 1, 64, 1)), np.full((1, 1, 64, 1), 0.999)
    out, _ = F.gated_delta_rule(*(rl.tensor(x, dtype="float32") for x in (k, k, v, zero, one)))
    start = np.zeros((1, 1, 1, 2))
    close(out, recurrence(k, zero, one, v, -k, one, None, start)[0])


@pytest.mark.parametrize("length", [1, 9])
def test_gradients(length: int) -> None:
    shape = (1, 1, length, 2)
    r, k, v, a, b = (draws(i, shape) / 2 for i in range(5))
    decay, state = -np.abs(draws(5, shape)) - 0.1, draws(6, (1, 1, 2, 2))
    check_gradient(
        lambda *x: F.wkv(*x[:6], state=x[6]), (r, decay, k, v, a, b, state), second=False
    )
    check_gradient(
        lambda *x: F.wkv(*x[:4], bonus=x[4]), (r, decay, k, v, draws(7, (1, 2))), second=False
    )
    beta = np.abs(draws(8, (1, 1, length, 1)))
    check_gradient(F.gated_delta_rule, (r, k, v, decay[..., :1], beta, state), second=False)


def test_gradients_on_the_device(device: str) -> None:
    r, decay, k, v, a, b, _, state = drawn(70, "7")
    grads = []
    for dtype, where in (("float64", "cpu"), ("float32", device)):
        given = [rl.tensor(x, dtype=dtype, device=where) for x in (r, decay, k, v, a, b, state)]
        leaves = [x.requires_grad_() for x in given]
        out, last = F.wkv(*leaves[:6], state=leaves[6])
        (out.sum() + last.sum()).backward()
        grads.append([x.grad.numpy() for x in leaves if x.grad is not None])
    for expected, found in zip(*grads, strict=True):
        assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_work_grows_with_length(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    usual: Any = Op.__call__

    def noted(op: Op, *inputs: Any, **attrs: Any) -> Any:
        seen.append(op.name)
        return usual(op, *inputs, **attrs)

    monkeypatch.setattr(Op, "__call__", noted)
    counts = []
    for length in (256, 1024):
        seen.clear()
        x = rl.zeros(1, 1, length, 4, requires_grad=True)
        F.gated_delta_rule(x, x, x, x[..., :1], x[..., :1])
        counts.append(seen.count("matmul"))
    # A chunk of 64 tokens is one product more.
    assert counts[1] - counts[0] == (1024 - 256) // 64


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"k": (1, 2, 3, 5)}, r"wkv: q, k and v are \(1, 2, 3, 4\), \(1, 2, 3, 5\)"),
        ({"decay": (1, 2, 3, 2)}, r"wkv: decay is \(1, 2, 3, 2\); it must be \(1, 2, 3, 4\)"),
        ({"a": (1, 2, 3, 4)}, "wkv: a and b belong together"),
        ({"a": (1, 2, 3, 4), "b": (1, 2, 3, 5)}, r"wkv: b is \(1, 2, 3, 5\)"),
        ({"bonus": (4, 2)}, r"wkv: bonus is \(4, 2\); it must be \(2, 4\)"),
        ({"state": (1, 2, 4, 4)}, r"wkv: state is \(1, 2, 4, 4\); it must be \(1, 2, 4, 6\)"),
    ],
)
def test_shapes_are_named(changed: dict[str, Any], message: str) -> None:
    shapes: dict[str, Any] = {
        "r": (1, 2, 3, 4),
        "decay": (1, 2, 3, 4),
        "k": (1, 2, 3, 4),
        "v": (1, 2, 3, 6),
    }
    with pytest.raises(ValueError, match=message):
        F.wkv(**{name: rl.zeros(*shape) for name, shape in (shapes | changed).items()})


def test_beta_is_named() -> None:
    x = rl.zeros(1, 2, 3, 4)
    with pytest.raises(ValueError, match=r"beta is \(1, 2, 3, 4\); it must be \(1, 2, 3, 1\)"):
        F.gated_delta_rule(x, x, x, x, x)
