"""Writes models/families/index.txt: what every family is found by, without importing it.

    python tools/family_index.py

A line is a module below models/families, a tab, and the fields of its `Family` that values of
files are looked up in, as JSON. `make format` runs it, and tools/new_family.py.
"""

from __future__ import annotations

import json
from pathlib import Path

from rushlight.models import families

FILE = Path(__file__).resolve().parents[1] / "models" / "families" / "index.txt"


def index() -> str:
    """The text of the index."""
    rows = {module: families.of_module(module).indexed() for module in families.modules()}
    short = {module.removeprefix(f"{families.__name__}."): row for module, row in rows.items()}
    return "".join(f"{name}\t{json.dumps(row)}\n" for name, row in sorted(short.items()))


def main() -> None:
    """Write the file where it changes."""
    text = index()
    if not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
        FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
