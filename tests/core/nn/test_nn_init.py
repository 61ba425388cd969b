"""Initialisers: bounds, moments, fans, and torch's defaults of every layer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.tools.testing import assert_close

Fill = Callable[[rl.Tensor], rl.Tensor]


def phi(x: float) -> float:
    """The normal distribution function."""
    return (1 + math.erf(x / math.sqrt(2))) / 2


def truncated_std(a: float, b: float) -> float:
    """Standard deviation of a standard normal number that lies in [a, b]."""

    def density(x: float) -> float:
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    share = phi(b) - phi(a)
    mean = (density(a) - density(b)) / share
    return math.sqrt(1 + (a * density(a) - b * density(b)) / share - mean**2)


@pytest.mark.parametrize(
    ("fill", "low", "high", "std"),
    [
        (nn.init.uniform_, 0.0, 1.0, math.sqrt(1 / 12)),
        (lambda t: nn.init.uniform_(t, -3, 5), -3.0, 5.0, 8 / math.sqrt(12)),
        (nn.init.normal_, -6.0, 6.0, 1.0),
        (lambda t: nn.init.normal_(t, 1.0, 0.1), 0.4, 1.6, 0.1),
        (nn.init.xavier_uniform_, *2 * (math.sqrt(6 / 450),), math.sqrt(2 / 450)),
        (lambda t: nn.init.xavier_uniform_(t, 2.0), *2 * (2 * math.sqrt(6 / 450),), 0.13333333),
        (nn.init.kaiming_uniform_, *2 * (math.sqrt(6 / 150),), math.sqrt(2 / 150)),
        (
            lambda t: nn.init.kaiming_uniform_(t, a=math.sqrt(5)),
            *2 * (math.sqrt(1 / 150),),
            math.sqrt(1 / 450),
        ),
        (
            lambda t: nn.init.kaiming_uniform_(t, mode="fan_out", nonlinearity="tanh"),
            *2 * (5 / 3 * math.sqrt(3 / 300),),
            5 / 3 / math.sqrt(300),
        ),
        (nn.init.trunc_normal_, -2.0, 2.0, truncated_std(-2, 2)),
        (
            lambda t: nn.init.trunc_normal_(t, 0.0, 3.0, -3.0, 9.0),
            -3.0,
            9.0,
            3 * truncated_std(-1, 3),
        ),
    ],
)
def test_bounds_and_spread(fill: Fill, low: float, high: float, std: float, device: str) -> None:
    low = -low if low == high else low
    rl.manual_seed(11)
    t = rl.zeros(300, 150, device=device)
    assert fill(t) is t
    least, most = t.amin().item(), t.amax().item()
    assert low <= least and most <= high
    if std > (high - low) / 8:  # a law that comes near its bounds
        near = 0.02 * (high - low)
        assert least < low + near and most > high - near
    assert abs(t.std().item() / std - 1) < 0.02


def test_trunc_normal_has_the_right_distribution(device: str) -> None:
    rl.manual_seed(1)
    t = nn.init.trunc_normal_(rl.zeros(40000, device=device), 1.0, 2.0, -1.0, 4.0)
    for edge in (-0.5, 0.0, 1.0, 2.5, 3.9):
        expected = (phi((edge - 1) / 2) - phi(-1)) / (phi(1.5) - phi(-1))
        share = (t < edge).float().mean().item()
        assert abs(share - expected) < 0.01
    far = nn.init.trunc_normal_(rl.zeros(40000, device=device), a=-20.0, b=20.0)
    assert far.isfinite().all().item() and abs(far.std().item() - 1) < 0.02


def test_constants(device: str) -> None:
    t = rl.full((2, 2), 9.0, device=device)
    assert nn.init.zeros_(t).tolist() == [[0.0, 0.0]] * 2
    assert nn.init.ones_(t).tolist() == [[1.0, 1.0]] * 2
    assert nn.init.constant_(t, 0.5).tolist() == [[0.5, 0.5]] * 2
    assert nn.init.ones_(rl.zeros((), device=device)).item() == 1


def test_fans_and_gains() -> None:
    assert nn.init.fans(rl.zeros(6, 4, device="meta")) == (4, 6)
    assert nn.init.fans(rl.zeros(6, 4, 3, 2, device="meta")) == (24, 36)
    with pytest.raises(ValueError, match=r"shape \(3,\) has no fan"):
        nn.init.xavier_uniform_(rl.zeros(3))
    with pytest.raises(ValueError, match="mode is 'fan'"):
        nn.init.kaiming_uniform_(rl.zeros(3, 3), mode="fan")
    assert nn.init.calculate_gain("leaky_relu", 1.0) == 1.0
    assert nn.init.calculate_gain("relu") == math.sqrt(2)
    with pytest.raises(
        ValueError, match="nonlinearity 'swish' is not supported; supported: linear"
    ):
        nn.init.calculate_gain("swish")


def test_a_generator_of_its_own_and_the_seed(device: str) -> None:
    def draw(seed: int) -> list[float]:
        values: list[float] = nn.init.normal_(
            rl.zeros(5, device=device), generator=rl.Generator(seed)
        ).tolist()
        return values

    assert draw(4) == draw(4) != draw(5)
    rl.manual_seed(4)
    assert nn.init.normal_(rl.zeros(5, device=device)).tolist() == draw(4)


def test_writing_needs_no_grad_and_keeps_the_dtype(device: str) -> None:
    p = nn.Parameter(rl.zeros(64, 64, dtype=rl.float16, device=device))
    nn.init.uniform_(p)
    assert p.dtype is rl.float16 and p.is_leaf and p.requires_grad
    assert 0.4 < p.detach().float().mean().item() < 0.6


@pytest.mark.parametrize(
    ("layer", "fan"),
    [
        (nn.Linear(50, 40), 50),
        (nn.Conv1d(6, 40, 5), 30),
        (nn.Conv2d(6, 40, 3, groups=2), 27),
        (nn.ConvTranspose2d(40, 6, 3, groups=2), 27),
    ],
)
def test_weights_are_uniform_by_their_fan(
    layer: nn.Linear | nn.Conv2d, fan: int, device: str
) -> None:
    rl.manual_seed(0)
    layer.to(device)
    bound = 1 / math.sqrt(fan)
    assert layer.bias is not None
    for t, near in ((layer.weight, 0.98), (layer.bias, 0.5)):
        assert near * bound < t.abs().amax().item() <= bound
    assert abs(layer.weight.detach().std().item() / (bound / math.sqrt(3)) - 1) < 0.1


def test_defaults_of_the_others(device: str) -> None:
    rl.manual_seed(0)
    table = nn.Embedding(200, 50, padding_idx=-1).to(device)
    assert_close(table.weight.detach()[199], [0.0] * 50)
    assert abs(table.weight.detach()[:199].std().item() - 1) < 0.02
    for norm in (nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.BatchNorm1d(3), nn.BatchNorm2d(3)):
        norm.to(device)
        assert norm.weight is not None and norm.bias is not None
        assert norm.weight.tolist() == [1.0] * 3 and norm.bias.tolist() == [0.0] * 3
    assert nn.RMSNorm(2).to(device).state_dict()["weight"].tolist() == [1.0, 1.0]
    state = nn.BatchNorm1d(2).to(device).state_dict()
    assert {k: t.tolist() for k, t in state.items()} == {
        "weight": [1.0, 1.0],
        "bias": [0.0, 0.0],
        "running_mean": [0.0, 0.0],
        "running_var": [1.0, 1.0],
        "num_batches_tracked": 0,
    }


DATA = Path(__file__).parents[1] / "data" / "initial_values.json"
LAWS: dict[str, dict[str, list[Any]]] = json.loads(DATA.read_text(encoding="utf-8"))
DRAWS = 12


def fed(layer: Any, *shape: int) -> Any:
    layer(rl.zeros(shape))
    return layer


def check_laws(made: list[dict[str, rl.Tensor]], laws: dict[str, list[Any]]) -> None:
    """Every tensor has torch's law: its kind, its bound, its spread, its share of zeros."""
    assert list(made[0]) == list(laws)
    for key, (kind, *numbers) in laws.items():
        values = np.concatenate([one[key].numpy().reshape(-1) for one in made]).astype(np.float64)
        if kind == "constant":
            assert (values == numbers[0]).all(), key
            continue
        most, std, zeros, count = numbers
        some = values[values != 0]
        assert values.size == count and abs((values == 0).mean() - zeros) < 1e-6, key
        loose = 0.01 + 6 / np.sqrt(2 * count)
        assert abs(some.std() / std - 1) < loose and abs(some.mean()) < loose * std, key
        peak = ((some - some.mean()) ** 4).mean() / some.var() ** 2
        assert (peak < 2.4) == (kind == "uniform"), key
        if kind == "uniform":
            assert abs(np.abs(some).max() / most - 1) < max(0.02, 20 / count), key


