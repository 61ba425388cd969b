"""Operands of two devices, constants that do not fit, and the options of printing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rushlight as rl


def test_a_number_of_the_host_goes_to_the_other_operands_device(device: str) -> None:
    x = rl.tensor([1.0, 2.0], device=device)
    scale = rl.tensor(2.0, requires_grad=True)
    for out in (x * scale, scale * x):
        assert out.device == x.device and out.tolist() == [2, 4]
    (x * scale).sum().backward()
    assert scale.grad is not None and scale.grad.item() == 3 and scale.grad.device.type == "cpu"
    assert (x > rl.tensor(1)).tolist() == [False, True]
    if device != "cpu":
        with pytest.raises(ValueError, match="tensors on"):
            x + rl.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [([300], "int8"), (-256, "uint8"), ([[1, 2], [3, 2**40]], "int32"), (3e9, "int32")],
)
def test_constants_that_do_not_fit_are_refused(value: object, dtype: str, device: str) -> None:
    with pytest.raises(RuntimeError, match=f"does not fit dtype {dtype}"):
        rl.tensor(value, dtype=dtype, device=device)
    assert rl.tensor([1.7, -1.2], dtype="int8", device=device).tolist() == [1, -1]


@pytest.fixture
def _options() -> Iterator[None]:
    yield
    rl.set_printoptions(profile="default")


@pytest.mark.usefixtures("_options")
def test_options_of_printing(device: str) -> None:
    """The texts are torch's for the same options."""
    note = "" if device == "cpu" else f", device='{device}:0'"
    x = rl.tensor([1.23456, 100.0], device=device)
    rl.set_printoptions(precision=2)
    assert repr(x).replace(f", device='{device}'", note) == f"tensor([  1.23, 100.00]{note})"
    rl.set_printoptions(sci_mode=True, precision=1)
    assert "1.2e+00, 1.0e+02" in repr(x)
    rl.set_printoptions(profile="short", threshold=5)
    assert "[0, 1,  ..., 8, 9]" in repr(rl.arange(10, device=device))
    assert rl.get_printoptions()["edgeitems"] == 2
    rl.set_printoptions(linewidth=20, profile="full")
    assert "\n" in repr(rl.arange(20, device=device))
    with pytest.raises(ValueError, match="default, short, full"):
        rl.set_printoptions(profile="long")
