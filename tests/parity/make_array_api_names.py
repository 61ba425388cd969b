"""The names of the array API standard, for docs/array_api.md: run it beside array-api-strict.

usage: python tests/parity/make_array_api_names.py   (array-api-strict 2.6)
writes tests/core/data/array_api_names.json: the names of the namespace and of its extensions.
"""

from __future__ import annotations

import json
from pathlib import Path

import array_api_strict as strict

OUT = Path(__file__).resolve().parents[1] / "core" / "data" / "array_api_names.json"
LATER = {"isin", "broadcast_shapes"}  # of the version after 2024.12


def names() -> list[str]:
    """Every name of version 2024.12, those of an extension as "linalg.det"."""
    own = {n for n in strict.__all__ if n not in LATER and "lags" not in n and n != "Device"}
    parts = {f"{m}.{n}" for m in ("fft", "linalg") for n in getattr(strict, m).__all__}
    return sorted((own | parts) - {"fft", "linalg", "__array_api_version__", "__version__"})


if __name__ == "__main__":
    OUT.write_text(json.dumps(names(), indent=0) + "\n", encoding="utf-8")