@pytest.mark.filterwarnings("ignore:.*enable_nested_tensor", "ignore:.*Lazy")
@pytest.mark.parametrize("text", LAWS)
def test_layers_begin_with_numbers_of_torchs_laws(text: str) -> None:
    rl.manual_seed(0)
    names = {**vars(nn), **vars(nn.layers.transformer), "feed": fed}
    check_laws([eval(text, names).state_dict() for _ in range(DRAWS)], LAWS[text])


@pytest.mark.parametrize("text", [t for t in LAWS if not t.startswith("feed")])
def test_layers_made_without_memory_begin_so_too(text: str, device: str) -> None:
    rl.manual_seed(0)
    made = []
    for _ in range(DRAWS):
        with nn.layers_on("meta"):
            layer = eval(text, vars(nn))
        state = layer.init_(device=device).state_dict()
        made.append({key: value.cpu() for key, value in state.items()})
    check_laws(made, LAWS[text])


def test_every_layer_with_parameters_has_a_law() -> None:
    """A layer that torch makes of sizes, and that has tensors, is in the table."""
    named = {text.split("(")[0] for text in LAWS} | {text.split("(")[1] for text in LAWS}
    for name in nn.__all__:
        made = getattr(nn, name, None)
        if isinstance(made, type) and issubclass(made, nn.Module) and name not in named:
            own = vars(made).get("reset_parameters")
            assert own is None or "Lazy" in name or name.startswith("_"), name
