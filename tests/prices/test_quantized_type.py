"""What a quantized type costs: its row and its goldens, and it works on every device.

A copy of the tree gets a type that no kernel knows, of 64 elements in 19 bytes. The tests that the
dtype table drives then run for it, with the C kernels and without.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("prices")]

ROOT = Path(__file__).resolve().parents[2]
PRICE = {"core/basis/quantized.py", "tests/core/data/blocks.safetensors"}
ROW = '''

@_blocks(64, 77, qs="16 u8", scale="i8", d="f16")
def q2_toy(b: _Any, i: _Any) -> _Any:
    """Two bits, less one, times a scale of a scale."""
    return b.d * b.scale * ((b.qs[i % 16] >> i // 16 * 2 & 3) - 1)
'''
READ = """
import sys, numpy as np, rushlight as rl
(name, tensor), = rl.load(sys.argv[1], device=sys.argv[2]).items()
assert (name, tensor.dtype, tensor.shape) == ("w", rl.q2_toy, (15, 128)), tensor
golden = rl.load(sys.argv[3])["q2_toy.values"].numpy()
assert np.array_equal(tensor.dequantize().numpy(), golden)
"""


def add_goldens(place: Path) -> bytes:
    """Blocks of the type and their values, by NumPy; gives the bytes of the blocks."""
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, (15, 2, 19)).astype(np.uint8)
    d = rng.uniform(1e-4, 1e-3, (15, 2, 1)).astype(np.float16)
    raw[:, :, 17:] = d.view(np.uint8)
    q = (raw[:, :, None, :16] >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(15, 2, 64)
    scale = raw[:, :, 16:17].view(np.int8).astype(np.float32)
    values = d.astype(np.float32) * scale * (q.astype(np.float32) - 1)
    goldens = {name: tensor.clone() for name, tensor in rl.load(place).items()}
    goldens["q2_toy.bytes"] = rl.tensor(raw.reshape(15, 38))
    goldens["q2_toy.values"] = rl.tensor(values.reshape(15, 128))
    rl.save(goldens, place)
    return raw.tobytes()


def write_gguf(path: Path, blocks: bytes) -> None:
    """A file with one tensor of the type; its number is in no reference."""
    head = b"GGUF" + np.array([3], "<u4").tobytes() + np.array([1, 0], "<u8").tobytes()
    head += np.array([1], "<u8").tobytes() + b"w" + np.array([2], "<u4").tobytes()
    head += np.array([128, 15], "<u8").tobytes() + np.array([77], "<u4").tobytes() + bytes(8)
    path.write_bytes(head + bytes(-len(head) % 32) + blocks + bytes(-len(blocks) % 32))


def test_a_row_and_goldens_are_all_of_it(tree: Any, tmp_path: Path) -> None:
    tree.append("core/basis/quantized.py", ROW)
    golden = tree.place / "tests" / "core" / "data" / "blocks.safetensors"
    write_gguf(tmp_path / "toy.gguf", add_goldens(golden))
    assert tree.edited() == PRICE
    assert len(ROW.strip().splitlines()) < 10
    both = {"RUSHLIGHT_TEST_DEVICES": "cpu,webgpu"}
    driven, parts = "tests/core/basis/test_blocks.py", "(public or bit or test_linear or embedding)"
    assert "13 passed" in tree.pytest(driven, "-k", f"q2_toy and {parts}", env=both)
    without = tree.pytest(driven, "-k", f"q2_toy and cpu and {parts}", kernels="numpy", env=both)
    assert "6 passed" in without
    for device in ("cpu", "webgpu"):
        tree.python("-c", READ, str(tmp_path / "toy.gguf"), device, str(golden))


# What a block's size or a type's name must not be asked by, where the table has the answer.
SIZE = re.compile(r"(//|%|(?<!\*)\*)\s*32\b|\b32\s*\*(?!\*)")
NAMED = re.compile(
    r"""(startswith|endswith|startsWith|endsWith)\(\s*["'](i?q\d|_[01k]["'])"""
    r"""|(==|!=|\bin)\s*[(\[{]?\s*["']i?q\d"""
)
ROOMS = ("core", "models", "web")
# llama.cpp's rules for its mixed file types, which are about types by their names.
MIXES = "models/gguf/recipes.py"
# ONNX's blocks of MatMulNBits, which are some of the types in another order of bits, and the
# endings of its files' names.
ONNX = ("core/onnx/packing.py", "core/onnx/export/nodes/quantized.py", "models/onnx/files.py",
        "web/loading/graphs.js")  # fmt: skip


def row_rules(path: str, source: str) -> list[str]:
    """Block sizes and types are read from the dtype table: no 32, and no part of a name."""
    about = re.search(r"""\.block\b(?![.])|kind [!=]= "q"|\bplanes_of\b""", source)
    wrong = []
    for number, line in enumerate(source.splitlines(), 1):
        code = line.split("#")[0].split("//  ")[0]
        if NAMED.search(code) or (about and SIZE.search(code)):
            wrong.append(f"{path}:{number}: {line.strip()}")
    return wrong


def test_no_other_place_knows_a_type() -> None:
    wrong = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*")):
            made = {"build", "__pycache__"} & set(path.parts)
            if path.suffix in (".py", ".js") and not made and path.name != "quantized.py":
                name = path.relative_to(ROOT).as_posix()
                if name == MIXES or name in ONNX:
                    continue
                wrong += row_rules(name, path.read_text(encoding="utf-8"))
    assert wrong == []


def test_the_loader_prefers_types_that_are_there() -> None:
    """Its order is a choice; a type that is not in it is read from a file that is named."""
    source = (ROOT / "web" / "loading" / "ggufs.js").read_text(encoding="utf-8")
    listed = re.findall(r'"(\w+)"', source.split("GGUF_KINDS = ")[1].split("]")[0])
    assert listed and set(listed) <= {*DTYPES, "f16", "bf16"}


@pytest.mark.parametrize(
    "line",
    [
        'return 3 if dtype.name.startswith("q5") else 2',
        'if name.endswith("_1"):',
        'if name in ("q4_1", "q5_1"):',
        'if (kind == "q8_0") return;',
        'count = numel // 32 if dtype.kind == "q" else 0',
        "assert columns % 32 == 0, dtype.block",
        "Layout((count * 32,), (1,)), planes_of(dtype)",
        "at = 32 * block + x.dtype.block",
    ],
)
def test_a_place_that_knows_a_type_is_refused(line: str) -> None:
    assert row_rules("core/a.py", line)


@pytest.mark.parametrize(
    "line",
    [
        'KINDS = ["q4_0", "q8_0"]',
        "bits = 32 // per * i + dtype.block",
        "word = 2**32 - dtype.block",
        "half = math.lcm(32, b.dtype.block)",
        "rows = n // 32",
    ],
)
def test_other_numbers_and_names_are_free(line: str) -> None:
    assert not row_rules("core/a.py", line)
