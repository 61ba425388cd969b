"""A PyTorch program finds its modules, optimizers, schedules and batches under torch's names."""

from __future__ import annotations

import importlib
import json
import math
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "nn nn.functional nn.init nn.parameter nn.utils nn.utils.parametrizations "
    "nn.modules nn.modules.module nn.utils.stateless "
    "nn.utils.parametrize nn.utils.rnn optim optim.lr_scheduler utils utils.data autograd "
    "utils.checkpoint autograd.function autograd.functional autograd.graph special linalg "
    "fft cuda func distributions distributions.constraints distributions.kl "
    "distributions.transforms autograd.forward_ad"
).split()


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_imported_both_ways(name: str) -> None:
    module = importlib.import_module(f"rushlight.{name}")
    found = rl
    for part in name.split("."):
        found = getattr(found, part)
    assert found is module


def test_names_of_torch() -> None:
    assert (rl.long, rl.float, rl.half, rl.int) == (rl.int64, rl.float32, rl.float16, rl.int32)
    assert not rl.cuda.is_available() and rl.cuda.device_count() == 0
    assert rl.pi == math.pi and rl.iinfo(rl.int8).min == -128
    assert rl.finfo(rl.bfloat16).eps == 2**-7 and rl.finfo("float32").max == np.finfo("f4").max
    assert rl.finfo(rl.bfloat16).max == 3.3895313892515355e38
    assert rl.tensor([2.0]).float_power(2).dtype is rl.float64
    x: Any = rl.tensor([3.0], dtype=rl.float64)
    assert x.float_power_(2).tolist() == [9.0]
    with pytest.raises(TypeError, match="finfo: int8 is not a floating dtype; use iinfo"):
        rl.finfo(rl.int8)


def test_rates_of_schedules() -> None:
    sgd = rl.optim.SGD([rl.ones(1).requires_grad_()], lr=1.0)
    schedule = rl.optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=4, eta_min=0.1)
    for epoch in range(1, 9):
        schedule.step()
        expected = 0.1 + 0.45 * (1 + math.cos(math.pi * epoch / 4))
        assert schedule.get_last_lr() == pytest.approx([expected]), epoch
    steps = rl.optim.lr_scheduler.StepLR(rl.optim.SGD([rl.ones(1)], lr=1.0), 2, 0.5)
    rates = []
    for _ in range(5):
        rates += steps.get_last_lr()
        steps.step()
    assert rates == [1, 1, 0.5, 0.5, 0.25]


def test_two_steps_of_adam_and_rmsprop(device: str) -> None:
    for name in ("Adam", "RMSprop"):
        p = rl.tensor([1.0, -2.0], device=device).requires_grad_()
        optimizer = getattr(rl.optim, name)([p], lr=0.1, weight_decay=0.5)
        x, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
        for step in (1, 2):
            p.grad = rl.tensor([0.3, 0.7], device=device)
            optimizer.step()
            g = np.array([0.3, 0.7]) + 0.5 * x
            if name == "Adam":
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                x = x - 0.1 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
            else:
                v = 0.99 * v + 0.01 * g * g
                x = x - 0.1 * g / (np.sqrt(v) + 1e-8)
        np.testing.assert_allclose(p.detach().cpu().numpy(), x, rtol=1e-5)


def test_batches() -> None:
    data = rl.utils.data.TensorDataset(rl.arange(10).reshape(5, 2), rl.arange(5))
    loader = rl.utils.data.DataLoader(data, batch_size=2, shuffle=True)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    seen = rl.cat([y for _, y in batches])
    assert sorted(seen.tolist()) == list(range(5))
    assert rl.equal(rl.cat([x for x, _ in batches])[:, 0], seen * 2)


def test_dtypes_of_results() -> None:
    x = rl.ones(2, dtype=rl.int8)
    assert rl.result_type(x, 1) is rl.int8 and rl.result_type(x, 1.5) is rl.float32
    assert rl.result_type(x, rl.tensor(2.0, dtype=rl.float64)) is rl.float64
    assert rl.can_cast(rl.int64, rl.float16) and not rl.can_cast(rl.float32, rl.int32)
    assert not rl.can_cast(rl.uint8, rl.bool) and rl.can_cast(rl.bool, rl.uint8)


def test_a_shape_is_a_size() -> None:
    shape = rl.zeros(2, 3, 4).shape
    cases: list[tuple[Any, tuple[int, ...]]] = [
        (shape, (2, 3, 4)),
        (shape[1:], (3, 4)),
        (shape + (5,), (2, 3, 4, 5)),
        ((5,) + shape[:1], (5, 2)),
        (shape[:1] * 2, (2, 2)),
        (rl.Size([6]), (6,)),
        (rl.zeros(shape[1:]).size(), (3, 4)),
    ]
    for found, expected in cases:
        assert type(found) is rl.Size and found == expected and hash(found) == hash(expected)
        assert found.numel() == math.prod(expected)
    assert shape[-1] == 4 and rl.Size().numel() == 1 and repr(shape) == "(2, 3, 4)"


def test_print_options() -> None:
    try:
        x = rl.tensor([1.23456, 2.5])
        rl.set_printoptions(precision=2)
        assert repr(x) == "tensor([1.23, 2.50])"
        rl.set_printoptions(sci_mode=True)
        assert repr(x) == "tensor([1.23e+00, 2.50e+00])" and repr(x * 0) == "tensor([0., 0.])"
        rl.set_printoptions(threshold=5, edgeitems=1)
        assert repr(rl.arange(9)) == "tensor([0,  ..., 8])"
        rl.set_printoptions(profile="full", linewidth=30)
        assert repr(rl.arange(9)) == "tensor([0, 1, 2, 3, 4, 5, 6,\n        7, 8])"
        assert rl.get_printoptions()["linewidth"] == 30
        with pytest.raises(ValueError, match="profile is 'long'; it must be one of default, short"):
            rl.set_printoptions(profile="long")
    finally:
        rl.set_printoptions(profile="default")
    assert repr(x) == "tensor([1.2346, 2.5000])"


# --- docs/torch.md ------------------------------------------------------------------------------


def _rows() -> dict[str, list[str]]:
    lines = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cells[0]: cells[1:] for cells in rows if len(cells) == 5 and cells[0] != "torch"}


@pytest.mark.native
def test_the_table_of_torchs_names_is_true() -> None:
    names = json.loads((ROOT / "tests/core/data/torch_names.json").read_text(encoding="utf-8"))
    rows = _rows()
    rows.pop("---")
    assert list(rows) == list(names) and len(names) > 500
    refused = 0
    for name, places in names.items():
        function, method, in_place, reason = rows[name]
        for place in places:
            written = place.endswith("_") and not place.endswith("__")
            cell = function if place.startswith("torch.") else in_place if written else method
            try:
                reduce(getattr, place.removeprefix("torch.").split("."), rl)
                assert cell == "yes", f"{place} is here; run make format"
            except AttributeError:
                refused += 1
                assert cell == "refused" and len(reason) > 10, f"{place} is missing"
    assert refused < 80
