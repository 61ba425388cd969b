"""Layers that write over their input give gradients in blocks of real networks, captured too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

F: Any = nn.functional


class Block(nn.Module):
    """A block of EfficientNet (SiLU) or MobileNetV3 (Hardswish), with squeeze and excitation."""

    def __init__(self, act: Any, gate: Any, inplace: bool) -> None:
        self.expand = nn.Sequential(
            nn.Conv2d(4, 8, 1, bias=False),
            nn.BatchNorm2d(8),
            act(inplace=inplace),
            nn.Conv2d(8, 8, 3, padding=1, groups=8),
            nn.BatchNorm2d(8),
            act(inplace=inplace),
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(8, 2, 1),
            act(inplace=inplace),
            nn.Conv2d(2, 8, 1),
            gate(),
        )
        self.project = nn.Sequential(nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        y = self.expand(x)
        out: rl.Tensor = x + self.project(y * self.squeeze(y))
        return out


def slopes(block: Block, x: rl.Tensor) -> list[Any]:
    x = x.detach().requires_grad_()
    out = F.silu(block(x) * 1.0, inplace=True)
    out += 1
    found: Any = rl.autograd.grad(out.square().sum(), [x, *block.parameters()])
    return [g.detach() for g in found]


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(
    ("act", "gate"),
    [
        (nn.SiLU, nn.Sigmoid),
        (nn.Hardswish, nn.Hardsigmoid),
        (nn.Mish, nn.Sigmoid),
        (nn.ReLU6, nn.Hardsigmoid),
    ],
)
def test_blocks_in_place_have_the_gradients_of_those_out_of_place(
    device: str, act: Any, gate: Any, captured: bool
) -> None:
    rl.manual_seed(0)
    plain = Block(act, gate, inplace=False)
    written = Block(act, gate, inplace=True)
    written.load_state_dict(plain.state_dict())
    x = rl.randn(2, 4, 5, 5)
    wanted = slopes(plain.to(device), x.to(device))
    run = rl.jit(slopes) if captured else slopes
    written.to(device)
    for _ in range(3):
        found = run(written, x.to(device))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout", "rrelu"])
def test_random_layers_in_place_pass_gradients_where_values_passed(device: str, name: str) -> None:
    rl.manual_seed(1)
    x = rl.ones(4, 6, 3, device=device).requires_grad_()
    y = x * 2.0
    options = {"training": True, "inplace": True}
    out = getattr(F, name)(y, **options) if name == "rrelu" else getattr(F, name)(y, 0.5, **options)
    assert out is y
    out.sum().backward()
    assert x.grad is not None
    kept = x.grad.cpu().numpy() != 0
    values = out.detach().cpu().numpy()
    assert len(np.unique(values[kept])) == 1  # each kept one is scaled alike
    assert kept.all() if name == "rrelu" else 0 < kept.mean() < 1


@pytest.mark.parametrize("name", ["silu", "mish", "hardswish", "elu", "relu", "leaky_relu"])
def test_a_leaf_that_needs_a_gradient_is_refused(name: str) -> None:
    x = rl.ones(3).requires_grad_()
    with pytest.raises(RuntimeError, match="in-place operation"):
        getattr(F, name)(x, inplace=True)
