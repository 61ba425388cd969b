"""Placing modules at the dotted paths of a checkpoint's names, and counting by these."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rushlight.core import nn


def put(root: nn.Module, path: str, module: nn.Module) -> None:
    """Make `module` the child of `root` at `path`; plain modules are made for missing parents."""
    *parents, name = path.split(".")
    for parent in parents:
        if parent not in vars(root):
            setattr(root, parent, nn.Module())
        root = getattr(root, parent)
    root.register_module(name, module)


def depths_of(names: Iterable[str], base: str, part: str) -> list[int]:
    """How many layers each stage has whose names begin with BASE, a digit and .PART.NUMBER."""
    begins = re.compile(rf"{re.escape(base)}(\d)\.{part}\.(\d{{1,3}})\.")
    layers = {(int(m[1]), int(m[2])) for n in names if (m := begins.match(n))}
    count = 1 + max((stage for stage, _ in layers), default=-1)
    return [sum(stage == i for stage, _ in layers) for i in range(count)]
