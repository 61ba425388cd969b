"""Model families, one file each; the constants in the files are the only list of families.

A family's file has the line `MODEL_TYPES = ("...",)`: the values of `model_type` in config.json
that it serves. A family that reads GGUF files has `GGUF_TYPES = ("...",)`, llama.cpp's names;
`NAME/experts` is for files of NAME with experts, where plain ones are another family's, and other
words after the slash for families whose files are read as NAME. One with checkpoints that lack
config.json has `TENSORS = ("...",)`, a tensor that tells it, and `config_of`, or `files_of`, which
makes all small files of another tool's. One that opens files of another tool by itself has
`SUFFIXES = ("...",)`, which tell them, and `open_parts`. The lines are read as
text, so a family is imported only when one of its models is loaded.
"""

from __future__ import annotations

import importlib
import importlib.resources
import re
import tomllib
from functools import cache
from types import ModuleType
from typing import Any

from rushlight.core.basis.errors import LoadError, brief, nearest


@cache
def families(constant: str = "MODEL_TYPES") -> dict[str, str]:
    """A dict from each value of the constant in a family's file to the family's module."""
    line = re.compile(rf"^{constant} = \((.*?)\)", re.M | re.S)
    found: dict[str, str] = {}
    root = importlib.resources.files(__name__)
    for room in sorted(root.iterdir(), key=lambda entry: entry.name):
        if not room.is_dir() or room.name.startswith("_"):
            continue
        for file in sorted(room.iterdir(), key=lambda entry: entry.name):
            name, _, ending = file.name.partition(".")
            match = line.search(file.read_text(encoding="utf-8")) if ending == "py" else None
            for value in re.findall(r'"([^"]+)"', match[1]) if match else ():
                found[value] = f"{__name__}.{room.name}.{name}"
    return found


@cache
def measured() -> dict[str, dict[str, Any]]:
    """By model_type the "reference", and the largest relative error on "cpu" and "webgpu".

    Without errors: a family that has no row in the tables of the tests. tools/measure_families.py
    writes the file.
    """
    text = importlib.resources.files(__name__).joinpath("measured.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def family_of(value: object, what: str, constant: str = "MODEL_TYPES") -> ModuleType:
    """The module of the family that serves `value`; LoadError that names `what` if none does."""
    known = families(constant)
    if not isinstance(value, str) or value not in known:
        near = nearest(value, sorted(known), 1) if isinstance(value, str) else []
        raise LoadError(
            f"{what} {brief(value)} is not supported; {'nearest: ' * bool(near)}"
            f"{'; '.join([*near, ''])}supported: {', '.join(sorted(known))}"
        )
    return importlib.import_module(known[value])
