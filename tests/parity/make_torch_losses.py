"""Make the losses of the programs in examples/torch/ as torch computes them.

    python tests/parity/make_torch_losses.py

Needs torch. Runs each program with torch in place of its imports of Rushlight and writes
tests/core/data/torch_losses.json.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT = ROOT / "tests" / "core" / "data" / "torch_losses.json"


def as_torch(text: str) -> str:
    """The program with its import lines changed, as its author had it under torch."""
    text = text.replace("import rushlight as torch\n", "import torch\n")
    return re.sub(r"^(import|from) rushlight\b", r"\1 torch", text, flags=re.MULTILINE)


def main() -> None:
    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted((ROOT / "examples" / "torch").glob("*.py")):
            (Path(folder) / path.name).write_text(as_torch(path.read_text("utf-8")), "utf-8")
        sys.path.insert(0, folder)
        for path in sorted(Path(folder).glob("*.py")):
            if path.stem != "seeded":
                losses[path.stem] = __import__(path.stem).train()
    rows = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in losses.items()]
    OUT.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
