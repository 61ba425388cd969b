"""Transforms of functions compose with each other, with jit and with threads; what leaks raises.

Their values are compared with PyTorch in tests/core/tensor/test_goldens.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import func


def curved(x: rl.Tensor) -> rl.Tensor:
    return (x.sin() * x.sum()).sum()


def batch(*shape: int, device: str = "cpu") -> rl.Tensor:
    rl.manual_seed(2)
    return rl.randn(shape, device=device)


def close(a: rl.Tensor, b: rl.Tensor) -> None:
    assert not a.requires_grad
    np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), rtol=1e-5, atol=1e-5)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of ops that ran on a device."""
    found: list[str] = []
    backend = type(rl.device("cpu").backend)
    run = backend.run

    def noted(self: Any, name: str, *rest: Any) -> None:
        found.append(name)
        run(self, name, *rest)

    monkeypatch.setattr(backend, "run", noted)
    yield found


def test_a_batch_runs_as_many_ops_as_one_sample(calls: list[str]) -> None:
    counts = []
    for n in (4, 16):
        x = batch(n, 3)
        calls.clear()
        func.vmap(func.hessian(curved))(x)
        counts.append(len(calls))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "fn",
    [
        func.grad(lambda x: curved(x)),
        func.vmap(func.grad(curved)),
        func.vmap(func.hessian(curved)),
        func.grad(lambda x: func.vmap(func.grad(curved))(x).square().sum()),
        func.jacrev(lambda x: x.exp() * x.sum()),
        func.jacfwd(lambda x: x.exp() * x.sum()),
    ],
)
def test_captured_transforms_replay(device: str, fn: Any) -> None:
    x = batch(2, 3, device=device)
    run = rl.jit(fn)
    for i in range(3):
        close(run(x * (i + 1)), fn(x * (i + 1)))
    (entry,) = run.executables.values()
    assert entry.why is None and entry.replays == 2


def test_captured_functions_run_within_transforms() -> None:
    x, captured = batch(4, 3), rl.jit(curved)
    close(func.vmap(captured)(x), func.vmap(curved)(x))
    close(func.vmap(func.grad(captured))(x), func.vmap(func.grad(curved))(x))


def test_gradients_per_sample_of_a_model(device: str) -> None:
    model = rl.nn.Sequential(
        rl.nn.Conv2d(2, 3, 3, padding=1), rl.nn.GELU(), rl.nn.Flatten(), rl.nn.Linear(48, 3)
    ).to(device)
    images, labels = batch(4, 2, 4, 4, device=device), rl.tensor([0, 2, 1, 1], device=device)
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def loss(p: dict[str, rl.Tensor], x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        out = func.functional_call(model, p, (x.unsqueeze(0),))
        return rl.nn.functional.cross_entropy(out, y.unsqueeze(0))

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    for i in range(4):
        model.zero_grad()
        out = model(images[i : i + 1])
        rl.nn.functional.cross_entropy(out, labels[i : i + 1]).backward()
        for name, p in model.named_parameters():
            assert p.grad is not None
            close(each[name][i], p.grad)


def test_a_model_has_its_parameters_back_after_an_error() -> None:
    model = rl.nn.Linear(3, 2)
    weight = model.weight
    with pytest.raises(ValueError):
        func.functional_call(model, {"weight": rl.zeros(2, 4)}, (rl.zeros(1, 3),))
    assert model.weight is weight


def test_shared_parameters_are_replaced_together() -> None:
    first, second = rl.nn.Linear(3, 3, bias=False), rl.nn.Linear(3, 3, bias=False)
    shared = second.weight = first.weight
    model = rl.nn.Sequential(first, second)
    x, new = batch(2, 3), rl.eye(3) * 2
    close(func.functional_call(model, {"0.weight": new}, (x,)), x * 4)
    with rl.no_grad():
        alone = func.functional_call(model, {"0.weight": new}, (x,), tie_weights=False)
    close(alone, (x * 2) @ shared.detach().t())


def test_a_tensor_of_a_vmap_that_ended_raises() -> None:
    kept: list[rl.Tensor] = []

    def keep(x: rl.Tensor) -> rl.Tensor:
        kept.append(x)
        return x

    func.vmap(keep)(batch(2, 3))
    with pytest.raises(RuntimeError, match="a vmap that has ended"):
        kept[0] + 1
    with pytest.raises(RuntimeError, match="cannot be read"):
        kept[0].numpy()


def test_an_op_without_a_rule_warns_and_runs_sample_by_sample() -> None:
    a = rl.randn(2, 3, 3)
    with pytest.warns(UserWarning, match="pinv has no rule for batches"):
        found = func.vmap(rl.linalg.pinv)(a)
    close(found, rl.linalg.pinv(a))


class Cube(rl.autograd.Function):
    """x ** 3, with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: rl.Tensor) -> rl.Tensor:
        x: rl.Tensor = ctx.saved_tensors[0]
        return 3 * x * x * g


def test_a_function_with_its_own_gradient_within_vmap() -> None:
    x = batch(4, 3)
    close(func.vmap(func.grad(lambda x: Cube.apply(x).sum()))(x), 3 * x * x)
    with pytest.raises(RuntimeError, match="Cube: a Function within vmap has no gradient around"):
        func.grad(lambda x: func.vmap(Cube.apply)(x).sum())(x)


def test_threads_have_vmaps_of_their_own() -> None:
    x, found = batch(4, 3), {}

    def work() -> None:
        found["there"] = rl.rand(3).shape

    def one(row: rl.Tensor) -> rl.Tensor:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return row * 2

    close(func.vmap(one)(x), x * 2)
    assert found["there"] == (3,)


def test_moving_within_vmap(device: str) -> None:
    x = batch(4, 3)
    moved = func.vmap(func.grad(lambda x: x.to(device).square().sum()))(x)
    close(moved, x * 2)


def test_a_tensor_of_a_vmap_is_shown_with_all_samples() -> None:
    texts: list[str] = []

    def show(x: rl.Tensor) -> rl.Tensor:
        texts.append(repr(x))
        return x

    func.vmap(show)(rl.tensor([1.0, 2.0]))
    assert texts == ["Batched(level 1, all samples: tensor([1., 2.]))"]


def test_memory_beyond_a_sample_is_refused() -> None:
    x = batch(4, 6)
    close(
        func.vmap(lambda x: x.as_strided((2, 2), (2, 1), x.layout.offset))(x),
        x[:, :4].reshape(4, 2, 2),
    )
    with pytest.raises(RuntimeError, match="beyond the memory of one sample"):
        func.vmap(lambda x: x.as_strided((7,), (1,), 0))(x)


def test_no_gradient_is_recorded_where_none_is_needed() -> None:
    x = batch(3)
    assert not func.grad(curved)(x).requires_grad
    out, pull = func.vjp(curved, x)
    assert not out.requires_grad and not pull(rl.tensor(1.0))[0].requires_grad
    out, pushed = func.jvp(curved, (x,), (x,))
    assert not out.requires_grad and not pushed.requires_grad
    w = batch(3).requires_grad_()
    assert func.grad(lambda x: (x * x * w).sum())(x).requires_grad
    with rl.no_grad():
        assert not func.grad(lambda x: (x * x * w).sum())(x).requires_grad


def test_weights_within_vmap_are_not_read() -> None:
    drawn = rl.vmap(lambda w: w.multinomial(2), randomness="different")(rl.ones(3, 4))
    assert drawn.shape == (3, 2) and (drawn[:, 0] != drawn[:, 1]).all()
