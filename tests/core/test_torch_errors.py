"""Mistakes that PyTorch programs make: the type of the error, and what its message names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.basis.errors import ShapeError, TypeMismatch

F: Any = nn.functional
SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "expand": lambda x, i: x.expand(3, 5),
    "view": lambda x, i: x.t().view(6),
    "permute": lambda x, i: x.permute(0, 0),
    "unfold": lambda x, i: x.unfold(0, 5, 1),
    "split": lambda x, i: x.split([1, 5]),
    "gather": lambda x, i: x.gather(0, i[None]),
    "scatter": lambda x, i: x.scatter(1, i.expand(4, 3), x),
    "index_select": lambda x, i: x.index_select(0, i[None]),
    "assignment": lambda x, i: x.__setitem__(0, rl.ones(2, device=x.device)),
    "copy_": lambda x, i: x.copy_(rl.ones(2, device=x.device)),
    "topk": lambda x, i: x.topk(5),
    "as_strided": lambda x, i: x.as_strided((9, 9), (9, 1)),
    "layer_norm": lambda x, i: F.layer_norm(x, (2,)),
    "bmm": lambda x, i: rl.bmm(x, x),
    "item": lambda x, i: x.item(),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_do_not_fit_are_a_runtime_error(name: str, device: str) -> None:
    x, i = rl.ones(2, 3, device=device), rl.tensor([0, 1, 0, 1], device=device)
    with pytest.raises(ShapeError) as caught:
        SHAPES[name](x, i)
    assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, ValueError)


def test_no_elements_along_a_dim_are_an_index_and_a_runtime_error(device: str) -> None:
    for name in ("max", "argmin", "median"):
        with pytest.raises(IndexError, match=r"\(0, 3\)") as caught:
            getattr(rl.ones(0, 3, device=device), name)(0)
        assert isinstance(caught.value, RuntimeError)


def test_biases_that_are_not_among_the_parameters(device: str) -> None:
    x, h = rl.ones(2, 1, 3, device=device), rl.zeros(1, 1, 4, device=device)
    weights = [rl.ones(4, 3, device=device), rl.ones(4, 4, device=device)]
    assert rl.rnn_tanh(x, h, weights, False, 1, 0.0, False, False, False)[0].shape == (2, 1, 4)
    with pytest.raises(RuntimeError, match="rnn_tanh: has_biases is True, but 2 parameters"):
        rl.rnn_tanh(x, h, weights, True, 1, 0.0, False, False, False)


def test_functions_of_networks_take_torchs_names(device: str) -> None:
    x = rl.tensor([[0.0, 1.0]], device=device)
    for name in ("softmax", "log_softmax", "normalize", "gelu", "relu", "silu"):
        fn = getattr(F, name)
        options = {"dim": 1} if "softmax" in name or name == "normalize" else {}
        assert fn(input=x, **options).tolist() == fn(x, **options).tolist(), name
    out = rl.empty(1, 2, device=device)
    assert F.normalize(x, out=out) is out and out.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_targets_that_are_no_classes(loss: Callable[..., Any], device: str) -> None:
    x = rl.zeros(2, 3, device=device)
    said = rf"{loss.__name__}: target: index 5 is out of range for size 3"
    with pytest.raises(IndexError, match=said):
        loss(x, rl.tensor([0, 5], device=device), weight=rl.ones(3, device=device)).item()
    with pytest.raises(TypeMismatch, match=r"target is float32 \(2,\).*target\.long\(\)"):
        loss(x, rl.tensor([0.0, 1.0], device=device))


@pytest.mark.parametrize(
    "wrong", [np.ones((1, 1, 2, 2), np.float32), [[1.0]], None], ids=["array", "list", "None"]
)
def test_what_is_no_tensor_is_named(wrong: Any) -> None:
    kind = f"is {type(wrong).__name__}; it must be a Tensor"
    for module in (nn.Linear(2, 2), nn.Conv2d(1, 1, 1), nn.ReLU(), nn.Embedding(2, 2)):
        with pytest.raises(TypeError, match=rf"{type(module).__name__}: \w+ {kind}"):
            module(wrong)
    for fn in (rl.exp, rl.sum, F.relu, F.gelu):
        with pytest.raises(TypeError, match=rf"{fn.__name__}: \w+ {kind}"):
            fn(wrong)
    with pytest.raises(TypeError, match=rf"relu: input {kind}"):
        F.relu(input=wrong)
    with pytest.raises(TypeError, match=rf"stack: tensors\[1\] {kind}"):
        rl.stack([rl.ones(1), wrong])


def test_missing_arguments_name_the_layer() -> None:
    layers: tuple[Any, ...] = (
        nn.Conv2d,
        nn.ConvTranspose1d,
        nn.BatchNorm2d,
        nn.LSTM,
        nn.MaxPool2d,
        nn.Linear,
    )
    for layer in layers:
        with pytest.raises(TypeError, match=rf"^{layer.__name__}\.__init__\(\) missing"):
            layer()
    assert nn.Conv2d(1, 2, 3).weight.shape == (2, 1, 3, 3)


def test_a_missing_name_says_what_serves() -> None:
    x: Any = rl.ones(2)
    for owner, name, said in (
        (x, "asnumpy", r"Tensor has no asnumpy; use x\.numpy\(\)"),
        (x, "sotfmax", "Tensor has no sotfmax; near: softmax"),
        (rl, "array", r"rushlight has no array; use rl\.tensor"),
        (nn, "Conv2", r"rushlight\.nn has no Conv2; near: Conv2d"),
        (F, "crossentropy", r"rushlight\.nn\.functional has no crossentropy; near: cross_entropy"),
    ):
        with pytest.raises(AttributeError, match=said):
            getattr(owner, name)
    with pytest.raises(ValueError, match="supported: cpu, meta, webgpu; a GPU of any maker is"):
        x.to("cuda")
