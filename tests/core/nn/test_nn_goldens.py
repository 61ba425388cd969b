"""Layers and losses against torch: outputs, gradients, buffers, names of the state dict, repr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close

DATA = Path(__file__).parents[1] / "data"
CASES: dict[str, Any] = json.loads((DATA / "nn_goldens.json").read_text(encoding="utf-8"))
GOLDENS = rl.load(DATA / "nn_goldens.safetensors")


def part(name: str, kind: str) -> dict[str, rl.Tensor]:
    """The tensors of one case whose name begins with `kind.`"""
    start = f"{name}/{kind}."
    return {k.removeprefix(start): t for k, t in GOLDENS.items() if k.startswith(start)}


def given(tensor: rl.Tensor, dtype: str, device: str) -> rl.Tensor:
    """A golden as an input; whole numbers stay what they are."""
    return tensor.to(dtype if tensor.dtype.is_floating_point else tensor.dtype).to(device)


def compare(actual: rl.Tensor | None, expected: rl.Tensor, label: str) -> None:
    assert actual is not None, f"{label}: there is none"
    assert_close(actual, expected.numpy(), "several", label=label)


def compare_all(actual: Mapping[str, Any], expected: dict[str, rl.Tensor], label: str) -> None:
    assert set(actual) == set(expected)
    for key, value in expected.items():
        compare(actual[key], value, f"{label}.{key}")


@pytest.mark.parametrize("name", CASES["layers"])
def test_a_layer_agrees_with_torch(name: str, device: str, widest: str) -> None:
    case = CASES["layers"][name]
    for dtype in dict.fromkeys(("float32", widest)):
        module = eval(case["layer"], {"nn": rl.nn}).train(case["training"])
        state = {k: given(t, dtype, device).clone() for k, t in part(name, "state").items()}
        module.load_state_dict(state, assign=True)
        assert list(module.state_dict()) == case["names"]
        x = given(GOLDENS[f"{name}/in"], dtype, device)
        if x.dtype.is_floating_point:
            x = x.detach().requires_grad_()
        out = module(x)
        compare(out, GOLDENS[f"{name}/out"], f"{name}, output")
        if out.requires_grad:
            out.backward(given(GOLDENS[f"{name}/grad"], dtype, device))
        grads = {k: p.grad for k, p in module.named_parameters()}
        if x.requires_grad:
            grads["in"] = x.grad
        compare_all(grads, part(name, "grad"), f"{name}, gradient")
        compare_all(dict(module.named_buffers()), part(name, "after"), f"{name}, buffer")


@pytest.mark.parametrize("name", CASES["losses"])
def test_a_loss_agrees_with_torch(name: str, device: str, widest: str) -> None:
    for dtype in dict.fromkeys(("float32", widest)):
        tensors = {k: given(t, dtype, device) for k, t in part(name, "in").items()}
        x = tensors["x"] = tensors["x"].detach().requires_grad_()
        names = {"nn": rl.nn, "F": rl.nn.functional, **tensors}
        out = eval(CASES["losses"][name]["loss"], names)
        compare(out, GOLDENS[f"{name}/out"], name)
        out.backward(given(GOLDENS[f"{name}/grad"], dtype, device))
        compare(x.grad, GOLDENS[f"{name}/grad.x"], f"{name}, gradient")


@pytest.mark.parametrize("name", CASES["clips"])
def test_clipping_agrees_with_torch(name: str, device: str) -> None:
    case = CASES["clips"][name]
    params = []
    for t in part(name, "in").values():
        p = rl.nn.Parameter(rl.zeros(t.shape, device=device))
        p.grad = t.to(rl.float32).to(device)
        params.append(p)
    total = rl.nn.utils.clip_grad_norm_(
        iter(params), case["max_norm"], norm_type=float(case["norm_type"])
    )
    compare(total, GOLDENS[f"{name}/out"], "norm")
    compare_all({str(i): p.grad for i, p in enumerate(params)}, part(name, "grad"), "gradient")


def test_modules_print_as_in_torch() -> None:
    assert repr(eval(CASES["repr"]["module"], {"nn": rl.nn})) == CASES["repr"]["text"]


# --- what torch has no number for ---------------------------------------------------------------


def test_the_mean_over_nothing_is_nan(device: str) -> None:
    x = rl.randn(2, 3, device=device)
    nothing = rl.tensor([-100, -100], device=device)
    assert rl.nn.functional.cross_entropy(x, nothing).isnan().item()
    assert rl.nn.functional.cross_entropy(x, nothing, reduction="sum").item() == 0


def test_ignored_places_give_no_gradient_even_where_the_logits_are_infinite(device: str) -> None:
    x = rl.tensor([[0.0, 1.0], [float("-inf"), 2.0]], device=device, requires_grad=True)
    target = rl.tensor([1, -100], device=device)
    rl.nn.functional.cross_entropy(x, target).backward()
    assert x.grad is not None
    assert x.grad[1].tolist() == [0.0, 0.0]
    assert x.grad[0].isfinite().all().item()


def test_large_logits_do_not_overflow(device: str) -> None:
    x = rl.tensor([[1e4, -1e4]], device=device)
    assert rl.nn.functional.cross_entropy(x, rl.tensor([1], device=device)).item() == 2e4


def test_a_class_out_of_range_is_named(device: str) -> None:
    x = rl.zeros(2, 3, device=device)
    with pytest.raises(IndexError, match="3"):
        rl.nn.functional.cross_entropy(x, rl.tensor([0, 3], device=device)).item()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("F.mse_loss(x, x, reduction='avg')", r"mse_loss: reduction is 'avg'"),
        ("F.cross_entropy(x, t, reduction='avg')", r"cross_entropy: reduction is 'avg'"),
        ("F.cross_entropy(x, t[:1])", r"target is int64 \(1,\).* of shape \(2,\)"),
        ("F.cross_entropy(x, x[0])", r"cross_entropy: input is \(2, 3\), target \(3,\)"),
        ("F.cross_entropy(x, t, weight=x[0, :2])", r"weight is \(2,\); there are 3 classes"),
        ("F.cross_entropy(x, t, label_smoothing=2.0)", r"label_smoothing is 2.0"),
        ("F.nll_loss(x, x)", r"nll_loss: target is float32 \(2, 3\)"),
        ("F.group_norm(x, 2)", r"2 groups do not divide dim 1 of \(2, 3\)"),
        ("nn.GroupNorm(2, 3)", r"2 groups do not divide 3"),
        ("nn.GroupNorm(2, 4)(x)", r"x is \(2, 3\); it must have 4 channels"),
        ("nn.BatchNorm2d(3)(x)", r"BatchNorm2d: input is \(2, 3\); it must have 4 dims"),
        ("nn.BatchNorm1d(4)(x)", r"BatchNorm1d: x is \(2, 3\); it must have 4 channels"),
        ("F.batch_norm(x[:1], None, None, training=True)", r"\(1, 3\) gives one value per channel"),
        ("F.batch_norm(x, None, None)", r"running values are missing"),
        (
            "F.embedding(t, x.requires_grad_(), padding_idx=2)",
            r"padding_idx 2 is out of range for 2 rows",
        ),
        ("nn.Embedding(3, 2, padding_idx=3)", r"padding_idx 3 is not below 3"),
        ("nn.Conv2d(3, 4, 3, groups=2)", r"Conv2d: groups=2 does not divide 3 and 4"),
        ("nn.Dropout(1.5)", r"Dropout: p is 1.5"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call: str, message: str, device: str) -> None:
    x, t = rl.zeros(2, 3, device=device), rl.tensor([0, 1], device=device)
    with pytest.raises((ValueError, IndexError), match=message):
        eval(call, {"nn": rl.nn, "F": rl.nn.functional, "x": x, "t": t})


def test_dropout_drops_the_share_and_keeps_the_mean(device: str) -> None:
    rl.manual_seed(5)
    layer, x = rl.nn.Dropout(0.25), rl.ones(10000, device=device, requires_grad=True)
    out = layer(x)
    kept = out.detach() != 0
    share = kept.float().mean().item()
    assert abs(share - 0.75) < 0.02
    assert_close(out.detach()[kept], [1 / 0.75] * int(kept.long().sum().item()))
    out.sum().backward()
    assert x.grad is not None
    assert ((x.grad != 0) == kept).all().item()
    assert layer.eval()(x) is x
