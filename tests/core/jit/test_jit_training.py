"""Training steps that jit captures: the same as eager, step by step, and replayed in truth."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.core.tensor.storage import Storage
from rushlight.core.tools.testing import alike
from rushlight.models.families.text import llama

F = nn.functional
Make = Callable[[Any], optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
    "dampened": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "adamw": lambda p: optim.AdamW(p, lr=0.02),
    "undecayed": lambda p: optim.AdamW(p, lr=0.02, weight_decay=0.0),
}


def captures(device: str) -> bool:
    """Whether functions are captured on this device."""
    return device == "cpu" or device.startswith("webgpu")


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3))


def cnn() -> nn.Module:
    # A bias before the norm would have no gradient but rounding, of which Adam takes the sign.
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, bias=False),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Conv2d(3, 3, 1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    )


def batch(device: str, seed: int, *shape: int) -> tuple[rl.Tensor, rl.Tensor]:
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(5, *(shape or (4,)))).astype(np.float32)
    return rl.from_numpy(x).to(device), rl.from_numpy(numbers.integers(0, 3, 5)).to(device)


def replays(step: Any) -> int:
    """Of the executables that are there; those that were captured anew begin at zero."""
    return sum(e.replays for e in step.executables.values())


def whys(step: Any) -> list[str]:
    return [e.why for e in step.executables.values() if e.why is not None]


class Counting:
    """A captured function that counts its calls, and how many of them were runs of Python."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.calls, self.runs = fn, 0, 0
        self.step: Any = rl.jit(self.run)

    def run(self, *args: Any) -> Any:
        self.runs += 1
        return self.fn(*args)

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.step(*args)


