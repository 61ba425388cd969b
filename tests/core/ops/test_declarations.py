"""What ops and composites declare: names, methods, types; every composite is tested."""

from __future__ import annotations

import importlib.util
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.ops import declare
from rushlight.core.tools.testing import assert_close

CORE = Path(__file__).parents[1]
TABLES = (declare.PUBLIC, declare.NETWORK, declare.METHODS)


def _composites() -> dict[str, Callable[..., Any]]:
    """The declared functions of core/functional/, by their names."""
    every = [fn for table in TABLES for fn in table.values()]
    return {fn.__name__: fn for fn in every if ".core.functional." in fn.__module__}


# --- where a declared function is found ---------------------------------------------------------


@pytest.fixture
def declared() -> Iterator[Callable[..., Any]]:
    """A function that is declared for a while, as one of this module."""
    before = [dict(table) for table in TABLES]

    def only_here(x: rl.Tensor) -> rl.Tensor:
        return x

    yield only_here
    for table, old in zip(TABLES, before, strict=True):
        table.clear()
        table.update(old)
    globals().pop("__all__", None)


def test_each_name_is_the_declared_function() -> None:
    for name, fn in declare.PUBLIC.items():
        assert getattr(rl, name) is fn and name in rl.__all__, name
    for name, fn in declare.NETWORK.items():
        assert getattr(rl.nn.functional, name) is fn, name
    for name, fn in declare.METHODS.items():
        assert getattr(rl.Tensor, name) is fn, name
    assert set(rl.nn.functional.__all__) == set(declare.NETWORK)


def test_a_declaration_says_all_of_it(declared: Callable[..., Any]) -> None:
    declare.public(declare.network(declare.method("alone", "__alone__")(declared)))
    assert declare.PUBLIC["only_here"] is declare.NETWORK["only_here"] is declared
    assert declare.METHODS["alone"] is declare.METHODS["__alone__"] is declared
    assert "only_here" not in declare.METHODS
    assert globals()["__all__"] == ["only_here"]


def test_a_name_is_declared_once(declared: Callable[..., Any]) -> None:
    declare.public(declare.method()(declared))
    for again in (declare.public, declare.method()):
        with pytest.raises(ValueError, match="only_here is already declared in "):
            again(declared)


@pytest.mark.native
def test_the_types_are_those_of_the_declarations() -> None:
    root = CORE.parents[1]
    spec = importlib.util.spec_from_file_location("rushlight_stubs", root / "tools" / "stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    texts = module.stubs()
    for path, text in texts.items():
        assert (root / path).read_text(encoding="utf-8") == text, f"{path}: run make format"
    package = root / "src" / "rushlight"
    folders = [p for p in package.iterdir() if not p.is_symlink() and p.name != "__pycache__"]
    files = [f for p in folders for f in ([p] if p.is_file() else p.rglob("*.py"))]
    stale = {f.relative_to(root).as_posix() for f in files} - texts.keys()
    assert stale == {"src/rushlight/__init__.py", "src/rushlight/py.typed"}


def test_a_public_function_is_the_one_that_its_module_holds() -> None:
    from rushlight.core.functional.joining import stack
    from rushlight.core.ops import norm

    softmax: Any = rl.core.ops.softmax  # the stubs have no second names of arguments
    assert rl.softmax is softmax is norm.softmax is rl.nn.functional.softmax
    assert rl.stack is stack
    assert pickle.loads(pickle.dumps(softmax)) is rl.softmax
    x = rl.tensor([[1.0, 2.0], [3.0, 3.0]])
    out = rl.empty(2, 2)
    assert rl.softmax(input=x, dim=1, out=out) is out
    assert out.tolist() == softmax(x, 1).tolist()


# --- composites ---------------------------------------------------------------------------------


def test_a_composite_gives_what_its_reference_gives(
    composite_samples: ModuleType, composite_name: str
) -> None:
    sample = composite_samples.SAMPLES[composite_name]
    expected = np.asarray(sample.reference(*sample.inputs))
    for dtype in ("float64", "float32"):
        found = sample.call(*(rl.tensor(x, dtype=dtype) for x in sample.inputs))
        assert found.dtype.name == dtype
        assert_close(found, expected, sample.family, label=composite_name)


def _untested(names: set[str], samples: ModuleType, goldens: str) -> list[str]:
    """Those of `names` without a sample, a golden case or a test elsewhere."""
    known = {*samples.SAMPLES, *samples.ELSEWHERE}
    return [n for n in sorted(names - known) if not re.search(rf"\.{n}\b", goldens)]


def test_every_composite_is_tested(composite_samples: ModuleType) -> None:
    files = [*CORE.glob("data/core_*.json"), CORE / "data" / "nn_goldens.json"]
    goldens = "".join(path.read_text(encoding="utf-8") for path in files)
    names = set(_composites())
    assert len(names) > 40
    assert not _untested(names, composite_samples, goldens), "composite_samples.py wants a row each"
    assert _untested({"clamp", "not_there"}, composite_samples, goldens) == ["not_there"]
    assert set(composite_samples.SAMPLES) | set(composite_samples.ELSEWHERE) <= names
    for name, file in composite_samples.ELSEWHERE.items():
        assert f"{name}(" in (CORE / file).read_text(encoding="utf-8"), name
