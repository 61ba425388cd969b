"""Fixtures of the models' tests: the table of families, and the op samples of the core's tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def _module(path: Path) -> ModuleType:
    """A module or package of the tests.

    With the importlib import mode, they cannot import one another.
    """
    name = f"rushlight_tests_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    place = path / "__init__.py" if path.is_dir() else path
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `row` runs for every row of the table of families; one that takes
    `published`, for every published config.json.
    """
    if "published" in metafunc.fixturenames:
        configs = _module(HERE / "published_configs.py").CONFIGS
        metafunc.parametrize("published", list(configs.values()), ids=list(configs))
    if "any_row" in metafunc.fixturenames:  # of both tables, with a config.json of transformers
        seen = _module(HERE / "vision.py").ROWS
        metafunc.parametrize(
            "any_row",
            [
                *_module(HERE / "families.py").ROWS,
                *(name for name, row in seen.items() if row[0] == "transformers"),
            ],
        )
    if "gguf_row" in metafunc.fixturenames:
        metafunc.parametrize("gguf_row", list(_module(HERE / "families.py").GGUF))
    if "row" in metafunc.fixturenames:
        metafunc.parametrize("row", list(_module(HERE / "families.py").ROWS))


@pytest.fixture(scope="session")
def table() -> ModuleType:
    """The module of the table of families."""
    return _module(HERE / "families.py")


@pytest.fixture(scope="session")
def language() -> ModuleType:
    """The module of the tests of generation, for its tiny language model."""
    return _module(HERE / "test_generate.py")


@pytest.fixture(scope="session")
def sounds() -> ModuleType:
    """The module of the tests of codecs and sounds, for what it makes of a row."""
    return _module(HERE / "test_sounds.py")


@pytest.fixture(scope="session")
def rows() -> ModuleType:
    """The module of the families' tests, for what it makes of a row."""
    return _module(HERE / "test_families.py")


@pytest.fixture(scope="session")
def looks() -> ModuleType:
    """The module of the image families' tests, for what it makes of a row."""
    return _module(HERE / "test_vision.py")


@pytest.fixture(scope="session")
def seen() -> ModuleType:
    """The module of the image tasks' tests, for its tiny models and their tokenizer."""
    return _module(HERE / "test_image_tasks.py")


@pytest.fixture(scope="session")
def openai() -> ModuleType:
    """The module of OpenAI's names of Whisper's tensors."""
    return _module(HERE / "openai_names.py")


@pytest.fixture(scope="session")
def marian() -> ModuleType:
    """The module of Marian's transformer in float64."""
    return _module(HERE / "marian_reference.py")


@pytest.fixture(scope="session")
def op_samples() -> ModuleType:
    """The package of the op samples."""
    return _module(HERE.parent / "core" / "samples")


@pytest.fixture(scope="session")
def op_calls() -> ModuleType:
    """The module that finds the ops that a model calls."""
    return _module(HERE / "op_calls.py")


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Any]:
    """The function that makes a random llama with a tokenizer: tiny(device, **config)."""
    made: Callable[..., Any] = _module(HERE / "test_generate.py").tiny
    return made


@pytest.fixture(scope="session")
def sentence_folders() -> ModuleType:
    """The module that writes folders of sentence-transformers."""
    return _module(HERE / "sentence_folders.py")


@pytest.fixture(scope="session")
def recordings() -> ModuleType:
    """The module of recordings of speech and what they say."""
    return _module(HERE / "recordings.py")


@pytest.fixture(scope="session")
def photographs() -> ModuleType:
    """The module of photographs and what they show."""
    return _module(HERE / "photographs.py")


@pytest.fixture(scope="session")
def vision() -> ModuleType:
    """The module of the table of image families."""
    return _module(HERE / "vision.py")
