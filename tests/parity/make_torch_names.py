"""The names of PyTorch's operator database, for docs/torch.md: run it where torch is installed.

usage: python tests/parity/make_torch_names.py   (torch 2.13, with expecttest and pytest for op_db)
writes tests/core/data/torch_names.json: for each entry its functions, methods and in-place methods.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

OUT = Path(__file__).resolve().parents[1] / "core" / "data" / "torch_names.json"
FAMILIES = ("nn.functional.", "special.", "linalg.", "fft.", "masked.", "signal.windows.")
# Python references, and internal names that no program calls.
INTERNAL = ("_refs.", "ops.", "jiterator", "torch._", "torch.ops.")


def names(op: Any) -> tuple[str, list[str]]:
    """An entry's name without its variant, and where it is: "torch.add", "Tensor.add_"."""
    family = next((f for f in FAMILIES if op.name.startswith(f)), "")
    base = op.name.removeprefix(family).split(".")[0]
    if family:
        return family + base, [f"torch.{family}{base}"]
    found = [f"torch.{base}"] if callable(getattr(torch, base, None)) else []
    found += [f"Tensor.{base}"] if hasattr(torch.Tensor, base) else []
    found += [f"Tensor.{op.inplace_variant.__name__}"] if op.inplace_variant is not None else []
    return base, found


def main() -> None:
    """Write the table."""
    table: dict[str, set[str]] = {}
    for op in op_db:
        private = op.name[0] == "_" and op.name[:2] != "__"
        if not private and not op.name.startswith(INTERNAL):
            name, found = names(op)
            table.setdefault(name, set()).update(found)
    rows = {name: sorted(found) for name, found in sorted(table.items()) if found}
    lines = [f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in rows.items()]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
