"""Changed files and lying servers, given to the page's loaders: loaded, or refused in words."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.native  # needs Node

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
DATA = TESTS / "core" / "data"
CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "200"))  # of each kind
GROWTH = 400 << 20  # bytes that Node may come to hold, whatever its collector does


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rushlight_tests_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _weights() -> list[tuple[str, bytes]]:
    seeds = _module(HERE / "seeds.py")
    files = _module(HERE.parent / "test_files_fuzz.py")
    zips = [(".pt", (DATA / f"torch_{name}.pt").read_bytes()) for name in ("zip", "zip_4", "row")]
    ggufs = [
        (".gguf", content[:-24] + bytes(range(1, 25)))  # the end of the last tensor
        for content in (files._version_1(), files._big_endian())
    ]
    return [(".safetensors", seeds.safetensors()), (".npz", seeds.npz()), *zips, *ggufs]


def _opened() -> list[tuple[str, bytes]]:
    from PIL import Image

    pictures, image = [], Image.fromarray(np.zeros((20, 30, 3), np.uint8))
    for kind in ("png", "jpeg", "gif", "bmp", "webp", "tiff"):
        buffer = io.BytesIO()
        image.save(buffer, kind)
        pictures.append((f".{kind}", buffer.getvalue()))
    texts = ["A text.\nOf lines.", "é" * 50, "<svg/>"]
    return [
        *pictures,
        *((".txt", text.encode("utf-16" if i == 1 else "utf-8")) for i, text in enumerate(texts)),
    ]


@pytest.mark.parametrize("kind", ["weights", "server", "listing", "tokenizer", "opening"])
def test_the_page_loads_or_refuses(
    kind: str, tmp_path: Path, outcomes_of: Callable[..., list[dict[str, Any]]]
) -> None:
    seeds = []
    given = {"weights": _weights, "server": _weights, "opening": _opened}.get(kind, list)()
    for i, (suffix, content) in enumerate(given):
        seeds.append(tmp_path / f"seed{i}{suffix}")
        seeds[-1].write_bytes(content)
    program = _module(TESTS / "core" / "node_driver.py").program()
    outcomes = outcomes_of("loaders/worker.py", CASES, kind, program, tmp_path, 0, CASES, *seeds)
    wrong = {
        number: o["outcome"]
        for number, o in enumerate(outcomes)
        if o["outcome"] not in ("loaded", "refused")
    }
    assert not wrong, f"{len(wrong)} cases, the first: {next(iter(wrong.items()))}"
    memory = [o["memory"] for o in outcomes if o["memory"]]
    assert max(memory) - memory[0] < GROWTH, memory
    # Changes that all do the same would test little; a loader that refuses all would pass.
    counts = Counter(o["outcome"] for o in outcomes)
    assert min(counts["loaded"], counts["refused"]) > 0.05 * CASES, counts
