"""Fixtures of the fuzzing tests: modules beside them, tiny models of every family, workers."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"


def _module(path: Path) -> ModuleType:
    name = f"rushlight_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(name="module")
def _modules() -> Callable[[str], ModuleType]:
    """A module of this folder or, as "models/NAME", of that beside it."""
    return lambda name: _module((HERE.parent if "/" in name else HERE) / f"{name}.py")


@pytest.fixture
def parts_of() -> Callable[[str, str], tuple[dict[str, Any], dict[str, rl.Tensor]]]:
    """config.json and the tensors of a tiny model, by the table ("families", "vision") and row."""

    def parts(table: str, row: str) -> tuple[dict[str, Any], dict[str, rl.Tensor]]:
        module, path = _module(MODELS / f"{table}.py"), MODELS / "data" / table
        stored = open_tables(path / f"{row}.safetensors")[0][1].metadata
        text = table == "families"
        names = json.loads(stored["names"]) if text else module.names_of(stored["names"])
        tensors = {n: rl.tensor(module.values_of(n, tuple(shape))) for n, shape in names.items()}
        if not text:  # values that no formula makes
            tensors |= {
                name.removeprefix("given:"): t
                for name, t in load_safetensors(path / f"{row}.safetensors").items()
                if name.startswith("given:")
            }
        return json.loads(stored["config"]), tensors

    return parts


@pytest.fixture
def quiet() -> Iterator[None]:
    """What damaged files are warned of is not shown."""
    logging.getLogger("rushlight").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("rushlight").setLevel(logging.NOTSET)


@pytest.fixture
def outcomes_of() -> Callable[..., list[dict[str, Any]]]:
    """Runs a worker of this folder over so many cases; fails if one ends the process."""

    def run(worker: str, count: int, *given: object) -> list[dict[str, Any]]:
        env = {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, str(HERE / worker), *map(str, given)],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=900 + count,
        )
        outcomes = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(outcomes) == count, f"case {len(outcomes)} ended the process: {done.stderr}"
        return outcomes

    return run
