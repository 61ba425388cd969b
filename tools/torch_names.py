"""Writes docs/torch.md: what each name and each module of PyTorch is here, yes or refused.

The names are tests/core/data/torch_names.json, which tests/parity/make_torch_names.py makes of
PyTorch. "yes" is what `import rushlight` finds; what it does not find needs a reason below.
"""

from __future__ import annotations

import json
from functools import reduce
from importlib import import_module
from pathlib import Path

import rushlight
from rushlight.core.torch_paths import finder

ROOT = Path(__file__).resolve().parents[1]
NAMES = ROOT / "tests" / "core" / "data" / "torch_names.json"
PATHS = NAMES.with_name("torch_paths.json")
PAGE = ROOT / "docs" / "torch.md"

# Why a name is refused. Only names that are not found are looked up.
REFUSED = {
    "float16 has no complex form here; complex64 serves": "chalf",
    "an internal name; nn.functional.grid_sample serves": "grid_sampler_2d grid_sampler_3d",
    "an internal name; nn.functional.batch_norm serves": "native_batch_norm",
    "an internal name; nn.functional.group_norm serves": "native_group_norm",
    "an internal name; nn.functional.layer_norm serves": "native_layer_norm",
    "a checksum of PyTorch's own bits": "hash_tensor",
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
            "function"
            if place.startswith("torch.")
            else "in place"
            if place.endswith("_") and not special
            else "method"
        )
        cells[kind] = "yes" if found(place) else "refused"
    reason = REASONS[name] if "refused" in cells.values() else ""
    return f"| {name} | {' | '.join(cells.values())} | {reason} |"


MODULES = """
# PyTorch's modules

Every public module path of PyTorch 2.14, imported as `rushlight.PATH`; `core/torch_paths/paths.txt`
says so. `torch.__version__` is "2.14.0+rushlight." and the version of Rushlight, so comparisons of
versions hold; `rl.version.rushlight` is the latter alone. What is below a refused path is refused.

| torch | here | refused because |
|---|---|---|
"""


def modules() -> str:
    """The table of module paths."""
    lines, above = [], ""
    for path in sorted(json.loads(PATHS.read_text(encoding="utf-8"))):
        if above and path.startswith(f"{above}."):
            continue  # its parent says why
        why = finder.refusal(path) if importable(path) is None else ""
        above = path if why else ""
        lines.append(f"| {path} | {'refused' if why else 'yes'} | {why} |\n")
    return MODULES + "".join(lines)


def importable(path: str) -> object:
    """The module, or None where it is refused."""
    try:
        return import_module(f"rushlight.{path}")
    except ModuleNotFoundError:
        return None


def page() -> str:
    """The text of docs/torch.md."""
    names: dict[str, list[str]] = json.loads(NAMES.read_text(encoding="utf-8"))
    rows = "".join(f"{row(name, places)}\n" for name, places in names.items())
    return HEAD + rows + modules()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
