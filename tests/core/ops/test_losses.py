"""Losses: what they warn of and refuse; their values are in test_goldens.py, group "losses"."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl

F = rl.nn.functional


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_a_target_of_another_shape_is_broadcast_with_a_warning(device: str, name: str) -> None:
    x = rl.arange(3.0, device=device)
    with pytest.warns(UserWarning, match=rf"{name}: using a target of shape \(3,\) that differs"):
        found = getattr(F, name)(x[:, None], x, reduction="none")
    assert found.shape == (3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(F, name)(x, x)


def test_broadcast_squares_give_their_mean(device: str) -> None:
    x = rl.arange(3.0, device=device)
    with pytest.warns(UserWarning, match="they are broadcast"):
        assert abs(F.mse_loss(x[:, None], x).item() - 4 / 3) < 1e-6


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("value", [1.5, -0.5, float("nan")])
def test_probabilities_out_of_range_are_refused(device: str, value: float, captured: bool) -> None:
    call = rl.jit(F.binary_cross_entropy) if captured else F.binary_cross_entropy
    good, bad = rl.tensor([0.5], device=device), rl.tensor([value], device=device)
    for _ in range(3):
        call(good, good).item()
        with pytest.raises(ValueError, match=r"binary_cross_entropy: input has an element out of"):
            call(bad, good).item()
        with pytest.raises(ValueError, match=r"binary_cross_entropy: target has an element out"):
            call(good, bad).item()
    assert abs(call(good, good).item() - 0.6931472) < 1e-6


def test_binary_cross_entropy_runs_in_vmap_and_captured(device: str) -> None:
    x = rl.tensor([[0.0, 0.3], [1.0, 0.9]], device=device)
    y = rl.tensor([[0.0, 1.0], [1.0, 0.2]], device=device)
    rows = rl.func.vmap(rl.func.grad(F.binary_cross_entropy))(x, y)
    want = rl.stack([rl.func.grad(F.binary_cross_entropy)(a, b) for a, b in zip(x, y, strict=True)])
    assert rl.allclose(rows.cpu(), want.cpu())

    @rl.jit
    def slope(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        found = rl.autograd.grad(F.binary_cross_entropy(x, y), x)[0]
        assert found is not None
        return found

    for _ in range(3):
        assert rl.isfinite(slope(x.detach().requires_grad_(), y)).all().item()
