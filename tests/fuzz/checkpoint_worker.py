"""Load mutated checkpoints, one line of JSON a case: its outcome and the memory that it took.

python checkpoint_worker.py gguf|folder FOLDER FIRST LAST GGUF MODEL_FOLDER
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.core.basis.errors import LoadError

DOCUMENTED = (rl.FormatError, LoadError, FileNotFoundError)


def _memory(key: str) -> int:
    """Bytes of this process in memory now (VmRSS) or at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) << 10
    raise KeyError(key)


def one(place: Path, content: bytes | dict[str, bytes]) -> dict[str, Any]:
    """The outcome of one case: "loaded", "refused", or what is wrong; its memory and its limit."""
    if isinstance(content, bytes):
        place.write_bytes(content)
        size = len(content)
    else:
        place.mkdir()
        for name, data in content.items():
            (place / name).write_bytes(data)
        size = sum(map(len, content.values()))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, outcome = _memory("VmRSS"), "loaded"
    try:
        rl.models.load(place)
    except DOCUMENTED as error:
        outcome = "refused" if str(error) else "refused without a word"
    except BaseException:
        outcome = traceback.format_exc()
    taken = _memory("VmHWM") - before
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    return {"outcome": outcome, "memory": taken, "limit": 8 * size + (64 << 20)}


def main() -> None:
    """Run the cases that the command line names."""
    kind, place, first, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    content = Path(sys.argv[5]).read_bytes()
    files = {path.name: path.read_bytes() for path in sorted(Path(sys.argv[6]).iterdir())}
    # What is imported on first use is not the cases' doing.
    for seed, ending in ((content, ".gguf"), (files, "")):
        warm = one(place.with_suffix(ending), seed)
        assert warm["outcome"] == "loaded", warm
    mutate = importlib.import_module("checkpoint_mutations").mutate
    for number in range(first, last):
        changed = mutate(content, files, 2 * number + (kind == "folder"))
        ending = ".gguf" if isinstance(changed, bytes) else ""
        print(json.dumps(one(place.with_suffix(ending), changed)), flush=True)


if __name__ == "__main__":
    main()
