"""Every change of a module's tensors is seen, and modules are walked after changes only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.models.generation.change_detector import ChangeDetector


def _network(layers: int = 2) -> Any:
    """Layers in a row; the first has a buffer and one that is missing."""
    found = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(layers)))
    found[0].register_buffer("scale", rl.ones(4))
    found[0].register_buffer("shift", None)
    return found


def _replace_weight(m: Any) -> None:
    m[1].weight = nn.Parameter(rl.ones(4, 4))


def _add_bias(m: Any) -> None:
    m[1].bias = nn.Parameter(rl.ones(4))


def _fill_buffer(m: Any) -> None:
    m[0].shift = rl.ones(4)


def _drop_weight(m: Any) -> None:
    del m[1].weight


def _append(m: Any) -> None:
    m.append(nn.Linear(4, 4))


def _replace_layer(m: Any) -> None:
    m[1] = nn.Linear(4, 4, bias=False)


def _assign(m: Any) -> None:
    m.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}, assign=True)


MOVES = (_replace_weight, _add_bias, _fill_buffer, _drop_weight, _append, _replace_layer, _assign)


@pytest.mark.parametrize("change", MOVES, ids=lambda change: change.__name__[1:])
def test_other_memory_is_seen(change: Callable[[Any], None]) -> None:
    m = _network()
    detector = ChangeDetector(m)
    assert detector.changes(m) == (False, False)
    change(m)
    assert detector.changes(m)[0]
    assert detector.changes(m) == (False, False)


def test_a_write_is_seen(device: str) -> None:
    m = _network().to(device)
    detector = ChangeDetector(m)
    for tensor in (m[1].weight, m[0].scale):
        with rl.no_grad():
            tensor.mul_(2)
        assert detector.changes(m) == (False, True)
        assert detector.changes(m) == (False, False)


def test_a_write_by_a_captured_function_is_seen() -> None:
    m = _network()
    scale: rl.Tensor = m[0].scale

    @rl.jit
    def step(x: rl.Tensor) -> rl.Tensor:
        scale.mul_(x)
        return scale * 1

    detector = ChangeDetector(m)
    for _ in range(3):
        step(rl.ones(4))
        assert detector.changes(m) == (False, True)


def test_unchanged_modules_are_not_walked(
    monkeypatch: pytest.MonkeyPatch, count_steps: Callable[[Callable[[], object]], int]
) -> None:
    models = [_network(10), _network(40)]
    looks = [partial(ChangeDetector(m).changes, m) for m in models]
    monkeypatch.setattr(nn.Module, "named_modules", None)
    # What other tensors do makes no difference: caches and samplers are written to at every step.
    rl.zeros(3).add_(1)
    small, large = map(count_steps, looks)
    assert large - small <= 3 * 30, "a few steps for each of 30 more tensors"
