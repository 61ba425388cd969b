"""A tensor of another shape or dtype is refused by its name at load, or what loads runs."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

pytestmark = pytest.mark.native

MODELS = Path(__file__).parent.parent / "models"
CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "640"))
PARTS = 8


def _module(path: Path) -> ModuleType:
    name = f"rushlight_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def damaged(t: rl.Tensor, rng: random.Random) -> tuple[rl.Tensor, str]:
    """A tensor of another shape or dtype, and what was done."""
    shape, how = list(t.shape), rng.randrange(12)
    if how < 2 and shape:
        at = rng.randrange(len(shape))
        shape[at] = max(shape[at] + rng.choice([-1, 1, 1, shape[at]]), 0)
        return rl.ones(*shape), f"shape {shape}"
    if how == 2:
        return t.flatten(), "flat"
    if how == 3:
        return t[None], "a dim more"
    if how == 4 and shape:
        return t[0], "a dim less"
    if how == 5:
        return rl.ones(()), "a number"
    if how == 6:
        return rl.zeros(*(0 for _ in shape)), "empty"
    if how == 7 and len(shape) > 1:
        return t.transpose(0, 1), "transposed"
    dtype = ("float64", "int64", "bool", "float16", "uint8", "complex64", "bfloat16")[how % 7]
    return t.to(dtype=dtype), dtype


def _text(row: str) -> tuple[dict[str, Any], dict[str, rl.Tensor]]:
    table = _module(MODELS / "families.py")
    found = open_tables(MODELS / "data" / "families" / f"{row}.safetensors")[0][1].metadata
    return json.loads(found["config"]), {
        n: rl.tensor(table.values_of(n, tuple(s))) for n, s in json.loads(found["names"]).items()
    }


def _image(row: str) -> tuple[dict[str, Any], dict[str, rl.Tensor]]:
    vision, path = _module(MODELS / "vision.py"), MODELS / "data" / "vision" / f"{row}.safetensors"
    found = open_tables(path)[0][1].metadata
    stored = {n: t for n, t in load_safetensors(path).items() if n.startswith("given:")}
    tensors = {n: rl.tensor(vision.values_of(n, tuple(s)))
               for n, s in vision.names_of(found["names"]).items()}  # fmt: skip
    given = {n.removeprefix("given:"): t for n, t in stored.items()}
    return json.loads(found["config"]), tensors | given


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("rushlight").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("rushlight").setLevel(logging.NOTSET)


def _runs(m: Any, table: str, row: str) -> None:
    """One forward pass of the model."""
    with rl.no_grad():
        if table == "families":
            rows, families = _module(MODELS / "test_families.py"), _module(MODELS / "families.py")
            rows.run(m, *rows.given(row, families))
            return
        vision = _module(MODELS / "vision.py")
        if hasattr(m, "encode_image"):
            return
        m(rl.tensor(vision.pixels_of(vision.ROWS[row][3], 3)))


@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_tensor_is_named_at_load(part: int) -> None:
    families, vision = _module(MODELS / "families.py"), _module(MODELS / "vision.py")
    # A table of vectors alone has as many rows as it has.
    rows = [("families", r) for r in families.ROWS if not r.startswith("model2vec")]
    rows += [("vision", r) for r in vision.ROWS]
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    made: dict[str, Any] = {}
    for number in range(CASES * part // PARTS, CASES * (part + 1) // PARTS):
        rng = random.Random(number)
        table, row = rows[(number // 4) % len(rows)]  # a row several times in turn
        if row not in made:
            made = {row: (_text if table == "families" else _image)(row)}
        config, tensors = made[row]
        name = rng.choice(sorted(tensors))
        changed, how = damaged(tensors[name], rng)
        own = "open_clip_config.json" if "model_cfg" in config else "config.json"
        files = {own: json.dumps(config).encode()} if config else {}
        what = f"{row}: {name} {tensors[name].shape} {how}"
        try:
            m = rl.models.assemble(files, tensors | {name: changed})
        except (rl.FormatError, rl.LoadError) as error:
            counts["refused"] += 1
            assert str(error), what
            continue
        except Exception as error:
            wrong.append(f"{what}: at load: {error!r:.200}")
            continue
        try:
            _runs(m, table, row)
            counts["loaded"] += 1
        except ValueError as error:
            if "pixels" not in str(error):
                wrong.append(f"{what}: forward: {error!r:.200}")
        except Exception as error:
            wrong.append(f"{what}: forward: {error!r:.200}")
    assert not wrong, f"{len(wrong)} {counts}\n" + "\n".join(wrong[:200])
    assert counts["loaded"] and counts["refused"], counts
