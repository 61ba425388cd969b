"""Module paths of torch: each is there, or refused with one sentence; names in them are ours."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rushlight
from rushlight.core.torch_paths import finder

rl: Any = rushlight

# Every public module path of torch, with its names; from make_torch_paths.py.
PATHS: dict[str, list[str] | None] = json.loads(
    (Path(__file__).parent / "data" / "torch_paths.json").read_text("utf-8")
)
# Paths that programs import and that are no public ones.
PRIVATE = (
    "_C",
    "_dynamo",
    "_dynamo.config",
    "_inductor",
    "_inductor.config",
    "_jit_internal",
    "_tensor",
    "utils._pytree",
    "utils.data._utils",
    "utils.data._utils.collate",
)


def imported(path: str) -> Any:
    """The module, or the sentence that refuses it."""
    try:
        return importlib.import_module(f"rushlight.{path}")
    except ModuleNotFoundError as error:
        return str(error)


@pytest.mark.native
@pytest.mark.parametrize("group", sorted({path.partition(".")[0] for path in PATHS}))
def test_every_path_is_there_or_refused_with_a_sentence(group: str) -> None:
    wrong = {}
    for path in PATHS:
        if path.partition(".")[0] == group:
            found = imported(path)
            if isinstance(found, str):
                named, _, why = found.partition(" is not supported; ")
                above = f"torch.{path}.".startswith(f"{named}.")  # itself, or what it lies in
                if not (above and why and "\n" not in why):
                    wrong[path] = found
    assert wrong == {}


@pytest.mark.native
def test_every_row_of_the_table_leads_somewhere() -> None:
    for path, row in finder.table().items():
        if row.refusal:
            assert len(row.refusal) < 100 and not row.refusal.endswith("."), path
            continue
        if row.value:
            assert finder.below(*path.rpartition(".")[::2]) is not None, path
            continue
        module = imported(path)
        assert not isinstance(module, str), module
        for name in (row.names or "").split():
            assert getattr(module, name.partition("=")[0]) is not None, (path, name)
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), (path, name)


@pytest.mark.parametrize("path", PRIVATE)
def test_private_paths_that_programs_import_are_there(path: str) -> None:
    assert not isinstance(imported(path), str)


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("nn.modules.linear", "Linear", rl.nn.Linear),
        ("nn.modules.batchnorm", "BatchNorm2d", rl.nn.BatchNorm2d),
        ("nn.modules.container", "Sequential", rl.nn.Sequential),
        ("nn.utils.clip_grad", "clip_grad_norm_", rl.nn.utils.clip_grad_norm_),
        ("optim.adamw", "AdamW", rl.optim.AdamW),
        ("optim.sgd", "SGD", rl.optim.SGD),
        ("optim.optimizer", "Optimizer", rl.optim.Optimizer),
        ("utils.data.dataset", "Dataset", rl.utils.data.Dataset),
        ("utils.data.dataloader", "default_collate", rl.utils.data.default_collate),
        ("utils.data.sampler", "Sampler", rl.utils.data.Sampler),
        ("distributions.normal", "Normal", rl.distributions.Normal),
        ("distributions.categorical", "Categorical", rl.distributions.Categorical),
        ("autograd.function", "Function", rl.autograd.Function),
        ("autograd.grad_mode", "no_grad", rl.no_grad),
        ("serialization", "load", rl.load),
        ("functional", "einsum", rl.einsum),
        ("_tensor", "Tensor", rl.Tensor),
    ],
)
def test_a_name_is_one_object_under_every_path(path: str, name: str, value: object) -> None:
    assert getattr(imported(path), name) is value
    holder: Any = rl
    for part in path.split("."):  # no import of its own is needed
        holder = getattr(holder, part)
    assert getattr(holder, name) is value


def test_a_module_below_a_package_is_loaded_once() -> None:
    for path in ("utils.data.sampler", "optim.adam", "nn.conv", "datasets.text"):
        module = imported(path)
        assert module.__name__ != f"rushlight.{path}" and sys.modules[module.__name__] is module


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cudnn_convolution", "nn.functional serves"),
        ("quantize_per_tensor", "rl.quantize"),
        ("complex32", "a dtype that ops here do not have"),
        ("lstsq", "rl.linalg serves"),
        ("distributions.ExponentialFamily", "what rl.distributions"),
        ("cond", "if and while"),
        ("nn.UninitializedParameter", "lazy layers"),
        ("utils.data.IterDataPipe", "IterableDataset"),
        ("cuda.nccl", "there is no CUDA"),
    ],
)
def test_names_of_torch_that_are_not_there_say_so(name: str, why: str) -> None:
    path, _, last = name.rpartition(".")
    with pytest.raises(AttributeError, match=rf"torch\.{name} is not supported; .*{why}"):
        getattr(imported(path) if path else rl, last)


def test_rare_names_of_torch() -> None:
    x = rl.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert (
        rl.range(1, 4).tolist() == [1, 2, 3, 4]
        and rl.chain_matmul(x, x).tolist() == (x @ x).tolist()
    )
    assert rl.group_norm(x, 1).shape == (2, 2)
    assert rl.batch_norm(x, None, None, None, None, True, 0.1, 1e-5).mean().abs() < 1e-6
    assert rl.float64.to_complex() is rl.complex128 and rl.complex64.to_real() is rl.float32
    assert rl.GradScaler is rl.amp.GradScaler and rl.Future().done() is False
    packed = rl.nn.utils.rnn.pack_sequence([rl.ones(2, 3)])
    assert packed.to(rl.float64).data.dtype is rl.float64 and packed.to("cpu") is packed


def test_what_is_not_there_says_what_serves() -> None:
    with pytest.raises(ImportError, match=r"torch\.export is not supported; modules run as Python"):
        exec("from rushlight.export import export")
    with pytest.raises(AttributeError, match=r"torch\.package is not supported; a package holds"):
        _ = rl.package
    with pytest.raises(NotImplementedError, match=r"fx\.symbolic_trace is not supported; modules"):
        imported("fx").symbolic_trace(rl.nn.Linear(2, 2))
    assert not hasattr(rl, "nested") and not hasattr(rl, "no_such_name")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        importlib.import_module("rushlight.no_such_module")


@pytest.mark.native
def test_the_table_is_read_when_a_path_is_asked_for() -> None:
    code = (
        "import sys, rushlight\n"
        "from rushlight.core.torch_paths import finder\n"
        "assert not finder.table.cache_info().currsize\n"
        "import rushlight.nn.functional, rushlight.utils.data\n"
        "import rushlight.nn.modules.conv\n"
        "assert finder.table.cache_info().currsize\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
