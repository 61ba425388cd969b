"""Make what torch computes with its layers, losses and optimizers, for the tests of nn and optim.

    python tests/parity/make_nn_goldens.py

Needs torch and safetensors. Writes tests/core/data/nn_goldens.json, the cases as expressions that
torch and Rushlight both understand, and nn_goldens.safetensors, the numbers, under
"CASE/in", "CASE/state.NAME", "CASE/out" and so on. Inputs are float32 numbers; layers and losses
are computed in float64, optimizers in float32.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

OUT = Path(__file__).parents[1] / "core" / "data"
Tensors = dict[str, torch.Tensor]

# name: (layer, shape of the input or (shape, number of rows), training)
LAYERS: dict[str, tuple[str, Any, bool]] = {
    "linear": ("nn.Linear(5, 3)", (2, 4, 5), True),
    "linear_no_bias": ("nn.Linear(5, 3, bias=False)", (5,), True),
    "embedding": ("nn.Embedding(7, 3)", ((2, 5), 7), True),
    "embedding_padding": ("nn.Embedding(7, 3, padding_idx=2)", ((2, 9), 7), True),
    "embedding_last": ("nn.Embedding(7, 3, padding_idx=-1)", ((2, 9), 7), True),
    "layer_norm": ("nn.LayerNorm(6)", (2, 3, 6), True),
    "layer_norm_two": ("nn.LayerNorm((3, 6), eps=1e-3)", (2, 3, 6), True),
    "layer_norm_plain": ("nn.LayerNorm(6, elementwise_affine=False)", (2, 6), True),
    "layer_norm_no_bias": ("nn.LayerNorm([6], bias=False)", (2, 6), True),
    "rms_norm": ("nn.RMSNorm(6, eps=1e-6)", (2, 3, 6), True),
    "rms_norm_two": ("nn.RMSNorm((3, 6))", (2, 3, 6), True),
    "group_norm": ("nn.GroupNorm(2, 6)", (3, 6, 4), True),
    "group_norm_image": ("nn.GroupNorm(3, 6, eps=1e-3)", (2, 6, 3, 2), True),
    "group_norm_plain": ("nn.GroupNorm(6, 6, affine=False)", (2, 6, 3), True),
    "batch_norm": ("nn.BatchNorm1d(4)", (5, 4), True),
    "batch_norm_long": ("nn.BatchNorm1d(4, momentum=0.3)", (3, 4, 5), True),
    "batch_norm_image": ("nn.BatchNorm2d(3, eps=1e-3)", (2, 3, 4, 3), True),
    "batch_norm_mean": ("nn.BatchNorm2d(3, momentum=None)", (2, 3, 2, 3), True),
    "batch_norm_eval": ("nn.BatchNorm2d(3)", (2, 3, 4, 3), False),
    "batch_norm_plain": ("nn.BatchNorm1d(4, affine=False)", (5, 4), False),
    "batch_norm_now": ("nn.BatchNorm1d(4, track_running_stats=False)", (5, 4), False),
    "conv1d": ("nn.Conv1d(3, 4, 3)", (2, 3, 9), True),
    "conv1d_all": (
        "nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False)",
        (2, 4, 9),
        True,
    ),
    "conv2d": ("nn.Conv2d(2, 3, 3, padding=1)", (2, 2, 5, 4), True),
    "conv2d_all": (
        "nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(2, 1), groups=2)",
        (2, 4, 7, 5),
        True,
    ),
    "conv2d_depth": ("nn.Conv2d(3, 3, 2, groups=3, bias=False)", (1, 3, 4, 4), True),
    "conv_transpose2d": ("nn.ConvTranspose2d(3, 2, 3)", (2, 3, 4, 3), True),
    "conv_transpose2d_all": (
        "nn.ConvTranspose2d(4, 6, 3, stride=(2, 3), padding=1, output_padding=(1, 2), groups=2)",
        (2, 4, 4, 3),
        True,
    ),
    "relu": ("nn.ReLU()", (3, 4), True),
    "gelu": ("nn.GELU()", (3, 4), True),
    "gelu_tanh": ("nn.GELU(approximate='tanh')", (3, 4), True),
    "silu": ("nn.SiLU()", (3, 4), True),
    "tanh": ("nn.Tanh()", (3, 4), True),
    "sigmoid": ("nn.Sigmoid()", (3, 4), True),
    "softmax": ("nn.Softmax(dim=1)", (3, 4, 2), True),
    "identity": ("nn.Identity()", (3, 4), True),
    "flatten": ("nn.Flatten()", (2, 3, 4), True),
    "flatten_some": ("nn.Flatten(0, 1)", (2, 3, 4), True),
    "dropout_eval": ("nn.Dropout(0.5)", (3, 4), False),
    "max_pool2d": ("nn.MaxPool2d(2)", (2, 3, 5, 4), True),
    "max_pool2d_all": ("nn.MaxPool2d((3, 2), stride=(1, 2), padding=1)", (2, 3, 5, 4), True),
    "avg_pool2d": ("nn.AvgPool2d(2)", (2, 3, 5, 4), True),
    "avg_pool2d_all": ("nn.AvgPool2d(3, stride=2, padding=1)", (2, 3, 5, 4), True),
    "sequential": (
        "nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), "
        "nn.Sequential(nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 2, bias=False)))",
        (3, 1, 5, 4),
        True,
    ),
}

# name: (expression, shape of x, the other tensors: "classes", "classes with holes", ...)
LOSSES: dict[str, tuple[str, tuple[int, ...], tuple[str, ...]]] = {
    "mse": ("F.mse_loss(x, y)", (3, 4), ("y",)),
    "mse_sum": ("F.mse_loss(x, y, reduction='sum')", (3, 4), ("y",)),
    "mse_none": ("F.mse_loss(x, y, reduction='none')", (3, 4), ("y",)),
    "mse_module": ("nn.MSELoss(reduction='sum')(x, y)", (3, 4), ("y",)),
    "l1": ("F.l1_loss(x, y)", (3, 4), ("y",)),
    "l1_none": ("F.l1_loss(x, y, reduction='none')", (3, 4), ("y",)),
    "bce": ("F.binary_cross_entropy_with_logits(x, p)", (3, 4), ("p",)),
    "bce_zero": (
        "F.binary_cross_entropy_with_logits(x - x.detach(), p, reduction='sum')",
        (3, 4),
        ("p",),
    ),
    "bce_far": ("F.binary_cross_entropy_with_logits(x * 200, p)", (3, 4), ("p",)),
    "bce_all": (
        "F.binary_cross_entropy_with_logits(x, p, weight=w, pos_weight=w + 1, reduction='none')",
        (3, 4),
        ("p", "w"),
    ),
    "nll": ("F.nll_loss(x.log_softmax(1), t)", (5, 4), ("t",)),
    "nll_weight": ("F.nll_loss(x.log_softmax(1), t, weight=w)", (5, 4), ("t", "w")),
    "ce": ("F.cross_entropy(x, t)", (5, 4), ("t",)),
    "ce_one": ("F.cross_entropy(x, t)", (4,), ("t",)),
    "ce_image": ("F.cross_entropy(x, t)", (2, 4, 3, 2), ("t",)),
    "ce_none": ("F.cross_entropy(x, t, reduction='none')", (2, 4, 3), ("t",)),
    "ce_sum": ("F.cross_entropy(x, t, reduction='sum')", (5, 4), ("t",)),
    "ce_holes": ("F.cross_entropy(x, holes)", (6, 4), ("holes",)),
    "ce_ignore": ("F.cross_entropy(x, t, ignore_index=1)", (6, 4), ("t",)),
    "ce_weight": ("F.cross_entropy(x, holes, weight=w)", (6, 4), ("holes", "w")),
    "ce_weight_none": (
        "F.cross_entropy(x, holes, weight=w, reduction='none')",
        (6, 4),
        ("holes", "w"),
    ),
    "ce_smooth": ("F.cross_entropy(x, holes, label_smoothing=0.2)", (6, 4), ("holes",)),
    "ce_smooth_weight": (
        "F.cross_entropy(x, holes, weight=w, label_smoothing=0.2)",
        (2, 4, 3),
        ("holes", "w"),
    ),
    "ce_smooth_sum": (
        "F.cross_entropy(x, holes, weight=w, label_smoothing=0.2, reduction='sum')",
        (6, 4),
        ("holes", "w"),
    ),
    "ce_smooth_none": (
        "F.cross_entropy(x, holes, label_smoothing=0.2, reduction='none')",
        (6, 4),
        ("holes",),
    ),
    "ce_soft": ("F.cross_entropy(x, soft)", (5, 4), ("soft",)),
    "ce_soft_image": (
        "F.cross_entropy(x, soft, weight=w, label_smoothing=0.1)",
        (2, 4, 3),
        ("soft", "w"),
    ),
    "ce_soft_one": ("F.cross_entropy(x, soft, reduction='sum')", (4,), ("soft",)),
    "ce_module": (
        "nn.CrossEntropyLoss(weight=w, label_smoothing=0.1)(x, t)",
        (5, 4),
        ("t", "w"),
    ),
    "normalize": ("F.normalize(x, dim=-1)", (3, 4), ()),
    "normalize_one": ("F.normalize(x, p=1.0)", (3, 4, 2), ()),
    "embedding_call": ("F.embedding(t, x, padding_idx=2)", (4, 3), ("rows",)),
}

OPTIMIZERS = {
    "sgd": "optim.SGD(params, lr=0.1)",
    "sgd_decay": "optim.SGD(params, lr=0.1, weight_decay=0.05)",
    "sgd_momentum": "optim.SGD(params, lr=0.05, momentum=0.9)",
    "sgd_dampening": "optim.SGD(params, lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.01)",
    "sgd_nesterov": "optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True)",
    "sgd_groups": (
        "optim.SGD([{'params': params[:1], 'lr': 0.2}, {'params': params[1:], 'momentum': 0.5}], "
        "lr=0.01)"
    ),
    "adamw": "optim.AdamW(params)",
    "adamw_all": ("optim.AdamW(params, lr=0.03, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)"),
    "adamw_no_decay": "optim.AdamW(params, lr=0.01, weight_decay=0.0)",
    "adamw_groups": (
        "optim.AdamW([{'params': params[:1], 'weight_decay': 0.0}, {'params': params[1:]}], "
        "lr=0.02, weight_decay=0.3)"
    ),
}
STEPS, SHAPES = 10, ((3, 4), (5,))

REPR = (
    "nn.Sequential(nn.Linear(3, 4, bias=False), nn.ModuleList([nn.LayerNorm(4), nn.LayerNorm(4), "
    "nn.GELU(approximate='tanh')]), nn.ModuleDict({'a': nn.Embedding(5, 4, padding_idx=0), "
    "'b': nn.Sequential()}), nn.Conv2d(4, 6, (3, 2), padding=1, groups=2, bias=False), "
    "nn.ConvTranspose2d(3, 2, 3, stride=2, output_padding=1), nn.Conv1d(2, 2, 3, dilation=2), "
    "nn.GroupNorm(2, 4), nn.BatchNorm1d(4), nn.BatchNorm2d(3, momentum=None, affine=False), "
    "nn.RMSNorm(4), nn.Softmax(dim=1), nn.Flatten(), nn.Identity(), nn.ReLU(), nn.SiLU())"
)


def numbers(*shape: int) -> torch.Tensor:
    """Random float32 numbers, as float64."""
    return torch.randn(shape).double()


def layer(name: str, found: Tensors) -> dict[str, Any]:
    text, shape, training = LAYERS[name]
    module = eval(text, {"nn": nn}).double().train(training)
    for key, t in module.state_dict().items():  # away from ones and zeros
        if t.is_floating_point():
            t.copy_(numbers(*t.shape) * 0.5)
            if key.endswith("running_var"):
                t.abs_().add_(0.5)
    for key, t in module.state_dict().items():
        found[f"{name}/state.{key}"] = t.clone()
    if isinstance(shape[0], tuple):
        x = torch.randint(0, shape[1], shape[0])
    else:
        x = numbers(*shape).requires_grad_()
    out = module(x)
    grad = numbers(*out.shape)
    if out.requires_grad:
        out.backward(grad)
    found |= {f"{name}/in": x.detach(), f"{name}/out": out.detach(), f"{name}/grad": grad}
    if x.grad is not None:
        found[f"{name}/grad.in"] = x.grad
    for key, p in module.named_parameters():
        found[f"{name}/grad.{key}"] = p.grad
    for key, b in module.named_buffers():
        found[f"{name}/after.{key}"] = b.clone()
    names = list(module.state_dict())
    return {"layer": text, "training": training, "names": names}


def operand(kind: str, shape: tuple[int, ...]) -> torch.Tensor:
    dim = min(1, len(shape) - 1)
    classes, places = shape[dim], shape[:dim] + shape[dim + 1 :]
    if kind == "t":
        return torch.randint(0, classes, places)
    if kind == "rows":
        return torch.randint(0, shape[0], (2, 6))
    if kind == "holes":
        t = torch.randint(0, classes, places)
        return torch.where(torch.rand(places) < 0.3, -100, t)
    if kind == "w":
        return torch.rand(classes).double() + 0.1
    if kind == "soft":
        return numbers(*shape).softmax(dim)
    return torch.rand(shape).double() if kind == "p" else numbers(*shape)


def loss(name: str, found: Tensors) -> dict[str, Any]:
    text, shape, others = LOSSES[name]
    x = numbers(*shape).requires_grad_()
    given = {("t" if k == "rows" else k): operand(k, shape) for k in others}
    out = eval(text, {"nn": nn, "F": F, "x": x, **given})
    grad = numbers(*out.shape)
    out.backward(grad)
    found |= {f"{name}/in.x": x.detach(), f"{name}/out": out.detach()}
    found |= {f"{name}/in.{k}": t for k, t in given.items()}
    found |= {f"{name}/grad": grad, f"{name}/grad.x": x.grad}
    return {"loss": text}


def optimizer(name: str, found: Tensors) -> dict[str, Any]:
    """Ten steps on given gradients; the second parameter has none in the third step."""
    text = OPTIMIZERS[name]
    params = [torch.randn(s).requires_grad_() for s in SHAPES]
    grads = [torch.randn(STEPS, *s) for s in SHAPES]
    made = eval(text, {"optim": torch.optim, "params": params})
    for i, p in enumerate(params):
        found |= {f"{name}/start.{i}": p.detach().clone(), f"{name}/grads.{i}": grads[i]}
    trace: list[list[torch.Tensor]] = [[] for _ in params]
    for step in range(STEPS):
        for i, p in enumerate(params):
            p.grad = None if (step, i) == (2, 1) else grads[i][step].clone()
        made.step()
        for i, p in enumerate(params):
            trace[i].append(p.detach().clone())
    found |= {f"{name}/trace.{i}": torch.stack(t) for i, t in enumerate(trace)}
    state = made.state_dict()
    kept = {i: sorted(s) for i, s in state["state"].items()}
    groups = [g["params"] for g in state["param_groups"]]
    return {"optimizer": text, "state": kept, "groups": groups}


def clip(name: str, norm: float, most: float, found: Tensors) -> dict[str, Any]:
    params = [torch.zeros(s).double().requires_grad_() for s in SHAPES]
    for i, p in enumerate(params):
        p.grad = numbers(*p.shape)
        found[f"{name}/in.{i}"] = p.grad.clone()
    found[f"{name}/out"] = nn.utils.clip_grad_norm_(params, most, norm_type=norm)
    for i, p in enumerate(params):
        assert p.grad is not None
        found[f"{name}/grad.{i}"] = p.grad
    return {"max_norm": most, "norm_type": str(norm)}


def main() -> None:
    found: Tensors = {}
    cases: dict[str, Any] = {"torch": torch.__version__}
    torch.manual_seed(2)
    cases["layers"] = {name: layer(name, found) for name in LAYERS}
    cases["losses"] = {name: loss(name, found) for name in LOSSES}
    cases["optimizers"] = {name: optimizer(name, found) for name in OPTIMIZERS}
    cases["clips"] = {
        "clip": clip("clip", 2.0, 0.7, found),
        "clip_one": clip("clip_one", 1.0, 2.0, found),
        "clip_inf": clip("clip_inf", float("inf"), 0.5, found),
        "clip_not": clip("clip_not", 2.0, 100.0, found),
    }
    cases["repr"] = {"module": REPR, "text": repr(eval(REPR, {"nn": nn}))}
    # Cloned, as some share memory (an input and its view).
    save_file(
        {k: t.detach().clone(memory_format=torch.contiguous_format) for k, t in found.items()},
        OUT / "nn_goldens.safetensors",
    )
    (OUT / "nn_goldens.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