class Run:
    """A model with its optimizer, and everything that training leaves behind, as Python values."""

    def __init__(self, device: str, make: Make, model: Callable[[], nn.Module] = mlp) -> None:
        rl.manual_seed(3)
        self.device, self.model = device, model().to(device)
        self.optimizer = make(self.model.parameters())
        self.params = list(self.model.parameters())

    def loss(self, x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return F.cross_entropy(self.model(x), y)

    def step(self, x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def loss_added(self, x: rl.Tensor, y: rl.Tensor) -> None:
        """A step that adds to the gradients that are there."""
        self.loss(x, y).backward()
        self.optimizer.step()

    def seen(self) -> list[Any]:
        state = self.optimizer.state_dict()
        kept = {n: {k: _plain(v) for k, v in s.items()} for n, s in state["state"].items()}
        grads = [None if p.grad is None else p.grad.tolist() for p in self.params]
        buffers = [b.tolist() for b in self.model.buffers()]
        return [[p.tolist() for p in self.params], grads, buffers, kept, state["param_groups"]]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, rl.Tensor) else value


Script = Callable[[Run, Callable[[Any], Any]], list[Any]]


def same(
    script: Script, device: str, make: Make, model: Callable[[], nn.Module] = mlp, least: int = 1
) -> None:
    """Run a training with and without jit: the same values, `least` calls of each replayed."""
    found: list[Counting] = []

    def wrap(fn: Any) -> Any:
        found.append(Counting(fn))
        return found[-1]

    want = script(Run(device, make, model), lambda fn: fn)
    got = script(Run(device, make, model), wrap)
    for at, (w, g) in enumerate(zip(want, got, strict=True)):
        assert alike(g, w, device), f"step {at}: {g} is not {w}"
    if captures(device):
        for step in found:
            assert whys(step.step) == [] and step.calls - step.runs >= least


def plainly(
    run: Run,
    wrap: Callable[[Any], Any],
    shape: tuple[int, ...] = (),
    count: int = 6,
    between: Callable[[Run, int], None] = lambda run, i: None,
) -> list[Any]:
    """Steps on other data each, with a falling rate; what each left behind."""
    step, found = wrap(run.step), []
    for i in range(count):
        between(run, i)
        loss = step(*batch(run.device, i, *shape))
        found.append([loss.tolist(), run.seen()])
    return found


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_network_with_dropout_learns_as_without_jit(device: str, kind: str) -> None:
    same(plainly, device, OPTIMIZERS[kind], least=4)


@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_a_convolutional_network_with_running_values(device: str, kind: str) -> None:
    same(lambda run, wrap: plainly(run, wrap, (1, 4, 4)), device, OPTIMIZERS[kind], cnn, least=4)


@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_steps_that_nobody_reads_in_between(device: str, kind: str) -> None:
    """Numbers for a step are not written before the steps that still wait have been done."""

    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        step = wrap(run.step)
        losses = []
        for i in range(8):
            run.optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            losses.append(step(*batch(run.device, i)))
        return [[t.tolist() for t in losses], run.seen()]

    same(script, device, OPTIMIZERS[kind], least=5)


@pytest.mark.parametrize("passes", [(), ("fold", "reuse"), ("fuse",), ("merge",)])
def test_passes_change_nothing(device: str, passes: tuple[str, ...]) -> None:
    want = plainly(Run(device, OPTIMIZERS["adamw"], cnn), lambda fn: fn, (1, 4, 4))
    captured: list[Any] = []

    def wrap(fn: Any) -> Any:
        captured.append(rl.jit(fn, passes=passes))
        return captured[-1]

    assert alike(plainly(Run(device, OPTIMIZERS["adamw"], cnn), wrap, (1, 4, 4)), want, device)
    assert not captures(device) or replays(captured[0]) >= 4


def test_a_network_that_was_trained_before(device: str) -> None:
    """The first captured call finds gradients there that it did not know of."""

    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        for i in range(2):
            run.step(*batch(run.device, i))
        step, found = wrap(run.loss_added), []
        for i in range(2, 8):
            step(*batch(run.device, i))
            found.append(run.seen())
        return found

    for kind in ("momentum", "adamw"):
        same(script, device, OPTIMIZERS[kind], least=4)


def test_gradients_in_one_piece_of_memory(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        step, found = wrap(run.loss_added), []
        for i in range(6):
            flat = rl.zeros(sum(p.numel() for p in run.params) + 1, device=run.device)
            first = 1
            for p in run.params:
                p.grad = flat[first : first + p.numel()].reshape(*p.shape)
                first += p.numel()
            step(*batch(run.device, i))
            found.append([flat.tolist(), run.seen()])
        return found

    same(script, device, OPTIMIZERS["adamw"], least=4)


def test_a_language_model(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        rl.manual_seed(0)
        config = dict(
            vocab_size=40,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
        )
        model = llama.FAMILY.build(config, []).init_(run.device)
        made = optim.AdamW(model.parameters(), lr=0.01)

        def fn(ids: rl.Tensor) -> rl.Tensor:
            made.zero_grad()
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, 40), ids[:, 1:].reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            made.step()
            return loss

        step, found = wrap(fn), []
        for i in range(4):
            ids = np.random.default_rng(i).integers(0, 40, (2, 9))
            loss = step(rl.from_numpy(ids).to(run.device)).item()
            found.append([loss, [p.tolist() for p in model.parameters()]])
        return found

    same(script, device, OPTIMIZERS["sgd"], least=2)


@pytest.mark.parametrize("kind", ["nesterov", "adamw"])
def test_rates_may_change_with_every_step(device: str, kind: str) -> None:
    def schedule(run: Run, i: int) -> None:
        (group,) = run.optimizer.param_groups
        group["lr"] = 0.1 / (i + 1)
        group["weight_decay"] = 0.01 * (i + 1)
        if kind == "adamw":
            group["betas"], group["eps"] = (0.9 - i / 20, 0.999 - i / 100), 1e-8 * (i + 1)
        else:
            group["momentum"] = 0.5 + i / 20

    same(lambda run, wrap: plainly(run, wrap, between=schedule), device, OPTIMIZERS[kind], least=4)


@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_other_ops_for_other_options_are_captured_anew(device: str, kind: str) -> None:
    def switch(run: Run, i: int) -> None:
        run.optimizer.param_groups[0]["weight_decay"] = 0.0 if i in (3, 4, 5) else 0.1
        if kind == "momentum":
            run.optimizer.param_groups[0]["nesterov"] = i > 6

    same(
        lambda run, wrap: plainly(run, wrap, count=10, between=switch),
        device,
        OPTIMIZERS[kind],
        least=1,
    )


def _zero_last(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
    def fn(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        loss = run.loss(x, y)
        loss.backward()
        run.optimizer.step()
        run.optimizer.zero_grad()
        return loss.detach()

    step = wrap(fn)
    return [[step(*batch(run.device, i)).tolist(), run.seen()] for i in range(6)]


def _fill_with_zeros(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
    def fn(x: rl.Tensor, y: rl.Tensor) -> None:
        run.optimizer.zero_grad(set_to_none=False)
        run.loss(x, y).backward()
        run.optimizer.step()

    step, found = wrap(fn), []
    for i in range(6):
        held = [p.grad for p in run.params]
        assert step(*batch(run.device, i)) is None
        if i:  # written in place: the same memory
            assert all(
                a is not None and b is not None and a.storage is b.storage
                for a, b in zip(held, [p.grad for p in run.params], strict=True)
            )
        found.append(run.seen())
    return found


def _by_module(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
    def fn(model: nn.Module, x: rl.Tensor, y: rl.Tensor) -> None:
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        run.optimizer.step()

    step, found = wrap(fn), []
    for i in range(6):
        step(run.model, *batch(run.device, i))
        found.append(run.seen())
    return found


def _by_hand(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
    def fn(x: rl.Tensor, y: rl.Tensor) -> None:
        run.loss(x, y).backward()
        run.optimizer.step()
        for p in run.params:
            p.grad = None

    step, found = wrap(fn), []
    for i in range(6):
        step(*batch(run.device, i))
        found.append(run.seen())
    return found


@pytest.mark.parametrize("script", [_zero_last, _fill_with_zeros, _by_module, _by_hand])
@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_ways_to_drop_gradients(device: str, kind: str, script: Script) -> None:
    same(script, device, OPTIMIZERS[kind], least=4)


def _in_two_functions(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
    """Two halves of a batch add up their gradients in one function, another updates."""

    def add_up(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        loss = run.loss(x, y) * 0.5
        loss.backward()
        return loss.detach()

    def update() -> rl.Tensor:
        total = nn.utils.clip_grad_norm_(run.params, 0.5)
        run.optimizer.step()
        run.optimizer.zero_grad()
        return total

    first, second, found = wrap(add_up), wrap(update), []
    for i in range(6):
        losses = [first(*batch(run.device, 10 * i + half)).tolist() for half in (0, 1)]
        grads = run.seen()[1]
        found.append([losses, grads, second().tolist(), run.seen()])
    return found


def _in_one_function(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
    def fn(parts: list[tuple[rl.Tensor, rl.Tensor]]) -> None:
        run.optimizer.zero_grad()
        for x, y in parts:
            (run.loss(x, y) * 0.5).backward()
        run.optimizer.step()

    step, found = wrap(fn), []
    for i in range(5):
        step([batch(run.device, 10 * i), batch(run.device, 10 * i + 1)])
        found.append(run.seen())
    return found


@pytest.mark.parametrize("script", [_in_one_function, _in_two_functions])
@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_gradients_of_two_batches_add_up(device: str, kind: str, script: Script) -> None:
    same(script, device, OPTIMIZERS[kind], least=3)


def test_gradients_made_outside(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        update, found = wrap(lambda: run.optimizer.step()), []
        for i in range(6):
            run.optimizer.zero_grad()
            run.loss(*batch(run.device, i)).backward()
            update()
            found.append(run.seen())
        return found

    for kind in ("sgd", "adamw"):
        same(script, device, OPTIMIZERS[kind], least=3)


def test_the_optimizer_goes_on_from_another_state(device: str) -> None:
    saved: list[Any] = []

    def load(run: Run, i: int) -> None:
        if i == 2:
            saved[:] = [run.optimizer.state_dict()]
            state = saved[0]["state"]
            kept = {n: {k: _copied(v) for k, v in s.items()} for n, s in state.items()}
            saved[0] = {"state": kept, "param_groups": saved[0]["param_groups"]}
        if i in (4, 7):
            before = run.optimizer.state_dict()["state"]  # somebody holds the old ones
            saved.append([s for s in before.values()])
            run.optimizer.load_state_dict(saved[0])

    for kind in ("momentum", "adamw"):
        saved.clear()
        same(
            lambda run, wrap: plainly(run, wrap, count=9, between=load),
            device,
            OPTIMIZERS[kind],
            least=3,
        )


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, rl.Tensor) else value


def test_a_state_that_was_loaded_is_not_written_to_by_an_old_plan(device: str) -> None:
    run = Run(device, OPTIMIZERS["adamw"])
    step: Any = rl.jit(run.step)
    for i in range(4):
        step(*batch(device, i))
    old = [s["exp_avg"] for s in run.optimizer.state.values()]
    held = [t.tolist() for t in old]
    run.optimizer.load_state_dict(run.optimizer.state_dict())
    for i in range(4, 8):
        step(*batch(device, i))
    assert [t.tolist() for t in old] == held
    assert all(s["step"] == 8 for s in run.optimizer.state.values())


def test_a_parameter_frozen_for_a_while(device: str) -> None:
    def freeze(run: Run, i: int) -> None:
        run.params[0].requires_grad_(i not in (3, 4))

    for kind in ("momentum", "adamw"):
        same(
            lambda run, wrap: plainly(run, wrap, count=8, between=freeze),
            device,
            OPTIMIZERS[kind],
            least=2,
        )


def test_parts_that_are_frozen_in_turns(device: str) -> None:
    """Two functions train half of the network each, and freeze the other half meanwhile."""

    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        halves = [run.params[:2], run.params[2:]]
        makers = [OPTIMIZERS["momentum"](half) for half in halves]

        def step(i: int) -> Any:
            def fn(x: rl.Tensor, y: rl.Tensor) -> None:
                run.model.zero_grad()
                run.loss(x, y).backward()
                makers[i].step()

            return wrap(fn)

        steps, found = [step(0), step(1)], []
        for i in range(12):
            for half, at in zip(halves, (0, 1), strict=True):
                for p in half:
                    p.requires_grad_(at == i % 2)
            steps[i % 2](*batch(run.device, i))
            found.append(run.seen())
        return found

    same(script, device, OPTIMIZERS["sgd"], least=3)


def test_an_evaluation_between_epochs(device: str) -> None:
    """Neither function is captured anew for the switches between training and evaluation."""

    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        step, score, found = wrap(run.step), wrap(lambda x: run.model(x)), []
        for i in range(5):
            run.model.train()
            for k in range(2):
                step(*batch(run.device, 2 * i + k))
            run.model.eval()
            with rl.no_grad():
                found.append([score(batch(run.device, i)[0]).tolist(), run.seen()])
        return found

    same(script, device, OPTIMIZERS["adamw"], least=4)


def test_a_switch_inside(device: str) -> None:
    drop = nn.Dropout(0.5)

    def fn(x: rl.Tensor) -> rl.Tensor:
        drop.train()
        found: rl.Tensor = drop(x)
        return found

    step: Any = rl.jit(fn)
    x = rl.ones(64, device=device)
    for i in range(6):
        drop.train(i % 2 == 0)
        assert step(x).amin().item() == 0 and drop.training


def test_a_parameter_that_takes_other_memory(device: str) -> None:
    def move(run: Run, i: int) -> None:
        if i == 3:
            run.params[0].set_(run.params[0].detach() * 0.5)
        if i == 5:
            with rl.no_grad():
                run.params[1].mul_(2.0)  # the same memory with other values

    for kind in ("momentum", "adamw"):
        same(
            lambda run, wrap: plainly(run, wrap, count=8, between=move),
            device,
            OPTIMIZERS[kind],
            least=3,
        )


def test_a_group_that_is_added(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        scale = nn.Parameter(rl.ones(3, device=device))
        run.params.append(scale)

        def fn(x: rl.Tensor, y: rl.Tensor) -> None:
            run.optimizer.zero_grad()
            F.cross_entropy(run.model(x) * scale, y).backward()
            run.optimizer.step()

        step, found = wrap(fn), []
        for i in range(8):
            if i == 4:
                run.optimizer.add_param_group({"params": scale, "lr": 0.5})
                scale.grad = None
            step(*batch(run.device, i))
            found.append(run.seen())
        return found

    same(script, device, OPTIMIZERS["adamw"], least=3)


def test_two_optimizers_and_two_groups(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        weights = [p for p in run.params if p.ndim > 1]
        biases = [p for p in run.params if p.ndim == 1]
        groups: list[dict[str, Any]] = [{"params": weights[:1]}, {"params": weights[1:], "lr": 1}]
        adamw = optim.AdamW(groups, lr=0.1)
        sgd = optim.SGD(biases, lr=0.2, momentum=0.5)

        def fn(x: rl.Tensor, y: rl.Tensor) -> None:
            run.model.zero_grad()
            run.loss(x, y).backward()
            adamw.step()
            sgd.step()
            adamw.step()

        step, found = wrap(fn), []
        for i in range(6):
            adamw.param_groups[1]["lr"] = 0.1 / (i + 1)
            step(*batch(run.device, i))
            steps = [s["step"] for s in adamw.state.values()]
            assert steps == [2 * (i + 1)] * 2
            found.append([run.seen(), steps])
        return found

    same(script, device, OPTIMIZERS["sgd"], least=3)


def test_a_closure(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        def fn(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            def closure() -> rl.Tensor:
                run.optimizer.zero_grad()
                loss = run.loss(x, y)
                loss.backward()
                return loss

            found: rl.Tensor = run.optimizer.step(closure).detach()
            return found

        step, found = wrap(fn), []
        with rl.no_grad():
            for i in range(6):
                found.append([step(*batch(run.device, i)).tolist(), run.seen()])
        return found

    same(script, device, OPTIMIZERS["adamw"], least=4)


def test_a_loss_that_is_scaled(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        def fn(x: rl.Tensor, y: rl.Tensor) -> None:
            run.optimizer.zero_grad()
            (run.loss(x, y) * 1024).backward()
            for p in run.params:
                assert p.grad is not None
                p.grad.mul_(1 / 1024)
            run.optimizer.step()

        step, found = wrap(fn), []
        for i in range(6):
            step(*batch(run.device, i))
            found.append(run.seen())
        return found

    same(script, device, OPTIMIZERS["adamw"], least=4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_numbers_are_rounded_as_without_jit(device: str, dtype: str) -> None:
    if dtype == "float64" and device != "cpu":
        with pytest.raises(TypeError, match="float64"):
            rl.zeros(1, dtype=dtype, device=device)
        return

    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        values = np.random.default_rng(0).normal(size=(3, 3))
        weight = nn.Parameter(rl.tensor(values, dtype=dtype).to(device))
        made = [optim.AdamW([weight], lr=0.0123), optim.SGD([weight], lr=0.0345, momentum=0.67)]

        def fn(x: rl.Tensor) -> None:
            weight.grad = None
            (weight * x).sum().backward()
            for o in made:
                o.step()

        step, found = wrap(fn), []
        for i in range(5):
            step(rl.full((3,), 0.1 * (i + 1), device=device).to(dtype))
            found.append(weight.tolist())
        return found

    same(script, device, OPTIMIZERS["sgd"], least=2)


# --- results --------------------------------------------------------------------------------------


def test_a_loss_may_be_given_as_it_is(device: str) -> None:
    def tell(loss: rl.Tensor) -> list[str]:
        said = [repr(loss.grad_fn).partition(" object")[0]]  # without its address
        for call in (
            loss.backward,
            (loss * 2).backward,
            lambda: rl.autograd.grad(loss, run.params[0], allow_unused=True),
        ):
            with pytest.raises(RuntimeError, match="freed by an earlier backward") as error:
                call()
            said.append(str(error.value))
        return said

    def fn(x: rl.Tensor, y: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        run.optimizer.zero_grad()
        logits = run.model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        run.optimizer.step()
        return loss, logits

    said = []
    step: Any
    for step in (fn, rl.jit(fn)):
        run = Run(device, OPTIMIZERS["momentum"])
        for i in range(5):
            loss, logits = step(*batch(device, i))
            assert loss.requires_grad and logits.requires_grad and not loss.is_leaf
            said.append([loss.item(), logits.tolist(), *tell(loss)])
    assert alike(said[:5], said[5:], device)
    assert not captures(device) or replays(step) >= 2


def test_a_result_that_still_has_its_graph_is_not_captured(device: str) -> None:
    def fn(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        run.optimizer.zero_grad()
        loss = run.loss(x, y)
        loss.backward(retain_graph=True)
        return loss

    found = []
    step: Any
    for step in (fn, rl.jit(fn)):
        run = Run(device, OPTIMIZERS["sgd"])
        for i in range(4):
            loss = step(*batch(device, i))
            loss.backward()
            found.append(run.seen())
    assert alike(found[:4], found[4:], device)
    if captures(device):
        assert whys(step) == ["its result needs a gradient"] * len(step.executables)


def test_a_gradient_of_a_gradient(device: str) -> None:
    """A penalty on the gradient's norm inside is captured; a gradient with a history is not."""

    def penalty(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        run.optimizer.zero_grad()
        loss = run.loss(x, y)
        (grad,) = rl.autograd.grad(loss, run.params[0], create_graph=True)
        assert grad is not None
        total = loss + grad.square().sum()
        total.backward()
        run.optimizer.step()
        return total.detach()

    def recorded(x: rl.Tensor, y: rl.Tensor) -> None:
        run.optimizer.zero_grad()
        run.loss(x, y).backward(create_graph=True)

    for fn in (penalty, recorded):
        found = []
        for step in (fn, rl.jit(fn)):
            run = Run(device, OPTIMIZERS["momentum"])
            for i in range(5):
                out = step(*batch(device, i))
                found.append([None if out is None else out.item(), run.seen()])
        assert alike(found[:5], found[5:], device)
        if captures(device):
            assert fn is recorded or replays(step) >= 2
            assert whys(step) == ([] if fn is penalty else ["its result needs a gradient"])
        for p in run.params:
            p.grad = None  # with its history, which holds the parameter


def test_gradients_that_are_held_stay_as_they_are(device: str) -> None:
    run = Run(device, OPTIMIZERS["adamw"])
    for reuse in (False, True):
        step: Any = rl.jit(run.step, reuse_outputs=reuse)
        held, values = [], []
        for i in range(5):
            step(*batch(device, i))
            grad = run.params[0].grad
            assert grad is not None
            held.append(grad)
            values.append(grad.tolist())
        assert [g.tolist() for g in held] == values
        assert len({id(g.storage) for g in held}) == 5


def test_a_gradient_may_be_a_result(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        def fn(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor | None:
            run.optimizer.zero_grad()
            run.loss(x, y).backward()
            run.optimizer.step()
            return run.params[0].grad

        step, found = wrap(fn), []
        for i in range(5):
            grad = step(*batch(run.device, i))
            now = run.params[0].grad
            assert now is not None and grad.storage is now.storage
            found.append([grad.tolist(), run.seen()])
        return found

    same(script, device, OPTIMIZERS["momentum"], least=3)


def test_a_result_twice(device: str) -> None:
    def fn(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        row = x[0]
        return row, row, x, x[1]

    captured: Any = rl.jit(fn)
    inputs = [rl.full((2, 3), float(i), device=device) for i in range(4)]
    for x in inputs:
        assert [t.tolist() for t in captured(x)] == [t.tolist() for t in fn(x)]


# --- what is not captured, and why ----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:jit. the step of Plain runs uncaptured")
def test_an_optimizer_that_says_nothing_of_its_numbers(device: str) -> None:
    class Plain(optim.Optimizer):
        def update(self, param: rl.Tensor, grad: rl.Tensor, state: Any, group: Any) -> None:
            state["count"] = state.get("count", 0) + 1
            param.sub_(grad * (group["lr"] / state["count"]))

    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        step, found = wrap(run.step), []
        for i in range(5):
            run.optimizer.param_groups[0]["lr"] = 1 / (i + 1)
            step(*batch(run.device, i))
            found.append(run.seen())
        if step != run.step and captures(device):
            assert set(whys(step)) == {"Plain has no method rates"}
        return found

    want, got = (
        script(Run(device, lambda p: Plain(p, {"lr": 1.0})), wrap) for wrap in (_as_is, rl.jit)
    )
    assert alike(got, want, device)


def test_an_optimizer_of_ones_own_that_is_not_captured_is_named(device: str) -> None:
    class Torchlike(optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    p.detach().sub_(p.grad * group["lr"])

    p = nn.Parameter(rl.ones(2, device=device))
    made = Torchlike([p], {"lr": 0.5})

    def step() -> None:
        made.zero_grad()
        p.square().sum().backward()
        made.step()

    with pytest.warns(UserWarning, match="jit: the step of Torchlike runs uncaptured: it reads"):
        rl.jit(step)()


def _as_is(fn: Any) -> Any:
    return fn


def test_an_optimizer_of_ones_own_that_is_captured(device: str) -> None:
    class Decaying(optim.Optimizer):
        def rates(self, state: dict[str, Any], group: Any) -> tuple[float, ...]:
            state["step"] = state.get("step", 0) + 1
            return (group["lr"] / state["step"],)

        def update(self, param: rl.Tensor, grad: rl.Tensor, state: Any, group: Any) -> None:
            (rate,) = group["rates"]
            param.sub_(grad * rate)

    same(plainly, device, lambda p: Decaying(p, {"lr": 1.0}), least=4)


def test_a_schedule_inside_is_python(device: str) -> None:
    def fn(x: rl.Tensor, y: rl.Tensor) -> None:
        run.step(x, y)
        for group in run.optimizer.param_groups:
            group["lr"] *= 0.5

    found = []
    for step in (fn, rl.jit(fn)):
        run = Run(device, OPTIMIZERS["adamw"])
        for i in range(5):
            step(*batch(device, i))
            found.append(run.seen())
    assert alike(found[:5], found[5:], device)
    if captures(device):
        assert set(whys(step)) == {"it reads param_groups of an optimizer"}


def test_leaves_that_are_others_each_time(device: str) -> None:
    """A function that fills in the gradient of what it finds: new tensors, some with a gradient."""
    place: list[rl.Tensor] = []

    def fn(x: rl.Tensor) -> None:
        (place[0] * x).sum().backward()

    step: Any = rl.jit(fn)
    for i in range(24):
        place[:] = [rl.full((3,), float(i), device=device, requires_grad=True)]
        if i % 3 == 0:
            place[0].grad = rl.full((3,), 2.0, device=device)
        first, old = place[0].grad, None if i % 3 else 2.0
        step(rl.full((3,), i + 1.0, device=device))
        grad = place[0].grad
        assert grad is not None and grad.tolist() == [(old or 0) + i + 1] * 3
        assert first is None or grad is first
    if captures(device):
        assert len(step.executables) < 24


def test_a_leaf_made_inside(device: str) -> None:
    weight = rl.full((3,), 2.0, device=device)
    kept: list[rl.Tensor] = []

    def fn(x: rl.Tensor) -> rl.Tensor:
        leaf = weight.detach().requires_grad_()
        (leaf * leaf * x).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    def keeping(x: rl.Tensor) -> rl.Tensor:
        leaf = nn.Parameter(weight)
        kept.append(leaf)
        (leaf * leaf * x).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    for made in (fn, keeping):
        step: Any = rl.jit(made)
        for i in range(5):
            assert step(rl.full((3,), float(i), device=device)).tolist() == [4.0 * i] * 3
        if captures(device) and made is fn:
            assert replays(step) == 4
    assert [k.grad.tolist() for k in kept if k.grad is not None] == [
        [4.0 * i] * 3 for i in range(5)
    ]
    assert len({id(k) for k in kept}) == 5


def test_the_gradient_of_an_argument(device: str) -> None:
    def fn(x: rl.Tensor) -> rl.Tensor:
        return x * 2 if x.grad is None else x.grad * 1

    step: Any = rl.jit(fn)
    for i in range(4):
        x = rl.full((2,), float(i), device=device)
        assert step(x).tolist() == [2.0 * i] * 2
        x.grad = rl.full((2,), 7.0, device=device)
        assert step(x).tolist() == [7.0] * 2


def test_a_gradient_as_an_argument_too(device: str) -> None:
    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        p = run.params[0]

        def fn(grad: rl.Tensor, x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            before = grad * 2
            run.loss(x, y).backward()
            return before + grad

        step, found = wrap(fn), []
        run.loss(*batch(run.device, 9)).backward()
        for i in range(5):
            assert p.grad is not None
            found.append([step(p.grad, *batch(run.device, i)).tolist(), run.seen()])
        return found

    want, got = (script(Run(device, OPTIMIZERS["sgd"]), wrap) for wrap in (_as_is, rl.jit))
    assert alike(got, want, device)


def test_gradients_in_memory_that_is_written_to_as_a_whole(device: str) -> None:
    """An argument, or a gradient, may lie in memory that is known by another name, too."""

    def script(run: Run, wrap: Callable[[Any], Any]) -> list[Any]:
        flat = rl.zeros(sum(p.numel() for p in run.params), device=run.device)
        first = 0
        for p in run.params:
            p.grad = flat[first : first + p.numel()].reshape(*p.shape)
            first += p.numel()

        def fn(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            flat.zero_()
            run.loss(x, y).backward()
            flat.mul_(1 / (flat.norm() + 1e-3))
            run.optimizer.step()
            return flat.norm()

        step, found = wrap(fn), []
        for i in range(5):
            found.append([step(*batch(run.device, i)).tolist(), flat.tolist(), run.seen()])
        return found

    want, got = (script(Run(device, OPTIMIZERS["adamw"]), wrap) for wrap in (_as_is, rl.jit))
    assert alike(got, want, device)


def test_a_gradient_reached_by_another_name(device: str) -> None:
    """What was .grad in the first call stays what its other name means."""
    p = nn.Parameter(rl.ones(2, device=device))
    p.grad = rl.full((2,), 5.0, device=device)
    old = p.grad

    def fn(x: rl.Tensor) -> rl.Tensor:
        assert p.grad is not None
        return p.grad * 10 + old * x

    step: Any = rl.jit(fn)
    for i in range(6):
        p.grad = old if i < 3 else rl.full((2,), float(i), device=device)
        want = (5.0 if i < 3 else i) * 10 + 5.0 * i
        assert step(rl.full((2,), float(i), device=device)).tolist() == [want] * 2


def test_an_error_leaves_gradients_and_counts_as_they_were(device: str) -> None:
    table = nn.Parameter(rl.ones(4, 2, device=device))
    made = optim.AdamW([table], lr=0.1)

    def fn(ids: rl.Tensor) -> None:
        made.zero_grad()
        F.embedding(ids, table).sum().backward()
        made.step()

    step: Any = rl.jit(fn)
    good = rl.tensor([1, 2], device=device)
    for _ in range(4):
        step(good)
    held, count = table.tolist(), made.state[table]["step"]
    if device == "cpu":  # elsewhere it is known when the step has been done
        with pytest.raises(IndexError, match="embedding"):
            step(rl.tensor([1, 9], device=device))
        assert made.state[table]["step"] == count and table.tolist() == held
    step(good)
    assert made.state[table]["step"] == count + 1 and table.tolist() != held

    def failing(ids: rl.Tensor) -> None:
        made.zero_grad(set_to_none=False)
        raise KeyError("of its own")

    grad = table.grad
    assert grad is not None
    wrong: Any = rl.jit(failing)
    for _ in range(2):
        with pytest.raises(KeyError, match="of its own"):
            wrong(good)
        assert table.grad is not None and table.grad.storage is grad.storage
        assert not hasattr(table.grad.storage, "base") and not table.grad.detach().numpy().any()


# --- memory ---------------------------------------------------------------------------------------


def live() -> int:
    """How many storages and recorded ops are alive."""
    gc.collect()
    return sum(isinstance(o, (Storage, rl.autograd.graph.Node)) for o in gc.get_objects())


@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_nothing_grows(device: str, kind: str) -> None:
    run = Run(device, OPTIMIZERS[kind])
    step: Any = rl.jit(run.step)
    x, y = batch(device, 0)
    for _ in range(5):
        step(x, y)
    before = live()
    for _ in range(20):
        step(x, y)
    assert live() == before
    assert not captures(device) or replays(step) >= 22


def test_a_plan_ends_with_what_it_trains(device: str) -> None:
    def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return place[0].step(x, y)

    place = [Run(device, OPTIMIZERS["adamw"])]
    captured: Any = rl.jit(step)
    for i in range(4):
        captured(*batch(device, i))
    gone = weakref.ref(place[0].params[0])
    place[0] = Run(device, OPTIMIZERS["adamw"])
    gc.collect()
    assert gone() is None
    other = Run(device, OPTIMIZERS["adamw"])
    for i in range(4):
        rl.manual_seed(i)
        got = captured(*batch(device, i)).tolist()
        rl.manual_seed(i)
        assert alike(got, other.step(*batch(device, i)).tolist(), device)
    assert alike(place[0].seen(), other.seen(), device)


def test_activations_share_memory(device: str) -> None:
    """A deep network's step holds what backward needs, once; not every intermediate."""
    rl.manual_seed(0)
    layers = [m for _ in range(6) for m in (nn.Linear(32, 32), nn.GELU())]
    model = nn.Sequential(*layers).to(device)
    made = optim.SGD(model.parameters(), lr=0.01)
    sizes = {}
    for passes in (("reuse",), ()):

        @rl.jit(passes=passes)
        def step(x: rl.Tensor) -> None:
            model(x).square().mean().backward()
            made.step()
            made.zero_grad()

        for i in range(3):
            step(rl.full((16, 32), float(i), device=device))
        if captures(device):
            (entry,) = step.executables.values()  # type: ignore[attr-defined]
            sizes[passes] = entry.nbytes
    if captures(device):
        assert sizes["reuse",] < 0.5 * sizes[()]
