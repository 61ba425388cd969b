"""Writes models/families/index.txt: what every family is found by, without importing it.

    python tools/family_index.py

A line is a module below models/families, a tab, and the fields of its `Family` that values of
files are looked up in, as JSON. The table of docs/families.md is made of the families, too. `make
format` runs it, and tools/new_family.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from rushlight.models import families

ROOT = Path(__file__).resolve().parents[1]
FILE, PAGE = ROOT / "models" / "families" / "index.txt", ROOT / "docs" / "families.md"
ROOMS = {
    "text": "language models",
    "encoder": "encoders",
    "seq2seq": "text to text",
    "speech": "speech",
}
# Of those that see, by the first of their tasks.
SEEING = {
    "image-classification": "images",
    "image-feature-extraction": "images",
    "zero-shot-image-classification": "images and texts",
    "zero-shot-object-detection": "images and texts",
}
ROWS = re.compile(r"(?<=\| kind \| `model_type` \|\n\|---\|---\|\n)(\|.*\n)+")


def index() -> str:
    """The text of the index."""
    rows = {module: families.of_module(module).indexed() for module in families.modules()}
    short = {module.removeprefix(f"{families.__name__}."): row for module, row in rows.items()}
    return "".join(f"{name}\t{json.dumps(row)}\n" for name, row in sorted(short.items()))


def page() -> str:
    """docs/families.md with the table of the families that there are."""
    kinds: dict[str, list[str]] = {}
    for module in families.modules():
        family, room = families.of_module(module), module.split(".")[-2]
        kind = ROOMS.get(room) or SEEING.get(family.tasks[0], "objects, masks, depth")
        kinds.setdefault(kind, []).extend(family.model_types)
    rows = [f"| {kind} | {', '.join(sorted(kinds[kind]))} |\n" for kind in _order(kinds)]
    return ROWS.sub("".join(rows), PAGE.read_text(encoding="utf-8"), count=1)


def _order(kinds: dict[str, list[str]]) -> list[str]:
    last = ["images", "objects, masks, depth", "images and texts"]
    return [kind for kind in [*ROOMS.values(), *last] if kind in kinds]


def main() -> None:
    """Write the files where they change."""
    for file, text in ((FILE, index()), (PAGE, page())):
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
