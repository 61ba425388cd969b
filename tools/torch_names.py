"""Writes docs/torch.md: what each name of PyTorch's operator database is here, yes or refused.

The names are tests/core/data/torch_names.json, which tests/parity/make_torch_names.py makes of
PyTorch. "yes" is what `import rushlight` finds; what it does not find needs a reason below.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import rushlight

ROOT = Path(__file__).resolve().parents[1]
NAMES = ROOT / "tests" / "core" / "data" / "torch_names.json"
PAGE = ROOT / "docs" / "torch.md"

# Why a name is refused. Only names that are not found are looked up.
REFUSED = {
    "float16 has no complex form here; complex64 serves": "chalf",
    "an internal name; nn.functional.grid_sample serves": "grid_sampler_2d grid_sampler_3d",
    "an internal name; nn.functional.batch_norm serves": "native_batch_norm",
    "an internal name; nn.functional.group_norm serves": "native_group_norm",
    "an internal name; nn.functional.layer_norm serves": "native_layer_norm",
    "a checksum of PyTorch's own bits": "hash_tensor",
    "sparse tensors are not supported": "to_sparse",
}
REASONS = {name: reason for reason, names in REFUSED.items() for name in names.split()}

HEAD = """# PyTorch's names

What each name of the operator database of PyTorch 2.13 is here; `import rushlight as torch` finds
it. `tools/torch_names.py` writes this page, a test reads it. Internal names are left out.

| torch | function | method | in place | refused because |
|---|---|---|---|---|
"""


def found(path: str) -> bool:
    """Whether rushlight has "torch.add" or "Tensor.add_"."""
    try:
        reduce(getattr, path.removeprefix("torch.").split("."), rushlight)
    except AttributeError:
        return False
    return True


def row(name: str, places: list[str]) -> str:
    """The line of one name. KeyError for one that is missing without a reason."""
    cells = {"function": "", "method": "", "in place": ""}
    for place in places:
        special = place.endswith("__")
        kind = (
            "function" if place.startswith("torch.")
            else "in place" if place.endswith("_") and not special else "method"
        )  # fmt: skip
        cells[kind] = "yes" if found(place) else "refused"
    reason = REASONS[name] if "refused" in cells.values() else ""
    return f"| {name} | {' | '.join(cells.values())} | {reason} |"


def page() -> str:
    """The text of docs/torch.md."""
    names: dict[str, list[str]] = json.loads(NAMES.read_text(encoding="utf-8"))
    return HEAD + "".join(f"{row(name, places)}\n" for name, places in names.items())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
