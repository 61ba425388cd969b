"""Recurrent layers by one op and by the ops of their cells: values and gradients of both orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.functional.network import recurrent
from rushlight.core.tensor.op import REGISTRY, Op

LAYERS: dict[str, Callable[..., Any]] = {
    "lstm": lambda: nn.LSTM(3, 4, 2, bidirectional=True),
    "gru": lambda: nn.GRU(3, 4, bidirectional=True),
    "tanh": lambda: nn.RNN(3, 4, 2),
    "relu": lambda: nn.RNN(3, 4, nonlinearity="relu", bias=False),
}
CELLS: dict[str, Callable[..., Any]] = {
    "lstm": lambda: nn.LSTMCell(3, 4),
    "gru": lambda: nn.GRUCell(3, 4),
    "tanh": lambda: nn.RNNCell(3, 4),
    "relu": lambda: nn.RNNCell(3, 4, nonlinearity="relu"),
}


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the scans that run."""
    names: list[str] = []
    plain = Op.__call__

    def call(self: Op, *inputs: Any, **options: Any) -> Any:
        if self.name.startswith("cell_scan"):
            names.append(self.name)
        return plain(self, *inputs, **options)

    monkeypatch.setattr(Op, "__call__", call)
    return names


def gradients(net: Any, x: rl.Tensor, run: Callable[[Any, rl.Tensor], rl.Tensor]) -> list[Any]:
    """The result, its gradients, and the gradients of their sum of squares."""
    y = run(net, x)
    wanted = [x, *net.parameters()]
    first: Any = rl.autograd.grad((y * y.cos()).sum(), wanted, create_graph=True)
    total = sum((g.square().sum() for g in first), rl.zeros((), dtype=x.dtype))
    second: Any = rl.autograd.grad(total, wanted)
    return [y.detach(), *(g.detach() for g in (*first, *second))]


def through(net: Any, x: rl.Tensor) -> rl.Tensor:
    out, state = net(x)
    total: rl.Tensor = out.sum(0) + sum(
        s.sum() for s in (state if isinstance(state, tuple) else (state,))
    )
    return total


def stepping(net: Any, x: rl.Tensor) -> rl.Tensor:
    state: Any = None
    for step in x:
        state = net(step, state)
    total: rl.Tensor = state[0] + state[1] if isinstance(state, tuple) else state
    return total


@pytest.mark.parametrize(("nets", "run"), [(LAYERS, through), (CELLS, stepping)])
@pytest.mark.parametrize("name", LAYERS)
def test_one_op_gives_what_the_cells_give(
    nets: Any, run: Any, name: str, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rl.manual_seed(3)
    net = nets[name]().double()
    x = rl.randn(5, 2, 3, dtype="float64", requires_grad=True)
    found = gradients(net, x, run)
    assert "cell_scan" in scans
    scans.clear()
    monkeypatch.setattr(recurrent, "_SMALL", 0)
    expected = gradients(net, x, run)
    assert not scans
    for a, b in zip(found, expected, strict=True):
        assert rl.allclose(a, b, rtol=1e-10, atol=1e-10)


def test_backward_is_one_op_unless_it_is_differentiated(scans: list[str]) -> None:
    net, x = nn.LSTM(3, 4), rl.randn(5, 2, 3)
    net(x)[0].sum().backward()
    assert scans == ["cell_scan", "cell_scan_backward"]
    assert all(p.grad is not None for p in net.parameters())


def test_large_steps_masks_and_captured_ones_run_cell_by_cell(scans: list[str]) -> None:
    wide = nn.RNN(400, 400)
    wide(rl.randn(2, 1, 400))
    rows = [rl.randn(3, 3), rl.randn(2, 3)]
    nn.GRU(3, 4)(nn.utils.rnn.pack_sequence(rows))
    assert not scans
    net, x = nn.LSTM(3, 4), rl.randn(5, 2, 3)
    captured: Any = rl.jit(lambda x: net(x)[0])
    with rl.no_grad():
        for _ in range(3):
            captured(x)
        scans.clear()
        found = captured(x)
    assert not scans
    assert rl.allclose(found, net(x)[0], atol=1e-6) and scans


def test_a_device_without_the_op_runs_the_cells(device: str, scans: list[str]) -> None:
    net = nn.GRU(3, 4).to(device)
    out, _ = net(rl.ones(2, 1, 3, device=device))
    assert out.shape == (2, 1, 4)
    assert bool(scans) is rl.device(device).backend.supports("cell_scan")
    assert "cell_scan" in REGISTRY
