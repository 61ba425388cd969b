"""Hooks, parametrizations, and what nn.utils does with all parameters."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.nn.modules import module as every
from rushlight.core.tools.testing import assert_close


def test_hooks_run_around_forward_and_can_be_removed(device: str) -> None:
    net = nn.Sequential(nn.Linear(2, 3, device=device), nn.Tanh())
    x = rl.ones(4, 2, device=device)
    plain = net(x + 1)
    handles = [
        net.register_forward_pre_hook(lambda m, args: (args[0] + 1,)),
        net.register_forward_hook(lambda m, args, out: out * 10),
    ]
    assert_close(net(x), (plain * 10).detach().numpy())
    for handle in handles:
        handle.remove()
    assert_close(net(x + 1), plain.detach().numpy())
    with net.register_forward_hook(lambda m, a, kw, out: kw, with_kwargs=True):
        assert net(x) == {}


def test_backward_hooks_see_and_change_gradients(device: str) -> None:
    layer, seen = nn.Bilinear(2, 3, 2, device=device), []

    def hook(module: nn.Module, inputs: Any, outputs: Any) -> Any:
        seen.append([g.shape for g in (*inputs, *outputs)])
        return tuple(g * 2 for g in inputs)

    def grads() -> list[Any]:
        given = [rl.ones(4, n, device=device).requires_grad_() for n in (2, 3)]
        layer(*given).sum().backward()
        return [x.grad.numpy() for x in given if x.grad is not None]

    plain = grads()
    handle = layer.register_full_backward_hook(hook)
    layer.register_full_backward_pre_hook(lambda m, outputs: (outputs[0] * 3,))
    for now, before in zip(grads(), plain, strict=True):
        assert_close(rl.from_numpy(now), before * 6, "several")
    assert seen == [[(4, 2), (4, 3), (4, 2)]]
    handle.remove()
    assert_close(rl.from_numpy(grads()[0]), plain[0] * 3, "several")


def test_hooks_of_state_dicts_rename_what_is_saved_and_loaded() -> None:
    layer, other = nn.Linear(2, 1), nn.Linear(2, 1)

    def save(module: Any, state: Any, prefix: str, metadata: Any) -> None:
        state[f"{prefix}w"] = state.pop(f"{prefix}weight")

    def load(module: Any, state: Any, prefix: str, *rest: Any) -> None:
        state[f"{prefix}weight"] = state.pop(f"{prefix}w")

    net = nn.Sequential(layer)
    layer.register_state_dict_post_hook(save)
    assert set(net.state_dict()) == {"0.w", "0.bias"}
    other.register_load_state_dict_pre_hook(load)
    nn.Sequential(other).load_state_dict(net.state_dict())
    assert other.weight.tolist() == layer.weight.tolist()


def test_parametrized_weights_train_and_become_plain_again(device: str) -> None:
    parametrize = nn.utils.parametrize
    layer = nn.Linear(3, 4, device=device)
    before = layer.weight.detach().numpy()
    nn.utils.parametrizations.weight_norm(layer)
    assert_close(layer.weight.detach(), before, "several")
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    copy.deepcopy(layer)(rl.ones(2, 3, device=device)).sum().backward()
    layer(rl.ones(2, 3, device=device)).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    layer.weight = rl.ones(4, 3, device=device)  # type: ignore[assignment]
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and not parametrize.is_parametrized(layer)
    assert_close(layer.weight.detach(), np.ones((4, 3)), "several")
    with pytest.raises(ValueError, match="Linear has no parameter or buffer 'gain'"):
        parametrize.register_parametrization(layer, "gain", nn.Identity())


def test_spectral_norm_is_one_and_old_weight_norm_comes_off(device: str) -> None:
    conv: Any = nn.utils.spectral_norm(nn.Conv2d(2, 3, 3, device=device), n_power_iterations=400)
    conv(rl.ones(1, 2, 5, 5, device=device))
    largest = np.linalg.svd(conv.weight.detach().cpu().numpy().reshape(3, -1))[1].max()
    assert abs(largest - 1) < 1e-3
    old = nn.utils.weight_norm(nn.Linear(3, 4, device=device))
    assert list(old.state_dict()) == ["bias", "weight_g", "weight_v"]
    old(rl.ones(1, 3, device=device)).sum().backward()
    assert list(nn.utils.remove_weight_norm(old).state_dict()) == ["bias", "weight"]


def test_parameters_go_through_a_vector(device: str) -> None:
    net = nn.Linear(2, 3, device=device)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    nn.utils.vector_to_parameters(vector.detach() * 0 + 2, net.parameters())
    assert net.weight.tolist() == [[2.0] * 2] * 3
    with pytest.raises(ValueError, match=r"vec is \(8,\); it must be \(9,\)"):
        nn.utils.vector_to_parameters(vector[:8], net.parameters())


def test_more_initial_values(device: str) -> None:
    q = nn.init.orthogonal_(rl.empty(3, 5, device=device), 2.0)
    assert_close(q @ q.T, 4 * np.eye(3), "several")
    assert (nn.init.sparse_(rl.ones(10, 4, device=device), 0.3) == 0).sum(0).tolist() == [3] * 4
    x = rl.randn(1, 2, 5, device=device)
    weight = nn.init.dirac_(rl.empty(2, 2, 3, device=device))
    assert_close(nn.functional.conv1d(x, weight, padding=1), x.numpy(), "several")


def test_a_buffer_registers_itself(device: str) -> None:
    module = nn.Module()
    module.kept = nn.Buffer(rl.ones(2, device=device))
    module.lost = nn.Buffer(rl.ones(1, device=device), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [name for name, _ in module.named_buffers()] == ["kept", "lost"]


def test_embedding_options(device: str) -> None:
    table = nn.Embedding(5, 3, max_norm=0.5, scale_grad_by_freq=True, device=device)
    rows = table(rl.tensor([1, 2, 1], device=device))
    assert rows.detach().norm(2, -1).amax().item() <= 0.5 + 1e-5
    rows.sum().backward()
    assert table.weight.grad is not None
    assert_close(table.weight.grad.sum(1), [0, 3, 3, 0, 0], "several")
    fixed = nn.Embedding.from_pretrained(rl.ones(2, 3, device=device))
    assert not fixed.weight.requires_grad and fixed.weight.tolist() == [[1.0] * 3] * 2


def test_hooks_of_all_modules_run_before_each_ones_own(device: str) -> None:
    seen: list[str] = []
    net = nn.Sequential(nn.Linear(2, 3, device=device), nn.ReLU())
    net[0].register_forward_hook(lambda m, args, out: seen.append("own"))
    x = rl.ones(4, 2, device=device)
    note = lambda m, *rest: seen.append(type(m).__name__)  # noqa: E731
    with every.register_module_forward_hook(note):
        net(x)
    assert seen == ["Linear", "own", "ReLU", "Sequential"]
    seen.clear()
    plain = net[1](x).detach()
    with every.register_module_forward_pre_hook(lambda m, args: (args[0] + 1,)):
        assert_close(net[1](x), (plain + 1).numpy())
    assert_close(net[1](x), plain.numpy())
    with every.register_module_forward_hook(lambda m, a, kw, out: kw, with_kwargs=True):
        assert net[1](input=x) == {"input": x}


def test_backward_hooks_of_all_modules(device: str) -> None:
    seen: list[str] = []
    net = nn.Sequential(nn.Linear(2, 3, device=device), nn.ReLU())
    first = every.register_module_full_backward_pre_hook(
        lambda m, grads: seen.append(f"before {type(m).__name__}")
    )
    second = every.register_module_full_backward_hook(
        lambda m, inputs, outputs: seen.append(type(m).__name__)
    )
    x = rl.ones(4, 2, device=device).requires_grad_()
    net(x).sum().backward()
    assert seen == [
        "before Sequential",
        "before ReLU",
        "ReLU",
        "before Linear",
        "Linear",
        "Sequential",
    ]
    first.remove()
    second.remove()
    net(x).sum().backward()
    assert len(seen) == 6


def test_hooks_of_all_modules_see_what_is_registered() -> None:
    seen: list[str] = []
    note = lambda m, name, value: seen.append(f"{type(m).__name__}.{name}")  # noqa: E731
    kinds = ("parameter", "buffer", "module")
    names = [f"register_module_{kind}_registration_hook" for kind in kinds]
    handles = [getattr(every, name)(note) for name in names]
    nn.Sequential(nn.BatchNorm1d(2))
    for handle in handles:
        handle.remove()
    nn.Sequential(nn.BatchNorm1d(2))
    assert seen == [
        f"BatchNorm1d.{n}"
        for n in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    ] + ["Sequential.0"]
    with every.register_module_parameter_registration_hook(lambda m, n, p: nn.Parameter(p * 0)):
        layer = nn.Linear(1, 1)
        layer.weight = nn.Parameter(rl.ones(1, 1))
    assert layer.weight.item() == 0


def test_a_captured_function_calls_a_hook_that_came_later(device: str) -> None:
    layer = nn.Linear(2, 2, device=device)
    calls: list[nn.Module] = []

    def doubled(module: nn.Module, args: Any, out: rl.Tensor) -> rl.Tensor:
        calls.append(module)
        return out * 2

    run, x = rl.jit(layer), rl.ones(1, 2, device=device)
    plain = run(x).detach().numpy()
    with every.register_module_forward_hook(doubled):
        assert_close(run(x).detach(), plain * 2)
    assert calls and calls[0] is layer
    assert_close(run(x).detach(), plain)


@pytest.mark.parametrize("first", ["forward", "backward"])
def test_a_backward_hook_sees_the_gradient_of_a_replaced_output(device: str, first: str) -> None:
    layer, seen = nn.Linear(3, 2, device=device), []
    hooks = {
        "forward": lambda: layer.register_forward_hook(lambda m, a, out: out * 3),
        "backward": lambda: layer.register_full_backward_hook(lambda m, i, o: seen.append((i, o))),
    }
    for name in sorted(hooks, key=lambda name: name != first):
        hooks[name]()
    x: Any = rl.ones(4, 3, device=device).requires_grad_()
    layer(x).sum().backward()
    (inputs, outputs) = seen[0]
    assert outputs[0].tolist() == [[1.0] * 2] * 4  # of the replaced output, not three times it
    assert rl.allclose(inputs[0].cpu(), x.grad.cpu())


def test_outputs_that_are_no_tensors_call_no_backward_hooks() -> None:
    class Named(nn.Module):
        def forward(self, x: rl.Tensor) -> dict[str, rl.Tensor]:
            return {"y": x * 2}

    layer, seen = Named(), []
    layer.register_full_backward_hook(lambda m, i, o: seen.append(o))
    x: Any = rl.ones(3).requires_grad_()
    with pytest.warns(UserWarning, match="Named: its backward hooks are not called"):
        layer(x)["y"].sum().backward()
    assert not seen and x.grad.tolist() == [2.0] * 3


def test_hooks_that_return_too_many_gradients_are_refused() -> None:
    for kind in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        layer = nn.Linear(3, 2)
        getattr(layer, kind)(lambda m, grads, *outputs: (grads[0], grads[0]))
        with pytest.raises(RuntimeError, match="returned 2 gradients; there are 1"):
            layer(rl.ones(1, 3).requires_grad_()).sum().backward()
