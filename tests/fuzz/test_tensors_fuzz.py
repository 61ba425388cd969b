"""A tensor of another shape or dtype is refused by its name at load, or what loads runs."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("quiet")]

CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "640"))
PARTS = 8
Modules = Callable[[str], ModuleType]


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


def _runs(m: Any, table: str, row: str, module: Modules) -> None:
    """One forward pass of the model."""
    with rl.no_grad():
        if table == "families":
            rows = module("models/test_families")
            rows.run(m, *rows.given(row, module("models/families")))
            return
        vision = module("models/vision")
        if hasattr(m, "encode_image"):
            return
        m(rl.tensor(vision.pixels_of(vision.ROWS[row][3], 3)))


@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_tensor_is_named_at_load(
    part: int, module: Modules, parts_of: Callable[..., Any]
) -> None:
    families, vision = module("models/families"), module("models/vision")
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
            made = {row: parts_of(table, row)}
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
            _runs(m, table, row, module)
            counts["loaded"] += 1
        except ValueError as error:
            if "pixels" not in str(error):
                wrong.append(f"{what}: forward: {error!r:.200}")
        except Exception as error:
            wrong.append(f"{what}: forward: {error!r:.200}")
    assert not wrong, f"{len(wrong)} {counts}\n" + "\n".join(wrong[:200])
    assert counts["loaded"] and counts["refused"], counts
