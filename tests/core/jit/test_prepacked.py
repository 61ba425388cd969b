"""What executables keep of tensors from outside follows those tensors."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.prepacked import PackedWeight
from rushlight.core.tools.testing import draws


def network() -> rl.nn.Sequential:
    """Convolutions by tiles, by panels and of several groups, with norms, from drawn numbers."""
    conv = rl.nn.Conv2d
    net = rl.nn.Sequential(
        conv(8, 9, 3, padding=1),
        rl.nn.BatchNorm2d(9),
        rl.nn.ReLU(),
        conv(9, 20, 1, bias=False),
        rl.nn.BatchNorm2d(20),
        conv(20, 8, 3, stride=2),
        conv(8, 8, 3, groups=2),
        rl.nn.SiLU(),
    )
    with rl.no_grad():
        for i, x in enumerate(tensors(net)):
            x.copy_(rl.tensor(draws(i, x.shape, 0.1, 1.0).astype(np.float32)))
    return net.eval()


def tensors(net: rl.nn.Sequential) -> list[rl.Tensor]:
    """Parameters, means and variances."""
    return [x for x in (*net.parameters(), *net.buffers()) if x.ndim]


X = rl.tensor(draws(99, (1, 8, 13, 11), -1.0, 1.0).astype(np.float32))


def written(net: rl.nn.Sequential) -> None:
    """By an op."""
    for x in tensors(net):
        x.mul_(0.5)


def loaded(net: rl.nn.Sequential) -> None:
    """From a state."""
    net.load_state_dict({n: x * 2 for n, x in net.state_dict().items()})


def through_numpy(net: rl.nn.Sequential) -> None:
    """By NumPy, in memory that is shared."""
    for x in tensors(net):
        array = x.detach().numpy()
        array[...] = array * 2


def captured_write(net: rl.nn.Sequential) -> None:
    """By another captured function."""

    @rl.jit
    def halve() -> None:
        for x in net.parameters():
            x.mul_(0.5)

    for _ in range(3):
        halve()


@pytest.mark.parametrize("change", [written, loaded, through_numpy, captured_write])
def test_values_follow_the_weights(change: Callable[[rl.nn.Sequential], None]) -> None:
    net = network()
    captured = rl.jit(net.forward)
    seen = []
    with rl.no_grad():
        for _ in range(3):
            for _ in range(3):
                found = captured(X)
            np.testing.assert_array_equal(found.numpy(), net(X).numpy())
            seen.append(found.numpy().copy())
            change(net)
    assert not np.array_equal(seen[0], seen[1]) and not np.array_equal(seen[1], seen[2])


@pytest.mark.native  # the tab's modules have no room for it
def test_forms_are_made_once_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = 0 if simd.library is None else 3  # NumPy's kernels keep none
    made: list[PackedWeight] = []

    def pack(weight: PackedWeight, inner: Callable[..., None] = PackedWeight.pack) -> None:
        made.append(weight)
        inner(weight)

    monkeypatch.setattr(PackedWeight, "pack", pack)
    net = network()
    captured = rl.jit(net.forward)
    with rl.no_grad():
        for x in (X, rl.cat([X, X])):
            for _ in range(4):
                captured(x)
    assert len(made) == len(set(made)) == forms  # two executables share them
    before = len(PackedWeight.alive)
    made.clear()
    del captured, net
    gc.collect()
    assert len(PackedWeight.alive) <= before - forms


def test_a_training_step_sees_what_it_writes() -> None:
    nets = [network(), network()]

    def step(net: rl.nn.Sequential) -> rl.Tensor:
        for x in net.parameters():
            x.mul_(1.25)
        found: rl.Tensor = net(X)
        return found

    captured: Callable[[], rl.Tensor] = rl.jit(lambda: step(nets[0]))
    with rl.no_grad():
        for _ in range(4):
            np.testing.assert_array_equal(captured().numpy(), step(nets[1]).numpy())


def test_an_argument_may_be_a_weight_that_is_written_to() -> None:
    """What is kept would be made before the function writes."""
    for part in ("0.weight", "1.weight", "3.weight"):
        nets = [network(), network()]
        weights = [dict(net.named_parameters())[part] for net in nets]

        def step(w: rl.Tensor, net: rl.nn.Sequential) -> rl.Tensor:
            w.mul_(1.25)
            found: rl.Tensor = net(X)
            return found

        captured: Callable[[rl.Tensor], rl.Tensor] = rl.jit(lambda w, net=nets[0]: step(w, net))
        with rl.no_grad():
            for _ in range(4):
                found, wanted = captured(weights[0]), step(weights[1], nets[1])
                np.testing.assert_array_equal(found.numpy(), wanted.numpy())
