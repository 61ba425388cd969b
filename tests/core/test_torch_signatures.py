"""Names, arguments, defaults, attributes and reprs of torch's layers, from make_signatures.py."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl

TORCH = json.loads((Path(__file__).parent / "data" / "torch_signatures.json").read_text("utf-8"))
# What is not there, and why. A whole group of names by what they begin with.
REFUSED = {
    "nn": {
        "LazyInstance": "their defaults are not InstanceNorm's",
        "Uninitialized": "of lazy layers",
        "DataParallel": "there is one device",
        "Container": "deprecated",
        "NLLLoss2d": "deprecated",
    },
    "nn.functional": {
        "grouped_mm": "experimental in torch",
        "scaled_": "experimental in torch",
        "conv_tbc": "undocumented",
        "native_channel_shuffle": "undocumented",
    },
    "nn.utils": {"convert_conv": "there is one memory format"},
    "nn.utils.rnn": {"copy_method_params": "of torch's own module"},
    "optim": {"swap_in_optimizer_params_and_state": "undocumented"},
}
FIRST = ("input", "self", "x")  # one argument under three names: see core/functional/calling.py


def shown(value: Any) -> str:
    if isinstance(value, bool | str | None | tuple):
        return repr(value)
    if isinstance(value, int | float):
        return repr(float(value))
    return getattr(value, "__name__", type(value).__name__)


def parameters(fn: Any) -> list[str]:
    marks: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    lines = []
    for p in inspect.signature(fn).parameters.values():
        if p.name not in ("self", "_stacklevel", "out"):
            mark = marks.get(p.kind, "kw:" if p.kind is inspect.Parameter.KEYWORD_ONLY else "")
            rest = "" if p.default is inspect.Parameter.empty else f"={shown(p.default)}"
            lines.append(f"{mark}{p.name}{rest}")
    return lines


def differences(ours: list[str], theirs: list[str]) -> list[str]:
    """What torch takes and we do not, in its place, under its name and with its default."""
    if any(p.startswith("*") for p in theirs) and len(theirs) < 3:
        return []  # torch says nothing
    placed = [p for p in theirs if not p.startswith("kw:")]
    mine = [p for p in ours if not p.startswith("kw:")]
    if placed and mine and placed[0] in FIRST and mine[0] in FIRST:
        placed, mine = placed[1:], mine[1:]
    # A generator of torch's own is the default here too, drawn from the seed.
    placed = [p.replace("=Generator", "=None") for p in placed]
    lost = [a for i, a in enumerate(placed) if mine[i : i + 1] != [a]]
    named = {p.removeprefix("kw:") for p in ours}
    return lost + [p for p in theirs if p.startswith("kw:") and p[3:] not in named]


@pytest.mark.parametrize("name", TORCH["signatures"])
def test_names_and_arguments(name: str) -> None:
    module = importlib.import_module(f"rushlight.{name}")
    refused = tuple(REFUSED.get(name, {}))
    wrong = {}
    for key, theirs in TORCH["signatures"][name].items():
        if not hasattr(module, key):
            if not key.startswith(refused or ("-",)):
                wrong[key] = "missing"
        elif theirs is not None and (lost := differences(parameters(getattr(module, key)), theirs)):
            wrong[key] = f"{lost}; ours: {parameters(getattr(module, key))}"
    assert wrong == {}


def test_methods_of_module() -> None:
    wrong = {}
    for key, theirs in TORCH["methods"].items():
        if not hasattr(rl.nn.Module, key):
            wrong[key] = "missing"
        elif lost := differences(parameters(getattr(rl.nn.Module, key)), theirs):
            wrong[key] = str(lost)
    assert wrong == {}


@pytest.mark.parametrize("text", TORCH["layers"])
def test_layers_are_printed_and_read_alike(text: str) -> None:
    expected = TORCH["layers"][text]
    made = eval(text, {**vars(rl.nn)})
    assert repr(made) == expected["repr"]
    assert {k: list(v.shape) for k, v in made.state_dict().items()} == expected["state"]
    for key, value in expected["attributes"].items():
        found = getattr(made, key)
        assert repr(found) == value or found == eval(value), key
