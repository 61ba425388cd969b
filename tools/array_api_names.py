"""Writes docs/array_api.md: each name of the array API standard, and what differs here.

The names are tests/core/data/array_api_names.json, which tests/parity/make_array_api_names.py
makes of array-api-strict. A name that is not found, or refuses complex numbers, needs a reason.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

from rushlight import array_api

ROOT = Path(__file__).resolve().parents[1]
NAMES = ROOT / "tests" / "core" / "data" / "array_api_names.json"
PAGE = ROOT / "docs" / "array_api.md"

REAL_ONLY = {
    "complex numbers are not sorted": "unique_all unique_counts unique_inverse unique_values",
}

HEAD = """# The array API standard

`tensor.__array_namespace__()` gives `rushlight.array_api`: the array API standard, version 2024.12,
with its extensions `linalg` and `fft`. `tools/array_api_names.py` writes this page, a test reads it
and compares every function and dtype with array-api-strict.

Functions are the standard's. Tensors stay as torch has them, so some of their attributes differ:

- `x.size` is a method, `x.T` reverses all dims, operators promote a 0-d tensor as torch does.
- webgpu has no uint64: sums and products of unsigned integers are int64 there.
- The default dtypes are float32, int64 and complex64.
- Complex numbers and `linalg`'s factorizations are on cpu; webgpu has no float64 either.
  `__array_namespace_info__().dtypes(device=...)` tells what a device has.

Memory is shared where a library asks for it: `np.asarray(t)`, `np.from_dlpack(t)`,
`torch.from_dlpack(t)` and `rl.from_dlpack(x)` make no copy of memory on cpu, bfloat16 and float8
included by DLPack. `memoryview(t)` needs Python 3.12; before, `np.asarray(t).data` serves. A tensor
of another device is refused with a hint, or copied where `device="cpu"` is asked for. A tensor that
requires grad is refused: `detach()` it. Read-only memory stays so.

A pickle holds values, dtype, device, `requires_grad` and the class; a tensor of a device that is
not there comes back on cpu. As in torch, `copy.copy` shares memory, and views of one memory stay
views of one in `copy.deepcopy`, though not in a pickle.

einops takes tensors, whichever is imported first; `einops.layers` has no layers of Rushlight.
scikit-learn and matplotlib take tensors as arrays. Where scikit-learn dispatches by the array API,
results are tensors.

| name | here | refused |
|---|---|---|
"""


def _reasons(table: dict[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in table.items() for name in names.split()}


def found(path: str) -> bool:
    """Whether the namespace has "add" or "linalg.det"."""
    try:
        reduce(getattr, path.split("."), array_api)
    except AttributeError:
        return False
    return True


def row(name: str) -> str:
    """The line of one name. KeyError for one that is missing without a reason."""
    if not found(name):
        raise KeyError(f"{name} is missing")
    reason = _reasons(REAL_ONLY).get(name.rpartition(".")[2])
    return f"| {name} | yes | {f'complex: {reason}' if reason else ''} |\n"


def page() -> str:
    """The text of docs/array_api.md."""
    return HEAD + "".join(row(name) for name in json.loads(NAMES.read_text(encoding="utf-8")))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
