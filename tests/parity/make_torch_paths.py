"""Writes tests/core/data/torch_paths.json: every public module path of torch, and its own names.

Run it where torch is installed. A path is public if no part of it begins with an underscore. A
module's names are those of `__all__`, else the functions and classes that are defined in it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

OUT = Path(__file__).resolve().parents[1] / "core" / "data" / "torch_paths.json"


def paths(folders: list[str], prefix: str) -> Iterator[str]:
    """Every public path below `prefix`, without importing anything."""
    for found in pkgutil.iter_modules(folders, prefix):
        last = found.name.rpartition(".")[2]
        if not last.startswith("_"):
            yield found.name
            if found.ispkg:
                yield from paths([f"{folder}/{last}" for folder in folders], f"{found.name}.")


def names(path: str) -> list[str] | None:
    """A module's own names; None where torch itself cannot import it here."""
    try:
        module = importlib.import_module(path)
    except Exception:
        return None
    private = path.startswith("torch.nn.modules.")  # programs ask for nn.modules.conv._ConvNd
    own = {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == path
        and callable(value)
        and (private or not name.startswith("_"))
        and not name.startswith("__")
    }
    public = set(getattr(module, "__all__", ()))
    return sorted(public | {n for n in own if n.startswith("_")} if public else own)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {p.removeprefix("torch."): names(p) for p in paths(list(torch.__path__), "torch.")}
    rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found.items()))
    OUT.write_text("{\n" + rows + "\n}\n", encoding="utf-8")
    print(len(found), sum(v is None for v in found.values()))
